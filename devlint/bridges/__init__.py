"""devlint inside of other tools: flake8 and pytest. They choose the files; devlint's own settings say all else."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devlint.engine import Linter
    from devlint.files import Source
    from devlint.reports import FileResult
    from devlint.settings import Settings


class BridgeError(Exception):
    """Settings, a baseline or a rule pack that can't be used; the text is one line."""


def settings_for(path: Path) -> Settings:
    """The settings that hold for a file; raises BridgeError."""
    return _settings(path.parent)


def result_of(source: Source, path: Path) -> FileResult:
    """What a source comes to under its file's settings, without what its baseline holds; raises BridgeError.

    A file that the settings exclude comes to nothing.
    """
    from devlint.adoption.baseline import BaselineError, without_old
    from devlint.files import is_excluded
    from devlint.reports import FileResult

    settings = settings_for(path)
    if is_excluded(path, settings):
        return FileResult(source.display)
    linter = _linter(settings)
    result = FileResult(source.display, tuple(linter.check(source)), source)
    try:
        return without_old(path, result, settings.baseline_file, settings.codes_for(path, linter.registry))
    except BaselineError as error:
        raise BridgeError(str(error)) from None


@cache
def _settings(folder: Path) -> Settings:
    from devlint.rule import load_registry
    from devlint.settings import SettingsError, load_settings

    registry = load_registry()
    for fault in registry.left_out:
        raise BridgeError(fault)
    try:
        return load_settings(folder, config=None, isolated=False, registry=registry)
    except SettingsError as error:
        raise BridgeError(str(error)) from None


@cache
def _linter(settings: Settings) -> Linter:
    from devlint.engine import Linter
    from devlint.rule import load_registry

    return Linter(settings, load_registry())
