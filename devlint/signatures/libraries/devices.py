"""Device arguments: which place a string, a number, a `torch.device` or a name stands for."""

from __future__ import annotations

import ast

from devlint.regexes import regex
from devlint.signatures.state.frame import Call, Frame
from devlint.signatures.values.values import (
    CONSTANT,
    DEVICE,
    DEVICE_NUMBER,
    EITHER,
    HOST,
    UNKNOWN_PLACE,
    Place,
    Value,
    mapped,
)
from devlint.source.devices import backend_of, is_device_name

CUDA = Place("accelerator", "cuda")


def parse_place(text: str) -> Place | None:
    """The place of a device string, or None."""
    backend = backend_of(text)
    if backend is None:
        return None
    return HOST if backend == "cpu" else Place("accelerator", text)


_NUMBERED = regex(r"(cuda|xpu):(?:\{\w*\}|%[dsi])?")


def numbered_device(text: object) -> Value | None:
    """The device of a text that a number is put into: `f"cuda:{rank}"`, `"cuda:%d" % rank`, `"cuda:" + str(rank)`."""
    found = _NUMBERED.fullmatch(text) if isinstance(text, str) else None
    return Value(DEVICE, Place("accelerator", found[1])) if found is not None else None


def device_from(frame: Frame, value: Value, node: ast.expr | None = None) -> Value | None:
    """A device argument as a value of kind DEVICE, of several alternatives where it has them; None where it is no device.

    A value with constant None inside says: no device was named.
    """
    if value.kind is EITHER:
        options = [device_from(frame, option, node) for _, option in value.parts]
        if all(o is None for o in options):
            return None
        return mapped(
            value,
            lambda option: device_from(frame, option, node) or Value(DEVICE, UNKNOWN_PLACE, likely=True),
            frame.atoms,
        )
    match value.kind:
        case "constant":
            return _constant(value)
        case "device":
            return value
        case "device type":
            return value.but(kind=DEVICE)
        case "tensor" | "batch":
            return Value(DEVICE, value.place, step=value.step, likely=True)
        case "number" if DEVICE_NUMBER in value.tags:
            return Value(DEVICE, value.place, step=value.step, likely=True)
        case "unknown":
            return _by_name(value, node)
        case "number":
            # A number among several; `x.dtype` by itself is none.
            return _by_name(value, node) or (_by_number(value) if isinstance(node, ast.Subscript) else None)
        case "count":
            return Value(DEVICE, CUDA, likely=True)
    return None


def _constant(value: Value) -> Value | None:
    if value.data is None:
        return value
    if isinstance(value.data, bool):
        return None
    if isinstance(value.data, int):
        return Value(DEVICE, Place("accelerator", f"cuda:{value.data}"))
    place = parse_place(value.data) if isinstance(value.data, str) else None
    return Value(DEVICE, place) if place is not None else None


def _by_name(value: Value, node: ast.expr | None) -> Value | None:
    """What is called like a device, or is a part of something under such a name."""
    if value.path is not None:
        last = str(value.path[-1]).strip(".[]'\"")
        if is_device_name(ast.Name(last)) or (node is not None and is_device_name(node)):
            return Value(DEVICE, Place("told", value.path), path=value.path)
    elif node is not None and is_device_name(node):
        return Value(DEVICE, UNKNOWN_PLACE, likely=True)
    return None


def _by_number(value: Value) -> Value:
    """The device whose number is given: `.to(devices[0])`, of a list of numbers."""
    place = Place("told", value.path) if value.path is not None else UNKNOWN_PLACE
    return Value(DEVICE, place, path=value.path, likely=True)


def named_device(call: Call, position: int = -1, name: str = "device") -> Value | None:
    """The device that a call's argument names; None where there is none, or it says None."""
    pair = call.pair(position, name)
    if pair is None:
        return None
    found = device_from(call.frame, pair[1], pair[0])
    if found is not None and found.kind is CONSTANT:
        return None
    # Something was said, whatever it is: also what a method that others are to write would give.
    return found or Value(DEVICE, UNKNOWN_PLACE, likely=True)
