"""How devices are spelt in source: the strings that an expression may be, and what torch makes of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import own_nodes

if TYPE_CHECKING:
    from devlint.facts import Facts

# Accelerators whose tensors are always at a device with an index: `torch.ones(1, device="cuda").device` is `cuda:0`.
# Host and meta tensors have none.
INDEXED = frozenset({"cuda", "xpu", "mps", "hpu", "mtia"})
# How far names are followed.
_MAX_STEPS = 4


def spellings(node: ast.expr, facts: Facts, steps: int = _MAX_STEPS) -> list[ast.Constant] | None:
    """The string literals that an expression may be; None where it may be something else too."""
    match node:
        case ast.Constant(value=str()):
            return [node]
        case ast.IfExp(body=body, orelse=orelse):
            parts: list[ast.expr] = [body, orelse]
        case ast.Name() if steps and (bound := definitions(node, facts)):
            parts = bound
        case _:
            return None
    found = [spellings(part, facts, steps - 1) for part in parts]
    return [literal for some in found for literal in some or ()] if None not in found else None


def may_be_text(node: ast.expr, facts: Facts, steps: int = _MAX_STEPS) -> bool:
    """Whether one of the things that an expression may be is a string literal, on a machine without an accelerator say."""
    match node:
        case ast.Constant(value=str()):
            return True
        case ast.IfExp(body=body, orelse=orelse):
            parts: list[ast.expr] = [body, orelse]
        case ast.BoolOp(values=values):
            parts = values
        case ast.Name() if steps:
            parts = definitions(node, facts) or []
        case _:
            return False
    return any(may_be_text(part, facts, steps - 1) for part in parts)


def definitions(name: ast.Name, facts: Facts) -> list[ast.expr] | None:
    """All expressions that a name is assigned; None where it is bound in another way, or its scope can't be told."""
    for scope in (*facts.model.ancestors(name),):
        if isinstance(scope, ast.Lambda) and any(
            a.arg == name.id for a in ast.walk(scope.args) if isinstance(a, ast.arg)
        ):
            return None
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = facts.model.source.function_at(scope)
            if name.id in function.declared_outer:
                return None
            if name.id in function.local_names:
                is_parameter = any(a.arg == name.id for a in ast.walk(scope.args) if isinstance(a, ast.arg))
                return None if is_parameter else _assigned(scope, name.id)
        if isinstance(scope, ast.Module):
            declared = (n for n in ast.walk(scope) if isinstance(n, ast.Global))
            return None if any(name.id in n.names for n in declared) else _assigned(scope, name.id)
    return None


def _assigned(scope: ast.AST, name: str) -> list[ast.expr] | None:
    nodes = list(own_nodes(scope))
    bound = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
    values = [v for n in nodes for v in _given(n, name)]
    return values if values and len(values) == len(bound) else None


def _given(statement: ast.AST, name: str) -> Iterator[ast.expr]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from (value for t in targets if isinstance(t, ast.Name) and t.id == name)
        case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
            yield value
