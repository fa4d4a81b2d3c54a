"""DEV404: one loss for each replica, and no reduction."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import GATHERED, Kind, Value, calls_in, last_name
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts


class VectorLoss(Rule):
    """`.backward()` on the loss that `DataParallel` returns, which is one number for each GPU.

    ## What it does
    Flags `.backward()` on what a `DataParallel` object returned, where nothing reduced it to one number: as it came, as
    a part of the result (`outputs.loss`), after arithmetic, or through `scaler.scale(...)`. Wrappers with
    one device, `DistributedDataParallel` (a process has one replica), and code that asks for the number of dimensions are
    left alone. Where the `forward` can't be seen the finding is `likely`.

    ## Why is this bad
    The module runs once for each GPU, each run returns a loss of its own, and the wrapper puts them into one vector
    (PyTorch warns: "Was asked to gather along dimension 0, but all input tensors were scalars"). With two GPUs
    `backward()` raises `RuntimeError: grad can be implicitly created only for scalar outputs`; with one it works, so
    that the author may never see it.

    ## Example
    ```python
    import torch
    from torch import nn


    class NetWithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x, labels):
            return nn.functional.cross_entropy(self.fc(x), labels)


    model = nn.DataParallel(NetWithLoss().cuda())
    x, labels = torch.zeros(8, 4).cuda(), torch.zeros(8, dtype=torch.long).cuda()
    loss = model(x, labels)
    loss.backward()
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class NetWithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x, labels):
            return nn.functional.cross_entropy(self.fc(x), labels)


    model = nn.DataParallel(NetWithLoss().cuda())
    x, labels = torch.zeros(8, 4).cuda(), torch.zeros(8, dtype=torch.long).cuda()
    loss = model(x, labels).mean()
    loss.backward()
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: `.mean()` changes nothing about a single number, but what else is done with the losses of
    each GPU (`loss.item()`) fails as before. Not offered where the function takes the mean on another path.

    ## References
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    - [pytorch/pytorch 9811](https://github.com/pytorch/pytorch/issues/9811)
    """

    code = "DEV404"
    name = "vector-loss"
    trigger = r"\.backward\s*\("
    effect = Effect(raises="RuntimeError", words="grad can be implicitly created only for scalar outputs", devices=2)
    fix = "D"

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Attribute(attr=m.Name("backward")))

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        if not isinstance(node.func, cst.Attribute) or _has_gradient(node):
            return
        loss = _unscaled(node.func.value, facts)
        options = [v for _, v in facts.value(loss).alternatives()]
        vector = next((v for v in options if _is_gathered(v)), None)
        if vector is None or _asks_for_dimensions(loss, facts) or _is_of_one_device(vector, facts):
            return
        sometimes = not all(_is_gathered(v) for v in options)
        when = "where the model is wrapped, " if sometimes else ""
        averaged = _is_averaged_before(loss, facts)
        yield Report(
            node,
            f"{when}`{facts.name_of(loss)}` is what DataParallel returned, one loss for each GPU: with more than one, "
            "`backward()` raises RuntimeError",
            "likely" if vector.kind is Kind.BATCH else "certain",
            notes=facts.notes(s for s in vector.trail if s.message.startswith("wrapped by")),
            hint=f"take the mean where `{facts.name_of(loss)}` is computed" if averaged else None,
            change=None if averaged else Change("take the mean of the losses", "display", ((loss, _mean(loss)),)),
        )


def _has_gradient(node: cst.Call) -> bool:
    """`backward(gradient)` takes vectors too."""
    return any(a.star or a.keyword is None or a.keyword.value == "gradient" for a in node.args)


def _unscaled(loss: cst.BaseExpression, facts: Facts) -> cst.BaseExpression:
    """What a gradient scaler multiplies: `scaler.scale(loss)` is a vector where the loss is one."""
    if m.matches(loss, m.Call(func=m.Attribute(attr=m.Name("scale")), args=[m.Arg(keyword=None, star="")])):
        assert isinstance(loss, cst.Call)
        assert isinstance(loss.func, cst.Attribute)
        scaler = facts.value(loss.func.value)
        if scaler.name.endswith("GradScaler") or "scaler" in facts.name_of(loss.func.value).lower():
            return loss.args[0].value
    return loss


def _is_gathered(value: Value) -> bool:
    return value.name == GATHERED and value.kind in (Kind.TENSOR, Kind.BATCH)


def _is_of_one_device(vector: Value, facts: Facts) -> bool:
    """Whether the wrapper is told one device, `device_ids=[0]`: then it calls the model and gathers nothing."""
    lines = {s.line for s in vector.trail if s.message.startswith("wrapped by") and s.path == facts.model.source.path}
    calls = [n for n in calls_in(facts.model.source.tree) if last_name(n.func) == "DataParallel"]
    # Where the trail is lost, all wrappers of the file count.
    ids = [k.value for c in calls if not lines or c.lineno in lines for k in c.keywords if k.arg == "device_ids"]
    of_one = [isinstance(i, (ast.List, ast.Tuple)) and len(i.elts) == 1 for i in ids]
    return bool(of_one) and all(of_one) and (bool(lines) or len(of_one) == len(calls))


def _asks_for_dimensions(loss: cst.BaseExpression, facts: Facts) -> bool:
    """`if loss.dim() > 0: loss = loss.mean()` stands somewhere in the function."""
    found = facts.node(loss)
    if found is None:
        return False
    text = re.escape(ast.unparse(found))
    asks = re.compile(rf"\b{text}\.(?:dim|ndim|numel|shape|size)\b|\b(?:len|ndim|is_scalar)\({text}")
    scope = facts.model.enclosing_scope(found)
    return any(isinstance(n, (ast.If, ast.IfExp)) and asks.search(ast.unparse(n.test)) for n in ast.walk(scope))


def _is_averaged_before(loss: cst.BaseExpression, facts: Facts) -> bool:
    """Whether `loss = loss.mean()` stands in the function, on another path: which of them has several losses, the reader knows."""
    found = facts.node(loss)
    if not isinstance(found, ast.Name):
        return False
    reductions = (
        f.attr
        for value in facts.model.assigned_values(found)
        if isinstance(value, ast.Call) and isinstance(f := value.func, ast.Attribute)
    )
    return any(name in ("mean", "sum") for name in reductions)


def _mean(loss: cst.BaseExpression) -> cst.Call:
    """`loss.mean()`, an operation in brackets."""
    takes_a_dot = isinstance(loss, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or loss.lpar
    owner = loss if takes_a_dot else loss.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.Call(cst.Attribute(owner, cst.Name("mean")))
