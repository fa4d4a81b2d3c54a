"""DEV106: an optimizer or scheduler that is moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, Value, calls_in
from devlint.lazy import cst, m
from devlint.rule import Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit

MOVES = ("to", "cuda", "cpu", "xpu")
KINDS = {Kind.OPTIMIZER: "an optimizer", Kind.SCHEDULER: "a scheduler"}


class MovedOptimizer(Rule):
    """`.to()` or `.cuda()` of an optimizer or scheduler, which has no such method.

    ## What it does
    Flags `.to(...)`, `.cuda()`, `.cpu()` and `.xpu()` on an optimizer or learning-rate scheduler of torch, or of a
    class that inherits from one and doesn't define the method.

    ## Why is this bad
    They have no such method: AttributeError. An optimizer makes its state on the device of its parameters, when it first
    steps, and `load_state_dict` copies it there, so there is nothing to move. Move the model instead, before
    the optimizer gets its parameters.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.Linear(2, 2).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = optimizer.to("cuda")
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    model = nn.Linear(2, 2).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ```

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html)
    """

    code = "DEV106"
    name = "moved-optimizer"
    trigger = r"\.\s*(?:to|cuda|cpu|xpu)\s*\("
    effect = Effect(raises="AttributeError", words="has no attribute 'to'")

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        model.ensure(unit.scope)
        methods = (n.func for n in calls_in(unit.node) if isinstance(n.func, ast.Attribute))
        return any(f.attr in MOVES and _lacks(model.value(f.value), f.attr) for f in methods)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(n) for n in MOVES))))

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        func = cst.ensure_type(node.func, cst.Attribute)
        value = facts.value(func.value)
        if not _lacks(value, func.attr.value):
            return
        first = next(option for _, option in value.alternatives())
        yield Report(
            node,
            f"`{facts.name_of(func.value)}` is {KINDS[first.kind]}, which has no `.{func.attr.value}`: AttributeError when it is reached",
            notes=facts.notes(first.trail),
            hint="drop it: the state of an optimizer follows its parameters",
        )


def _lacks(value: Value, method: str) -> bool:
    """Whether a value surely is an optimizer or scheduler without such a method."""
    return all(
        v.kind in KINDS and not v.likely and (v.cls is None or not v.cls.defines(method))
        for _, v in value.alternatives()
    )
