"""Tests as expressions: what `a if test else b`, `and`, comparisons and `not` give."""

from __future__ import annotations

import ast

from devlint.signatures.libraries import waits
from devlint.signatures.libraries.devices import CUDA
from devlint.signatures.reading.assumptions import assume
from devlint.signatures.reading.comparing import comparison
from devlint.signatures.reading.expressions import EXPRESSIONS, evaluate, together
from devlint.signatures.reading.tests import condition_of, denial_of, host_when_true, outcome, truth
from devlint.signatures.reading.types_asked import type_compared
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.conditions import TRUE
from devlint.signatures.values.values import (
    ARRAY,
    CONSTANT,
    DEVICE,
    DEVICE_OBJECT,
    NUMBER,
    OUTCOME,
    TENSOR,
    UNKNOWN,
    Value,
    constant,
    either,
    mapped,
    unwrapped,
)
from devlint.source.slim import by_kind


def _conditional(frame: Frame, node: ast.IfExp) -> Value:
    """`a if test else b`."""
    condition = condition_of(frame, node.test)
    env, before = frame.fork()
    options = []
    for is_true, branch in ((True, node.body), (False, node.orelse)):
        when = condition if is_true else frame.atoms.negated(condition)
        if not is_true and frame.atoms.is_forgotten(when):
            when = denial_of(frame, node.test)
        frame.path = frame.atoms.both(before, when)
        if not frame.path:
            continue
        frame.env = env.copy()
        assume(frame, node.test, is_true)
        options.append((frame.path, evaluate(frame, branch), frame.env))
    frame.merge([(path, state) for path, _, state in options], before)
    for name in dict.fromkeys(n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)):
        if name in env:
            frame.env[name] = env[name]
    frame.path = before
    found = either(((path, value) for path, value, _ in options), frame.atoms)
    if _takes_wrapper_off(node):
        found = mapped(found, unwrapped, frame.atoms)
    return _accelerator(found) if condition == TRUE and _names_host(node.orelse) else found


def _takes_wrapper_off(node: ast.IfExp) -> bool:
    """`net.module if wrapped else net`: who wrote that knows when it is wrapped."""
    for one, other in ((node.body, node.orelse), (node.orelse, node.body)):
        if isinstance(one, ast.Attribute) and one.attr == "module" and ast.unparse(one.value) == ast.unparse(other):
            return True
    return False


def _names_host(node: ast.expr) -> bool:
    """`"cpu"`, `torch.device("cpu")`."""
    match node:
        case ast.Call(args=[ast.Constant(value="cpu")]) | ast.Constant(value="cpu"):
            return True
    return False


def _accelerator(value: Value) -> Value:
    """What a program takes where there is an accelerator, and the host where there is none."""
    place = value.place
    is_nobodys = place.sort == "unknown" or (place.sort == "told" and str(place.name[0]).startswith("#"))
    if value.kind not in (UNKNOWN, NUMBER, DEVICE) or not is_nobodys:
        return value
    return Value(DEVICE, CUDA, likely=True, tags=value.tags & DEVICE_OBJECT)


def _bool(frame: Frame, node: ast.BoolOp) -> Value:
    """`a and b`, `a or b`: one of the values, or the outcome where they are tests."""
    tests = (ast.Compare, ast.UnaryOp, ast.BoolOp)
    if all(isinstance(v, tests) or (isinstance(v, ast.Call) and _is_test(v)) for v in node.values):
        return outcome(condition_of(frame, node))
    conjunction = isinstance(node.op, ast.And)
    options = []
    before, left = frame.path, frame.path
    for position, part in enumerate(node.values):
        frame.path = left
        value = evaluate(frame, part)
        if position == len(node.values) - 1:
            options.append((left, value))
            break
        waits.decided(frame, part, value)
        told = truth(frame, value, host_when=host_when_true(part))
        ends = frame.atoms.negated(told) if conjunction else told
        stays = frame.atoms.both(left, ends)
        if stays:
            for condition, option in value.options():
                known = _known_truth(option)
                if known is None or known is not conjunction:
                    options.append((frame.atoms.both(stays, condition), option))
        left = frame.atoms.both(left, frame.atoms.negated(ends))
        if not left:
            break
    frame.path = before
    if options and all(
        v.kind in (OUTCOME, CONSTANT) and (v.kind is OUTCOME or isinstance(v.data, bool)) for _, v in options
    ):
        return outcome(truth(frame, either(options, frame.atoms)))
    return either(options, frame.atoms) if options else constant(None)


def _known_truth(value: Value) -> bool | None:
    match value.kind:
        case "constant":
            return bool(value.data)
        case "module" | "wrapper" | "device" | "function" | "class":
            return True
    return None


def _is_test(node: ast.Call) -> bool:
    name = (
        node.func.attr
        if isinstance(node.func, ast.Attribute)
        else node.func.id
        if isinstance(node.func, ast.Name)
        else ""
    )
    return name in ("isinstance", "hasattr", "is_available", "callable", "is_tensor", "bool", "startswith", "exists")


def _compare(frame: Frame, node: ast.Compare) -> Value:
    """`a < b`: the outcome of a test, or a mask where tensors are compared."""
    of_type = type_compared(frame, node)
    if of_type is not None:
        return outcome(of_type)
    values = [evaluate(frame, v) for v in (node.left, *node.comparators)]
    nodes = [node.left, *node.comparators]
    if isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot)) or len(node.ops) > 1:
        if len(node.ops) > 1:
            return Value(NUMBER)
        return outcome(comparison(frame, node, values[0], node.ops[0], values[1]))
    tensors = any(o.kind in (TENSOR, "batch", UNKNOWN, ARRAY) for v in values for _, o in v.options())
    if not tensors or any((o.kind is CONSTANT and o.data is None) or isinstance(o.data, str) for o in values):
        return outcome(comparison(frame, node, values[0], node.ops[0], values[1]))
    frame.need("operation", node, "", *zip(nodes, values, strict=True))
    if all(o.kind is not TENSOR for v in values for _, o in v.options()) and isinstance(
        node.ops[0], (ast.Eq, ast.NotEq)
    ):
        asked = together(frame, node, *values)
        told = comparison(frame, node, values[0], node.ops[0], values[1])
        return asked if asked.place.sort != "unknown" else outcome(told)
    return together(frame, node, *values)


def _not(frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return outcome(condition_of(frame, node))
    return _PLAIN_UNARY(frame, node)


_PLAIN_UNARY = EXPRESSIONS[ast.UnaryOp]
EXPRESSIONS |= by_kind({ast.UnaryOp: _not, ast.IfExp: _conditional, ast.BoolOp: _bool, ast.Compare: _compare})
