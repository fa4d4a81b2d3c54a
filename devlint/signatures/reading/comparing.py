"""Values compared with one another: what is known of the outcome, devices and places among them."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from devlint.knowledge import canonical
from devlint.knowledge.ecosystem import TENSOR_TYPES
from devlint.regexes import regex
from devlint.signatures.libraries.devices import parse_place
from devlint.signatures.libraries.tensor_methods import TYPE_NAME
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.conditions import FALSE, TRUE, Condition
from devlint.signatures.values.values import (
    CONSTANT,
    DEVICE,
    DEVICE_NUMBER,
    DEVICE_OBJECT,
    EITHER,
    HOST,
    NOTHING,
    NUMBER,
    REFERENCE,
    Place,
    Value,
    constant,
    mapped,
)

DEVICE_FLAG = regex(r"(?i)cuda|gpu|accel|is_available|on_device")


def token(value: Value) -> Hashable:
    """What makes two reads the same thing in a test."""
    return value.path if value.path is not None else value


# The positive forms of comparisons, as atoms name them.
COMPARISONS = {"==": ast.Eq(), "Lt": ast.Lt(), "LtE": ast.LtE(), "Gt": ast.Gt(), "GtE": ast.GtE(), "In": ast.In()}


def comparison(frame: Frame, node: ast.Compare, left: Value, op: ast.cmpop, right: Value) -> Condition:
    """The condition that a comparison holds."""
    positive = {ast.NotEq: "==", ast.Is: "==", ast.IsNot: "==", ast.Eq: "==", ast.NotIn: "In"}
    kind = positive.get(type(op), type(op).__name__)
    left, right = _as_written(frame, left, node.left), _as_written(frame, right, node.comparators[0])
    told = compared(frame, kind, left, right, _host_when_compared(node) if _about_devices(node) else None)
    return frame.atoms.negated(told) if isinstance(op, (ast.NotEq, ast.IsNot, ast.NotIn)) else told


def _is_some_number(value: Value) -> bool:
    """Whether a value is a number of which nothing is known: it needn't be the same as another one."""
    return value.kind is NUMBER and value.path is None


def _as_written(frame: Frame, value: Value, node: ast.expr) -> Value:
    """A value, a number of which nothing is known told from others by what is written there."""
    if not any(_is_some_number(option) for _, option in value.options()):
        return value
    return called_number(frame, value, ast.unparse(node))


def called_number(frame: Frame, value: Value, name: str) -> Value:
    """A value, a number of which nothing is known being called something."""
    return mapped(value, lambda option: option.but(data=name) if _is_some_number(option) else option, frame.atoms)


def compared(frame: Frame, kind: str, left: Value, right: Value, host_when: bool | None = None) -> Condition:
    """The condition that two values are equal, or that the other comparison of that name holds."""
    if left.kind is not EITHER and right.kind is not EITHER:
        return _compared_plain(frame, kind, left, right, host_when)
    atoms = frame.atoms
    result = FALSE
    for a_when, a in left.options():
        for b_when, b in right.options():
            joint = atoms.both(a_when, b_when)
            if joint:
                told = _compared_plain(frame, kind, a, b, host_when)
                result = atoms.either(result, atoms.both(joint, told))
    return result


def _compared_plain(frame: Frame, kind: str, a: Value, b: Value, host_when: bool | None) -> Condition:
    op = COMPARISONS[kind]
    if DEVICE_NUMBER in a.tags and b.kind is CONSTANT and isinstance(b.data, int):
        # `x.get_device() >= 0`
        elsewhere, on_host = {_plainly(op, n, b.data) for n in (0, 1, 7)}, _plainly(op, -1, b.data)
        if elsewhere == {not on_host}:
            told = on_accelerator(frame, a)
            return frame.atoms.negated(told) if on_host else told
    if kind == "==" and a.kind is TYPE_NAME and b.kind is CONSTANT and isinstance(b.data, str):
        # `x.type() == "torch.FloatTensor"`: an accelerator's types have its name; which of them it is, is left open.
        told = on_accelerator(frame, a)
        if b.data in TENSOR_TYPES:
            return frame.atoms.negated(told)
        if b.data.startswith("torch.cuda.") and told == FALSE:
            return FALSE
    if kind == "==":
        if any(_are_object_and_text(*pair) for pair in ((a, b), (b, a))):
            return FALSE
        known = _same(frame, a, b)
        if known is None:
            known = _same(frame, b, a)
        if known is not None:
            return known
    if a.kind is CONSTANT and b.kind is CONSTANT:
        try:
            return TRUE if _plainly(op, a.data, b.data) else FALSE
        except TypeError:
            return FALSE
    if "count" in (a.kind, b.kind):
        # The number of GPUs: there is one at least, where the program has an accelerator.
        limit = b if a.kind == "count" else a
        if limit.kind is CONSTANT and isinstance(limit.data, int):
            outcomes = [_plainly(op, *((n, limit.data) if a.kind == "count" else (limit.data, n))) for n in (1, 2, 8)]
            if all(outcomes) or not any(outcomes):
                return TRUE if outcomes[0] else FALSE
    if b.kind is CONSTANT and isinstance(b.data, str) and b.data in ("cpu", "cuda", "gpu"):
        host_when = b.data == "cpu"
    if kind == "==" and b.kind is DEVICE and b.place == HOST and b.path is None:
        # `self.device == torch.device("cpu")`
        host_when = True
    key = (kind, token(a), token(b))
    if kind == "==":
        for thing, other in ((a, b), (b, a)):
            if thing.path is not None and other.kind is CONSTANT:
                return frame.atoms.equal(key, token(thing), other.data, host_when)
    return frame.atoms.literal(key, host_when)


def _are_object_and_text(device: Value, text: Value) -> bool:
    """A `torch.device` equals no string."""
    is_object = device.kind is DEVICE and device.tags >= DEVICE_OBJECT
    return is_object and text.kind is CONSTANT and isinstance(text.data, str)


def is_none(frame: Frame, value: Value) -> Condition:
    """The condition that a value is None."""
    return compared(frame, "==", value, constant(None))


def _host_when_compared(node: ast.Compare) -> bool | None:
    """The outcome of `n_gpu > 0` and the like, in its positive form, under which there is no accelerator."""
    match node.ops[0], _number_in(node.comparators[0]):
        case (ast.Gt(), 0 | -1) | (ast.GtE(), 0 | 1):
            return False
        case (ast.Lt(), 0 | 1) | (ast.LtE() | ast.Eq() | ast.NotEq(), 0 | -1):
            return True
    return None


def _number_in(node: ast.expr) -> int | None:
    """The whole number that is written somewhere: `1`, `-1`."""
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return -number
    return None


def _about_devices(node: ast.Compare) -> bool:
    return any(
        DEVICE_FLAG.search(n.id if isinstance(n, ast.Name) else n.attr) is not None
        for n in map(_counted, (node.left, *node.comparators))
        if isinstance(n, (ast.Name, ast.Attribute))
    )


def _counted(node: ast.expr) -> ast.expr:
    """`gpu_ids` of `len(gpu_ids)`."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[counted]):
            return counted
    return node


def _plainly(op: ast.cmpop, a: object, b: object) -> bool:
    match op:
        case ast.Eq() | ast.NotEq():
            return a == b
        case ast.Is() | ast.IsNot():
            return a is b or (a == b and type(a) is type(b))
        case ast.Lt():
            return a < b  # type: ignore[operator,no-any-return]
        case ast.LtE():
            return a <= b  # type: ignore[operator,no-any-return]
        case ast.Gt():
            return a > b  # type: ignore[operator,no-any-return]
        case ast.GtE():
            return a >= b  # type: ignore[operator,no-any-return]
    return a in b  # type: ignore[operator]


def _same(frame: Frame, a: Value, b: Value) -> Condition | None:
    """Whether `a` is `b`, where that can be told."""
    if b.kind is CONSTANT and b.data is None:
        if a.kind is CONSTANT:
            return TRUE if a.data is None else FALSE
        if a.path is not None and "computed" not in a.tags:
            return frame.atoms.equal(("none", token(a)), token(a), None)
        # Of what nothing at all is known may be None; what was computed isn't.
        return frame.atoms.forgotten() if a == NOTHING else FALSE
    place = _asked(b)
    if place is not None and a.kind in (DEVICE, "device type"):
        return _at(frame, a, place)
    if a.kind is CONSTANT and b.kind is CONSTANT:
        return TRUE if a.data == b.data else FALSE
    if a.kind is REFERENCE and b.kind is REFERENCE and isinstance(a.data, str) and isinstance(b.data, str):
        names = canonical(a.data), canonical(b.data)
        # Two names of parts may be of one thing, as `torch.float` and `torch.float32` are; two packages never are.
        return TRUE if names[0] == names[1] else None if "." in "".join(names) else FALSE
    return None


def _asked(value: Value) -> Place | None:
    """The place that a device, or its name, stands for."""
    if value.kind in (DEVICE, "device type"):
        return value.place
    if value.kind is CONSTANT and isinstance(value.data, str):
        return parse_place(value.data)
    return None


def _at(frame: Frame, device: Value, asked: Place) -> Condition:
    """Whether a device is the one that is asked for, by its backend."""
    place = device.place
    if asked.is_open or (place.is_open and place == asked):
        return same_place(frame, place, asked)
    if place.sort == "unknown":
        return frame.atoms.literal(("at", token(device), asked), asked == HOST)
    if place.is_open:
        # An accelerator or the host: the one outcome is the other's opposite.
        on_host = frame.atoms.literal(("on host", place), True)
        return on_host if asked == HOST else frame.atoms.negated(on_host)
    backends = [str(p.name).partition(":") for p in (place, asked)]
    if backends[0][0] != backends[1][0]:
        return FALSE
    if device.kind == "device type" or backends[0][2] == backends[1][2]:
        return TRUE
    # `torch.device("cuda") == torch.device("cuda:0")` is false; what a tensor says has an index.
    return frame.atoms.literal(("at", place, asked))


def same_place(frame: Frame, a: Place, b: Place) -> Condition:
    """Whether two places are one, by their devices."""
    if a == b:
        return TRUE
    if a.is_open or b.is_open or "unknown" in (a.sort, b.sort):
        # Where one of them is the host, it says that the other is there as well.
        return frame.atoms.literal(("same place", *sorted((a, b), key=str)), True if HOST in (a, b) else None)
    (a_type, _, a_index), (b_type, _, b_index) = (str(p.name).partition(":") for p in (a, b))
    if a_type != b_type or (a_index and b_index):
        return FALSE
    # "cuda" is the current one, which is the first unless the program says otherwise.
    return TRUE if "0" in (a_index, b_index) else frame.atoms.literal(("at", a, b))


def on_accelerator(frame: Frame, value: Value) -> Condition:
    """`x.is_cuda`."""
    place = value.place
    if place == HOST and not value.likely:
        return FALSE
    if place.off_host:
        return TRUE
    if place.is_open:
        return frame.atoms.negated(frame.atoms.literal(("on host", place), True))
    # What is only likely decides nothing: what stands under the test would be certain.
    return frame.atoms.literal(("is_cuda", token(value)), False)
