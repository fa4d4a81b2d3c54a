"""Device expressions: which place a string, an index, a `torch.device` or a name stands for."""

from __future__ import annotations

import ast
import re

from devlint.knowledge.ecosystem import DEVICE_NAMES
from devlint.placement.environment import unparsed
from devlint.placement.values import HOST, PREFERRED, Kind, Place, Sort, Value, accelerator, same_as

# Backends of torch.device (https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device).
_DEVICE = re.compile(r"(cuda|xpu|mps|hpu|npu|mtia|xla|hip|ipu|cpu|meta)(:\d+)?")
# Methods that move, and the backend that each moves to; `to` says it in its arguments.
MOVES = {"cuda": "cuda", "cpu": "cpu", "xpu": "xpu", "mps": "mps", "hpu": "hpu", "npu": "npu", "ipu": "ipu", "to": ""}


def parse_device(text: str) -> Place | None:
    """The place of a device string, or None for text that isn't one."""
    match = _DEVICE.fullmatch(text)
    if match is None:
        return None
    return HOST if match[1] == "cpu" else accelerator(text)


def is_device_name(node: ast.expr) -> bool:
    """Whether an expression is called what people call devices: `device`, `args.gpu`, `self.device`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name.lower() in DEVICE_NAMES or name.lower().endswith(("_device", "device"))
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return "device" in name.lower()
    return False


# Names under which programs keep what their user told them.
SETTINGS_NAMES = frozenset(
    {"self", "args", "opt", "opts", "options", "config", "cfg", "conf", "hparams", "params", "FLAGS"}
)


def is_setting(node: ast.Attribute) -> bool:
    """`args.device`, `self.device`: what the program was told, rather than where some tensor is."""
    return isinstance(node.value, ast.Name) and node.value.id in SETTINGS_NAMES


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
