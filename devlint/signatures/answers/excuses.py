"""What says that two operands that seem to be apart are together after all, or never meet."""

from __future__ import annotations

import re

from devlint.signatures.answers.by_default import is_kept
from devlint.signatures.libraries.factories import MADE_OF_DATA
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.outcome import Need
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import (
    BATCH,
    HOST,
    MODULE,
    TENSOR,
    Place,
    Step,
    Value,
    leaves,
    steps_to,
)
from devlint.source.modules import FunctionModel


def stands_in(reader: Reader, value: Value, *operands: list[tuple[Condition, Value]]) -> bool:
    """Whether a value is an input, or what is made on the host where none is given: both are meant to be there."""
    if value.place.sort != "input":
        return False
    absent = reader.atoms.literal(("none", value.place.name))
    return any(
        option.place == HOST and condition and reader.atoms.implies(condition, absent)
        for placed in operands
        if any(option is value for _, option in placed)
        for condition, option in placed
    )


def is_chosen(value: Value, *operands: list[tuple[Condition, Value]]) -> bool:
    """Whether a value is on the host for a device that is chosen elsewhere may be the host."""
    return value.place == HOST and any(
        option.place.sort == "told" and option.step is not None and _at_one_line(option.step, value.step)
        for placed in operands
        if any(option is value for _, option in placed)
        for _, option in placed
    )


def is_moved_by_choice(reader: Reader, frame: Frame, value: Value) -> bool:
    """Whether a tensor stays on the host where nothing says to move it, and so does all that it meets.

    `if device_id is not None: x = x.cuda(device_id)`
    """
    return value.step is not None and any(
        option.place != HOST and option.step is not None and _at_one_line(steps_to(option.step)[0], value.step)
        for need in frame.needs
        for _, operand in need.operands
        if operand is not value
        # All parts of a batch come from one line: of another part, a move says nothing.
        if value.kind is not BATCH or any(option == value for _, option in operand.options())
        for _, option in leaves(operand, reader.atoms)
    )


def _at_one_line(a: Step | None, b: Step | None) -> bool:
    return a is not None and b is not None and a[1:4] == b[1:4]


def is_moved_by_class(frame: Frame, value: Value) -> bool:
    """Whether a class moves itself what it keeps, in one of its methods: `self.t = self.t.to(x.device)`.

    Or, of a function inside a method, whether that method has put something else there.
    """
    cls = frame.reader.class_around(frame)
    if cls is None or not is_kept(value):
        return False
    kept = [s.message.split("`")[1] for s in steps_to(value.step) if s.message.startswith("kept in")]
    if any(cls.says(re.compile(rf"{re.escape(name)} = {re.escape(name)}\.(?:to|cuda)\(")) for name in kept):
        return True
    around = frame.function.parent if frame.function is not None else None
    if around is None or around.name == "__init__":
        return False
    return not set(around.outline.sets).isdisjoint(n.removeprefix("self.") for n in kept)


def is_kept_elsewhere(function: FunctionModel | None, value: Value) -> bool:
    """Whether a tensor is a plain attribute that another function than the one at hand has set."""
    if not is_kept(value):
        return False
    if function is None:
        return True
    first, last = function.node.lineno, function.node.end_lineno or function.node.lineno
    return not any(
        s.message.startswith("kept in") and s.path == function.source.path and first <= s.line <= last
        for s in steps_to(value.step)
    )


def is_made_at_first_use(reader: Reader, value: Value, when: Condition) -> bool:
    """Whether a tensor is kept where its attribute was None until then: the first time, it is what was just made."""
    names = {
        s.message.split("`")[1].removeprefix("self") for s in steps_to(value.step) if s.message.startswith("kept in")
    }

    def is_absent(literal: int) -> bool:
        match reader.atoms.atom(literal).key:
            case ("none", tuple() as path):
                return literal > 0 and len(path) == 2 and path[-1] in names
        return False

    return bool(when) and all(any(is_absent(literal) for literal in clause) for clause in when)


def is_denied(reader: Reader, frame: Frame, need: Need, when: Condition, other: Value) -> bool:
    """Whether a value on the host stands on a way that can't be, or hardly is.

    That an input is None which is a tensor here; that none of several tests came out true, and nothing is said for that;
    that a condition grew too long to be kept, or is another function's.
    """
    paths = {p for p in (other.path, other.data, other.place.name) if isinstance(p, tuple)}
    for clause in when:
        denied = sum(1 for x in clause if x < 0) > 1 and all(x < 0 for x in clause)
        absent = False
        for literal in clause:
            match reader.atoms.atom(literal).key:
                case ("none", tuple() as path) if literal > 0:
                    absent = absent or path in paths
                case ("isinstance", asked, tuple() as types):
                    # What is asked for what tensors have isn't a list, nor anything else that is no tensor.
                    told = literal > 0 if _are_containers(types) else literal < 0 and _are_tensors(types)
                    absent = absent or (told and _is_tensors_own(frame, asked))
                case ("==", counted, Value() as none) if literal > 0 and none.data == 0 and _counts_parts(counted):
                    # Nothing was in it: hardly ever.
                    absent = True
                case ("true", (*_, "#len")) if literal < 0:
                    absent = True
                case ("forgotten", _, _) | ("at call", _, _):
                    # Nobody knows what it hangs on any more.
                    absent = True
        if not denied and not absent:
            return False
    return True


def _is_tensors_own(frame: Frame, asked: object) -> bool:
    """Whether what `isinstance` is asked about is used as tensors are, or comes out of a loader."""
    if isinstance(asked, tuple):
        return asked in frame.tensors or asked in frame.shaped or str(asked[0]).startswith("#")
    return isinstance(asked, Value) and asked.kind is BATCH


def _are_containers(types: tuple[object, ...]) -> bool:
    return all(isinstance(t, Value) and t.data in ("builtins.list", "builtins.tuple") for t in types)


def _are_tensors(types: tuple[object, ...]) -> bool:
    return all(isinstance(t, Value) and t.data == "torch.Tensor" for t in types)


def is_of_pass_before(reader: Reader, when: Condition) -> bool:
    """Whether a value is what the pass before of a loop left."""
    keys = [[reader.atoms.atom(literal).key for literal in clause if literal > 0] for clause in when]
    return bool(keys) and all(any(isinstance(k, tuple) and k[:1] == ("again",) for k in clause) for clause in keys)


def _counts_parts(counted: object) -> bool:
    """Whether a number says how many parts something has, going by how it is written."""
    return re.search(r"\blen\(|#len|numel\(|\.shape\[|\.size\(", str(counted)) is not None


def is_fed_by_host(frame: Frame, place: Place) -> bool:
    """Whether a function gives a module what it makes without a device: the module is on the host, or it fails there already."""
    return any(
        need.sense == "call"
        and any(v.kind is MODULE and v.place == place for _, v in need.operands)
        and any((v.kind is TENSOR and v.place == HOST) or MADE_OF_DATA in v.tags for _, v in need.operands)
        for need in frame.needs
    )
