"""What calls of torch mean: factories, functions, devices, and everything that is made outside of classes of the project."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache, partial

from devlint.knowledge import canonical, ecosystem, torch_knowledge
from devlint.knowledge.metrics import is_metric
from devlint.knowledge.operators import operator
from devlint.signatures.libraries import frameworks
from devlint.signatures.libraries.devices import CUDA, device_from, named_device
from devlint.signatures.libraries.factories import buffer, factory, legacy, made_at, parameter, result_of, variable
from devlint.signatures.libraries.metrics import new_metric
from devlint.signatures.libraries.operations import apply, operands_of
from devlint.signatures.libraries.torch_modules import new_module, wrapped
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Call
from devlint.signatures.state.objects import COMPUTED, move
from devlint.signatures.values.values import (
    A_NUMBER,
    ARRAY,
    BATCH,
    CONSTANT,
    DEVICE,
    DEVICE_OBJECT,
    EITHER,
    GENERATOR,
    HOST,
    LIST,
    LOADER,
    NOTHING,
    NUMBER,
    OUTCOME,
    PINNED,
    RANKED,
    REFERENCE,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    UNPINNED,
    ZERO_DIM,
    Place,
    Value,
    constant,
    leaves,
    mapped,
    rank_of,
)

Meaning = Callable[[Call], Value]
# Parts of it are at several places.
SCATTERED = Place("unknown", "several")


@lru_cache(maxsize=20_000)
def meaning(name: str) -> Meaning | None:
    """What calls of something of torch, or of the libraries around it, do; None where nothing is known."""
    name = canonical(name)
    special = SPECIAL.get(name)
    if special is not None:
        return special
    if name.startswith("torch.nn.init.") and name.endswith("_"):
        # They fill what they are given in place, and give it back: a parameter is one still.
        return lambda call: call.argument(0, "tensor") or NOTHING
    knowledge = torch_knowledge()
    if name in knowledge.factories:
        return partial(factory, name=name)
    if name in knowledge.functions or (operator(name) is not None and not name.startswith("torch.Tensor.")):
        return partial(function, name=name)
    if name in knowledge.wrappers:
        return partial(wrapped, name=name)
    if name in knowledge.modules or name.startswith(ecosystem.MODULE_FACTORIES) or is_pretrained(name):
        return partial(new_module, name=name)
    if is_metric(name):
        return partial(new_metric, name=name)
    placing = frameworks.meaning(name)
    if placing is not None:
        return placing
    if name in knowledge.loaders:
        return _loader
    if name in ecosystem.TENSOR_TYPES:
        return partial(legacy, place=HOST, keeps=name == "torch.Tensor")
    if re.fullmatch(r"torch\.cuda\.\w+Tensor", name):
        return partial(legacy, place=CUDA, keeps=False)
    if name.startswith(("torch.cuda.", "torch.distributed.", "torch.backends.")):
        return lambda call: A_NUMBER
    return None


# What else has a kind, and no place.
_OTHERS = frozenset({"io.BytesIO", "tempfile.TemporaryFile", "wandb.init"})


@lru_cache(maxsize=20_000)
def has_kind(name: str) -> bool:
    """Whether something outside the project has a kind of which rules may ask, though it has no place."""
    knowledge, name = torch_knowledge(), canonical(name)
    return name in _OTHERS or name in knowledge.optimizers or name in knowledge.schedulers or name in knowledge.loaders


def is_pretrained(name: str) -> bool:
    return name.endswith(".from_pretrained") and name.startswith(ecosystem.PRETRAINED_PACKAGES)


# -- functions ---------------------------------------------------------------------------------------------------------


def function(call: Call, name: str) -> Value:
    """A function of torch on tensors."""
    knowledge = torch_knowledge()
    frame = call.frame
    facts = operator(name)
    device = named_device(call)
    if device is not None and (name.endswith("_like") or name in knowledge.factories):
        pairs = tensor_arguments(call)
        rank = rank_of(pairs[0][1]) if pairs else ""
        return mapped(device, lambda d: made_at(call, d, rank), frame.atoms)
    if facts is not None:
        made = apply(call, facts, operands_of(call, facts))
        if name == "torch.reshape" and len(call.node.args) > 1 and getattr(call.node.args[1], "elts", True):
            return mapped(made, lambda v: v.but(rank=RANKED), frame.atoms)
        return made
    pairs = tensor_arguments(call)
    returned = knowledge.functions.get(name, "tensor")
    result = frame.reader.together(frame, call.node, *_parts(call, pairs[:1]))
    made = mapped(result, lambda v: result_of(v, ""), frame.atoms)
    match returned:
        case "tensor" | "batch":
            return made
        case "tensors":
            return containers.made(frame, LIST, Value(containers.EACH, parts=(made,)), call.node)
        case "scalar":
            return A_NUMBER
        case "device":
            return Value(DEVICE, UNKNOWN_PLACE)
    return NOTHING


def tensor_arguments(call: Call) -> list[tuple[ast.expr, Value]]:
    """The arguments that may be tensors, or lists of them."""
    found = []
    for node, value in call.everything():
        if value.kind in (CONSTANT, NUMBER, OUTCOME, DEVICE):
            continue
        if value.kind in (LIST, TUPLE):
            contents = containers.contents_of(call.frame, value)
            if contents is None:
                continue
            spelt = node.elts if isinstance(node, (ast.List, ast.Tuple)) else None
            if contents.kind is TUPLE and spelt is not None and len(spelt) == len(contents.parts):
                found += list(zip(spelt, contents.parts, strict=True))
            elif contents.kind in (TUPLE, containers.EACH):
                found.append((node, Value(TUPLE, parts=tuple(p for p in contents.parts if isinstance(p, Value)))))
            continue
        found.append((node, value))
    return found


def _parts(call: Call, pairs: list[tuple[ast.expr, Value]]) -> list[Value]:
    """The tensors that a result may be computed from, tuples looked into."""
    found: list[Value] = []
    for _, value in pairs[:4]:
        if value.kind is TUPLE:
            found += [v for v in value.parts[:4] if v.kind in (TENSOR, UNKNOWN, BATCH, EITHER)]
        elif value.kind in (TENSOR, UNKNOWN, BATCH, EITHER, ARRAY):
            found.append(value)
    return found


# -- devices -----------------------------------------------------------------------------------------------------------


def _device(call: Call) -> Value:
    pair = call.pair(0, "device") or call.pair(0, "type")
    if pair is None:
        return Value(DEVICE, UNKNOWN_PLACE, likely=True, tags=DEVICE_OBJECT)
    found = device_from(call.frame, pair[1], pair[0])
    if found is None:
        return Value(DEVICE, UNKNOWN_PLACE, likely=True, path=pair[1].path, tags=DEVICE_OBJECT)
    found = mapped(found, lambda d: d.but(tags=DEVICE_OBJECT) if d.kind is DEVICE else d, call.frame.atoms)
    index = call.argument(1, "index")
    if index is not None and index.kind is CONSTANT and isinstance(index.data, int):
        return mapped(found, lambda d: _indexed(d, index.data), call.frame.atoms)
    return found


def _indexed(device: Value, index: int) -> Value:
    if device.place.off_host and ":" not in str(device.place.name):
        return device.but(place=Place("accelerator", f"{device.place.name}:{index}"))
    return device


def _available(call: Call) -> Value:
    """Whether there is an accelerator: all that is told is told of a machine that has one."""
    return constant(True)


def _mps_available(call: Call) -> Value:
    return Value(OUTCOME, data=call.frame.atoms.literal(("mps",), False))


def _generator(call: Call) -> Value:
    device = named_device(call, 0)
    if device is None:
        return Value(GENERATOR, UNKNOWN_PLACE if call.given else HOST, step=call.step("made for cpu"))
    return mapped(
        device,
        lambda d: Value(GENERATOR, d.place, likely=d.likely, step=call.step(f"made for {d.place.name}")),
        call.frame.atoms,
    )


# -- loading, batches, loaders -----------------------------------------------------------------------------------------


def _loader(call: Call) -> Value:
    """A DataLoader: its batches are on the host, unless its dataset or its collate function may move them."""
    frame = call.frame
    dataset = call.argument(0, "dataset") or NOTHING
    collate = call.argument(6, "collate_fn")
    step = call.step(f"comes from `{call.text}`")
    place, each = HOST, None
    if collate is not None and collate.kind is not CONSTANT:
        each = frame.reader.collated(frame, collate)
        if each is None:
            place = UNKNOWN_PLACE
    if not frame.reader.stays_on_host(frame, dataset):
        place, each = UNKNOWN_PLACE, None
    tags = _pinning(call)
    if each is not None:
        return Value(LOADER, place, data="collated", parts=(dataset, each), step=step, tags=tags)
    return Value(LOADER, place, parts=(dataset,), step=step, tags=tags)


def _pinning(call: Call) -> frozenset[str]:
    """What a loader says of the memory that its batches lie in: `pin_memory=False` is the default."""
    given = call.argument(7, "pin_memory")
    if given is None:
        return frozenset() if call.open_ended else UNPINNED
    if given.kind is not CONSTANT or not isinstance(given.data, bool):
        return frozenset()
    return PINNED if given.data else UNPINNED


def _dataset(call: Call) -> Value:
    """A TensorDataset is where its tensors are."""
    places = {o.place for _, v in call.everything() for _, o in leaves(v, call.frame.atoms)}
    return call.fresh(next(iter(places)) if len(places) == 1 else SCATTERED)


def _averaged(call: Call) -> Value:
    """`AveragedModel(model, device=None)` calls a copy of a model, at the device if one is named."""
    frame = call.frame
    copied = frame.reader.copied(frame, call.argument(0, "model") or NOTHING, call.node)
    device = named_device(call, 1)
    if device is not None:
        place = mapped(device, lambda d: Value(TENSOR, d.place, likely=d.likely), frame.atoms)
        move(frame, copied, place, call.step("copied there"))
    return copied


def _norm_of(call: Call) -> Value:
    """The norm of some parameters' gradients is where they are."""
    given = call.given[0][1] if call.given else NOTHING
    each = containers.element(call.frame, given)
    return mapped(
        each,
        lambda v: (
            Value(TENSOR, v.place, rank=ZERO_DIM, likely=True, step=v.step, tags=COMPUTED)
            if v.kind in (TENSOR, UNKNOWN)
            else NOTHING
        ),
        call.frame.atoms,
    )


def _from_numpy(call: Call) -> Value:
    return Value(TENSOR, HOST, rank=RANKED, step=call.step(f"created on cpu by `{call.text}`"))


def _first(call: Call) -> Value:
    return call.given[0][1] if call.given else NOTHING


def _meshgrid(call: Call) -> Value:
    frame = call.frame
    given = [v for _, v in tensor_arguments(call)]
    if len(given) == 1 and given[0].kind is UNKNOWN:
        # A list of so many tensors as a caller says.
        each = mapped(containers.element(frame, given[0]), lambda v: result_of(v, RANKED), frame.atoms)
        return containers.made(frame, LIST, Value(containers.EACH, parts=(each,)), call.node)
    parts = [p for v in given for p in (v.parts if v.kind is TUPLE else (v,))]
    frame.need("operation", call.node, "torch.meshgrid", *tensor_arguments(call))
    count = len(parts) if parts and not call.open_ended else 0
    made = mapped(frame.reader.together(frame, call.node, *parts[:4]), lambda v: result_of(v, RANKED), frame.atoms)
    if count:
        return Value(TUPLE, parts=(made,) * count)
    return containers.made(frame, LIST, Value(containers.EACH, parts=(made,)), call.node)


def _nothing(call: Call) -> Value:
    return NOTHING


def _number(call: Call) -> Value:
    return A_NUMBER


def _host_tensor(call: Call) -> Value:
    return Value(TENSOR, HOST, rank=RANKED, step=call.step(f"created on cpu by `{call.text}`"))


def _no_grad(call: Call) -> Value:
    return NOTHING


def _sparse(call: Call) -> Value:
    """A sparse tensor is where its values are, unless it is told a device."""
    frame = call.frame
    device = named_device(call)
    pairs = [(n, v) for n, v in call.given if v.kind in (TENSOR, UNKNOWN, EITHER)]
    frame.need("operation", call.node, "torch.sparse_coo_tensor", *pairs[:2])
    if device is not None:
        return mapped(device, lambda d: made_at(call, d, RANKED), frame.atoms)
    result = frame.reader.together(frame, call.node, *[v for _, v in pairs[:2]])
    return mapped(result, lambda v: result_of(v, RANKED), frame.atoms)


def _compressed(call: Call) -> Value:
    """A compressed sparse tensor is where its values are, its indices are taken there, unless it is told a device."""
    device = named_device(call)
    if device is not None:
        return mapped(device, lambda d: made_at(call, d, RANKED), call.frame.atoms)
    values = call.argument(2, "values") or NOTHING
    return mapped(values, lambda v: result_of(v, RANKED) if v.kind in (TENSOR, UNKNOWN) else NOTHING, call.frame.atoms)


def _collated(call: Call) -> Value:
    """A batch of what it is given, on the host where nothing says otherwise: tensors are stacked where they are."""
    given = call.argument(0, "batch")
    part = containers.element(call.frame, given) if given is not None else NOTHING
    elsewhere = [o for _, o in part.options() if o.kind is TENSOR and o.place != HOST]
    if not elsewhere:
        return Value(BATCH, HOST, rank=RANKED, data="item", likely=True)
    at = elsewhere[0] if len({o.place for o in elsewhere}) == 1 else NOTHING
    return Value(TENSOR, at.place, rank=RANKED, likely=True, step=at.step)


def _made_by(name: str, _call: Call) -> Value:
    return Value(REFERENCE, data=name)


def _tensor_of_image(call: Call) -> Value:
    """What torchvision makes of an image of PIL's or an array: the host reads that."""
    return Value(TENSOR, HOST, rank=RANKED, step=call.step(f"created on cpu by `{call.text}`"))


# Classes whose objects make tensors of images, and functions that do.
# https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html
_OF_IMAGES = ("ToTensor", "PILToTensor", "transforms.ToTensor", "transforms.PILToTensor")
_OF_AN_IMAGE = ("functional.to_tensor", "functional.pil_to_tensor", *(f"{name}()" for name in _OF_IMAGES))

SPECIAL: dict[str, Meaning] = {
    "torch.device": _device,
    "torch.cuda.is_available": _available,
    "torch.accelerator.is_available": _available,
    "torch.backends.mps.is_available": _mps_available,
    "torch.cuda.device_count": lambda call: Value("count"),
    "torch.accelerator.device_count": lambda call: Value("count"),
    "torch.cuda.current_device": lambda call: Value(DEVICE, CUDA),
    "torch.accelerator.current_accelerator": lambda call: Value(DEVICE, CUDA, tags=DEVICE_OBJECT),
    "torch.get_default_device": lambda call: Value(DEVICE, UNKNOWN_PLACE, likely=True, tags=DEVICE_OBJECT),
    "torch.Generator": _generator,
    "torch.load": _nothing,
    "torch.save": _nothing,
    "torch.compile": _first,
    "torch.jit.script": _first,
    "torch.jit.trace": _first,
    "torch.jit.freeze": _first,
    "torch.from_numpy": _from_numpy,
    # A name of its own stands for the object, which is called in its turn.
    **{f"torchvision.transforms.{n}": partial(_made_by, f"torchvision.transforms.{n}()") for n in _OF_IMAGES},
    **{f"torchvision.transforms.{n}": _tensor_of_image for n in _OF_AN_IMAGE},
    "torch.from_dlpack": _nothing,
    "torch.meshgrid": _meshgrid,
    "torch.broadcast_tensors": lambda call: _each_where_it_is(call),
    "torch.autograd.Variable": variable,
    "torch.nn.Parameter": parameter,
    "torch.nn.Buffer": buffer,
    "torch.utils.data.DataLoader": _loader,
    "torch.utils.data.default_collate": _collated,
    "torch.utils.data.TensorDataset": lambda call: _dataset(call),
    "torch.utils.data.Subset": _first,
    "torch.utils.data.ConcatDataset": _nothing,
    "torch.optim.swa_utils.AveragedModel": lambda call: _averaged(call),
    "torch.manual_seed": _nothing,
    "torch.no_grad": _no_grad,
    "torch.onnx.operators.shape_as_tensor": _host_tensor,
    "torch.onnx._export": lambda call: _exported(call),
    "torch.onnx.utils._export": lambda call: _exported(call),
    "torch.sparse_coo_tensor": _sparse,
    **{f"torch.sparse_{layout}_tensor": _compressed for layout in ("csr", "csc", "bsr", "bsc", "compressed")},
    "torch.nn.utils.rnn.pad_sequence": lambda call: _padded(call),
    **dict.fromkeys(
        ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm", "torch.nn.utils.clip_grad.clip_grad_norm_"),
        lambda call: _norm_of(call),
    ),
    "torch.get_rng_state": _host_tensor,
    "torch.cuda.get_rng_state": _host_tensor,
    "torch.autograd.grad": lambda call: _gradients(call),
}


def _each_where_it_is(call: Call) -> Value:
    """`torch.broadcast_tensors(a, b)`: views of what it is given, which needn't be together."""
    given = [v for _, v in call.given]
    if len(given) == 1 and given[0].kind is TUPLE:
        given = list(given[0].parts)
    if call.open_ended or len(given) < 2:
        return NOTHING
    return Value(TUPLE, parts=tuple(mapped(v, lambda o: result_of(o, RANKED), call.frame.atoms) for v in given))


def _gradients(call: Call) -> Value:
    """`torch.autograd.grad(outputs, inputs)`: a gradient for each input, where that is."""
    inputs = call.argument(1, "inputs") or NOTHING
    if inputs.kind in (LIST, TUPLE):
        each = containers.element(call.frame, inputs)
    else:
        each = inputs
    made = mapped(each, lambda v: result_of(v, rank_of(v)), call.frame.atoms)
    return containers.made(call.frame, LIST, Value(containers.EACH, parts=(made,)), call.node)


def _padded(call: Call) -> Value:
    given = call.given[0][1] if call.given else NOTHING
    each = containers.element(call.frame, given)
    return mapped(each, lambda v: result_of(v, RANKED), call.frame.atoms)


def _exported(call: Call) -> Value:
    """`torch.onnx._export(model, args, file)` of releases before 2: what the model computes, where it does."""
    model, given = call.argument(0, "model"), call.pair(1, "args")
    if model is None or given is None:
        return NOTHING
    inner = Call(call.frame, call.node)
    node, value = given
    inner.given = [(node, part) for part in value.parts] if value.kind is TUPLE else [given]
    return call.frame.reader.call_value(inner, model)
