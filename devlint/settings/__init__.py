"""What the user wants: `[tool.devlint]` of pyproject.toml or devlint.toml, with the command line laid over it.

`keys.py` is the table of all keys; `shapes.py` says how their values are read; `loading.py` finds the files;
`model.py` holds the outcome; `selection.py` chooses rules; `published.py` makes the reference and the JSON schema.
"""

from devlint.settings.loading import FILE_NAMES, forget_files, layers_for, load_settings, settings_of, split_config
from devlint.settings.model import Settings
from devlint.settings.selection import ALWAYS_REPORTED, Selection, SettingsError, check_selectors, nearest, nearest_rule

__all__ = [
    "ALWAYS_REPORTED",
    "FILE_NAMES",
    "Selection",
    "Settings",
    "SettingsError",
    "check_selectors",
    "forget_files",
    "layers_for",
    "load_settings",
    "nearest",
    "nearest_rule",
    "settings_of",
    "split_config",
]
