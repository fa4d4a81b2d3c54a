"""Reads functions, classes and modules on demand, and keeps what was understood.

Each is read once; a function once more where what it finds outside of it has changed since.
"""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain

from devlint.regexes import regex
from devlint.signatures.reading import (  # noqa: F401 - some fill EXPRESSIONS
    batches,
    bindings,
    calls,
    comparing,
    comprehensions,
    implicit,
    inputs,
    loops,
    outcomes,
    statements,
    tests,
    unknown_calls,
    uses,
)
from devlint.signatures.reading.annotations import Annotations
from devlint.signatures.reading.callers import Callers, is_within
from devlint.signatures.reading.ends import forget_moves_since, leave_behind, open_needs, outcome_of
from devlint.signatures.reading.expressions import evaluate, together
from devlint.signatures.reading.knots import Knot, Knots
from devlint.signatures.reading.names import Names
from devlint.signatures.reading.views import View
from devlint.signatures.state import containers
from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.state.frame import Call, Circle, Frame, Recording
from devlint.signatures.state.objects import class_of
from devlint.signatures.state.outcome import Signature
from devlint.signatures.values.conditions import FALSE, TRUE, Atoms
from devlint.signatures.values.values import (
    CONSTANT,
    DEVICE,
    EITHER,
    HOST,
    IMPORTED,
    LIST,
    MODULE,
    NEVER,
    NOTHING,
    NUMBER,
    OBJECT,
    OUTCOME,
    UNKNOWN_PLACE,
    Value,
    constant,
    either,
)  # fmt: skip
from devlint.signatures.values.values import (
    Path as InputPath,
)
from devlint.source.modules import FunctionModel, SourceModule, dotted
from devlint.source.project import Project
from devlint.source.trees import touches
from devlint.source.units import all_functions

_BUILTINS = frozenset(dir(__import__("builtins")))
# Functions nested deeper in one another's calls than this are left unknown.
MAX_DEPTH = 60
# In a knot of more functions than these none is read once more.
MAX_KNOT = 12
# Names are followed through so many `from x import *`, one behind the other.
MAX_STARS = 3
# What a module says that computes with tensors, or moves them, for others.
_SPEAKS_OF_TENSORS = regex(r"\btorch\b|\btensor|\.(?:to|cuda|cpu|numpy)\(|\bdevices?\b")
# What a package says somewhere in which tensors may go through modules that don't speak of them.
_HOLDS_TENSORS = r"\btorch\b|\.(?:cuda|cpu)\(|\.to\(\s{0,9}(?:\w{1,30}\.){0,3}device"
# What a module makes that has parameters.
_MAKES_PARAMETERS = regex(r"nn\.(?:Linear\(|Conv|Embedding\()|Parameter\(")
# Kinds of values that are told anew each time a name is asked for.
_RESOLVED = frozenset({EITHER, IMPORTED})
# A function that finds other things outside of it at more calls than these is left unknown.
MAX_CHANGES = 20


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
        # How often each function was read anew, for what it finds outside of it.
        self._changes: Counter[FunctionModel] = Counter()
        self.knots = Knots()
        self.views = View(self)
        self.names = Names(self)
        self.callers = Callers(self.atoms)
        # What scopes ask of the parts, under the reader's own name.
        self.lookup, self.resolved, self.static_value = self.names.lookup, self.names.resolved, self.names.static_value
        self.was_given, self.given_to = self.callers.was_given, self.callers.given_to
        self.was_brought = self.callers.was_brought
        self.made_at = self.views.made_at
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
        # Whether a module speaks of tensors or devices at all, and whether its package has to do with them.
        self._speaking: dict[SourceModule, bool] = {}
        self._holding: dict[SourceModule, bool] = {}
        self._defaults: dict[FunctionModel, dict[str, Value]] = {}
        # The frames of everything that was read, by source; those of functions by these too.
        self.frames: dict[SourceModule, list[Frame]] = {}
        self._frames_of: dict[FunctionModel, list[Frame]] = {}
        self._circles: dict[Circle, None] = {}
        # What is to be read aside, of which scope, once nothing is being worked out.
        self._asides: deque[tuple[Frame, Callable[[], None]]] = deque()
        self._is_aside = False
        # Who wants to know what the expressions of a file are.
        self.recordings: dict[SourceModule, Recording] = {}

    def turn(self) -> int:
        """A number that no other reading of anything has."""
        self._turns += 1
        return self._turns

    def read_aside(self, frame: Frame, read: Callable[[], None]) -> None:
        """Reads something of a scope that nobody else hears of, once nothing is being worked out."""
        self._asides.append((frame, read))
        self.read_asides()

    def read_asides(self) -> None:
        """Reads what was left aside, unless something is being worked out."""
        if self._is_aside or not self.knots.are_untied:
            return
        self._is_aside = True
        try:
            while self._asides:
                _, read = self._asides.popleft()
                with suppress(RecursionError):
                    read()
        finally:
            self._is_aside = False

    def refers_back(self, holder: Circle) -> None:
        """Hears of what holds a function that holds it: the reader's end cuts that."""
        self._circles[holder] = None

    def finished(self, source: SourceModule) -> None:
        """Lets go of how a file was read, once it has been asked for all that it holds; its signatures stay."""
        self._drop_frames(source, lambda _: True)

    def frames_in(self, source: SourceModule) -> list[Frame]:
        """The readings of a file's scopes in the order of these, whatever asked for which of them first."""
        return sorted(self.frames.get(source, ()), key=_line_of)

    def frames_of(self, function: FunctionModel) -> Sequence[Frame]:
        """The readings of a function that are kept, the first one first."""
        return self._frames_of.get(function, ())

    def _drop_frames(self, source: SourceModule, is_gone: Callable[[Frame], bool]) -> None:
        """Lets go of readings of a file."""
        self._asides = deque(
            (frame, read) for frame, read in self._asides if frame.source is not source or not is_gone(frame)
        )
        kept = []
        for frame in self.frames.pop(source, ()):
            if not is_gone(frame):
                kept.append(frame)
            elif frame.function is not None:
                readings = self._frames_of[frame.function]
                readings.remove(frame)
                if not readings:
                    del self._frames_of[frame.function]
        if kept:
            self.frames[source] = kept

    def forget(self, *sources: SourceModule) -> None:
        """Lets go of all that was understood of some files, which have another text by now, or that nobody asks for."""
        gone = frozenset(sources)
        for holder in [h for h in self._circles if h.source in gone]:
            holder.cut()
            del self._circles[holder]
        for source in sources:
            self.finished(source)
            for known in (self._modules, self._active, self._speaking, self._holding):
                known.pop(source, None)
        self._signatures = {f: s for f, s in self._signatures.items() if f.source not in gone}
        self._defaults = {f: d for f, d in self._defaults.items() if f.source not in gone}
        self._lambdas = {n: f for n, f in self._lambdas.items() if f.source not in gone}
        self._classes = {n: c for n, c in self._classes.items() if c.source not in gone}
        self._levels = {key: v for key, v in self._levels.items() if key[0].source not in gone}
        self._leaders = {f for f in self._leaders if f.source not in gone}
        self._changes = Counter({f: n for f, n in self._changes.items() if f.source not in gone})
        for part in (self.views, self.names, self.callers):
            part.forget(gone)

    def close(self) -> None:
        """Lets go of everything: frames and what they hold refer to each other."""
        for frame in (*self._modules.values(), *self._active.values(), *chain.from_iterable(self.frames.values())):
            frame.env.clear()
        for holder in self._circles:
            holder.cut()
        self._circles.clear()
        self._asides.clear()
        for known in (self._signatures, self._modules, self._active, self._classes, self._levels, self._lambdas):
            known.clear()
        for kept in (self._defaults, self._recursive, self._changes, self._speaking, self._holding):
            kept.clear()
        self._leaders.clear()
        self.knots = Knots()
        self._frames_of.clear()
        self.frames.clear()
        self.recordings.clear()
        for part in (self.views, self.names, self.callers, self.atoms):
            part.close()

    def whole(
        self, source: SourceModule, within: range | None = None, pause: Callable[[], None] = lambda: None
    ) -> None:
        """Reads all that a file holds, or the functions that begin within some lines and what those ask for.

        `pause` is called before each; an error that it raises ends the whole, and what was read is kept.
        """
        self.module(source)
        for function in all_functions(source):
            if function.parent is None and (within is None or touches(function.node, within)):
                pause()
                self.signature(function, None)

    # -- what other parts of the reading ask for -------------------------------------------------------------------

    evaluate = staticmethod(evaluate)
    bind = staticmethod(bindings.bind)
    together = staticmethod(together)
    truth = staticmethod(tests.truth)
    call_value = staticmethod(calls.call_value)
    unknown_call = staticmethod(unknown_calls.unknown_call)
    property_of = staticmethod(implicit.property_of)
    iterated = staticmethod(implicit.iterated)
    called_item = staticmethod(implicit.called_item)
    copied = staticmethod(implicit.copied)
    collated = staticmethod(batches.collated)
    stays_on_host = staticmethod(batches.stays_on_host)

    def is_cuda(self, frame: Frame, value: Value, *, negative: bool = False) -> Value:
        """`x.is_cuda`, `x.is_cpu`."""
        told = comparing.on_accelerator(frame, value)
        if negative:
            told = self.atoms.negated(told)
        if told in (TRUE, FALSE):
            return constant(told == TRUE)
        return Value(OUTCOME, data=told)

    # -- modules ---------------------------------------------------------------------------------------------------

    def module(self, source: SourceModule) -> Frame | None:
        """The reading of a module's top level; None while it is under way."""
        known = self._modules.get(source)
        if known is None and source not in self._running:
            self._running.add(source)
            frame = self._active[source] = Frame(self, source)
            frame.tell(self.recordings.get(source))
            self.frames.setdefault(source, []).append(frame)
            with suppress(RecursionError):
                statements.execute(frame, source.tree.body)
            uses.make_late(frame)
            self._modules[source] = known = frame
            leave_behind(frame)
            self._running.discard(source)
        return known

    def is_running(self, source: SourceModule) -> bool:
        """Whether a module's top level is being read."""
        return source in self._running

    def so_far_of(self, source: SourceModule) -> Frame | None:
        """The reading of a module's top level, as far as it has come."""
        return self.module(source) or self._active.get(source)

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
                leave_behind(frame)
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

    def holds_state(self, module: Value) -> bool:
        """Whether an object of a project's module class surely has parameters."""
        cls = class_of(module)
        return cls is not None and cls.says(_MAKES_PARAMETERS)

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

    def defaults(self, function: FunctionModel) -> dict[str, Value]:
        """What parameters are that a call gives nothing for."""
        known = self._defaults.get(function)
        if known is None:
            frame = Frame(self, function.source)
            prefix = self.root_prefix(function)
            known = {f"{name}{prefix}": evaluate(frame, d) for name, d in function.defaults.items()}
            leave_behind(frame)
            self._defaults[function] = known
        return known

    def signature(self, function: FunctionModel, closure: Frame | None) -> Signature | None:
        """What a function needs, gives and changes; None while it is read, and where it goes too deep."""
        item = ("function", function)
        known = self._signatures.get(function)
        if known is not None and self._finds_again(known, closure):
            self.knots.used(item)
            return known
        if closure is not None and closure.again:
            # What a scope that is read once more has inside is read with it the first time.
            if function not in self._signatures:
                closure = self._first_reading(function)
            if function in self._signatures or closure is None:
                return self._signatures.get(function)
        # What a function finds in its module doesn't hang on who asks for it first.
        self.module(function.source)
        if self.knots.is_under_way(item) or self._depth > MAX_DEPTH:
            return None
        if known is not None:
            if self._changes[function] == MAX_CHANGES:
                return None
            self._changes[function] += 1
        self.knots.begin(item)
        self._depth += 1
        for active in self._running:
            # What the module's top level has made by now.
            leave_behind(self._active[active])
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
        if knot is not None and self.settle(knot):
            return self.signature(function, closure)
        self.read_asides()
        return made

    def _finds_again(self, known: Signature, closure: Frame | None) -> bool:
        """Whether a function would find outside of it what it found when it was read."""
        if not known.found:
            return True
        source = known.function.source
        scopes = [scope for scope in (closure, self._active.get(source)) if scope is not None]
        for key, value in known.found.items():
            now: Value | None = None
            for scope in scopes:
                if value is not None and value is scope.env.get(key) and value.kind not in _RESOLVED:
                    # Most often: it is there as it was.
                    now = value
                    break
                now = scope.seen_from_inside(key)
                if now is not None:
                    break
            if now is None and isinstance(key, tuple):
                now = key[0].last.get(key[1])
            if now is not value and now != value:
                return False
        return True

    def _first_reading(self, function: FunctionModel) -> Frame | None:
        """The scope around a function, as its signature was made."""
        if function.parent is None:
            return self.so_far_of(function.source)
        outer = function.outermost
        if outer not in self._signatures and not self.is_reading(outer):
            self.signature(outer, None)
        return next(iter(self.frames_of(function.parent)), None)

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
        self._drop_frames(function.source, lambda frame: is_within(frame.function, function))
        self.callers.forget_calls_in(function)

    def project_uses(self, asking: SourceModule, pattern: str) -> bool:
        """Whether another file of the project of a source, one that is no test, matches."""
        return self.project.uses(pattern, asking.file)

    def follows(self, asking: SourceModule, function: FunctionModel) -> bool:
        """Whether a call is followed: out of a package only where the text over there speaks of tensors or devices, and
        within one only where some text of it does.

        That doesn't hang on the file at hand, so that the findings don't hang on which file comes first.
        """
        source = function.source
        package, _, rest = asking.name.partition(".")
        if not (rest or asking.is_package) or self._speaks(source):
            # Of a script, all is followed.
            return True
        return source.name.partition(".")[0] == package and (self._speaks(asking) or self._holds_tensors(asking))

    def _speaks(self, source: SourceModule) -> bool:
        """Whether a module's text speaks of tensors or devices."""
        known = self._speaking.get(source)
        if known is None:
            known = self._speaking[source] = _SPEAKS_OF_TENSORS.search(source.text) is not None
        return known

    def _holds_tensors(self, source: SourceModule) -> bool:
        """Whether the package that a module is in has anything to do with tensors: a whole library of others mostly hasn't."""
        known = self._holding.get(source)
        if known is None:
            known = self._holding[source] = self.project.package_says(_HOLDS_TENSORS, source.file)
        return known

    def is_reading(self, function: FunctionModel) -> bool:
        """Whether a function is being read."""
        return self.knots.is_under_way(("function", function))

    def is_of_knot(self, function: FunctionModel) -> bool:
        """Whether some of what a function asked for was still being worked out while it was read."""
        return self.knots.is_of_knot(("function", function))

    def calls_itself(self, function: FunctionModel) -> bool:
        """Whether a call of a function is met while that is being read."""
        return self.knots.is_under_way(("function", function), is_call=True)

    def so_far(self, function: FunctionModel) -> Signature | None:
        """What the first reading told of a function that is being read, and that calls itself."""
        return self._recursive.setdefault(function, None)

    def _read_again(self, function: FunctionModel, closure: Frame | None, first: Signature) -> Signature:
        """The second reading of a function that calls itself: what that gives is known by now."""
        self._drop_frames(function.source, lambda frame: frame.function is function and frame.outer is closure)
        self._recursive[function] = first
        second = self._read(function, closure)
        # What it needs is told by the second reading; more alternatives of what it gives would soon say nothing.
        grown = len(second.gives.options()) > len(first.gives.options())
        return second._replace(gives=first.gives) if grown or second.gives == NOTHING else second

    def _read(self, function: FunctionModel, closure: Frame | None) -> Signature:
        frame = Frame(self, function.source, function, outer=closure)
        frame.tell(self.recordings.get(function.source))
        self.frames.setdefault(function.source, []).append(frame)
        self._frames_of.setdefault(function, []).append(frame)
        inputs.enter(frame, function, self.annotations)
        entry = dict(frame.env)
        statements.run(frame, function.node.body)
        for nested, was_called in frame.nested.items():
            if not was_called:
                forget_moves_since(frame, nested)
                handed_out = self.signature(nested, frame)
                if handed_out is not None:
                    uses.escaping(frame, nested, handed_out.uses)
        uses.make_late(frame)
        # What led out of it is one state now.
        frame.exits.clear()
        gives = self._given(frame, function)
        effects, cells = outcome_of(frame, entry)
        return Signature(
            function,
            open_needs(frame),
            gives,
            effects,
            cells,
            # In an order that is the same in each run: whoever calls this asks for one after the other.
            tuple(sorted(frame.tensors, key=str)),
            bool(frame.returns),
            frame.found,
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
        node = next((node for node, value in call.given if value is not callee), call.node)
        inner.given = [(node, value) for value in given]
        return calls.call_value(inner, callee)


def _place_of(function: FunctionModel) -> tuple[str, int, int]:
    return function.source.path, function.node.lineno, function.node.col_offset


def _by_default(value: Value) -> Value:
    """What a class body says, which the program and whoever derives from the class may set anew."""
    if value.kind is DEVICE and value.place == HOST:
        return Value(DEVICE, UNKNOWN_PLACE, likely=True)
    return Value(NUMBER) if value.kind is CONSTANT else value


def _line_of(frame: Frame) -> int:
    """Where the scope of a reading begins."""
    return frame.function.node.lineno if frame.function is not None else 0
