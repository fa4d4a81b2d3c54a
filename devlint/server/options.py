"""What the editor's own settings say: they are laid over those of the project's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from devlint.findings import Confidence, Safety
from devlint.rule import Registry
from devlint.settings import Selection, Settings, SettingsError, check_selectors, nearest


@dataclass(frozen=True)
class Options:
    """The editor's settings of one folder; their names there are those of `KEYS`."""

    enable: bool = True
    # A settings file that holds instead of the project's.
    configuration: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    confidence: Confidence | None = None
    preview: bool | None = None
    # Lint while typing, or when a file is saved.
    run: str = "onType"
    # Milliseconds without a key before a text is linted.
    debounce: int = 20
    # Whether fix-all applies unsafe fixes as well.
    unsafe_fixes: bool = False
    fix_all: bool = True
    code_lens: bool = True
    # Whether it is told that a text isn't valid Python.
    show_syntax_errors: bool = True
    hover: bool = True

    @property
    def safety(self) -> Safety:
        """How safe fix-all's fixes are at least."""
        return "unsafe" if self.unsafe_fixes else "safe"

    def laid_over(self, settings: Settings) -> Settings:
        """The settings of a project with these over them."""
        return replace(
            settings,
            overrides=Selection(self.select or None, self.ignore, self.extend_select),
            confidence=self.confidence or settings.confidence,
            preview=settings.preview if self.preview is None else self.preview,
        )


_FLAG, _TEXT, _LIST, _TIME = "true or false", "a text", "a list of texts", "a number of milliseconds"
# The names of the settings in the editor: the field, and what it takes.
KEYS: dict[str, tuple[str, str | tuple[str, ...]]] = {
    "enable": ("enable", _FLAG),
    "configuration": ("configuration", _TEXT),
    "select": ("select", _LIST),
    "ignore": ("ignore", _LIST),
    "extendSelect": ("extend_select", _LIST),
    "confidence": ("confidence", ("certain", "likely")),
    "preview": ("preview", _FLAG),
    "run": ("run", ("onType", "onSave")),
    "debounce": ("debounce", _TIME),
    "unsafeFixes": ("unsafe_fixes", _FLAG),
    "fixAll": ("fix_all", _FLAG),
    "codeLens": ("code_lens", _FLAG),
    "hover": ("hover", _FLAG),
    "showSyntaxErrors": ("show_syntax_errors", _FLAG),
}
# What editors' extensions keep beside them under the same name.
_OTHERS = frozenset({"path", "interpreter", "args", "trace", "trace.server"})


_SELECTORS = frozenset({"select", "ignore", "extendSelect"})


def told_of_devlint(told: object) -> object:
    """What an editor tells of devlint, taken out of what it may stand in; None where that is nothing."""
    told = plain(told)
    for around in ("settings", "devlint"):
        if isinstance(told, Mapping) and isinstance(told.get(around), Mapping):
            told = told[around]
    return told or None


def read_options(told: object, registry: Registry) -> tuple[Options, list[str]]:
    """(the options, what is wrong with what was told, a line each); what is wrong counts as not told."""
    told = told_of_devlint(told)
    if told is None:
        return Options(), []
    if not isinstance(told, Mapping):
        return Options(), [
            f'the editor\'s settings of devlint are {told!r}; write an object, such as {{"preview": true}}'
        ]
    found: dict[str, Any] = {}
    wrong = []
    for key, value in told.items():
        if value is None or key in _OTHERS:
            continue
        if key not in KEYS:
            wrong.append(f"devlint.{key}: there is no such setting{nearest(str(key), KEYS)}")
            continue
        field, shape = KEYS[key]
        read = _read(value, shape)
        if read is None:
            wanted = shape if isinstance(shape, str) else " or ".join(f'"{word}"' for word in shape)
            wrong.append(f"devlint.{key}: is {value!r}; write {wanted}")
        elif key in _SELECTORS:
            found[field] = tuple(_known(read, registry, f"devlint.{key}", wrong))
        else:
            found[field] = read
    return Options(**found), wrong


def _known(selectors: Iterable[str], registry: Registry, where: str, wrong: list[str]) -> Iterator[str]:
    """The selectors that name rules; of the others a line goes to what is wrong."""
    for selector in selectors:
        try:
            yield from check_selectors((selector,), registry, where)
        except SettingsError as error:
            wrong.append(str(error))


def _read(value: object, shape: str | tuple[str, ...]) -> Any:
    """A value of a shape; None where it has another one."""
    if isinstance(shape, tuple):
        return value if value in shape else None
    if shape == _FLAG:
        return value if isinstance(value, bool) else None
    if shape == _TEXT:
        return value if isinstance(value, str) and value else None
    if shape == _TIME:
        return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return tuple(value) if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value) else None


def plain(value: object) -> object:
    """Objects of the protocol's library as dictionaries and lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [plain(v) for v in value]
    if hasattr(value, "_asdict"):
        return {str(key): plain(v) for key, v in value._asdict().items()}
    return value
