"""Classes of the project: their methods, and what their objects hold once they are made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

from devlint.knowledge import canonical, torch_knowledge
from devlint.regexes import regex
from devlint.signatures.values.values import CLASS, REFERENCE, Value
from devlint.source.modules import FunctionModel, SourceModule, bound_names, flat_statements

MAX_BASES = 24
_MADE_BY_METHOD = regex(r"self\.(\w{1,60})\s{0,9}=\s{0,9}self\.(\w{1,60})\(")
_REGISTERING = regex(r"\b(?:add_module|register_module|setattr|ModuleList|ModuleDict|Sequential)\(")


class KnowsNames(Protocol):
    """What a class asks of the reader."""

    def static_value(self, source: SourceModule, node: ast.expr) -> Value:
        """What a dotted name at a module's top level refers to, nothing being run for it."""

    def class_level(self, cls: ClassInfo, name: str) -> Value:
        """What a class body assigns to a name."""


class ClassInfo:
    """A class that the project defines."""

    def __init__(self, reader: KnowsNames, source: SourceModule, node: ast.ClassDef) -> None:
        self._reader = reader
        self.source = source
        self.node = node

    @property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def _own(self) -> dict[str, ast.stmt]:
        """What the class body binds, by name."""
        found: dict[str, ast.stmt] = {}
        for statement in flat_statements(self.node.body):
            for name in bound_names(statement):
                if not (isinstance(statement, ast.FunctionDef) and _is_setter(statement)):
                    found[name] = statement
        return found

    @cached_property
    def bases(self) -> list[Value]:
        """The classes that it is derived from."""
        return [self._reader.static_value(self.source, base) for base in self.node.bases]

    @cached_property
    def _ancestors(self) -> tuple[ClassInfo, ...]:
        """Without the class itself, which would keep itself alive."""
        found = [self]
        waiting: list[ClassInfo] = [b.data for b in self.bases if b.kind is CLASS]
        while waiting and len(found) < MAX_BASES:
            cls = waiting.pop(0)
            if cls not in found:
                found.append(cls)
                waiting += [b.data for b in cls.bases if b.kind is CLASS]
        return tuple(found[1:])

    def lineage(self) -> tuple[ClassInfo, ...]:
        """The class and those of the project that it is derived from, nearest first."""
        return (self, *self._ancestors)

    @cached_property
    def outside_bases(self) -> tuple[str, ...]:
        """The classes outside the project that it is derived from; "" for those that aren't known."""
        return tuple(
            canonical(b.data) if b.kind is REFERENCE else ""
            for cls in self.lineage()
            for b in cls.bases
            if b.kind is not CLASS
        )

    @cached_property
    def is_module(self) -> bool:
        """Whether it is a torch.nn.Module as far as can be seen."""
        known = torch_knowledge().modules
        return any(name in known for name in self.outside_bases)

    def method(self, name: str) -> FunctionModel | None:
        """A method by its name, the nearest one."""
        return _method_in(self.lineage(), name)

    def inherited_method(self, name: str) -> FunctionModel | None:
        """The method that `super().name` means in this class."""
        return _method_in(self.lineage()[1:], name)

    def methods(self) -> Iterator[FunctionModel]:
        """All methods, overridden ones left out."""
        seen: set[str] = set()
        for cls in self.lineage():
            for name, statement in cls._own.items():
                if name not in seen and isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    seen.add(name)
                    yield cls.source.function_at(statement)

    def class_attribute(self, name: str) -> Value | None:
        """What the class body says of an attribute; None where it says nothing."""
        for cls in self.lineage():
            statement = cls._own.get(name)
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                return cls._reader.class_level(cls, name)
        return None

    @cached_property
    def annotated(self) -> dict[str, tuple[SourceModule, ast.expr]]:
        """The annotations that the class bodies give to names, each with the file that it stands in."""
        return {
            statement.target.id: (cls.source, statement.annotation)
            for cls in reversed(self.lineage())
            for statement in cls.node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        }

    @cached_property
    def fields(self) -> list[str]:
        """The annotated names of the class bodies, in the order of a dataclass's or a named tuple's arguments."""
        return list(self.annotated)

    @cached_property
    def handed_on(self) -> frozenset[str]:
        """The attributes that are set to what a method of the object gives which a derived class overrides."""
        makers: dict[str, str] = {}
        for made in self.matches(_MADE_BY_METHOD):
            makers.setdefault(made[1], made[2])
        return frozenset(a for a, maker in makers.items() if sum(maker in cls._own for cls in self.lineage()) > 1)

    @cached_property
    def is_enumeration(self) -> bool:
        """Whether its members are constants."""
        return any(name.rsplit(".", 1)[-1].endswith(("Enum", "Flag")) for name in self.outside_bases)

    @cached_property
    def may_register(self) -> bool:
        """Whether the class may register a module otherwise than by an assignment."""
        return self.says(_REGISTERING)

    @cached_property
    def setters(self) -> dict[str, list[FunctionModel]]:
        """The methods beside the constructor that set each attribute of `self`: those that set it to something new, if any."""
        found: dict[str, list[FunctionModel]] = {}
        for method in self.methods():
            for name in dict.fromkeys(method.outline.sets):
                found.setdefault(name, []).append(method)
        for name, methods in found.items():
            new = [method for method in methods if name not in method.outline.lessens]
            found[name] = [method for method in new or methods if method.name != "__init__"]
        return found

    def applies(self, name: str) -> bool:
        """Whether an attribute of `self` moves with a module that has an `_apply` of its own for it."""
        return any(method.name == "_apply" for method in self.setters.get(name, ()))

    def moves(self, name: str) -> bool:
        """Whether a method beside the constructor seems to move an attribute of `self`."""
        constructor = self.method("__init__")
        moved = re.compile(rf"\bself\.{name}\s*\.\s*(?:to|cuda|cpu)\(")
        return any(constructor is None or not _stands_in(match, constructor) for match in self.matches(moved))

    @property
    def text(self) -> str:
        """The source of the class and of those in the project that it is derived from, put together anew."""
        return "".join(cls.source.text_of(cls.node) for cls in self.lineage())

    def matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Where the source of the class, and of those in the project that it is derived from, matches."""
        for cls in self.lineage():
            yield from pattern.finditer(cls.source.text, *cls.source.offsets_of(cls.node))

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Whether the source of the class, or of one in the project that it is derived from, matches."""
        return next(self.matches(pattern), None) is not None


def _stands_in(match: re.Match[str], function: FunctionModel) -> bool:
    """Whether what matched stands in a function."""
    begin, end = function.source.offsets_of(function.node)
    return match.string is function.source.text and begin <= match.start() < end


def _method_in(lineage: tuple[ClassInfo, ...], name: str) -> FunctionModel | None:
    for cls in lineage:
        statement = cls._own.get(name)
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return cls.source.function_at(statement)
        if statement is not None:
            return None
    return None


def _is_setter(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter") for d in node.decorator_list)
