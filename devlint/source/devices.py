"""How programs spell devices: strings, methods that move, and the names that people give to devices."""

from __future__ import annotations

import ast

from devlint.knowledge.ecosystem import DEVICE_NAMES
from devlint.regexes import regex

# Backends of torch.device (https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device).
_DEVICE = regex(r"(cuda|xpu|mps|hpu|npu|mtia|xla|hip|ipu|cpu|meta)(:\d+)?")
# Methods that move, and the backend that each moves to; `to` says it in its arguments.
MOVES = {"cuda": "cuda", "cpu": "cpu", "xpu": "xpu", "mps": "mps", "hpu": "hpu", "npu": "npu", "ipu": "ipu", "to": ""}
# What `to` calls that which says where to. Its pages call a tensor `other`, which it doesn't take (`Tensor.to`, tried).
TARGETS = ("device", "tensor")
# Those of modules: `to_empty` too, which is how those leave `meta` that were made there
# (https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html).
MODULE_MOVES = frozenset({*MOVES, "to_empty"})


def backend_of(text: str) -> str | None:
    """The backend that a device string such as `cuda:1` names; None for text that is no device."""
    match = _DEVICE.fullmatch(text)
    return match[1] if match is not None else None


def is_device_name(node: ast.expr) -> bool:
    """Whether an expression is called what people call devices: `device`, `args.gpu`, `self.device`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name.lower() in DEVICE_NAMES or name.lower().endswith(("_device", "device"))
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return "device" in name.lower()
    return False


# `move_to_device(batch)`, `to_cuda(batch)`.
_MOVING = regex(r"(?:\w{1,60}_)?(?:to|move|send)_(?:device|cuda|gpu)")


def names_a_move(function_name: str) -> bool:
    """Whether a function puts what it is given on a device, going by its name."""
    return _MOVING.fullmatch(function_name) is not None


# Names under which programs keep what their user told them.
SETTINGS_NAMES = frozenset(
    {"self", "args", "opt", "opts", "options", "config", "cfg", "conf", "hparams", "params", "FLAGS"}
)


def is_setting(node: ast.Attribute) -> bool:
    """`args.device`, `self.device`: what the program was told, rather than where some tensor is."""
    return isinstance(node.value, ast.Name) and node.value.id in SETTINGS_NAMES
