"""Frameworks that place things by themselves: what their objects do with what they are given.

Source: accelerate.Accelerator (https://huggingface.co/docs/accelerate/package_reference/accelerator). `prepare` moves
modules to the accelerator, in place, and makes loaders that put their batches there. The trainers of Lightning and
transformers do the same with a model and the batches of its steps.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from devlint.knowledge.ecosystem import ACCELERATE_PASSING, ACCELERATE_PREPARING, STEP_METHODS, StepMethods
from devlint.placement.values import (
    ITEM,
    NONE,
    PREFERRED,
    UNKNOWN,
    Guard,
    Sort,
    Step,
    Value,
    either,
    replace,
    sequence,
    with_parts,
)
from devlint.source.kinds import Kind

if TYPE_CHECKING:
    from devlint.placement.classes import ClassModel
    from devlint.placement.request import Call
    from devlint.source.modules import FunctionModel

ACCELERATOR = "accelerate.Accelerator"
_DDP = "torch.nn.parallel.DistributedDataParallel"


def accelerator_method(request: Call, name: str) -> Value | None:
    """`accelerator.name(...)`; None for what isn't told of."""
    given = request.positional
    if name in ACCELERATE_PREPARING and given and not request.open_ended:
        nodes = [a for a in request.node.args if not isinstance(a, ast.Starred)]
        prepared = [
            _prepared(request, value, nodes[i] if i < len(nodes) else None, len(given)) for i, value in enumerate(given)
        ]
        return prepared[0] if len(prepared) == 1 else sequence(prepared)
    if name in ACCELERATE_PASSING and given:
        return given[0]
    if name == "unwrap_model" and given:
        return either((g, v.inner if v.kind is Kind.WRAPPER and v.inner else v) for g, v in given[0].alternatives())
    return NONE if name == "backward" else None


def step_methods(function: FunctionModel, cls: ClassModel) -> StepMethods | None:
    """What a framework gives a method that it calls with each batch; None for other methods."""
    fitting = (known for known in STEP_METHODS if function.name in known.methods)
    return next((known for known in fitting if not known.bases.isdisjoint(cls.outside_bases)), None)


def given_by_trainer(function: FunctionModel, known: StepMethods, values: dict[str, Value]) -> dict[str, Value]:
    """The modules and batches of a step, where the framework puts them; what callers in the project give stays."""
    step = Step(
        f"the trainer has put the model and the batch on the accelerator when it calls `{function.name}`",
        function.source.path,
        function.node.lineno,
        function.node.col_offset,
    )

    def moved(value: Value) -> Value:
        movable = value.kind in (Kind.MODULE, Kind.BATCH, Kind.TENSOR) and value.place.sort is Sort.UNKNOWN
        return value.at(PREFERRED, step, likely=True) if movable else value

    names = [argument.arg for argument in function.parameters]
    unknown = {position: Value(Kind.MODULE) for position in known.modules}
    unknown |= {position: Value(Kind.BATCH, name=ITEM) for position in known.batches}
    return {
        name: with_parts(unknown[position] if values[name] == UNKNOWN else values[name], moved)
        for position, name in enumerate(names)
        if position in unknown
    }


# Names that people give to models; what else is prepared are optimizers, schedulers and loaders.
_MODEL_NAME = re.compile(
    r"(?i)(?:.*_)?(?:model|net|network|unet|vae|transformer|encoder(?:_\w{1,30})?|policy|controlnet|critic)\d*"
)
# Under several processes, or a launcher's settings, what comes back is wrapped.
_WRAPPED = Guard("the launcher starts several processes", True)


def _is_called_model(node: ast.expr | None) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return _MODEL_NAME.fullmatch(name) is not None


def _prepared(request: Call, value: Value, node: ast.expr | None, together: int) -> Value:
    step = request.step(f"prepared for the accelerator by `{request.text}`")
    options = []
    for guards, option in value.alternatives():
        if option.kind is Kind.UNKNOWN and _is_called_model(node):
            option = Value(Kind.MODULE, likely=True)
        if option.is_module:
            for site in filter(None, (option.site, option.inner.site if option.inner is not None else "")):
                request.frame.env.move_site(site, PREFERRED, step, likely=True)
        if option.is_module or option.kind is Kind.LOADER:
            # Settings of the launcher may have it otherwise. What comes back may be a wrapper: it is no longer known by
            # where it was made.
            option = replace(option.at(PREFERRED, step, likely=True), site="")
        if option.kind is Kind.MODULE and together > 1:
            # A model that is prepared with its optimizer is trained; one that is prepared alone may be left as it is.
            wrapped = Value(Kind.WRAPPER, option.place, name=_DDP, likely=True, inner=option, trail=option.trail)
            options.append((guards | {_WRAPPED}, wrapped))
            guards = guards | {Guard(_WRAPPED.condition, False)}
        options.append((guards, option))
    return either(options)
