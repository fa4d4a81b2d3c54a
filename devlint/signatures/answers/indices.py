"""What indexes a tensor: one number of many may be anywhere, for torch takes its value, where several have to be with the tensor."""

from __future__ import annotations

import ast

from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import BATCH, RANKED, ZERO_DIM, Value
from devlint.source.modules import last_name


def is_index(value: Value) -> bool:
    """Whether what indexes has a dimension, as far as is known: of an input that is taken for granted."""
    return value.rank == RANKED or value.kind is BATCH or (value.place.is_open and value.rank != ZERO_DIM)


def is_number_taken(index: ast.expr, around: ast.expr | ast.AugAssign) -> bool:
    """`source[j]` in `found[i, source[j], begin:end]`: one number of many, for all that is known.

    So is the first place where something holds: `torch.where(mask)[0][0]`.
    """
    match index, around:
        case ast.Subscript(slice=ast.Name()), ast.Subscript(slice=ast.Tuple()):
            return True
        case (
            ast.Subscript(value=ast.Subscript(value=ast.Call(func=func), slice=ast.Constant()), slice=ast.Constant()),
            _,
        ):
            return last_name(func) in ("where", "nonzero")
    return False


def is_one_of_loop(index: ast.expr, frame: Frame, value: Value) -> bool:
    """`order[i]` in `for i in best:`, `table[t.long()]` in `for t, p in zip(labels, found):`: one number of many, as far as is known."""
    while isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute):
        index = index.func.value
    return isinstance(index, ast.Name) and any(
        isinstance(loop, (ast.For, ast.comprehension)) and _takes_one(loop, index.id, value)
        for parent in frame.source.ancestors(index)
        for loop in (parent, *getattr(parent, "generators", ()))
    )


def _takes_one(loop: ast.For | ast.comprehension, name: str, value: Value) -> bool:
    """Whether a loop goes by a name through what it is over, or beside others: that is no loader, which gives tuples as well."""
    match loop.target, loop.iter:
        case ast.Name(id=taken), _:
            return taken == name
        case ast.Tuple(elts=taken), ast.Call(func=ast.Name(id="zip")):
            return value.kind is not BATCH and any(isinstance(t, ast.Name) and t.id == name for t in taken)
    return False
