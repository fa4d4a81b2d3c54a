"""One scope while it is read: what its names and what they refer to hold at the point that is reached."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.state.history import Moment, Remembering
from devlint.signatures.state.outcome import Need, Signature, Use, Wait
from devlint.signatures.values.conditions import FALSE, TRUE, Atoms, Clause, Condition, tests_of
from devlint.signatures.values.values import (
    BATCH,
    CONSTANT,
    DICT,
    EITHER,
    HOST,
    IMPORTED,
    LIST,
    MODULES,
    NAMESPACE,
    NEVER,
    NOTHING,
    NUMBER,
    OBJECT,
    TENSOR,
    UNKNOWN,
    UNKNOWN_PLACE,
    Cell,
    Made,
    Path,
    Place,
    Step,
    Value,
    either,
    mapped,
    one_of,
    under,
)
from devlint.source.modules import FunctionModel, SourceModule, dotted

# What a state knows: names, and what things that change in place hold: (identity, ".attribute"), (identity, "[]") for
# the contents of a container, (identity, "@") for the place of a module.
Key = Hashable
PLACE = "@"
CONTENTS = "[]"
# The place of an input that was moved, if it is a module.
IF_MODULE = "@ if module"
# A batch was moved: what it holds by name moved with it, if it is an object that moves in place.
IF_OBJECT = "@ if object"
# Each attribute, whichever it is, in terms of what it was.
EVERY = ".*"
# Something unknown was done to an input.
ANYTHING = "?"
# Something was stored under a key of an input that isn't known.
STORED = "[?]"


class Circle(Protocol):
    """What holds functions that hold it: it waits for the collector, unless somebody cuts it."""

    @property
    def source(self) -> SourceModule: ...
    def cut(self) -> None: ...


class Reading(Protocol):
    """What a scope asks of the reader while it is read. The rooms above know the answers; `Reader` says what each gives."""

    @property
    def atoms(self) -> Atoms: ...

    # What code does, piece by piece.
    def evaluate(self, frame: Frame, node: ast.expr, /) -> Value: ...
    def bind(self, frame: Frame, target: ast.expr, value: Value, /) -> None: ...
    def together(self, frame: Frame, node: ast.AST, /, *operands: Value) -> Value: ...
    def truth(self, frame: Frame, value: Value, host_when: bool | None = None, /) -> Condition: ...
    def call_value(self, call: Call, callee: Value, /) -> Value: ...
    def unknown_call(self, call: Call, name: str = "", /, *, displaces: bool = True) -> Value: ...
    def call_with(self, call: Call, callee: Value, given: Sequence[Value]) -> Value: ...
    def is_cuda(self, frame: Frame, value: Value, *, negative: bool = False) -> Value: ...
    def never_returns(self, frame: Frame, node: ast.Call) -> bool: ...
    def turn(self) -> int: ...
    def read_aside(self, frame: Frame, read: Callable[[], None], /) -> None: ...
    def refers_back(self, holder: Circle) -> None: ...

    # Names, functions and classes.
    def lookup(self, frame: Frame, name: str) -> Value: ...
    def resolved(self, name: str, asking: SourceModule) -> Value: ...
    def static_value(self, source: SourceModule, node: ast.expr) -> Value: ...
    def lambda_of(self, frame: Frame, node: ast.Lambda) -> FunctionModel: ...
    def root_prefix(self, function: FunctionModel) -> str: ...
    def defaults(self, function: FunctionModel) -> dict[str, Value]: ...
    def signature(self, function: FunctionModel, closure: Frame | None) -> Signature | None: ...
    def follows(self, asking: SourceModule, function: FunctionModel) -> bool: ...
    def project_uses(self, asking: SourceModule, pattern: str) -> bool: ...
    def is_reading(self, function: FunctionModel) -> bool: ...
    def calls_itself(self, function: FunctionModel) -> bool: ...
    def so_far(self, function: FunctionModel) -> Signature | None: ...
    def so_far_of(self, source: SourceModule) -> Frame | None: ...
    def is_running(self, source: SourceModule, /) -> bool: ...
    def was_given(self, frame: Frame, function: FunctionModel, given: dict[str, Value]) -> None: ...
    def given_to(self, function: FunctionModel) -> Sequence[tuple[FunctionModel | None, dict[str, Value]]]: ...
    def was_brought(
        self, frame: Frame, function: FunctionModel, need: Need, places: set[Place], given: set[Place]
    ) -> None: ...
    def class_info(self, source: SourceModule, node: ast.ClassDef) -> ClassInfo: ...
    def class_level(self, cls: ClassInfo, name: str) -> Value: ...
    def class_around(self, frame: Frame) -> ClassInfo | None: ...
    def self_of(self, frame: Frame) -> Value | None: ...
    def instance_at(self, cls: ClassInfo, like: Value) -> Value: ...

    # Annotations.
    def refined(self, frame: Frame, value: Value, annotation: ast.expr | None) -> Value: ...
    def declared(self, cls: ClassInfo, name: str) -> Value | None: ...

    # Objects and containers.
    def original(self, frame: Frame, path: Path, slot: str) -> Value: ...
    def property_of(self, frame: Frame, owner: Value, method: FunctionModel) -> Value: ...
    def iterated(self, frame: Frame, value: Value) -> Value: ...
    def called_item(self, frame: Frame, node: ast.Subscript, base: Value, index: Value) -> Value | None: ...
    def holds_state(self, module: Value) -> bool: ...
    def made_at(self, cls: ClassInfo, path: Path) -> tuple[Cell | None, dict[str, Value]]: ...
    def blurred(self, contents: Value) -> Value: ...
    def copied(self, frame: Frame, value: Value, node: ast.expr) -> Value: ...
    def collated(self, frame: Frame, collate: Value) -> Value | None: ...
    def stays_on_host(self, frame: Frame, dataset: Value) -> bool: ...


class Recording(Protocol):
    """What hears of a scope that is read once more: what each expression is there, and what each call gives."""

    def note(self, frame: Frame, node: ast.expr, value: Value, /) -> None: ...
    def called(self, frame: Frame, node: ast.Call, function: FunctionModel, given: dict[str, Value], /) -> None: ...


class Stored(NamedTuple):
    """What was stored under a name: it is there as long as the name and all that the container holds are the same."""

    name: str
    passes: int
    contents: Value
    value: Value


class Frame:
    """One reading of a scope: a module's top level, or a function's body with its inputs as variables."""

    def __init__(
        self,
        reader: Reading,
        source: SourceModule,
        function: FunctionModel | None = None,
        outer: Frame | None = None,
        cls: ast.ClassDef | None = None,
    ) -> None:
        self.reader = reader
        self.atoms = reader.atoms
        self.source = source
        self.function = function
        self.outer = outer
        self.cls = cls
        # Who wants to know what each expression is.
        self.record: Recording | None = None
        # The point that it has come to, if somebody asked for that.
        self.moment: Moment | None = None
        # It is read once more, or aside: nobody else is to hear of it.
        self.again = False
        # It is read aside.
        self.is_aside = False
        # Nothing comes by what is read: a test says so.
        self.unreached = False
        self.env: dict[Key, Value] = {}
        # What it found outside of it, which may be otherwise when it is called again.
        self.found: dict[Key, Value | None] = {}
        # The condition under which the statement at hand is reached; FALSE behind a return.
        self.path: Condition = TRUE
        self.returns: list[tuple[Condition, Value]] = []
        self.yields: list[Value] = []
        # Environments that leave a loop early, or raise inside a `try`.
        self.breaks: list[list[tuple[Condition, dict[Key, Value]]]] = []
        self.continues: list[list[tuple[Condition, dict[Key, Value]]]] = []
        # What each pass of the loops around stores under its own key, by container.
        self.loop_stores: list[dict[Value, Value]] = []
        # How often a pass of some loop began: names have other values since.
        self.passes = 0
        # What was stored under a name last, by container.
        self.last_stores: dict[Hashable, Stored] = {}
        self.needs: list[Need] = []
        self.waits: list[Wait] = []
        self.uses: list[Use] = []
        # Uses that calls made here hand out, each with its call, that call's instance and the path to it.
        self.later: list[tuple[Call, Use, Any, Condition]] = []
        # Inputs that something is done to which only tensors take, and those that are likely tensors by their position.
        self.tensors: set[Path] = set()
        self.supposed: set[Path] = set()
        # Inputs that are moved to a device, or a part of them: they come from elsewhere.
        self.moved: set[str] = set()
        # Inputs that are tensors or arrays, as they say.
        self.either_array: set[Path] = set()
        # Whether the statements at hand are read once more, with another part of what a loop goes through.
        self.in_turn = False
        # How often what is read now may be read, by the loops around it.
        self.rounds = 1
        # By the name that counts the passes of a loop around, from 0 on: the condition that what is read is the first of them.
        self.first_passes: dict[str, Condition] = {}
        # Inputs that are asked for their shape, as tensors and arrays are, and lists aren't.
        self.shaped: set[Path] = set()
        # What is read now is so for one of several alternatives of a value, or in a handler: it may never come to that.
        self.supposing = 0
        # What can't be any more, since an error would have come of it before: under such a condition nothing is reached.
        self.ruled_out: list[Condition] = []
        # Where the blocks around make new tensors, instead of on the host: `with torch.device("cuda"):`.
        self.elsewhere: list[Place] = []
        # The attribute that is read, or what a loop goes through: where Python calls a property, or `__iter__`.
        self.asked: ast.expr | None = None
        # The call whose result the statement at hand drops.
        self.dropped: ast.expr | None = None
        # The moves whose result is dropped, each with the method that is called.
        self.drops: dict[ast.Call, Value] = {}
        # The states in which the scope is left.
        self.exits: list[tuple[Condition, dict[Key, Value]]] = []
        self.locals: frozenset[str] = function.local_names if function is not None else frozenset()
        self.nested: dict[FunctionModel, bool] = {}
        # Under which path things were made that change in place.
        self.made_under: dict[Hashable, Condition] = {}
        # Where modules were when each of them was made.
        self.placed_then: dict[FunctionModel, dict[Key, Value]] = {}

    @property
    def default_place(self) -> Place:
        """Where a tensor is made that isn't told a device: on the host, unless the program may say otherwise."""
        if self.elsewhere:
            return self.elsewhere[-1]
        return UNKNOWN_PLACE if self.source.makes_elsewhere(self.function) else HOST

    def cut(self) -> None:
        """Lets go of what may refer back to it: nobody asks it any more."""
        self.env, self.moment, self.outer = {}, None, None
        for known in (self.found, self.nested, self.placed_then, self.last_stores, self.drops):
            known.clear()
        for left in (self.returns, self.yields, self.exits, self.needs, self.uses, self.later):
            left.clear()

    # -- state -----------------------------------------------------------------------------------------------------

    def tell(self, record: Recording | None) -> None:
        """Tells somebody what each expression is: what it is made of can be asked for later."""
        self.record = record
        if record is not None:
            self.env = Remembering(self.env)

    def get(self, key: Key) -> Value | None:
        """What a name or a slot holds, without the alternatives that the path rules out."""
        value = self.env.get(key)
        if value is None:
            return None
        kind = value.kind
        if kind is not EITHER and kind is not IMPORTED:
            return value
        if kind is IMPORTED or any(o.kind is IMPORTED for _, o in value.parts):
            value = self.env[key] = mapped(value, self._followed, self.atoms)
        return under(value, self.path, self.atoms)

    def _followed(self, value: Value) -> Value:
        """What an imported name leads to."""
        return self.reader.resolved(*value.data) if value.kind is IMPORTED else value

    def slot(self, thing: Value, slot: str) -> Value | None:
        """What a slot of something that changes in place holds, as far as it was written here, or where it was made."""
        identity = thing.identity
        if identity is None:
            return None
        found = self.get((identity, slot))
        if found is None and thing.cell is not None:
            found = self.outer.seen_from_inside((identity, slot)) if self.outer is not None else None
            if found is None:
                found = thing.cell.last.get(slot)
            if self.function is not None:
                self.found[identity, slot] = found
        return found

    def seen_from_inside(self, key: Key) -> Value | None:
        """What this scope holds under a key by now, or one of those around it."""
        around: Frame | None = self
        while around is not None:
            found = around.get(key)
            if found is not None:
                return found
            around = around.outer
        return None

    def put(self, thing: Value, slot: str, value: Value) -> None:
        """Writes a slot; of something that may be one of several, each keeps what it held as an alternative."""
        for condition, option in thing.options():
            identity = option.identity
            if identity is None:
                continue
            new = value
            if condition != TRUE:
                old = self.slot(option, slot)
                new = either(
                    [(condition, value), (self.atoms.negated(condition), old if old is not None else NOTHING)],
                    self.atoms,
                )
            self.env[identity, slot] = new

    def new_cell(self, node: ast.AST) -> Cell:
        """The identity of something that is made at a node, which isn't there on ways that don't pass it."""
        cell = Cell((self.source.path, getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
        self.made_under[cell] = self.path
        return cell

    def step(self, message: str, node: ast.AST, before: Step | None = None) -> Step:
        """A step of a trail, at a node."""
        return Step(message, self.source.path, node.lineno, node.col_offset, before)  # type: ignore[attr-defined]

    def aside(self, read: Callable[[Frame], None]) -> None:
        """Reads something for those alone who ask what its expressions are, in a scope beside this one: nothing comes of it.

        That waits until what is being worked out is done: else what a knot of functions tells would hang on whether
        somebody asks for such expressions.
        """
        if self.record is not None:
            beside = self._beside()
            self.reader.read_aside(self, lambda: read(beside))

    def _beside(self) -> Frame:
        """A scope that holds what this one does at this point."""
        beside = Frame(self.reader, self.source, self.function, self.outer, self.cls)
        beside.record, beside.again, beside.is_aside = self.record, True, True
        beside.env, beside.path, beside.unreached = self.env.copy(), self.path, self.unreached
        beside.in_turn, beside.rounds, beside.passes = self.in_turn, self.rounds, self.passes
        beside.supposing, beside.dropped = self.supposing, self.dropped
        beside.first_passes = dict(self.first_passes)
        beside.breaks, beside.continues = [[] for _ in self.breaks], [[] for _ in self.continues]
        beside.loop_stores, beside.last_stores = [{} for _ in self.loop_stores], dict(self.last_stores)
        beside.tensors, beside.supposed, beside.moved = set(self.tensors), set(self.supposed), set(self.moved)
        beside.either_array, beside.shaped = set(self.either_array), set(self.shaped)
        beside.ruled_out, beside.elsewhere = list(self.ruled_out), list(self.elsewhere)
        beside.nested, beside.drops = dict(self.nested), dict(self.drops)
        beside.made_under, beside.placed_then = dict(self.made_under), dict(self.placed_then)
        return beside

    # -- branches --------------------------------------------------------------------------------------------------

    def is_reached(self, path: Condition) -> bool:
        """Whether there is a way to what stands under a path, errors on the way thought of."""
        return bool(path) and not any(not self.atoms.both(path, self.atoms.negated(out)) for out in self.ruled_out)

    def fork(self) -> tuple[dict[Key, Value], Condition]:
        return self.env.copy(), self.path

    def resume(self, env: dict[Key, Value], path: Condition) -> None:
        self.env, self.path = env, path

    def merge(
        self, states: list[tuple[Condition, dict[Key, Value]]], before: Condition, *, is_whole: bool = False
    ) -> None:
        """Goes on from several states, each with its path; those that ended are none.

        `is_whole` says that the paths together are what was before.
        """
        live = [(path, env) for path, env in states if path]
        if not live:
            self.path = FALSE
            return
        path, env = live[0]
        # What tells the branches apart is the path to each, without what led to all.
        common = next(iter(before)) if len(before) == 1 else frozenset()
        merged = env
        for other_path, other in live[1:]:
            merged = self._joined(merged, _beyond(path, common), other, _beyond(other_path, common))
            path = before if is_whole else self.atoms.either(path, other_path)
        self.env = merged
        is_whole = is_whole or (len(live) == len(states) and self.atoms.implies(before, path))
        self.path = before if is_whole else path

    def _joined(
        self, a: dict[Key, Value], when_a: Condition, b: dict[Key, Value], when_b: Condition
    ) -> dict[Key, Value]:
        if a is b:
            return a
        result = a.copy()
        # Most of what is known is the same in both.
        known = a.get
        for key in [key for key, value in b.items() if known(key) is not value]:
            mine, value = known(key), b[key]
            if self._was_never_made(key, when_a):
                result[key] = value
            elif mine is None or not self._was_never_made(key, when_b):
                result[key] = self._one_of(key, mine, when_a, value, when_b)
        if a.keys() <= b.keys():
            return result
        for key, value in a.items():
            # In the order of what was set, which is the same in each run: a set's isn't.
            if key not in b and not self._was_never_made(key, when_b):
                result[key] = self._one_of(key, value, when_a, None, when_b)
        return result

    def _was_never_made(self, key: Key, path: Condition) -> bool:
        """Whether a key is of something that was made where this path can't lead: what it holds there nobody can ask."""
        made = self.made_under.get(key[0]) if isinstance(key, tuple) else None
        return made is not None and not self.atoms.may_meet(made, path)

    def _one_of(self, key: Key, a: Value | None, when_a: Condition, b: Value | None, when_b: Condition) -> Value:
        if a is None:
            a = self.untold(key)
        if b is None:
            b = self.untold(key)
        if a is NEVER or b is NEVER:
            # Where a name isn't bound nobody asks for it.
            return b if a is NEVER else a
        if a == b:
            return a if a.step is not None else b
        if self._is_bare(a) and _is_number(b):
            return Value(NUMBER, path=a.path)
        if self._is_bare(b) and _is_number(a):
            return Value(NUMBER, path=b.path)
        if self._is_fresh(a) and self._is_fresh(b):
            # One of several things of which nothing is known is one such thing.
            return Value(UNKNOWN, path=(f"#{self.reader.turn()}",), likely=True)
        return one_of(when_a, a, when_b, b, self.atoms)

    def _is_bare(self, value: Value) -> bool:
        """Whether a value is a parameter of which nothing is known; where a number stands in for it, it is one itself."""
        path = value.path
        return (
            value.kind is UNKNOWN
            and path is not None
            and len(path) == 1
            and value.place == Place("input", path)
            and path not in self.tensors
        )

    def _is_fresh(self, value: Value) -> bool:
        """Whether a value is what an unknown call gave, and nothing was done to it since."""
        path = value.path
        return (
            value.kind is UNKNOWN
            and value.place is UNKNOWN_PLACE
            and path is not None
            and len(path) == 1
            and str(path[0]).startswith("#")
            and not value.tags
            and not isinstance(value.data, Made)
            and path not in self.tensors
            and not any((path, slot) in self.env for slot in (PLACE, IF_MODULE, ANYTHING, CONTENTS))
        )

    def untold(self, key: Key) -> Value:
        """What a key holds where nothing was written to it on the way: for slots, what the thing came with."""
        if isinstance(key, tuple):
            identity, slot = key
            if isinstance(identity, Cell):
                # A list or a dict that holds nothing at all was never made on that way.
                return identity.last.get(slot, NEVER if slot == CONTENTS else NOTHING)
            return self.reader.original(self, identity, slot) if isinstance(identity, tuple) else NOTHING
        return NEVER if key in self.locals else NOTHING

    # -- what leaves the scope -------------------------------------------------------------------------------------

    def need(
        self,
        sense: str,
        node: ast.expr | ast.AugAssign,
        name: str,
        *operands: tuple[ast.expr, Value],
        any_rank: bool = False,
        guarded: bool = False,
    ) -> None:
        """Notes what an operation asks of its operands, unless they can't be apart; `guarded`, that it likely does."""
        if sense == "call":
            operands = tuple((node, self.as_a_whole(value)) for node, value in operands)
        if sense == "host" or _may_be_apart(operands):
            self.needs.append(
                Need(
                    sense,
                    node,
                    self.source,
                    name,
                    operands,
                    self.path,
                    function=self.function,
                    guarded=guarded or self.supposing > 0,
                    any_rank=any_rank or sense == "call",
                )
            )

    def as_a_whole(self, value: Value) -> Value:
        """What is handed on as it is: of a batch that something was stored into since, it isn't known where all of it is."""
        if value.kind is EITHER:
            return mapped(value, self.as_a_whole, self.atoms)
        if value.kind is UNKNOWN and value.path is not None and (value.path, STORED) in self.env:
            return NOTHING
        if value.kind is not BATCH or value.path is None:
            return value
        slots = ((k[1], v) for k, v in self.env.items() if isinstance(k, tuple) and k[0] == value.path)
        stored = (v for slot, v in slots if str(slot)[:2] in (ANYTHING, "['"))
        return value.but(place=UNKNOWN_PLACE) if any(v.place != HOST for v in stored) else value

    def is_tensor(self, value: Value) -> None:
        """Notes that something is done to a value that only tensors take."""
        for _, option in value.options():
            if option.kind is UNKNOWN and "mixed" not in option.tags:
                if option.path is not None:
                    self.tensors.add(option.path)
                elif isinstance(option.data, tuple):
                    self.tensors.add(option.data)

    def tests_at_work(self) -> set[int]:
        """The tests on which something hangs that is held here."""
        held = (v.parts for v in self.env.values() if v.kind is EITHER)
        return {test for parts in held for condition, _ in parts for test in tests_of(condition)}

    def lose_batch(self, value: Value) -> None:
        """All attributes of an object out of a loader were set anew: nothing is known any more of what is called so."""
        for _, option in value.options():
            if option.kind is BATCH:
                for key in [k for k, v in self.env.items() if any(o == option for _, o in v.options())]:
                    self.env[key] = NOTHING

    # -- displacing ------------------------------------------------------------------------------------------------

    def displace(self, value: Value, depth: int = 3) -> None:
        """Something unknown was done to what a value refers to: it may hold other things, and be elsewhere."""
        for _, option in value.options():
            identity = option.identity
            if option.kind in MODULES:
                at = self.env.get((identity, PLACE))
                if at is None or not at.place.off_host:
                    # What somebody put on an accelerator hardly anybody takes off again.
                    self.env[identity, PLACE] = Value(TENSOR, UNKNOWN_PLACE)
            elif option.kind in (LIST, DICT):
                contents = self.slot(option, CONTENTS)
                if contents is not None:
                    for _, held in contents.options() if depth else ():
                        for part in held.parts:
                            self.displace(part, depth - 1)
                    self.env[identity, CONTENTS] = mapped(contents, lambda c: self.reader.blurred(c), self.atoms)
            elif option.kind == OBJECT:
                for key in [k for k in self.env if isinstance(k, tuple) and k[0] == identity]:
                    held, self.env[key] = self.env[key], NOTHING
                    if depth:
                        self.displace(held, depth - (option.data != NAMESPACE))
            elif option.kind == "tuple" and depth:
                for part in option.parts:
                    self.displace(part, depth - 1)
            elif option.kind is UNKNOWN and option.path is not None and not str(option.path[0]).startswith("#"):
                self.env[option.path, ANYTHING] = NOTHING


def _is_number(value: Value) -> bool:
    return value.kind is NUMBER or (value.kind is CONSTANT and type(value.data) in (int, float))


def _beyond(path: Condition, common: Clause) -> Condition:
    """A path without the part that all have in common."""
    return frozenset(clause - common for clause in path) if common else path


def _may_be_apart(operands: tuple[tuple[ast.expr, Value], ...]) -> bool:
    """Whether the places of the operands aren't all one, or unknown."""
    first: Place | None = None
    for _, value in operands:
        if value.kind is not TENSOR or value.parts:
            if value.kind in (UNKNOWN, "either", "tuple", LIST, "batch", "module"):
                if value.kind is UNKNOWN and value.place.sort == "unknown":
                    continue
                if value.kind is UNKNOWN and (first is None or first == value.place):
                    first = value.place
                    continue
                return True
            continue
        place = value.place
        if place.sort == "unknown":
            continue
        if first is None:
            first = place
        elif first != place:
            return True
    return False


class Call:
    """A call as the meanings of outside functions see it: what is called, and what it is given, evaluated."""

    __slots__ = ("frame", "given", "keywords", "node", "open_ended", "positional")

    def __init__(self, frame: Frame, node: ast.Call) -> None:
        self.frame = frame
        self.node = node
        # The expressions and values of the arguments by position, starred ones spread where they are known.
        self.given: list[tuple[ast.expr, Value]] = []
        self.keywords: dict[str, tuple[ast.expr, Value]] = {}
        # There may be more arguments than are listed.
        self.open_ended = False

    @property
    def positional_values(self) -> list[Value]:
        return [value for _, value in self.given]

    def argument(self, position: int, name: str = "") -> Value | None:
        """An argument by its position or its name."""
        found = self.pair(position, name)
        return found[1] if found is not None else None

    def pair(self, position: int, name: str = "") -> tuple[ast.expr, Value] | None:
        """The same with its expression."""
        if name and name in self.keywords:
            return self.keywords[name]
        if 0 <= position < len(self.given):
            return self.given[position]
        return None

    def everything(self) -> Iterator[tuple[ast.expr, Value]]:
        """All arguments."""
        yield from self.given
        yield from self.keywords.values()

    def step(self, message: str, before: Step | None = None) -> Step:
        """A step of a trail at this call."""
        return self.frame.step(message, self.node, before)

    @property
    def text(self) -> str:
        """What is called, as the reader wrote it."""
        text = dotted(self.node.func) or ast.unparse(self.node.func)
        return text if len(text) <= 40 else f"...{text.rsplit('.', 1)[-1]}"[:40]

    def fresh(self, place: Place = UNKNOWN_PLACE, *, likely: bool = True) -> Value:
        """What an unknown call gives: something of which nothing is known but that it is the same each time it is asked."""
        return Value(UNKNOWN, place, path=(f"#{self.frame.reader.turn()}",), likely=likely)

    def says(self, name: str, value: object) -> bool:
        """Whether a keyword is that constant."""
        found = self.keywords.get(name)
        return found is not None and found[1].kind is CONSTANT and found[1].data == value
