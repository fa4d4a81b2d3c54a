"""DEV210: a result that is on the host on one path, and where the inputs are on another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import calls_in, text_of_path
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.mixing.created import takes_device
from devlint_rules.mixing.results import is_made_of, is_only_read

if TYPE_CHECKING:
    from devlint.facts import Facts, Mixed, PlacementModel, Unit


class MixedResult(Rule):
    """A result that is on the host on one path, and with the inputs on another.

    ## What it does
    Flags a factory without `device=` whose tensor a function returns on one of its paths (the empty input, the default, the
    value out of range), where another path returns what is computed from an input. Left alone are functions that are meant for the
    host by their name or class, those whose callers in the same file all move the result, and results made of an array, or of an
    input that has to be on the host. A tensor without dimensions, which meets others wherever they are, one that all callers only read,
    and a path that no call takes are told only where the rule is selected by its code.

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    The path is rare, and its result is on the wrong device: the caller raises `RuntimeError: Expected all tensors to be on
    the same device`, for example at the first batch without a box, or passes a host tensor on to others.

    ## Example
    ```python
    import torch


    def centres(boxes):
        if boxes.shape[0] == 0:
            return torch.zeros(1, 2)
        return (boxes[:, :2] + boxes[:, 2:]) / 2


    target = torch.ones(1, 2, device="cuda")
    loss = (centres(torch.ones(0, 4, device="cuda")) - target).abs().sum()
    ```

    ## Use instead
    ```python
    import torch


    def centres(boxes):
        if boxes.shape[0] == 0:
            return torch.zeros(1, 2, device=boxes.device)
        return (boxes[:, :2] + boxes[:, 2:]) / 2


    target = torch.ones(1, 2, device="cuda")
    loss = (centres(torch.ones(0, 4, device="cuda")) - target).abs().sum()
    ```

    ## Fix safety
    Safe: the tensor is made on the device of the other result. Programs that work today have that on the host.

    ## References
    - [CUDA semantics: device-agnostic code](https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code)
    - [Lightning-AI/torchmetrics 1973](https://github.com/Lightning-AI/torchmetrics/pull/1973)
    """

    code = "DEV210"
    name = "mixed-result"
    trigger = r"\b(?:arange|linspace|logspace|eye|zeros|ones|empty|full|rand|randn|randint|randperm|tensor|from_numpy|\w*Tensor)\("
    needs = (r"\breturn\b", r"\bdef\s")
    default = False
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device")
    meets_elsewhere = True
    fix = "S"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return unit.scope is not None and any((n.lineno, n.col_offset) in model.mixed for n in calls_in(unit.node))  # fmt: skip

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        if not isinstance(call, ast.Call) or (
            isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)
        ):
            return
        mixed = facts.model.mixed.get((call.lineno, call.col_offset))
        if mixed is None or any(k.arg == "device" for k in call.keywords) or _is_moved_by_callers(mixed, facts):
            return
        name = mixed.other.place.name
        if call in facts.model.unplaced or is_made_of(call, str(name[0]), facts.model):
            # It meets an input before anything is returned, or only comes about where that is on the host.
            return
        where = text_of_path(name).replace("\N{PRIME}", "")
        told = mixed.other.place.sort == "told"
        yield Report(
            node,
            f"`{mixed.function.name}` returns this on cpu, and on other paths what is "
            f"{'on' if told else 'where'} `{where}`{'' if told else ' is'}",
            "likely",
            change=_there(node, call, where, told, mixed, facts),
            minor=_is_minor(call, mixed, facts),
        )


def _is_minor(call: ast.Call, mixed: Mixed, facts: Facts) -> bool:
    """Whether the result meets others wherever they are, having no dimension, or meets none; or nobody comes by it."""
    return (
        not mixed.has_dimensions
        or facts.model.choices.is_never_made(call)
        or is_only_read(mixed.function, mixed.at, facts.model)
    )


def _there(node: cst.Call, call: ast.Call, where: str, told: bool, mixed: Mixed, facts: Facts) -> Change | None:
    """The factory with the device of the input, where that has a plain name and is there on this path."""
    given = {a.arg for a in mixed.function.parameters} - set(mixed.function.defaults)
    root = where.split(".")[0]
    if (
        root not in given
        or root == "self"
        or not takes_device(call)
        or not where.replace(".", "").isidentifier()
        or (not told and _is_several(root, mixed.function.node))
    ):
        return None
    device = where if told else f"{where}.device"
    return Change(f"make it there: `device={device}`", "safe", edits=(facts.with_argument(call, f"device={device}"),))


def _is_several(name: str, function: ast.AST) -> bool:
    """Whether a parameter may be a list of tensors: the function goes through it, or binds it anew."""
    for node in ast.walk(function):
        match node:
            case ast.For(iter=ast.Name(id=used)) | ast.comprehension(iter=ast.Name(id=used)) if used == name:
                return True
            case ast.Name(id=used, ctx=ast.Store()) if used == name:
                return True
    return False


def _is_moved_by_callers(mixed: Mixed, facts: Facts) -> bool:
    """Whether each call of the function in this file is moved at once."""
    calls = [c for c in facts.model.calls(mixed.function.name) if c is not None]
    moved = [_is_moved(c, facts) for c in calls]
    return bool(moved) and all(moved)


def _is_moved(call: ast.Call, facts: Facts) -> bool:
    parent = next(facts.model.ancestors(call), None)
    return isinstance(parent, ast.Attribute) and parent.attr in ("to", "cuda", "cpu", "type_as", "item", "tolist")
