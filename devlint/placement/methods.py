"""Methods: what `receiver.name(...)` gives for each kind of receiver, and what it changes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from devlint.knowledge import ecosystem, torch_knowledge
from devlint.placement.expressions import combined
from devlint.placement.frameworks import ACCELERATOR, accelerator_method
from devlint.placement.metrics import metrics_in
from devlint.placement.request import Call, forward, site_of, unknown_call
from devlint.placement.standard import resited
from devlint.placement.values import (
    BUFFER,
    HOST,
    NONE,
    NOWHERE,
    SCALAR,
    UNKNOWN,
    Place,
    Sort,
    Value,
    accelerator,
    element_of,
    inherited,
    join,
    mapping_of,
    replace,
    sequence,
    sequence_of,
)
from devlint.source.devices import MOVES
from devlint.source.kinds import Kind
from devlint.source.modules import last_name
from devlint.source.paths import access_path

if TYPE_CHECKING:
    pass


def method(request: Call, receiver: Value, name: str) -> Value:
    """`receiver.name(...)` for one kind of receiver."""
    handler = METHODS.get(receiver.kind)
    return handler(request, receiver, name) if handler is not None else _unknown_method(request, receiver, name)


def moved_place(request: Call, receiver: Value, name: str) -> tuple[Place, bool]:
    """Where a move sends its receiver; the receiver's own place when it only changes the type."""
    if name == "to":
        found = request.device(0, "device") or request.device(0, "other")
        if (
            found is None
            and request.node.args
            and request.argument(0) is not None
            and _may_be_device(request.positional[0], request.node.args[0])
        ):
            return NOWHERE, True
        return found if found is not None else (receiver.place, receiver.likely)
    if name == "cpu":
        return HOST, False
    found = request.device(0)
    return found if found is not None else (accelerator(MOVES[name]), False)


def _may_be_device(value: Value, node: ast.expr) -> bool:
    """Whether an argument of `.to` that names no place may be a device: `weight_dtype` isn't, and neither is torch.half."""
    if value.kind is Kind.EITHER:
        return not all(v.kind is Kind.REFERENCE for _, v in value.options)
    return value.kind is Kind.UNKNOWN and not last_name(node).lower().endswith("dtype")


def _names_type(value: Value, node: ast.expr) -> bool:
    """Whether an argument of `.type` may be the name of a type, which says where it is: `x.type(other.type())`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="type")) | ast.Constant():
            return True
    return _may_be_device(value, node)


def _tensor_method(request: Call, receiver: Value, name: str) -> Value:
    if name in MOVES:
        place, likely = moved_place(request, receiver, name)
        if place == receiver.place:
            return replace(receiver, kind=Kind.TENSOR)
        return replace(receiver, kind=Kind.TENSOR).at(
            place, request.step(f"moved to {place} by `{request.text}`"), likely=likely
        )
    if name.startswith("new_"):
        found = request.device(-1)
        return Value(Kind.TENSOR, found[0] if found else receiver.place, trail=receiver.trail)
    if name == "pin_memory":
        return replace(receiver, kind=Kind.TENSOR, pinned=True)
    returned = torch_knowledge().tensor_methods.get(name)
    ranked = name in ecosystem.GIVING_DIMENSIONS or (receiver.ranked and keeps_dimensions(name))
    tensor = Value(Kind.TENSOR, receiver.place, likely=receiver.likely, ranked=ranked, trail=receiver.trail)
    match returned:
        case "tensor":
            keeps_place = name in ("copy_", "fill_") or name in ecosystem.GIVING_DIMENSIONS
            if keeps_place or receiver.place.sort not in (Sort.HOST, Sort.UNKNOWN):
                return tensor
            place, trail, likely = combined([receiver, *request.everything])
            return Value(Kind.TENSOR, place, likely=likely, ranked=ranked, trail=trail)
        case "tensors":
            return sequence_of(tensor)
        case "batch":
            return (
                replace(tensor, kind=Kind.BATCH) if name in ("max", "min", "median") and request.everything else tensor
            )
        case "scalar":
            return SCALAR
        case "ndarray":
            return Value(Kind.NDARRAY, HOST)
    if name == "type":
        told, node = request.argument(0, "dtype"), request.argument_node(0, "dtype")
        if told is None or node is None:
            return SCALAR
        return replace(tensor, place=NOWHERE) if _names_type(told, node) else tensor
    return UNKNOWN


def keeps_dimensions(name: str) -> bool:
    """Whether a tensor that has a dimension has one after a method."""
    return f"torch.Tensor.{name}" in torch_knowledge().keeping_dimensions or name in ecosystem.KEEPING_DIMENSIONS


def _batch_method(request: Call, receiver: Value, name: str) -> Value:
    """A structure of tensors: a dict, a tuple, an object of a data class, or one tensor."""
    if name in MOVES:
        place, _ = moved_place(request, receiver, name)
        return receiver.at(place, request.step(f"moved to {place} by `{request.text}`"), likely=True)
    match name:
        case "items":
            return sequence_of(sequence([SCALAR, receiver]))
        case "pin_memory":
            return replace(receiver, pinned=True)
        case "values" | "get" | "pop" | "copy":
            return sequence_of(receiver) if name == "values" else receiver
        case "keys":
            return sequence_of(SCALAR)
    returned = torch_knowledge().tensor_methods.get(name)
    if returned is not None:
        return _tensor_method(request, replace(receiver, kind=Kind.TENSOR, likely=True), name)
    return replace(receiver, likely=True)


# Methods of nn.Module that change it in place and return it.
SELF_RETURNING = frozenset(
    {
        "train",
        "eval",
        "half",
        "float",
        "double",
        "bfloat16",
        "requires_grad_",
        "apply",
        "share_memory",
        "type",
        "to_empty",
    }
)


def _module_method(request: Call, receiver: Value, name: str) -> Value:
    analysis = request.frame.analysis
    # A wrapper answers for itself alone: `cls` is its own class, not that of what it wraps.
    own = receiver.cls.method(name) if receiver.cls is not None else None
    if own is not None:
        return analysis.functions.call_function(request, own, receiver)
    if name in MOVES:
        place, likely = moved_place(request, receiver, name)
        if place == receiver.place:
            return receiver
        step = request.step(f"moved to {place} by `{request.text}`")
        for site in _sites(receiver):
            request.frame.env.move_site(site, place, step, likely=likely)
        moved = receiver.at(place, step, likely=likely)
        func = request.node.func
        path = access_path(func.value) if isinstance(func, ast.Attribute) else None
        if path is not None and request.frame.env.get(path) is not None and not receiver.site:
            request.frame.env.put(path, moved)
        elif path is not None and "." in path and request.frame.env.get(path) is None:
            # A part of an object, `self.model.cuda()`: from here on the path holds the moved one.
            request.frame.env.put(path, moved)
        return moved
    if name in SELF_RETURNING:
        return receiver
    if name == "clone" and metrics_in(receiver):
        return resited(receiver, site_of(request))
    match name:
        case "parameters" | "buffers":
            return sequence_of(Value(Kind.PARAMETER, receiver.place, likely=receiver.likely, trail=receiver.trail))
        case "named_parameters" | "named_buffers":
            return sequence_of(
                sequence([SCALAR, Value(Kind.PARAMETER, receiver.place, likely=receiver.likely, trail=receiver.trail)])
            )
        case "state_dict":
            return Value(
                Kind.STATE_DICT,
                receiver.place,
                inner=receiver,
                site=site_of(request),
                trail=receiver.trail,
            )
        case "modules" | "children":
            return sequence_of(Value(Kind.MODULE, receiver.place, likely=True, trail=receiver.trail))
        case "named_modules" | "named_children":
            return sequence_of(
                sequence([SCALAR, Value(Kind.MODULE, receiver.place, likely=True, trail=receiver.trail)])
            )
        case "items" | "values" if receiver.each is not None or receiver.elements is not None:
            # Of a ModuleDict.
            held = inherited(receiver, element_of(receiver))
            return sequence_of(sequence([SCALAR, held]) if name == "items" else held)
        case "forward":
            return forward(request, receiver)
        case "register_buffer" | "register_parameter" | "add_module" | "register_module":
            return _register(request, receiver, name)
        case "append" | "extend" | "insert":
            return receiver
    return unknown_call(request)


def _sites(value: Value) -> list[str]:
    sites = [value.site] if value.site else []
    return sites + (_sites(value.inner) if value.inner is not None else [])


def _register(request: Call, receiver: Value, name: str) -> Value:
    """`self.register_buffer("x", t)` sets `self.x`, and what it sets moves with the module."""
    func = request.node.func
    key = request.argument(0, "name")
    stored = request.argument(1, {"register_buffer": "tensor", "register_parameter": "param"}.get(name, "module"))
    base = access_path(func.value) if isinstance(func, ast.Attribute) else None
    if base and key is not None and isinstance(key.constant, str) and stored is not None:
        if name == "register_buffer" and stored.kind in (Kind.TENSOR, Kind.UNKNOWN):
            stored = replace(stored, kind=Kind.PARAMETER, name=BUFFER)
        request.frame.env.bind(f"{base}.{key.constant}", stored, request.node.lineno)
    return NONE


def _object_method(request: Call, receiver: Value, name: str) -> Value:
    own = receiver.cls.method(name) if receiver.cls is not None else None
    if own is not None:
        return request.frame.analysis.functions.call_function(request, own, receiver)
    if receiver.name == "torch.Generator" and name == "manual_seed":
        return receiver
    if name == "to" and metrics_in(receiver):
        return receiver
    if receiver.name == ACCELERATOR and (result := accelerator_method(request, name)) is not None:
        return result
    return unknown_call(request)


def _class_method(request: Call, receiver: Value, name: str) -> Value:
    """`Cls.method(...)`: class and static methods, constructors by another name."""
    own = receiver.cls.method(name) if receiver.cls is not None else None
    if own is None:
        return unknown_call(request)
    return request.frame.analysis.functions.call_function(request, own, receiver if not own.is_static else None)


def _sequence_method(request: Call, receiver: Value, name: str) -> Value:
    func = request.node.func
    path = access_path(func.value) if isinstance(func, ast.Attribute) else None
    given = request.argument(0)
    match name:
        case "append" | "extend" | "insert" | "add" | "appendleft":
            if name == "insert":
                given = request.argument(1)
            if given is not None and path is not None:
                added = request.frame.analysis.iterate(given) if name == "extend" else given
                request.frame.env.put(path, sequence_of(join(element_of(receiver), added)))
            return NONE
        case "pop" | "popleft":
            return element_of(receiver)
        case "copy" | "__iter__":
            return receiver
        case "index" | "count":
            return SCALAR
    return UNKNOWN


def _mapping_method(request: Call, receiver: Value, name: str) -> Value:
    func = request.node.func
    path = access_path(func.value) if isinstance(func, ast.Attribute) else None
    match name:
        case "items":
            return sequence_of(sequence([SCALAR, element_of(receiver)]))
        case "values":
            return sequence_of(element_of(receiver))
        case "keys":
            return sequence_of(SCALAR)
        case "get" | "pop" | "setdefault":
            key = request.argument(0)
            if (
                receiver.keys is not None
                and receiver.elements is not None
                and key is not None
                and key.constant in receiver.keys
            ):
                return receiver.elements[receiver.keys.index(str(key.constant))]
            return element_of(receiver) if receiver.each is not None else UNKNOWN
        case "copy":
            return receiver
        case "update":
            given = request.argument(0)
            if path is not None:
                added = element_of(given) if given is not None and given.kind is Kind.MAPPING else UNKNOWN
                request.frame.env.put(path, mapping_of(join(element_of(receiver), added)))
            return NONE
    return UNKNOWN


def _array_method(request: Call, receiver: Value, name: str) -> Value:
    return SCALAR if name in ("item", "tolist", "any", "all") else receiver


def _scalar_method(request: Call, receiver: Value, name: str) -> Value:
    return SCALAR


def _unknown_method(request: Call, receiver: Value, name: str) -> Value:
    """The receiver's kind isn't known: a move still says where the result is, a tensor's own method what it is."""
    if name in MOVES and name != "to":
        place, _ = moved_place(request, receiver, name)
        return replace(
            UNKNOWN, place=place, likely=True, trail=(request.step(f"moved to {place} by `{request.text}`"),)
        )
    if name == "to":
        found = request.device(0)
        if found is not None:
            return replace(
                UNKNOWN, place=found[0], likely=True, trail=(request.step(f"moved to {found[0]} by `{request.text}`"),)
            )
        return receiver
    if name in ecosystem.TENSOR_EVIDENCE:
        return _tensor_method(request, Value(Kind.TENSOR, receiver.place, likely=True, trail=receiver.trail), name)
    if name in ("item", "tolist"):
        return SCALAR
    if name == "numpy":
        return Value(Kind.NDARRAY, HOST)
    if name in ("parameters",):
        return sequence_of(Value(Kind.PARAMETER, receiver.place, likely=True))
    if receiver.kind is Kind.UNKNOWN and receiver.place.sort is not Sort.UNKNOWN:
        if torch_knowledge().tensor_methods.get(name) == "tensor" and name not in _SHARED_NAMES:
            # Computed from tensors, and asked for what tensors can do.
            return _tensor_method(request, replace(receiver, kind=Kind.TENSOR, likely=True), name)
        return replace(UNKNOWN, place=receiver.place, likely=True, trail=receiver.trail)
    return unknown_call(request)


# Methods of tensors that other objects have too.
_SHARED_NAMES = frozenset(
    {"apply_", "map_", "index", "size", "type", "set_", "copy_", "data", "sort", "split", "item", "dim", "get_device"}
    | {"float", "double", "half", "bfloat16", "requires_grad_", "share_memory_", "apply", "zero_", "to", "add", "pop"}
)


def _device_method(request: Call, receiver: Value, name: str) -> Value:
    return SCALAR


METHODS: dict[Kind, Callable[[Call, Value, str], Value]] = {
    Kind.TENSOR: _tensor_method,
    Kind.PARAMETER: _tensor_method,
    Kind.BATCH: _batch_method,
    Kind.MODULE: _module_method,
    Kind.WRAPPER: _module_method,
    Kind.OBJECT: _object_method,
    Kind.CLASS: _class_method,
    Kind.SEQUENCE: _sequence_method,
    Kind.MAPPING: _mapping_method,
    Kind.NDARRAY: _array_method,
    Kind.SCALAR: _scalar_method,
    Kind.CONSTANT: _scalar_method,
    Kind.DEVICE: _device_method,
}
