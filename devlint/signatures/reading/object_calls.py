"""Classes and modules that are called: objects that are made, and `forward`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devlint.signatures.libraries import torch_modules
from devlint.signatures.reading.function_calls import bind_arguments, call_function
from devlint.signatures.reading.unknown_calls import unknown_call
from devlint.signatures.state.frame import PLACE, Call, Frame
from devlint.signatures.state.objects import class_of, place_around, place_of
from devlint.signatures.state.outcome import Need
from devlint.signatures.values.conditions import TRUE
from devlint.signatures.values.values import (
    EITHER,
    MODULE,
    NOTHING,
    OBJECT,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    ZERO_DIM,
    Value,
    mapped,
)
from devlint.source.modules import FunctionModel


def instantiate(call: Call, callee: Value) -> Value:
    """`Cls(...)`: a new object, with what its constructor sets."""
    frame = call.frame
    cls = callee.data
    if cls is None:
        return call.fresh()
    cell = frame.new_cell(call.node)
    if cls.is_enumeration or any(name.endswith("Exception") for name in cls.outside_bases):
        return Value(UNKNOWN)
    kind = MODULE if cls.is_module else OBJECT
    made = Value(kind, UNKNOWN_PLACE, data=cls, cell=cell)
    tensor_like = any(name in ("torch.Tensor", "torch.autograd.Function") for name in cls.outside_bases)
    if tensor_like:
        return call.fresh()
    if kind is MODULE:
        step = call.step(f"created on cpu by `{call.text}`")._replace(of_module=True)
        frame.env[cell, PLACE] = Value(TENSOR, frame.default_place, step=step)
    constructor = cls.method("__init__")
    if constructor is not None:
        call_function(call, constructor, bound=made)
        if kind is MODULE:
            place_around(frame, made, [v for _, v in call.everything()])
        return made
    if "typing.NamedTuple" in cls.outside_bases or "collections.namedtuple" in cls.outside_bases:
        parts = _fields(call, cls.fields)
        return Value(TUPLE, parts=tuple(parts.values())) if len(parts) == len(cls.fields) else NOTHING
    for name, value in _fields(call, cls.fields).items():
        frame.put(made, f".{name}", value)
    return made


def _fields(call: Call, fields: Sequence[str]) -> dict[str, Value]:
    found = dict(zip(fields, call.positional_values, strict=False))
    return found | {k: v for k, (_, v) in call.keywords.items() if k in fields}


def call_module(call: Call, module: Value) -> Value:
    """A call of a module: `forward`, with what it asks of the module and its inputs told at the call."""
    cls = class_of(module)
    frame = call.frame
    if frame.slot(module, ".__hooks__") is not None:
        # A hook may move what the module is given.
        return call.fresh()
    if cls is None:
        return torch_modules.call_module(call, module)
    own_call = cls.method("__call__")
    forward = own_call or cls.method("forward")
    if forward is None:
        return unknown_call(call)
    signature = frame.reader.signature(forward, None)
    if signature is None:
        return unknown_call(call)
    meeting = _meeting_inputs(frame, signature.needs, forward)
    given: dict[str, Value] = {}
    if meeting:
        place = mapped(
            place_of(frame, module),
            lambda p: Value(MODULE, p.place, data=cls, step=p.step, likely=p.likely),
            frame.atoms,
        )
        given = bind_arguments(call, forward, module) or {}
        pairs = {id(v): n for n, v in call.everything()}
        for name in meeting:
            value = given.get(name)
            if value is not None and id(value) in pairs:
                frame.need(
                    "call", call.node, ast.unparse(call.node.func), (pairs[id(value)], value), (call.node.func, place)
                )
    # What is told at the call isn't told again inside.
    result = call_function(call, forward, bound=module, told=frozenset(meeting))
    if not meeting or own_call is not None:
        return result
    return torch_modules.unless_apart(frame, [given[n] for n in meeting if n in given], place_of(frame, module), result)


def _meeting_inputs(frame: Frame, needs: Sequence[Need], forward: FunctionModel) -> list[str]:
    """The inputs of `forward` that surely meet the module's own parameters."""
    me = forward.parameters[0].arg if forward.parameters else "self"
    found: dict[str, None] = {}
    for need in needs:
        if need.sense not in ("operation", "call") or need.path != TRUE:
            continue
        roots = []
        for _, value in need.operands:
            surely = value.place.sort == "input" and len(value.place.name) == 1 and value.kind is not EITHER
            if surely and value.place.name[0] == me:
                surely = value.kind in (TENSOR, MODULE)
            # One without dimensions may stay on the host.
            surely = surely and (need.any_rank or value.rank != ZERO_DIM)
            roots.append(value.place.name[0] if surely else None)
        if me in roots:
            for root in roots:
                if root is not None and root != me:
                    found[str(root)] = None
    return list(found)
