"""What the user wants: `[tool.devlint]` of pyproject.toml or devlint.toml, with the command line laid over it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from devlint.disk import MAX_BYTES, read_bytes
from devlint.escapes import printable
from devlint.findings import Confidence
from devlint.hints import Hints
from devlint.patterns import is_valid, verdict
from devlint.portable import ACCEPTED, Portable, layer_of, unknown_subject

if TYPE_CHECKING:
    from devlint.rule import Registry, Rule

# Reported whatever is selected, unless ignored: the run itself went wrong.
ALWAYS_REPORTED = frozenset({"DEV000", "DEV003"})

_PROJECT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")


class SettingsError(Exception):
    """Settings that can't be used; the text is one line that says where, what, and what to write instead."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


@dataclass(frozen=True, slots=True)
class Selection:
    """One layer of choices: rules taken and left, by code, prefix of a code, name, or `ALL`.

    `select` starts anew, whatever the layer below says; the others change what that one chose. The more specific
    selector wins, and `ignore` wins a tie. A prefix takes the rules that are on by default, or all where none of them
    is; else a rule that is opt-in needs its code or name, or `ALL`.
    """

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()

    def decide(self, rule: type[Rule], registry: Registry, before: bool) -> bool:
        """Whether `rule` runs after this layer, given what the layer below said."""
        selectors = (*(self.select or ()), *self.extend_select)
        chosen = max((_rank(s, rule, opt_in=s in registry.opt_in_prefixes) for s in selectors), default=-1)
        ignored = max((_rank(s, rule, opt_in=True) for s in self.ignore), default=-1)
        if chosen < 0 and ignored < 0:
            return before and (self.select is None or rule.code in ALWAYS_REPORTED)
        return chosen > ignored or (ignored < 0 and rule.code in ALWAYS_REPORTED)


def _rank(selector: str, rule: type[Rule], *, opt_in: bool) -> int:
    """How specifically a selector names a rule; -1 when it doesn't. `opt_in`: a prefix speaks of opt-in rules too."""
    if selector == "ALL":
        return 0
    if selector in (rule.code, rule.name):
        return 100
    if rule.code.startswith(selector) and (rule.default or opt_in):
        return len(selector)
    return -1


@dataclass(frozen=True)
class Settings:
    """All settings of the files under one root. Paths are absolute."""

    root: Path
    origin: Path | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    # Folders that absolute imports start from.
    src: tuple[Path, ...] = ()
    # The least confidence that is reported.
    confidence: Confidence = "likely"
    # fnmatch patterns, added to the built-in hints: names of loaders, and of functions that run once per batch.
    loader_names: tuple[str, ...] = ()
    hot_functions: tuple[str, ...] = ()
    # (qualified name, the known name of what it behaves like)
    behaves_like: tuple[tuple[str, str], ...] = ()
    # The oldest release of torch that the code is meant for, as (major, minor); None where it isn't said.
    torch_version: tuple[int, int] | None = None
    # (the text of a comment, the codes that it switches off on its line)
    extra_suppressions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # What code that is meant for any accelerator may say of CUDA all the same.
    portable: Portable = field(default_factory=Portable)
    # Whether what is new and not yet judged on enough code is told as well.
    preview: bool = False
    # Larger files are passed over, in bytes.
    max_file_size: int = MAX_BYTES
    # What the command line selects on top of the above.
    overrides: Selection = Selection()

    def selects(self, rule: type[Rule], registry: Registry) -> bool:
        """Whether `rule` of `registry` runs, on files that no per-file ignore speaks of."""
        chosen = Selection(self.select, self.ignore, self.extend_select).decide(rule, registry, rule.default)
        return self.overrides.decide(rule, registry, chosen)

    def codes_for(self, path: Path, registry: Registry) -> frozenset[str]:
        """The codes that are reported for the file at `path`."""
        codes = _selected(self, registry)
        for pattern, selectors in self.per_file_ignores:
            if verdict((pattern,), self.root, path):
                dropped = {r.code for r in registry.rules() if any(_rank(s, r, opt_in=True) >= 0 for s in selectors)}
                codes -= dropped
        return codes

    @property
    def previews(self) -> bool:
        """Whether findings in preview are told: they are asked for, or everything is."""
        chosen = self.overrides.select if self.overrides.select is not None else self.select
        return self.preview or "ALL" in (*(chosen or ()), *self.extend_select, *self.overrides.extend_select)

    @property
    def hints(self) -> Hints:
        """What they add to the model's knowledge."""
        return Hints(self.loader_names, self.hot_functions, dict(self.behaves_like))

    def excludes(self, path: str | Path, *, folder: bool = False) -> bool:
        """Whether the `exclude` patterns speak of `path` itself (not of a folder above it)."""
        return bool(verdict(self.exclude, self.root, path, folder=folder))


@lru_cache(maxsize=64)
def _selected(settings: Settings, registry: Registry) -> frozenset[str]:
    return frozenset(rule.code for rule in registry.rules() if settings.selects(rule, registry))


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean '...'?` for the known word nearest to `word`, or an empty string."""
    import difflib

    def likeness(option: str) -> tuple[float, int]:
        ratio = difflib.SequenceMatcher(None, word.lower(), option.lower()).ratio()
        same_start = next((at for at, pair in enumerate(zip(word, option, strict=False)) if len(set(pair)) > 1), 99)
        return ratio, same_start

    best = max(known, key=likeness, default="")
    return f"; did you mean '{best}'?" if best and likeness(best)[0] >= 0.5 else ""


def check_selectors(selectors: Iterable[str], registry: Registry, where: str) -> tuple[str, ...]:
    """The selectors as they came; raises SettingsError for one that names no rule. `where` begins its message."""
    checked = tuple(selectors)
    rules = registry.rules()
    for selector in checked:
        if selector == "ALL" or any(_rank(selector, rule, opt_in=True) >= 0 for rule in rules if selector):
            continue
        known = [word for rule in rules for word in (rule.code, rule.name)]
        raise SettingsError(f"{where}: no rule is called '{selector}'{nearest(selector, known)}")
    return checked


def load_settings(start: Path, *, config: Path | None, isolated: bool, registry: Registry) -> Settings:
    """The settings for files in the folder `start` (or for the file `start`).

    They stand in `config` if given, else in the nearest folder upwards with a devlint.toml or a pyproject.toml that
    has a `[tool.devlint]` table; `isolated` looks for neither. Raises SettingsError.
    """
    start = start.absolute()
    folder = start if start.is_dir() else start.parent
    if config is not None:
        if not config.exists():
            raise SettingsError(f"{config}: no such settings file; check --config")
        table = _table_of(config)
        if table is None:
            raise SettingsError(f"{config}: has no [tool.devlint] table; add it, or drop --config")
        return _settings_from(table, config.absolute(), registry)
    if not isolated:
        for parent in (folder, *folder.parents):
            for name in ("devlint.toml", "pyproject.toml"):
                table = _table_of(parent / name)
                if table is not None:
                    return _settings_from(table, parent / name, registry)
    root = _project_root(folder)
    return Settings(root=root, src=_default_src(root))


def _project_root(folder: Path) -> Path:
    """The nearest folder upwards that looks like a project's root, else `folder`."""
    for parent in (folder, *folder.parents):
        if any((parent / mark).exists() for mark in _PROJECT_MARKS):
            return parent
    return folder


def _default_src(root: Path) -> tuple[Path, ...]:
    return (root, root / "src")


@lru_cache(maxsize=256)
def _table_of(file: Path) -> dict[str, Any] | None:
    """devlint's own table in a TOML file; None when the file or the table isn't there."""
    try:
        raw = read_bytes(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{file}: can't be read: {error.strerror or error}") from None
    if file.name == "pyproject.toml" and b"devlint" not in raw:
        return None
    import tomllib

    try:
        document = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{file}: is nested too deeply") from None
    if file.name != "pyproject.toml":
        return document
    tool = document.get("tool", {})
    table = tool.get("devlint") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"{file}: tool.devlint must be a table")
    return table


_Shape = Literal[
    "strings",
    "codes",
    "globs",
    "confidence",
    "codes by glob",
    "codes by comment",
    "folders",
    "release",
    "names by name",
    "size",
    "portable",
    "flag",
]

# Each key of the table: the shape of its value. The field of Settings has the same name with underscores.
_KEYS: Mapping[str, _Shape] = {
    "select": "codes",
    "ignore": "codes",
    "extend-select": "codes",
    "per-file-ignores": "codes by glob",
    "exclude": "globs",
    "src": "folders",
    "confidence": "confidence",
    "loader-names": "strings",
    "hot-functions": "strings",
    "behaves-like": "names by name",
    "torch-version": "release",
    "extra-suppressions": "codes by comment",
    "portable": "portable",
    "preview": "flag",
    "max-file-size": "size",
}


def _settings_from(table: Mapping[str, Any], origin: Path, registry: Registry) -> Settings:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise SettingsError(f"{origin}: unknown key '{key}'{nearest(key, _KEYS)}")
        where = f"{origin}: {key}"
        values[key.replace("-", "_")] = _read_value(value, _KEYS[key], where, origin.parent, registry)
    settings = Settings(root=origin.parent, origin=origin, src=_default_src(origin.parent))
    return dataclasses.replace(settings, **values)


def _read_value(value: object, shape: _Shape, where: str, root: Path, registry: Registry) -> object:
    """The value of one key in the form that Settings keeps it in; raises SettingsError."""
    if shape == "confidence":
        known = get_args(Confidence)
        if value not in known:
            hint = nearest(value, known) if isinstance(value, str) else ""
            raise SettingsError(f"{where}: must be one of {', '.join(map(repr, known))}, not {value!r}{hint}")
        return value
    if shape == "release":
        release = re.fullmatch(r"(\d+)\.(\d+)", value) if isinstance(value, str) else None
        if release is None:
            raise SettingsError(f'{where}: must be a release of torch such as "2.6", not {value!r}')
        return int(release[1]), int(release[2])
    if shape == "flag":
        if not isinstance(value, bool):
            raise SettingsError(f"{where}: must be true or false, not {value!r}")
        return value
    if shape == "size":
        return _size(value, where)
    if shape == "codes by glob":
        if not isinstance(value, dict):
            raise SettingsError(f"{where}: must be a table from a path pattern to a list of codes")
        _globs(tuple(value), where)
        return tuple(
            (pattern, check_selectors(_strings(codes, f"{where}.'{pattern}'"), registry, f"{where}.'{pattern}'"))
            for pattern, codes in value.items()
        )
    if shape == "codes by comment":
        return _comments(value, where, registry)
    if shape == "portable":
        return _portable(value, where)
    if shape == "names by name":
        return _known_names(value, where)
    strings = _strings(value, where)
    if shape == "codes":
        return check_selectors(strings, registry, where)
    if shape == "globs":
        return _globs(strings, where)
    if shape == "folders":
        return tuple(root / folder for folder in strings)
    return strings


_SIZE = re.compile(r"([0-9]{1,6}) ?(kB|MB|GB)")
_UNITS = {"kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def _size(value: object, where: str) -> int:
    """A number of bytes, from such as "4 MB"."""
    size = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if size is None or not int(size[1]):
        raise SettingsError(f'{where}: must be a size such as "4 MB", not {value!r}')
    return int(size[1]) * _UNITS[size[2]]


def _strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SettingsError(f'{where}: must be a list of strings, such as {where.split()[-1]} = ["..."]')
    return tuple(value)


def _known_names(value: object, where: str) -> tuple[tuple[str, str], ...]:
    """Pairs of a name of any kind and one that devlint knows."""
    from devlint.knowledge import known_names

    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        raise SettingsError(f'{where}: must be a table such as {{ "mylib.Loader" = "torch.utils.data.DataLoader" }}')
    known = known_names()
    for name, alike in value.items():
        if alike not in known:
            raise SettingsError(f"{where}.'{name}': nothing is known of '{alike}'{nearest(alike, known)}")
    return tuple(value.items())


def _comments(value: object, where: str, registry: Registry) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Pairs of a comment's text and the codes of all rules that it speaks of."""
    if not isinstance(value, dict):
        raise SettingsError(f'{where}: must be a table such as {{ "#ignore-cuda" = ["DEV7"] }}')
    found = []
    for comment, given in value.items():
        at = f"{where}.'{comment}'"
        if not comment.startswith("#") or not comment.lstrip("# "):
            raise SettingsError(f"{at}: must be a comment, '#' before its text")
        selectors = check_selectors(_strings(given, at), registry, at)
        codes = (r.code for r in registry.rules() if any(_rank(s, r, opt_in=True) >= 0 for s in selectors))
        found.append((comment, tuple(codes)))
    return tuple(found)


_PORTABLE_KEYS = ("replace", "cuda-only", "accept")


def _portable(value: object, where: str) -> Portable:
    """The table `portable`."""
    if not isinstance(value, dict):
        raise SettingsError(f"{where}: must be a table with the keys {', '.join(_PORTABLE_KEYS)}")
    for key in value:
        if key not in _PORTABLE_KEYS:
            raise SettingsError(f"{where}: unknown key '{key}'{nearest(key, _PORTABLE_KEYS)}")
    replace, accept = value.get("replace", {}), _strings(value.get("accept", []), f"{where}.accept")
    if not isinstance(replace, dict):
        raise SettingsError(f'{where}.replace: must be a table such as {{ "torch.cuda" = "mypkg.platform.current" }}')
    layers = []
    for subject, layer in replace.items():
        at = f"{where}.replace.'{subject}'"
        if why := unknown_subject(subject):
            raise SettingsError(f"{at}: {why}")
        if not isinstance(layer, str) or (made := layer_of(layer)) is None:
            raise SettingsError(f'{at}: must be a dotted name such as "mypkg.platform.current()", not {layer!r}')
        layers.append((subject, made))
    for word in accept:
        if word not in ACCEPTED:
            raise SettingsError(f"{where}.accept: '{word}' isn't one of {', '.join(ACCEPTED)}{nearest(word, ACCEPTED)}")
    cuda_only = _globs(_strings(value.get("cuda-only", []), f"{where}.cuda-only"), f"{where}.cuda-only")
    return Portable(tuple(layers), cuda_only, accept)


def _globs(patterns: tuple[str, ...], where: str) -> tuple[str, ...]:
    for pattern in patterns:
        if not is_valid((pattern,)):
            raise SettingsError(f"{where}: '{pattern}' is no path pattern; write it as in a .gitignore file")
    return patterns
