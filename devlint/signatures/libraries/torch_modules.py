"""Modules of torch: making them, and what calling them asks and gives."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devlint.knowledge import torch_knowledge
from devlint.knowledge.metrics import is_metric
from devlint.knowledge.operators import module as module_facts
from devlint.signatures.libraries import metrics
from devlint.signatures.libraries.devices import device_from, named_device
from devlint.signatures.libraries.operations import note, operands_of
from devlint.signatures.state import containers
from devlint.signatures.state.frame import CONTENTS, PLACE, Call, Frame
from devlint.signatures.state.objects import COMPUTED, PARAMETER, REGISTERED, class_of, move, place_of
from devlint.signatures.values.values import (
    BATCH,
    CONSTANT,
    DICT,
    EITHER,
    GATHERED,
    HOST,
    LIST,
    MODULE,
    NONE,
    NOTHING,
    RANKED,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    WRAPPER,
    Value,
    mapped,
    rank_of,
)

_CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})
_WEIGHTED_FIRST = frozenset(
    {"torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss", "torch.nn.BCELoss", "torch.nn.BCEWithLogitsLoss"}
)
# Losses whose weight may be a number on the host, as a tensor without dimensions is (seen under FakeTensorMode, 2.13; BCELoss refuses it).
_TAKING_NUMBERS = frozenset({"torch.nn.BCEWithLogitsLoss", "torch.nn.MultiLabelSoftMarginLoss"})
_RECURRENT = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})
_PAIRED = frozenset({"torch.nn.MultiheadAttention", "torch.nn.LSTMCell"})
# A mask, what says that it is the causal one, and the other mask without which it isn't read then, but made where it is wanted.
_CAUSAL = {
    "torch.nn.TransformerEncoder": ("mask", "is_causal", "src_key_padding_mask"),
    "torch.nn.TransformerEncoderLayer": ("src_mask", "is_causal", "src_key_padding_mask"),
    "torch.nn.TransformerDecoder": ("tgt_mask", "tgt_is_causal", "tgt_key_padding_mask"),
    "torch.nn.TransformerDecoderLayer": ("tgt_mask", "tgt_is_causal", "tgt_key_padding_mask"),
}
# These look whether the mask is the causal one where nothing is said.
_LOOKING = frozenset({"torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"})


def is_loss(name: str) -> bool:
    """Whether a module of torch, or of a library, is a loss: those compute where their inputs are."""
    return name.endswith("Loss")


def new_module(call: Call, name: str) -> Value:
    """A module of torch, or of a library: on the host unless it is told a device."""
    frame = call.frame
    cell = frame.new_cell(call.node)
    value = Value(MODULE, data=name, cell=cell)
    step = call.step(f"created on cpu by `{call.text}`")._replace(of_module=True)
    device = named_device(call)
    place = Value(TENSOR, frame.default_place, step=step)
    if device is not None:
        place = mapped(
            device,
            lambda d: Value(TENSOR, d.place if d.kind is not CONSTANT else HOST, step=d.step, likely=d.likely),
            frame.atoms,
        )
    elif "device_map" in call.keywords or any(k.arg is None for k in call.node.keywords):
        place = Value(TENSOR, UNKNOWN_PLACE)
    if name in _CONTAINERS:
        frame.env[cell, CONTENTS] = _contents(call)
        place = Value(TENSOR, UNKNOWN_PLACE) if not has_state(frame, value) else _place_of_parts(frame, value)
    elif is_loss(name):
        weight = call.argument(0 if name in _WEIGHTED_FIRST else -1, "weight")
        for slot, given in ((".weight", weight), (".pos_weight", call.argument(-1, "pos_weight"))):
            if given is not None and given.kind not in (CONSTANT,):
                frame.env[cell, slot] = mapped(
                    given, lambda v: v.but(tags=v.tags | {REGISTERED, PARAMETER}), frame.atoms
                )
    frame.env[cell, PLACE] = place
    return value


def _contents(call: Call) -> Value:
    given = call.positional_values
    if len(given) == 1 and given[0].kind in (LIST, TUPLE, DICT):
        found = containers.contents_of(call.frame, given[0])
        return found if found is not None else Value(containers.EACH, parts=(NOTHING,))
    if call.open_ended:
        return Value(containers.EACH, parts=(NOTHING,))
    return containers.sequence(given, call.frame)


def _place_by_weight(name: str, weight: Value) -> Value:
    """A loss that is where its weight is; one without dimensions, or of which nobody knows that it has some, meets what is elsewhere."""
    is_number = name in _TAKING_NUMBERS and weight.place == HOST and rank_of(weight) != RANKED
    place = UNKNOWN_PLACE if is_number else weight.place
    return Value(MODULE, place, data=name, step=weight.step, likely=weight.likely)


def _place_of_parts(frame: Frame, value: Value) -> Value:
    """Where the parts of a container are, where they are at one place."""
    contents = frame.slot(value, CONTENTS)
    if contents is None:
        return place_of(frame, value)
    parts = [p for p in contents.parts if isinstance(p, Value) and p.kind is not EITHER and has_state(frame, p)]
    found = {place_of(frame, p) for p in parts}
    if len({f.place for f in found}) == 1 and all(f.kind is not EITHER for f in found):
        return next(iter(found))
    return Value(TENSOR, UNKNOWN_PLACE)


def has_state(frame: Frame, module: Value) -> bool:
    """Whether a module of torch surely has parameters or buffers that its inputs meet."""
    name = module.data
    if not isinstance(name, str):
        return False
    if name in _CONTAINERS:
        contents = containers.contents_of(frame, module)
        parts = contents.parts if contents is not None and contents.kind != EITHER else ()
        return any(isinstance(p, Value) and p.kind is MODULE and _computes(frame, p) for p in parts)
    if name.startswith("torch.nn."):
        knowledge = torch_knowledge()
        return name in knowledge.modules and name not in knowledge.stateless and not is_loss(name)
    return name != "torch.nn.Module" and not is_loss(name)


def holds_nothing(module: Value) -> bool:
    """Whether a module of torch has nothing of its own, so that it computes where its inputs are."""
    name = module.data
    return isinstance(name, str) and (name in torch_knowledge().stateless or is_loss(name))


def _computes(frame: Frame, part: Value) -> bool:
    if isinstance(part.data, str):
        return has_state(frame, part)
    return frame.reader.holds_state(part)


def call_module(call: Call, module: Value) -> Value:
    """A call of a module that isn't a class of the project."""
    frame = call.frame
    name = module.data if isinstance(module.data, str) else ""
    if is_metric(name):
        return metrics.update(call, module)
    pairs = [(n, v) for n, v in call.everything() if v.kind in (TENSOR, UNKNOWN, EITHER, "batch", TUPLE, LIST)]
    inputs = [v for _, v in pairs]
    if is_loss(name):
        weights = [frame.slot(module, s) for s in (".weight", ".pos_weight")]
        facts = module_facts(name)
        compared = (
            [(n, v) for k, n, v in operands_of(call, facts) if k in facts.together] if facts is not None else pairs
        )
        any_rank = facts is not None and not facts.zero_dim_ok
        frame.need("operation", call.node, ast.unparse(call.node.func), *compared, any_rank=any_rank)
        for weight in (w for w in weights if w is not None):
            at = mapped(weight, lambda w: _place_by_weight(name, w), frame.atoms)
            for pair in pairs[:1]:
                frame.need("call", call.node, ast.unparse(call.node.func), pair, (call.node.func, at))
        for _, value in pairs[:2]:
            frame.is_tensor(value)
        result = frame.reader.together(frame, call.node, *inputs[:2])
        step = f"computed there by `{call.text}`"
        return mapped(
            result, lambda v: Value(TENSOR, v.place, likely=v.likely, step=call.step(step, v.step)), frame.atoms
        )
    if name in _CONTAINERS and name != "torch.nn.Sequential":
        return NOTHING
    if has_state(frame, module):
        # Its parts may have been moved one by one.
        place = place_of(frame, module) if name not in _CONTAINERS else _place_of_parts(frame, module)
        meeting = mapped(place, lambda p: Value(MODULE, p.place, data=name, step=p.step, likely=p.likely), frame.atoms)
        facts = module_facts(name)
        given = (
            [(n, v) for k, n, v in operands_of(call, facts) if k in facts.together and k != _unread(call, name)]
            if facts is not None
            else pairs[:1]
        )
        for pair in given:
            frame.need("call", call.node, ast.unparse(call.node.func), pair, (call.node.func, meeting))
        step = f"computed there by `{call.text}`"
        made = mapped(
            _place_met(place, [v for _, v in given]),
            lambda p: Value(TENSOR, p.place, rank=RANKED, step=call.step(step, p.step), likely=p.likely),
            frame.atoms,
        )
        return _results(frame, _last_of(frame, module), unless_apart(frame, [v for _, v in given], place, made))
    facts = module_facts(name)
    if facts is not None and facts.computes_where == "inputs":
        note(call, facts, operands_of(call, facts), ast.unparse(call.node.func))
    result = frame.reader.together(frame, call.node, *inputs[:1])
    if name in ("torch.nn.Module", "") and inputs and (inputs[0].place == HOST or inputs[0].place.sort == "input"):
        own = place_of(frame, module)
        if own.place.sort == "input" or (own.place.sort == "unknown" and inputs[0].place == HOST):
            # It may be a wrapper, which takes its inputs from anywhere, and gives what it computes where it is.
            where = UNKNOWN_PLACE if inputs[0].place == HOST else own.place
            return Value(UNKNOWN, where, likely=True, step=own.step, tags=COMPUTED)
    if name in ("torch.nn.Sequential", "torch.nn.Module", ""):
        return mapped(result, lambda v: Value(UNKNOWN, v.place, likely=True, step=v.step, tags=COMPUTED), frame.atoms)
    return mapped(
        result,
        lambda v: (
            Value(TENSOR, v.place, rank=v.rank, likely=v.likely, step=v.step)
            if v.kind in (TENSOR, UNKNOWN, "batch")
            else NOTHING
        ),
        frame.atoms,
    )


def _unread(call: Call, name: str) -> str:
    """The mask that a module doesn't read, or may not, since it is the causal one; "" where there is none."""
    mask, hint, padding = _CAUSAL.get(name, ("", "", ""))
    if not mask or call.argument(-1, padding) is not None:
        return ""
    said = call.argument(-1, hint)
    if said is None:
        return mask if name in _LOOKING else ""
    return mask if said.kind is not CONSTANT or said.data is not False else ""


def _last_of(frame: Frame, module: Value) -> str:
    """What computes the result of a module: of layers in a row, the last one."""
    name: str = module.data
    contents = containers.contents_of(frame, module) if name == "torch.nn.Sequential" else None
    last = contents.parts[-1] if contents is not None and contents.kind is TUPLE and contents.parts else None
    return (
        _last_of(frame, last)
        if isinstance(last, Value) and isinstance(last.data, str) and last.kind is MODULE
        else name
    )


def _place_met(place: Value, given: Sequence[Value]) -> Value:
    """Where a module is: if only those know who made it, where what it is given was moved."""
    if place.kind is EITHER or place.place.sort != "input":
        return place
    met = next((v for v in given if v.kind in (TENSOR, BATCH) and (v.place.off_host or v.place.sort == "told")), None)
    if met is None:
        return place
    # Whatever a batch is: what a module takes of it is a tensor.
    return met.but(likely=met.likely and met.kind is not BATCH)


def unless_apart(frame: Frame, given: Sequence[Value], place: Value, made: Value) -> Value:
    """What a module at a place gives: nobody knows where, if what it computes from is elsewhere, and it fails there."""
    if place.kind is EITHER or place.place.sort == "unknown":
        return made
    tensors = [v.place for v in given if v.kind in (TENSOR, BATCH) and v.place.sort != "unknown"]
    if all(p == place.place or HOST not in (p, place.place) for p in tensors):
        return made
    return mapped(
        made, lambda v: v.but(place=UNKNOWN_PLACE) if v.kind in (TENSOR, UNKNOWN, BATCH) else NOTHING, frame.atoms
    )


def _results(frame: Frame, name: str, given: Value) -> Value:
    if name in _RECURRENT:
        second = Value(TUPLE, parts=(given, given)) if name.endswith("LSTM") else given
        return Value(TUPLE, parts=(given, second))
    if name in _PAIRED:
        return Value(TUPLE, parts=(given, given))
    if not name.startswith("torch.nn.") or name == "torch.nn.Sequential":
        # A library's model may give anything that holds tensors.
        return mapped(
            given,
            lambda v: Value(
                UNKNOWN, v.place, path=(f"#{frame.reader.turn()}",), likely=True, step=v.step, tags=COMPUTED
            ),
            frame.atoms,
        )
    return given


# -- wrappers ----------------------------------------------------------------------------------------------------------


def wrapped(call: Call, name: str) -> Value:
    """A module in a wrapper."""
    inner = call.argument(0, "module") or NOTHING
    ids = call.argument(1, "device_ids")
    if name == "torch.nn.DataParallel" and ids is not None:
        contents = containers.contents_of(call.frame, ids)
        if contents is not None and contents.kind is TUPLE and len(contents.parts) == 1:
            # With one device it moves the module there itself.
            device = device_from(call.frame, contents.parts[0])
            if device is not None:
                place = mapped(device, lambda d: Value(TENSOR, d.place, likely=d.likely), call.frame.atoms)
                move(call.frame, inner, place, call.step(f"moved by `{call.text}`"))

    def wrap(option: Value) -> Value:
        if option.kind is WRAPPER:
            return option
        cell = call.frame.new_cell(call.node)
        call.frame.env[cell, ".device_ids"] = ids if ids is not None else NOTHING if call.open_ended else NONE
        return Value(WRAPPER, data=name, parts=(option,), cell=cell, step=call.step(f"wrapped by `{call.text}`"))

    if len(inner.options()) > 2 and not any(option.kind is WRAPPER for _, option in inner.options()):
        # Whichever of them it is.
        return wrap(inner)
    return mapped(inner, wrap, call.frame.atoms)


def call_wrapper(call: Call, wrapper: Value) -> Value:
    """A call of a wrapper, which takes its inputs from anywhere and gives what its first device computed."""
    frame = call.frame
    inner = wrapper.parts[0] if wrapper.parts else NOTHING
    place = place_of(frame, inner) if inner.kind in (MODULE, WRAPPER) else Value(TENSOR, UNKNOWN_PLACE)
    gathers = _has_replicas(frame, wrapper)
    gives = _given_by_forward(frame, inner)
    return mapped(place, lambda at: _given_by_wrapper(frame, gives, at, gathers=gathers), frame.atoms)


def _given_by_wrapper(frame: Frame, part: Value | None, at: Value, *, gathers: bool) -> Value:
    """What a wrapper around a module at a place gives for a part of what that gives."""
    where = UNKNOWN_PLACE if at.place == HOST else at.place
    tags = COMPUTED | {GATHERED} if gathers else COMPUTED
    if part is not None and part.kind is TUPLE:
        return Value(TUPLE, parts=tuple(_given_by_wrapper(frame, p, at, gathers=gathers) for p in part.parts))
    if part is not None and part.kind is TENSOR and part.place == HOST:
        # What `forward` left on the host stays there, or can't be gathered where there are several devices.
        left = UNKNOWN_PLACE if gathers else HOST
        return Value(TENSOR, left, likely=part.likely, rank=part.rank, step=at.step, tags=tags - COMPUTED)
    if part is not None and part.kind is TENSOR:
        return Value(TENSOR, where, likely=at.likely, step=at.step, tags=tags - COMPUTED)
    return Value(UNKNOWN, where, path=(f"#{frame.reader.turn()}",), likely=True, step=at.step, tags=tags)


def _has_replicas(frame: Frame, wrapper: Value) -> bool:
    """Whether what a wrapper gives is gathered from several devices."""
    if wrapper.data != "torch.nn.DataParallel":
        return False
    ids = frame.slot(wrapper, ".device_ids")
    contents = containers.contents_of(frame, ids) if ids is not None else None
    return contents is None or contents.kind is not TUPLE or len(contents.parts) != 1


def _given_by_forward(frame: Frame, inner: Value) -> Value | None:
    """What the `forward` of a module gives, in its own terms."""
    if isinstance(inner.data, str) and is_loss(inner.data):
        return Value(TENSOR)
    cls = class_of(inner)
    forward = cls.method("forward") if cls is not None else None
    signature = frame.reader.signature(forward, None) if forward is not None else None
    return signature.gives if signature is not None else None
