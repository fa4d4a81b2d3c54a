"""DEV507: copying batches in a way that can't overlap with other work."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import MOVES, Value, walk
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.hot_loops import stalls

if TYPE_CHECKING:
    from devlint.facts import Facts


class BlockingCopy(Rule):
    """A batch copied with a `non_blocking` that doesn't match its loader's `pin_memory`.

    ## What it does
    Flags a batch that is moved to an accelerator without `non_blocking=True` although its loader pins memory, and one
    that is moved with `non_blocking=True` although its loader doesn't. Silent where the loader isn't seen, or is told
    whether to pin. Opt-in: whether it matters is a question of measuring.

    ## Why is this bad
    From pinned memory the accelerator fetches a batch by itself, while the host goes on; without `non_blocking=True`
    the host waits for it all the same. From ordinary memory a batch goes through a pinned buffer first, and the host
    takes part: the copy can't run beside other work, whatever was asked.

    ## Example
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2, pin_memory=True)
    for batch in loader:
        batch = batch.to(device)
        model(batch).mean().backward()
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2, pin_memory=True)
    for batch in loader:
        batch = batch.to(device, non_blocking=True)
        model(batch).mean().backward()
    ```

    ## Fix safety
    Safe: adding `non_blocking=True` to a copy from pinned memory; the accelerator's work stays in order.
    Unsafe: pinning the loader, which takes host memory that can't be swapped out.

    ## References
    - [A guide on good usage of non_blocking and pin_memory](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
    - [hao-ai-lab/FastVideo 1217](https://github.com/hao-ai-lab/FastVideo/issues/1217)
    """

    code = "DEV507"
    name = "blocking-copy"
    severity = "warning"
    trigger = r"\.\s*(?:cuda|to|xpu)\s*\("
    needs = (r"[lL]oader",)
    default = False
    effect = Effect(syncs=4, words="to")
    seen_as = ("transfer",)
    fix = "S/U"

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(name) for name in MOVES if name != "cpu"))))

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        func = cst.ensure_type(node.func, cst.Attribute)
        batch = facts.value(func.value)
        known = facts.on_accelerator(node) if batch.pinned is not None and not batch.place.off_host else None
        asked = _asks_not_to_block(node)
        if known is None or asked is None or asked == batch.pinned or _moves_itself(node, facts):
            return
        name = facts.name_of(func.value)
        message = (
            f"`{facts.name_of(node)}` makes the host wait for the copy, though `{name}` is in pinned memory"
            if batch.pinned
            else f"`{name}` isn't in pinned memory: the copy can't run beside the host's work, `non_blocking=True` or not"
        )
        change = _not_blocking(node) if batch.pinned else _pinning(batch, facts)
        yield Report(
            node,
            message,
            "likely" if known[1] else "certain",
            notes=facts.notes(batch.trail),
            hint=None if change else "pin the loader's memory: `pin_memory=True`",
            change=change,
        )


def _moves_itself(move: cst.Call, facts: Facts) -> bool:
    """Whether a batch is an object of the project's own: its `to` needn't know `non_blocking`."""
    found = facts.node(move)
    if not isinstance(found, ast.Call) or not isinstance(found.func, ast.Attribute):
        return False
    is_dropped = isinstance(facts.statement, ast.Expr) and facts.statement.value is found
    return is_dropped or stalls.is_no_tensor(found.func.value, facts)


def _asks_not_to_block(call: cst.Call) -> bool | None:
    """What the call says of blocking; None where that is told by something else, or it may not be a copy of a tensor."""
    for argument in call.args:
        if argument.star:
            return None
        if argument.keyword is not None and argument.keyword.value == "non_blocking":
            return argument.value.value == "True" if isinstance(argument.value, cst.Name) else None
        if argument.keyword is None and isinstance(argument.value, cst.Name) and argument.value.value == "True":
            return True
    return False


def _not_blocking(call: cst.Call) -> Change | None:
    if any(a.keyword is not None and a.keyword.value == "non_blocking" for a in call.args):
        return None
    argument = cst.Arg(
        cst.Name("True"),
        cst.Name("non_blocking"),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    return Change("add `non_blocking=True`", "safe", ((call, call.with_changes(args=[*call.args, argument])),))


def _pinning(batch: Value, facts: Facts) -> Change | None:
    """`pin_memory=True` for the loader, where it is made in this file."""
    for step in batch.trail:
        if step.path != facts.model.source.path or not step.message.startswith("comes from"):
            continue
        for node in walk(facts.model.source.tree):
            if isinstance(node, ast.Call) and (node.lineno, node.col_offset) == (step.line, step.column):
                if any(k.arg == "pin_memory" for k in node.keywords):
                    return None
                edit = facts.with_argument(node, "pin_memory=True")
                return Change("pin the loader's memory", "unsafe", edits=(edit,))
    return None
