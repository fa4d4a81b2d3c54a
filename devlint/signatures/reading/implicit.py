"""What Python calls by itself: properties, iteration, indexing, contexts, copies."""

from __future__ import annotations

import ast

from devlint.signatures.reading.function_calls import call_function
from devlint.signatures.state import containers
from devlint.signatures.state.frame import PLACE, Call, Frame
from devlint.signatures.state.objects import class_of, place_of
from devlint.signatures.values.values import (
    DEVICE,
    EITHER,
    LIST,
    LOADER,
    MODULE,
    MODULES,
    MUTABLE,
    NEVER,
    NOTHING,
    NUMBER,
    OBJECT,
    TENSOR,
    UNKNOWN,
    Cell,
    Value,
    mapped,
)
from devlint.source.devices import is_device_name
from devlint.source.modules import FunctionModel


def property_of(frame: Frame, owner: Value, method: FunctionModel) -> Value:
    """A property read."""
    call = Call(frame, _called_at(frame, method.name, method.node))
    if method.name == "device" or is_device_name(ast.Name(method.name)):
        place = place_of(frame, owner) if owner.kind in MODULES else Value(TENSOR, owner.place)
        return mapped(place, lambda p: Value(DEVICE, p.place, likely=True, step=p.step), frame.atoms)
    return call_function(call, method, bound=owner)


def _called_at(frame: Frame, name: str, otherwise: ast.AST) -> ast.Call:
    """A call that nobody wrote, of the expression that asks for it."""
    func = frame.asked or ast.copy_location(ast.Name(name), otherwise)
    return ast.copy_location(ast.Call(func, [], []), func)


def iterated(frame: Frame, value: Value) -> Value:
    """What a loop over an object of the project takes."""
    cls = class_of(value)
    if cls is None:
        return NOTHING
    node = _called_at(frame, "iter", cls.node)
    method = cls.method("__iter__")
    if method is not None:
        produced = call_function(Call(frame, node), method, bound=value)
        following = class_of(produced)
        if following is not None and produced.kind is OBJECT:
            step = following.method("__next__")
            return call_function(Call(frame, node), step, bound=produced) if step is not None else NOTHING
        return containers.element(frame, produced)
    getter = cls.method("__getitem__")
    if getter is not None:
        call = Call(frame, node)
        call.given = [(node, Value(NUMBER))]
        return call_function(call, getter, bound=value)
    return NOTHING


def called_item(frame: Frame, node: ast.Subscript, base: Value, index: Value) -> Value | None:
    """`obj[index]` of an object whose class defines `__getitem__`; None of others."""
    cls = class_of(base) if base.kind is OBJECT else None
    method = cls.method("__getitem__") if cls is not None else None
    if method is None:
        return None
    made = ast.copy_location(ast.Call(node.value, [node.slice], []), node)
    call = Call(frame, made)
    call.given = [(node.slice, index)]
    return call_function(call, method, bound=base)


def entered(frame: Frame, value: Value) -> Value:
    """What `with value as x` binds."""
    if value.kind is LIST:
        each = containers.element(frame, value)
        return NOTHING if each is NEVER else each
    return value if value.kind in (UNKNOWN, MODULE, LOADER) else NOTHING


def copied(frame: Frame, value: Value, node: ast.expr) -> Value:
    """A deep copy."""
    if value.kind not in MUTABLE or value.cell is None:
        if value.kind is UNKNOWN:
            # What becomes of a copy of something says nothing of that: `deepcopy(net).cpu()`.
            at = frame.slot(value, PLACE)
            return value.but(path=None, place=at.place if at is not None and at.kind is not EITHER else value.place)
        return NOTHING if value.kind in MUTABLE and value.kind is not TENSOR else value
    held_by: dict[Cell, dict[str, Value]] = {}
    for key, held in frame.env.items():
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], Cell):
            held_by.setdefault(key[0], {})[key[1]] = held
    return _copy_of(frame, value, node, held_by, {})


# What a copy holds is copied with it, up to so many objects.
_MOST_COPIED = 64


def _copy_of(
    frame: Frame, value: Value, node: ast.expr, held_by: dict[Cell, dict[str, Value]], made: dict[Cell, Cell]
) -> Value:
    """A copy of an object and of those that it holds; `made` are the cells of those that are copied already."""
    if value.cell is None or value.kind not in MUTABLE:
        return value
    if value.cell not in made:
        if len(made) >= _MOST_COPIED:
            return value
        cell = made[value.cell] = frame.new_cell(node)
        for slot, held in {**value.cell.last, **held_by.get(value.cell, {})}.items():
            frame.env[cell, slot] = _copy_of(frame, held, node, held_by, made)
    return value.but(cell=made[value.cell])
