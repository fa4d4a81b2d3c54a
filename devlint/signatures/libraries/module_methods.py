"""Methods of modules, and of objects that the project has no class for."""

from __future__ import annotations

import ast

from devlint.knowledge.metrics import is_metric
from devlint.signatures.libraries import metrics
from devlint.signatures.libraries.moves import receiver_of, target_of
from devlint.signatures.state import containers, stores
from devlint.signatures.state.frame import PLACE, Call
from devlint.signatures.state.objects import (
    MIXED,
    PARAMETER,
    REGISTERED,
    class_of,
    move,
    place_of,
    scatter,
)
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import (
    A_NUMBER,
    BUFFER,
    CONSTANT,
    EITHER,
    FUNCTION,
    LIST,
    MODULE,
    NONE,
    NOTHING,
    OBJECT,
    STATE_DICT,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    Made,
    Value,
    constant,
    mapped,
)
from devlint.source.devices import MODULE_MOVES
from devlint.source.modules import FunctionModel
from devlint.source.trees import walk


def module_method(call: Call, owner: Value, name: str) -> Value:
    frame = call.frame
    cls = class_of(owner)
    if name in MODULE_MOVES:
        if owner.kind is OBJECT and cls is not None and not cls.is_module:
            frame.displace(owner)
            return owner
        target = target_of(call, name)
        if target is not None:
            place = mapped(target, lambda d: Value(TENSOR, d.place, likely=d.likely), frame.atoms)
            where = target.place.name if target.place.sort in ("host", "accelerator") else "a device"
            before = place_of(frame, owner)
            move(frame, owner, place, call.step(f"moved to {where} here", before.step))
            _sets_apart(call, place)
        return owner
    if name in (
        "train",
        "eval",
        "half",
        "float",
        "double",
        "bfloat16",
        "type",
        "requires_grad_",
        "share_memory",
    ):
        return owner
    if name == "apply":
        given = call.argument(0, "fn")
        if given is not None and any(map(_may_move, given.options())):
            scatter(frame, owner)
            # It is called with each part, and with the whole at last.
            frame.reader.call_with(call, given, [owner])
        return owner
    if name in ("parameters", "buffers", "named_parameters", "named_buffers"):
        # They go with the module whenever that moves: where they are now tells nothing for sure of later.
        each = mapped(
            place_of(frame, owner), lambda p: containers.parameter(owner, p).but(data=owner, rank=""), frame.atoms
        )
        if name.startswith("named_"):
            each = Value(TUPLE, parts=(A_NUMBER, each))
        return containers.made(frame, LIST, Value(containers.EACH, parts=(each,)), call.node)
    if name in ("children", "modules", "named_children", "named_modules", "get_submodule"):
        # What is done to a part isn't followed back to the whole.
        scatter(frame, owner)
        return NOTHING
    if name in ("register_buffer", "register_parameter"):
        return _register(call, owner)
    if name in ("add_module", "register_module"):
        named, given = call.argument(0, "name"), call.argument(1, "module")
        if named is not None and given is not None:
            # Under a name that is put together in a loop, one for them all: it moves with the whole all the same.
            under = named.data if named.kind is CONSTANT else f"<{call.node.lineno}:{call.node.col_offset}>"
            frame.put(owner, f".{under}", given)
        return NONE
    if name in ("append", "extend", "insert"):
        stores.added(frame, owner, call.positional_values[-1:], spread=name == "extend")
        return owner
    if name in ("values", "items"):
        each = containers.element(frame, owner)
        if name == "items":
            each = Value(TUPLE, parts=(A_NUMBER, each))
        return containers.made(frame, LIST, Value(containers.EACH, parts=(each,)), call.node)
    if name == "forward":
        return frame.reader.call_value(call, owner)
    if name == "load_state_dict" and (assigned := call.keywords.get("assign")) and assigned[1] != constant(False):
        # The parts become what was loaded.
        _assign(call, owner)
        return NOTHING
    if name == "state_dict":
        site = (frame.source.path, call.node.lineno, call.node.col_offset)
        at = place_of(frame, owner)
        at = at if at.kind is not EITHER else NOTHING
        return Value(UNKNOWN, at.place, likely=at.likely, step=at.step, data=Made(STATE_DICT, site, owner))
    if isinstance(owner.data, str) and is_metric(owner.data):
        if name == "clone":
            return frame.reader.copied(frame, owner, call.node)
        return metrics.update(call, owner) if name == "update" else Value(UNKNOWN)
    if name in ("register_forward_pre_hook", "register_forward_hook"):
        # A hook may move what the module is given.
        frame.put(owner, ".__hooks__", constant(True))
        return NOTHING
    if owner.kind is MODULE and isinstance(owner.data, str):
        return frame.reader.unknown_call(call, displaces=False)
    return frame.reader.unknown_call(call)


def _may_move(option: tuple[Condition, Value]) -> bool:
    """Whether a function of the project moves something; of what is imported from elsewhere it is taken that it fills."""
    _, value = option
    function = value.data[0] if value.kind is FUNCTION and value.data else value.data
    return isinstance(function, FunctionModel) and any(
        isinstance(n, ast.Attribute) and n.attr in MODULE_MOVES for n in walk(function.node)
    )


def _assign(call: Call, owner: Value) -> None:
    """Has a module take the tensors of a state dict as they are: they are where the module is that it was taken from."""
    frame, given = call.frame, call.argument(0, "state_dict")
    made = given.data if given is not None else None
    whose = made.of if isinstance(made, Made) and made.name == STATE_DICT else None
    place = place_of(frame, whose) if whose is not None else Value(TENSOR, UNKNOWN_PLACE)
    move(frame, owner, place, call.step("given other tensors here", place_of(frame, owner).step))


def _sets_apart(call: Call, place: Value) -> None:
    """`model.head.cuda(1)`: where the model is elsewhere, nobody knows any more what it computes with."""
    receiver, frame = receiver_of(call), call.frame
    if not isinstance(receiver, ast.Attribute) or not isinstance(receiver.value, ast.Name):
        return
    for _, around in frame.reader.evaluate(frame, receiver.value).options():
        at = place_of(frame, around) if around.kind is MODULE else NOTHING
        apart = {p.place for _, p in at.options()} - {p.place for _, p in place.options()}
        if around.identity is not None and any(p.off_host or p.is_open for p in apart):
            frame.env[around.identity, PLACE] = MIXED


def _register(call: Call, owner: Value) -> Value:
    named, given = call.argument(0, "name"), call.argument(1, "tensor") or call.argument(1, "param")
    if named is None or given is None or named.kind is not CONSTANT:
        return NONE

    is_buffer = isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "register_buffer"
    tags = frozenset({REGISTERED, PARAMETER, *([BUFFER] if is_buffer else [])})

    def registered(option: Value) -> Value:
        if option.kind is TENSOR:
            return option.but(tags=tags, path=None)
        if option.kind is UNKNOWN:
            return Value(TENSOR, option.place, likely=True, tags=tags)
        return option

    call.frame.put(owner, f".{named.data}", mapped(given, registered, call.frame.atoms))
    return NONE
