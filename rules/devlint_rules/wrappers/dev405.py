"""DEV405: an optimizer or a loss in a parallel wrapper."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, Value
from devlint.findings import Edit, Span
from devlint.lazy import cst
from devlint.rule import Change, Effect, Report
from devlint_rules.wrappers.unwrapping import DISTRIBUTED, AboutWrapping, wrapping_by

if TYPE_CHECKING:
    from devlint.facts import Facts


class WrappedOptimizer(AboutWrapping):
    """An optimizer, or a loss without parameters, in a parallel wrapper.

    ## What it does
    Flags `DataParallel` and `DistributedDataParallel` around optimizers, schedulers and PyTorch's own loss modules.
    Around a loss, `DataParallel` works, and the finding is `likely`.

    ## Why is this bad
    Wrappers are for models: they split a batch and run `forward`. Around an optimizer, `DataParallel` raises
    `AttributeError` as soon as one GPU is there (it asks for `.to`) or a step is taken (it has no `step`), and its
    `zero_grad()` does nothing; `DistributedDataParallel` asks for parameters. The optimizer needs no wrapper: the
    gradients of all replicas meet in the one copy of the parameters that it knows. A loss has no parameters either:
    `DistributedDataParallel` raises `RuntimeError`, and `DataParallel` sends the gathered outputs out once more, to return
    one loss for each GPU.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(2, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = nn.DataParallel(optimizer)
    optimizer.step()
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(2, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    ```

    ## Fix safety
    Safe: the wrapper goes, and with it each `.module` that reaches through it in this file.

    ## References
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    - [open-mmlab/mmdetection 3372](https://github.com/open-mmlab/mmdetection/issues/3372)
    """

    code = "DEV405"
    name = "wrapped-optimizer"
    effect = Effect(
        raises="AttributeError",
        words="'DataParallel' object has no attribute 'step'|'SGD' object has no attribute 'to'",
    )
    fix = "S"

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        wrapping = wrapping_by(node, facts)
        if wrapping is None:
            return
        called, given, found = wrapping
        options = [v for _, v in facts.value(given.value).alternatives()]
        subject, wrapper = facts.name_of(given.value), called.rsplit(".", 1)[-1]
        certain = not any(v.likely for v in options)
        if all(v.kind in (Kind.OPTIMIZER, Kind.SCHEDULER) for v in options):
            what = "an optimizer" if options[0].kind is Kind.OPTIMIZER else "a scheduler"
            message = (
                f"`{subject}` is {what}, and {wrapper} is for models: AttributeError; the optimizer needs no wrapper"
            )
        elif all(_is_loss(v) for v in options) and called == DISTRIBUTED:
            message = f"`{subject}` is a loss without parameters, which DistributedDataParallel refuses: RuntimeError"
        elif all(_is_loss(v) for v in options):
            message = f"`{subject}` is a loss without parameters: DataParallel gains nothing, and returns one loss for each GPU"
            certain = False
        else:
            return
        yield Report(
            node, message, "certain" if certain else "likely", change=_without_wrapper(node, given.value, found, facts)
        )


# Losses of torch.nn that learn, or that hold a module that may.
_WITH_PARAMETERS = frozenset(
    {
        "torch.nn.AdaptiveLogSoftmaxWithLoss",
        "torch.nn.LinearCrossEntropyLoss",
        "torch.nn.TripletMarginWithDistanceLoss",
    }
)


def _is_loss(value: Value) -> bool:
    return (
        value.kind is Kind.MODULE
        and value.name.startswith("torch.nn.")
        and value.name.endswith("Loss")
        and value.name not in _WITH_PARAMETERS
    )


def _without_wrapper(node: cst.Call, inner: cst.BaseExpression, found: ast.Call, facts: Facts) -> Change:
    title = "take the wrapper off"
    statement = facts.statement
    bare = facts.node(inner)
    if not isinstance(statement, ast.Assign) or statement.value is not found or len(statement.targets) != 1:
        return Change(title, "safe", ((node, inner),))
    target = ast.unparse(statement.targets[0])
    edits = tuple(
        facts.replaced(use, facts.code_of(use.value)) for use in _uses_of_module(statement.targets[0], target, facts)
    )
    if bare is not None and ast.unparse(bare) == target:
        return Change(title, "safe", edits=(*edits, _dropped(statement, facts)))
    return Change(title, "safe", ((node, inner),), edits=edits)


def _uses_of_module(target: ast.expr, text: str, facts: Facts) -> list[ast.Attribute]:
    """Each `optimizer.module`: in the function whose variable it is, else in the whole file."""
    scope: ast.AST = facts.model.source.tree
    if isinstance(target, ast.Name):
        scope = facts.model.enclosing_scope(target)
    return [
        n
        for n in ast.walk(scope)
        if isinstance(n, ast.Attribute) and n.attr == "module" and ast.unparse(n.value) == text
    ]


def _dropped(statement: ast.stmt, facts: Facts) -> Edit:
    """The statement taken out with its line; `pass` where its block would be empty."""
    parent = next(facts.model.ancestors(statement), None)
    blocks = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
    alone = any(block == [statement] for block in blocks)
    span = facts.text.span_of(statement)
    before = facts.text.line(span.line)[: span.column - 1]
    after = facts.text.line(span.end_line)[span.end_column - 1 :]
    if alone or before.strip() or after.strip():
        return facts.replaced(statement, "pass")
    return Edit(Span(span.line, 1, span.end_line + 1, 1), "")
