"""Decorators: whether what they give is still the function that they were given."""

from __future__ import annotations

import ast

from devlint.knowledge import ecosystem
from devlint.signatures.state.frame import Reading
from devlint.signatures.values.values import FUNCTION, NOTHING
from devlint.source.modules import FunctionModel


def keeps_result(reader: Reading, function: FunctionModel) -> bool:
    """Whether the decorators of a function hand on what it is given and what it returns."""
    if function.keeps_result:
        return True
    for decorator, name in zip(function.node.decorator_list, function.decorators, strict=True):
        if name.rsplit(".", 1)[-1] in ecosystem.KEEPING_DECORATORS:
            continue
        value = reader.static_value(function.source, decorator) if not isinstance(decorator, ast.Call) else NOTHING
        if value.kind is not FUNCTION or not _passes_through(value.data[0]):
            return False
    return True


def _passes_through(decorator: FunctionModel) -> bool:
    """Whether a decorator gives a function that calls the decorated one with all that it is given, and returns its result."""
    if not decorator.parameters:
        return False
    wrapped = decorator.parameters[0].arg
    inner = [s for s in decorator.node.body if isinstance(s, ast.FunctionDef)]
    if len(inner) != 1:
        return False
    returns = [n for n in ast.walk(inner[0]) if isinstance(n, ast.Return)]
    return bool(returns) and all(_is_passing(r.value, wrapped, inner[0]) for r in returns)


def _is_passing(value: ast.expr | None, wrapped: str, inner: ast.FunctionDef) -> bool:
    match value:
        case ast.Call(
            func=ast.Name(id=name), args=[ast.Starred(value=ast.Name(id=rest))], keywords=[ast.keyword(arg=None)]
        ):
            return name == wrapped and inner.args.vararg is not None and inner.args.vararg.arg == rest
        case ast.Name(id=name):
            assigned = [
                n.value
                for n in inner.body
                if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and n.targets[0].id == name
            ]
            return len(assigned) == 1 and _is_passing(assigned[0], wrapped, inner)
    return False
