"""Functions and classes of torch that make tensors: what they make, and where."""

from __future__ import annotations

import ast
from typing import Any

from devlint.regexes import regex
from devlint.signatures.libraries.devices import named_device
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Call
from devlint.signatures.state.objects import KEPT, PARAMETER, REGISTERED
from devlint.signatures.values.values import (
    ARRAY,
    BATCH,
    BUFFER,
    CONSTANT,
    EMPTY,
    HOST,
    LIST,
    NOTHING,
    NUMBER,
    OF_HOST,
    RANKED,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    ZERO_DIM,
    Place,
    Value,
    mapped,
)
from devlint.source.modules import last_name

# What says that something is a tensor for sure, though of what isn't known.
MADE_OF_DATA = "made of data"


def factory(call: Call, name: str) -> Value:
    """A new tensor: where `device=` says, on the host if it says nothing."""
    rank = rank_made(call, name)
    device = named_device(call)
    out = call.keywords.get("out")
    if out is not None:
        return out[1]
    drawn = (call.pair(0, "mean"), call.pair(1, "std")) if name == "torch.normal" else ()
    given = [pair for pair in drawn if pair is not None and pair[1].kind not in (NUMBER, CONSTANT)]
    if given:
        call.frame.need("operation", call.node, name, *given)
        together = call.frame.reader.together(call.frame, call.node, *[value for _, value in given])
        return mapped(together, lambda v: result_of(v, ""), call.frame.atoms)
    if device is None and (call.open_ended and (not call.node.args or _has_double_star(call))):
        return Value(TENSOR, UNKNOWN_PLACE, likely=True, rank=rank)
    if device is None and name in _TAKING_DATA:
        return _from_data(call, rank, name)
    if device is None:
        place = call.frame.default_place
        if place.sort == "unknown":
            return Value(TENSOR, UNKNOWN_PLACE, likely=True, rank=rank)
        return Value(TENSOR, place, rank=rank, step=call.step(f"created on {place.name or 'cpu'} by `{call.text}`"))
    return mapped(device, lambda d: made_at(call, d, rank), call.frame.atoms)


def _has_double_star(call: Call) -> bool:
    return any(k.arg is None for k in call.node.keywords)


def made_at(call: Call, device: Value, rank: Any) -> Value:
    if device.kind is CONSTANT and call.frame.default_place != HOST:
        return Value(TENSOR, UNKNOWN_PLACE, likely=True, rank=rank)
    if device.kind is CONSTANT:
        return Value(TENSOR, HOST, rank=rank, step=call.step(f"created on cpu by `{call.text}`"))
    step = call.step(f"created there by `{call.text}`", device.step)
    if device.place.sort in ("host", "accelerator"):
        step = call.step(f"created on {device.place.name} by `{call.text}`")._replace(told=True)
    return Value(TENSOR, device.place, rank=rank, step=step, likely=device.likely)


_TAKING_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})


def _from_data(call: Call, rank: Any, name: str) -> Value:
    """`torch.tensor(data)`: where the data is, if that is a tensor."""
    data = call.argument(0, "data") or NOTHING

    def plain(option: Value) -> Value:
        if option.kind in (TENSOR, BATCH):
            return Value(TENSOR, option.place, rank=option.rank, step=option.step, likely=option.likely)
        if option.kind is UNKNOWN:
            # Of a tensor it stays where that is; but what `torch.tensor` is given hardly is one, nor is a setting of an object.
            is_setting = option.path is not None and len(option.path) > 1 and str(option.path[-1]).startswith(".")
            return Value(
                UNKNOWN,
                UNKNOWN_PLACE if is_setting or name == "torch.tensor" else option.place,
                data=option.path or option.data,
                likely=True,
                tags=option.tags | {MADE_OF_DATA},
            )
        found = rank
        if option.kind in (NUMBER, CONSTANT) and not isinstance(option.data, str):
            found = ZERO_DIM if option.kind is CONSTANT else ""
        return Value(
            TENSOR, HOST, rank=found, likely=option.kind not in (CONSTANT, NUMBER, LIST, TUPLE, ARRAY),
            step=call.step(f"created on cpu by `{call.text}`"),
        )  # fmt: skip

    return mapped(data, plain, call.frame.atoms)


# Factories whose result has a dimension whatever they are given.
_ALWAYS_RANKED = regex(
    r"torch\.(arange|range|linspace|logspace|eye|randperm|\w+_window|tr\w+_indices|from_numpy|frombuffer|sparse\w*)"
)
_SIZED = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn", "torch.full"})


def rank_made(call: Call, name: str) -> str:
    """Whether a factory's result surely has a dimension, or none."""
    if _ALWAYS_RANKED.fullmatch(name):
        return RANKED
    sizes = call.node.args
    if name == "torch.full":
        sizes = sizes[:1]
    elif name == "torch.randint":
        sizes = [a for a in sizes if isinstance(a, (ast.Tuple, ast.List))] or sizes[-1:]
    elif name == "torch.normal":
        sizes = sizes[2:3]
    named = call.keywords.get("size")
    if named is not None:
        sizes = [named[0]]
    if name in _TAKING_DATA:
        first = call.argument(0, "data")
        if first is not None and first.kind in (LIST, TUPLE):
            contents = containers.contents_of(call.frame, first)
            return RANKED if contents is not None and (contents.kind != TUPLE or contents.parts) else EMPTY
        return ZERO_DIM if first is not None and first.kind is CONSTANT else ""
    if not sizes:
        return ""
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        parts = sizes[0].elts
        if not parts:
            return ZERO_DIM
        return EMPTY if any(_is_zero(p) for p in parts) else RANKED
    if name in _SIZED or name == "torch.randint":
        if any(_is_zero(s) for s in sizes):
            # It stands for nothing, and whatever takes it may leave it aside.
            return EMPTY
        # `torch.zeros(loss.shape)`: most losses are single numbers.
        lone = sizes[0] if len(sizes) == 1 else None
        return "" if lone is not None and (_is_shape_of_loss(lone) or _is_empty_by_default(call, lone)) else RANKED
    return ""


def _is_empty_by_default(call: Call, size: ast.expr) -> bool:
    """Whether a size is a parameter that is `()` where nobody gives another."""
    function = call.frame.function
    if function is None or not isinstance(size, ast.Name):
        return False
    default = function.defaults.get(size.id)
    return isinstance(default, ast.Tuple) and not default.elts


def _is_shape_of_loss(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=owner, attr="shape") | ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[]):
            return _LOSS.fullmatch(last_name(owner)) is not None
    return False


_LOSS = regex(r"(?:\w{1,60}_)?loss(?:_\w{1,60})?")


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def legacy(call: Call, place: Place, *, keeps: bool) -> Value:
    """`torch.FloatTensor(...)`, `torch.cuda.FloatTensor(...)`; `torch.Tensor(t)` keeps a tensor where it is, the others refuse one from elsewhere."""
    if "device" in call.keywords:
        # It takes none but its own: that is another rule's finding, and there is no tensor then.
        return Value(TENSOR, UNKNOWN_PLACE, likely=True, rank=RANKED)
    step = call.step(f"created on {place.name} by `{call.text}`")
    rank = RANKED
    if call.node.args and isinstance(call.node.args[0], ast.List) and not call.node.args[0].elts:
        rank = ""
    if call.given and keeps and call.given[0][1].kind is TENSOR:
        first = call.given[0][1]
        return Value(TENSOR, first.place, rank=first.rank, likely=True, step=first.step)
    if place == HOST and call.frame.default_place != HOST:
        # `set_default_tensor_type` is for these as well.
        return Value(TENSOR, UNKNOWN_PLACE, likely=True, rank=rank)
    return Value(TENSOR, place, rank=rank, step=step)


def variable(call: Call) -> Value:
    """`Variable(t)` is the tensor itself; `nn.Parameter(t)` one that modules register."""
    return call.argument(0, "data") or NOTHING


def parameter(call: Call) -> Value:
    given = call.argument(0, "data")
    if given is None:
        return Value(TENSOR, HOST, tags=frozenset({PARAMETER}), step=call.step("created on cpu by `Parameter`"))

    def registered(option: Value) -> Value:
        if option.kind is TENSOR:
            return option.but(tags=(option.tags - {KEPT}) | {PARAMETER}, path=None)
        return Value(TENSOR, option.place, tags=frozenset({PARAMETER}), likely=True, step=option.step)

    return mapped(given, registered, call.frame.atoms)


def buffer(call: Call) -> Value:
    given = call.argument(0, "data") or NOTHING
    return mapped(given, lambda v: v.but(tags=v.tags | {REGISTERED, PARAMETER, BUFFER}), call.frame.atoms)


def result_of(value: Value, rank: Any) -> Value:
    if value.kind is TENSOR:
        return value.but(rank=rank, path=None, tags=value.tags & {OF_HOST}, data=None)
    if "mixed" in value.tags:
        return Value(TENSOR, UNKNOWN_PLACE, rank=rank)
    if value.kind is UNKNOWN:
        # What functions of torch give are tensors, where what they were given is.
        return Value(TENSOR, value.place, likely=True, rank=rank, step=value.step)
    if value.kind is BATCH:
        return Value(TENSOR, value.place, likely=True, rank=rank, step=value.step)
    return Value(TENSOR, UNKNOWN_PLACE, rank=rank)
