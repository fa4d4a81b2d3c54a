"""Methods of things outside the project: of tensors, modules, containers, loaders, and of what is unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devlint.knowledge import ecosystem, torch_knowledge
from devlint.knowledge.metrics import is_metric
from devlint.knowledge.operators import operator
from devlint.regexes import regex
from devlint.signatures.libraries import frameworks, metrics
from devlint.signatures.libraries.devices import CUDA, device_from, named_device, numbered_device
from devlint.signatures.libraries.operations import apply, operands_of
from devlint.signatures.libraries.python_calls import PLOTTING, plotted
from devlint.signatures.libraries.torch_calls import rank_made
from devlint.signatures.state import containers
from devlint.signatures.state.frame import ANYTHING, CONTENTS, IF_MODULE, PLACE, Call, Frame
from devlint.signatures.state.objects import (
    FRAMEWORK,
    MIXED,
    PARAMETER,
    REGISTERED,
    class_of,
    move,
    move_along,
    place_of,
    scatter,
)
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import (
    A_NUMBER,
    ARRAY,
    BATCH,
    BUFFER,
    CONSTANT,
    DEVICE,
    DEVICE_NUMBER,
    DICT,
    DISTRIBUTION,
    EITHER,
    FUNCTION,
    GATHERED,
    HOST,
    LIST,
    LOADER,
    MODULE,
    MODULES,
    NONE,
    NOTHING,
    NUMBER,
    OBJECT,
    RANKED,
    REFERENCE,
    STATE_DICT,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    ZERO_DIM,
    Made,
    Place,
    Value,
    constant,
    mapped,
    rank_of,
)
from devlint.source.devices import MODULE_MOVES, MOVES, TARGETS
from devlint.source.modules import FunctionModel, last_name
from devlint.source.trees import walk

# Methods by which a value of unknown kind shows that it is a tensor.
_TELLING = ecosystem.TENSOR_EVIDENCE | ecosystem.TENSOR_CALL_EVIDENCE | {"item", "numpy", "matmul", "detach", "view"}


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
        return _module_method(call, owner, name)
    handler = _BY_KIND.get(kind)
    return handler(call, owner, name) if handler is not None else NOTHING


# What `x.type()` gives: the name of a type, which says where x is.
TYPE_NAME = "type name"


# -- tensors -----------------------------------------------------------------------------------------------------------


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
            frame.need("host", call.node, ".numpy()", (_receiver(call), owner))
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
        return _device_number(owner)
    if name in ("keys", "items", "values", "get", "pop") and owner.kind is BATCH:
        return _of_batch(call, owner, name)
    if name in _FORMING:
        rank = RANKED if call.node.args and not _is_empty(call.node.args[0]) else ""
        return Value(TENSOR, owner.place, rank=rank, likely=owner.likely, step=owner.step)
    facts = operator(f"torch.Tensor.{name}")
    if facts is None:
        kind = torch_knowledge().tensor_methods.get(name)
        if kind == "scalar":
            return A_NUMBER
        if kind is not None:
            rank = owner.rank if name in _KEEPING else ""
            return Value(TENSOR, owner.place, rank=rank, likely=owner.likely, step=owner.step)
        return Value(UNKNOWN, owner.place, likely=True, step=owner.step, tags=owner.tags)
    operands = [("self", _receiver(call), owner), *operands_of(call, facts)]
    found = apply(call, facts, operands)
    return owner if facts.result == "first" else found


def _device_number(owner: Value) -> Value:
    """`x.get_device()`"""
    return Value(NUMBER, owner.place, tags=frozenset({DEVICE_NUMBER}), likely=owner.likely, step=owner.step)


_FORMING = frozenset(
    {"view", "reshape", "flatten", "ravel", "unsqueeze", "repeat", "expand", "expand_as", "view_as", "tile"}
)
_KEEPING = ecosystem.KEEPING_DIMENSIONS | {"contiguous", "requires_grad_", "clone"}


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, (ast.Tuple, ast.List)) and not node.elts


def _receiver(call: Call) -> ast.expr:
    return call.node.func.value if isinstance(call.node.func, ast.Attribute) else call.node.func


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


# `f(output, x.type())`, `f(dtype=x.type())`
_HANDS_TYPE_ON = regex(r"[,=] ?[\w.\[\]]{1,60}\.type\(\)")


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


# -- moves -------------------------------------------------------------------------------------------------------------


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
        if value.kind in (UNKNOWN, EITHER) or (value.kind is REFERENCE and not str(value.data).startswith("torch.")):
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

    _before_move(call, owner, target)

    def at(device: Value) -> Value:
        place = device.place
        where = place.name if place.sort in ("host", "accelerator") else "there"
        step = call.step(f"moved to {where} here" if where != "there" else f"moved here by `{call.text}`", owner.step)
        step = step._replace(told=place == HOST, left=owner.place)
        likely = device.likely or (owner.likely and owner.kind is not TENSOR)
        kind = owner.kind if owner.kind is BATCH else TENSOR
        if kind is BATCH and owner.data == "item" and frame_drops(call) and owner.path is not None:
            # As a statement of its own it moves a batch of some class in place.
            call.frame.env[owner.path, ANYTHING] = Value(UNKNOWN)
        return Value(kind, place, rank=owner.rank, likely=likely, step=step, data=owner.data if kind is BATCH else None)

    return mapped(target, at, call.frame.atoms)


def _before_move(call: Call, owner: Value, target: Value) -> None:
    """What a move says of what is moved: it comes from elsewhere; so does `table`, of which the index is there already."""
    if owner.path is not None and not any(option.place == HOST for _, option in target.options()):
        call.frame.moved.add(owner.path[0])
    receiver = _receiver(call)
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


# -- modules and objects -----------------------------------------------------------------------------------------------


def _module_method(call: Call, owner: Value, name: str) -> Value:
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
        containers.added(frame, owner, call.positional_values[-1:], spread=name == "extend")
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
    receiver, frame = _receiver(call), call.frame
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


# -- containers, loaders, others ---------------------------------------------------------------------------------------


def _list_method(call: Call, owner: Value, name: str) -> Value:
    frame = call.frame
    if name in ("append", "add", "insert", "appendleft"):
        containers.added(frame, owner, call.positional_values[-1:])
        return NONE
    if name in ("extend", "update"):
        containers.added(frame, owner, call.positional_values[:1], spread=True)
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
    if name == "clear" and owner.identity is not None:
        frame.env[owner.identity, CONTENTS] = Value(TUPLE)
    if name in ("reverse", "sort", "remove") and owner.identity is not None:
        contents = containers.contents_of(frame, owner)
        if contents is not None and contents.kind is TUPLE:
            frame.env[owner.identity, CONTENTS] = containers.each_of(contents.parts, frame)
    return NONE


def _dict_method(call: Call, owner: Value, name: str) -> Value:
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
    return NONE


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
        return _device_number(owner.but(likely=True))
    if name == "tolist":
        return containers.made(frame, LIST, Value(containers.EACH, parts=(A_NUMBER,)), call.node)
    if name == "numpy" and call.node.args:
        # Something else makes arrays of what it is given.
        return NOTHING
    if name == "type" and not call.node.args:
        return Value(TYPE_NAME, owner.place, step=owner.step)
    if name in _TELLING:
        frame.is_tensor(owner)
        as_tensor = owner.but(kind=TENSOR, likely=True)
        return tensor_method(call, as_tensor, name)
    if name in torch_knowledge().tensor_methods and name not in _ANYBODYS:
        if name in ("chunk", "split", "unbind", "sort", "topk", "max", "min") and (call.node.args or call.keywords):
            return call.fresh(owner.place).but(tags=owner.tags)
        facts = operator(f"torch.Tensor.{name}")
        keeps = (facts is not None and facts.rank == "keeps") or name in _KEEPING
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
    if name in ("get", "pop"):
        index = call.argument(0) or NOTHING
        return containers.item(frame, owner, index, call.node.args[0] if call.node.args else call.node)
    if name == "forward":
        return frame.reader.call_value(call, owner)
    if name in ("parameters", "buffers", "named_parameters"):
        return _module_method(call, owner.but(kind=MODULE, likely=True), name)
    return frame.reader.unknown_call(call)


def _is_of_axes(call: Call) -> bool:
    """Whether a method is one of Matplotlib's axes, going by their name: `ax.plot(...)`, `axes[0, 1].imshow(...)`."""
    owner = _receiver(call)
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
    _before_move(call, owner, target)
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
    LIST: _list_method,
    TUPLE: _list_method,
    DICT: _dict_method,
    UNKNOWN: _unknown_method,
    CONSTANT: _constant_method,
    NUMBER: _constant_method,
    ARRAY: _array_method,
    DEVICE: _device_method,
    LOADER: _loader_method,
    "generator": _generator_method,
    FRAMEWORK: frameworks.method,
}
