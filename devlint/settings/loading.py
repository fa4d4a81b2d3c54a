"""Which files say what: found from a folder upwards, laid over what they extend, with `--config 'key = value'` on top."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devlint.disk import read_bytes
from devlint.records import record
from devlint.settings.model import BASELINE, Settings
from devlint.settings.selection import NO_CHOICE, Selection, SettingsError, nearest

if TYPE_CHECKING:
    from devlint.rule import Registry

# Of files in one folder, the first one that has settings holds.
FILE_NAMES = (".devlint.toml", "devlint.toml", "pyproject.toml")

_PROJECT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", BASELINE)
# The fields in which a layer changes what the ones below it choose, instead of replacing it.
_CHOICES = ("select", "ignore", "extend_select")


@record(frozen=True)
class Layer:
    """What one file says, or the command line: `origin` names it in messages, `folder` is what its paths count from."""

    origin: str
    folder: Path
    table: Mapping[str, Any]


@record(frozen=True)
class Layers:
    """All that is said for the files under `root`, what counts least first; `file` is the nearest one."""

    root: Path
    file: Path | None
    layers: tuple[Layer, ...]


def load_settings(
    start: Path, *, config: Path | None, isolated: bool, registry: Registry, inline: tuple[str, ...] = ()
) -> Settings:
    """The settings for files in the folder `start` (or for the file `start`).

    They stand in `config` if given, else in the nearest folder upwards with a .devlint.toml, a devlint.toml or a
    pyproject.toml that has a `[tool.devlint]` table; `isolated` looks for none of them. `inline` are `key = value` texts
    laid over them. Raises SettingsError.
    """
    return settings_of(layers_for(start, config, isolated, inline, registry), registry)


def layers_for(start: Path, config: Path | None, isolated: bool, inline: tuple[str, ...], registry: Registry) -> Layers:
    """The layers that the same settings are made of, as they stand. Raises SettingsError."""
    start = start.absolute()
    folder = start if start.is_dir() else start.parent
    file = config.absolute() if config is not None else None if isolated else _nearest_file(folder)
    if config is not None and not config.exists():
        raise SettingsError(f"{config}: no such settings file; check --config")
    if config is not None and _table_of(config) is None:
        raise SettingsError(f"{config}: has no [tool.devlint] table; add it, or drop --config")
    said = tuple(_inline_layer(text) for text in inline)
    if file is None:
        return Layers(_project_root(folder), None, said)
    return Layers(file.parent, file, (*_with_extended(file, registry), *said))


def settings_of(found: Layers, registry: Registry) -> Settings:
    """What the layers come to. Raises SettingsError."""
    for layer in found.layers:
        # Before all else: another version may know other keys.
        _value(layer, "required-version", registry)
    values: dict[str, Any] = {}
    selections = []
    for layer in found.layers:
        said = dict(_values(layer, registry))
        choices: dict[str, Any] = {field: said.pop(field) for field in _CHOICES if field in said}
        selections.append(Selection(**choices))
        values |= said
    *inherited, own = selections or [NO_CHOICE]
    settings = Settings(root=found.root, origin=found.file, src=(found.root, found.root / "src"))
    chosen = {field: getattr(own, field) for field in _CHOICES}
    return dataclasses.replace(settings, **values, **chosen, inherited=tuple(inherited))


def _values(layer: Layer, registry: Registry) -> Iterator[tuple[str, object]]:
    """The fields of Settings that a layer speaks of, with their values."""
    # Imported here because most projects keep to the defaults.
    from devlint.settings.keys import KEYS

    for key in layer.table:
        if key not in KEYS:
            value = layer.table[key]
            # Other linters have tables inside of theirs.
            is_table = isinstance(value, dict) and not KEYS.keys().isdisjoint(value)
            hint = "; what it holds stands in devlint's table itself" if is_table else nearest(key, KEYS)
            raise SettingsError(f"{layer.origin}: unknown key '{key}'{hint}")
        if not KEYS[key].about_reading:
            yield key.replace("-", "_"), _value(layer, key, registry)


def _value(layer: Layer, key: str, registry: Registry) -> object:
    """The value of one key of a layer; None where it says nothing of it."""
    if key not in layer.table:
        return None
    from devlint.settings.keys import KEYS
    from devlint.settings.shapes import At

    return KEYS[key].shape.read(layer.table[key], At(f"{layer.origin}: {key}", layer.folder, registry))


def split_config(values: Iterable[str]) -> tuple[Path | None, tuple[str, ...]]:
    """(settings file, `key = value` texts) among the values of `--config`. Raises SettingsError."""
    values = tuple(values)
    inline = tuple(value for value in values if "=" in value and not Path(value).exists())
    files = [Path(value) for value in values if value not in inline]
    if len(files) > 1:
        raise SettingsError(
            f"--config: names {len(files)} files, {', '.join(map(str, files))}; one of them can extend the other"
        )
    return (files[0] if files else None), inline


def _nearest_file(folder: Path) -> Path | None:
    for parent in (folder, *folder.parents):
        for name in FILE_NAMES:
            if _table_of(parent / name) is not None:
                return parent / name
    return None


def _with_extended(file: Path, registry: Registry) -> list[Layer]:
    """The layers of a file and of those that it extends, the farthest first."""
    layers = [Layer(str(file), file.parent, _table_of(file) or {})]
    met = {file.resolve()}
    while isinstance(further := _value(layers[0], "extend", registry), Path):
        asking = layers[0].origin
        table = _table_of(further)
        if table is None:
            said = "has no [tool.devlint] table" if further.exists() else "there is no such file"
            raise SettingsError(f"{asking}: extend: {further}: {said}")
        if further.resolve() in met:
            raise SettingsError(f"{asking}: extend: {further} extends this file in turn; leave one of them out")
        met.add(further.resolve())
        layers.insert(0, Layer(str(further), further.parent, table))
    return layers


def _inline_layer(text: str) -> Layer:
    """The layer of a `key = value` of the command line."""
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            f"--config '{text}': is neither a settings file nor a `key = value` of TOML: {error}"
        ) from None
    for key in ("extend", "required-version"):
        if key in table:
            raise SettingsError(f"--config '{text}': {key} stands in a file")
    return Layer("--config", Path.cwd(), table)


def _project_root(folder: Path) -> Path:
    """The nearest folder upwards that looks like a project's root, else the current one where `folder` is in it, else `folder`.

    So loose files are looked at alike whether they, their folder or all is named.
    """
    for parent in (folder, *folder.parents):
        if any((parent / mark).exists() for mark in _PROJECT_MARKS):
            return parent
    try:
        here = Path.cwd()
    except OSError:
        # It was deleted.
        return folder
    return here if folder.is_relative_to(here) else folder


def forget_files() -> None:
    """Has settings files read anew: they may have changed."""
    _table_of.cache_clear()


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
