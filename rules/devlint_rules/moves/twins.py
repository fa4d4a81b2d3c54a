"""Which moves of what a factory makes a reader sees as one thing: those of a function, and what is spelt alike elsewhere in its file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from devlint.facts import MOVES, walk
from devlint.lazy import regex
from devlint_rules.moves import factories

if TYPE_CHECKING:
    from devlint.facts import PlacementModel

# What stands so many lines apart at most is seen at once, whatever its form.
_NEAR = 6
# What a move may be told that is no place on an accelerator.
_NO_DEVICE = regex(r"(?i)dtype|\b(?:u?int|b?float|half|double|bool|long)\d{0,2}\b|['\"]cpu")


def moves_like(node: ast.AST, model: PlacementModel) -> Iterator[ast.Call]:
    """The moves that a reader wants spelt as another one.

    So are all that move in its function what a factory makes; those close by may add numbers to it before, or make it of
    data, or as large as another tensor. In the rest of the file it is what says the same but for the names.
    """
    assert isinstance(node, ast.Call)
    scope, form = model.enclosing_scope(node), _without_names(node)
    for other in _moves_in(model):
        if other.call is node:
            continue
        if other.scope is scope:
            is_near = abs(other.call.lineno - node.lineno) <= _NEAR
            is_like = (other.is_plain and not _has_no_elements(other.made)) or is_near
        else:
            is_like = other.is_plain and other.form == form
        if is_like:
            yield other.call


@dataclass(frozen=True, eq=False)
class _Move:
    """A move of what a factory made; whether it is of the factory's own result, which isn't made like anything else."""

    call: ast.Call
    made: ast.Call
    scope: ast.AST
    is_plain: bool

    @cached_property
    def form(self) -> str:
        return _without_names(self.call)


# Each move of a file asks for those that are like it.
@lru_cache(maxsize=2)
def _moves_in(model: PlacementModel) -> tuple[_Move, ...]:
    found = []
    for call in walk(model.source.tree):
        if isinstance(call, ast.Call) and (made := _moved(call, model)) is not None:
            is_of_other = model.qualified(made.func) in factories.OF_DATA | factories.LIKE
            is_plain = made in factories.moved_at_once(call) and not is_of_other
            found.append(_Move(call, made, model.enclosing_scope(call), is_plain))
    return tuple(found)


def _moved(call: ast.Call, model: PlacementModel) -> ast.Call | None:
    """The factory's call that makes, on the host, what a call moves to an accelerator; the same numbers anywhere."""
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in MOVES:
            pass
        case _:
            return None
    if any(_NO_DEVICE.search(ast.unparse(arg)) for arg in call.args[:1]) or (name == "to" and not call.args):
        return None
    made = _made_in(owner, model)
    return made if made is not None and not any(k.arg in (*factories.ON_HOST, None) for k in made.keywords) else None


def _made_in(node: ast.expr, model: PlacementModel) -> ast.Call | None:
    """The factory's call at the root of a chain of methods, or in a sum or product there."""
    match node:
        case ast.Call(func=func) if model.qualified(func) in factories.ALL - factories.RANDOM:
            return node
        case ast.Call(func=func, args=[like, *_]) if model.qualified(func) in factories.LIKE:
            return None if any(v.place.off_host for _, v in model.value(like).alternatives()) else node
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if (
            name not in factories.FILLING and name not in MOVES
        ):
            return _made_in(owner, model)
        case ast.BinOp(left=left, right=right):
            return _made_in(left, model) or _made_in(right, model)
    return None


def _has_no_elements(made: ast.Call) -> bool:
    return any(isinstance(arg, ast.Constant) and arg.value == 0 for arg in made.args)


def _without_names(node: ast.AST) -> str:
    return _NAME.sub("Name(id='_'", ast.dump(node))


_NAME = regex(r"\bName\(id='(?!self'|torch')\w+'")
