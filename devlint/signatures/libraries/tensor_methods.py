"""Methods of tensors: what they give, and where that is."""

from __future__ import annotations

import ast

from devlint.knowledge import ecosystem, torch_knowledge
from devlint.knowledge.operators import operator
from devlint.regexes import regex
from devlint.signatures.libraries.devices import CUDA, named_device
from devlint.signatures.libraries.factories import rank_made
from devlint.signatures.libraries.moves import frame_drops, moved, receiver_of
from devlint.signatures.libraries.operations import apply, operands_of
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Call, Frame
from devlint.signatures.values.values import (
    A_NUMBER,
    ARRAY,
    BATCH,
    DEVICE_NUMBER,
    EITHER,
    HOST,
    LIST,
    NOTHING,
    NUMBER,
    OF_HOST,
    RANKED,
    REFERENCE,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    Value,
    mapped,
)
from devlint.source.devices import MOVES

# What `x.type()` gives: the name of a type, which says where x is.
TYPE_NAME = "type name"


def tensor_method(call: Call, owner: Value, name: str) -> Value:
    """A method of a tensor (or of a batch, whose kind isn't known)."""
    frame = call.frame
    if name in MOVES:
        if owner.kind is BATCH and owner.data == "item" and frame_drops(call):
            # An object with tensors may move them in place; of a tensor, that nothing comes of it is the finding.
            frame.lose_batch(owner)
        return moved(call, owner, name)
    if name in ("numpy", "__array__"):
        if not call.says("force", True):
            frame.need("host", call.node, ".numpy()", (receiver_of(call), owner))
        return Value(ARRAY, HOST)
    if name in ("type_as", "to_dense") and call.given:
        return mapped(call.given[0][1], lambda o: _taken_to(owner, o), frame.atoms)
    if name == "type":
        return _typed(call, owner)
    if name.startswith("new_"):
        return _new(call, owner)
    if name == "as_subclass":
        return NOTHING
    if name in (
        "item",
        "tolist",
        "size",
        "dim",
        "numel",
        "stride",
        "element_size",
        "storage_offset",
        "data_ptr",
    ):
        if name == "tolist":
            return containers.made(frame, LIST, Value(containers.EACH, parts=(A_NUMBER,)), call.node)
        return A_NUMBER
    if name == "get_device":
        return device_number(owner)
    if name in ("keys", "items", "values", "get", "pop") and owner.kind is BATCH:
        return _of_batch(call, owner, name)
    if gives_number(call, name):
        return A_NUMBER
    if name in _FORMING:
        rank = RANKED if call.node.args and not _is_empty(call.node.args[0]) else ""
        return Value(TENSOR, owner.place, rank=rank, likely=owner.likely, step=owner.step, tags=owner.tags & {OF_HOST})
    facts = operator(f"torch.Tensor.{name}")
    if facts is None:
        kind = torch_knowledge().tensor_methods.get(name)
        if kind == "scalar":
            return A_NUMBER
        if kind is not None:
            rank = owner.rank if name in KEEPING else ""
            return Value(
                TENSOR, owner.place, rank=rank, likely=owner.likely, step=owner.step, tags=owner.tags & {OF_HOST}
            )
        return Value(UNKNOWN, owner.place, likely=True, step=owner.step, tags=owner.tags)
    operands = [("self", receiver_of(call), owner), *operands_of(call, facts)]
    found = apply(call, facts, operands)
    return owner if facts.result == "first" else found


def gives_number(call: Call, name: str) -> bool:
    """`out.get("size", 16)`: what stands for a number, or a text, is one."""
    match call.node.args:
        case [_, ast.Constant(value=int() | float() | str())]:
            return name in ("get", "pop")
    return False


def device_number(owner: Value) -> Value:
    """`x.get_device()`"""
    return Value(NUMBER, owner.place, tags=frozenset({DEVICE_NUMBER}), likely=owner.likely, step=owner.step)


_FORMING = frozenset(
    {"view", "reshape", "flatten", "ravel", "unsqueeze", "repeat", "expand", "expand_as", "view_as", "tile"}
)
KEEPING = ecosystem.KEEPING_DIMENSIONS | {"contiguous", "requires_grad_", "clone"}


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, (ast.Tuple, ast.List)) and not node.elts


def _taken_to(owner: Value, other: Value) -> Value:
    if other.kind in (TENSOR, BATCH, UNKNOWN):
        return Value(TENSOR, other.place, rank=owner.rank, likely=owner.likely or other.likely, step=other.step)
    return owner


def _typed(call: Call, owner: Value) -> Value:
    """`x.type(torch.cuda.FloatTensor)` moves; `x.type(dtype)` doesn't."""
    given = call.argument(0, "dtype")
    if given is None:
        return Value(TYPE_NAME, owner.place, step=owner.step)
    if given.kind is TYPE_NAME:
        return _taken_to(owner, given.but(kind=UNKNOWN))
    name = given.data if isinstance(given.data, str) else ""
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        return owner.but(place=CUDA, path=None, step=call.step("moved to cuda here", owner.step))
    if name.startswith("torch.") and name.endswith("Tensor"):
        return owner.but(place=HOST, path=None, step=call.step("moved to cpu here", owner.step))
    is_open = given.kind in (UNKNOWN, EITHER) and (given.path is None or "dtype" not in str(given.path[-1]))
    # What is called `dtype` is none where the project hands on the type of a tensor.
    if is_open or (given.kind is not REFERENCE and _is_handed_types(call.frame)):
        return Value(TENSOR, UNKNOWN_PLACE, rank=owner.rank, likely=True)
    return owner.but(path=None)


def _is_handed_types(frame: Frame) -> bool:
    source = frame.source
    return _HANDS_TYPE_ON.search(source.text) is not None or frame.reader.project_uses(source, _HANDS_TYPE_ON.pattern)


# `f(output, x.type())`, `f(dtype=x.type())`, `dtype = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor`
_HANDS_TYPE_ON = regex(r"[,=] ?[\w.\[\]]{1,60}\.type\(\)|dtype\w{0,20} ?= ?torch\.cuda\.\w{1,20}Tensor")


def _new(call: Call, owner: Value) -> Value:
    device = named_device(call)
    rank = (
        rank_made(call, f"torch.{call.node.func.attr.removeprefix('new_')}")
        if isinstance(call.node.func, ast.Attribute)
        else ""
    )
    if device is not None:
        return mapped(
            device, lambda d: Value(TENSOR, d.place, rank=rank, step=d.step, likely=d.likely), call.frame.atoms
        )
    return Value(TENSOR, owner.place, rank=rank, likely=owner.likely, step=owner.step, tags=owner.tags)


def _of_batch(call: Call, owner: Value, name: str) -> Value:
    frame = call.frame
    if name == "items":
        return containers.made(
            frame,
            LIST,
            Value(containers.EACH, parts=(Value(TUPLE, parts=(A_NUMBER, owner.but(data=None))),)),
            call.node,
        )
    if name == "keys":
        return containers.made(frame, LIST, Value(containers.EACH, parts=(A_NUMBER,)), call.node)
    if name == "values":
        return containers.made(frame, LIST, Value(containers.EACH, parts=(owner.but(data=None),)), call.node)
    return owner.but(data=None)
