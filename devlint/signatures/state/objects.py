"""Modules and other objects: their attributes, where they are, and what moving them moves."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Sequence
from typing import Any

from devlint.knowledge import torch_knowledge
from devlint.knowledge.metrics import is_metric
from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.state.frame import ANYTHING, CONTENTS, IF_MODULE, IF_OBJECT, PLACE, Frame, Key
from devlint.signatures.values.conditions import TRUE
from devlint.signatures.values.values import (
    A_NUMBER,
    ARRAY,
    BATCH,
    CLASS,
    CONSTANT,
    DEVICE,
    DEVICE_OBJECT,
    DICT,
    EITHER,
    FUNCTION,
    GATHERED,
    GENERATOR,
    HOST,
    LIST,
    LOADER,
    MAX_PATH,
    METHOD,
    MODULE,
    MODULES,
    NOTHING,
    NUMBER,
    OBJECT,
    OUTCOME,
    RANKED,
    REFERENCE,
    SUPER,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    WRAPPER,
    Parts,
    Path,
    Place,
    Step,
    Value,
    either,
    mapped,
)
from devlint.source.devices import MODULE_MOVES, SETTINGS_NAMES, is_device_name
from devlint.source.plain import is_number_name

# Where a module is of which some parts were moved: nobody knows what it computes with.
MIXED = Value(TENSOR, UNKNOWN_PLACE, tags=frozenset({"mixed"}))
# What says that a tensor moves with the module that it is an attribute of.
REGISTERED = "registered"
PARAMETER = "parameter"
# What says that a tensor is a plain attribute, which stays where it was made.
KEPT = "kept"
# What says that something unknown was computed by a module: a tensor, or something that holds tensors.
COMPUTED = frozenset({"computed"})

# Attributes of tensors that are tensors at the same place.
# The object by which a framework places things, its class as data.
FRAMEWORK = "framework"

OF_TENSORS = frozenset({"T", "H", "mT", "mH", "data", "real", "imag", "values", "indices"})
_TENSOR_PARTS = frozenset({"weight", "bias", "in_proj_weight", "running_mean", "running_var", "weight_v", "weight_g"})


def class_of(value: Value) -> ClassInfo | None:
    """The project's class that an object is of."""
    data = value.data
    return None if data is None or isinstance(data, (str, tuple, bool)) or not hasattr(data, "lineage") else data


def extended(value: Value, step: str) -> Value:
    """A part of something unknown: where it is an input, an input of its own."""
    if GATHERED in value.tags and not step.startswith((".", "['")):
        # One of several results, or an element of the only one.
        value = value.but(tags=value.tags - {GATHERED})
    if value.path is None or len(value.path) > MAX_PATH:
        return Value(UNKNOWN, value.place, likely=value.likely, step=value.step, tags=value.tags)
    path = (*value.path, step)
    own = value.place == Place("input", value.path)
    told = value.data.at(step) if isinstance(value.data, Parts) else None
    if told is not None:
        return told.but(place=Place("input", path) if own else value.place, path=path, step=value.step)
    return Value(
        UNKNOWN,
        Place("input", path) if own else value.place,
        path=path,
        likely=value.likely,
        step=value.step,
        tags=value.tags,
    )


# -- attributes --------------------------------------------------------------------------------------------------------


def attribute(frame: Frame, value: Value, name: str) -> Value:
    """What an attribute of a value is."""
    if value.kind is EITHER:
        return mapped(value, lambda option: attribute(frame, option, name), frame.atoms)
    read = _READERS.get(value.kind)
    return read(frame, value, name) if read is not None else NOTHING


def _of_reference(frame: Frame, value: Value, name: str) -> Value:
    full = f"{value.data}.{name}"
    return frame.reader.resolved(full, frame.source)


def _of_tensor(frame: Frame, value: Value, name: str) -> Value:
    if name == "device":
        return Value(DEVICE, value.place, step=value.step, likely=value.likely, tags=DEVICE_OBJECT)
    if name in OF_TENSORS and name not in ("values", "indices"):
        return value.but(path=None, tags=frozenset())
    if name == "grad":
        return value.but(path=None, tags=frozenset())
    if name in ("shape", "ndim", "dtype", "layout", "requires_grad", "is_leaf", "itemsize", "nbytes"):
        return Value(NUMBER, path=(*value.path, f".{name}") if value.path else None)
    if name == "is_cuda":
        return frame.reader.is_cuda(frame, value)
    if name == "is_cpu":
        return frame.reader.is_cuda(frame, value, negative=True)
    return Value(METHOD, data=name, parts=(value,))


def _of_batch(frame: Frame, value: Value, name: str) -> Value:
    if name == "device":
        return Value(DEVICE, value.place, likely=True)
    if name in ("dtype", "ndim", "requires_grad", "is_leaf"):
        return A_NUMBER
    if name in ("to", "cuda", "cpu", "keys", "items", "values", "get", "pop", "update", "size", "shape"):
        return Value(METHOD, data=name, parts=(value,))
    methods = torch_knowledge().tensor_methods
    if name in methods:
        return Value(METHOD, data=name, parts=(value,))
    known = frame.slot(value, f".{name}")
    if known is not None:
        return known
    if is_moved_batch(frame, value, by_name=True):
        return Value(BATCH, UNKNOWN_PLACE, likely=True)
    return value.but(data=None, path=(*value.path, f".{name}") if value.path and len(value.path) < 4 else None)


def is_moved_batch(frame: Frame, batch: Value, *, by_name: bool) -> bool:
    """Whether it isn't known where a part of a batch is: the batch was moved, and in place if it is an object with names."""
    slots = (ANYTHING, IF_OBJECT) if by_name else (ANYTHING,)
    return batch.path is not None and any(frame.get((batch.path, slot)) is not None for slot in slots)


def _of_unknown(frame: Frame, value: Value, name: str) -> Value:
    known = frame.slot(value, f".{name}")
    if known is not None:
        return known
    if name == "is_cuda":
        frame.is_tensor(value)
        return frame.reader.is_cuda(frame, value)
    if name in ("shape", "ndim", "dtype"):
        if value.path is not None:
            frame.shaped.add(value.path)
        return Value(NUMBER, path=(*value.path, f".{name}") if value.path else None)
    owner = str(value.path[-1]).strip(".[]'\"") if value.path else ""
    if is_device_name(ast.Name(name)):
        if name == "device" and owner not in SETTINGS_NAMES and value.place.sort != "unknown":
            # `x.device` is asked of tensors and modules alike.
            return Value(DEVICE, value.place, likely=True, path=(*value.path, ".device") if value.path else None)
        path = (*value.path, f".{name}") if value.path else None
        return Value(DEVICE, Place("told", path) if path else UNKNOWN_PLACE, path=path)
    moved = frame.env.get((value.path, PLACE)) if value.path is not None and _is_item(value.path) else None
    if moved is not None:
        # A batch that was moved by a statement, and so in place.
        return Value(UNKNOWN, UNKNOWN_PLACE if moved.kind is EITHER else moved.place, likely=True, step=moved.step)
    if is_moved_item(frame, value) and name not in torch_knowledge().tensor_methods:
        return Value(UNKNOWN, UNKNOWN_PLACE, likely=True)
    found = extended(value, f".{name}")
    # A setting is a number, mostly, or a name: where its owner is says nothing of it.
    return found.but(place=UNKNOWN_PLACE) if owner in SETTINGS_NAMES or is_number_name(name) else found


def is_moved_item(frame: Frame, value: Value) -> bool:
    """Whether a loop's item was moved: what it holds by name moved with it, if it is an object that moves in place."""
    return value.path is not None and _is_item(value.path) and (value.path, IF_MODULE) in frame.env


def _is_item(path: Path) -> bool:
    """Whether a path is that of what a loop goes through: `loaders["train"][]`."""
    return len(path) > 1 and path[-1] == "[]"


def _of_object(frame: Frame, value: Value, name: str) -> Value:
    known = frame.slot(value, f".{name}")
    if known is not None:
        return known
    cls = class_of(value)
    if cls is None:
        return _of_outside_module(frame, value, name) if value.kind in MODULES else extended(value, f".{name}")
    method = cls.method(name)
    if method is not None:
        if method.is_property:
            return frame.reader.property_of(frame, value, method)
        return Value(METHOD, data=method, parts=(value,))
    if name in _MODULE_METHODS and cls.is_module:
        return Value(METHOD, data=name, parts=(value,))
    if value.cell is None and value.path is not None:
        found = frame.reader.original(frame, value.path, f".{name}")
        told = frame.reader.declared(cls, name) if found.kind is UNKNOWN else None
        if told is not None and told.kind is TENSOR:
            path = (*value.path, f".{name}")
            return told.but(place=Place("input", path), path=path)
        if found is not NOTHING:
            return found
    level = cls.class_attribute(name)
    if level is not None:
        return level
    if value.kind is MODULE and cls.is_module:
        inherited = _of_outside_module(frame, value, name)
        if inherited.kind is METHOD or value.path is None:
            return inherited
    if value.path is not None:
        return _of_unknown(frame, value.but(kind=UNKNOWN), name)
    return NOTHING


def _of_outside_module(frame: Frame, value: Value, name: str) -> Value:
    if value.kind is WRAPPER and name == "module":
        return value.parts[0] if value.parts else NOTHING
    if name in _MODULE_METHODS or (isinstance(value.data, str) and is_metric(value.data)):
        return Value(METHOD, data=name, parts=(value,))
    if name in _TENSOR_PARTS and isinstance(value.data, str) and value.data.startswith("torch.nn."):
        return mapped(
            place_of(frame, value),
            lambda at: Value(TENSOR, at.place, rank=RANKED, tags=frozenset({REGISTERED}), step=at.step),
            frame.atoms,
        )
    if value.path is not None:
        return _of_unknown(frame, value.but(kind=UNKNOWN, data=None), name)
    return Value(UNKNOWN)


_MODULE_METHODS = frozenset(
    {
        *MODULE_MOVES,
        *("train", "eval", "half", "float", "double", "bfloat16", "type", "apply", "requires_grad_", "zero_grad"),
        *("parameters", "named_parameters", "buffers", "named_buffers", "modules", "children", "named_modules"),
        *("named_children", "state_dict", "load_state_dict", "register_buffer", "register_parameter", "add_module"),
        *("register_module", "forward", "append", "extend", "insert", "get_submodule", "share_memory", "items"),
        *("values", "keys", "register_forward_pre_hook", "register_forward_hook", "register_full_backward_hook"),
    }
)


def _of_class(frame: Frame, value: Value, name: str) -> Value:
    cls = class_of(value)
    if cls is None:
        return NOTHING
    method = cls.method(name)
    if method is not None:
        if method.is_static:
            return Value(FUNCTION, data=(method, None, None))
        if "classmethod" in method.decorators:
            return Value(METHOD, data=method, parts=(value,))
        return Value(FUNCTION, data=(method, None, None))
    known = frame.slot(value.but(path=("class", id(cls))), f".{name}")
    return known or cls.class_attribute(name) or NOTHING


def _of_super(frame: Frame, value: Value, name: str) -> Value:
    """`super().name`: looked up behind the class that the code stands in."""
    cls, me = value.data, value.parts[0]
    method = cls.inherited_method(name)
    if method is not None:
        return Value(METHOD, data=method, parts=(me,))
    if name in _MODULE_METHODS:
        return Value(METHOD, data=name, parts=(me,))
    return Value(METHOD, data=name, parts=(NOTHING,))


def _of_device(frame: Frame, value: Value, name: str) -> Value:
    if name == "type":
        return value.but(kind="device type", path=(*value.path, ".type") if value.path is not None else None)
    return A_NUMBER if name == "index" else NOTHING


def _bound(frame: Frame, value: Value, name: str) -> Value:
    return Value(METHOD, data=name, parts=(value,))


# A field of a named tuple, or a method of its own, is none of these.
_TUPLE_METHODS = frozenset({"count", "index", "_replace", "_asdict"})


def _of_loader(frame: Frame, value: Value, name: str) -> Value:
    if name == "dataset" and value.parts:
        dataset: Value = value.parts[0]
        return dataset
    return Value(METHOD, data=name, parts=(value,))


def _of_framework(frame: Frame, value: Value, name: str) -> Value:
    return Value(DEVICE, value.place, likely=True) if name == "device" else Value(METHOD, data=name, parts=(value,))


def _of_method(frame: Frame, value: Value, name: str) -> Value:
    return NOTHING


_READERS = {
    REFERENCE: _of_reference,
    TENSOR: _of_tensor,
    BATCH: _of_batch,
    UNKNOWN: _of_unknown,
    OBJECT: _of_object,
    MODULE: _of_object,
    WRAPPER: _of_outside_module,
    CLASS: _of_class,
    SUPER: _of_super,
    DEVICE: _of_device,
    LIST: _bound,
    TUPLE: lambda frame, value, name: _bound(frame, value, name) if name in _TUPLE_METHODS else NOTHING,
    DICT: _bound,
    CONSTANT: _bound,
    ARRAY: _bound,
    NUMBER: lambda frame, value, name: A_NUMBER,
    OUTCOME: lambda frame, value, name: NOTHING,
    LOADER: _of_loader,
    GENERATOR: _bound,
    FRAMEWORK: _of_framework,
    FUNCTION: lambda frame, value, name: NOTHING,
    METHOD: _of_method,
}


def store_attribute(frame: Frame, owner: Value, name: str, value: Value, node: ast.AST | None = None) -> None:
    """`owner.name = value`."""
    for _, option in owner.options():
        if option.kind in (MODULE, OBJECT, WRAPPER, UNKNOWN, BATCH) and option.identity is not None:
            frame.put(option, f".{name}", _attribute_of(frame, option, name, value, node))
            if option.kind is MODULE and class_of(option) is None:
                _give_part(frame, option, name, value)
        elif option.kind is CLASS and class_of(option) is not None:
            frame.env[("class", id(option.data)), f".{name}"] = value


def _give_part(frame: Frame, module: Value, name: str, value: Value) -> None:
    """Gives a library's module another parameter: from elsewhere, and nobody knows what it computes with."""
    if name not in _TENSOR_PARTS and not any(is_registered(option) for _, option in value.options()):
        return
    here = place_of(frame, module)
    if here.kind is EITHER or any(option.place != here.place for _, option in value.options()):
        frame.env[module.identity, PLACE] = MIXED


def _attribute_of(frame: Frame, owner: Value, name: str, value: Value, node: ast.AST | None) -> Value:
    return mapped(value, lambda v: _as_attribute(frame, owner, name, v, node), frame.atoms)


def _as_attribute(frame: Frame, owner: Value, name: str, value: Value, node: ast.AST | None) -> Value:
    """A tensor as an attribute: parameters are registered, others are kept as they are."""
    if value.kind is not TENSOR:
        return value
    held = frame.slot(owner, f".{name}")
    if PARAMETER in value.tags or (held is not None and REGISTERED in held.tags):
        # What is put in the place of a buffer is that buffer.
        return value.but(tags=(value.tags - {KEPT}) | {REGISTERED})
    if REGISTERED in value.tags or KEPT in value.tags:
        return value
    step, site = value.step, None
    if owner.kind is MODULE and node is not None and value.place == HOST:
        step = frame.step(f"kept in `self.{name}`, which stays there when the module moves", node, step)
        site = step.line
    return value.but(tags=value.tags | {KEPT}, step=step, data=site)


def is_registered(value: Value) -> bool:
    """Whether a module's attribute is one that moves with it: a buffer, or a parameter, whoever made it."""
    return not value.tags.isdisjoint((REGISTERED, PARAMETER))


# -- places ------------------------------------------------------------------------------------------------------------


def place_of(frame: Frame, thing: Value) -> Value:
    """Where a module is now, as a value with that place."""
    if thing.kind is EITHER:
        return mapped(thing, lambda option: place_of(frame, option), frame.atoms)
    own = frame.slot(thing, PLACE)
    if own is not None:
        return own
    if thing.cell is None and thing.path is not None:
        for length in range(len(thing.path) - 1, 0, -1):
            around = frame.get((thing.path[:length], PLACE))
            if around is not None and thing.place.sort == "input":
                return around
    if thing.kind is WRAPPER and thing.parts:
        return place_of(frame, thing.parts[0])
    return Value(TENSOR, thing.place, step=thing.step, likely=thing.likely)


def place_around(frame: Frame, made: Value, given: Sequence[Value]) -> None:
    """A new module that holds nothing but what it was given is where that is; one that holds nothing is nowhere.

    Where it holds something of its own beside what was given from elsewhere, nobody knows what computes.
    """
    cls = class_of(made)
    if cls is None:
        return
    held = [v for key, v in frame.env.items() if isinstance(key, tuple) and key[0] == made.cell and key[1] != PLACE]
    options = [o for v in held for _, o in v.options()]
    places = [p for o in options if o.kind is MODULE for _, p in place_of(frame, o).options()]
    if any(p.place.off_host or "mixed" in p.tags for p in places):
        # It moved a part of itself, on some path at least: what it computes with that part is elsewhere than the rest.
        frame.env[made.cell, PLACE] = MIXED
        return
    held_there = [o for o in options if o.kind is TENSOR and is_registered(o) and o.place != HOST]
    if held_there:
        # Parameters that are made of what it was given are where that is: so is the module, if it holds nothing else.
        alone = len({o.place for o in held_there}) == 1 and all(o in held_there for o in options if o.kind in _PLACED)
        first = held_there[0]
        place = Value(TENSOR, first.place, likely=first.likely, step=first.step)
        frame.env[made.cell, PLACE] = place if alone else Value(TENSOR)
        return
    if any(v.kind is DEVICE and v.place != HOST for v in given) and not any(o.kind in _HELD for o in options):
        # What it is told a device for is what it makes later: nothing of it is on the host.
        frame.env[made.cell, PLACE] = Value(TENSOR, UNKNOWN_PLACE, likely=True)
        return
    if set(cls.outside_bases) != {"torch.nn.Module"} or cls.may_register:
        modules = [o for v in given for _, o in v.options() if o.kind in MODULES]
        if any(place_of(frame, o).place != HOST for o in modules):
            # It may compute with that one alone.
            frame.env[made.cell, PLACE] = Value(TENSOR, UNKNOWN_PLACE)
        return
    parts = [o for o in options if o.kind in MODULES or o.kind is UNKNOWN or is_registered(o)]
    handed = [o for v in given for _, o in v.options()]
    known = {o.identity for o in handed if o.identity is not None}
    theirs = [o for o in parts if o.identity in known or o in handed]
    given_places = {place_of(frame, o) if o.kind in MODULES else NOTHING for o in theirs}
    given_places |= {place_of(frame, o) for o in handed if o.kind in MODULES}
    if len(theirs) < len(parts) and all(p.place == HOST for p in given_places):
        return
    place = next(iter(given_places)) if len(given_places) == 1 and len(theirs) == len(parts) else NOTHING
    frame.env[made.cell, PLACE] = place if place is not NOTHING else Value(TENSOR, UNKNOWN_PLACE)


# What a module is where that is.
_PLACED = (*MODULES, TENSOR, UNKNOWN)
# What may be a part of a module.
_HELD = (*MODULES, TENSOR, LIST, DICT)

# The attributes that are known of each thing that changes in place.
Slots = dict[Hashable, list[Key]]


def move(
    frame: Frame, thing: Value, place: Value, step: Step | None, depth: int = 4, slots: Slots | None = None
) -> None:
    """Moves a module, with all that is known to be part of it; `slots` are the attributes that are known in the frame."""
    for condition, option in thing.options():
        if option.kind not in MODULES and option.kind is not OBJECT:
            continue
        when = frame.atoms.both(frame.path, condition)
        if not when:
            continue
        target = mapped(place, lambda p: p.but(step=step), frame.atoms)
        if condition != TRUE:
            target = either(
                [(condition, target), (frame.atoms.negated(condition), place_of(frame, option))], frame.atoms
            )
        identity = option.identity
        if identity is None:
            continue
        frame.env[identity, PLACE] = target
        if depth:
            slots = _slots(frame) if slots is None else slots
            _move_parts(frame, option, target, step, depth, slots)


def move_along(frame: Frame, thing: Value, place: Value, step: Step | None) -> None:
    """Moves what was put into something unknown, which is moved: it is a module, likely."""
    slots = _slots(frame)
    if thing.identity in slots:
        _move_parts(frame, thing, place, step, 3, slots)


def scatter(frame: Frame, thing: Value, depth: int = 4) -> None:
    """Something was done to single parts of a module: from now on it isn't known where it is."""
    move(frame, thing, Value(TENSOR, UNKNOWN_PLACE), None, depth)


def _slots(frame: Frame) -> Slots:
    """The attributes that the scope knows of each thing that changes in place."""
    found: Slots = {}
    for key in frame.env:
        if type(key) is tuple and len(key) == 2 and str(key[1]).startswith("."):
            found.setdefault(key[0], []).append(key)
    return found


def _move_parts(frame: Frame, thing: Value, place: Value, step: Step | None, depth: int, slots: Slots) -> None:
    for part in thing.parts if thing.kind is WRAPPER else ():
        move(frame, part, place, step, depth - 1, slots)
    contents = frame.slot(thing, CONTENTS)
    for _, held in contents.options() if contents is not None else ():
        for part in held.parts:
            move(frame, part, place, step, depth - 1, slots)
    identity = thing.identity
    last = {(identity, slot): v for slot, v in thing.cell.last.items()} if thing.cell is not None else {}
    known: dict[Any, Value] = {key: frame.env.get(key, value) for key, value in last.items()}
    known |= {key: frame.env[key] for key in slots.get(identity, ())}
    cls = class_of(thing)
    for key, held in known.items():
        if not str(key[1]).startswith("."):
            continue
        if cls is not None and cls.applies(str(key[1])[1:]):
            frame.env[key] = NOTHING
            continue
        for _, option in held.options():
            if option.kind in MODULES:
                move(frame, option, place, step, depth - 1, slots)
        if any(is_registered(option) for _, option in held.options()):
            frame.env[key] = mapped(held, lambda v: _moved_part(frame, v, place, step), frame.atoms)


def _moved_part(frame: Frame, value: Value, place: Value, step: Step | None) -> Value:
    if not is_registered(value):
        return value
    return mapped(place, lambda p: value.but(place=p.place, step=step), frame.atoms)
