"""What meets a tensor that is moved where it is made: it says where to, or fails where it stays on the host itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from devlint.facts import HOST, access_path, last_name, own_nodes
from devlint_rules.mixing.proof import beside

if TYPE_CHECKING:
    from devlint.facts import Facts


def is_beside_a_failure(moving: ast.Call, facts: Facts) -> bool:
    """Whether the function of a move fails on an accelerator anyway: two tensors are apart, or a call is given what is moved and what isn't."""
    scope = facts.model.enclosing_scope(moving)
    return any(not m.sometimes for m in beside(scope, facts)) or any(
        _is_on_host(other, facts)
        for call, given in _takers(moving, scope, facts)
        for other in (*call.args, *(k.value for k in call.keywords))
        if other is not given
    )


def _takers(moving: ast.Call, scope: ast.AST, facts: Facts) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls that are given what is moved, by itself or under the one name that it is assigned to."""
    uses: list[ast.expr] = [moving]
    match facts.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is moving:
            uses += [
                n
                for n in own_nodes(scope)
                if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and n.lineno > moving.lineno
            ]
    for use in uses:
        parent = next(facts.model.ancestors(use), None)
        if isinstance(parent, ast.Call) and use is not parent.func:
            yield parent, use


def _is_on_host(value: ast.expr, facts: Facts) -> bool:
    options = [v for _, v in facts.model.value(value).alternatives()]
    return all(v.is_tensor and v.place == HOST and not v.likely for v in options)


def device_of_partners(moving: ast.Call, others: list[tuple[ast.Call, ast.Call]], facts: Facts) -> str:
    """`x.device`, for what is moved by `.cuda()` and joined with `x` right there: `torch.cat([x, torch.zeros(n).cuda()])`; "" else.

    Where others are moved with the same words and joined with nothing, these words say it for all.
    """
    partners = [_partner(move, facts) for move in (moving, *(outer for _, outer in others))]
    return f"{partners[0]}.device" if all(partners) else ""


# They join what is at one place.
_JOINING = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"})


def _partner(moving: ast.Call, facts: Facts) -> str:
    """The first tensor that is joined with what a call without a device moves, going by its path; "" where there is none."""
    match [*islice(facts.model.ancestors(moving), 2)]:
        case [ast.List(elts=parts) | ast.Tuple(elts=parts), ast.Call(func=func, args=[joined, *_])] if (
            last_name(func) in _JOINING and isinstance(joined, (ast.List, ast.Tuple)) and joined.elts == parts
        ):
            pass
        case _:
            return ""
    if moving.args or moving.keywords or not isinstance(moving.func, ast.Attribute) or moving.func.attr != "cuda":
        return ""
    paths = (part for part in parts if isinstance(part, (ast.Name, ast.Attribute)) and access_path(part))
    return next((facts.code_of(part).removesuffix(".data") for part in paths), "")
