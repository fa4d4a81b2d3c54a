"""A move whose result is dropped: what it started from, what it says, and whether it is made for its own sake."""

from __future__ import annotations

import ast

from devlint.facts import Facts, Kind
from devlint.lazy import cst, m

MOVES = ("to", "cuda", "cpu", "xpu", "mps", "hpu", "npu")


def said_by(call: ast.Call) -> set[str]:
    """What a move says: `device`, `dtype=x.dtype`, by its text."""
    return {ast.unparse(part) for part in (*call.args, *(k.value for k in call.keywords))}


def is_deliberate(call: ast.expr | None, facts: Facts) -> bool:
    """The move is made for its own sake: a throwaway tensor wakes the accelerator up, a test expects an error, a
    benchmark repeats a transfer, or waits for what it measures (`model(x).cpu()`)."""
    if call is None:
        return True
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=func), attr="cpu")):
            if any(v.is_module for _, v in facts.model.value(func).alternatives()):
                # What has no name was never meant to be elsewhere from there on.
                return True
    root: ast.expr = call
    while isinstance(root, (ast.Call, ast.Attribute, ast.Subscript)):
        root = root.func if isinstance(root, ast.Call) else root.value
    if isinstance(root, ast.Name) and facts.model.value(root).kind in (Kind.REFERENCE, Kind.FUNCTION, Kind.CLASS):
        return True
    for parent in facts.model.ancestors(call):
        if isinstance(parent, (ast.With, ast.AsyncWith)) and any(
            "raises" in ast.unparse(i.context_expr) for i in parent.items
        ):
            return True
        if isinstance(parent, ast.For) and parent.body == [facts.statement] and not _uses(parent.target, call):
            # Nothing but the same move, again and again.
            return True
    return False


def _uses(target: ast.expr, call: ast.expr) -> bool:
    names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(call))


def root_of(moved: cst.BaseExpression) -> cst.BaseExpression:
    """What a chain of moves started from."""
    while m.matches(moved, m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(n) for n in MOVES))))):
        moved = cst.ensure_type(cst.ensure_type(moved, cst.Call).func, cst.Attribute).value
    return moved
