"""Evaluates calls: what they return, and what they move or change on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from devlint.knowledge import canonical, ecosystem, torch_knowledge
from devlint.placement.devices import MOVES, place_of_device
from devlint.placement.environment import access_path
from devlint.placement.expressions import attribute, combined, evaluate, leaves
from devlint.placement.values import (
    EMPTY,
    HOST,
    NONE,
    NOWHERE,
    PREFERRED,
    SCALAR,
    UNKNOWN,
    Kind,
    Place,
    Sort,
    Step,
    Value,
    accelerator,
    either,
    element_of,
    join,
    mapping,
    mapping_of,
    sequence,
    sequence_of,
)

if TYPE_CHECKING:
    from devlint.placement.interpreter import Frame


@dataclass
class Call:
    """One call with its evaluated arguments."""

    frame: Frame
    node: ast.Call
    positional: list[Value]
    keywords: dict[str, Value]
    # `*args` or `**kwargs` are handed on: more may be given than is seen.
    open_ended: bool

    def argument(self, index: int, name: str = "") -> Value | None:
        """An argument by position or by keyword."""
        if name and name in self.keywords:
            return self.keywords[name]
        return self.positional[index] if 0 <= index < len(self.positional) else None

    def argument_node(self, index: int, name: str = "") -> ast.expr | None:
        for keyword in self.node.keywords:
            if keyword.arg == name and name:
                return keyword.value
        return self.node.args[index] if 0 <= index < len(self.node.args) else None

    @property
    def everything(self) -> list[Value]:
        return [*self.positional, *self.keywords.values()]

    def step(self, message: str) -> Step:
        return Step(message, self.frame.source.path, self.node.lineno, self.node.col_offset)

    @cached_property
    def text(self) -> str:
        """The call as written, shortened."""
        text = ast.unparse(self.node.func)
        return f"{text}(...)" if self.node.args or self.node.keywords else f"{text}()"

    def device(self, index: int, name: str = "device") -> tuple[Place, bool] | None:
        """The place that an argument names, where it names one."""
        value = self.argument(index, name)
        return place_of_device(value, self.argument_node(index, name)) if value is not None else None

    def computed(self, kind: Kind, *, likely: bool = False) -> Value:
        """A value computed from the arguments, where they are."""
        place, trail, unsure = combined(self.everything)
        return Value(kind, place, likely=likely or unsure, trail=trail)


def call(frame: Frame, node: ast.Call) -> Value:
    """The value of a call expression; its side effects are done to the frame's environment."""
    receiver: Value | None = None
    if isinstance(node.func, ast.Attribute):
        receiver = evaluate(frame, node.func.value)
        callee = _method_or_attribute(frame, receiver, node.func)
    else:
        callee = evaluate(frame, node.func)
    request = Call(
        frame,
        node,
        [evaluate(frame, a) for a in node.args if not isinstance(a, ast.Starred)],
        {k.arg: evaluate(frame, k.value) for k in node.keywords if k.arg is not None},
        any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords),
    )
    for extra in [
        *(a.value for a in node.args if isinstance(a, ast.Starred)),
        *(k.value for k in node.keywords if k.arg is None),
    ]:
        evaluate(frame, extra)
    if callee is not None:
        if callee.kind is not Kind.EITHER:
            return _call_value(request, callee)
        return either((g, _call_value(request, c)) for g, c in callee.alternatives())
    assert isinstance(node.func, ast.Attribute)
    assert receiver is not None
    name = node.func.attr
    if receiver.kind is not Kind.EITHER:
        return method(request, receiver, name)
    return either((g, method(request, r, name)) for g, r in receiver.alternatives())


def _method_or_attribute(frame: Frame, receiver: Value, func: ast.Attribute) -> Value | None:
    """The callee where `x.f` is a value of its own; None where `f` is a method to look up by the receiver's kind."""
    path = access_path(func)
    known = frame.env.get(path) if path else None
    if known is None:
        frame.analysis.note_attribute(frame, receiver, func)
    if known is None and receiver.kind in (Kind.REFERENCE, Kind.CLASS):
        known = attribute(frame, receiver, func)
        if known.kind is Kind.UNKNOWN and receiver.kind is Kind.CLASS:
            known = None
    elif known is None and receiver.kind in (Kind.MODULE, Kind.OBJECT):
        # A submodule or a stored callable; methods stay with `method`.
        own = frame.analysis.attribute_of(receiver, func.attr, func)
        known = (
            own
            if own.kind in (Kind.MODULE, Kind.WRAPPER, Kind.CLASS)
            or (own.kind is Kind.EITHER and any(v.is_module for _, v in own.options))
            else None
        )
    if known is not None and frame.record is not None:
        frame.record[func] = known
    return known


# -- calling a value ---------------------------------------------------------------------------------------------


def _call_value(request: Call, callee: Value) -> Value:
    analysis = request.frame.analysis
    if callee.kind is Kind.REFERENCE:
        callee = analysis.resolve(callee, request.frame.source)
    match callee.kind:
        case Kind.REFERENCE:
            return _outside(request, canonical(callee.name))
        case Kind.CLASS:
            return analysis.instantiate(request, callee)
        case Kind.FUNCTION if callee.function is not None:
            return analysis.call_function(request, callee.function, callee.inner)
        case Kind.MODULE | Kind.WRAPPER:
            return _forward(request, callee)
    return _unknown_call(request)


def _unknown_call(request: Call) -> Value:
    """Something that isn't known computes from tensors: what it gives is likely where they are."""
    place, trail, _ = combined([leaf for v in request.everything for leaf in leaves(v)])
    if place.sort in (Sort.UNKNOWN, Sort.HOST):
        return UNKNOWN
    return replace(UNKNOWN, place=place, likely=True, trail=trail)


def _forward(request: Call, module: Value) -> Value:
    """`model(x)`: through the project's own `forward` where there is one."""
    inner = module
    while inner.kind is Kind.WRAPPER and inner.inner is not None:
        inner = inner.inner
    forward = inner.cls.method("forward") if inner.cls is not None else None
    place, trail, likely = combined(request.everything)
    if module.place.sort is not Sort.UNKNOWN and not (module.place == HOST and place.sort is not Sort.HOST):
        place, trail, likely = module.place, module.trail, module.likely
    if place.off_host:
        trail = (*trail, request.step(f"computed there by `{request.text}`"))
    outside = Value(Kind.BATCH, place, likely=True, trail=trail)
    if forward is not None:
        result = request.frame.analysis.call_function(request, forward, inner)
        return either((g, _placed(v, place, trail, outside)) for g, v in result.alternatives())
    if inner.name.startswith("torch.nn.") and inner.name not in MANY_OUTPUTS:
        return Value(Kind.TENSOR, place, likely=likely, trail=trail)
    return outside


# Modules of torch.nn that return more than a tensor.
MANY_OUTPUTS = frozenset(
    {
        "torch.nn.LSTM",
        "torch.nn.GRU",
        "torch.nn.RNN",
        "torch.nn.LSTMCell",
        "torch.nn.MultiheadAttention",
        "torch.nn.Module",
    }
)


def _placed(value: Value, place: Place, trail: tuple[Step, ...], outside: Value) -> Value:
    """A forward's result, with the place of the module where its own isn't known."""
    if value.kind is Kind.UNKNOWN:
        return outside
    if value.kind is Kind.SEQUENCE and value.elements is not None:
        return sequence(_placed(e, place, trail, outside) for e in value.elements)
    if value.kind in (Kind.TENSOR, Kind.BATCH) and value.place.sort in (Sort.UNKNOWN, Sort.SAME):
        return replace(value, place=place, trail=trail)
    return value


# -- methods -----------------------------------------------------------------------------------------------------


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
            and _may_be_device(request.positional[0])
        ):
            return NOWHERE, True
        return found if found is not None else (receiver.place, receiver.likely)
    if name == "cpu":
        return HOST, False
    found = request.device(0)
    return found if found is not None else (accelerator(MOVES[name]), False)


def _may_be_device(value: Value) -> bool:
    return value.kind in (Kind.UNKNOWN, Kind.EITHER)


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
    returned = torch_knowledge().tensor_methods.get(name)
    tensor = Value(Kind.TENSOR, receiver.place, likely=receiver.likely, trail=receiver.trail)
    match returned:
        case "tensor":
            if name in ("copy_", "fill_") or receiver.place.sort not in (Sort.HOST, Sort.UNKNOWN):
                return tensor
            place, trail, likely = combined([receiver, *request.everything])
            return Value(Kind.TENSOR, place, likely=likely, trail=trail)
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
        return tensor
    return UNKNOWN


def _batch_method(request: Call, receiver: Value, name: str) -> Value:
    """A structure of tensors: a dict, a tuple, an object of a data class, or one tensor."""
    if name in MOVES:
        place, _ = moved_place(request, receiver, name)
        return receiver.at(place, request.step(f"moved to {place} by `{request.text}`"), likely=True)
    match name:
        case "items":
            return sequence_of(sequence([SCALAR, receiver]))
        case "values" | "get" | "pop" | "copy" | "pin_memory":
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
    if receiver.kind is Kind.WRAPPER:
        # The wrapper answers for itself alone: a method of the wrapped class isn't found on it.
        own = None
    else:
        own = receiver.cls.method(name) if receiver.cls is not None else None
    if own is not None:
        return analysis.call_function(request, own, receiver)
    if name in MOVES:
        place, likely = moved_place(request, receiver, name)
        step = request.step(f"moved to {place} by `{request.text}`")
        for site in _sites(receiver):
            request.frame.env.move_site(site, place, step, likely=likely)
        moved = receiver.at(place, step, likely=likely)
        func = request.node.func
        path = access_path(func.value) if isinstance(func, ast.Attribute) else None
        if path is not None and request.frame.env.get(path) is not None and not receiver.site:
            request.frame.env.values[path] = moved
        elif path is not None and "." in path and request.frame.env.get(path) is None:
            # A part of an object, `self.model.cuda()`: from here on the path holds the moved one.
            request.frame.env.values[path] = moved
        return moved
    if name in SELF_RETURNING:
        return receiver
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
                inner=receiver if receiver.kind is Kind.WRAPPER else None,
                trail=receiver.trail,
            )
        case "modules" | "children":
            return sequence_of(Value(Kind.MODULE, receiver.place, likely=True, trail=receiver.trail))
        case "named_modules" | "named_children":
            return sequence_of(
                sequence([SCALAR, Value(Kind.MODULE, receiver.place, likely=True, trail=receiver.trail)])
            )
        case "forward":
            return _forward(request, receiver)
        case "register_buffer" | "register_parameter" | "add_module" | "register_module":
            return _register(request, receiver, name)
        case "append" | "extend" | "insert":
            return receiver
    return _unknown_call(request)


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
            stored = replace(stored, kind=Kind.PARAMETER, name="buffer")
        request.frame.env.bind(f"{base}.{key.constant}", stored, request.node.lineno)
    return NONE


def _object_method(request: Call, receiver: Value, name: str) -> Value:
    own = receiver.cls.method(name) if receiver.cls is not None else None
    if own is not None:
        return request.frame.analysis.call_function(request, own, receiver)
    return _unknown_call(request)


def _class_method(request: Call, receiver: Value, name: str) -> Value:
    """`Cls.method(...)`: class and static methods, constructors by another name."""
    own = receiver.cls.method(name) if receiver.cls is not None else None
    if own is None:
        return _unknown_call(request)
    return request.frame.analysis.call_function(request, own, receiver if not own.is_static else None)


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
                request.frame.env.values[path] = sequence_of(join(element_of(receiver), added))
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
                request.frame.env.values[path] = mapping_of(join(element_of(receiver), added))
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
        return replace(UNKNOWN, place=receiver.place, likely=True, trail=receiver.trail)
    return _unknown_call(request)


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


# -- functions outside the project -------------------------------------------------------------------------------


def _outside(request: Call, name: str) -> Value:
    knowledge = torch_knowledge()
    special = OUTSIDE.get(name)
    if special is not None:
        return special(request)
    if name in knowledge.factories:
        return _factory(request, name)
    returned = knowledge.functions.get(name)
    if returned is not None:
        found = request.device(-1) if "device" in request.keywords else None
        match returned:
            case "tensor":
                result = request.computed(Kind.TENSOR)
                return result.at(found[0]) if found else result
            case "tensors":
                return sequence_of(request.computed(Kind.TENSOR))
            case "batch":
                return request.computed(
                    Kind.TENSOR if len(request.everything) == 1 or name == "torch.where" else Kind.BATCH
                )
            case "scalar":
                return SCALAR
        return UNKNOWN
    if name in knowledge.wrappers:
        return _wrap(request, name)
    if name in knowledge.modules or name.startswith(ecosystem.MODULE_FACTORIES) or _is_pretrained(name):
        return _new_module(request, name)
    if name in knowledge.optimizers:
        return Value(Kind.OPTIMIZER, name=name)
    if name in knowledge.schedulers:
        return Value(Kind.SCHEDULER, name=name)
    if name in knowledge.loaders:
        return Value(Kind.LOADER, name=name, inner=None)
    if name in ecosystem.TENSOR_TYPES or name in ("torch.nn.Parameter", "torch.autograd.Variable"):
        return _tensor_constructor(request, name)
    if name in ecosystem.PASSING_ITERATORS or name.removeprefix("builtins.") in ecosystem.PASSING_ITERATORS:
        return request.positional[0] if request.positional else UNKNOWN
    if name.startswith("numpy."):
        return SCALAR if name in ("numpy.prod", "numpy.isscalar") else Value(Kind.NDARRAY, HOST)
    if name.startswith(("torch.cuda.", "torch.distributed.", "math.", "os.", "time.", "logging.")):
        return SCALAR
    return _unknown_call(request)


def _is_pretrained(name: str) -> bool:
    return name.endswith(".from_pretrained") and name.startswith(ecosystem.PRETRAINED_PACKAGES)


def _factory(request: Call, name: str) -> Value:
    found = request.device(-1)
    if "device" in request.keywords and found is None:
        given = request.keywords["device"]
        place, likely = (HOST, False) if given.kind is Kind.CONSTANT and given.constant is None else (NOWHERE, True)
    elif found is not None:
        place, likely = found
    elif request.open_ended:
        place, likely = NOWHERE, True
    elif (
        name in ("torch.as_tensor", "torch.asarray", "torch.tensor")
        and request.positional
        and request.positional[0].kind in (Kind.TENSOR, Kind.UNKNOWN)
    ):
        return replace(request.computed(Kind.TENSOR), likely=True)
    else:
        place, likely = HOST, False
    return Value(Kind.TENSOR, place, likely=likely, trail=(request.step(f"created on {place} by `{request.text}`"),))


def _tensor_constructor(request: Call, name: str) -> Value:
    kind = Kind.PARAMETER if name == "torch.nn.Parameter" else Kind.TENSOR
    if name in ("torch.nn.Parameter", "torch.autograd.Variable") and request.positional:
        place, trail, likely = combined(request.positional[:1])
        return Value(kind, place, likely=likely, trail=trail)
    return Value(kind, HOST, trail=(request.step(f"created on cpu by `{request.text}`"),))


def _new_module(request: Call, name: str) -> Value:
    return Value(
        Kind.MODULE,
        _module_place(request),
        name=name,
        site=site_of(request),
        trail=(request.step(f"created on cpu by `{request.text}`"),),
    )


def _module_place(request: Call) -> Place:
    found = request.device(-1)
    return found[0] if found else HOST


def site_of(request: Call) -> str:
    """The identity of what a call makes: the place of the call."""
    return f"{request.frame.source.path}:{request.node.lineno}:{request.node.col_offset}"


def _container(name: str) -> Callable[[Call], Value]:
    def build(request: Call) -> Value:
        parts = request.positional
        if len(parts) == 1 and parts[0].kind is Kind.SEQUENCE and name == "torch.nn.ModuleList":
            each = parts[0].each
            known = parts[0].elements
        elif len(parts) == 1 and parts[0].kind is Kind.MAPPING:
            each, known = element_of(parts[0]), None
        else:
            each, known = None, tuple(parts) if not request.open_ended else None
        return replace(_new_module(request, name), each=each, elements=known, keys=None)

    return build


def _wrap(request: Call, name: str) -> Value:
    inner = request.argument(0, "module") or UNKNOWN
    step = request.step(f"wrapped by `{request.text}`")
    options = []
    for guards, module in inner.alternatives():
        if module.kind is Kind.UNKNOWN:
            module = replace(module, kind=Kind.MODULE, likely=True)
        wrapped = Value(Kind.WRAPPER, module.place, name=name, inner=module, site=site_of(request), trail=module.trail)
        options.append((guards, wrapped.stepped(step)))
    return either(options)


def _device(request: Call) -> Value:
    found = request.device(0, "device") or request.device(0, "type")
    if found is None:
        return Value(Kind.DEVICE, PREFERRED if request.node.args else NOWHERE, likely=True)
    place, likely = found
    index = request.argument(1, "index")
    if index is not None and isinstance(index.constant, int) and place.sort is Sort.ACCELERATOR:
        place = accelerator(f"{place.name}:{index.constant}")
    return Value(Kind.DEVICE, place, likely=likely)


def _current_accelerator(request: Call) -> Value:
    return Value(Kind.DEVICE, PREFERRED)


def _enumerate(request: Call) -> Value:
    each = request.frame.analysis.iterate(request.positional[0]) if request.positional else UNKNOWN
    return _like(request.positional[:1], sequence([SCALAR, each]))


def _zip(request: Call) -> Value:
    return _like(request.positional, sequence(request.frame.analysis.iterate(p) for p in request.positional))


def _like(iterated: list[Value], each: Value) -> Value:
    """A sequence of `each`; its name says that a loader stands behind it."""
    behind = any(v.kind is Kind.LOADER or v.name == "<over a loader>" for v in iterated)
    return replace(sequence_of(each), name="<over a loader>" if behind else "")


def _listed(request: Call) -> Value:
    if not request.positional:
        return sequence([]) if not request.keywords else UNKNOWN
    first = request.positional[0]
    if first.kind is Kind.SEQUENCE:
        return first
    return sequence_of(request.frame.analysis.iterate(first))


def _dict_call(request: Call) -> Value:
    if request.positional or request.open_ended:
        return (
            request.positional[0]
            if request.positional and request.positional[0].kind is Kind.MAPPING
            else mapping_of(UNKNOWN)
        )
    return mapping(request.keywords, request.keywords.values())


def _next(request: Call) -> Value:
    return request.frame.analysis.iterate(request.positional[0]) if request.positional else UNKNOWN


def _first(request: Call) -> Value:
    """A function that hands its first argument back."""
    return request.positional[0] if request.positional else UNKNOWN


def _getattr(request: Call) -> Value:
    subject, name = request.argument(0), request.argument(1)
    if subject is None or name is None or not isinstance(name.constant, str):
        return UNKNOWN
    node = ast.copy_location(ast.Attribute(request.node.args[0], name.constant, ast.Load()), request.node)
    results = []
    for guards, option in subject.alternatives():
        if option.kind is Kind.WRAPPER and name.constant not in torch_knowledge().wrappers[option.name]:
            continue
        if name.constant == "module" and option.kind is Kind.MODULE:
            # `getattr(model, "module", model)` on a bare model gives the default.
            default = request.argument(2)
            results.append((guards, default if default is not None and default.kind is not Kind.EITHER else option))
            continue
        results.append((guards, attribute(request.frame, option, node)))
    return either(results)


def _scalar(request: Call) -> Value:
    return SCALAR


def _array(request: Call) -> Value:
    return Value(Kind.NDARRAY, HOST)


def _collate(request: Call) -> Value:
    return Value(Kind.BATCH, HOST)


def _loaded(request: Call) -> Value:
    """`torch.load`: whatever was saved, where map_location says or where it was."""
    found = request.device(1, "map_location")
    return replace(UNKNOWN, place=found[0] if found else NOWHERE, likely=True)


def _super(request: Call) -> Value:
    frame = request.frame
    own = frame.lookup("self") if "self" in frame.env.values else UNKNOWN
    if frame.function is not None and frame.function.cls is not None and own.cls is not None:
        here = frame.analysis.class_model(frame.function.source, frame.function.cls)
        parents = [c for c in here.lineage[1:] if not isinstance(c, str)]
        if parents:
            return replace(own, cls=parents[0], name="")
        return replace(own, cls=None, name=here.lineage[-1] if isinstance(here.lineage[-1], str) else "")
    return UNKNOWN


def _loader(request: Call) -> Value:
    trail = (request.step(f"comes from `{request.text}`"),)
    return Value(Kind.LOADER, HOST, name="torch.utils.data.DataLoader", trail=trail)


def _compiled(request: Call) -> Value:
    """`torch.compile(model)` passes everything through to the model."""
    return request.argument(0, "model") or UNKNOWN


def _prepared(request: Call) -> Value:
    return UNKNOWN


_NEW_LIST = EMPTY

OUTSIDE: dict[str, Callable[[Call], Value]] = {
    "torch.device": _device,
    "torch.accelerator.current_accelerator": _current_accelerator,
    "torch.get_default_device": _current_accelerator,
    "torch.load": _loaded,
    "torch.compile": _compiled,
    "torch.jit.script": _compiled,
    "torch.nn.Sequential": _container("torch.nn.Sequential"),
    "torch.nn.ModuleList": _container("torch.nn.ModuleList"),
    "torch.nn.ModuleDict": _container("torch.nn.ModuleDict"),
    "torch.utils.data.DataLoader": _loader,
    "torch.utils.data.default_collate": _collate,
    "torch.nn.parallel.replicate": _prepared,
    "copy.deepcopy": _first,
    "copy.copy": _first,
    "typing.cast": lambda r: r.argument(1) or UNKNOWN,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.list": _listed,
    "builtins.tuple": _listed,
    "builtins.set": _listed,
    "builtins.dict": _dict_call,
    "collections.OrderedDict": _dict_call,
    "builtins.next": _next,
    "builtins.getattr": _getattr,
    "builtins.super": _super,
    "builtins.sum": lambda r: (
        element_of(r.positional[0]) if r.positional and r.positional[0].kind is Kind.SEQUENCE else _unknown_call(r)
    ),
    "builtins.range": lambda r: sequence_of(SCALAR),
    **{
        f"builtins.{n}": _scalar
        for n in (
            "len",
            "int",
            "float",
            "str",
            "bool",
            "isinstance",
            "hasattr",
            "print",
            "round",
            "repr",
            "id",
            "type",
            "format",
            "any",
            "all",
            "callable",
            "open",
            "input",
        )
    },
    "numpy.array": _array,
    "numpy.asarray": _array,
}
