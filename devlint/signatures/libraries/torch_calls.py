"""What calls of torch mean: factories, functions, devices, and everything that is made outside of classes of the project."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from devlint.knowledge import canonical, ecosystem, torch_knowledge
from devlint.knowledge.metrics import is_metric
from devlint.knowledge.operators import operator
from devlint.regexes import regex
from devlint.signatures.libraries import frameworks
from devlint.signatures.libraries.devices import CUDA, device_from, named_device
from devlint.signatures.libraries.metrics import new_metric
from devlint.signatures.libraries.operations import apply, operands_of
from devlint.signatures.libraries.torch_modules import new_module, wrapped
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Call
from devlint.signatures.state.objects import COMPUTED, KEPT, PARAMETER, REGISTERED, move
from devlint.signatures.values.values import (
    A_NUMBER,
    ARRAY,
    BATCH,
    BUFFER,
    CONSTANT,
    DEVICE,
    DEVICE_OBJECT,
    EITHER,
    EMPTY,
    GENERATOR,
    HOST,
    LIST,
    LOADER,
    NOTHING,
    NUMBER,
    OUTCOME,
    PINNED,
    RANKED,
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
from devlint.source.modules import last_name

Meaning = Callable[[Call], Value]
# What says that something is a tensor for sure, though of what isn't known.
MADE_OF_DATA = "made of data"
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
        return partial(_legacy, place=HOST, keeps=name == "torch.Tensor")
    if re.fullmatch(r"torch\.cuda\.\w+Tensor", name):
        return partial(_legacy, place=CUDA, keeps=False)
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


# -- factories ---------------------------------------------------------------------------------------------------------


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
        return mapped(together, lambda v: _result(v, ""), call.frame.atoms)
    if device is None and (call.open_ended and (not call.node.args or _has_double_star(call))):
        return Value(TENSOR, UNKNOWN_PLACE, likely=True, rank=rank)
    if device is None and name in _TAKING_DATA:
        return _from_data(call, rank, name)
    if device is None:
        place = call.frame.default_place
        if place.sort == "unknown":
            return Value(TENSOR, UNKNOWN_PLACE, likely=True, rank=rank)
        return Value(TENSOR, place, rank=rank, step=call.step(f"created on {place.name or 'cpu'} by `{call.text}`"))
    return mapped(device, lambda d: _made_at(call, d, rank), call.frame.atoms)


def _has_double_star(call: Call) -> bool:
    return any(k.arg is None for k in call.node.keywords)


def _made_at(call: Call, device: Value, rank: Any) -> Value:
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
            # Of a tensor it stays where that is; but what `torch.tensor` is given hardly is one.
            return Value(
                UNKNOWN,
                option.place if name != "torch.tensor" else UNKNOWN_PLACE,
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
        return "" if len(sizes) == 1 and _is_shape_of_loss(sizes[0]) else RANKED
    return ""


def _is_shape_of_loss(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=owner, attr="shape") | ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[]):
            return _LOSS.fullmatch(last_name(owner)) is not None
    return False


_LOSS = regex(r"(?:\w{1,60}_)?loss(?:_\w{1,60})?")


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _legacy(call: Call, place: Place, *, keeps: bool) -> Value:
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


def _variable(call: Call) -> Value:
    """`Variable(t)` is the tensor itself; `nn.Parameter(t)` one that modules register."""
    return call.argument(0, "data") or NOTHING


def _parameter(call: Call) -> Value:
    given = call.argument(0, "data")
    if given is None:
        return Value(TENSOR, HOST, tags=frozenset({PARAMETER}), step=call.step("created on cpu by `Parameter`"))

    def registered(option: Value) -> Value:
        if option.kind is TENSOR:
            return option.but(tags=(option.tags - {KEPT}) | {PARAMETER}, path=None)
        return Value(TENSOR, option.place, tags=frozenset({PARAMETER}), likely=True, step=option.step)

    return mapped(given, registered, call.frame.atoms)


def _buffer(call: Call) -> Value:
    given = call.argument(0, "data") or NOTHING
    return mapped(given, lambda v: v.but(tags=v.tags | {REGISTERED, PARAMETER, BUFFER}), call.frame.atoms)


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
        return mapped(device, lambda d: _made_at(call, d, rank), frame.atoms)
    if facts is not None:
        made = apply(call, facts, operands_of(call, facts))
        if name == "torch.reshape" and len(call.node.args) > 1 and getattr(call.node.args[1], "elts", True):
            return mapped(made, lambda v: v.but(rank=RANKED), frame.atoms)
        return made
    pairs = tensor_arguments(call)
    returned = knowledge.functions.get(name, "tensor")
    result = frame.reader.together(frame, call.node, *_parts(call, pairs[:1]))
    made = mapped(result, lambda v: _result(v, ""), frame.atoms)
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


def _result(value: Value, rank: Any) -> Value:
    if value.kind is TENSOR:
        return value.but(rank=rank, path=None, tags=frozenset(), data=None)
    if "mixed" in value.tags:
        return Value(TENSOR, UNKNOWN_PLACE, rank=rank)
    if value.kind is UNKNOWN:
        # What functions of torch give are tensors, where what they were given is.
        return Value(TENSOR, value.place, likely=True, rank=rank, step=value.step)
    if value.kind is BATCH:
        return Value(TENSOR, value.place, likely=True, rank=rank, step=value.step)
    return Value(TENSOR, UNKNOWN_PLACE, rank=rank)


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
        each = mapped(containers.element(frame, given[0]), lambda v: _result(v, RANKED), frame.atoms)
        return containers.made(frame, LIST, Value(containers.EACH, parts=(each,)), call.node)
    parts = [p for v in given for p in (v.parts if v.kind is TUPLE else (v,))]
    frame.need("operation", call.node, "torch.meshgrid", *tensor_arguments(call))
    count = len(parts) if parts and not call.open_ended else 0
    made = mapped(frame.reader.together(frame, call.node, *parts[:4]), lambda v: _result(v, RANKED), frame.atoms)
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
        return mapped(device, lambda d: _made_at(call, d, RANKED), frame.atoms)
    result = frame.reader.together(frame, call.node, *[v for _, v in pairs[:2]])
    return mapped(result, lambda v: _result(v, RANKED), frame.atoms)


def _compressed(call: Call) -> Value:
    """A compressed sparse tensor is where its values are, its indices are taken there, unless it is told a device."""
    device = named_device(call)
    if device is not None:
        return mapped(device, lambda d: _made_at(call, d, RANKED), call.frame.atoms)
    values = call.argument(2, "values") or NOTHING
    return mapped(values, lambda v: _result(v, RANKED) if v.kind in (TENSOR, UNKNOWN) else NOTHING, call.frame.atoms)


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
    "torch.from_dlpack": _nothing,
    "torch.meshgrid": _meshgrid,
    "torch.broadcast_tensors": lambda call: _each_where_it_is(call),
    "torch.autograd.Variable": _variable,
    "torch.nn.Parameter": _parameter,
    "torch.nn.Buffer": lambda call: _buffer(call),
    "torch.utils.data.DataLoader": _loader,
    "torch.utils.data.default_collate": lambda call: Value(BATCH, HOST, rank=RANKED, data="item", likely=True),
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
    return Value(TUPLE, parts=tuple(mapped(v, lambda o: _result(o, RANKED), call.frame.atoms) for v in given))


def _gradients(call: Call) -> Value:
    """`torch.autograd.grad(outputs, inputs)`: a gradient for each input, where that is."""
    inputs = call.argument(1, "inputs") or NOTHING
    if inputs.kind in (LIST, TUPLE):
        each = containers.element(call.frame, inputs)
    else:
        each = inputs
    made = mapped(each, lambda v: _result(v, rank_of(v)), call.frame.atoms)
    return containers.made(call.frame, LIST, Value(containers.EACH, parts=(made,)), call.node)


def _padded(call: Call) -> Value:
    given = call.given[0][1] if call.given else NOTHING
    each = containers.element(call.frame, given)
    return mapped(each, lambda v: _result(v, RANKED), call.frame.atoms)


def _exported(call: Call) -> Value:
    """`torch.onnx._export(model, args, file)` of releases before 2: what the model computes, where it does."""
    model, given = call.argument(0, "model"), call.pair(1, "args")
    if model is None or given is None:
        return NOTHING
    inner = Call(call.frame, call.node)
    node, value = given
    inner.given = [(node, part) for part in value.parts] if value.kind is TUPLE else [given]
    return call.frame.reader.call_value(inner, model)
