"""What a loop tells of the batches that it takes: where it moves a part of them, they come from the host.

A loader that is a parameter, or comes from somewhere else, may give batches that are on the device already. A loop that
moves one part to an accelerator shows that they aren't, and so where the parts are that it left out.
"""

from __future__ import annotations

import ast

from devlint.knowledge.ecosystem import MOVING_FRAMEWORKS
from devlint.placement.devices import parse_device
from devlint.placement.values import HOST, ITEM, Sort, Step, Value, leaves, replace, with_parts
from devlint.source.devices import is_device_name
from devlint.source.kinds import Kind
from devlint.source.modules import SourceModule, target_names
from devlint.source.paths import unparsed
from devlint.source.trees import walk


def taken_by(loop: ast.For | ast.AsyncFor, each: Value, source: SourceModule) -> Value:
    """What a pass of a loop is given, batches of unknown place put on the host where the loop moves them from there."""
    if not any(map(_is_open, leaves(each))):
        return each
    if not source.imported_packages.isdisjoint(MOVING_FRAMEWORKS) or not _moves_a_part(loop, each):
        return each
    step = Step(
        f"from `{unparsed(loop.iter)}`, whose batches are moved here", source.path, loop.lineno, loop.col_offset
    )
    return with_parts(each, lambda value: _on_host(value, step))


def _is_open(value: Value) -> bool:
    return value.kind is Kind.BATCH and value.name == ITEM and value.place.sort is Sort.UNKNOWN


def _on_host(value: Value, step: Step) -> Value:
    return (
        replace(value, place=HOST, likely=True, ranked=True, trail=(*value.trail, step)) if _is_open(value) else value
    )


def _moves_a_part(loop: ast.For | ast.AsyncFor, each: Value) -> bool:
    items, parts = set[str](), set[str]()
    _sort_names(loop.target, each, items, parts)
    nodes = [node for statement in loop.body for node in walk(statement)]
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple() as unpacked], value=value) if _root(value) in items | parts:
                parts |= set(target_names(unpacked))
    moved = [
        n.func.value for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and _is_move(n)
    ]
    if any(isinstance(value, ast.Name) and value.id in items for value in moved):
        # A whole batch may move in place.
        return False
    return any(_root(value) in items | parts for value in moved)


def _sort_names(target: ast.expr, value: Value, items: set[str], parts: set[str]) -> None:
    """Tells the names of whole batches from those of their parts: `i, batch` of an enumerated loader, and `x, y`."""
    match target:
        case ast.Name(id=name):
            items.add(name)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            if value.kind is Kind.SEQUENCE and value.elements is not None and len(value.elements) == len(elts):
                for element, part in zip(elts, value.elements, strict=True):
                    _sort_names(element, part, items, parts)
            else:
                parts |= set(target_names(target))


def _is_move(call: ast.Call) -> bool:
    """`x.to(device)`, `batch["image"].cuda()`."""
    match call.func:
        case ast.Attribute(attr="cuda" | "xpu"):
            return True
        case ast.Attribute(attr="to"):
            given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
            return any(map(_is_off_host, given))
    return False


def _is_off_host(device: ast.expr) -> bool:
    if isinstance(device, ast.Constant):
        place = parse_device(device.value) if isinstance(device.value, str) else None
        return place is not None and place != HOST
    return is_device_name(device)


def _root(node: ast.expr) -> str:
    """The name that a part is of, by subscript or attribute; "" for anything else."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
