"""Scopes read once more, for what each expression is there with what the calls in sight give."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from devlint.signatures.libraries.frameworks import is_called_by_trainer, placed_by_trainer
from devlint.signatures.reading import inputs, statements
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame, Key
from devlint.signatures.state.history import Moment, forget_moment, moment_of
from devlint.signatures.state.objects import move, place_of
from devlint.signatures.values.conditions import FALSE, TRUE, Condition
from devlint.signatures.values.values import (
    ARRAY,
    BATCH,
    CLASS,
    CONSTANT,
    DEVICE,
    EITHER,
    FUNCTION,
    GENERATOR,
    LOADER,
    METHOD,
    MODULE,
    NUMBER,
    OUTCOME,
    REFERENCE,
    TENSOR,
    UNKNOWN,
    UNKNOWN_PLACE,
    WRAPPER,
    Cell,
    Value,
    either,
    mapped,
)
from devlint.source.modules import FunctionModel, SourceModule
from devlint.source.slim import kinds

# Things that a call gives are followed this deep into one another.
MAX_DEPTH = 3
Told = TypeVar("Told")


class Given(NamedTuple):
    """One call of a function: what it gives by parameter, and what things that change in place hold then."""

    node: ast.Call
    source: SourceModule
    values: dict[str, Value]
    things: dict[Key, Value]
    # Where the object is of which a method is called.
    at: Value | None = None


# Values that say the same later on: what the others are made of changes in place.
_LASTING = frozenset(
    {TENSOR, BATCH, UNKNOWN, NUMBER, CONSTANT, OUTCOME, REFERENCE, CLASS, FUNCTION, ARRAY, DEVICE, LOADER, GENERATOR}
)


_HEARD = kinds(ast.Attribute, ast.Call)


def _lasts(value: Value) -> bool:
    """Whether a value can be told later as it is now."""
    kind = value.kind
    if kind is UNKNOWN:
        # What is done to it tells more of it.
        return value.path is None and value.data is None and value.place.sort != "input"
    if kind in _LASTING:
        return value.place.sort != "input"
    return kind is METHOD and isinstance(value.data, str)


class Recorder(Generic[Told]):
    """The values of one file's expressions, in the words of whoever asks."""

    def __init__(
        self,
        reader: Reader,
        told: Callable[[Frame, ast.expr, Value], Told],
        joined: Callable[[Told, Told], Told],
        heard: Callable[[Frame, ast.expr, Value], None] = lambda *_: None,
        called: Callable[[Frame, ast.Call, FunctionModel, Given], None] = lambda *_: None,
    ) -> None:
        """`joined` gives what an expression is that is one thing or another in turn.

        `heard` hears of each attribute and each call, `called` of each call of the project's functions.
        """
        self._reader = reader
        self._told = told
        self._joined = joined
        self._heard = heard
        self._called = called
        # What was told of an expression, since it was noted last.
        self._values: dict[ast.expr, Told] = {}
        # The scopes that were read once more: what other readings tell of them says less.
        self._read_again: set[FunctionModel | None] = set()
        # What is told when somebody asks, hardly one in fifty: as it is then, or as it was at some point.
        self._noted: dict[ast.expr, tuple[Moment | None, Frame, Value]] = {}
        # The expressions that were only read aside.
        self._of_asides: set[ast.expr] = set()
        # The scopes that remember a point that they came to.
        self._remembering: dict[Frame, None] = {}
        # The calls in the scopes that were read, by what they call, and the other way round.
        self.calls: dict[FunctionModel, list[Given]] = {}
        self.callees: dict[ast.Call, FunctionModel] = {}

    def note(self, frame: Frame, node: ast.expr, value: Value) -> None:
        """Hears what an expression is."""
        if not frame.again and frame.function in self._read_again:
            return
        if frame.is_aside:
            if node not in self._of_asides and (node in self._values or node in self._noted):
                # It was read where it stands as well, which says more.
                return
            self._of_asides.add(node)
        elif self._of_asides:
            self._of_asides.discard(node)
        in_turn = frame.in_turn
        known = self.value(node) if in_turn else None
        if node in self._values:
            del self._values[node]
        if not in_turn and _lasts(value):
            self._noted[node] = None, frame, value
        else:
            moment = moment_of(frame) if known is None else None
            if moment is not None:
                self._noted[node] = moment, frame, value
                self._remembering[frame] = None
            else:
                told = self._told(frame, node, value)
                self._values[node] = self._joined(known, told) if known is not None else told
        if type(node) in _HEARD:
            self._heard(frame, node, value)

    def value(self, node: ast.expr) -> Told | None:
        """What an expression is; None where it wasn't reached."""
        known = self._values.get(node)
        if known is None and node in self._noted:
            moment, frame, value = self._noted[node]
            known = self._told(frame, node, value) if moment is None else self._told_then(node, moment, frame, value)
            self._values[node] = known
        return known

    def _told_then(self, node: ast.expr, moment: Moment, frame: Frame, value: Value) -> Told:
        return moment.asked(lambda: self._told(frame, node, value))

    def may_change(self, node: ast.expr) -> bool:
        """Whether an expression is something that changes in place, or may be."""
        return node in self._values or (node in self._noted and self._noted[node][0] is not None)

    def untold(self, node: ast.expr) -> Value | None:
        """What an expression is of which nobody asked so far."""
        found = self._noted.get(node)
        return found[2] if found is not None and found[0] is not None and node not in self._values else None

    def forget(self) -> None:
        """Lets go of everything: a scope and the point that it came to refer to each other."""
        for frame in self._remembering:
            forget_moment(frame)
        self._remembering.clear()
        self._values.clear()
        self._noted.clear()
        self._of_asides.clear()
        self.calls.clear()
        self.callees.clear()

    def called(self, frame: Frame, node: ast.Call, function: FunctionModel, given: dict[str, Value]) -> None:
        """Hears of a call of a function of the project."""
        self.callees[node] = function
        me = given.get(function.parameters[0].arg) if function.cls is not None and function.parameters else None
        at = place_of(frame, me) if me is not None and me.kind is MODULE else None
        things = _things(frame, given)
        known = self.calls.setdefault(function, [])
        known[:] = [call for call in known if call.node is not node]
        call = Given(node, frame.source, {n: _closed(v, self._reader) for n, v in given.items()}, things, at)
        known.append(call)
        self._called(frame, node, function, call)

    def module(self, source: SourceModule) -> Frame:
        """The top level of a file."""
        frame = self._reader.module(source)
        if frame is not None and frame.record is self:
            return frame
        frame = self._begun(Frame(self._reader, source))
        with suppress(RecursionError):
            statements.execute(frame, source.tree.body)
        frame.path = TRUE
        return frame

    def function(
        self, function: FunctionModel, outer: Frame | None, calls: Sequence[Given], me: Value | None = None
    ) -> Frame:
        """A function's body, its parameters being what the calls give; a method's object is `me`, where that is known."""
        # Calls that give the same are one.
        calls = list({tuple((n, _alike(v)) for n, v in call.values.items()): call for call in calls}.values())
        given = self._all_given(function, calls)
        at = None if me is not None else _at_one_place(calls)
        is_step = function.cls is not None and is_called_by_trainer(function)
        if me is None and not given and at is None and not is_step:
            first = self._first(function, outer)
            if first is not None:
                return first
        frame = self._begun(Frame(self._reader, function.source, function, outer=outer))
        inputs.enter(frame, function, self._reader.annotations)
        for call in calls:
            frame.env.update(call.things)
        frame.env |= given
        if me is not None and function.parameters:
            frame.env[function.parameters[0].arg] = me
        if at is not None:
            move(frame, frame.env[function.parameters[0].arg], at, at.step)
        if is_step and function.cls is not None:
            cls = self._reader.class_info(function.source, function.cls)
            placed_by_trainer(frame, function, cls.outside_bases)
        with suppress(RecursionError):
            statements.run(frame, function.node.body)
        frame.path = TRUE
        return frame

    def _begun(self, frame: Frame) -> Frame:
        self._read_again.add(frame.function)
        frame.tell(self)
        frame.again = True
        return frame

    def _first(self, function: FunctionModel, outer: Frame | None) -> Frame | None:
        """The reading that made the signature of a function, if that was heard, and if all that it asked for was known."""
        if outer is not None and (outer.again or outer.record is not self):
            return None
        if function.parent is None:
            self._reader.signature(function, None)
        if self._reader.is_of_knot(function):
            return None
        return next((f for f in self._reader.frames_of(function) if f.record is self and not f.again), None)

    def _all_given(self, function: FunctionModel, calls: Sequence[Given]) -> dict[Key, Value]:
        """What the calls give for parameters, by the names of those of which all calls tell, or one that brings a wrapper."""
        prefix, source = self._reader.root_prefix(function), function.source
        bringing = [number for number, call in enumerate(calls) if any(map(_is_wrapper, call.values.values()))]
        plain = Frame(self._reader, source, function)
        if bringing:
            inputs.enter(plain, function, self._reader.annotations)
        found: dict[Key, Value] = {}
        for position, argument in enumerate(function.parameters):
            if position or function.cls is None or function.is_static:
                name = f"{argument.arg}{prefix}"
                given = self._given(function, name, calls)
                if given is None and bringing:
                    given = self._brought(function, name, calls, bringing, plain.env[argument.arg])
                if given is not None:
                    found[argument.arg] = self._reader.refined(Frame(self._reader, source), given, argument.annotation)
        return found

    def _given(self, function: FunctionModel, name: str, calls: Sequence[Given]) -> Value | None:
        """What the calls give for a parameter; None where one of them doesn't tell."""
        seen = [(number, call.values[name]) for number, call in enumerate(calls) if name in call.values]
        if not seen or not all(_is_known(value) for _, value in seen):
            return None
        if all(o.kind is CONSTANT and not isinstance(o.data, str) for _, value in seen for _, o in value.options()):
            # Which way a call goes by a flag says nothing of other calls.
            return None
        atoms = self._reader.atoms
        # What differs in nothing that matters is one value, whichever of these calls it is.
        alike: dict[Hashable, tuple[Condition, Value]] = {}
        for number, value in seen:
            when, first = alike.get(_alike(value), (FALSE, value))
            alike[_alike(value)] = atoms.either(when, self._this_call(function, number, len(calls))), first
        if len(alike) == 1:
            return seen[0][1]
        return either(alike.values(), atoms)

    def _brought(
        self, function: FunctionModel, name: str, calls: Sequence[Given], bringing: Sequence[int], otherwise: Value
    ) -> Value | None:
        """What a parameter is where calls bring wrappers, of which one is enough: those, and the constants beside them."""
        atoms, default = self._reader.atoms, self._reader.defaults(function).get(name)
        told: list[tuple[Condition, Value]] = []
        rest = TRUE
        for number in bringing:
            value = calls[number].values.get(name, default)
            options = value.options() if value is not None else ()
            if any(o.kind is WRAPPER for _, o in options):
                options = tuple((when, o) for when, o in options if o.kind is WRAPPER)
            elif not all(o.kind is CONSTANT for _, o in options):
                continue
            this_call = self._this_call(function, number, len(calls))
            for condition, option in options:
                when = atoms.both(this_call, condition)
                told.append((when, option))
                rest = atoms.both(rest, atoms.negated(when))
        return either([*told, (rest, otherwise)], atoms) if told else None

    def _this_call(self, function: FunctionModel, number: int, calls: int) -> Condition:
        """The condition that a function was called from one place of several, by the bits of its number."""
        atoms, told = self._reader.atoms, TRUE
        for bit in range((calls - 1).bit_length()):
            one = atoms.literal(("this is call", function, bit))
            told = atoms.both(told, one if number >> bit & 1 else atoms.negated(one))
        return told


def _at_one_place(calls: Sequence[Given]) -> Value | None:
    """Where all calls of a method have its object, if that is on an accelerator."""
    places = {call.at for call in calls}
    at = places.pop() if len(places) == 1 else None
    return at if at is not None and at.kind is not EITHER and at.place.off_host else None


def _alike(value: Value) -> Hashable:
    """What of a value matters to the function that is given it."""
    if value.kind is EITHER:
        return frozenset(_alike(option) for _, option in value.parts)
    known = value.data if isinstance(value.data, (str, int, type(None))) else id(value.data)
    parts = tuple(_alike(part) for part in value.parts if isinstance(part, Value))
    return (value.kind, value.place, value.cell, value.rank, value.likely, value.tags, known, parts)


def _things(frame: Frame, given: dict[str, Value]) -> dict[Key, Value]:
    """What the things hold that change in place and that a call gives, and those in them."""
    cells = {cell for value in given.values() for cell in _cells(value)}
    found: dict[Key, Value] = {}
    for _ in range(MAX_DEPTH):
        if not cells:
            break
        held = {k: v for k, v in frame.env.items() if isinstance(k, tuple) and k[0] in cells}
        found |= held
        known = {k[0] for k in found if isinstance(k, tuple)}
        cells = {cell for value in held.values() for cell in _cells(value)} - known
    return found


def _cells(value: Value) -> Iterator[Cell]:
    """The things that change in place that a value is, or is made of."""
    for _, option in value.options():
        if option.cell is not None:
            yield option.cell
        for part in option.parts:
            if isinstance(part, Value):
                yield from _cells(part)


def _is_known(value: Value) -> bool:
    return any(o.kind is not UNKNOWN or o.place.sort != "unknown" for _, o in value.options())


def _is_wrapper(value: Value) -> bool:
    """Whether something is a wrapper, or may be."""
    return any(o.kind is WRAPPER for _, o in value.options())


def _closed(value: Value, reader: Reader) -> Value:
    """A value as another function sees it: the variables of this one mean nothing there."""

    def closed(option: Value) -> Value:
        if option.place.sort == "input":
            option = option.but(place=UNKNOWN_PLACE)
        if option.kind is not DEVICE and option.path is not None:
            fresh = f"#{reader.turn()}"
            option = option.but(path=(fresh,))
        if any(isinstance(part, Value) for part in option.parts):
            option = option.but(parts=tuple(_closed(p, reader) if isinstance(p, Value) else p for p in option.parts))
        return option

    return mapped(value, closed, reader.atoms)
