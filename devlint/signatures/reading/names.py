"""Names: what a scope, a module or a qualified name refers to, followed through imports and stars."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Protocol

from devlint.regexes import regex
from devlint.signatures.state.frame import Frame, Reading
from devlint.signatures.values.values import (
    ARRAY,
    CLASS,
    CONSTANT,
    DEVICE,
    FUNCTION,
    GENERATOR,
    MODULE,
    MODULES,
    NOTHING,
    TENSOR,
    UNKNOWN_PLACE,
    Value,
    mapped,
    reference,
)
from devlint.source.devices import MOVES
from devlint.source.modules import FunctionModel, SourceModule, dotted
from devlint.source.project import Project
from devlint.source.units import all_functions

# What a constant is called that says whether there is an accelerator.
_OF_CUDA = regex(r"(?i)cuda|gpu")
_BUILTINS = frozenset(dir(__import__("builtins")))
# Names are followed through so many `from x import *`, one behind the other.
MAX_STARS = 3


class Modules(Reading, Protocol):
    """What is asked of the reader here."""

    @property
    def project(self) -> Project: ...
    @property
    def behaves_like(self) -> dict[str, str]: ...
    def is_running(self, source: SourceModule, /) -> bool: ...
    def so_far_of(self, source: SourceModule, /) -> Frame | None: ...


class Names:
    """What names refer to in the files of a project."""

    def __init__(self, reader: Modules) -> None:
        self._reader = reader
        self._changed: dict[SourceModule, dict[str, str]] = {}
        # What names of a file always refer to, whatever ran by now.
        self._fixed: dict[SourceModule, dict[str, Value]] = {}
        # Names of modules that are being looked for.
        self._looking: set[tuple[SourceModule, str]] = set()

    def forget(self, gone: frozenset[SourceModule]) -> None:
        """Lets go of what was found out of some files."""
        for source in gone:
            self._changed.pop(source, None)
        # Classes of other files may come of its own.
        self._fixed.clear()

    def close(self) -> None:
        """Lets go of everything."""
        self._changed.clear()
        self._fixed.clear()

    def lookup(self, frame: Frame, name: str) -> Value:
        """A name that the scope at hand hasn't bound before."""
        if name in frame.locals:
            # Bound later, or deleted.
            return NOTHING
        around = frame.outer
        while around is not None:
            if around.function is not None or name in around.env:
                found = around.get(name)
                if found is not None:
                    frame.found[name] = found
                    return found
                if name in around.locals:
                    return NOTHING
            around = around.outer
        if frame.function is None and name in frame.source.bindings and self._reader.is_running(frame.source):
            statement = frame.source.bindings[name][-1]
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                return self._defined(frame.source, statement)
            return NOTHING
        return self.global_value(frame.source, name, frame)

    def global_value(
        self, source: SourceModule, name: str, asking: Frame | None = None, user: SourceModule | None = None
    ) -> Value:
        """A module's top-level name, as it is once the module has run; by now, while it runs and a function of it asks.

        `user` is the file that uses it, where that is another one: it is what hangs on where the name leads.
        """
        names = self._fixed.setdefault(source, {})
        fixed = names.get(name)
        if fixed is not None:
            return fixed
        fixed = self._fixed_value(source, name)
        if fixed is not None:
            names[name] = fixed
            return fixed
        definition = _definition(source, name)
        if isinstance(definition, ast.ImportFrom):
            return self._brought(source, name, user or source, _full_name(source, definition, name))
        if name not in source.bindings:
            return self._brought(source, name, user or source)
        frame = self._reader.so_far_of(source)
        if frame is None:
            return NOTHING
        value = frame.env.get(name, NOTHING)
        if asking is not None and asking.function is not None and self._reader.is_running(source):
            asking.found[name] = frame.env.get(name)
        change = self._changed_by_functions(source).get(name)
        if change is not None:
            return mapped(value, lambda v: _displaced(v, change), self._reader.atoms)
        if value.kind is CONSTANT and value.data is False and self._is_switched(source, name):
            return NOTHING
        return value

    def _fixed_value(self, source: SourceModule, name: str) -> Value | None:
        """What a name of a file refers to, where that is told without looking at other files or at what ran."""
        alike = self._reader.behaves_like.get(f"{source.name}.{name}")
        if alike is not None:
            return reference(alike)
        if name not in source.bindings:
            return reference(f"builtins.{name}") if name in _BUILTINS else None
        match _definition(source, name):
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() as definition:
                return self._defined(source, definition)
            case ast.Import(names=aliases):
                alias = next(a for a in aliases if (a.asname or a.name).split(".")[0] == name)
                return reference(alias.name if alias.asname else name)
            case ast.ImportFrom() as definition:
                return self._outside(_full_name(source, definition, name))
        return None

    def _outside(self, name: str) -> Value | None:
        """What a qualified name refers to where the settings say it, or where it is of a library that isn't looked into."""
        alike = self._reader.behaves_like.get(name)
        if alike is not None:
            return reference(alike)
        return reference(name) if name.partition(".")[0] in _LIBRARIES else None

    def _is_switched(self, source: SourceModule, name: str) -> bool:
        """Whether a module's constant says if there is an accelerator, and another file sets it: `cuda.CUDA_ENABLED = True`."""
        return _OF_CUDA.search(name) is not None and self._reader.project.texts_match(
            rf"\b(?!self\b)\w{{1,60}}\.{name}[ \t]*=(?!=)", source.file
        )

    def _changed_by_functions(self, source: SourceModule) -> dict[str, str]:
        """Top-level names that some function rebinds, or moves, each with which of these it is."""
        known = self._changed.get(source)
        if known is None:
            known = self._changed[source] = {}
            for name in source.changed_elsewhere.intersection(source.bindings):
                # The text says that it may be so; the functions tell.
                changes = {_change_of(function, name) for function in all_functions(source) if name in function.text}
                if changes - {""}:
                    known[name] = REBOUND if REBOUND in changes else MOVED
        return known

    def _defined(self, source: SourceModule, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Value:
        if isinstance(node, ast.ClassDef):
            return Value(CLASS, data=self._reader.class_info(source, node))
        return Value(FUNCTION, data=(source.function_at(node), None, None))

    def _brought(self, source: SourceModule, name: str, user: SourceModule, full: str = "") -> Value:
        """What a module imports: by its full name, or by a star."""
        asked = (source, name)
        if asked in self._looking:
            # What it imports from a package, the package imports from it.
            return NOTHING
        self._looking.add(asked)
        try:
            if full:
                return self.resolved(full, source, user)
            behind = self._behind_stars(source, name, MAX_STARS, user)
            values = (self.global_value(module, name, user=user) for module in behind)
            return next((value for value in values if value is not NOTHING), NOTHING)
        finally:
            self._looking.discard(asked)

    def _behind_stars(self, source: SourceModule, name: str, depth: int, user: SourceModule) -> Iterator[SourceModule]:
        """The modules that bind a name which `from x import *` brings, x's own stars followed; the last one first."""
        if name.startswith("_") or not depth:
            return
        for star in reversed(source.star_imports):
            behind, path = source.absolute(star), source.file
            if not self._reader.project.may_bring(behind, name, path, user.file):
                continue
            module = self._reader.project.find(behind, path, user.file)
            if module is not None and module is not source:
                if name in module.bindings:
                    yield module
                else:
                    yield from self._behind_stars(module, name, depth - 1, user)

    def resolved(self, name: str, asking: SourceModule, user: SourceModule | None = None) -> Value:
        """A qualified name as a file that asks would import it, followed into the project where it leads there.

        `user` is the file that uses it, where that is another one.
        """
        user = user or asking
        outside = self._outside(name)
        if outside is not None:
            return outside
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            module = self._reader.project.find(".".join(parts[:count]), asking.file, user.file)
            if module is None:
                continue
            rest = parts[count:]
            if not rest:
                return reference(name)
            if rest[0] not in module.bindings and not module.star_imports:
                return reference(name)
            value = self.global_value(module, rest[0], user=user)
            for attr in rest[1:]:
                value = self._static_member(value, attr)
            return value
        return reference(name)

    def _static_member(self, value: Value, name: str) -> Value:
        if value.kind == "reference":
            return reference(f"{value.data}.{name}")
        if value.kind is CLASS:
            method = value.data.method(name)
            if method is not None:
                return Value(FUNCTION, data=(method, None, None))
            level = value.data.class_attribute(name)
            return level if level is not None else NOTHING
        return NOTHING

    def static_value(self, source: SourceModule, node: ast.expr) -> Value:
        """What a dotted name at a module's top level refers to, nothing being run for it."""
        if isinstance(node, ast.Subscript):
            node = node.value
        text = dotted(node)
        if text is None:
            return NOTHING
        first, *rest = text.split(".")
        value = self.global_value(source, first)
        for name in rest:
            value = (
                self.resolved(f"{value.data}.{name}", source)
                if value.kind == "reference"
                else self._static_member(value, name)
            )
        return value


def _definition(source: SourceModule, name: str) -> ast.stmt | None:
    """What defines or imports a name at the top level of a file last."""
    for binding in reversed(source.bindings.get(name, ())):
        if isinstance(binding, _DEFINING):
            return binding
    return None


def _full_name(source: SourceModule, node: ast.ImportFrom, name: str) -> str:
    """The qualified name of what a file imports under a name."""
    alias = next(a for a in node.names if (a.asname or a.name) == name)
    return f"{source.absolute(node)}.{alias.name}"


# Their files aren't looked for.
_LIBRARIES = frozenset({"torch", "numpy", "builtins", "os", "sys", "typing", "functools", "math", ""})
_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


REBOUND, MOVED = "rebound", "moved"


def _change_of(function: FunctionModel, name: str) -> str:
    """Whether a function rebinds a name of its module, or moves what it refers to; "" where it does neither."""
    if name in function.declared_outer:
        return REBOUND
    if name in function.local_names:
        return ""
    is_moved = any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and isinstance(n.func.value, ast.Name)
        and n.func.value.id == name
        and n.func.attr in MOVES
        for n in function.nodes
    )
    return MOVED if is_moved else ""


def _displaced(value: Value, change: str) -> Value:
    """Something that functions may move, or put something else in the place of; what moves a tensor makes another one."""
    if value.kind in MODULES:
        return Value(MODULE, UNKNOWN_PLACE, data=value.data, likely=True)
    if value.kind is TENSOR:
        return value if change == MOVED else Value(TENSOR, UNKNOWN_PLACE, likely=True)
    return value if value.kind in (CLASS, FUNCTION, "reference", ARRAY, DEVICE, GENERATOR) else NOTHING
