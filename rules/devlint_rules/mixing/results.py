"""What becomes of a function's result where it is called, and what it is made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import last_name, own_nodes

if TYPE_CHECKING:
    from devlint.facts import FunctionModel, PlacementModel

# What gives a number, or something about a tensor that is no tensor.
_READING = frozenset({"item", "tolist", "shape", "dtype", "device", "ndim", "size", "dim", "numel"})
_READERS = frozenset(
    {"float", "int", "len", "bool", "str", "print", "format", "add_scalar", "add_scalars", "add_histogram", "debug", "info", "warning"}
)  # fmt: skip
# What gives a tensor that is where the first one is.
_SAME = frozenset({"detach", "mean", "sum", "squeeze", "view", "clone", "data", "float", "double"})
# So many assignments lie between an input and what is made of it.
_MAX_STEPS = 4


def is_only_read(function: FunctionModel, at: int | None, model: PlacementModel) -> bool:
    """Whether each call in sight of a function, and there are some, takes no more than numbers from a result, or leaves it.

    `at`: which of its results, where it gives several at once.
    """
    calls = model.calls_in_sight(function.node)
    return bool(calls) and all(_only_reads(file, call, at) for file, call in calls)


def _only_reads(file: PlacementModel, call: ast.Call, at: int | None) -> bool:
    if at is None and _is_read(file, call):
        return True
    match next(iter(file.ancestors(call)), None):
        case ast.Expr():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if at is None:
            pass
        case ast.Assign(targets=[ast.Tuple(elts=parts)]) if at is not None and at < len(parts):
            taken = parts[at]
            if not isinstance(taken, ast.Name) or any(isinstance(p, ast.Starred) for p in parts[:at]):
                return False
            name = taken.id
        case _:
            return False
    found = [n for n in own_nodes(file.enclosing_scope(call)) if isinstance(n, ast.Name) and n.id == name]
    return all(_is_read(file, n) for n in found if isinstance(n.ctx, ast.Load))


def _is_read(file: PlacementModel, node: ast.expr) -> bool:
    """Whether what is done with a tensor gives a number or a text."""
    child: ast.AST = node
    for parent in file.ancestors(node):
        match parent:
            case ast.Attribute(attr=attr) if attr in _READING:
                return True
            case ast.Call(func=func) if func is not child:
                return last_name(func) in _READERS
            case ast.FormattedValue():
                return True
            case ast.Attribute(attr=attr) if attr in _SAME:
                pass
            case ast.Call() | ast.Subscript():
                if isinstance(parent, ast.Subscript) and parent.value is not child:
                    return False
            case _:
                return False
        child = parent
    return False


def is_made_of(call: ast.Call, name: str, model: PlacementModel) -> bool:
    """Whether a call gives a tensor out of what an input holds as it came, and that isn't read on the host first.

    `torch.from_numpy(np.sort(x))` takes no tensor that is on an accelerator.
    """
    if last_name(call.func) not in _FROM_DATA:
        return False
    waiting: list[ast.expr] = list(call.args[:1])
    for _ in range(_MAX_STEPS):
        names = [n for expression in waiting for n in _held(expression)]
        if any(n.id == name for n in names):
            return True
        waiting = [value for n in names for value in model.assigned_values(n)]
    return False


_FROM_DATA = frozenset({"from_numpy", "tensor", "as_tensor", "Tensor", "FloatTensor", "LongTensor", "DoubleTensor", "IntTensor", "BoolTensor", "ByteTensor"})  # fmt: skip
_COPYING = _READING | {"cpu"}


def _held(node: ast.expr) -> Iterator[ast.Name]:
    """The names of an expression whose values it holds, those left out of which something is asked or copied to the host."""
    match node:
        case ast.Name():
            yield node
        case ast.Attribute(attr=attr) if attr in _COPYING:
            pass
        case ast.Call(func=ast.Name(id=name)) if name in _READERS:
            pass
        case ast.Call(func=func, args=args):
            for part in (func.value if isinstance(func, ast.Attribute) else func, *args):
                if not (isinstance(func, ast.Attribute) and func.attr in _COPYING):
                    yield from _held(part)
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _held(child)
