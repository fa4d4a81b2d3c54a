"""What the text of each function, class and method of a module says: its names, told without a tree of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from devlint.regexes import regex

_DEFINITION = regex(r"(?P<indent>[ \t]*)(?:(?:async[ \t]+)?def|(?P<cls>class))[ \t]+(?P<name>\w+)[ \t]*(?P<bases>.*)")
_ON_SELF = regex(r"\b(?:self|cls)\.(\w+)")
_QUOTED = regex(r"['\"](\w+)['\"]")
# `a, b = ...` at the beginning of a line, `global a, b`, and `b` of `a.b`.
_BINDING = regex(r"^[ \t]+((?:\w+[ \t]*,[ \t]*){0,20}\w+)[ \t]*(?::[^=\n]{1,80})?=(?!=)", re.MULTILINE)
_OUTER = regex(r"^[ \t]+(?:global|nonlocal)[ \t]+(.*)", re.MULTILINE)
_BEHIND_DOT = regex(r"\.(\w+)")
# A line that is a comment, or a comment behind code, but for what may stand within a text.
COMMENT = regex(r"^\s*#.*$|\s#[^'\"\n]{0,400}$")


class Unit(NamedTuple):
    """A function, a class without its methods, a method, or the code of a module outside of all these (no name)."""

    path: Path
    cls: str
    name: str

    @property
    def owner(self) -> Unit:
        """The class of a method, or the unit itself."""
        return Unit(self.path, self.cls, "") if self.cls and self.name else self

    @property
    def called(self) -> str:
        """The name that a use of it has."""
        return self.name or self.cls


class Part(NamedTuple):
    """What the text of a unit says."""

    words: frozenset[str]
    # Those that stand nowhere but behind `self.`, and those that are quoted.
    on_self: frozenset[str] = frozenset()
    quoted: frozenset[str] = frozenset()
    decorators: tuple[str, ...] = ()
    bases: frozenset[str] = frozenset()


def words_of(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


class _Splitter:
    """Tells units apart by how far their lines are indented."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outside = Unit(path, "", "")
        # The class or function at the top level that lines belong to, and the method, where it is in one.
        self._top = self._here = self._outside
        # How far the methods of a class are indented.
        self._inner = ""
        self._decorators: list[str] = []
        self._heads: dict[Unit, list[str]] = {}
        self._lines: dict[Unit, list[str]] = {}
        self._named: dict[Unit, list[str]] = {}
        # Whether a class statement goes on.
        self._is_open = False

    def take(self, line: str) -> None:
        """Takes the next line, its comment left out."""
        text = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        closes = text[0] in ")]}\"'"
        if self._is_open:
            self._heads[self._here].append(line)
            self._is_open = not text.endswith(":")
        elif not closes and not indent:
            self._top = self._here = self._outside
            self._inner = ""
        elif not closes and self._here != self._top and indent <= self._inner:
            self._here = self._top
        is_outer = not indent or (bool(self._top.cls) and indent <= (self._inner or indent))
        if text.startswith("@") and is_outer and self._here in (self._outside, self._top):
            self._decorators.append(text)
            return
        match = _DEFINITION.match(line) if is_outer else None
        unit = self._defined(match, indent) if match is not None else None
        if match is not None and unit is not None:
            self._here = unit
            self._heads.setdefault(unit, []).append(match["bases"])
            self._named.setdefault(unit, []).extend(self._decorators)
            self._is_open = match["cls"] is not None and not text.endswith((":", "..."))
            line, self._decorators = match["bases"], []
        elif self._decorators:
            # The rest of a decorator of several lines.
            self._decorators[-1] += text
            return
        self._lines.setdefault(self._here, []).append(line)

    def _defined(self, match: re.Match[str], indent: str) -> Unit | None:
        if not indent:
            self._top = Unit(self._path, match["name"], "") if match["cls"] else Unit(self._path, "", match["name"])
            return self._top
        if not self._top.cls or match["cls"]:
            return None
        self._inner = indent
        return Unit(self._path, self._top.cls, match["name"])

    def parts(self) -> Iterator[tuple[Unit, Part]]:
        """Each unit, with what its lines say."""
        for unit, own in self._lines.items():
            decorators = self._named.get(unit, [])
            named = tuple(m[1] for d in decorators if (m := re.match(r"@\s*([\w.]+)", d)) is not None)
            text = "\n".join((*own, *decorators))
            words, quoted = words_of(text), frozenset(_QUOTED.findall(text))
            if unit.name:
                words -= _own_names(text) - quoted
            on_self = frozenset(_ON_SELF.findall(text)) - words_of(_ON_SELF.sub("", text))
            is_class = unit.owner == unit and unit.cls
            bases = words_of("\n".join(self._heads.get(unit, ()))) if is_class else frozenset()
            yield unit, Part(words, on_self, quoted, named, bases)


def _own_names(text: str) -> frozenset[str]:
    """The names that a function binds, and which stand nowhere behind a dot: what others are called so isn't meant there."""
    bound = words_of("\n".join(_BINDING.findall(text)))
    return bound - frozenset(_BEHIND_DOT.findall(text)) - words_of("\n".join(_OUTER.findall(text)))


def split(path: Path, text: str) -> Iterator[tuple[Unit, Part]]:
    """The units of a module's text."""
    splitter = _Splitter(path)
    for line in text.split("\n"):
        line = COMMENT.sub("", line) if "#" in line else line
        if line.strip():
            splitter.take(line)
    return splitter.parts()
