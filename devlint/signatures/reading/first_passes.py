"""Tests of a loop's counter that tell its first pass from the others: `if i == 0:`."""

from __future__ import annotations

import ast

from devlint.source.modules import last_name
from devlint.source.trees import kept_on_node, walk


@kept_on_node
def counter_of(loop: ast.For | ast.AsyncFor) -> str | None:
    """The name that counts a loop's passes from 0 on, where its body asks by it whether a pass is the first; None for others.

    `i` of `for i in range(n):`, of `for i in range(0, n, 2):` and of `for i, x in enumerate(xs):`.
    """
    match loop.iter, loop.target:
        case ast.Call(func=func, args=[_] | [ast.Constant(value=0), _, *_], keywords=[]), ast.Name(id=name):
            counts = last_name(func) in ("range", "trange")
        case ast.Call(func=func, args=[_], keywords=[]), ast.Tuple(elts=[ast.Name(id=name), *_]):
            counts = last_name(func) == "enumerate"
        case _:
            return None
    return name if counts and _is_asked(name, loop.body) else None


def _is_asked(name: str, body: list[ast.stmt]) -> bool:
    """Whether a body asks by a counter for the first pass, and leaves it as it is."""
    found = False
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return False
            test = node.test if isinstance(node, (ast.If, ast.IfExp)) else None
            found = found or (test is not None and any((asked(n) or ("",))[0] == name for n in _parts_of(test)))
    return found


def _parts_of(test: ast.expr) -> list[ast.expr]:
    if isinstance(test, ast.BoolOp):
        return [part for value in test.values for part in _parts_of(value)]
    return _parts_of(test.operand) if isinstance(test, ast.UnaryOp) else [test]


def asked(test: ast.expr) -> tuple[str, bool] | None:
    """The counter that a test is about, and whether it holds in the first pass alone, or in all others alone."""
    match test:
        case ast.Name(id=name):
            return name, False
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            return name, True
        case ast.Compare(left=ast.Name(id=name), ops=[ast.NotEq() | ast.Gt()], comparators=[ast.Constant(value=0)]):
            return name, False
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Lt()], comparators=[ast.Constant(value=1)]):
            return name, True
        case ast.Compare(left=ast.Name(id=name), ops=[ast.GtE()], comparators=[ast.Constant(value=1)]):
            return name, False
    return None
