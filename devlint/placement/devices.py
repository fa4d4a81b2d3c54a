"""Which place a device expression stands for: a string, an index, a `torch.device`, a name."""

from __future__ import annotations

import ast

from devlint.placement.values import HOST, PREFERRED, Place, Sort, Value, accelerator, same_as
from devlint.source.devices import backend_of, is_device_name
from devlint.source.kinds import Kind
from devlint.source.paths import unparsed


def parse_device(text: str) -> Place | None:
    """The place of a device string, or None for text that isn't one."""
    backend = backend_of(text)
    if backend is None:
        return None
    return HOST if backend == "cpu" else accelerator(text)


def place_of_device(value: Value, node: ast.expr | None) -> tuple[Place, bool] | None:
    """(place, likely) that a `device=` or `.to(...)` argument means; None when it isn't a device at all."""
    match value.kind:
        case Kind.CONSTANT if value.constant is None:
            # `device=None` names none, whatever the parameter is called that it came through.
            return None
        case Kind.CONSTANT if isinstance(value.constant, str):
            place = parse_device(value.constant)
            return (place, False) if place else None
        case Kind.CONSTANT if isinstance(value.constant, int) and not isinstance(value.constant, bool):
            return accelerator(f"cuda:{value.constant}"), False
        case Kind.DEVICE:
            return value.place, value.likely
        case Kind.TENSOR | Kind.PARAMETER | Kind.BATCH:
            return value.place, True
        case Kind.EITHER:
            return _either(value, node)
        case Kind.REFERENCE | Kind.CLASS | Kind.FUNCTION | Kind.MODULE | Kind.WRAPPER | Kind.SEQUENCE | Kind.MAPPING:
            return None
    if node is not None and is_device_name(node):
        return same_as(unparsed(node)), True
    return None


def _either(value: Value, node: ast.expr | None) -> tuple[Place, bool] | None:
    """One of several devices: the accelerator if there is one, where the host is among them."""
    places = [p for _, option in value.options if (p := place_of_device(option, node)) is not None]
    if not places:
        return None
    found = {p for p, _ in places}
    likely = any(flag for _, flag in places) or len(places) < len(value.options)
    if len(found) == 1:
        return found.pop(), likely
    off_host = sorted(p.name for p in found if p.off_host)
    if off_host:
        return Place(Sort.PREFERRED, off_host[0].split(":")[0]) if HOST in found else PREFERRED, likely
    return (same_as(unparsed(node)) if node is not None else PREFERRED), True
