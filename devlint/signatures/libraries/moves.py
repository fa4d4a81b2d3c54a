"""Moves by a method: where `.to`, `.cuda` and their like put a tensor."""

from __future__ import annotations

import ast

from devlint.signatures.libraries.devices import device_from, named_device
from devlint.signatures.state.frame import ANYTHING, IF_OBJECT, Call
from devlint.signatures.values.values import (
    BATCH,
    CONSTANT,
    DEVICE,
    DEVICE_NUMBER,
    EITHER,
    HOST,
    NUMBER,
    RANKED,
    REFERENCE,
    TENSOR,
    UNKNOWN,
    UNKNOWN_PLACE,
    Place,
    Value,
    mapped,
)
from devlint.source.devices import MOVES, TARGETS


def receiver_of(call: Call) -> ast.expr:
    return call.node.func.value if isinstance(call.node.func, ast.Attribute) else call.node.func


def frame_drops(call: Call) -> bool:
    """Whether a call is a statement of its own."""
    return call.frame.dropped is call.node


def target_of(call: Call, name: str) -> Value | None:
    """Where a move goes, as a value with that place; None where it names no device."""
    if name not in ("to", "to_empty"):
        plain = Value(DEVICE, HOST if name == "cpu" else Place("accelerator", MOVES[name]))
        device = named_device(call, 0)
        if device is None or name == "cpu":
            return plain
        given = call.argument(0, "device")
        if given is not None and DEVICE_NUMBER in given.tags:
            # `x.cuda(y.get_device())`: whichever it is, it is one of these.
            return plain.but(likely=True)
        return mapped(device, lambda d: plain.but(likely=True) if d.place == UNKNOWN_PLACE else d, call.frame.atoms)
    for node, value in [*call.given[:1], *((n, v) for k, (n, v) in call.keywords.items() if k in TARGETS)]:
        found = device_from(call.frame, value, node)
        if found is not None:
            return None if found.kind is CONSTANT else found
        # A parameter that is text names a device here: types aren't named so.
        is_open = value.kind in (UNKNOWN, EITHER) or (value.kind is NUMBER and value.path is not None)
        if is_open or (value.kind is REFERENCE and not str(value.data).startswith("torch.")):
            named = str(value.path[-1]) if value.path else ""
            text = named + (
                node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            )
            if "dtype" in text or "type" in text:
                return None
            return Value(DEVICE, UNKNOWN_PLACE, likely=True)
    if call.open_ended:
        return Value(DEVICE, UNKNOWN_PLACE, likely=True)
    return None


def moved(call: Call, owner: Value, name: str) -> Value:
    """What a move of a tensor gives."""
    target = target_of(call, name)
    if target is None:
        return owner.but(path=None, tags=frozenset(), data=None)

    before_move(call, owner, target)

    def at(device: Value) -> Value:
        place = device.place
        where = place.name if place.sort in ("host", "accelerator") else "there"
        step = call.step(f"moved to {where} here" if where != "there" else f"moved here by `{call.text}`", owner.step)
        step = step._replace(told=place == HOST, left=owner.place)
        likely = device.likely or (owner.likely and owner.kind is not TENSOR)
        kind = owner.kind if owner.kind is BATCH else TENSOR
        if kind is BATCH and owner.data == "item" and owner.path is not None:
            # As a statement of its own it moves a batch of some class in place; else what that holds by name, it may be.
            call.frame.env[owner.path, ANYTHING if frame_drops(call) else IF_OBJECT] = Value(UNKNOWN)
        return Value(kind, place, rank=owner.rank, likely=likely, step=step, data=owner.data if kind is BATCH else None)

    return mapped(target, at, call.frame.atoms)


def before_move(call: Call, owner: Value, target: Value) -> None:
    """What a move says of what is moved: it comes from elsewhere; so does `table`, of which the index is there already."""
    if owner.path is not None and not any(option.place == HOST for _, option in target.options()):
        call.frame.moved.add(owner.path[0])
    receiver = receiver_of(call)
    if not isinstance(receiver, ast.Subscript) or target.kind is EITHER or owner.place == HOST or owner.place.off_host:
        return
    frame = call.frame
    base = frame.reader.evaluate(frame, receiver.value)
    index = (
        frame.reader.evaluate(frame, receiver.slice) if isinstance(receiver.slice, (ast.Name, ast.Attribute)) else None
    )
    if (
        index is None
        or index.kind is EITHER
        or index.place != target.place
        or base.place == target.place
        or base.place.sort not in ("input", "unknown")
        or (base.path is not None and str(base.path[0]).startswith("#"))
    ):
        return
    if base.kind in (UNKNOWN, TENSOR) and index.kind in (TENSOR, UNKNOWN, BATCH) and target.place.sort != "unknown":
        step = call.step("what is taken from it is moved here")
        host = Value(TENSOR, HOST, rank=RANKED, likely=True, step=step)
        frame.is_tensor(index)
        frame.need("index", receiver, "", (receiver.value, host), (receiver.slice, index))
