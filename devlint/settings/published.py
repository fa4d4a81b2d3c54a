"""What is told of settings: those that hold for a path, the reference, and a JSON schema for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devlint.settings.keys import KEYS, Key
from devlint.settings.loading import FILE_NAMES, Layers
from devlint.settings.model import Settings

if TYPE_CHECKING:
    from devlint.rule import Registry

_DRAFT = "http://json-schema.org/draft-07/schema#"


def shown(path: Path, found: Layers, settings: Settings, registry: Registry) -> str:
    """The settings that hold for a path, as TOML, each with where it is said."""
    said = {key: (layer.origin, layer.table[key]) for layer in found.layers for key in layer.table}
    overrides = settings.overrides
    chosen = {"select": overrides.select, "ignore": overrides.ignore, "extend-select": overrides.extend_select}
    on_top = {key: list(value) for key, value in chosen.items() if value}
    lines = [f"# The settings for {path}, from {settings.origin or 'no file'}; its patterns count from {settings.root}"]
    for key in KEYS.values():
        value = as_toml(said[key.name][1]) if key.name in said else key.default
        origin = said[key.name][0] if key.name in said else f"the default{key.unset and f': {key.unset}'}"
        lines.append(f"{'' if value else '# '}{key.name} = {value or '(not set)'}  # {origin}")
    for layer in found.layers[:-1]:
        also = {key: layer.table[key] for key in ("select", "ignore", "extend-select") if key in layer.table}
        lines += [f"# below them: {key} = {as_toml(value)}  # {layer.origin}" for key, value in also.items()]
    lines += [f"# on top: {key} = {as_toml(value)}  # the command line" for key, value in on_top.items()]
    codes = [rule.code for rule in registry.outlines() if settings.selects(rule, registry)]
    lines.append(f"# {len(codes)} rules are on: {', '.join(codes)}")
    return "".join(f"{line}\n" for line in lines)


def as_toml(value: object) -> str:
    """A value of a settings file as TOML writes it."""
    if isinstance(value, Mapping):
        entries = (f"{_quoted(str(key))} = {as_toml(item)}" for key, item in value.items())
        return f"{{ {', '.join(entries)} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value, default=str)


def _quoted(text: str) -> str:
    # A basic string of TOML is one of JSON, but for this character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def schema() -> dict[str, Any]:
    """The JSON schema of a settings file, or of the table in pyproject.toml."""
    return {
        "$schema": _DRAFT,
        "title": "devlint",
        "description": "The settings of devlint: [tool.devlint] of pyproject.toml, devlint.toml or .devlint.toml.",
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: _property(key) for key in KEYS.values()},
    }


def _property(key: Key) -> dict[str, Any]:
    import tomllib

    def value(text: str) -> Any:
        return tomllib.loads(f"value = {text}")["value"]

    told = {"description": key.text, **key.shape.schema(), "examples": [value(key.example)]}
    if key.unset:
        told["description"] += f" Without it: {key.unset}."
    return {**told, "default": value(key.default)} if key.default else told


def reference() -> str:
    """The page about settings, as Markdown."""
    names = ", ".join(f"`{name}`" for name in FILE_NAMES)
    head = f"""\
# Settings

<!-- Made by tools/generate_settings.py from devlint/settings/keys.py: change them there. -->

Settings stand in the `[tool.devlint]` table of pyproject.toml, or at the top level of a `devlint.toml` or
`.devlint.toml`. The nearest file upwards from a linted file holds; of several in one folder, the first of {names}
that has settings. The command line wins over all of them, and `--config 'key = value'` over the file alone.

`devlint check --show-settings PATH` shows what holds for a path and where it is said; `--show-files` shows which files
would be linted. An unknown key, code or value is an error that names the nearest one. Editors that know JSON schemas can
use [devlint.schema.json](devlint.schema.json).
"""
    return head + "".join(_entry(key) for key in KEYS.values())


def _entry(key: Key) -> str:
    default = f"Default: `{key.default}`" if key.default else f"Default: {key.unset or 'not set'}"
    return f"\n## {key.name}\n\n{key.text}\n\n{default}\n\n```toml\n{key.name} = {key.example}\n```\n"
