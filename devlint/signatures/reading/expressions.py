"""Expressions: what each gives, and what it asks of its operands."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from devlint.signatures.libraries import waits
from devlint.signatures.libraries.devices import numbered_device
from devlint.signatures.libraries.factories import MADE_OF_DATA
from devlint.signatures.state import containers, stores
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.objects import attribute
from devlint.signatures.values.values import (
    A_NUMBER,
    ARRAY,
    BATCH,
    CONSTANT,
    DEVICE,
    DEVICE_NUMBER,
    DICT,
    EITHER,
    FUNCTION,
    GATHERED,
    HOST,
    LIST,
    MODULES,
    NEVER,
    NOTHING,
    NUMBER,
    OF_HOST,
    RANKED,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    ZERO_DIM,
    Value,
    broadcast,
    constant,
    either,
    mapped,
    rank_of,
)
from devlint.source.modules import FunctionModel
from devlint.source.slim import by_kind


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """What an expression gives."""
    read = EXPRESSIONS.get(type(node))
    value = read(frame, node) if read is not None else NOTHING
    record = frame.record
    if record is not None:
        record.note(frame, node, value)
    return value


def _constant(frame: Frame, node: ast.Constant) -> Value:
    return constant(node.value)


def _name(frame: Frame, node: ast.Name) -> Value:
    value = frame.get(node.id)
    return value if value is not None else frame.reader.lookup(frame, node.id)


def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    owner = evaluate(frame, node.value)
    frame.asked = node
    return attribute(frame, owner, node.attr)


def _tuple(frame: Frame, node: ast.Tuple) -> Value:
    parts, known = _spread(frame, node.elts)
    return Value(TUPLE, parts=tuple(parts)) if known else containers.made(frame, LIST, _any(parts, frame), node)


def _list(frame: Frame, node: ast.List | ast.Set) -> Value:
    parts, known = _spread(frame, node.elts)
    contents = containers.sequence(parts, frame) if known else _any(parts, frame)
    return containers.made(frame, LIST, contents, node)


def _any(parts: list[Value], frame: Frame) -> Value:
    """Contents that may be any of some parts."""
    return containers.each_of([p for p in parts if p is not NEVER] or [NOTHING], frame)


def _spread(frame: Frame, nodes: list[ast.expr]) -> tuple[list[Value], bool]:
    """The parts of a display, and whether they are told one by one: starred ones may hold any number."""
    found: list[Value] = []
    known = True
    for node in nodes:
        if not isinstance(node, ast.Starred):
            found.append(evaluate(frame, node))
            continue
        inner = evaluate(frame, node.value)
        contents = containers.contents_of(frame, inner)
        if contents is not None and contents.kind is TUPLE and inner.kind is not DICT:
            found += contents.parts
        else:
            found.append(containers.element(frame, inner))
            known = False
    return found, known


def _dict(frame: Frame, node: ast.Dict) -> Value:
    table: dict[object, Value] = {}
    known = True
    for key, value in zip(node.keys, node.values, strict=True):
        part = evaluate(frame, value)
        if key is None:
            contents = containers.contents_of(frame, part)
            if contents is not None and contents.kind is containers.ITEMS:
                table |= dict(zip(contents.data, contents.parts, strict=True))
            else:
                known = False
            continue
        named = evaluate(frame, key)
        if named.kind is CONSTANT:
            table[named.data] = part
        else:
            table[f"<{len(table)}>"] = part
            known = False
    if known and len(table) <= 48:
        contents = Value(containers.ITEMS, data=tuple(table), parts=tuple(table.values()))
    else:
        contents = containers.each_of([*table.values(), NOTHING], frame)
    return containers.made(frame, DICT, contents, node)


def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    base = evaluate(frame, node.value)
    index = evaluate(frame, node.slice) if not isinstance(node.slice, ast.Slice) else _slice(frame, node.slice)
    operands = [(node.value, base)]
    for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
        if not isinstance(part, (ast.Slice, ast.Constant)):
            operands.append((part, evaluate(frame, part) if isinstance(node.slice, ast.Tuple) else index))
    ranked = [operands[0], *(pair for pair in operands[1:] if not _is_number_elsewhere(pair[1]))]
    if len(ranked) > 1:
        frame.need("index", node, "", *ranked)
    waits.indexed(frame, node, base, operands[1:])
    if _reads_old_number(node, base):
        return A_NUMBER
    called = frame.reader.called_item(frame, node, base, index)
    found = called if called is not None else containers.item(frame, base, index, node.slice)
    if MADE_OF_DATA in base.tags and found.kind is UNKNOWN:
        # So are its parts.
        return found.but(tags=found.tags | {MADE_OF_DATA})
    return found


def _is_number_elsewhere(index: Value) -> bool:
    """Whether an index is a number on another path: as a tensor it has no dimensions, and may be anywhere."""
    return index.kind is EITHER and any(
        o.kind is NUMBER or (o.kind is CONSTANT and isinstance(o.data, int)) for _, o in index.parts
    )


def _reads_old_number(node: ast.Subscript, base: Value) -> bool:
    """Whether it asks `loss.data` for its first part: a number up to PyTorch 0.3, and nothing that runs since."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="data"), slice=ast.Constant(value=0)):
            return all(o.kind in (UNKNOWN, TENSOR) and rank_of(o) in ("", ZERO_DIM) for _, o in base.options())
    return False


def _slice(frame: Frame, node: ast.Slice) -> Value:
    for bound in (node.lower, node.upper, node.step):
        if bound is not None:
            evaluate(frame, bound)
    return NOTHING


def _binary(frame: Frame, node: ast.BinOp) -> Value:
    return operate(frame, node, node.left, evaluate(frame, node.left), node.op, node.right, evaluate(frame, node.right))


def operate(
    frame: Frame,
    node: ast.expr | ast.AugAssign,
    left_node: ast.expr,
    left: Value,
    op: ast.AST,
    right_node: ast.expr,
    right: Value,
    *,
    in_place: bool = False,
) -> Value:
    """An operator between two values."""
    if in_place and left.kind in MODULES:
        # `self.layers += [layer]`
        stores.added(frame, left, [right], spread=True)
        return left
    if isinstance(op, ast.Mod) and left.kind is CONSTANT and isinstance(left.data, str):
        return numbered_device(left.data) or Value(NUMBER)
    if left.kind in (LIST, TUPLE) or right.kind in (LIST, TUPLE):
        return _joined_sequences(frame, node, left, right, in_place=in_place)
    if left.kind is CONSTANT and right.kind is CONSTANT:
        return _folded(left, op, right)
    if left.kind is CONSTANT and isinstance(left.data, str):
        return numbered_device(left.data) or Value(NUMBER)
    product = isinstance(op, ast.MatMult)
    if product:
        # Only a tensor is multiplied with one.
        for side, other in ((left, right), (right, left)):
            if side.kind is TENSOR:
                frame.is_tensor(other)
    sides = ((left_node, _without_sequences(left, frame)), (right_node, _without_sequences(right, frame)))
    frame.need("operation", node, "", *sides, any_rank=product)
    if in_place:
        return left if any(o.kind is TENSOR for _, o in left.options()) else together(frame, node, left, right)
    result = together(frame, node, left, right)
    # A product of vectors is a number.
    return mapped(result, lambda v: v.but(rank="") if v.rank else v, frame.atoms) if product else result


def _without_sequences(value: Value, frame: Frame) -> Value:
    """What a tensor can meet in an operator: with a tuple it fails wherever they are, so that on another path there is none."""
    if value.kind is not EITHER or not any(o.kind in (LIST, TUPLE) for _, o in value.options()):
        return value
    return mapped(value, lambda o: NOTHING if o.kind in (LIST, TUPLE) else o, frame.atoms)


def _folded(left: Value, op: ast.AST, right: Value) -> Value:
    a, b = left.data, right.data
    if isinstance(op, ast.Add) and isinstance(a, str) and isinstance(b, str):
        return constant(a + b)
    if isinstance(a, str):
        return Value(NUMBER)
    return A_NUMBER


def _joined_sequences(
    frame: Frame, node: ast.expr | ast.AugAssign, left: Value, right: Value, *, in_place: bool
) -> Value:
    if in_place and left.kind is LIST:
        stores.added(frame, left, [right], spread=True)
        return left
    parts = [containers.contents_of(frame, side) for side in (left, right)]
    kind = left.kind if left.kind in (LIST, TUPLE) else right.kind
    if all(p is not None and p.kind is TUPLE for p in parts):
        joined = Value(TUPLE, parts=tuple(x for p in parts if p is not None for x in p.parts))
        return joined if kind is TUPLE else containers.made(frame, LIST, joined, node)
    held = [containers.all_parts(p, frame) for p in parts if p is not None]
    return containers.made(frame, LIST, containers.each_of(held or [NOTHING], frame), node)


def together(frame: Frame, node: ast.AST, *operands: Value) -> Value:
    """What an element-wise operation gives: a tensor where its operands are."""
    if len(operands) == 2 and all(o.kind is not EITHER for o in operands):
        return _together_plain(operands)
    combined: list[tuple[frozenset[frozenset[int]], tuple[Value, ...]]] = [(frame.path, ())]
    for operand in operands:
        combined = [
            (joint, (*found, option))
            for condition, found in combined
            for when, option in operand.options()
            if (joint := frame.atoms.both(condition, when))
        ][:8]
    if not combined:
        return NOTHING
    return either(((c, _together_plain(found)) for c, found in combined), frame.atoms)


def _together_plain(operands: tuple[Value, ...]) -> Value:
    """The operand that decides: a ranked tensor before one of no or unknown rank, what is placed before what isn't."""
    tensors = [o for o in operands if o.kind in (TENSOR, BATCH)]
    open_ones = [o for o in operands if o.kind is UNKNOWN]
    rank = broadcast(map(rank_of, operands))
    if not tensors and not open_ones:
        if any(o.kind is ARRAY for o in operands):
            return Value(ARRAY, HOST)
        return A_NUMBER if any(o.kind in (NUMBER, CONSTANT, "count") for o in operands) else NOTHING
    placed = [o for o in tensors if o.place.sort != "unknown"] or tensors
    if not placed:
        told = [o for o in open_ones if o.place.sort != "unknown"] or open_ones
        # One on the host may be without dimensions, and is taken along by one that is elsewhere.
        first = next((o for o in told if o.place != HOST), told[0])
        tags = first.tags
        if first.place.is_open and any(MADE_OF_DATA in o.tags for o in open_ones):
            # What is made of an array is on the host, and takes nothing along that is elsewhere.
            tags |= {OF_HOST}
        return Value(
            UNKNOWN, first.place, data=first.path or first.data, rank=rank, likely=first.likely, step=first.step, tags=tags
        )  # fmt: skip
    # A tensor without dimensions is taken from the host by one that is elsewhere.
    first = next((o for o in placed if o.place != HOST and o.rank != ZERO_DIM), None) or next(
        (o for o in placed if o.place != HOST), max(placed, key=lambda o: o.rank == RANKED)
    )
    # One that may be on the host for all we know is taken along as well.
    gives_way = first.place == HOST or (first.rank == ZERO_DIM and first.place.is_open)
    if gives_way and (open_ones or len(placed) < len(tensors)):
        other = next((o for o in open_ones if o.place.sort != "unknown"), None)
        if other is not None and other.place != HOST:
            # Where the other is, if that is a tensor.
            return Value(
                UNKNOWN, other.place, data=other.path or other.data, likely=True, step=other.step, rank=rank,
                tags=other.tags | {"mixed"},
            )  # fmt: skip
        if first.place == HOST and first.rank != RANKED:
            return Value(TENSOR, UNKNOWN_PLACE, rank=rank, tags=frozenset({OF_HOST}))
    if len({o.place for o in placed}) > 1 and any(o.place.is_open for o in placed) and first.place.sort == "told":
        inputs = next((o for o in placed if o.place.sort == "input"), None)
        first = inputs or first
    if first.place.off_host and any(o.place == HOST and o.rank == RANKED for o in placed):
        # It fails: there is nothing that could be anywhere.
        return Value(TENSOR, UNKNOWN_PLACE, rank=rank)
    # What is computed with what is surely there is there.
    likely = (
        all(o.likely for o in tensors if o.place == first.place)
        if first.place.off_host
        else any(o.likely for o in tensors)
    )
    tags = frozenset(tag for o in tensors for tag in o.tags & {GATHERED, OF_HOST})
    if first.place.is_open and any(o.place == HOST and o.rank != ZERO_DIM for o in placed):
        # It fails where that isn't the host, unless what is on the host has no dimensions.
        tags |= {OF_HOST}
    return Value(TENSOR, first.place, likely=likely, rank=rank, step=first.step, tags=tags)


def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    value = evaluate(frame, node.operand)
    if value.kind is CONSTANT and isinstance(node.op, ast.USub) and isinstance(value.data, (int, float)):
        return constant(-value.data)

    def plain(option: Value) -> Value:
        if option.kind in (TENSOR, ARRAY, BATCH, NUMBER):
            return option.but(path=None, tags=option.tags & {GATHERED, OF_HOST}, data=None)
        if option.kind is UNKNOWN:
            return Value(
                UNKNOWN, option.place, data=option.path or option.data, likely=option.likely, step=option.step,
                tags=option.tags,
            )  # fmt: skip
        return A_NUMBER

    return mapped(value, plain, frame.atoms)


def _formatted(frame: Frame, node: ast.JoinedStr) -> Value:
    parts = [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
    for part in parts:
        value = evaluate(frame, part)
        waits.shown(frame, part, value)
        if DEVICE_NUMBER in value.tags and len(parts) == 1:
            # `f"cuda:{x.get_device()}"`
            return Value(DEVICE, value.place, likely=value.likely, step=value.step)
    text = "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return numbered_device(text) or Value(NUMBER)


def _lambda_body(frame: Frame, node: ast.Lambda) -> None:
    frame.env |= {a.arg: NOTHING for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    evaluate(frame, node.body)


def _lambda(frame: Frame, node: ast.Lambda) -> Value:
    if frame.record is not None:
        frame.aside(lambda beside: _lambda_body(beside, node))
    frame.reader.refers_back(frame)
    function = frame.reader.lambda_of(frame, node)
    keep_defaults(frame, function)
    return Value(FUNCTION, data=(function, frame, None))


def keep_defaults(frame: Frame, function: FunctionModel) -> None:
    """Keeps what the defaults of a function are where its definition runs: `lambda x, by=scale: x * by`."""
    prefix = frame.reader.root_prefix(function)
    for name, default in function.defaults.items():
        if not isinstance(default, ast.Constant):
            frame.env[function, f"={name}{prefix}"] = evaluate(frame, default)


def _starred(frame: Frame, node: ast.Starred) -> Value:
    return evaluate(frame, node.value)


def _named(frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    frame.env[node.target.id] = value
    return value


def _await(frame: Frame, node: ast.Await) -> Value:
    return evaluate(frame, node.value)


def _yield(frame: Frame, node: ast.Yield) -> Value:
    frame.yields.append(evaluate(frame, node.value) if node.value is not None else constant(None))
    return NOTHING


def _yield_from(frame: Frame, node: ast.YieldFrom) -> Value:
    frame.yields.append(containers.element(frame, evaluate(frame, node.value)))
    return NOTHING


EXPRESSIONS: dict[type[ast.expr], Callable[[Frame, Any], Value]] = by_kind(
    {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Tuple: _tuple,
        ast.List: _list,
        ast.Set: _list,
        ast.Dict: _dict,
        ast.Subscript: _subscript,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.JoinedStr: _formatted,
        ast.Lambda: _lambda,
        ast.Starred: _starred,
        ast.NamedExpr: _named,
        ast.Await: _await,
        ast.Yield: _yield,
        ast.YieldFrom: _yield_from,
    }
)
