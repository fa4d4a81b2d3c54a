"""A function's signature in words: what it needs together or on the host, what it gives, what it changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import ANYTHING, IF_MODULE, PLACE
from devlint.signatures.state.outcome import Effect, Need
from devlint.signatures.values.values import (
    CONSTANT,
    EITHER,
    TUPLE,
    UNKNOWN,
    Place,
    Value,
    text_of,
)
from devlint.source.modules import FunctionModel


def described(reader: Reader, function: FunctionModel) -> list[str]:
    """The lines of a function's signature; one line that says so where it couldn't be read."""
    signature = reader.signature(function, None)
    names = ", ".join(a.arg for a in function.parameters)
    head = f"{function.name}({names})"
    if signature is None:
        return [head, "    isn't understood: it is nested too deeply, or calls itself without end"]
    lines = dict.fromkeys(
        [
            *(_need(need) for need in signature.needs),
            *_gives(signature.gives, reader),
            *(line for effect in signature.effects if (line := _effect(effect))),
        ]
    )
    return [head, *(f"    {line}" for line in lines if line)]


def _need(need: Need) -> str:
    shown = [f"`{_text(node)}` ({_whereabouts(value)})" for node, value in need.operands]
    line = need.node.lineno
    by = f"`{need.name}`" if need.name else "an operator"
    if need.sense == "host":
        return f"needs {shown[0]} on cpu: {by}, line {line}"
    if need.sense == "index":
        return f"needs {' on cpu or with '.join(reversed(shown[:2]))}: an index, line {line}"
    return f"needs {' and '.join(shown[:3])} together: {by}, line {line}"


def _text(node: ast.expr) -> str:
    return _cut(" ".join(ast.unparse(node).split()))


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _whereabouts(value: Value) -> str:
    if value.kind is EITHER:
        return "at one of several places"
    return _place(value.place)


def _place(place: Place) -> str:
    match place.sort:
        case "host":
            return "on cpu"
        case "accelerator":
            return f"on {place.name}"
        case "input":
            return f"where `{text_of(place.name)}` is"
        case "told":
            return f"on `{text_of(place.name)}`"
    return "place unknown"


def _gives(value: Value, reader: Reader) -> Iterator[str]:
    options = [v for _, v in value.options() if v.kind is not UNKNOWN or v.place.sort != "unknown"]
    sometimes = " on some paths" if len(value.options()) > 1 else ""
    for option in options:
        if option.kind is CONSTANT and option.data is None:
            continue
        yield f"gives {_result(option)}{sometimes}"


def _result(value: Value) -> str:
    if value.kind is EITHER:
        return " or ".join(dict.fromkeys(_result(option) for _, option in value.options()[:4]))
    if value.kind is TUPLE:
        return f"({', '.join(_result(p) for p in value.parts[:6])})"
    if value.kind is UNKNOWN:
        return f"what may be a tensor {_place(value.place)}"
    if value.kind is CONSTANT:
        return f"`{_cut(repr(value.data))}`"
    if value.kind in ("tensor", "module", "batch", "device", "wrapper"):
        return f"a {value.kind} {_place(value.place)}"
    return f"an {value.kind}" if value.kind[0] in "ao" else f"a {value.kind}"


def _effect(effect: Effect) -> str:
    target = text_of(effect.path)
    if effect.slot == PLACE:
        return f"moves `{target}`: {_whereabouts(effect.value)} afterwards"
    if effect.slot == IF_MODULE:
        return f"moves `{target}`, if that is a module: {_whereabouts(effect.value)} afterwards"
    if effect.slot == ANYTHING:
        return f"hands `{target}` to something unknown"
    if effect.slot.startswith("."):
        return f"sets `{target}{effect.slot}`: {_result(effect.value)}"
    return f"changes what `{target}` holds"
