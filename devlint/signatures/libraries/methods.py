"""Methods of things outside the project, each by the kind of its owner; and of what is unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devlint.knowledge import ecosystem, torch_knowledge
from devlint.knowledge.operators import operator
from devlint.regexes import regex
from devlint.signatures.libraries import frameworks
from devlint.signatures.libraries.container_methods import dict_method, list_method
from devlint.signatures.libraries.devices import numbered_device
from devlint.signatures.libraries.module_methods import module_method
from devlint.signatures.libraries.moves import before_move, receiver_of, target_of
from devlint.signatures.libraries.python_calls import PLOTTING, plotted
from devlint.signatures.libraries.tensor_methods import KEEPING, TYPE_NAME, device_number, gives_number, tensor_method
from devlint.signatures.state import containers
from devlint.signatures.state.frame import IF_MODULE, PLACE, Call
from devlint.signatures.state.objects import (
    FRAMEWORK,
    move_along,
)
from devlint.signatures.values.values import (
    A_NUMBER,
    ARRAY,
    BATCH,
    CONSTANT,
    DEVICE,
    DICT,
    DISTRIBUTION,
    EITHER,
    GATHERED,
    HOST,
    LIST,
    LOADER,
    MODULE,
    MODULES,
    NOTHING,
    NUMBER,
    OBJECT,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    ZERO_DIM,
    Value,
    mapped,
    rank_of,
)
from devlint.source.devices import MOVES
from devlint.source.modules import last_name

# Methods of texts that part them.
_OF_TEXT = frozenset({"split", "rsplit", "partition", "rpartition"})


def _is_given_text(call: Call) -> bool:
    """`names.split(",")`: only text has parts between such."""
    match call.node.args:
        case [ast.Constant(value=str() | bytes()), *_]:
            return True
    return False


def call_method(call: Call, owner: Value, name: str) -> Value:
    """A call of a method that isn't the project's."""
    kind = owner.kind
    if kind is EITHER:
        return mapped(owner, lambda option: call_method(call, option, name), call.frame.atoms)
    if name in _OF_TEXT and _is_given_text(call):
        return containers.made(call.frame, LIST, Value(containers.EACH, parts=(A_NUMBER,)), call.node)
    if kind in (TENSOR, BATCH):
        return tensor_method(call, owner, name)
    if kind in MODULES or kind is OBJECT:
        return module_method(call, owner, name)
    handler = _BY_KIND.get(kind)
    return handler(call, owner, name) if handler is not None else NOTHING


# Methods by which a value of unknown kind shows that it is a tensor.
_TELLING = ecosystem.TENSOR_EVIDENCE | ecosystem.TENSOR_CALL_EVIDENCE | {"item", "numpy", "matmul", "detach", "view"}
# Methods of tensors that lists, dicts, strings and files have as well.
_ANYBODYS = frozenset({"copy", "get", "index", "count", "pop", "keys", "values", "items", "split", "join", "format", "add", "map_", "apply_",
                       "insert", "append", "extend", "clear", "register_hook", "backward", "retain_grad", "storage"})  # fmt: skip


def _unknown_method(call: Call, owner: Value, name: str) -> Value:
    """A method of something of which nothing is known: what only tensors have tells what it is."""
    frame = call.frame
    if "mixed" in owner.tags:
        # On the host, or where an input is: a sum can't tell.
        owner = owner.but(place=UNKNOWN_PLACE)
    if name in PLOTTING and _is_of_axes(call):
        return plotted(call, name)
    if name in MOVES:
        return _unknown_move(call, owner, name)
    if name == "get_device":
        # An index, whoever has it.
        return device_number(owner.but(likely=True))
    if name == "tolist":
        return containers.made(frame, LIST, Value(containers.EACH, parts=(A_NUMBER,)), call.node)
    if name == "numpy" and call.node.args:
        # Something else makes arrays of what it is given.
        return NOTHING
    if name == "type" and not call.node.args:
        return Value(TYPE_NAME, owner.place, step=owner.step)
    if (
        name == "type"
        and (typed := tensor_method(call, owner.but(kind=TENSOR, likely=True), name)).place != owner.place
    ):
        return typed
    if name in _TELLING:
        frame.is_tensor(owner)
        as_tensor = owner.but(kind=TENSOR, likely=True)
        return tensor_method(call, as_tensor, name)
    if name == "split" and any(
        o.kind in (TENSOR, BATCH, UNKNOWN) for _, v in call.everything() for _, o in v.options()
    ):
        # What splits a tensor, its sizes, says nothing of where it is, and a text is nowhere.
        return call.fresh(owner.place).but(tags=owner.tags)
    if name in torch_knowledge().tensor_methods and name not in _ANYBODYS:
        if name in ("chunk", "split", "unbind", "sort", "topk", "max", "min") and (call.node.args or call.keywords):
            return call.fresh(owner.place).but(tags=owner.tags)
        facts = operator(f"torch.Tensor.{name}")
        keeps = (facts is not None and facts.rank == "keeps") or name in KEEPING
        to_one = facts is not None and facts.rank == "zero" and not (call.node.args or call.keywords or call.open_ended)
        return _as_input(owner, rank_of(owner) if keeps else ZERO_DIM if to_one else "")
    if owner.tags >= DISTRIBUTION and name in _DRAWING:
        return Value(TENSOR, owner.place, likely=True, step=owner.step)
    if name in ("items", "values", "keys"):
        each = containers.part_of_state(owner) or containers.element(frame, owner)
        if GATHERED in owner.tags:
            # Each of several results is gathered.
            each = mapped(each, lambda v: v.but(tags=v.tags | owner.tags & {GATHERED}), frame.atoms)
        if name == "items":
            each = Value(TUPLE, parts=(A_NUMBER, each))
        elif name == "keys":
            each = A_NUMBER
        return containers.made(frame, LIST, Value(containers.EACH, parts=(each,)), call.node)
    if gives_number(call, name):
        return A_NUMBER
    if name in ("get", "pop"):
        index = call.argument(0) or NOTHING
        return containers.item(frame, owner, index, call.node.args[0] if call.node.args else call.node)
    if name == "forward":
        return frame.reader.call_value(call, owner)
    if name in ("parameters", "buffers", "named_parameters"):
        return module_method(call, owner.but(kind=MODULE, likely=True), name)
    return frame.reader.unknown_call(call)


def _is_of_axes(call: Call) -> bool:
    """Whether a method is one of Matplotlib's axes, going by their name: `ax.plot(...)`, `axes[0, 1].imshow(...)`."""
    owner = receiver_of(call)
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    return "matplotlib" in call.frame.source.imported_packages and _AXES.fullmatch(last_name(owner)) is not None


_AXES = regex(r"(?:\w{1,40}_)?ax(?:e?s|is|arr)?\d{0,2}(?:_\w{1,40})?")


# What a distribution computes, where it is.
_DRAWING = frozenset({"sample", "rsample", "log_prob", "entropy", "cdf", "icdf"})


def _as_input(owner: Value, rank: object) -> Value:
    """Something that is a tensor if an input is one, where that is."""
    return Value(
        UNKNOWN,
        owner.place,
        data=owner.path or owner.data,
        rank=rank,
        likely=owner.likely,
        step=owner.step,
        tags=owner.tags - {GATHERED},
    )


def _unknown_move(call: Call, owner: Value, name: str) -> Value:
    """A move of something that may be a tensor, or a module that moves in place."""
    frame = call.frame
    target = target_of(call, name)
    if target is None:
        return Value(
            UNKNOWN, owner.place, data=owner.path or owner.data, likely=owner.likely, step=owner.step, tags=owner.tags
        )
    before_move(call, owner, target)
    where = target.place.name if target.place.sort in ("host", "accelerator") else "a device"
    step = call.step(f"moved to {where} here", owner.step)._replace(told=target.place == HOST, left=owner.place)
    place = mapped(target, lambda d: Value(TENSOR, d.place, likely=True, step=step), frame.atoms)
    if owner.path is not None:
        # A module moves in place, and as a statement of its own it hardly is anything else.
        frame.env[owner.path, IF_MODULE] = place
        move_along(frame, owner, place, step)
        if frame.dropped is call.node:
            frame.env[owner.path, PLACE] = place
            return owner
    moved = _as_input(owner, rank_of(owner)).but(likely=True, tags=owner.tags - {"mixed"})
    if "mixed" in owner.tags:
        # That it is a tensor says nothing of the input any more.
        moved = moved.but(data=None)
    return mapped(place, lambda p: moved.but(place=p.place, step=p.step), frame.atoms)


def _constant_method(call: Call, owner: Value, name: str) -> Value:
    return (numbered_device(owner.data) if name == "format" else None) or Value(NUMBER)


def _array_method(call: Call, owner: Value, name: str) -> Value:
    if name in MOVES:
        # NumPy's functions give tensors for tensors, and those alone can be moved: `np.sqrt(x).to(device)`.
        return tensor_method(call, Value(TENSOR, HOST, likely=True), name)
    if name in ("item", "tolist", "sum", "mean", "max", "min"):
        return A_NUMBER
    return owner


def _device_method(call: Call, owner: Value, name: str) -> Value:
    return NOTHING


def _loader_method(call: Call, owner: Value, name: str) -> Value:
    return owner if name in ("__iter__",) else NOTHING


def _generator_method(call: Call, owner: Value, name: str) -> Value:
    return owner


_BY_KIND: dict[str, Callable[[Call, Value, str], Value]] = {
    LIST: list_method,
    TUPLE: list_method,
    DICT: dict_method,
    UNKNOWN: _unknown_method,
    CONSTANT: _constant_method,
    NUMBER: _constant_method,
    ARRAY: _array_method,
    DEVICE: _device_method,
    LOADER: _loader_method,
    "generator": _generator_method,
    FRAMEWORK: frameworks.method,
}
