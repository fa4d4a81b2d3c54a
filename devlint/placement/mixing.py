"""Operations whose operands are at different places, found among the values that the model recorded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from devlint.knowledge import canonical, torch_knowledge
from devlint.knowledge.metrics import needs_one_device
from devlint.placement.devices import is_device_name, is_setting
from devlint.placement.metrics import metrics_in, updated_by
from devlint.placement.values import HOST, NO_GUARDS, UNKNOWN, Guards, Kind, Place, Sort, Value, compatible

if TYPE_CHECKING:
    from devlint.placement.model import PlacementModel


class Sense(Enum):
    """What an operation does with its operands."""

    OPERATION = "operation"
    CALL = "call"
    INDEX = "index"


@dataclass(frozen=True)
class Operand:
    """One operand: the expression, and the value of it that is at odds."""

    node: ast.expr
    value: Value


@dataclass(frozen=True)
class Mixing:
    """An operation with two operands that are at different places.

    `host` is the operand on the host, where one is; `other` the one that it meets. `name` says what is done.
    """

    sense: Sense
    node: ast.expr | ast.AugAssign
    name: str
    host: Operand
    other: Operand
    # On some paths only.
    sometimes: bool


def mixings(model: PlacementModel, record: Mapping[ast.expr, Value]) -> Iterator[Mixing]:
    """The mixings among recorded expressions, in no order."""
    for node in list(record):
        match node:
            case ast.BinOp(left=left, right=right) if not _holds_parts(record, left, right):
                yield from _among(Sense.OPERATION, node, "", [left, right], record)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if not isinstance(op, _IDENTITY):
                yield from _among(Sense.OPERATION, node, "", [left, right], record)
            case ast.Call():
                yield from _in_call(model, node, record)
            case ast.Subscript(value=value, slice=index):
                yield from _in_index(node, value, index, record)


def _holds_parts(record: Mapping[ast.expr, Value], *operands: ast.expr) -> bool:
    """Whether an operand may be a list or a tuple: their sum computes nothing."""
    values = (record[o] for o in operands if o in record)
    return any(v.kind in (Kind.SEQUENCE, Kind.MAPPING) for value in values for _, v in value.alternatives())


_IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


def _in_call(model: PlacementModel, node: ast.Call, record: Mapping[ast.expr, Value]) -> Iterator[Mixing]:
    given = [a for a in node.args if not isinstance(a, ast.Starred)] + [k.value for k in node.keywords if k.arg]
    knowledge = torch_knowledge()
    callee = model.followed(record.get(node.func, UNKNOWN))
    if callee.kind is Kind.REFERENCE:
        name = canonical(callee.name)
        if name in knowledge.one_device:
            yield from _among(Sense.OPERATION, node, name, given, record)
        return
    if isinstance(node.func, ast.Attribute):
        receiver = record.get(node.func.value)
        if receiver is not None and any(v.is_tensor for _, v in receiver.alternatives()):
            if f"torch.Tensor.{node.func.attr}" in knowledge.one_device:
                yield from _among(Sense.OPERATION, node, f".{node.func.attr}", [node.func.value, *given], record)
            return
    for guards, module in callee.alternatives():
        if module.is_module and guards == NO_GUARDS:
            yield from _in_module_call(node, module, given, record)
    yield from _in_update(node, given, record)


def _in_update(node: ast.Call, given: list[ast.expr], record: Mapping[ast.expr, Value]) -> Iterator[Mixing]:
    """A metric that was left on the host, given what is on an accelerator."""
    _, owner = updated_by(node)
    for guards, metric in record.get(owner, UNKNOWN).alternatives():
        if guards == NO_GUARDS and metric.place == HOST and any(needs_one_device(m.name) for m in metrics_in(metric)):
            yield from _between(Sense.CALL, node, ast.unparse(node.func), Operand(owner, metric), given, record)


def _in_module_call(
    node: ast.Call, module: Value, given: list[ast.expr], record: Mapping[ast.expr, Value]
) -> Iterator[Mixing]:
    """A loss compares its arguments; any other module computes from its first one with its parameters."""
    if module.name.startswith("torch.nn.") and module.name.endswith("Loss"):
        yield from _among(Sense.OPERATION, node, ast.unparse(node.func), given, record)
        yield from _between(Sense.CALL, node, ast.unparse(node.func), Operand(node.func, module), given[:1], record)
    elif _computes_with_parameters(module):
        yield from _between(Sense.CALL, node, ast.unparse(node.func), Operand(node.func, module), given[:1], record)


def _between(
    sense: Sense,
    node: ast.Call,
    name: str,
    module: Operand,
    given: Iterable[ast.expr],
    record: Mapping[ast.expr, Value],
) -> Iterator[Mixing]:
    for argument in given:
        for guards, value in _tensors(record.get(argument)):
            if is_input(value.place):
                # The module may be wherever its owner is.
                continue
            if _apart(module.value.place, value.place, NO_GUARDS, guards) and _counts(value):
                first, second = Operand(argument, value), module
                if second.value.place == HOST:
                    first, second = second, first
                yield Mixing(sense, node, name, first, second, bool(guards))
                return


def _computes_with_parameters(module: Value) -> bool:
    """Whether a module surely has parameters that its first argument meets where it is given."""
    inner = module
    if inner.kind is Kind.WRAPPER:
        # It moves its inputs to its own device.
        return False
    if inner.cls is None:
        return inner.name in _WITH_PARAMETERS or any(_computes_with_parameters(e) for e in inner.elements or ())
    forward = inner.cls.method("forward")
    if forward is None or any(b not in ("torch.nn.Module", "builtins.object") for b in inner.cls.outside_bases):
        return False
    text = "".join(owner.text for owner in inner.cls.project_lineage())
    return _CREATES_PARAMETERS.search(text) is not None and not any(word in text for word in _PLACING)


# A class that speaks of these may move what it is given.
_PLACING = (".to(", ".cuda(", "device", ".type_as(", "new_", "_like(")
_WITH_PARAMETERS = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"),
        *("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "LayerNorm", "Embedding", "EmbeddingBag", "PReLU"),
        *("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "MultiheadAttention", "Transformer"),
        *("TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer"),
    )
)
_CREATES_PARAMETERS = re.compile(
    r"\b(?:Parameter|" + "|".join(name.rsplit(".", 1)[1] for name in sorted(_WITH_PARAMETERS)) + r")\("
)


def _in_index(
    node: ast.Subscript, base: ast.expr, index: ast.expr, record: Mapping[ast.expr, Value]
) -> Iterator[Mixing]:
    """A tensor on the host can't be indexed by one on an accelerator; the reverse works."""
    for base_guards, value in record[base].alternatives() if base in record else ():
        if not value.is_tensor or value.place != HOST:
            continue
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            for guards, found in _tensors(record.get(part)):
                if (
                    found.is_tensor
                    and found.ranked
                    and compatible(base_guards, guards)
                    and _apart(HOST, found.place, base_guards, guards)
                ):
                    sometimes = bool(base_guards or guards)
                    yield Mixing(Sense.INDEX, node, "", Operand(base, value), Operand(part, found), sometimes)
                    return


def _among(
    sense: Sense, node: ast.expr, name: str, operands: list[ast.expr], record: Mapping[ast.expr, Value]
) -> Iterator[Mixing]:
    """The first two of the operands that are apart."""
    found = [(o, guards, value) for o in operands for guards, value in _tensors(record.get(o))]
    for i, (left, left_guards, a) in enumerate(found):
        for right, right_guards, b in found[i + 1 :]:
            if left is right and not _is_container(left):
                continue
            if compatible(left_guards, right_guards) and _apart(a.place, b.place, left_guards, right_guards):
                first, second = Operand(left, a), Operand(right, b)
                if b.place == HOST:
                    first, second = second, first
                if first.value.place != HOST or _counts(first.value):
                    at = getattr(node, "devlint_statement", node)
                    yield Mixing(sense, at, name, first, second, bool(left_guards or right_guards))
                    return


def _is_container(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.Tuple))


def _counts(value: Value) -> bool:
    """Whether a tensor on the host can't stay there: those without dimensions may."""
    return value.place != HOST or value.ranked


def _tensors(value: Value | None) -> Iterator[tuple[Guards, Value]]:
    """The tensors that a value may be or hold."""
    if value is None:
        return
    for guards, option in value.alternatives():
        if option.is_tensor or option.kind is Kind.BATCH:
            yield guards, option
        elif option.kind is Kind.SEQUENCE:
            for part in option.elements or ((option.each,) if option.each is not None else ()):
                yield from ((guards | more, v) for more, v in _tensors(part))


def _apart(a: Place, b: Place, when_a: Guards, when_b: Guards) -> bool:
    """Whether two places are surely different, on a machine that has an accelerator."""
    if a.sort is Sort.ACCELERATOR and b.sort is Sort.ACCELERATOR:
        backends = a.name.partition(":")[0], b.name.partition(":")[0]
        return backends[0] != backends[1] or (":" in a.name and ":" in b.name and a.name != b.name)
    if (a == HOST) == (b == HOST):
        return False
    other, when_host, when_other = (b, when_a, when_b) if a == HOST else (a, when_b, when_a)
    if any(guard.without_accelerator for guard in when_host):
        # On that path the program runs without an accelerator.
        return False
    if not when_host <= when_other:
        # What made the choice of a device may be what guards the host's operand, too.
        return False
    return other.off_host or (other.sort is Sort.SAME and (is_told(other) or is_input(other)))


def is_told(place: Place) -> bool:
    """Whether it is the device that the program is told: `device`, `args.device`."""
    if place.sort is not Sort.SAME:
        return False
    node = ast.parse(place.name, mode="eval").body
    if isinstance(node, ast.Attribute) and node.attr == "device":
        # `x.device` is where some tensor is, which may be the other operand.
        return is_setting(node)
    return is_device_name(node)


def is_input(place: Place) -> bool:
    """Whether it is where an argument of `forward`, or the module itself, is."""
    return place.sort is Sort.SAME and place.name.removeprefix("self.").isidentifier() and not is_told(place)


def unplaced(
    model: PlacementModel, found: Iterable[Mixing], record: Mapping[ast.expr, Value]
) -> dict[ast.Call, Mixing]:
    """The factory calls that should have been told a device, each with where its result meets what a function is given."""
    # In a chain of calls all start at one place: the factory is the shortest.
    nodes = sorted((n for n in record if isinstance(n, ast.Call)), key=_end, reverse=True)
    calls = {(n.lineno, n.col_offset): n for n in nodes}
    result: dict[ast.Call, Mixing] = {}
    for mixing in found:
        if mixing.sense is not Sense.OPERATION or not mixing.host.value.trail:
            continue
        made = mixing.host.value.trail[0]
        call = calls.get((made.line, made.column))
        if call is None or call in result or not made.message.startswith("created on cpu"):
            continue
        scope = model.enclosing_scope(call)
        if not isinstance(scope, ast.Module) and (
            is_input(mixing.other.value.place) or _is_given(mixing, scope, model)
        ):
            result[call] = mixing
    return result


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


def _is_given(mixing: Mixing, scope: ast.FunctionDef | ast.AsyncFunctionDef, model: PlacementModel) -> bool:
    """Whether the other operand came into the function from outside: its trail has no step in there."""
    if model.enclosing_scope(mixing.node) is not scope:
        return False
    end = scope.end_lineno or scope.lineno
    return not any(s.path == model.source.path and scope.lineno <= s.line <= end for s in mixing.other.value.trail)
