"""The shapes that values of settings have: how each is read, and what a JSON schema says of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from devlint.patterns import is_valid
from devlint.portable import ACCEPTED, Layer, Portable, layer_of, unknown_subject
from devlint.settings.selection import SettingsError, check_selectors, nearest, specificity

if TYPE_CHECKING:
    from devlint.rule import Registry


@dataclass(frozen=True)
class At:
    """Where a value stands: `where` begins each message, `folder` is what its paths count from."""

    where: str
    folder: Path
    registry: Registry

    @property
    def key(self) -> str:
        return self.where.split()[-1]

    def part(self, name: str) -> At:
        """The same, for one entry of a table."""
        return At(f"{self.where}.'{name}'", self.folder, self.registry)

    def wrong(self, said: str) -> SettingsError:
        return SettingsError(f"{self.where}: {said}")


class Shape(Protocol):
    """What a value must be."""

    def read(self, value: object, at: At) -> object:
        """The value in the form that Settings keeps it in; raises SettingsError."""
        ...

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the value."""
        ...


_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}


def _strings(value: object, at: At) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise at.wrong(f'must be a list of strings, such as {at.key} = ["..."]')
    return tuple(value)


class Strings:
    """A list of strings."""

    def read(self, value: object, at: At) -> tuple[str, ...]:
        return _strings(value, at)

    def schema(self) -> dict[str, Any]:
        return _TEXTS


class Flag:
    """True or false."""

    def read(self, value: object, at: At) -> bool:
        if not isinstance(value, bool):
            raise at.wrong(f"must be true or false, not {value!r}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Codes:
    """Rules: codes, their beginnings, names, or ALL."""

    def read(self, value: object, at: At) -> tuple[str, ...]:
        return check_selectors(_strings(value, at), at.registry, at.where)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string", "minLength": 1}}


class Globs:
    """Path patterns as in a .gitignore file."""

    def read(self, value: object, at: At) -> tuple[str, ...]:
        patterns = _strings(value, at)
        for pattern in patterns:
            if not is_valid((pattern,)):
                raise at.wrong(f"'{pattern}' is no path pattern; write it as in a .gitignore file")
        return patterns

    def schema(self) -> dict[str, Any]:
        return _TEXTS


class Folders:
    """Folders, from the one that the settings stand in."""

    def read(self, value: object, at: At) -> tuple[Path, ...]:
        return tuple(at.folder / folder for folder in _strings(value, at))

    def schema(self) -> dict[str, Any]:
        return _TEXTS


class File:
    """One file, from the folder that the settings stand in."""

    def read(self, value: object, at: At) -> Path:
        if not isinstance(value, str) or not value:
            raise at.wrong(f'must be the path of a file, such as {at.key} = "..."')
        return Path(os.path.normpath(at.folder / Path(value).expanduser()))

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    def read(self, value: object, at: At) -> str:
        if not isinstance(value, str) or value not in self.words:
            hint = nearest(value, self.words) if isinstance(value, str) else ""
            raise at.wrong(f"must be one of {', '.join(map(repr, self.words))}, not {value!r}{hint}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


class CodesByGlob:
    """Rules by path pattern."""

    def read(self, value: object, at: At) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if not isinstance(value, dict):
            raise at.wrong("must be a table from a path pattern to a list of codes")
        Globs().read(list(value), at)
        return tuple((pattern, Codes().read(codes, at.part(pattern))) for pattern, codes in value.items())

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": Codes().schema()}


@dataclass(frozen=True)
class WordByCode:
    """One of a few words, by rule."""

    words: OneOf

    def read(self, value: object, at: At) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict):
            raise at.wrong(f'must be a table from a code to a word, such as {{ DEV5 = "{self.words.words[-1]}" }}')
        codes = check_selectors(value, at.registry, at.where)
        return tuple((code, self.words.read(value[key], at.part(key))) for code, key in zip(codes, value, strict=True))

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.words.schema()}


class KnownNames:
    """Names of any kind, each with one that devlint knows."""

    def read(self, value: object, at: At) -> tuple[tuple[str, str], ...]:
        from devlint.knowledge import known_names

        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
            raise at.wrong('must be a table such as { "mylib.Loader" = "torch.utils.data.DataLoader" }')
        known = known_names()
        for name, alike in value.items():
            if alike not in known:
                raise at.part(name).wrong(f"nothing is known of '{alike}'{nearest(alike, known)}")
        return tuple(value.items())

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "string"}}


@dataclass(frozen=True)
class Release:
    """A release of something, as (major, minor)."""

    what: str
    example: str

    _FORM: ClassVar = re.compile(r"([0-9]+)\.([0-9]+)")

    def read(self, value: object, at: At) -> tuple[int, int]:
        release = self._FORM.fullmatch(value) if isinstance(value, str) else None
        if release is None:
            raise at.wrong(f'must be a release of {self.what} such as "{self.example}", not {value!r}')
        return int(release[1]), int(release[2])

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{self._FORM.pattern}$"}


class Size:
    """A number of bytes, from such as "4 MB"."""

    _FORM = re.compile(r"([0-9]{1,6}) ?(kB|MB|GB)")
    _UNITS: Mapping[str, int] = {"kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}

    def read(self, value: object, at: At) -> int:
        size = self._FORM.fullmatch(value) if isinstance(value, str) else None
        if size is None or not int(size[1]):
            raise at.wrong(f'must be a size such as "4 MB", not {value!r}')
        return int(size[1]) * self._UNITS[size[2]]

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{self._FORM.pattern}$"}


class Versions:
    """Versions of devlint, as PEP 440 writes them; this one must be among them."""

    def read(self, value: object, at: At) -> str:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet
        from packaging.version import InvalidVersion, Version

        from devlint import __version__

        try:
            if not isinstance(value, str) or not value.strip():
                raise InvalidSpecifier
            try:
                wanted = SpecifierSet(f"=={Version(value)}")
            except InvalidVersion:
                wanted = SpecifierSet(value)
        except InvalidSpecifier:
            raise at.wrong(f'must be a version or a range such as ">=0.1,<0.3", not {value!r}') from None
        if not wanted.contains(__version__, prereleases=True):
            raise at.wrong(f"this is devlint {__version__}, and the project asks for {value}; install that")
        return str(wanted)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}


class CodesByComment:
    """Rules by the text of a comment."""

    def read(self, value: object, at: At) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if not isinstance(value, dict):
            raise at.wrong('must be a table such as { "#ignore-cuda" = ["DEV7"] }')
        found = []
        for comment, given in value.items():
            if not comment.startswith("#") or not comment.lstrip("# "):
                raise at.part(comment).wrong("must be a comment, '#' before its text")
            selectors = Codes().read(given, at.part(comment))
            codes = (rule.code for rule in at.registry.outlines() if specificity(selectors, rule) >= 0)
            found.append((comment, tuple(codes)))
        return tuple(found)

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": Codes().schema()}


class PortableTable:
    """The table `portable`."""

    def read(self, value: object, at: At) -> Portable:
        parts: Mapping[str, Shape] = {"replace": _Layers(), "cuda-only": Globs(), "accept": _SomeOf(ACCEPTED)}
        if not isinstance(value, dict):
            raise at.wrong(f"must be a table with the keys {', '.join(parts)}")
        for key in value:
            if key not in parts:
                raise at.wrong(f"unknown key '{key}'{nearest(key, parts)}")
        read: dict[str, Any] = {
            key.replace("-", "_"): parts[key].read(item, At(f"{at.where}.{key}", at.folder, at.registry))
            for key, item in value.items()
        }
        return Portable(**read)

    def schema(self) -> dict[str, Any]:
        parts = {"replace": _Layers().schema(), "cuda-only": _TEXTS, "accept": _SomeOf(ACCEPTED).schema()}
        return {"type": "object", "additionalProperties": False, "properties": parts}


class _Layers:
    """The project's own layer, by the name of what it replaces."""

    def read(self, value: object, at: At) -> tuple[tuple[str, Layer], ...]:
        if not isinstance(value, dict):
            raise at.wrong('must be a table such as { "torch.cuda" = "mypkg.platform.current" }')
        layers = []
        for subject, layer in value.items():
            if why := unknown_subject(subject):
                raise at.part(subject).wrong(why)
            if not isinstance(layer, str) or (made := layer_of(layer)) is None:
                raise at.part(subject).wrong(f'must be a dotted name such as "mypkg.platform.current()", not {layer!r}')
            layers.append((subject, made))
        return tuple(layers)

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "string"}}


@dataclass(frozen=True)
class _SomeOf:
    """A list of some of a few words."""

    words: tuple[str, ...]

    def read(self, value: object, at: At) -> tuple[str, ...]:
        given = _strings(value, at)
        for word in given:
            if word not in self.words:
                raise at.wrong(f"'{word}' isn't one of {', '.join(self.words)}{nearest(word, self.words)}")
        return given

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"enum": list(self.words)}}
