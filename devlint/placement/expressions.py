"""Evaluates expressions: what kind of thing each is, and where."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devlint.knowledge import torch_knowledge
from devlint.placement import narrowing
from devlint.placement.environment import merge
from devlint.placement.scope import Scope
from devlint.placement.values import (
    DEVICE_CLASS,
    GATHERED,
    HOST,
    ITEM,
    NONE,
    NOWHERE,
    SCALAR,
    UNKNOWN,
    Place,
    Sort,
    Value,
    constant,
    either,
    element_of,
    inherited,
    join,
    join_all,
    leaves,
    mapping,
    mapping_of,
    replace,
    same_as,
    sequence,
    sequence_of,
)
from devlint.source.devices import is_setting
from devlint.source.kinds import Kind
from devlint.source.paths import access_path, unparsed
from devlint.source.trees import kept_on_node


def evaluate(frame: Scope, node: ast.expr) -> Value:
    """The value of an expression at the frame's point; recorded where the frame records."""
    handler = EXPRESSIONS.get(type(node))
    value = handler(frame, node) if handler is not None else UNKNOWN
    if frame.record is not None:
        frame.record[node] = value
    return value


def _constant(frame: Scope, node: ast.Constant) -> Value:
    return _literal(node)


@kept_on_node
def _literal(node: ast.Constant) -> Value:
    return constant(node.value)


def _name(frame: Scope, node: ast.Name) -> Value:
    return frame.lookup(node.id)


def _attribute(frame: Scope, node: ast.Attribute) -> Value:
    base = evaluate(frame, node.value)
    path = access_path(node)
    known = frame.env.get(path) if path else None
    if known is not None:
        return known
    if frame.tells:
        frame.analysis.note_attribute(frame, base, node)
    if base.kind is Kind.EITHER:
        return either((guards, attribute(frame, option, node)) for guards, option in base.options)
    return frame.env.open(attribute(frame, base, node))


def attribute(frame: Scope, base: Value, node: ast.Attribute) -> Value:
    """What `base.<attr>` is, methods aside (a call looks at those itself)."""
    name = node.attr
    match base.kind:
        case Kind.TENSOR | Kind.PARAMETER:
            return _tensor_attribute(base, name, node)
        case Kind.NDARRAY:
            return SCALAR if name in ("shape", "ndim", "size", "dtype") else replace(base)
        case Kind.BATCH:
            if name == "device":
                return Value(Kind.DEVICE, place=_place_or_same(base, node.value))
            if torch_knowledge().tensor_attributes.get(name) == "scalar":
                return SCALAR
            return replace(base, likely=True)
        case Kind.REFERENCE:
            return frame.analysis.resolved(f"{base.name}.{name}", frame.source)
        case Kind.DEVICE:
            # `device.type` serves as a device string.
            return replace(base, name="") if name == "type" else SCALAR
        case Kind.WRAPPER:
            return _wrapper_attribute(frame, base, node)
        case Kind.MODULE | Kind.OBJECT:
            if name == "device" and not (base.cls is not None and base.cls.defines("device")):
                return Value(
                    Kind.DEVICE, place=base.place if base.place.off_host else same_as(unparsed(node)), likely=True
                )
            return _of_own_module(frame, frame.analysis.objects.attribute_of(base, name, node), node)
        case Kind.CLASS:
            return frame.analysis.objects.class_attribute(base, name)
        case Kind.LOADER:
            return UNKNOWN
        case Kind.UNKNOWN:
            if name == "device":
                return Value(Kind.DEVICE, place=_place_or_same(base, node if is_setting(node) else node.value))
            if torch_knowledge().tensor_attributes.get(name) == "scalar":
                return SCALAR
            # A part of something computed from tensors, such as `outputs.loss`.
            return (
                replace(UNKNOWN, place=base.place, likely=True, trail=base.trail)
                if base.place.sort is not Sort.UNKNOWN
                else UNKNOWN
            )
    return UNKNOWN


def _of_own_module(frame: Scope, value: Value, node: ast.Attribute) -> Value:
    """In `forward`, a parameter or buffer is where the module is: other tensors must be there too."""
    if value.kind is Kind.PARAMETER and value.place == NOWHERE and frame.function and frame.function.name == "forward":
        return replace(value, place=same_as(unparsed(node)))
    return value


def _place_or_same(base: Value, node: ast.expr) -> Place:
    if base.place.sort is not Sort.UNKNOWN:
        return base.place
    return same_as(unparsed(node))


def _tensor_attribute(base: Value, name: str, node: ast.Attribute) -> Value:
    kind = torch_knowledge().tensor_attributes.get(name)
    if kind == "tensor":
        ranked = base.ranked and name in ("data", "T", "mT", "grad")
        return Value(Kind.TENSOR, base.place, likely=base.likely, ranked=ranked, trail=base.trail)
    if kind == "device":
        return Value(Kind.DEVICE, _place_or_same(base, node.value), DEVICE_CLASS)
    return SCALAR if kind == "scalar" else UNKNOWN


def _wrapper_attribute(frame: Scope, base: Value, node: ast.Attribute) -> Value:
    inner = base.inner or UNKNOWN
    if base.keys is not None and base.elements is not None and node.attr in base.keys:
        return base.elements[base.keys.index(node.attr)]
    if base.cls is not None and node.attr != "module":
        return frame.analysis.objects.attribute_of(base, node.attr, node)
    if node.attr == "module":
        return inner.at(base.place) if inner.is_module and base.place.sort is not Sort.UNKNOWN else inner
    return UNKNOWN


def _subscript(frame: Scope, node: ast.Subscript) -> Value:
    base = evaluate(frame, node.value)
    index = evaluate(frame, node.slice)
    path = access_path(node)
    known = frame.env.get(path) if path else None
    if known is not None:
        return known
    if base.kind is Kind.EITHER:
        return either((guards, subscript(option, index)) for guards, option in base.options)
    return subscript(base, index)


def subscript(base: Value, index: Value) -> Value:
    """What `base[index]` is."""
    match base.kind:
        case Kind.TENSOR | Kind.PARAMETER:
            ranked = _has_dimension(base, index)
            return Value(Kind.TENSOR, base.place, likely=base.likely, ranked=ranked, trail=base.trail)
        case Kind.BATCH:
            # A field of a batch is named, or comes first; what is counted out of that may be a number.
            if base.name == ITEM:
                return replace(base, name="")
            if isinstance(index.constant, str):
                return base
            # One of several results, or an element of the only one: a single number, maybe.
            return replace(base, name="" if base.name == GATHERED else base.name, ranked=False)
        case Kind.NDARRAY:
            return base
        case Kind.SEQUENCE if (
            base.elements is not None and index.kind is Kind.CONSTANT and isinstance(index.constant, int)
        ):
            position = index.constant
            return base.elements[position] if -len(base.elements) <= position < len(base.elements) else UNKNOWN
        case Kind.SEQUENCE if index.name == "<slice>":
            return sequence_of(element_of(base))
        case Kind.MAPPING if base.keys is not None and base.elements is not None and index.kind is Kind.CONSTANT:
            if index.constant in base.keys:
                return base.elements[base.keys.index(str(index.constant))]
            return UNKNOWN
        case Kind.SEQUENCE | Kind.MAPPING:
            return element_of(base)
        case Kind.MODULE:
            # nn.Sequential and nn.ModuleList.
            return inherited(base, element_of(base)) if base.each is not None or base.elements is not None else UNKNOWN
        case Kind.UNKNOWN if base.place.sort is not Sort.UNKNOWN:
            return replace(UNKNOWN, place=base.place, likely=True, trail=base.trail)
        case Kind.REFERENCE | Kind.SCALAR:
            return base
    return UNKNOWN


def _has_dimension(base: Value, index: Value) -> bool:
    """Whether a tensor's part at an index surely has a dimension: a slice keeps one, and `None` gives one."""
    parts = index.elements if index.elements is not None else (index,)
    return NONE in parts or (base.ranked and any(p.name == "<slice>" or p.ranked for p in parts))


def combined(values: list[Value]) -> tuple[Place, tuple, bool]:  # type: ignore[type-arg]
    """(place, trail, likely) of what is computed from these values: off the host if one of them is."""
    best: Value | None = None
    for value in values:
        for leaf in leaves(value):
            if leaf.kind not in _PLACED:
                continue
            if leaf.kind is Kind.UNKNOWN and leaf.place.sort is Sort.UNKNOWN and best is not None:
                continue
            if best is None or _WEIGHT[leaf.place.sort] > _WEIGHT[best.place.sort] or _tells_more(leaf, best):
                best = leaf
    if best is None:
        return NOWHERE, (), False
    return best.place, best.trail, best.likely


def _tells_more(value: Value, other: Value) -> bool:
    """Of two on the host, the one with a dimension matters: a number may be anywhere."""
    return value.place == other.place == HOST and value.ranked and not other.ranked and value.is_tensor


_PLACED = frozenset({Kind.TENSOR, Kind.PARAMETER, Kind.BATCH, Kind.UNKNOWN})
_WEIGHT = {Sort.ACCELERATOR: 4, Sort.PREFERRED: 4, Sort.SAME: 3, Sort.UNKNOWN: 2, Sort.HOST: 1}


def _binary(frame: Scope, node: ast.BinOp) -> Value:
    left, right = evaluate(frame, node.left), evaluate(frame, node.right)
    return arithmetic(left, right, node.op)


def arithmetic(left: Value, right: Value, op: ast.operator | None = None) -> Value:
    """The result of an operator: a tensor where either side is one."""
    if left.kind is Kind.EITHER:
        return either((g, arithmetic(option, right, op)) for g, option in left.options)
    if right.kind is Kind.EITHER:
        return either((g, arithmetic(left, option, op)) for g, option in right.options)
    if isinstance(op, ast.Mod) and left.kind is Kind.CONSTANT and isinstance(left.constant, str):
        # Text that is formatted.
        return SCALAR
    kinds = (left.kind, right.kind)
    gathered = GATHERED if GATHERED in (left.name, right.name) else ""
    if left.is_tensor or right.is_tensor:
        place, trail, likely = combined(
            [v for v in (left, right) if v.kind in (Kind.TENSOR, Kind.PARAMETER, Kind.BATCH)]
        )
        ranked = left.ranked or right.ranked
        return Value(Kind.TENSOR, place, name=gathered, likely=likely, ranked=ranked, trail=trail)
    if Kind.BATCH in kinds:
        place, trail, _ = combined([left, right])
        ranked = left.ranked or right.ranked
        return Value(Kind.TENSOR, place, name=gathered, likely=True, ranked=ranked, trail=trail)
    if Kind.NDARRAY in kinds:
        return Value(Kind.NDARRAY, HOST)
    plain = (Kind.SCALAR, Kind.CONSTANT)
    if left.kind in plain and right.kind in plain:
        return SCALAR
    if Kind.SEQUENCE in kinds and isinstance(op, (ast.Add, ast.Mult)):
        parts = [element_of(v) for v in (left, right) if v.kind is Kind.SEQUENCE]
        return sequence_of(join_all(parts))
    place, trail, _ = combined([left, right])
    return replace(UNKNOWN, place=place, likely=True, trail=trail)


def _unary(frame: Scope, node: ast.UnaryOp) -> Value:
    value = evaluate(frame, node.operand)
    if isinstance(node.op, ast.Not):
        return SCALAR
    return (
        constant(-value.constant)
        if isinstance(node.op, ast.USub) and isinstance(value.constant, (int, float))
        else arithmetic(value, SCALAR)
    )


def _boolean(frame: Scope, node: ast.BoolOp) -> Value:
    values = []
    before = frame.env
    for part in node.values:
        values.append(evaluate(frame, part))
        # What follows `a and` holds under a. The assumption is for this expression alone.
        frame.env = frame.env.copy()
        narrowing.assume(frame, frame.env, part, isinstance(node.op, ast.And))
        frame.env.dead = False
    # What a walrus bound on the way stays bound.
    for path, value in frame.env.values.items():
        before.values.setdefault(path, value)
    frame.env = before
    if isinstance(node.op, ast.Or) and len(values) == 2:
        # `x or default`: a None on the left never comes through.
        first = [(g, v) for g, v in values[0].alternatives() if not (v.kind is Kind.CONSTANT and not v.constant)]
        return either([*first, *values[1].alternatives()])
    return join_all(values)


def _compare(frame: Scope, node: ast.Compare) -> Value:
    values = [evaluate(frame, node.left), *(evaluate(frame, c) for c in node.comparators)]
    if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
        return SCALAR
    result = values[0]
    for value in values[1:]:
        result = arithmetic(result, value)
    tensorish = [v for v in leaves(result) if v.kind in (Kind.TENSOR, Kind.NDARRAY)]
    return (
        result
        if tensorish
        else replace(result, kind=Kind.UNKNOWN)
        if result.kind is Kind.UNKNOWN and result.place.sort is not Sort.UNKNOWN
        else SCALAR
    )


def _conditional(frame: Scope, node: ast.IfExp) -> Value:
    frame.look_at(node.test)
    before = frame.env
    taken, skipped = before.copy(), before.copy()
    narrowing.assume(frame, taken, node.test, True)
    narrowing.assume(frame, skipped, node.test, False)
    frame.env = taken
    first = evaluate(frame, node.body)
    frame.env = skipped
    second = evaluate(frame, node.orelse)
    when_first, when_second = taken.guards - before.guards, skipped.guards - before.guards
    taken.guards = skipped.guards = before.guards
    taken.dead = skipped.dead = False
    frame.env = merge(taken, skipped)
    frame.env.dead = before.dead
    return join(first, second, when_first, when_second)


def _tuple(frame: Scope, node: ast.Tuple | ast.List) -> Value:
    if any(isinstance(e, ast.Starred) for e in node.elts):
        parts = [evaluate(frame, e.value if isinstance(e, ast.Starred) else e) for e in node.elts]
        each = [
            frame.analysis.iterate(p) if isinstance(e, ast.Starred) else p
            for p, e in zip(parts, node.elts, strict=True)
        ]
        return sequence_of(join_all(each))
    return sequence((evaluate(frame, e) for e in node.elts), "tuple" if isinstance(node, ast.Tuple) else "")


def _set(frame: Scope, node: ast.Set) -> Value:
    return sequence_of(join_all(evaluate(frame, e) for e in node.elts))


def _dict(frame: Scope, node: ast.Dict) -> Value:
    values = [evaluate(frame, v) for v in node.values]
    for key in node.keys:
        if key is not None:
            evaluate(frame, key)
    keys = [k.value if isinstance(k, ast.Constant) and isinstance(k.value, str) else None for k in node.keys]
    if all(k is not None for k in keys):
        return mapping([k for k in keys if k is not None], values)
    return mapping_of(join_all(element_of(v) if k is None else v for k, v in zip(node.keys, values, strict=True)))


def _comprehension(frame: Scope, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    before = frame.env
    frame.env = before.copy()
    for generator in node.generators:
        iterable = evaluate(frame, generator.iter)
        frame.bind(generator.target, frame.analysis.iterate(iterable), node)
        for test in generator.ifs:
            frame.look_at(test)
            narrowing.assume(frame, frame.env, test, True)
            frame.env.dead = False
    if isinstance(node, ast.DictComp):
        evaluate(frame, node.key)
        result = mapping_of(evaluate(frame, node.value))
    else:
        result = sequence_of(evaluate(frame, node.elt))
    frame.env = before
    return result


def _lambda(frame: Scope, node: ast.Lambda) -> Value:
    before = frame.env
    frame.env = before.copy()
    for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
        frame.env.bind(argument.arg, UNKNOWN, node.lineno)
    result = evaluate(frame, node.body)
    frame.env = before
    return Value(Kind.FUNCTION, each=result, depth=result.depth) if result.depth < 2 else Value(Kind.FUNCTION)


def _named(frame: Scope, node: ast.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    frame.bind(node.target, value, node)
    return value


def _await(frame: Scope, node: ast.Await) -> Value:
    return evaluate(frame, node.value)


def _starred(frame: Scope, node: ast.Starred) -> Value:
    return evaluate(frame, node.value)


def _slice(frame: Scope, node: ast.Slice) -> Value:
    for part in (node.lower, node.upper, node.step):
        if part is not None:
            evaluate(frame, part)
    return Value(Kind.SCALAR, name="<slice>")


def _text(frame: Scope, node: ast.JoinedStr) -> Value:
    """An f-string; `f"cuda:{i}"` still names an accelerator."""
    for part in node.values:
        evaluate(frame, part)
    first = node.values[0] if node.values else None
    if isinstance(first, ast.Constant) and str(first.value).startswith("cuda"):
        return constant("cuda")
    return SCALAR


def _formatted(frame: Scope, node: ast.FormattedValue) -> Value:
    evaluate(frame, node.value)
    if node.format_spec is not None:
        evaluate(frame, node.format_spec)
    return SCALAR


def _yield(frame: Scope, node: ast.Yield) -> Value:
    frame.yields.append((frame.env.guards, evaluate(frame, node.value) if node.value is not None else UNKNOWN))
    return UNKNOWN


def _yield_from(frame: Scope, node: ast.YieldFrom) -> Value:
    frame.yields.append((frame.env.guards, frame.analysis.iterate(evaluate(frame, node.value))))
    return UNKNOWN


# By type; calls, which need the others, add themselves.
EXPRESSIONS: dict[type, Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.Await: _await,
    ast.Starred: _starred,
    ast.Slice: _slice,
    ast.JoinedStr: _text,
    ast.FormattedValue: _formatted,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}
