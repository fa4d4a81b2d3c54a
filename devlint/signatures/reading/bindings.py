"""What gives names, attributes and items their values: assignments, imports, deletions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from devlint.signatures.libraries import waits
from devlint.signatures.reading.expressions import evaluate, operate
from devlint.signatures.state import containers, objects, stores
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import (
    IMPORTED,
    MODULES,
    TENSOR,
    ZERO_DIM,
    Value,
    mapped,
    rank_of,
    reference,
)
from devlint.source.masks import is_mask
from devlint.source.modules import last_name


def bind(frame: Frame, target: ast.expr, value: Value) -> None:
    """Assigns a value to a target."""
    if frame.record is not None and isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
        frame.record.note(frame, target, value)
    match target:
        case ast.Name(id=name):
            frame.env[name] = value
        case ast.Attribute(value=owner, attr="data"):
            _bind_data(frame, owner, value)
        case ast.Attribute(value=owner, attr=attr):
            objects.store_attribute(frame, evaluate(frame, owner), attr, value, target)
        case ast.Subscript(value=owner, slice=index):
            held = evaluate(frame, owner)
            waits.stored(frame, target, held, value)
            stores.store_item(frame, target, held, index, value)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            for element, part in zip(elts, containers.unpacked(frame, value, elts), strict=True):
                bind(frame, element.value if isinstance(element, ast.Starred) else element, part)
        case ast.Starred(value=inner):
            bind(frame, inner, value)


def _bind_data(frame: Frame, owner: ast.expr, value: Value) -> None:
    """`p.data = t`: the same parameter, where the other tensor is."""
    held = evaluate(frame, owner)
    part = owner
    while isinstance(part, ast.Attribute):
        part = part.value
        for _, whole in evaluate(frame, part).options():
            if whole.kind in MODULES and whole.cell is not None and objects.place_of(frame, whole).place != value.place:
                # A part of a new module that holds another one's numbers: the rest may follow.
                frame.displace(whole)
    if not any(o.kind is TENSOR for _, o in held.options()):
        objects.store_attribute(frame, held, "data", value, owner)
        return
    for _, option in held.options():
        if isinstance(option.data, Value):
            # One of the parameters of a module: in a loop the others follow, likely.
            follows = bool(frame.breaks) and value.kind is TENSOR and value.place.sort != "unknown"
            place = Value(TENSOR, value.place, likely=True, step=value.step) if follows else Value(TENSOR)
            objects.move(frame, option.data, place, value.step)
    if isinstance(owner, (ast.Name, ast.Attribute)):
        new = mapped(
            value,
            lambda v: (
                v.but(tags=held.tags, path=None) if v.kind is TENSOR else Value(TENSOR, likely=True, tags=held.tags)
            ),
            frame.atoms,
        )
        bind(frame, owner, new)


def _assign(frame: Frame, node: ast.Assign) -> None:
    value = evaluate(frame, node.value)
    for target in node.targets:
        if isinstance(target, ast.Subscript):
            _put_by_index(frame, target, node.value, value)
        bind(frame, target, value)


def _put_by_index(frame: Frame, target: ast.Subscript, node: ast.expr, value: Value) -> None:
    """`x[index] = value`, a tensor saying where: unlike a slice, that takes nothing from elsewhere but a number.

    Found by running `index_put_`; where a mask says so, one element alone is a number, too. A whole number that is a tensor says where as
    one of Python's does: what is put there is copied, from anywhere.
    """
    if not any(option.kind is TENSOR for _, option in value.options()):
        return
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    if len(parts) == 1 and _is_of_one(node) and is_mask(parts[0], lambda name: _given_to(frame, name)):
        return
    indices = [evaluate(frame, part) for part in parts if not isinstance(part, (ast.Slice, ast.Constant))]
    if any(
        option.kind is TENSOR and rank_of(option) not in ("", ZERO_DIM)
        for index in indices
        for _, option in index.options()
    ):
        held = target.value, evaluate(frame, target.value)
        frame.need("operation", target, "index_put_", held, (node, value), guarded=True)


def _is_of_one(node: ast.expr) -> bool:
    """Whether a tensor has one element: `torch.tensor([1])`."""
    match node:
        case ast.Call(func=func, args=[ast.List(elts=[ast.Constant()]) | ast.Tuple(elts=[ast.Constant()]), *_]):
            return last_name(func) in ("tensor", "as_tensor")
    return False


def _given_to(frame: Frame, name: ast.Name) -> Sequence[ast.expr]:
    """What a function assigns to a name."""
    return frame.function.assigned.get(name.id, ()) if frame.function is not None else ()


def _ann_assign(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is not None:
        value = evaluate(frame, node.value)
        bind(frame, node.target, frame.reader.refined(frame, value, node.annotation))


def _aug_assign(frame: Frame, node: ast.AugAssign) -> None:
    target = node.target
    old = evaluate(frame, _as_load(target))
    new = evaluate(frame, node.value)
    result = operate(frame, node, target, old, node.op, node.value, new, in_place=True)
    if not isinstance(target, ast.Subscript):
        bind(frame, target, result)


def _as_load(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name(id=name):
            node: ast.expr = ast.Name(name, ast.Load())
        case ast.Attribute(value=value, attr=attr):
            node = ast.Attribute(value, attr, ast.Load())
        case _:
            # `x[i] += 1` reads and writes by the same index.
            return target
    return ast.copy_location(node, target)


def _delete(frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            frame.env.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            frame.displace(evaluate(frame, target.value), 0)


def _import(frame: Frame, node: ast.Import) -> None:
    for alias in node.names:
        name = alias.name if alias.asname else alias.name.split(".")[0]
        frame.env[alias.asname or name] = reference(name)


def _import_from(frame: Frame, node: ast.ImportFrom) -> None:
    for alias in node.names:
        if alias.name != "*":
            name = f"{frame.source.absolute(node)}.{alias.name}"
            frame.env[alias.asname or alias.name] = Value(IMPORTED, data=(name, frame.source))


BINDINGS: dict[type[ast.stmt], Callable[[Frame, Any], None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
}
