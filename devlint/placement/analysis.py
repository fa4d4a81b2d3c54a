"""What the interpreter asks about things outside its frame: names, functions, classes, annotations, evidence."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devlint.hints import Hints
from devlint.knowledge import ecosystem, torch_knowledge
from devlint.placement.annotations import Annotations
from devlint.placement.functions import Functions
from devlint.placement.interpreter import Frame
from devlint.placement.limits import BUDGET, MAX_STAR_IMPORTS
from devlint.placement.memory import Result, Workings
from devlint.placement.objects import Objects
from devlint.placement.parts import Missing, wrapper_has
from devlint.placement.values import (
    EMPTY,
    HOST,
    ITEM,
    SCALAR,
    UNKNOWN,
    Sort,
    Step,
    Value,
    displaced,
    either,
    element_of,
    inherited,
    join_all,
    reference,
    replace,
)
from devlint.source.kinds import Kind
from devlint.source.modules import FunctionModel, SourceModule
from devlint.source.project import Project

if TYPE_CHECKING:
    pass


class OutOfBudgetError(Exception):
    """The file asks for more work than it is worth; what isn't known by then stays unknown."""


class Analysis:
    """The state of one file's analysis; what it learns of other files stays with it."""

    def __init__(self, source: SourceModule, project: Project, hints: Hints) -> None:
        self.source = source
        self.project = project
        self.knowledge = torch_knowledge()
        self.closures: dict[FunctionModel, Frame] = {}
        self.missing: dict[ast.Attribute, Missing] = {}
        # Where wrappers were made that are given attributes under names that only the run knows.
        self.filled: set[Step] = set()
        self.annotations = Annotations(self)
        self.objects = Objects(self)
        self.functions = Functions(self)
        names = (*ecosystem.LOADER_NAMES, *hints.loader_names)
        self._named_like_loader = re.compile("|".join(map(translate, names))).match
        self._behaves_like = hints.behaves_like
        self._steps = 0
        self._budget = BUDGET + len(source.line_starts)
        self.workings = Workings(project.memory)

    def spend(self) -> None:
        """Counts one statement. Raises OutOfBudgetError."""
        self._steps += 1
        if self._steps > self._budget:
            raise OutOfBudgetError

    def close(self) -> None:
        """Lets go of what refers to itself in circles; the collector doesn't run while files are linted."""
        self.closures.clear()
        self.functions.call_log.clear()
        self.functions.call_nodes.clear()
        self.functions.called.clear()
        self.workings.close()
        self.source.close()
        vars(self).clear()

    def once(self, key: Hashable, source: SourceModule, work: Callable[[], Result], cut: Result, **how: Any) -> Result:
        return self.workings.once(key, work, cut, shared=source is not self.source, **how)

    # -- names of other modules ------------------------------------------------------------------------------------

    def resolve(self, value: Value, asking: SourceModule) -> Value:
        """A reference, followed into the project where it leads there."""
        return self.resolved(value.name, asking) if value.kind is Kind.REFERENCE else value

    def resolved(self, name: str, asking: SourceModule) -> Value:
        """What a qualified name stands for, where a module asks: a reference to it, if it isn't in the project."""
        key = ("resolved", name, asking.path)
        known = self.workings.recall(key, shared=asking is not self.source)
        if isinstance(known, Value):
            return known
        value = reference(name)
        return self.once(key, asking, lambda: self._follow(value, asking), value, keep_cut=False)

    def _follow(self, value: Value, asking: SourceModule) -> Value:
        if value.name in self._behaves_like:
            return reference(self._behaves_like[value.name])
        parts = value.name.split(".")
        if parts[0] in ("builtins", "torch", "numpy") or self._is_outside(parts[0], asking):
            return value
        for count in range(len(parts), 0, -1):
            module = self.project.find(".".join(parts[:count]), Path(asking.path))
            if module is None:
                continue
            rest = parts[count:]
            if not rest:
                return value
            found = self.global_value(module, rest[0])
            if found.kind is Kind.UNKNOWN and not found.place.name:
                return value if not module.bindings.get(rest[0]) else found
            for name in rest[1:]:
                found = self.member(found, name)
            return found
        return value

    def _is_outside(self, first: str, asking: SourceModule) -> bool:
        return self.project.is_outside(first, Path(asking.path))

    def member(self, value: Value, name: str) -> Value:
        match value.kind:
            case Kind.CLASS:
                return self.objects.class_attribute(value, name)
            case Kind.REFERENCE:
                return reference(f"{value.name}.{name}")
        return UNKNOWN

    def global_value(self, source: SourceModule, name: str) -> Value:
        """The value of a module's top-level name, as it is once the module has run."""
        key = ("global", source, name)
        known = self.workings.recall(key, shared=source is not self.source)
        if isinstance(known, Value):
            return known
        return self.once(key, source, lambda: self._global(source, name), UNKNOWN, keep_cut=False)

    def _global(self, source: SourceModule, name: str) -> Value:
        alike = self._behaves_like.get(f"{source.name}.{name}")
        if alike is not None:
            return reference(alike)
        bindings = source.bindings.get(name)
        if not bindings:
            return reference(f"builtins.{name}") if name in _BUILTIN_NAMES else self._starred(source, name)
        last = bindings[-1]
        # `try: from x import f` / `except ImportError: f = None`: the import tells more.
        if isinstance(last, ast.Assign) and isinstance(last.value, ast.Constant):
            last = next(
                (b for b in bindings if isinstance(b, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef))),
                last,
            )
        match last:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return Value(Kind.FUNCTION, function=source.function(last))
            case ast.ClassDef():
                return self.objects.class_value(source, last)
            case ast.Import(names=aliases):
                alias = next(a for a in aliases if (a.asname or a.name).split(".")[0] == name)
                return reference(alias.name if alias.asname else name)
            case ast.ImportFrom(names=aliases):
                alias = next(a for a in aliases if (a.asname or a.name) == name)
                return self.resolve(reference(f"{source.absolute(last)}.{alias.name}"), source)
        frame = self.module_frame(source)
        if frame is None:
            return UNKNOWN
        value = (frame.final or frame.env).get(name) or UNKNOWN
        return displaced(value) if name in source.changed_elsewhere else value

    def _starred(self, source: SourceModule, name: str) -> Value:
        """A name that only a star import can have brought; unknown where a package gathers a whole library so."""
        if len(source.star_imports) > MAX_STAR_IMPORTS:
            return UNKNOWN
        for star in source.star_imports:
            module = self.project.find(source.absolute(star), Path(source.path))
            if module is not None and module is not source:
                found = self.global_value(module, name)
                if found.kind is not Kind.UNKNOWN:
                    return found
        return UNKNOWN

    def module_frame(self, source: SourceModule, record: dict[ast.expr, Value] | None = None) -> Frame | None:
        """The run over a module's top level; None while it is under way or when it got too long."""

        def run() -> Frame | None:
            frame = Frame(self, source, top_level=True, record=record)
            try:
                frame.run(source.tree.body)
            except OutOfBudgetError:
                return None
            if source is not self.source:
                # Kept for other files' analyses: it mustn't keep this one alive.
                frame.analysis = None  # type: ignore[assignment]
            return frame

        return self.once(("module", source), source, run, None)

    # -- evidence and annotations --------------------------------------------------------------------------------

    def by_evidence(self, frame: Frame, name: str, value: Value) -> Value:
        """A value of unknown kind, taken for what its use or its name makes it."""
        if value.kind is not Kind.UNKNOWN or value is EMPTY:
            return value
        kind = (frame.function or frame.source).evidence.get(name)
        if kind is not None:
            return replace(value, kind=kind, likely=True)
        if value.place.sort is Sort.UNKNOWN and self._named_like_loader(name):
            return Value(Kind.LOADER, likely=True, name=name)
        return value

    # -- iteration and contexts ----------------------------------------------------------------------------------

    def iterate(self, value: Value) -> Value:
        """What one turn of a `for` over the value gives."""
        match value.kind:
            case Kind.EITHER:
                return either((g, self.iterate(v)) for g, v in value.options)
            case Kind.LOADER:
                told = value.place.off_host or value.place.sort is Sort.UNKNOWN
                place = value.place if told else HOST
                return Value(
                    Kind.BATCH,
                    place,
                    name=ITEM,
                    likely=True,
                    ranked=place == HOST,
                    trail=value.trail,
                    pinned=value.pinned,
                )
            case Kind.SEQUENCE:
                each = element_of(value)
                return UNKNOWN if each is EMPTY else each
            case Kind.MAPPING:
                return SCALAR
            case Kind.TENSOR | Kind.PARAMETER:
                return replace(value, kind=Kind.TENSOR, ranked=False)
            case Kind.BATCH:
                return replace(value, name="", ranked=value.ranked and value.name == ITEM)
            case Kind.NDARRAY:
                return value
            case Kind.MODULE if value.each is not None or value.elements is not None:
                each = value.each or join_all(value.elements or ())
                return inherited(value, each)
            case Kind.OBJECT if value.cls is not None and (method := value.cls.method("__iter__")) is not None:
                produced = self._run_own(method, value)
                if produced.kind is Kind.SEQUENCE:
                    return element_of(produced)
                # An iterator of its own: `__iter__` returns the object, `__next__` gives the elements.
                following = produced.cls.method("__next__") if produced.cls is not None else None
                return self._run_own(following, produced) if following is not None else UNKNOWN
            case Kind.UNKNOWN if value.place.sort is not Sort.UNKNOWN:
                return value
        return UNKNOWN

    def _run_own(self, method: FunctionModel, value: Value) -> Value:
        """What a method without further arguments gives for an object."""
        given = {method.parameters[0].arg: value} if method.parameters else {}
        return self.functions.run_function(method, given, 1)

    def entered(self, value: Value) -> Value:
        """What `with value as x` binds."""
        if value.kind is Kind.SEQUENCE:
            # A generator under contextlib.contextmanager.
            each = element_of(value)
            return UNKNOWN if each is EMPTY else each
        return UNKNOWN if value.kind is Kind.OBJECT else value

    # -- events ----------------------------------------------------------------------------------------------------

    def note_attribute(self, frame: Frame, base: Value, node: ast.Attribute) -> None:
        """Remembers a read of an attribute that a wrapper hasn't got."""
        if not frame.tells or not isinstance(node.ctx, ast.Load):
            return
        options = [v for _, v in base.alternatives()]
        for option in options:
            if not self.filled.isdisjoint(option.trail):
                continue
            if option.kind is Kind.WRAPPER and wrapper_has(option, node.attr) is False:
                self.missing[node] = Missing(option, len(options) > 1)
                return
        self.missing.pop(node, None)


_BUILTIN_NAMES = frozenset(dir(__import__("builtins")))
