"""Frameworks that place things by themselves: Accelerate, Fabric, DeepSpeed, ignite.

Sources: accelerate.Accelerator (https://huggingface.co/docs/accelerate/package_reference/accelerator), Fabric's methods
(https://lightning.ai/docs/fabric/stable/api/fabric_methods.html), deepspeed.initialize
(https://deepspeed.readthedocs.io/en/latest/initialize.html), ignite.engine.create_supervised_trainer
(https://docs.pytorch.org/ignite/generated/ignite.engine.create_supervised_trainer.html: the model isn't moved).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from devlint.knowledge.ecosystem import ACCELERATE_PASSING, ACCELERATE_PREPARING, STEP_METHODS, StepMethods
from devlint.regexes import regex
from devlint.signatures.libraries.devices import CUDA, named_device
from devlint.signatures.state.frame import Call, Frame
from devlint.signatures.state.objects import FRAMEWORK, move, place_of
from devlint.signatures.values.values import (
    BATCH,
    CONSTANT,
    LOADER,
    MODULE,
    MODULES,
    NOTHING,
    RANKED,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    WRAPPER,
    Parts,
    Place,
    Value,
    either,
    mapped,
    unwrapped,
)
from devlint.source.modules import FunctionModel

Meaning = Callable[[Call], Value]

# Names that people give to models: what else is handed over are optimizers, schedulers and loaders.
_MODEL = regex(
    r"(?i)(?:.{0,60}_)?(?:model|net|network|unet|vae|transformer|encoder(?:_\w{1,30})?|policy|controlnet|critic|actor|generator|discriminator)\d{0,3}"
)


class Framework(NamedTuple):
    """What the methods of a framework's object do with what they are given."""

    # They move modules to the accelerator, and have loaders put their batches there.
    placing: frozenset[str]
    # They hand back what they are given.
    passing: frozenset[str]
    # Arguments of the constructor and of these methods that may leave things where they are, each with the values that don't.
    leaving: Mapping[str, tuple[object, ...]]


_FABRIC = Framework(
    frozenset({"setup", "setup_module", "setup_dataloaders", "to_device"}),
    frozenset({"all_reduce", "broadcast", "setup_optimizers"}),
    {"accelerator": ("cuda", "gpu"), "move_to_device": (True,)},
)
_ACCELERATE = "accelerate.Accelerator"
_DDP = "torch.nn.parallel.DistributedDataParallel"
FRAMEWORKS = {
    _ACCELERATE: Framework(
        ACCELERATE_PREPARING,
        ACCELERATE_PASSING | {"unwrap_model"},
        {"device_placement": (True,), "cpu": (False,)},
    ),
    **dict.fromkeys(("lightning.fabric.Fabric", "lightning.Fabric", "lightning_fabric.Fabric"), _FABRIC),
}  # fmt: skip


def meaning(name: str) -> Meaning | None:
    """What calls of something of a framework do; None where nothing is known."""
    if name in FRAMEWORKS:
        return lambda call: _made(call, name)
    return _FUNCTIONS.get(name)


def _made(call: Call, name: str) -> Value:
    """A framework's object; of one that may leave things on the host the place isn't known."""
    may_leave = call.open_ended or _may_leave(call, FRAMEWORKS[name])
    return Value(FRAMEWORK, UNKNOWN_PLACE if may_leave else CUDA, data=name, likely=True)


def _may_leave(call: Call, framework: Framework) -> bool:
    """Whether an argument says, or may say, that things stay where they are."""
    given = {name: call.keywords[name][1] for name in framework.leaving if name in call.keywords}
    return any(v.kind is not CONSTANT or v.data not in framework.leaving[name] for name, v in given.items())


def method(call: Call, owner: Value, name: str) -> Value:
    """`accelerator.prepare(model)`, `fabric.setup(model)` and the like."""
    known = FRAMEWORKS[owner.data]
    given = [value for _, value in call.given]
    if name in known.placing:
        if call.open_ended or _may_leave(call, known):
            return call.fresh()
        placed = [_placed(call, node, value, owner.place) for node, value in call.given]
        if owner.data == _ACCELERATE and len(placed) > 1:
            # A model that is prepared with its optimizer is trained; one that is prepared alone may be left as it is.
            placed = [mapped(value, lambda v: _maybe_wrapped(call, v), call.frame.atoms) for value in placed]
        return placed[0] if len(placed) == 1 else Value(TUPLE, parts=tuple(placed))
    if name == "unwrap_model" and given:
        return mapped(given[0], unwrapped, call.frame.atoms)
    if name in known.passing and given:
        return given[0]
    # Nothing else moves what it is given.
    return call.fresh()


def _maybe_wrapped(call: Call, option: Value) -> Value:
    """A module that comes back wrapped where the launcher starts several processes."""
    if option.kind is not MODULE:
        return option
    step = call.step(f"wrapped by `{call.text}`")
    wrapper = Value(WRAPPER, data=_DDP, parts=(option,), likely=True, step=step)
    several = call.frame.atoms.literal(("several processes",))
    return either([(several, wrapper), (call.frame.atoms.negated(several), option)], call.frame.atoms)


def _placed(call: Call, node: ast.expr, value: Value, place: Place = CUDA) -> Value:
    """What comes of handing something over: modules are moved in place, loaders are made anew."""
    step = call.step(f"prepared for the accelerator by `{call.text}`")
    there = Value(TENSOR, place, likely=True, step=step)

    def placed(option: Value) -> Value:
        if option.kind in MODULES:
            # Settings of the launcher may have wrapped it.
            call.frame.env[option.identity, PREPARED] = there
            return option
        if option.kind is LOADER or (option.kind is UNKNOWN and _is_named(node, _LOADER)):
            return Value(LOADER, place, likely=True, step=step)
        if option.kind in (TENSOR, BATCH):
            return option.but(place=place, likely=True, step=step)
        if option.kind is UNKNOWN and _is_named(node, _MODEL) and not _is_asked_by_key(call.frame, node):
            return Value(MODULE, place, likely=True, step=step)
        return option

    move(call.frame, value, there, step)
    return mapped(value, placed, call.frame.atoms)


# A module was handed to a framework: what comes back may be another one.
PREPARED = "prepared"
_LOADER = regex(r"(?i).{0,60}(?:loader|_dl)\d{0,3}")


def _is_named(node: ast.expr, pattern: re.Pattern[str]) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return pattern.fullmatch(name) is not None


def _is_asked_by_key(frame: Frame, node: ast.expr) -> bool:
    """Whether a file asks a thing for its parts by key: `model[key].train()`. A dict of modules comes back as it is."""
    return re.search(rf"(?<![\w.]){re.escape(ast.unparse(node))}\[[\"'A-Za-z_]", frame.source.text) is not None


def _deepspeed(call: Call) -> Value:
    """`deepspeed.initialize`: the model's engine, the optimizer, the loader (its batches stay on the host), the scheduler."""
    pair = call.pair(1, "model")
    if pair is None or call.open_ended:
        return call.fresh()
    node, model = pair
    # The engine has methods of its own (`backward`, `step`), whatever the model was wrapped in before.
    engine = _placed(call, node, mapped(model, unwrapped, call.frame.atoms))
    return Value(TUPLE, parts=(engine, call.fresh(), Value(LOADER, UNKNOWN_PLACE, likely=True), call.fresh()))


def is_called_by_trainer(function: FunctionModel) -> bool:
    """Whether a method goes by the name of one that a framework calls with each batch."""
    return any(function.name in known.methods for known in STEP_METHODS)


def is_step(function: FunctionModel, bases: Collection[str]) -> bool:
    """Whether a framework calls a method of a class with these bases with each batch."""
    return _steps_of(function, bases) is not None


def _steps_of(function: FunctionModel, bases: Collection[str]) -> StepMethods | None:
    """What a framework gives a method that it calls with each batch; None for other methods."""
    return next((k for k in STEP_METHODS if function.name in k.methods and not k.bases.isdisjoint(bases)), None)


def placed_by_trainer(frame: Frame, function: FunctionModel, bases: Collection[str]) -> None:
    """The modules and batches of a step that a framework calls, where it puts them."""
    known = _steps_of(function, bases)
    if known is None:
        return
    message = f"the trainer has put the model and the batch on the accelerator when it calls `{function.name}`"
    step = frame.step(message, function.node)
    there = Value(TENSOR, CUDA, likely=True, step=step)
    for position, argument in enumerate(function.parameters):
        given = frame.env[argument.arg]
        if position in known.modules:
            if given.kind is UNKNOWN:
                frame.env[argument.arg] = Value(MODULE, CUDA, likely=True, step=step, path=given.path)
            elif place_of(frame, given).place.sort not in ("host", "accelerator"):
                move(frame, given, there, step)
        elif position in known.batches and given.place.sort not in ("host", "accelerator"):
            is_plain = given.kind is UNKNOWN and not isinstance(given.data, Parts)
            frame.env[argument.arg] = given.but(
                kind=BATCH if is_plain else given.kind,
                place=CUDA,
                likely=True,
                step=step,
                data="item" if is_plain else given.data,
            )


def _supervised(position: int) -> Meaning:
    """ignite's engines: each batch is moved to `device=`, the model is left where it is."""

    def made(call: Call) -> Value:
        model, device = call.pair(0, "model"), named_device(call, position)
        if model is not None and device is not None and any(o.kind in MODULES for _, o in model[1].options()):
            at = mapped(place_of(call.frame, model[1]), lambda p: Value(MODULE, p.place, step=p.step), call.frame.atoms)
            step = call.step(f"`{call.text}` moves each batch there")
            batch = mapped(
                device, lambda d: Value(BATCH, d.place, rank=RANKED, likely=True, step=step), call.frame.atoms
            )
            named = call.pair(position, "device")
            if named is not None:
                call.frame.need("call", call.node, call.text, (named[0], batch), (model[0], at))
        return NOTHING

    return made


_FUNCTIONS: dict[str, Meaning] = {
    "deepspeed.initialize": _deepspeed,
    "ignite.engine.create_supervised_trainer": _supervised(3),
    "ignite.engine.create_supervised_evaluator": _supervised(2),
}
