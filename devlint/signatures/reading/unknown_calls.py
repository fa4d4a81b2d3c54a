"""Calls of what isn't known: what is likely done with what they are given, and where what they give is."""

from __future__ import annotations

import ast

from devlint.regexes import regex
from devlint.signatures.libraries import torch_calls
from devlint.signatures.libraries.factories import MADE_OF_DATA
from devlint.signatures.reading import uses
from devlint.signatures.state import containers
from devlint.signatures.state.frame import PLACE, Call, Frame
from devlint.signatures.state.objects import COMPUTED
from devlint.signatures.values.values import (
    ARRAY,
    BATCH,
    CONSTANT,
    DEVICE,
    DICT,
    DISTRIBUTION,
    EITHER,
    HOST,
    LIST,
    MODULE,
    NUMBER,
    RANKED,
    TENSOR,
    TUPLE,
    UNKNOWN,
    Place,
    Step,
    Value,
)
from devlint.source.modules import last_name

_LOSS = regex(r"(?i)(?:.*_)?(?:criterion\w{0,30}|criteria|loss|loss_?fn|loss_?func(?:tion)?|loss_?f|objective)\d*")


def call_unknown(call: Call, callee: Value) -> Value:
    """A call of something unknown: of a part of a module it is likely a module's, and a loss compares what it is given."""
    if callee.path is not None and _LOSS.fullmatch(str(callee.path[-1]).strip(".[]'")) and not _in_loss(call.frame):
        # One that takes tuples too takes them apart.
        kinds = [{o.kind for _, o in v.options()} for _, v in call.given[:2]]
        pairs = [p for p, k in zip(call.given, kinds, strict=False) if k <= {TENSOR, BATCH, UNKNOWN}]
        if len(pairs) == 2 and len(call.given) < _WITH_LENGTHS:
            call.frame.need("operation", call.node, ast.unparse(call.node.func), *pairs)
    use = uses.use_of(call, callee) if not is_part_of_module(call.frame, callee) else None
    result = _given_by_unknown(call, callee)
    uses.note(call.frame, use, result)
    return result


# So many things a CTC loss is given, of which the labels may be on the host: `criterion(preds, text, sizes, lengths)`.
_WITH_LENGTHS = 4


def _in_loss(frame: Frame) -> bool:
    """Whether it stands in a loss's own class: one that wraps any other is of a family, whose members may move what they get."""
    cls = frame.function.cls if frame.function is not None else None
    return cls is not None and _LOSS_CLASS.search(cls.name) is not None


_LOSS_CLASS = regex(r"Loss|Criterion")


def _given_by_unknown(call: Call, callee: Value) -> Value:
    """What something unknown likely gives, and where."""
    result = unknown_call(call)
    if any((v.kind in (TENSOR, BATCH) and v.place == HOST) or MADE_OF_DATA in v.tags for _, v in call.given):
        # What it computes from is on the host, or made of data that mostly are: so is it, or it fails here.
        return result
    if result.tags == _OF_ARRAYS:
        return result
    if callee.path is not None and _OF_TEXT.fullmatch(str(callee.path[-1]).strip(".[]'")):
        # It makes tensors of text, wherever the module is that has it.
        return result
    if _PIPELINE.fullmatch(last_name(call.node.func)):
        # A whole program: what it gives is for people, images and texts, whatever device it was moved to.
        return result
    at = call.frame.slot(callee, PLACE)
    if at is not None and at.kind is not EITHER and at.place.sort != "unknown":
        return result.but(place=at.place, tags=COMPUTED, step=at.step)
    if callee.place.off_host or callee.place.sort == "told":
        # What is called after it was moved is a module.
        return result.but(place=callee.place, tags=COMPUTED, step=callee.step)
    if result.place.off_host or result.place.sort == "told":
        # It computes from what was moved there: it is there itself.
        return result
    if callee.place.sort == "input" and _named_like_model(callee) and not is_part_of_module(call.frame, callee):
        tensors = [o for _, v in call.everything() for _, o in v.options() if o.kind in (TENSOR, BATCH)]
        if tensors and all(o.place.sort == "unknown" for o in tensors):
            # Made here, and moved nowhere: the caller's model is where such tensors are.
            return result
        return result.but(place=callee.place, tags=COMPUTED)
    if any(o.place.off_host or o.place.sort == "told" for _, v in call.everything() for _, o in v.options()):
        # What it is given was moved to several places: so was it, to one of them.
        return result
    if callee.place.sort == "input" and is_part_of_module(call.frame, callee):
        # What a submodule computes is where its module is.
        root = Place("input", callee.path[:1]) if callee.path else callee.place
        moved = call.frame.get((root.name, PLACE))
        return result.but(place=moved.place if moved is not None and moved.kind is not EITHER else root, tags=COMPUTED)
    return result


def _is_of_arrays(call: Call) -> bool:
    """Whether a call is given arrays alone, or what another library than torch made of them, and plain numbers beside."""
    given = [option for _, value in call.everything() for _, option in value.options()]
    arrays = [_is_array(o) or _holds_arrays(call.frame, o) for o in given]
    return any(arrays) and all(a or o.kind in (CONSTANT, NUMBER) for a, o in zip(arrays, given, strict=True))


def _is_array(value: Value) -> bool:
    return value.kind is ARRAY or value.tags == _OF_ARRAYS


def _holds_arrays(frame: Frame, value: Value) -> bool:
    contents = containers.contents_of(frame, value) if value.kind in (LIST, TUPLE) else None
    parts = contents.parts if contents is not None and contents.kind in (TUPLE, containers.EACH) else ()
    return bool(parts) and all(_is_array(p) for p in parts)


_OF_ARRAYS = frozenset({"of arrays"})
_OF_TEXT = regex(r"(?:.*_)?tokeni[sz](?:e|er)(?:_.*)?")
_PIPELINE = regex(r"(?i)(?:\w{1,60}_)?pipe(?:line)?\d?")
# Names that people give to what computes: what comes of calling it is where its parameters are.
_MODEL = regex(
    r"(?i)(?:.*_)?(?:model|net|network|encoder|decoder|generator|discriminator|critic|actor|policy|backbone|classifier|unet|vae|transformer)\d*"
)


def _named_like_model(callee: Value) -> bool:
    return callee.path is not None and _MODEL.fullmatch(str(callee.path[-1]).strip(".[]'")) is not None


def is_part_of_module(frame: Frame, callee: Value) -> bool:
    me = frame.reader.self_of(frame)
    return me is not None and me.kind is MODULE and callee.path is not None and me.path == callee.path[:1]


# Calls whose names say that what they give is on the host, or somewhere else than what they are given.
_PLACING_NAMES = (
    "cpu",
    "numpy",
    "np",
    "host",
    "load",
    "read",
    "open",
    "loader",
    "dataset",
    "prepare",
    "move",
    "device",
    "cuda",
    "gpu",
    "list",
    "scatter",
    "gather",
    "token",
    "process",
    "encode_plus",
)


def unknown_call(call: Call, name: str = "", *, displaces: bool = True) -> Value:
    """A call of which nothing is known: what it is given may be changed; it likely computes where its tensors are."""
    frame = call.frame
    if name.startswith("torchmetrics.functional."):
        for _, value in call.given[:2]:
            frame.is_tensor(value)
        frame.need("operation", call.node, name, *call.given[:2])
    if _is_of_arrays(call):
        # Modules compute with tensors: it is another library's.
        return call.fresh().but(tags=_OF_ARRAYS)
    if call.says("return_tensors", "pt") and "device" not in call.keywords:
        # A tokenizer or a processor of transformers: https://huggingface.co/docs/transformers/main_classes/tokenizer
        step = call.step(f"made on cpu by `{call.text}`")
        return call.fresh(HOST).but(kind=BATCH, data="item", rank=RANKED, step=step)
    places: dict[Place, Step | None] = {}
    likely_computes = True
    for _, value in call.everything():
        if displaces:
            frame.displace(value, 2)
            if any(option.kind is BATCH for _, option in value.options()) and _drops_result(call):
                frame.lose_batch(value)
        for _, option in value.options():
            known = option.place.is_open or option.place.off_host
            if option.kind in (TENSOR, BATCH) or (option.kind is UNKNOWN and known):
                places.setdefault(option.place, option.step)
            elif option.kind in (LIST, DICT, TUPLE):
                likely_computes = False
    text = (name or call.text).rsplit(".", 1)[-1].lower()
    told = any(word in text for word in _PLACING_NAMES) or text[:1] != text[:1].lower()
    # A distribution is where its parameters are.
    of_torch = name.startswith("torch.distributions.")
    told = told and not of_torch
    if likely_computes and not told and len(places) == 1 and not call.open_ended:
        ((place, trail),) = places.items()
        if place != HOST and place.sort != "unknown":
            return call.fresh(place).but(step=trail, tags=DISTRIBUTION if of_torch else frozenset())
    if any(option.kind is DEVICE for _, value in call.everything() for _, option in value.options()):
        # `dataset.get_data(device, split)`: what it gives may be there.
        return call.fresh(torch_calls.SCATTERED)
    return call.fresh()


def _drops_result(call: Call) -> bool:
    """`load_data_to_gpu(batch)`: what is called so is called for what it does to what it is given."""
    return isinstance(next(call.frame.source.ancestors(call.node), None), ast.Expr)
