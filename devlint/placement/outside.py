"""Functions and classes outside the project: torch and the libraries around it. Python's own stand in standard.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache, partial

from devlint.knowledge import ecosystem, torch_knowledge
from devlint.knowledge.ecosystem import WANDB_RUN
from devlint.knowledge.metrics import is_metric
from devlint.placement.devices import parse_device
from devlint.placement.expressions import combined
from devlint.placement.frameworks import ACCELERATOR
from devlint.placement.metrics import new_metric
from devlint.placement.request import Call, site_of, unknown_call
from devlint.placement.standard import STANDARD, deep_copied, first_argument, gives_scalar
from devlint.placement.values import (
    DEVICE_CLASS,
    HOST,
    ITEM,
    NONE,
    NOWHERE,
    PREFERRED,
    SCALAR,
    UNKNOWN,
    Place,
    Sort,
    Value,
    accelerator,
    either,
    element_of,
    leaves,
    replace,
    sequence_of,
)
from devlint.source.kinds import Kind
from devlint.source.paths import access_path, is_under


def outside(request: Call, name: str) -> Value:
    """What a call of something outside the project gives, going by its qualified name."""
    return _meaning(name)(request)


@lru_cache(maxsize=10_000)
def _meaning(name: str) -> Callable[[Call], Value]:
    """What calls of that name do: told by the name itself, by torch's facts, or by the package that it is from."""
    knowledge = torch_knowledge()
    special = OUTSIDE.get(name)
    if special is not None:
        return special
    if name in knowledge.factories:
        return partial(_factory, name=name)
    if name in knowledge.functions:
        return partial(_function, name=name, returned=knowledge.functions[name])
    if name in knowledge.wrappers:
        return partial(_wrap, name=name)
    if name in knowledge.modules or name.startswith(ecosystem.MODULE_FACTORIES) or _is_pretrained(name):
        return partial(_new_module, name=name)
    if name in knowledge.loaders:
        return lambda request: Value(Kind.LOADER, name=name, pinned=_pins(request))
    for kind, names in ((Kind.OPTIMIZER, knowledge.optimizers), (Kind.SCHEDULER, knowledge.schedulers)):
        if name in names:
            made = Value(kind, name=name)
            return lambda request: made
    if name in ecosystem.TENSOR_TYPES or name in ("torch.nn.Parameter", "torch.autograd.Variable"):
        return partial(_tensor_constructor, name=name)
    if name in ecosystem.PASSING_ITERATORS or name.removeprefix("builtins.") in ecosystem.PASSING_ITERATORS:
        return first_argument
    if name.startswith("numpy."):
        return gives_scalar if name in ("numpy.prod", "numpy.isscalar") else _array
    if is_metric(name):
        return partial(new_metric, name=name)
    if name.startswith(("torch.cuda.", "torch.distributed.", "math.", "os.", "time.", "logging.")):
        return gives_scalar
    return unknown_call


def _function(request: Call, name: str, returned: str) -> Value:
    """A function of torch, by what it returns."""
    first = request.positional[0] if request.positional else UNKNOWN
    if first.kind is Kind.EITHER:
        # What it gives goes with what it is given: `torch.ones_like(mask if mask is not None else torch.ones(3))`.
        rest = request.positional[1:]
        given = (
            (guards, Call(request.frame, request.node, [option, *rest], request.keywords, request.spread))
            for guards, option in first.options
        )
        return either((guards, _function(one, name, returned)) for guards, one in given)
    found = request.device(-1) if "device" in request.keywords else None
    match returned:
        case "tensor":
            result = replace(request.computed(Kind.TENSOR), ranked=_keeps(request, name))
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


def _keeps(request: Call, name: str) -> bool:
    """Whether a function's result has a dimension since its first tensor, or a tensor in its first list, has one."""
    first = leaves(request.positional[0])[:1] if request.positional else []
    return name in torch_knowledge().keeping_dimensions and all(v.ranked for v in first) and bool(first)


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
        place, likely = (NOWHERE, True) if request.frame.source.sets_default_device else (HOST, False)
    step = request.step(f"created on {place} by `{request.text}`")
    return Value(Kind.TENSOR, place, likely=likely, ranked=_has_dimension(request, name), trail=(step,))


# Factories whose result has a dimension whatever they are given.
_RANKED = re.compile(
    r"torch\.(arange|range|linspace|logspace|eye|randperm|\w+_window|tr\w+_indices|from_numpy|frombuffer)"
)


def _has_dimension(request: Call, name: str) -> bool:
    """Whether a factory's result surely has a dimension."""
    if _RANKED.fullmatch(name):
        return True
    size = request.argument_node(0, "size" if name != "torch.tensor" else "data")
    given = request.argument(0, "size" if name != "torch.tensor" else "data")
    if size is None or given is None:
        return False
    listed = size.elts if isinstance(size, (ast.Tuple, ast.List)) else None
    dimensions = listed or ([size] if name == "torch.full" else request.node.args)
    if name in _SIZED and any(isinstance(d, ast.Constant) and d.value == 0 for d in dimensions):
        # Empty: it stands for nothing, and whatever takes it may leave it aside.
        return False
    sizes = request.node.args if name == "torch.randint" else [size]
    if any(isinstance(s, (ast.Tuple, ast.List)) for s in sizes):
        return all(s.elts for s in sizes if isinstance(s, (ast.Tuple, ast.List)))
    if given.kind is Kind.SEQUENCE:
        return given.elements is None or bool(given.elements)
    # Sizes one by one, `zeros(n, m)`, or one size, which is hardly empty.
    return name in _SIZED and not any(isinstance(d, ast.Starred) for d in dimensions)


_SIZED = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn", "torch.full"})


def _tensor_constructor(request: Call, name: str) -> Value:
    kind = Kind.PARAMETER if name == "torch.nn.Parameter" else Kind.TENSOR
    if name in ("torch.nn.Parameter", "torch.autograd.Variable") and request.positional:
        place, trail, likely = combined(request.positional[:1])
        return Value(kind, place, likely=likely, trail=trail)
    return Value(kind, HOST, trail=(request.step(f"created on cpu by `{request.text}`"),))


def _new_module(request: Call, name: str) -> Value:
    step = request.step(f"created on cpu by `{request.text}`")
    if name.startswith("torch.nn.") and name.endswith("Loss"):
        # It holds class weights, or nothing that has a place.
        weights = [v for k in ("weight", "pos_weight") if (v := request.keywords.get(k)) is not None]
        weights = weights or request.positional[:1] if name in _WEIGHTED_FIRST else weights
        place, trail, likely = combined([v for v in weights if v.is_tensor])
        return Value(Kind.MODULE, place, name=name, likely=likely, site=site_of(request), trail=(*trail, step))
    return Value(Kind.MODULE, _module_place(request), name=name, site=site_of(request), trail=(step,))


_WEIGHTED_FIRST = frozenset(
    {"torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss", "torch.nn.BCELoss", "torch.nn.BCEWithLogitsLoss"}
)


def _module_place(request: Call) -> Place:
    if "device_map" in request.keywords or any(k.arg is None for k in request.node.keywords):
        # Libraries that load a model may put it anywhere, and `**kwargs` may hold a device.
        return NOWHERE
    found = request.device(-1)
    return found[0] if found else HOST


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
    """A module in a wrapper, which keeps `device_ids` as it was given; unknown where it may be given unseen."""
    inner = request.argument(0, "module") or UNKNOWN
    ids = request.argument(1, "device_ids") or (UNKNOWN if request.open_ended else NONE)
    step = request.step(f"wrapped by `{request.text}`")
    options = []
    given = list(inner.alternatives())
    # What is wrapped on some paths already is wrapped once: the conditions exclude each other, as far as anybody knows.
    for guards, module in [(g, v) for g, v in given if v.kind is not Kind.WRAPPER] or given:
        if module.kind is Kind.UNKNOWN:
            module = replace(module, kind=Kind.MODULE, likely=True)
        wrapped = Value(
            Kind.WRAPPER,
            module.place,
            name=name,
            inner=module,
            site=site_of(request),
            keys=("device_ids",),
            elements=(ids,),
            depth=ids.depth + 1,
            trail=module.trail,
        )
        options.append((guards, wrapped.stepped(step)))
    return either(options)


def _device(request: Call) -> Value:
    found = request.device(0, "device") or request.device(0, "type")
    if found is None:
        return Value(Kind.DEVICE, PREFERRED if request.node.args else NOWHERE, DEVICE_CLASS, likely=True)
    place, likely = found
    index = request.argument(1, "index")
    if index is not None and isinstance(index.constant, int) and place.sort is Sort.ACCELERATOR:
        place = accelerator(f"{place.name}:{index.constant}")
    return Value(
        Kind.DEVICE,
        place,
        DEVICE_CLASS,
        likely=likely,
        constant=_numbered(request.argument(0, "device") or UNKNOWN),
    )


def _numbered(given: Value) -> str | None:
    """`cuda:0` of `"cuda:0" if torch.cuda.is_available() else "cpu"`: the place knows the type alone."""
    spelt = (str(v.constant) for _, v in given.alternatives() if v.kind is Kind.CONSTANT and given is not v)
    return next((text for text in spelt if parse_device(text) is not None and ":" in text), None)


def _current_accelerator(request: Call) -> Value:
    return Value(Kind.DEVICE, PREFERRED, DEVICE_CLASS)


def _averaged(request: Call) -> Value:
    """`AveragedModel(model, device=None)` calls a copy of a model, at the device if one is named."""
    found = request.device(1)
    copied = deep_copied(request)
    return either((g, v.at(found[0], likely=found[1])) for g, v in copied.alternatives()) if found else copied


def _generator(request: Call) -> Value:
    found = request.device(0, "device")
    place, likely = found if found else (HOST if not request.everything else NOWHERE, False)
    step = request.step(f"made for {place} by `{request.text}`")
    return Value(Kind.OBJECT, place, name="torch.Generator", likely=likely, trail=(step,))


def _array(request: Call) -> Value:
    return Value(Kind.NDARRAY, HOST)


def _collate(request: Call) -> Value:
    return Value(Kind.BATCH, HOST, name=ITEM, ranked=True)


def _loaded(request: Call) -> Value:
    """`torch.load`: whatever was saved, where map_location says or where it was."""
    found = request.device(1, "map_location")
    return replace(UNKNOWN, place=found[0] if found else NOWHERE, likely=True)


def _saved(request: Call) -> Value:
    """`torch.save`: remembers which state dicts it writes."""
    env, node = request.frame.env, request.argument_node(0, "obj")
    path = access_path(node) if node is not None else None
    # `state["model"] = model.state_dict()` keeps the part beside the whole.
    parts = [v for p, v in env.values.items() if path is not None and is_under(p, path)]
    given = request.argument(0, "obj")
    for leaf in [leaf for value in [*parts, *((given,) if given else ())] for leaf in leaves(value)]:
        if leaf.kind is Kind.STATE_DICT:
            request.happened("saved", leaf, "saved here")
    return NONE


def _loader(request: Call) -> Value:
    trail = (request.step(f"comes from `{request.text}`"),)
    makers = [v for v in (request.argument(0, "dataset"), request.argument(6, "collate_fn")) if v is not None]
    place = NOWHERE if any(_may_place(m, request) for m in makers) else HOST
    return Value(Kind.LOADER, place, name="torch.utils.data.DataLoader", trail=trail, pinned=_pins(request))


def _may_place(maker: Value, request: Call) -> bool:
    """Whether a dataset or a collate function may give tensors that aren't on the host."""
    maker = request.frame.analysis.resolve(maker, request.frame.source)
    if maker.place.sort not in (Sort.UNKNOWN, Sort.HOST):
        return True
    text = maker.function.text if maker.function is not None else ""
    if maker.cls is not None:
        text = "".join(owner.text for owner in maker.cls.project_lineage())
    return any(word in text for word in ("cuda", "device", ".to("))


def _pins(request: Call) -> bool | None:
    """Whether a loader pins its batches; `pin_memory=False` is the default."""
    given = request.keywords.get("pin_memory")
    if given is None:
        return None if request.open_ended or len(request.positional) > 7 else False
    return given.constant if isinstance(given.constant, bool) else None


def _compiled(request: Call) -> Value:
    """`torch.compile(model)` passes everything through to the model."""
    return request.argument(0, "model") or UNKNOWN


OUTSIDE: dict[str, Callable[[Call], Value]] = {
    **STANDARD,
    "torch.device": _device,
    "torch.accelerator.current_accelerator": _current_accelerator,
    # The host unless somebody sets another, and then factories follow it.
    "torch.get_default_device": lambda request: Value(Kind.DEVICE, NOWHERE, DEVICE_CLASS),
    "torch.load": _loaded,
    "torch.save": _saved,
    "torch.compile": _compiled,
    "torch.jit.script": _compiled,
    "torch.nn.Sequential": _container("torch.nn.Sequential"),
    "torch.nn.ModuleList": _container("torch.nn.ModuleList"),
    "torch.nn.ModuleDict": _container("torch.nn.ModuleDict"),
    "torch.utils.data.DataLoader": _loader,
    "torch.utils.data.default_collate": _collate,
    "torch.optim.swa_utils.AveragedModel": _averaged,
    "torch.Generator": _generator,
    "wandb.init": lambda r: Value(Kind.OBJECT, name=WANDB_RUN),
    ACCELERATOR: lambda r: Value(Kind.OBJECT, PREFERRED, name=ACCELERATOR, likely=True),
    "accelerate.skip_first_batches": first_argument,
    "numpy.array": _array,
    "numpy.asarray": _array,
}
