"""Which place a device expression stands for: a string, an index, a `torch.device`, a name."""

from __future__ import annotations

import ast

from devlint.placement.values import HOST, Place, Value, accelerator, same_as
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
    """(place, likely) that one alternative of a `device=` or `.to(...)` argument means; None when it isn't a device at all."""
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
        case Kind.REFERENCE | Kind.CLASS | Kind.FUNCTION | Kind.MODULE | Kind.WRAPPER | Kind.SEQUENCE | Kind.MAPPING:
            return None
    if node is not None and is_device_name(node):
        return same_as(unparsed(node)), True
    return None
