"""Methods of lists, tuples and dicts."""

from __future__ import annotations

from devlint.signatures.state import containers, stores
from devlint.signatures.state.frame import CONTENTS, Call
from devlint.signatures.values.values import (
    A_NUMBER,
    DICT,
    LIST,
    NONE,
    NOTHING,
    TUPLE,
    Value,
    constant,
)


def list_method(call: Call, owner: Value, name: str) -> Value:
    frame = call.frame
    if name in ("append", "add", "insert", "appendleft"):
        stores.added(frame, owner, call.positional_values[-1:])
        return NONE
    if name in ("extend", "update"):
        stores.added(frame, owner, call.positional_values[:1], spread=True)
        return NONE
    if name in ("pop", "popleft"):
        contents = containers.contents_of(frame, owner)
        if (
            contents is not None
            and contents.kind is TUPLE
            and owner.identity is not None
            and not call.node.args
            and contents.parts
        ):
            frame.env[owner.identity, CONTENTS] = Value(TUPLE, parts=contents.parts[:-1])
            last: Value = contents.parts[-1]
            return last
        return containers.all_parts(contents, frame)
    if name == "copy":
        contents = containers.contents_of(frame, owner)
        return containers.made(frame, LIST, contents, call.node) if contents is not None else NOTHING
    if name == "__next__":
        return containers.all_parts(containers.contents_of(frame, owner), frame)
    if name == "clear" and owner.identity is not None:
        frame.env[owner.identity, CONTENTS] = Value(TUPLE)
    if name in ("reverse", "sort", "remove") and owner.identity is not None:
        contents = containers.contents_of(frame, owner)
        if contents is not None and contents.kind is TUPLE:
            frame.env[owner.identity, CONTENTS] = containers.each_of(contents.parts, frame)
    return _GIVES.get(name, NOTHING)


# What other methods of lists, sets and deques give.
_GIVES = dict.fromkeys(("clear", "reverse", "sort", "remove", "discard", "rotate", "extendleft"), NONE)
_GIVES |= dict.fromkeys(("index", "count"), A_NUMBER)


def dict_method(call: Call, owner: Value, name: str) -> Value:
    frame = call.frame
    contents = containers.contents_of(frame, owner)
    match name:
        case "items":
            if (
                contents is not None
                and contents.kind is containers.ITEMS
                and len(contents.parts) <= containers.MAX_UNROLLED
            ):
                pairs = tuple(
                    Value(TUPLE, parts=(constant(k), v)) for k, v in zip(contents.data, contents.parts, strict=True)
                )
                return containers.made(frame, LIST, Value(TUPLE, parts=pairs), call.node)
            each = containers.all_parts(contents, frame)
            return containers.made(
                frame, LIST, Value(containers.EACH, parts=(Value(TUPLE, parts=(A_NUMBER, each)),)), call.node
            )
        case "values":
            if contents is not None and contents.kind is containers.ITEMS:
                return containers.made(frame, LIST, Value(TUPLE, parts=contents.parts), call.node)
            return containers.made(
                frame, LIST, Value(containers.EACH, parts=(containers.all_parts(contents, frame),)), call.node
            )
        case "keys":
            if (
                contents is not None
                and contents.kind is containers.ITEMS
                and len(contents.parts) <= containers.MAX_UNROLLED
            ):
                return containers.made(
                    frame, LIST, Value(TUPLE, parts=tuple(constant(k) for k in contents.data)), call.node
                )
            return containers.made(frame, LIST, Value(containers.EACH, parts=(A_NUMBER,)), call.node)
        case "get" | "pop" | "setdefault":
            index = call.argument(0) or NOTHING
            return containers.item(frame, owner, index, call.node.args[0] if call.node.args else call.node)
        case "update":
            return _update(call, owner, contents)
        case "copy":
            return containers.made(frame, DICT, contents, call.node) if contents is not None else NOTHING
    if owner.identity is not None and contents is not None:
        frame.displace(owner, 0)
    return NONE if name == "clear" else NOTHING


def _update(call: Call, owner: Value, contents: Value | None) -> Value:
    """`d.update(other)`, `d.update(key=value)`."""
    frame = call.frame
    table: dict[object, Value] | None = None
    if contents is not None and contents.kind in (containers.ITEMS, TUPLE):
        table = dict(zip(contents.data or (), contents.parts, strict=False))
    for _, value in call.given:
        more = containers.contents_of(frame, value)
        if table is not None and more is not None and more.kind is containers.ITEMS:
            table |= dict(zip(more.data, more.parts, strict=True))
        else:
            table = None
    if table is not None and not call.open_ended:
        table |= {name: value for name, (_, value) in call.keywords.items()}
        new = Value(containers.ITEMS, data=tuple(table), parts=tuple(table.values()))
    else:
        new = Value(containers.EACH, parts=(NOTHING,))
    if owner.identity is not None:
        frame.env[owner.identity, CONTENTS] = new
    return NONE
