"""What indexes a tensor: one number of many may be anywhere, for torch takes its value, where several have to be with the tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import BATCH, RANKED, TENSOR, ZERO_DIM, Value
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
    """`order[i]` in `for i in best:`, `table[t.long()]` in `for t, p in zip(labels, found):`: one number of many, as far as is known.

    So is a part of that: `first = row[0]` in `for row in order:`.
    """
    while isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute):
        index = index.func.value
    if not isinstance(index, ast.Name):
        return False
    loops = [
        loop
        for parent in frame.source.ancestors(index)
        for loop in (parent, *getattr(parent, "generators", ()))
        if isinstance(loop, (ast.For, ast.comprehension))
    ]
    return any(
        _takes_one(loop, name, value) or _takes_part(loop, name, frame)
        for loop in loops
        for name in (index.id, *(_parts_named(loop, index.id) if isinstance(loop, ast.For) else ()))
    )


def _parts_named(loop: ast.For, name: str) -> Iterator[str]:
    """What a name is one part of, by a statement of a loop: `row` of `first, second = row[0], row[1]`, for either."""
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = list(zip(names, values, strict=False))
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case _:
                continue
        for pair in pairs:
            match pair:
                case ast.Name(id=bound), ast.Subscript(value=ast.Name(id=row), slice=ast.Constant(value=int())):
                    if bound == name:
                        yield row
                case ast.Tuple(elts=parts), ast.Name(id=row):
                    if _is_among(parts, name):
                        yield row


def _is_among(targets: list[ast.expr], name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _takes_one(loop: ast.For | ast.comprehension, name: str, value: Value) -> bool:
    """Whether a loop goes by a name through what it is over, or beside others: that is no loader, which gives tuples as well."""
    match loop.target, loop.iter:
        case ast.Name(id=taken), _:
            return taken == name
        case ast.Tuple(elts=taken), ast.Call(func=ast.Name(id="zip")):
            return value.kind is not BATCH and _is_among(taken, name)
    return False


def _takes_part(loop: ast.For | ast.comprehension, name: str, frame: Frame) -> bool:
    """Whether a loop takes the rows of a tensor apart: `for i, begin, end in spans:`, and that with `enumerate`."""
    match loop.target, loop.iter:
        case ast.Tuple(elts=[_, ast.Tuple(elts=taken)]), ast.Call(
            func=ast.Name(id="enumerate"), args=[ast.Name(id=rows)]
        ):
            pass
        case ast.Tuple(elts=taken), ast.Name(id=rows):
            pass
        case _:
            return False
    if not _is_among(taken, name):
        return False
    rows_of = frame.get(rows)
    return rows_of is not None and rows_of.kind is TENSOR
