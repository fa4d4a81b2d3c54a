"""What the placement model says of a value: its kind, its place, and the trail that led there.

Values are immutable. `Either` holds the alternatives that the paths to a point leave open, each with the guards
(conditions and their outcome) under which it is the one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, fields
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from devlint.records import record
from devlint.source.kinds import Kind

if TYPE_CHECKING:
    from devlint.placement.classes import ClassModel
    from devlint.source.modules import FunctionModel

# More alternatives than these say nothing that a reader could use.
MAX_ALTERNATIVES = 6
# A trail keeps its newest steps.
MAX_TRAIL = 8
# Element-wise knowledge of a container stops here.
MAX_ELEMENTS = 64
# Values nested deeper than this (lists of lists built in a loop) are cut to unknown.
MAX_NESTING = 6


class Sort(Enum):
    """The sorts of place."""

    HOST = "host"
    ACCELERATOR = "accelerator"
    SAME = "same as"
    UNKNOWN = "unknown"

    __hash__ = object.__hash__


class Place(NamedTuple):
    """Where a value is. `name` is `cuda:1` for an accelerator, and the source text of what it follows for SAME."""

    sort: Sort
    name: str = ""

    def __str__(self) -> str:
        match self.sort:
            case Sort.HOST:
                return "cpu"
            case Sort.ACCELERATOR:
                return self.name
            case Sort.SAME:
                return f"the device of `{self.name}`"
        return "unknown"

    @property
    def off_host(self) -> bool:
        """Whether this is an accelerator."""
        return self.sort is Sort.ACCELERATOR


HOST = Place(Sort.HOST, "cpu")
NOWHERE = Place(Sort.UNKNOWN)


def accelerator(name: str) -> Place:
    """The place of a device string such as `cuda:1`."""
    return Place(Sort.ACCELERATOR, name)


def same_as(text: str) -> Place:
    """The place that `text` (a device expression, or a tensor) has."""
    return Place(Sort.SAME, text)


# The name of what a loader gives, before anything is taken out of it.
ITEM = "<item>"


class Step(NamedTuple):
    """One step of a trail: what happened to the value, and where."""

    message: str
    path: str
    line: int
    column: int
    # A module was made here, and what follows was computed with it.
    of_module: bool = False


class Happening(NamedTuple):
    """Something that was done to an object of known identity, and where: a state dict saved, a wrapper called."""

    what: Literal["saved", "called"]
    site: str
    # Where the object was at the time.
    place: Place
    step: Step


class Guard(NamedTuple):
    """A condition, by its text, and its outcome."""

    condition: str
    outcome: bool


Guards = frozenset[Guard]
NO_GUARDS: Guards = frozenset()


@record(slots=True, eq=False)
class Value:
    """One abstract value. Never changed once made: `replace` gives another. (Not frozen, which would make each one cost
    four times as much, and an analysis makes millions.)

    `name` is the qualified name of a reference or of an outside class; the other fields hold what the kind calls for.
    `likely` says that an inference by use or by name took part.
    """

    kind: Kind
    place: Place = NOWHERE
    name: str = ""
    likely: bool = False
    # A tensor that surely has a dimension; one without any may be on the host where the others aren't.
    ranked: bool = False
    constant: object = None
    cls: ClassModel | None = None
    function: FunctionModel | None = None
    # What a wrapper wraps, the object that a method is bound to, or the module that a state dict is of.
    inner: Value | None = None
    elements: tuple[Value, ...] | None = None
    keys: tuple[str, ...] | None = None
    # What iterating or subscripting gives where the elements aren't known one by one.
    each: Value | None = None
    options: tuple[tuple[Guards, Value], ...] = ()
    # Identity of an object that changes in place: where it was made.
    site: str = ""
    # How it came to its place, which makes it no other value.
    trail: tuple[Step, ...] = field(default=(), compare=False)
    # Whether it lies in page-locked memory of the host (of a loader: whether its batches do); None where it isn't known.
    pinned: bool | None = None
    # How deep containers stand in one another.
    depth: int = field(default=0, compare=False)
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(_identity(self))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Value) and hash(self) == hash(other) and bool(_identity(self) == _identity(other))

    def alternatives(self) -> Iterator[tuple[Guards, Value]]:
        """The values that this may be, each with its guards."""
        if self.kind is Kind.EITHER:
            yield from self.options
        else:
            yield NO_GUARDS, self

    @property
    def is_tensor(self) -> bool:
        return self.kind in _TENSORS

    @property
    def is_module(self) -> bool:
        return self.kind in _MODULES


_TENSORS = frozenset({Kind.TENSOR, Kind.PARAMETER})
_MODULES = frozenset({Kind.MODULE, Kind.WRAPPER})
_identity = attrgetter(*(f.name for f in fields(Value) if f.compare))
_fields = attrgetter(*(f.name for f in fields(Value) if f.init))


def replace(value: Value, **changes: Any) -> Value:
    """Another value, with some fields changed. (`dataclasses.replace` does the same in four times the time.)"""
    changed = Value(*_fields(value))
    for name, new in changes.items():
        setattr(changed, name, new)
    return changed


def with_parts(value: Value, change: Callable[[Value], Value]) -> Value:
    """A value with something done to each thing that it may be and that its containers hold."""
    if value.kind is Kind.EITHER:
        return either((guards, with_parts(option, change)) for guards, option in value.options)
    if value.kind in (Kind.SEQUENCE, Kind.MAPPING):
        elements = tuple(with_parts(e, change) for e in value.elements) if value.elements is not None else None
        return replace(
            value, elements=elements, each=with_parts(value.each, change) if value.each is not None else None
        )
    return change(value)


# The name of a device that is an object for sure: others may be strings, or numbers of GPUs.
DEVICE_CLASS = "torch.device"
# The name of a parameter that is a registered buffer.
BUFFER = "buffer"
# The name of a sequence that a loader stands behind.
OVER_LOADER = "<over a loader>"

UNKNOWN = Value(Kind.UNKNOWN)
SCALAR = Value(Kind.SCALAR)
NONE = Value(Kind.CONSTANT, constant=None, name="None")


def constant(value: object) -> Value:
    """A literal."""
    return NONE if value is None else Value(Kind.CONSTANT, constant=value, name=type(value).__name__)


def reference(name: str) -> Value:
    """Something outside the project, by its qualified name."""
    return Value(Kind.REFERENCE, name=name)


def sequence(elements: Iterable[Value], name: str = "") -> Value:
    """A tuple or list whose elements are known; its name says `tuple` where it can't be changed."""
    known = tuple(elements)
    if len(known) > MAX_ELEMENTS:
        return Value(Kind.SEQUENCE, each=UNKNOWN)
    depth = 1 + max((e.depth for e in known), default=0)
    return (
        Value(Kind.SEQUENCE, elements=known, depth=depth, name=name)
        if depth <= MAX_NESTING
        else Value(Kind.SEQUENCE, each=UNKNOWN)
    )


def sequence_of(each: Value) -> Value:
    """A list of values that are alike."""
    return (
        Value(Kind.SEQUENCE, each=each, depth=each.depth + 1)
        if each.depth < MAX_NESTING
        else Value(Kind.SEQUENCE, each=UNKNOWN)
    )


def mapping(keys: Iterable[str], values: Iterable[Value]) -> Value:
    """A dict with constant keys."""
    known = tuple(values)
    depth = 1 + max((v.depth for v in known), default=0)
    if len(known) > MAX_ELEMENTS or depth > MAX_NESTING:
        return Value(Kind.MAPPING, each=UNKNOWN)
    return Value(Kind.MAPPING, keys=tuple(keys), elements=known, depth=depth)


def mapping_of(each: Value) -> Value:
    """A dict whose keys aren't known and whose values are alike."""
    return (
        Value(Kind.MAPPING, each=each, depth=each.depth + 1)
        if each.depth < MAX_NESTING
        else Value(Kind.MAPPING, each=UNKNOWN)
    )


def compatible(a: Guards, b: Guards) -> bool:
    """Whether two sets of guards can hold on one path."""
    return not (a and b) or all((condition, not outcome) not in b for condition, outcome in a)


def either(options: Iterable[tuple[Guards, Value]]) -> Value:
    """The value that is one of several, the same ones folded together."""
    folded: dict[Value, tuple[Guards, Value]] = {}
    for guards, option in options:
        for more, leaf in option.options or ((NO_GUARDS, option),):
            if not compatible(guards, more):
                continue
            together = guards | more if more else guards
            known = folded.get(leaf)
            # Seen on two paths: only what both paths have in common still guards it.
            folded[leaf] = (known[0] & together, known[1]) if known else (together, leaf)
    found = list(folded.values())
    if not found:
        return UNKNOWN
    if len(found) == 1:
        return found[0][1]
    if len(found) > MAX_ALTERNATIVES:
        return UNKNOWN
    return Value(Kind.EITHER, options=tuple(found), depth=max(option.depth for _, option in found))


def leaves(value: Value) -> list[Value]:
    """The tensors and the like in a value, containers looked into."""
    if value.kind not in _HOLDING:
        return [value]
    options = [option for _, option in value.options] if value.kind is Kind.EITHER else [value]
    found: list[Value] = []
    for option in options:
        if option.kind in (Kind.SEQUENCE, Kind.MAPPING):
            for part in option.elements or ((option.each,) if option.each else ()):
                found += leaves(part)
        else:
            found.append(option)
    return found


_HOLDING = frozenset({Kind.EITHER, Kind.SEQUENCE, Kind.MAPPING})


def join(a: Value, b: Value) -> Value:
    """What is known of something that is one thing or another."""
    if a is b or b is EMPTY or a == b:
        return a
    if a is EMPTY:
        return b
    if a.kind is b.kind is Kind.SEQUENCE and (
        a.elements is None or b.elements is None or len(a.elements) != len(b.elements)
    ):
        return sequence_of(join(element_of(a), element_of(b)))
    if a.kind is b.kind is Kind.MAPPING and EMPTY in (element_of(a), element_of(b)):
        # What is read from it later isn't read where there is nothing in it.
        return b if element_of(a) is EMPTY else a
    if a.ranked is not b.ranked and replace(a, ranked=False) == replace(b, ranked=False):
        return replace(a, ranked=False)
    if a.kind is b.kind is Kind.SCALAR or {a.kind, b.kind} == _PLAIN:
        return SCALAR
    return either([(NO_GUARDS, a), (NO_GUARDS, b)])


_PLAIN = {Kind.SCALAR, Kind.CONSTANT}


def join_all(values: Iterable[Value]) -> Value:
    """The join of all of them; unknown for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return result if result is not None else UNKNOWN


def element_of(value: Value) -> Value:
    """What any one element of a container is."""
    if value.each is not None:
        return value.each
    if value.elements:
        return join_all(value.elements)
    return EMPTY if value.kind in (Kind.SEQUENCE, Kind.MAPPING) else UNKNOWN


# The name of what a DataParallel gathered: one result for each replica, where its module gives one.
GATHERED = "<gathered>"
# The element of an empty list: nothing yet, whatever is appended decides.
EMPTY = Value(Kind.UNKNOWN, name="<empty>")


def site_at(path: str, node: ast.Call) -> str:
    """The identity of what a call makes."""
    return f"{path}:{node.lineno}:{node.col_offset}"
