"""Reads functions, classes and modules on demand, each once, and keeps what was understood."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from devlint.knowledge import ecosystem
from devlint.signatures.reading import (  # noqa: F401 - some fill EXPRESSIONS
    batches,
    calls,
    comprehensions,
    implicit,
    inputs,
    outcomes,
    statements,
    tests,
    uses,
)
from devlint.signatures.reading.annotations import Annotations
from devlint.signatures.reading.expressions import evaluate, together
from devlint.signatures.reading.knots import Knot, Knots
from devlint.signatures.reading.views import View
from devlint.signatures.state import containers
from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.state.frame import ANYTHING, PLACE, Call, Frame, Key
from devlint.signatures.state.objects import class_of
from devlint.signatures.state.outcome import Effect, Need, Signature
from devlint.signatures.values.conditions import FALSE, TRUE, Atoms
from devlint.signatures.values.values import (
    ARRAY,
    CLASS,
    CONSTANT,
    DEVICE,
    FUNCTION,
    GENERATOR,
    HOST,
    LIST,
    MODULE,
    MODULES,
    NEVER,
    NONE,
    NOTHING,
    NUMBER,
    OBJECT,
    OUTCOME,
    TENSOR,
    UNKNOWN_PLACE,
    Cell,
    Place,
    Value,
    constant,
    either,
    leaves,
    mapped,
    reference,
)  # fmt: skip
from devlint.signatures.values.values import (
    Path as InputPath,
)
from devlint.source.devices import MOVES
from devlint.source.modules import FunctionModel, SourceModule, dotted
from devlint.source.project import Project
from devlint.source.units import all_functions

_BUILTINS = frozenset(dir(__import__("builtins")))
# Functions nested deeper in one another's calls than this are left unknown.
MAX_DEPTH = 60
# In a knot of more functions than these none is read once more.
MAX_KNOT = 12
# Names are followed through so many `from x import *`, one behind the other.
MAX_STARS = 3
# What a module says that computes with tensors, or moves them, for others.
_SPEAKS_OF_TENSORS = re.compile(r"\btorch\b|\btensor|\.(?:to|cuda|cpu|numpy)\(|\bdevices?\b")
# Needs that a signature keeps for its callers.
MAX_KEPT_NEEDS = 80


class Handed(NamedTuple):
    """What a call in a function gives another one, by parameter."""

    caller: FunctionModel | None
    given: dict[str, Value]


class Brought(NamedTuple):
    """The places that a call in a function brought: to what is left open, and with all that it gave."""

    caller: FunctionModel | None
    places: frozenset[Place]
    given: frozenset[Place]


class Reader:
    """The reading of one project: each function, class and module once."""

    def __init__(self, project: Project, behaves_like: dict[str, str] | None = None) -> None:
        self.project = project
        self.atoms = Atoms()
        self.annotations = Annotations(self)
        self.behaves_like = behaves_like or {}
        self._turns = 0
        self._depth = 0
        self._signatures: dict[FunctionModel, Signature | None] = {}
        self.knots = Knots()
        self.views = View(self)
        # The functions from which a knot was read that was begun elsewhere.
        self._leaders: set[FunctionModel] = set()
        # Functions that call themselves, with what their first reading told; None while that is under way.
        self._recursive: dict[FunctionModel, Signature | None] = {}
        self._modules: dict[SourceModule, Frame] = {}
        self._running: set[SourceModule] = set()
        self._active: dict[SourceModule, Frame] = {}
        self._classes: dict[ast.ClassDef, ClassInfo] = {}
        self._levels: dict[tuple[ClassInfo, str], Value] = {}
        self._lambdas: dict[ast.Lambda, FunctionModel] = {}
        self._changed: dict[SourceModule, frozenset[str]] = {}
        # Names of modules that are being looked for.
        self._looking: set[tuple[SourceModule, str]] = set()
        # Whether a module speaks of tensors or devices at all.
        self._speaking: dict[SourceModule, bool] = {}
        self._defaults: dict[FunctionModel, dict[str, Value]] = {}
        # The frames of everything that was read, by source.
        self.frames: dict[SourceModule, list[Frame]] = {}
        # By function and the places that a need of it leaves open: the places that each call of its file brought.
        self.brought: dict[tuple[FunctionModel, frozenset[Place]], list[Brought]] = {}
        self.called: set[FunctionModel] = set()
        # What each call of a function in its own file gives it. Which other files were read by now is chance.
        self.handed: dict[FunctionModel, list[Handed]] = {}

    def turn(self) -> int:
        """A number that no other reading of anything has."""
        self._turns += 1
        return self._turns

    def finished(self, source: SourceModule) -> None:
        """Lets go of how a file was read, once it has been asked for all that it holds; its signatures stay."""
        self.frames.pop(source, None)

    def forget(self, source: SourceModule) -> None:
        """Lets go of all that was understood of a file, which has another text by now."""
        self.finished(source)
        for known in (self._modules, self._active, self._changed, self._speaking):
            known.pop(source, None)
        self._signatures = {f: s for f, s in self._signatures.items() if f.source is not source}
        self._defaults = {f: d for f, d in self._defaults.items() if f.source is not source}
        self._lambdas = {n: f for n, f in self._lambdas.items() if f.source is not source}
        self._classes = {n: c for n, c in self._classes.items() if c.source is not source}
        self._levels = {key: v for key, v in self._levels.items() if key[0].source is not source}
        self.brought = {key: b for key, b in self.brought.items() if key[0].source is not source}
        self.called = {f for f in self.called if f.source is not source}
        self._leaders = {f for f in self._leaders if f.source is not source}
        self.handed = {f: given for f, given in self.handed.items() if f.source is not source}
        self.views.forget(source)

    def whole(self, source: SourceModule, within: range | None = None) -> None:
        """Reads all that a file holds, or the functions that begin within some lines and what those ask for."""
        self.module(source)
        for function in all_functions(source):
            if function.parent is None and (within is None or function.node.lineno in within):
                self.signature(function, None)

    # -- what other parts of the reading ask for -------------------------------------------------------------------

    evaluate = staticmethod(evaluate)
    bind = staticmethod(statements.bind)
    together = staticmethod(together)
    truth = staticmethod(tests.truth)
    call_value = staticmethod(calls.call_value)
    unknown_call = staticmethod(calls.unknown_call)
    property_of = staticmethod(implicit.property_of)
    iterated = staticmethod(implicit.iterated)
    called_item = staticmethod(implicit.called_item)
    copied = staticmethod(implicit.copied)
    collated = staticmethod(batches.collated)
    stays_on_host = staticmethod(batches.stays_on_host)

    def is_cuda(self, frame: Frame, value: Value, *, negative: bool = False) -> Value:
        """`x.is_cuda`, `x.is_cpu`."""
        told = tests.on_accelerator(frame, value)
        if negative:
            told = self.atoms.negated(told)
        if told in (TRUE, FALSE):
            return constant(told == TRUE)
        return Value(OUTCOME, data=told)

    # -- modules and names -----------------------------------------------------------------------------------------

    def module(self, source: SourceModule) -> Frame | None:
        """The reading of a module's top level; None while it is under way."""
        known = self._modules.get(source)
        if known is None and source not in self._running:
            self._running.add(source)
            frame = self._active[source] = Frame(self, source)
            self.frames.setdefault(source, []).append(frame)
            with suppress(RecursionError):
                statements.execute(frame, source.tree.body)
            uses.make_late(frame)
            self._modules[source] = known = frame
            _leave_behind(frame)
            self._running.discard(source)
        return known

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
                    return found
                if name in around.locals:
                    return NOTHING
            around = around.outer
        if frame.function is None and name in frame.source.bindings and frame.source in self._running:
            statement = frame.source.bindings[name][-1]
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                return self._defined(frame.source, statement)
            return NOTHING
        return self.global_value(frame.source, name)

    def global_value(self, source: SourceModule, name: str) -> Value:
        """A module's top-level name, as it is once the module has run."""
        alike = self.behaves_like.get(f"{source.name}.{name}")
        if alike is not None:
            return reference(alike)
        bindings = source.bindings.get(name)
        if not bindings:
            if name in _BUILTINS:
                return reference(f"builtins.{name}")
            return self._brought(source, name)
        definition = next(
            (b for b in reversed(bindings) if isinstance(b, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom))),
            None,
        )  # fmt: skip
        match definition:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return self._defined(source, definition)
            case ast.Import(names=aliases):
                alias = next(a for a in aliases if (a.asname or a.name).split(".")[0] == name)
                return reference(alias.name if alias.asname else name)
            case ast.ImportFrom(names=aliases):
                alias = next(a for a in aliases if (a.asname or a.name) == name)
                return self._brought(source, name, f"{source.absolute(definition)}.{alias.name}")
        frame = self.module(source) or self._active.get(source)
        if frame is None:
            return NOTHING
        value = frame.env.get(name, NOTHING)
        if name in self._changed_by_functions(source):
            return mapped(value, _displaced, self.atoms)
        return value

    def _changed_by_functions(self, source: SourceModule) -> frozenset[str]:
        """Top-level names that some function rebinds, or moves."""
        known = self._changed.get(source)
        if known is None:
            found: set[str] = set()
            for name in source.changed_elsewhere:
                # The text says that it may be so; the functions tell.
                if any(_changes(function, name) for function in all_functions(source) if name in function.text):
                    found.add(name)
            known = self._changed[source] = frozenset(found)
        return known

    def _defined(self, source: SourceModule, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Value:
        if isinstance(node, ast.ClassDef):
            return Value(CLASS, data=self.class_info(source, node))
        return Value(FUNCTION, data=(source.function(node), None, None))

    def _brought(self, source: SourceModule, name: str, full: str = "") -> Value:
        """What a module imports: by its full name, or by a star."""
        asked = (source, name)
        if asked in self._looking:
            # What it imports from a package, the package imports from it.
            return NOTHING
        self._looking.add(asked)
        try:
            if full:
                return self.resolved(full, source)
            values = (self.global_value(module, name) for module in self._behind_stars(source, name, MAX_STARS))
            return next((value for value in values if value is not NOTHING), NOTHING)
        finally:
            self._looking.discard(asked)

    def _behind_stars(self, source: SourceModule, name: str, depth: int) -> Iterator[SourceModule]:
        """The modules that bind a name which `from x import *` brings, x's own stars followed; the last one first."""
        if name.startswith("_") or not depth:
            return
        for star in reversed(source.star_imports):
            module = self.project.find(source.absolute(star), Path(source.path))
            if module is not None and module is not source:
                if name in module.bindings:
                    yield module
                else:
                    yield from self._behind_stars(module, name, depth - 1)

    def resolved(self, name: str, asking: SourceModule) -> Value:
        """A qualified name, followed into the project where it leads there."""
        if name in self.behaves_like:
            return reference(self.behaves_like[name])
        parts = name.split(".")
        if parts[0] in ("torch", "numpy", "builtins", "os", "sys", "typing", "functools", "math", ""):
            return reference(name)
        for count in range(len(parts), 0, -1):
            module = self.project.find(".".join(parts[:count]), Path(asking.path))
            if module is None:
                continue
            rest = parts[count:]
            if not rest:
                return reference(name)
            if rest[0] not in module.bindings and not module.star_imports:
                return reference(name)
            value = self.global_value(module, rest[0])
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

    # -- classes ---------------------------------------------------------------------------------------------------

    def class_info(self, source: SourceModule, node: ast.ClassDef) -> ClassInfo:
        """The class of a definition, the same one each time."""
        known = self._classes.get(node)
        if known is None:
            known = self._classes[node] = ClassInfo(self, source, node)
        return known

    def class_level(self, cls: ClassInfo, name: str) -> Value:
        """What a class body assigns to a name."""
        key = (cls, name)
        if key not in self._levels:
            self._levels[key] = NOTHING
            statement = cls._own[name]
            value = getattr(statement, "value", None)
            if value is not None:
                frame = Frame(self, cls.source)
                found = evaluate(frame, value)
                _leave_behind(frame)
                self._levels[key] = found if cls.is_enumeration else _by_default(found)
        return self._levels[key]

    def declared(self, cls: ClassInfo, name: str) -> Value | None:
        """What a class body's annotation says of an attribute."""
        source, annotation = cls.annotated.get(name, (None, None))
        return self.annotations.typed(Frame(self, source), annotation) if source is not None else None

    def refined(self, frame: Frame, value: Value, annotation: ast.expr | None) -> Value:
        """A value, with what an annotation says of it."""
        return self.annotations.refined(frame, value, annotation)

    def class_around(self, frame: Frame) -> ClassInfo | None:
        """The class of the method that a frame is of."""
        scope: Frame | None = frame
        while scope is not None:
            if scope.function is not None and scope.function.cls is not None:
                return self.class_info(scope.source, scope.function.cls)
            scope = scope.outer
        return None

    def self_of(self, frame: Frame) -> Value | None:
        """The object that the method of a frame is called on."""
        scope: Frame | None = frame
        while scope is not None:
            function = scope.function
            if function is not None and function.cls is not None and function.parameters and not function.is_static:
                return scope.env.get(function.parameters[0].arg)
            scope = scope.outer
        return None

    def instance_at(self, cls: ClassInfo, like: Value) -> Value:
        """An input that is known to be an object of a class."""
        return like.but(kind=MODULE if cls.is_module else OBJECT, data=cls)

    def original(self, frame: Frame, path: InputPath, slot: str) -> Value:
        """What a slot of an input held before the scope did anything to it."""
        return self.views.original(frame, path, slot)

    def keeps_result(self, function: FunctionModel) -> bool:
        """Whether the decorators of a function hand on what it is given and what it returns."""
        if function.keeps_result:
            return True
        for decorator, name in zip(function.node.decorator_list, function.decorators, strict=True):
            if name.rsplit(".", 1)[-1] in ecosystem.KEEPING_DECORATORS:
                continue
            value = self.static_value(function.source, decorator) if not isinstance(decorator, ast.Call) else NOTHING
            if value.kind is not FUNCTION or not _passes_through(value.data[0]):
                return False
        return True

    def holds_state(self, module: Value) -> bool:
        """Whether an object of a project's module class surely has parameters."""
        cls = class_of(module)
        return cls is not None and any(
            word in cls.text for word in ("nn.Linear(", "nn.Conv", "nn.Embedding(", "nn.Parameter(", "Parameter(")
        )

    # -- functions -------------------------------------------------------------------------------------------------

    def lambda_of(self, frame: Frame, node: ast.Lambda) -> FunctionModel:
        """A lambda as a function."""
        known = self._lambdas.get(node)
        if known is None:
            body = ast.copy_location(ast.Return(node.body), node.body)
            made = ast.FunctionDef("<lambda>", node.args, [body], [], None)
            made.lineno, made.col_offset = node.lineno, node.col_offset
            made.end_lineno, made.end_col_offset = node.end_lineno, node.end_col_offset
            known = self._lambdas[node] = FunctionModel(made, frame.source, None, frame.function)
        return known

    def root_prefix(self, function: FunctionModel) -> str:
        """What tells the inputs of a nested function from those of the ones around it."""
        depth, parent = 0, function.parent
        while parent is not None:
            depth, parent = depth + 1, parent.parent
        return "\N{PRIME}" * depth

    def was_called(self, frame: Frame, function: FunctionModel) -> None:
        """Remembers that something calls a function."""
        self.called.add(function)
        if function in frame.nested:
            frame.nested[function] = True

    def was_given(self, frame: Frame, function: FunctionModel, given: dict[str, Value]) -> None:
        """Remembers what a call in a scope gives a function, as far as that can be told."""
        if frame.source is function.source:
            self.handed.setdefault(function, []).append(Handed(frame.function, given))

    def given_to(self, function: FunctionModel) -> Sequence[dict[str, Value]]:
        """What each call of a function in its own file gives it, by parameter."""
        return [told.given for told in self.handed.get(function, ())]

    def told_by_call(
        self, frame: Frame, function: FunctionModel, need: Need, places: set[Place], given: set[Place]
    ) -> None:
        """Remembers where a call brought what a function leaves open by itself, and where all was that it gave."""
        if frame.source is function.source:
            told = Brought(frame.function, frozenset(places), frozenset(given))
            self.brought.setdefault((function, self.left_open(need)), []).append(told)

    def left_open(self, need: Need) -> frozenset[Place]:
        """The places that a function leaves open in a need."""
        return frozenset(o.place for _, v in need.operands for _, o in leaves(v, self.atoms) if o.place.is_open)

    def defaults(self, function: FunctionModel) -> dict[str, Value]:
        """What parameters are that a call gives nothing for."""
        known = self._defaults.get(function)
        if known is None:
            frame = Frame(self, function.source)
            prefix = self.root_prefix(function)
            known = {f"{name}{prefix}": evaluate(frame, d) for name, d in function.defaults.items()}
            _leave_behind(frame)
            self._defaults[function] = known
        return known

    def signature(self, function: FunctionModel, closure: Frame | None) -> Signature | None:
        """What a function needs, gives and changes; None while it is read, and where it goes too deep."""
        item = ("function", function)
        known = self._signatures.get(function)
        if known is not None and (closure is None or all(closure.get(n) == v for n, v in known.free.items())):
            self.knots.used(item)
            return known
        # What a function finds in its module doesn't hang on who asks for it first.
        self.module(function.source)
        if self.knots.is_under_way(item) or self._depth > MAX_DEPTH:
            return None
        self.knots.begin(item)
        self._depth += 1
        for active in self._running:
            # What the module's top level has made by now.
            _leave_behind(self._active[active])
        try:
            made = self._read(function, closure)
            if function in self._recursive:
                made = self._read_again(function, closure, made)
        except RecursionError:
            made = None
        finally:
            self._recursive.pop(function, None)
            self._depth -= 1
            knot = self.knots.end(item)
        self._signatures[function] = made
        return self.signature(function, closure) if knot is not None and self.settle(knot) else made

    def settle(self, knot: Knot) -> bool:
        """Sees to it that a knot was read from its first function on; whether it is read anew.

        What those told that called something in vain is forgotten: whoever asks for it reads it, now that more is known.
        """
        functions = [item[1] for item in knot.items if isinstance(item[1], FunctionModel)]
        leader = min((f for f in functions if f.parent is None), key=_place_of, default=None)
        begun = knot.items[-1][1]
        anew = leader is not None and leader is not begun and leader not in self._leaders
        if not anew and len(functions) > MAX_KNOT:
            return False
        for item in knot.items if anew else knot.unsure:
            if isinstance(item[1], FunctionModel):
                self._forget_reading(item[1])
            elif isinstance(item[1], ClassInfo):
                self.views.forget_attribute(item[1], str(item[2]))
        if anew and leader is not None:
            self._leaders.add(leader)
            self.signature(leader, None)
        return anew

    def _forget_reading(self, function: FunctionModel) -> None:
        """Lets go of what the reading of a function, and of those in it, told."""
        self._signatures.pop(function, None)
        frames = self.frames.get(function.source, [])
        frames[:] = [frame for frame in frames if not _is_within(frame.function, function)]
        for brought in self.brought.values():
            brought[:] = [call for call in brought if not _is_within(call.caller, function)]
        for handed in self.handed.values():
            handed[:] = [call for call in handed if not _is_within(call.caller, function)]

    def follows(self, asking: SourceModule, function: FunctionModel) -> bool:
        """Whether a call is followed: out of a package only where the text over there speaks of tensors or devices.

        That doesn't hang on the file at hand, so that the findings don't hang on which file comes first.
        """
        source = function.source
        package, _, rest = asking.name.partition(".")
        if not (rest or asking.is_package) or source.name.partition(".")[0] == package:
            # A script, or its own package.
            return True
        known = self._speaking.get(source)
        if known is None:
            known = self._speaking[source] = _SPEAKS_OF_TENSORS.search(source.text) is not None
        return known

    def is_reading(self, function: FunctionModel) -> bool:
        """Whether a function is being read."""
        return self.knots.is_under_way(("function", function))

    def calls_itself(self, function: FunctionModel) -> bool:
        """Whether a call of a function is met while that is being read."""
        return self.knots.is_under_way(("function", function), is_call=True)

    def so_far(self, function: FunctionModel) -> Signature | None:
        """What the first reading told of a function that is being read, and that calls itself."""
        return self._recursive.setdefault(function, None)

    def _read_again(self, function: FunctionModel, closure: Frame | None, first: Signature) -> Signature:
        """The second reading of a function that calls itself: what that gives is known by now."""
        frames = self.frames[function.source]
        self.frames[function.source] = [f for f in frames if f.function is not function or f.outer is not closure]
        self._recursive[function] = first
        second = self._read(function, closure)
        # What it needs is told by the second reading; more alternatives of what it gives would soon say nothing.
        grown = len(second.gives.options()) > len(first.gives.options())
        return second._replace(gives=first.gives) if grown or second.gives == NOTHING else second

    def _read(self, function: FunctionModel, closure: Frame | None) -> Signature:
        frame = Frame(self, function.source, function, outer=closure)
        self.frames.setdefault(function.source, []).append(frame)
        inputs.enter(frame, function, self.annotations)
        entry = dict(frame.env)
        statements.execute(frame, function.node.body)
        if frame.path:
            frame.returns.append((frame.path, NONE))
            frame.exits.append((frame.path, frame.env))
        if frame.exits:
            frame.path = TRUE
            frame.merge(frame.exits[-8:], TRUE)
        frame.path = TRUE
        for nested, was_called in frame.nested.items():
            if not was_called:
                _forget_moves_since(frame, nested)
                handed_out = self.signature(nested, frame)
                if handed_out is not None:
                    uses.escaping(frame, nested, handed_out.uses)
        uses.make_late(frame)
        # What led out of it is one state now.
        frame.exits.clear()
        gives = self._given(frame, function)
        effects, cells = _outcome_of(frame, entry)
        free = {}
        if closure is not None:
            names = {n.id for n in function.nodes if isinstance(n, ast.Name)} - function.local_names
            free = {n: v for n in names if (v := closure.get(n)) is not None}
        return Signature(
            function,
            _open_needs(frame),
            gives,
            effects,
            cells,
            frozenset(frame.tensors),
            bool(frame.returns),
            free,
            tuple(frame.uses),
        )

    def _given(self, frame: Frame, function: FunctionModel) -> Value:
        if function.is_generator:
            each = containers.any_of([y for y in frame.yields if y is not NEVER], frame)
            made = containers.made(frame, LIST, Value(containers.EACH, parts=(each,)), function.node)
            return made
        value = either(frame.returns, self.atoms)
        return self.annotations.refined(frame, value, function.node.returns)

    # -- batches ---------------------------------------------------------------------------------------------------

    # -- small things ----------------------------------------------------------------------------------------------

    def blurred(self, contents: Value) -> Value:
        """Contents of which nothing is known any more."""
        return Value(containers.EACH, parts=(NOTHING,))

    def never_returns(self, frame: Frame, node: ast.Call) -> bool:
        """Whether a call ends the program."""
        return dotted(node.func) in ("sys.exit", "exit", "quit", "os._exit")

    def call_with(self, call: Call, callee: Value, given: Sequence[Value]) -> Value:
        """A call of a function that was handed over, with these arguments."""
        inner = Call(call.frame, call.node)
        node = call.node.args[0] if call.node.args else call.node
        inner.given = [(node, value) for value in given]
        return calls.call_value(inner, callee)


def _place_of(function: FunctionModel) -> tuple[str, int, int]:
    return function.source.path, function.node.lineno, function.node.col_offset


def _is_within(function: FunctionModel | None, around: FunctionModel) -> bool:
    """Whether a function is another one, or stands in it."""
    while function is not None and function is not around:
        function = function.parent
    return function is around


def _changes(function: FunctionModel, name: str) -> bool:
    """Whether a function rebinds a name of its module, or moves what it refers to."""
    if name in function.declared_outer:
        return True
    if name in function.local_names:
        return False
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and isinstance(n.func.value, ast.Name)
        and n.func.value.id == name
        and n.func.attr in MOVES
        for n in function.nodes
    )


def _passes_through(decorator: FunctionModel) -> bool:
    """Whether a decorator gives a function that calls the decorated one with all that it is given, and returns its result."""
    if not decorator.parameters:
        return False
    wrapped = decorator.parameters[0].arg
    inner = [s for s in decorator.node.body if isinstance(s, ast.FunctionDef)]
    if len(inner) != 1:
        return False
    returns = [n for n in ast.walk(inner[0]) if isinstance(n, ast.Return)]
    return bool(returns) and all(_is_passing(r.value, wrapped, inner[0]) for r in returns)


def _is_passing(value: ast.expr | None, wrapped: str, inner: ast.FunctionDef) -> bool:
    match value:
        case ast.Call(
            func=ast.Name(id=name), args=[ast.Starred(value=ast.Name(id=rest))], keywords=[ast.keyword(arg=None)]
        ):
            return name == wrapped and inner.args.vararg is not None and inner.args.vararg.arg == rest
        case ast.Name(id=name):
            assigned = [
                n.value
                for n in inner.body
                if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and n.targets[0].id == name
            ]
            return len(assigned) == 1 and _is_passing(assigned[0], wrapped, inner)
    return False


def _by_default(value: Value) -> Value:
    """What a class body says, which the program and whoever derives from the class may set anew."""
    if value.kind is DEVICE and value.place == HOST:
        return Value(DEVICE, UNKNOWN_PLACE, likely=True)
    return Value(NUMBER) if value.kind is CONSTANT else value


def _displaced(value: Value) -> Value:
    """Something that functions may move or put something else in the place of."""
    if value.kind in MODULES:
        return Value(MODULE, UNKNOWN_PLACE, data=value.data, likely=True)
    if value.kind is TENSOR:
        return Value(TENSOR, UNKNOWN_PLACE, likely=True)
    return value if value.kind in (CLASS, FUNCTION, "reference", ARRAY, DEVICE, GENERATOR) else NOTHING


def _forget_moves_since(frame: Frame, nested: FunctionModel) -> None:
    """Before a function that was handed out is read: a module that was placed, and moved on since, may be anywhere by then."""
    for key, then in frame.placed_then.get(nested, {}).items():
        now = frame.env.get(key)
        if now is not None and now.place != then.place and then.place != HOST and then.kind is TENSOR:
            frame.env[key] = Value(TENSOR, UNKNOWN_PLACE)


def _leave_behind(frame: Frame) -> None:
    """Leaves what a scope made for those that see it from outside."""
    for key, value in frame.env.items():
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], Cell):
            key[0].last[key[1]] = value


def _outcome_of(frame: Frame, entry: dict[Key, Value]) -> tuple[tuple[Effect, ...], dict[Cell, dict[str, Value]]]:
    """What a scope's end leaves changed of its inputs, and of what it made."""
    effects: list[Effect] = []
    cells: dict[Cell, dict[str, Value]] = {}
    for key, value in frame.env.items():
        if not isinstance(key, tuple) or len(key) != 2:
            continue
        identity, slot = key
        if isinstance(identity, Cell):
            cells.setdefault(identity, {})[slot] = value
        elif (
            isinstance(identity, tuple)
            and entry.get(key) is not value
            and identity[:1] != ("class",)
            and not str(identity[0]).startswith("#")
        ):
            effects.append(Effect(identity, slot, value))
    # The place of the whole before the places of its parts.
    effects.sort(key=lambda e: (e.slot != ANYTHING, len(e.path), e.slot == PLACE))
    return tuple(effects), cells


def _open_needs(frame: Frame) -> tuple[Need, ...]:
    """The needs that a caller's values decide, one of each kind."""
    found: dict[object, Need] = {}
    for need in frame.needs:
        options = [o for _, v in need.operands for _, o in leaves(v, frame.atoms)]
        if not any(o.place.is_open or o.path is not None or isinstance(o.data, tuple) for o in options):
            continue
        places = frozenset((o.place, o.rank) for o in options)
        key = (need.sense, places, need.name if need.sense != "operation" else "", need.path)
        if key not in found:
            found[key] = need
    return tuple(found.values())[:MAX_KEPT_NEEDS]
