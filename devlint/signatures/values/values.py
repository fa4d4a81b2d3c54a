"""What is known of a value: its kind, its place, the input that it is, and the trail that led there.

Values are immutable. What changes in place (modules, lists, dicts, objects) is a value with an identity; what such a
thing holds at some point of a program stands in that point's state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple

from devlint.signatures.values.conditions import TRUE, Atoms, Condition

# More alternatives than these say nothing that a reader could use.
MAX_ALTERNATIVES = 6
# Containers are known part by part up to this size, and nested up to this depth.
MAX_PARTS = 48
MAX_DEPTH = 6
# An input's part of a part of a part: deeper ones aren't told apart.
MAX_PATH = 5


class Place(NamedTuple):
    """Where something is.

    `sort` is `host`, `accelerator` (`name` is `cuda:1`), `input` (where an input of the function is, by its path),
    `told` (the device that an input names, by its path), or `unknown`.
    """

    sort: str
    name: Any = ""

    @property
    def off_host(self) -> bool:
        return self.sort == "accelerator"

    @property
    def is_open(self) -> bool:
        """Whether a caller decides it."""
        return self.sort == "input" or self.sort == "told"


HOST = Place("host", "cpu")
UNKNOWN_PLACE = Place("unknown")


class Step(NamedTuple):
    """One step of a trail, with the step before it."""

    message: str
    path: str
    line: int
    column: int
    before: Step | None = None
    # A module was made here, and what follows was computed with it.
    of_module: bool = False
    # The code says that this is the place: `device="cpu"`, `.cpu()`.
    told: bool = False
    # Where what was moved had been before, in the words of the function that moves it.
    left: Place = UNKNOWN_PLACE


def steps_to(step: Step | None) -> tuple[Step, ...]:
    """A trail from its first step on, each step once."""
    found: list[Step] = []
    while step is not None and len(found) < 12:
        if step not in found:
            found.append(step)
        step = step.before
    return tuple(reversed(found))


# Kinds of values.
TENSOR = "tensor"
MODULE = "module"
WRAPPER = "wrapper"
OBJECT = "object"
LOADER = "loader"
BATCH = "batch"
DEVICE = "device"
GENERATOR = "generator"
ARRAY = "array"
NUMBER = "number"
CONSTANT = "constant"
# The outcome of tests, kept under a name: `use_cuda = torch.cuda.is_available()`.
OUTCOME = "outcome"
TUPLE = "tuple"
LIST = "list"
DICT = "dict"
CLASS = "class"
FUNCTION = "function"
METHOD = "method"
REFERENCE = "reference"
# A name that was imported and not used yet: what it leads to is read when it is.
IMPORTED = "imported"
SUPER = "super"
UNKNOWN = "unknown"
EITHER = "either"

MODULES = frozenset({MODULE, WRAPPER})
# What hangs on tests, or on the scope that it was defined in.
_OPEN = frozenset({EITHER, OUTCOME, FUNCTION})
MUTABLE = frozenset({MODULE, WRAPPER, OBJECT, LIST, DICT})

# Ranks of tensors: surely some dimension, surely none.
RANKED = "ranked"
ZERO_DIM = "0-dim"
# A tensor, or an array where the program has no tensors at all: what comes of it goes by that.
OR_ARRAY = "or array"
# Nothing in it: whatever takes it may leave it aside.
EMPTY = "empty"


# What says that a device is an object of torch.device: others may be strings, or numbers of GPUs.
DEVICE_OBJECT = frozenset({"device object"})
# What says that a tensor is a registered buffer.
BUFFER = "buffer"
# What says of an input that a wrapper around it was taken off.
UNWRAPPED = "unwrapped"
# What says that something is the results of several replicas.
GATHERED = "gathered"
# What says that a tensor was computed of one on the host and of what may be a number, or a tensor that is anywhere.
OF_HOST = "of host"
# Whether something surely lies in page-locked memory of the host, or surely doesn't.
PINNED = frozenset({"pinned"})
UNPINNED = frozenset({"unpinned"})
# What says that something draws tensors where its parameters are.
DISTRIBUTION = frozenset({"distribution"})
# What says that an annotation told what something is, not its use or its name.
DECLARED = frozenset({"declared"})


class Parts:
    """What an annotation says of the parts of a container: of any of them, or of each position of a tuple."""

    __slots__ = ("each", "positions")

    def __init__(self, each: Value | None = None, positions: tuple[Value | None, ...] = ()) -> None:
        self.each = each
        self.positions = positions

    def at(self, step: str) -> Value | None:
        """The part that a step of a path leads to: `[]` is any, `[0]` the first."""
        if not step.startswith("["):
            return None
        if self.each is not None:
            return self.each
        index = step[1:-1]
        return self.positions[int(index)] if index.isdigit() and int(index) < len(self.positions) else None


class Cell:
    """The identity of something that was made in the code at hand and changes in place."""

    __slots__ = ("last", "site")

    def __init__(self, site: Hashable) -> None:
        self.site = site
        # What it held when its scope was through, for scopes that see it from outside.
        self.last: dict[str, Value] = {}


class Made:
    """What something without a place of its own is, as the data of an unknown value: an optimizer, a state dict."""

    __slots__ = ("name", "of", "site")

    def __init__(self, name: str, site: Hashable, of: Value | None = None) -> None:
        self.name = name
        self.site = site
        # Of a state dict, the module.
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Made) and (self.name, self.site, self.of) == (other.name, other.site, other.of)

    def __hash__(self) -> int:
        return hash((self.name, self.site))


# The data of a namespace: an object of no class of the project, nested ones being one thing that somebody wrote down.
NAMESPACE = "types.SimpleNamespace"
# The name of a module's state dict.
STATE_DICT = "state dict"
# An input, or what an unknown call gave, and the way to a part of it: `("x", ".mask", "[0]")`.
Path = tuple[Any, ...]


class Value:
    """One abstract value."""

    __slots__ = (
        "_hash",
        "_is_closed",
        "cell",
        "data",
        "kind",
        "likely",
        "parts",
        "path",
        "place",
        "rank",
        "step",
        "tags",
    )

    def __init__(
        self,
        kind: str,
        place: Place = UNKNOWN_PLACE,
        data: Any = None,
        parts: tuple[Any, ...] = (),
        path: Path | None = None,
        cell: Cell | None = None,
        rank: Any = "",
        likely: bool = False,
        step: Step | None = None,
        tags: frozenset[str] = frozenset(),
    ) -> None:
        self.kind = kind
        self.place = place
        # A constant's value, a qualified name, a class, a function: what the kind calls for.
        self.data = data
        # Elements; of EITHER, pairs of a condition and a value.
        self.parts = parts
        self.path = path
        self.cell = cell
        self.rank = rank
        self.likely = likely
        self.step = step
        self.tags = tags
        self._hash: int | None = None
        self._is_closed: bool | None = None

    @property
    def is_closed(self) -> bool:
        """Whether it is the same at each call: it hangs on no input and no test, and nothing that is made anew is in it."""
        if self._is_closed is None:
            self._is_closed = (
                self.path is None
                and self.cell is None
                and self.place.sort not in ("input", "told")
                and not isinstance(self.rank, tuple)
                and self.kind not in _OPEN
                and not (self.kind == UNKNOWN and isinstance(self.data, tuple))
                and all(not isinstance(part, Value) or part.is_closed for part in self.parts)
            )
        return self._is_closed

    def _key(self) -> tuple[Any, ...]:
        return (
            self.kind,
            self.place,
            self.path,
            self.cell,
            self.rank,
            self.likely,
            self.tags,
            self.parts,
            type(self.data),
            self.data,
        )

    def __hash__(self) -> int:
        if self._hash is None:
            try:
                self._hash = hash(self._key())
            except TypeError:
                self._hash = id(self)
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Value) or self.kind != other.kind or self.place != other.place:
            return False
        return hash(self) == hash(other) and self._key() == other._key()

    def __repr__(self) -> str:
        shown = [self.kind, f"{self.place.sort}:{self.place.name}"]
        shown += [f"{n}={getattr(self, n)!r}" for n in ("path", "data", "parts", "rank") if getattr(self, n)]
        return f"<{' '.join(shown)}{' likely' if self.likely else ''}>"

    def but(self, **changes: Any) -> Value:
        """Another value, with some fields changed."""
        made = Value(
            self.kind,
            self.place,
            self.data,
            self.parts,
            self.path,
            self.cell,
            self.rank,
            self.likely,
            self.step,
            self.tags,
        )
        for name, new in changes.items():
            setattr(made, name, new)
        return made

    @property
    def identity(self) -> Hashable:
        """What tells it from all others where it changes in place; None for what doesn't."""
        return self.cell if self.cell is not None else self.path

    def options(self) -> tuple[tuple[Condition, Value], ...]:
        """What it may be, each with its condition."""
        return self.parts if self.kind is EITHER else ((TRUE, self),)


NOTHING = Value(UNKNOWN)
NONE = Value(CONSTANT)
A_NUMBER = Value(NUMBER)
# What `x.get_device()` gives: the number of an accelerator, and -1 where `x` is on the host.
# https://docs.pytorch.org/docs/stable/generated/torch.Tensor.get_device.html
DEVICE_NUMBER = "device number"
# A loop's element of something empty, a function that never returns.
NEVER = Value(EITHER)


def constant(value: object) -> Value:
    """A literal."""
    return NONE if value is None else Value(CONSTANT, data=value)


def reference(name: str) -> Value:
    """Something outside the project, by its qualified name."""
    return Value(REFERENCE, data=name)


def tensor(place: Place, step: Step | None = None, rank: Any = "", *, likely: bool = False) -> Value:
    """A tensor at a place."""
    return Value(TENSOR, place, step=step, rank=rank, likely=likely)


def either(options: Iterable[tuple[Condition, Value]], atoms: Atoms) -> Value:
    """A value of several alternatives: equal ones under one condition, none where there is but one."""
    flat: dict[Value, Condition] = {}
    for condition, value in options:
        if not condition:
            continue
        if value.kind is not EITHER:
            known = flat.setdefault(value, condition)
            if known is not condition:
                flat[value] = atoms.either(known, condition)
            continue
        for inner, option in value.parts:
            joint = condition if inner is TRUE else atoms.both(condition, inner)
            if joint:
                known = flat.setdefault(option, joint)
                if known is not joint:
                    flat[option] = atoms.either(known, joint)
    if not flat:
        return NEVER
    if len(flat) > 1:
        for option in flat:
            if option.rank and option.kind is UNKNOWN:
                flat = _whatever_rank(flat, atoms)
                break
    if len(flat) == 1:
        return next(iter(flat))
    if len(flat) > MAX_ALTERNATIVES:
        return _blurred(flat)
    return Value(EITHER, parts=tuple((condition, option) for option, condition in flat.items()))


def _whatever_rank(options: dict[Value, Condition], atoms: Atoms) -> dict[Value, Condition]:
    """Alternatives without those that are another one but for a rank: of what may be no tensor that is no difference."""
    found: dict[Value, Condition] = {}
    first: dict[Value, Value] = {}
    for option, condition in options.items():
        plain = option.but(rank="") if option.kind is UNKNOWN and option.rank else option
        other = first.setdefault(plain, option)
        if other is option:
            found[option] = condition
            continue
        first[plain] = plain
        found[plain] = atoms.either(found.pop(other), condition)
    return found


def one_of(when_a: Condition, a: Value, when_b: Condition, b: Value, atoms: Atoms) -> Value:
    """One value or another: what either is under one condition stays under it, where it is one of the two in any case."""
    of_rank = a.kind is UNKNOWN and b.kind is UNKNOWN and a.rank != b.rank
    if a.kind is not EITHER and b.kind is not EITHER and when_a and when_b and a != b and not of_rank:
        return Value(EITHER, parts=((when_a, a), (when_b, b)))
    others = set(b.options())
    same = [option for option in a.options() if option in others]
    if not same or atoms.either(when_a, when_b) != TRUE:
        return either([(when_a, a), (when_b, b)], atoms)
    left, right = (Value(EITHER, parts=tuple(o for o in v.options() if o not in same)) for v in (a, b))
    return either([*same, (when_a, left), (when_b, right)], atoms)


def _blurred(options: Iterable[Value]) -> Value:
    """What can be said of too many alternatives: their kind, if it is one."""
    kinds = {o.kind for o in options}
    return Value(TENSOR, likely=True) if kinds == {TENSOR} else NOTHING


def mapped(value: Value, change: Callable[[Value], Value], atoms: Atoms) -> Value:
    """Each alternative changed."""
    if value.kind is not EITHER:
        return change(value)
    return either([(condition, change(option)) for condition, option in value.parts], atoms)


def under(value: Value, path: Condition, atoms: Atoms) -> Value:
    """A value without the alternatives that a path rules out."""
    if value.kind is not EITHER or path == TRUE:
        return value
    kept = [(c, v) for c, v in value.parts if atoms.may_meet(c, path)]
    if len(kept) == len(value.parts):
        return value
    return kept[0][1] if len(kept) == 1 else either(kept, atoms)


def rank_of(value: Value) -> Any:
    """The rank of a tensor, or of all of several; `("like", path)` where it is an input's, as `broadcast` has it."""
    ranks = {rank_of(p) for p in value.parts if isinstance(p, Value)} if value.kind is TUPLE else set()
    if value.kind is EITHER:
        ranks = {rank_of(v) for _, v in value.parts}
    if ranks:
        return next(iter(ranks)) if len(ranks) == 1 else ""
    if value.kind in (NUMBER, CONSTANT):
        return ZERO_DIM
    return value.rank if value.rank or value.path is None else ("like", value.path)


def broadcast(ranks: Iterable[Any]) -> Any:
    """The rank of what is computed from several things, element by element.

    `("like", path)` is that of an input; `("some", path, ...)` some dimension if one of these inputs has any.
    """
    found = dict.fromkeys(ranks)
    if RANKED in found:
        return RANKED
    if len(found) > 1:
        found.pop(ZERO_DIM, None)
    if len(found) <= 1:
        return next(iter(found), "")
    paths = {path: None for rank in found if isinstance(rank, tuple) for path in rank[1:]}
    return ("some", *paths) if 0 < len(paths) <= _MAX_DECIDING else ""


# So many inputs decide the rank of a result.
_MAX_DECIDING = 3


def leaves(value: Value, atoms: Atoms, depth: int = 3) -> Iterator[tuple[Condition, Value]]:
    """The alternatives of a value, tuples looked into, each with its condition."""
    for condition, option in value.options():
        if option.kind is TUPLE and depth:
            for part in option.parts:
                for inner, leaf in leaves(part, atoms, depth - 1):
                    if joint := atoms.both(condition, inner):
                        yield joint, leaf
        else:
            yield condition, option


def text_of(path: Path) -> str:
    """A path as a reader would write it: `batch["mask"]`, `self.table`."""
    return str(path[0]) + "".join(str(p) for p in path[1:])


def unwrapped(value: Value) -> Value:
    """What a wrapper holds; of an input, what stands in it once a call says whether that is one."""
    if value.kind is WRAPPER and value.parts:
        inner: Value = value.parts[0]
        return inner
    return value.but(tags=value.tags | {UNWRAPPED}) if value.kind is UNKNOWN and value.path is not None else value
