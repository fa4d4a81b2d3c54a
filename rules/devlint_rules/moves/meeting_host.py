"""What a tensor that didn't move meets on the host, and would meet from elsewhere if it did."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import HOST, access_path, own_nodes, walk

if TYPE_CHECKING:
    from devlint.facts import Facts


def meets_host(call: ast.expr | None, facts: Facts) -> bool:
    """Whether what a call was to move is computed with in the same scope, or in its class, beside what is made on the host.

    That works as long as the move is lost: `torch.ones(3) * self.rate`, of `self.rate.to(device)`.
    """
    match call:
        case ast.Call(func=ast.Attribute(value=moved)) if (path := access_path(moved)) is not None:
            scope = facts.model.source.class_of(call) if path.startswith("self.") else None
            nodes = walk(scope) if scope is not None else own_nodes(facts.model.enclosing_scope(call))
            later = (n for n in nodes if scope is not None or getattr(n, "lineno", 0) > call.lineno)
            return any(
                access_path(one) == path and _is_on_host(other, facts)
                for node in later
                for one, other in _together(node)
            )
    return False


def _together(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The operands of an operation by twos, in either order."""
    match node:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            yield from ((left, right), (right, left))


def _is_on_host(operand: ast.expr, facts: Facts) -> bool:
    """Whether an operand is a tensor on the host in any case, one that has dimensions."""
    facts.model.ensure_around(operand)
    options = [value for _, value in facts.model.value(operand).alternatives()]
    return bool(options) and all(v.is_tensor and v.ranked and v.place == HOST for v in options)
