"""Needs that can't be met: operands that are at different places, found among what the scopes of a file ask for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from devlint.regexes import regex
from devlint.signatures.answers.by_default import is_kept, is_part_of_something_made, is_weak, is_weak_for_host
from devlint.signatures.answers.detached import is_of_a_graph, unplaced_results
from devlint.signatures.answers.excuses import (
    is_chosen,
    is_denied,
    is_fed_by_host,
    is_kept_elsewhere,
    is_made_at_first_use,
    is_moved_by_choice,
    is_moved_by_class,
    is_of_pass_before,
    stands_in,
)
from devlint.signatures.answers.indices import is_index, is_number_taken, is_one_of_loop
from devlint.signatures.answers.left_open import (
    is_for_arrays,
    is_for_mappings,
    is_given_host,
    is_nobodys,
    is_own,
    may_be_off_host,
    meets_own_parts,
)
from devlint.signatures.answers.operands import spelt
from devlint.signatures.answers.silence import (
    is_called_shape,
    is_host_data,
    is_host_program,
    is_made_elsewhere,
    is_read_as_number,
    is_switched_to_host,
)
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.objects import PARAMETER, REGISTERED
from devlint.signatures.state.outcome import Need
from devlint.signatures.values.conditions import TRUE, Condition
from devlint.signatures.values.values import (
    BATCH,
    BUFFER,
    EMPTY,
    HOST,
    LIST,
    MODULE,
    OF_HOST,
    OR_ARRAY,
    RANKED,
    TENSOR,
    TUPLE,
    UNKNOWN,
    ZERO_DIM,
    Place,
    Step,
    Value,
    leaves,
    steps_to,
)
from devlint.source.modules import FunctionModel, SourceModule, last_name
from devlint.source.texts import is_test_file


@dataclass(frozen=True)
class Operand:
    """One operand: the expression, and the value of it that is at odds."""

    node: ast.expr
    value: Value
    # It is a part of what the expression gives: of a list of tensors.
    inside: bool = False

    @property
    def trail(self) -> tuple[Step, ...]:
        return steps_to(self.value.step)


@dataclass(frozen=True)
class Contradiction:
    """An operation with two operands that can't be together.

    `host` is the operand on the host, where one is; `other` the one that it meets. `by_itself` says that the function
    alone shows it, whatever calls it.
    """

    sense: str
    node: ast.expr | ast.AugAssign
    name: str
    host: Operand
    other: Operand
    # On some paths only.
    sometimes: bool
    certain: bool
    function: FunctionModel | None
    by_itself: bool
    # The function whose reading shows it.
    scope: FunctionModel | None
    # The calls that lead there, the outermost first.
    via: tuple[tuple[SourceModule, ast.Call], ...] = ()
    # Where it is told at a call: the operation, and the function that it stands in.
    operation: tuple[FunctionModel, ast.expr | ast.AugAssign] | None = None
    # What speaks for it is wrong more often than right in programs that somebody runs.
    weak: bool = False


def contradictions(reader: Reader, source: SourceModule) -> list[Contradiction]:
    """The contradictions of a file whose scopes were read: of each operation and tensor on the host, the surest one."""
    found: dict[tuple[ast.AST, Step | None], Contradiction] = {}
    in_test = is_test_file(source.file)
    for frame in reader.frames_in(source):
        for need in frame.needs:
            for one in _judged(reader, frame, need):
                told = _told_here(one, source)
                if told is not None and not (in_test and _hangs_on_others(told, source)):
                    key = (told.node, told.host.value.step)
                    known = found.get(key)
                    if known is None or _strength(told) > _strength(known):
                        found[key] = told
    failing = {_place_of(one, source): one for one in found.values()}
    first = (one for one in found.values() if not any(_comes_of(one, other) for other in _met(one, failing)))
    return sorted(first, key=_strength, reverse=True)


Where = tuple[str, int, int]


def _place_of(one: Contradiction, source: SourceModule) -> Where:
    """Where an operation stands, in whichever file."""
    if one.operation is None:
        return source.path, one.node.lineno, one.node.col_offset
    function, node = one.operation
    return function.source.path, node.lineno, node.col_offset


def _met(one: Contradiction, failing: dict[Where, Contradiction]) -> Iterator[Contradiction]:
    """The other operations that fail by which an operand has come."""
    for step in (*one.host.trail, *one.other.trail):
        other = failing.get((step.path, step.line, step.column))
        if other is not None and other is not one:
            yield other


def _comes_of(one: Contradiction, other: Contradiction) -> bool:
    """Whether what is on the host in one operation began where it did in another one that fails before: that is told of alone.

    What began elsewhere has to be moved as well.
    """
    return [(s.path, s.line, s.column) for s in one.host.trail[:1]] == [
        (s.path, s.line, s.column) for s in other.host.trail[:1]
    ]


def _hangs_on_others(one: Contradiction, source: SourceModule) -> bool:
    """Whether it isn't certain, and hangs on a call, or on what another file makes or chooses.

    Tests are run: what fails in each of them is known, and which devices their helpers choose is decided elsewhere.
    """
    steps = (*one.host.trail, *one.other.trail)
    return not one.certain and (bool(one.via) or any(s.path != source.path for s in steps))


def _strength(one: Contradiction) -> tuple[bool, bool, bool, bool]:
    return one.certain, not one.weak, not one.sometimes, not one.by_itself


def _told_here(one: Contradiction, source: SourceModule) -> Contradiction | None:
    """A contradiction where it is told: at the operation, or at the call that leads out of the file."""
    if not one.via:
        return one
    for at, call in one.via:
        if at is source:
            # The operation itself, where it stands in the same file.
            inside = one.function is not None and one.function.source is source
            if inside and not _is_given_wrong(one, call):
                return one
            return None if _is_shown_there(one) else _at_call(one, call, source)
    return None


def _is_shown_there(one: Contradiction) -> bool:
    """Whether the function that an operation stands in puts both operands where they are: its own file tells of that, whoever calls it."""
    if one.function is None or one.sometimes:
        return False
    path, node = one.function.source.path, one.function.node
    return all(
        trail and all(s.path == path and node.lineno <= s.line <= (node.end_lineno or 0) for s in trail)
        for trail in (one.host.trail, one.other.trail)
    )


def _is_given_wrong(one: Contradiction, call: ast.Call) -> bool:
    """Whether a method of a module is called with what isn't where the module is, as if it were `forward`."""
    method = one.function is not None and one.function.cls is not None and isinstance(call.func, ast.Attribute)
    return method and one.sense == "call" and one.other.value.place.off_host and len(one.via) == 1


def _at_call(one: Contradiction, call: ast.Call, source: SourceModule) -> Contradiction:
    operation = (one.function, one.node) if one.function is not None else None
    # Python calls a property by itself: it is told where that is read.
    is_written = next(source.ancestors(call), None) is not None
    node = call if is_written else call.func
    return replace(one, node=node, function=None, by_itself=False, operation=operation)


def _judged(reader: Reader, frame: Frame, need: Need) -> Iterator[Contradiction]:
    if need.sense == "host":
        yield from _on_the_host(reader, frame, need)
        return
    if need.sense == "index":
        base, *indices = need.operands
        for index in indices:
            yield from _pairs(reader, frame, need, [base], [index], index=True)
        return
    for position, left in enumerate(need.operands):
        yield from _pairs(reader, frame, need, [left], list(need.operands[position:]))


Pair = tuple[ast.expr, Value]


def _pairs(
    reader: Reader, frame: Frame, need: Need, lefts: list[Pair], rights: list[Pair], *, index: bool = False
) -> Iterator[Contradiction]:
    atoms = reader.atoms
    for left_node, left in lefts:
        for right_node, right in rights:
            same = left is right
            if same and left.kind not in (TUPLE, LIST):
                continue
            lefts_placed = list(_placed(reader, frame, left, need))
            rights_placed = list(_placed(reader, frame, right, need))
            for a_when, a in lefts_placed:
                # Most often both are inputs, of which nobody knows where they are: the conditions needn't be worked out for that.
                apart = [(when, b) for when, b in rights_placed if _are_at_odds(a.place, b.place)]
                if not apart:
                    continue
                # All alternatives at one place are one, as far as places go.
                a_when = _whenever(reader, lefts_placed, a.place, a_when)
                for b_when, b in apart:
                    b_when = _whenever(reader, rights_placed, b.place, b_when)
                    joint = atoms.both(need.path, atoms.both(a_when, b_when))
                    if not joint:
                        continue
                    host, other = ((left_node, a, a_when), (right_node, b, b_when))
                    if b.place == HOST:
                        host, other = other, host
                    if index and host[0] is not left_node:
                        # An index may stay on the host.
                        continue
                    if stands_in(reader, other[1], lefts_placed, rights_placed) or is_chosen(
                        host[1], lefts_placed, rights_placed
                    ):
                        continue
                    told = _apart(reader, frame, need, host, other, joint)
                    if told is not None:
                        yield told
                        if not is_kept(told.host.value):
                            return


def _whenever(reader: Reader, placed: list[tuple[Condition, Value]], place: Place, condition: Condition) -> Condition:
    """When a value is at a place, whichever of its alternatives that is."""
    if len(placed) > 1:
        for other, option in placed:
            if option.place == place:
                condition = reader.atoms.either(condition, other)
    return condition


def _placed(reader: Reader, frame: Frame, value: Value, need: Need) -> Iterator[tuple[Condition, Value]]:
    """The alternatives of an operand that are tensors, or modules, at a place that is known."""
    for condition, option in leaves(value, reader.atoms):
        if option.place.sort == "unknown":
            continue
        if option.kind in (TENSOR, BATCH, MODULE) or (option.kind is UNKNOWN and _is_tensor(frame, option, need)):
            yield condition, option


def _is_tensor(frame: Frame, value: Value, need: Need) -> bool:
    """Whether an input of unknown kind is a tensor, going by what is done to it."""
    path = value.path or (value.data if isinstance(value.data, tuple) else None)
    if (
        path is not None
        and path[1:2] == ("[]",)
        and frame.function is not None
        and _takes_more(frame.function, path[0])
    ):
        # What is done to one of them says nothing of the others.
        return False
    if path is not None and is_part_of_something_made(path) and value.place.name not in frame.tensors:
        # `graph = build(molecule)`, `graph.nodes["x"]`: a call that makes an object of what is no tensor makes its own.
        return False
    if need.sense == "call" and value.place.off_host and value.path is None and path is not None:
        # What was moved to an accelerator, and is given to a module.
        return True
    if need.sense == "operation" and not need.name and value.place.off_host and value.path is None:
        # What was moved there, or computed there, and is added to a tensor, or compared with one.
        return True
    if need.sense == "index" and path in frame.either_array:
        return True
    if "computed" in value.tags or (path is not None and path in frame.tensors):
        return True
    return path is not None and path in frame.supposed and need.sense != "index"


def _takes_more(function: FunctionModel, name: str) -> bool:
    """Whether a name stands for all that a function is given beside its parameters: `**kwargs`."""
    more = function.node.args.kwarg if isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    return more is not None and more.arg == name


def _counts(value: Value, need: Need) -> bool:
    """Whether a tensor on the host can't stay there: those without dimensions may."""
    if value.kind is MODULE or (need.any_rank and value.rank not in (ZERO_DIM, EMPTY)):
        return True
    return value.rank == RANKED or (value.kind is BATCH and value.rank != ZERO_DIM)


# Accelerators whose programs copy operands from the host by themselves (Gaudi, in its lazy mode).
_TAKING_FROM_HOST = frozenset({"hpu"})
# Where tensors have no data, and what says that one is a module's.
_META = "meta"
_OF_MODULES = frozenset({BUFFER, PARAMETER, REGISTERED})


def _apart(
    reader: Reader,
    frame: Frame,
    need: Need,
    host: tuple[ast.expr, Value, Condition],
    other: tuple[ast.expr, Value, Condition],
    joint: Condition,
) -> Contradiction | None:
    atoms = reader.atoms
    (host_node, a, a_when), (other_node, b, b_when) = host, other
    if a.place == HOST and not _counts(a, need):
        return None
    if need.sense != "index" and OR_ARRAY in a.tags:
        return None
    if any(v.place.name == _META and not v.tags.isdisjoint(_OF_MODULES) for v in (a, b)):
        # What is made on meta is made to be filled in, by its names most often: nobody sees that.
        return None
    if is_switched_to_host(frame.source):
        return None
    if a.kind is BATCH and (is_called_shape(host_node) or is_read_as_number(host_node, need.function)):
        # A loader's own collation keeps shapes as numbers, and one of a batch's labels has no dimension.
        return None
    if need.sense == "index" and (
        not is_index(b) or is_number_taken(other_node, need.node) or is_one_of_loop(other_node, frame, b)
    ):
        # A number that indexes: torch takes it from anywhere.
        return None
    if atoms.with_host(joint):
        return None
    sure = atoms.implies(need.path, a_when) and atoms.implies(need.path, b_when)
    if not sure and need.via and not atoms.implies(need.path, a_when) and not _is_made_in(frame, a):
        # What a function does on some of its paths is told where it stands.
        return None
    if not sure:
        # One of them is so on all paths, or on all on which the other is: else what decides the one may decide the other.
        a_path, b_path = atoms.both(need.path, a_when), atoms.both(need.path, b_when)
        if not (atoms.implies(a_path, b_when) or atoms.implies(b_path, a_when)):
            return None
        if atoms.about_devices(a_when) and not atoms.implies(b_path, a_when):
            return None
        given = bool(need.via) and a_when == TRUE
        if atoms.forgets_devices(need.path):
            # What was asked of devices on the way there may keep the operands together.
            return None
        if not given and atoms.is_forgotten(joint):
            # One operand's alternatives are split by the path, the other's by their own conditions: nobody knows which go together.
            return None
    if is_moved_by_class(frame, a):
        return None
    open_one = b.place.is_open
    if open_one and a.kind is MODULE:
        # Whoever has the module may move it; lists of modules are another rule's.
        return None
    left_to_others = is_kept_elsewhere(frame.function, a) and not is_made_at_first_use(reader, a, a_when)
    if not sure and (
        (left_to_others and not atoms.implies(need.path, a_when))
        or is_denied(reader, frame, need, a_when, b)
        or (is_of_pass_before(reader, b_when) and is_denied(reader, frame, need, b_when, a))
    ):
        return None
    hangs_on_caller = b.place.sort == "told" or (b.place.sort == "input" and not is_own(frame, b))
    if (b.place.off_host or hangs_on_caller) and is_for_arrays(reader, joint):
        return None
    if need.sense == "call" and a.kind is not TENSOR and is_for_mappings(reader, a_when):
        return None
    if open_one and any(step.told for step in steps_to(a.step)) and not _left_behind(frame, need, a, b):
        # Whoever names the host there means it.
        return None
    if open_one and (
        need.told_inside or is_moved_by_choice(reader, frame, a) or is_nobodys(reader, frame, need, host[0], a, b)
    ):
        return None
    if a.place == HOST and _is_made_by_default(a) and is_made_elsewhere(reader.project, frame.source, frame.function):
        return None
    likely = a.likely or b.likely or open_one or not sure or need.guarded
    return Contradiction(
        need.sense,
        need.node,
        need.name,
        _operand(frame, need, host_node, a),
        _operand(frame, need, other_node, b),
        not sure,
        not likely,
        need.function,
        open_one,
        frame.function,
        need.via,
        weak=likely and is_weak(reader, frame, need, (a, a_when), b),
    )


def _left_behind(frame: Frame, need: Need, host: Value, other: Value) -> bool:
    """Whether the function at hand moves one of two that were at one place to the host, and leaves the other: `x * x.mean(0).cpu()`."""
    return not need.via and any(
        step.told and step.left == other.place and _stands_in_function(frame, step) for step in steps_to(host.step)
    )


def _is_made_by_default(value: Value) -> bool:
    """Whether a tensor or a module was made on the host since nobody said anything else."""
    first = next(iter(steps_to(value.step)), None)
    made = first is not None and first.message.startswith("created on cpu by") and not first.told
    return made and value.kind in (TENSOR, MODULE)


def _operand(frame: Frame, need: Need, node: ast.expr, value: Value) -> Operand:
    """An operand of a need that is the value of an expression, or a part of it."""
    if value.place.sort == "told":
        value = value.but(place=value.place._replace(name=spelt(frame, value.place.name)))
    whole = (option for other, given in need.operands if other is node for _, option in given.options())
    return Operand(node, value, inside=any(o.kind in (TUPLE, LIST) and o is not value for o in whole))


def _is_made_in(frame: Frame, value: Value) -> bool:
    """Whether a value was made in the function at hand itself."""
    first = next(iter(steps_to(value.step)), None)
    return first is not None and _stands_in_function(frame, first)


def _stands_in_function(frame: Frame, step: Step) -> bool:
    """Whether a step of a trail stands in the function at hand."""
    if frame.function is None or step.path != frame.source.path:
        return False
    node = frame.function.node
    return node.lineno <= step.line <= (node.end_lineno or node.lineno)


def _are_at_odds(a: Place, b: Place) -> bool:
    """Whether what is at two places may not be put together: on the host and elsewhere, or on different accelerators."""
    if HOST not in (a, b):
        return a.off_host and b.off_host and _are_different(a, b)
    other = b if a == HOST else a
    if other.off_host:
        return other.name.partition(":")[0] not in _TAKING_FROM_HOST
    return other.is_open


def _are_different(a: Place, b: Place) -> bool:
    first, second = str(a.name), str(b.name)
    if first.partition(":")[0] != second.partition(":")[0]:
        return True
    return ":" in first and ":" in second and first != second


def _on_the_host(reader: Reader, frame: Frame, need: Need) -> Iterator[Contradiction]:
    """Something that wants host memory, given what is on an accelerator, or may well be."""
    atoms = reader.atoms
    for node, value in need.operands:
        if any(isinstance(n, ast.Call) and _COPIER.fullmatch(last_name(n.func)) for n in ast.walk(node)):
            # `self.to_cpu(image).numpy()`: by way of a buffer, for one.
            continue
        placed = [*_placed(reader, frame, value, need), *unplaced_results(frame, node, value, need)]
        for when, option in placed:
            joint = atoms.both(need.path, when)
            if not joint or option.kind is MODULE or option.place == HOST or atoms.with_host(joint):
                continue
            sure = atoms.implies(need.path, when)
            if not sure and (atoms.forgets(need.path) or atoms.is_forgotten(joint)):
                # A test that isn't kept may rule it out.
                continue
            if len(need.via) > 2:
                # Too far from the call to be understood there.
                continue
            was_moved = option.place.sort == "told"
            if option.place.is_open and (
                need.via
                or not (sure or was_moved)
                or not (
                    may_be_off_host(frame, option)
                    or meets_own_parts(frame, option)
                    or is_of_a_graph(reader, frame, node, option)
                )
            ):
                # A bare input may be on the host in all that calls it.
                continue
            if option.place.is_open and frame.function is not None and is_given_host(reader, frame.function, need):
                continue
            if option.place.is_open and (
                OF_HOST in option.tags
                or is_host_data(option.place)
                or is_host_program(reader.project, frame.source)
                or not _OTHER_TENSORS.isdisjoint(frame.source.imported_packages)
            ):
                continue
            if option.place.is_open and is_fed_by_host(frame, option.place):
                continue
            is_of_numpy = need.name.partition(".")[0] in ("np", "numpy")
            if is_of_numpy and not _ANSWER_NUMPY.isdisjoint(frame.source.imported_packages):
                continue
            if (option.place.is_open or need.via) and is_for_arrays(reader, need.path, or_no_tensors=True):
                # A call of which it isn't known whether the test comes out so says nothing of that path.
                continue
            operand = _operand(frame, need, node, option)
            certain = sure and not option.likely and not option.place.is_open and not need.guarded
            yield Contradiction(
                "host", need.node, need.name, operand, operand, not sure, certain, need.function, option.place.is_open, frame.function, need.via,
                weak=is_weak_for_host(reader, frame, need, (operand.value, when), inside=operand.inside, certain=certain),
            )  # fmt: skip
            return


# Packages whose loaders give tensors that copy themselves to the host where a function of NumPy asks for them.
# https://docs.monai.io/en/stable/data.html#metatensor
_ANSWER_NUMPY = frozenset({"monai"})

# Packages with tensors of their own, whose `.numpy()` works wherever they are.
_OTHER_TENSORS = frozenset({"tensorflow", "jax", "mxnet", "paddle", "cupy"})
# Functions that copy to the host, going by their names.
_COPIER = regex(r"(?:\w{1,60}_)?(?:to|on)_(?:cpu|host)")
