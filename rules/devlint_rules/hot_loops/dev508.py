"""DEV508: copying the same host tensor to the accelerator at each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import HOST, MOVES, Kind, Value, access_path, last_name, own_nodes
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.beside import has_twin
from devlint_rules.hot_loops import stalls
from devlint_rules.hot_loops.gains import waits_for_batch
from devlint_rules.hot_loops.invariants import Changes
from devlint_rules.hot_loops.other_waits import waits_anyway
from devlint_rules.moves.small import HANDFUL, is_handful

if TYPE_CHECKING:
    from devlint.facts import Facts, HotLoop, PlacementModel, Unit

BUILDERS = {"torch.tensor", "torch.as_tensor", "torch.asarray"}


# A loop that reads the clock.
_TIMES = regex(r"\btime\(\)|\bperf_counter\w{0,3}\(\)|\bmonotonic\(\)|\belapsed_time\(")


class HostTensorInHotLoop(Rule):
    """The same host tensor copied to the accelerator at each step.

    ## What it does
    Flags a move of a host tensor to an accelerator, and `torch.tensor(..., device=...)`, at each pass of a hot loop
    where the tensor doesn't depend on the pass: its values are spelt out, or come from before the loop. Left alone:
    tensors that the loop changes in place, random ones, and those that are made on the device to begin with.

    By default it tells of what it has a fix for, but for a handful of numbers in a step that waits for the copy of its batch all the same;
    of the rest where it is selected by its code, as in `--select DEV508`.

    ## Why is this bad
    Each pass makes the same tensor and copies it again, and the host waits for the copy. Made once before the loop, it
    costs nothing.

    ## Example
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 3).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    weights = torch.tensor([0.2, 0.3, 0.5])
    for batch in loader:
        output = model(batch.to(device)) * weights.cuda()
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 3).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    weights = torch.tensor([0.2, 0.3, 0.5])
    weights_on_device = weights.cuda()
    for batch in loader:
        output = model(batch.to(device)) * weights_on_device
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: code outside of the file's sight may change the tensor while the loop runs. Not offered for one number, and
    for what the loop makes in several places.

    ## References
    - [Performance Tuning Guide: create tensors directly on the target device](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "DEV508"
    name = "host-tensor-in-hot-loop"
    severity = "warning"
    trigger = r"\.\s*(?:cuda|to|xpu|mps)\s*\(|\b(?:tensor|as_tensor|asarray)\s*\("
    needs = stalls.NEEDS
    only_hot = True
    only_training = True
    effect = Effect(syncs=4, words="cuda")
    seen_as = ("transfer",)
    fix = "D"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return stalls.reads_accelerator(unit, model)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        copied = _copied(node, facts)
        known = facts.on_accelerator(node) if copied is not None else None
        hot = facts.hot_loop(node) if known is not None else None
        if copied is None or known is None or hot is None or isinstance(hot.node, ast.comprehension):
            return
        if isinstance(facts.statement, ast.Return):
            # What to give where there is nothing to compute: whoever gets it may change it.
            return
        around = hot.node or facts.model.enclosing_scope(facts.statement)
        changes = Changes(around, facts)
        if not changes.leave(copied) or _is_changed(facts.node(node), facts.statement, around):
            return
        value, likely = known
        timed = hot.node is not None and _TIMES.search(facts.code_of(hot.node)) is not None
        # What is measured is to be measured as before.
        change = None if timed else _hoisted(node, copied, hot, changes, facts)
        yield Report(
            node,
            f"`{facts.name_of(node)}` copies the same host tensor to {stalls.place_of(value)} at each step",
            "likely" if likely or hot.likely else "certain",
            notes=stalls.loop_notes(hot, value, facts),
            hint=None if change else "make it once before the loop",
            change=change,
            minor=change is None or (_is_few(copied, facts) and waits_for_batch(hot, facts)),
        )


def _copied(node: cst.Call, facts: Facts) -> ast.expr | None:
    """What a call copies from the host: the tensor that it moves, or the data that it makes one of."""
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in MOVES:
        receiver = facts.value(node.func.value)
        return facts.node(node.func.value) if _on_host(receiver) else None
    if facts.qualified(node.func) not in BUILDERS or not node.args:
        return None
    keywords = {a.keyword.value for a in node.args if a.keyword is not None}
    if "device" not in keywords or "requires_grad" in keywords or facts.value(node.args[0].value).is_tensor:
        return None
    return facts.node(node.args[0].value)


def _on_host(value: Value) -> bool:
    options = [v for _, v in value.alternatives()]
    return all(v.kind is Kind.TENSOR and v.place == HOST and not v.likely for v in options)


def _is_changed(made: ast.expr | None, statement: ast.stmt, around: ast.AST) -> bool:
    """The loop needs a fresh one each time: it adds to it, writes into it, or puts something else in its place."""
    match statement:
        case ast.Assign(targets=targets, value=value) if value is made:
            paths = [access_path(t) for t in targets]
        case ast.AnnAssign(target=target, value=value) if value is made:
            paths = [access_path(target)]
        case _:
            return False
    return any(
        path is None or _changes(node, path) for path in paths for node in own_nodes(around) if node is not statement
    )


def _changes(node: ast.AST, path: str) -> bool:
    match node:
        case ast.Assign(targets=targets):
            return any(_is_of(t, path) for t in targets)
        case ast.AugAssign(target=target) | ast.For(target=target):
            return _is_of(target, path)
        case ast.Call(func=ast.Attribute(value=receiver, attr=name), args=args):
            # Also `nn.init.normal_(x)`, `x.data.uniform_()`.
            return name.endswith("_") and any(_is_of(part, path) for part in (receiver, *args))
        case ast.keyword(arg="out", value=value):
            return access_path(value) == path
    return False


def _is_of(node: ast.expr, path: str) -> bool:
    """Whether a node is a thing, or a part of it, also one that is only known as the loop runs: `x.grad`, `x[i]`."""
    while isinstance(node, (ast.Subscript, ast.Attribute)) and access_path(node) != path:
        node = node.value
    return access_path(node) == path


# They are given the numbers themselves.
_OF_NUMBERS = frozenset({"tensor", "as_tensor", "scalar_tensor"})


def _is_one_number(copied: ast.expr, facts: Facts) -> bool:
    """`torch.tensor(0.0)`, `0.0`: what is copied is one number that is written there."""
    while (
        isinstance(copied, ast.Call)
        and isinstance(copied.func, ast.Attribute)
        and isinstance(copied.func.value, ast.Call)
    ):
        # `torch.tensor(0).float()`
        copied = copied.func.value
    match copied:
        case ast.Call(func=func, args=[ast.Constant()]):
            return last_name(func) in _OF_NUMBERS
    return isinstance(copied, ast.Constant)


def _is_few(copied: ast.expr, facts: Facts) -> bool:
    """Whether what is copied is a handful of numbers, by what is written: `torch.zeros(1)`, `torch.tensor([0, 1])`, `0.0`."""
    if _is_one_number(copied, facts):
        return True
    match copied:
        # What other factories are given so are sizes.
        case ast.Call(func=func, args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]) if last_name(
            func
        ) in _OF_NUMBERS and all(isinstance(part, ast.Constant) for part in parts):
            return len(parts) <= HANDFUL
    return isinstance(copied, ast.Call) and is_handful(facts.model.qualified(copied.func) or "", copied)


def _hoisted(node: cst.Call, copied: ast.expr, hot: HotLoop, changes: Changes, facts: Facts) -> Change | None:
    """The tensor made before the loop; a statement that only makes it moves there, another one uses a new name."""
    loop, found = stalls.statement_loop(hot), facts.node(node)
    if loop is None or found is None or not all(changes.leave(a) for a in _device_arguments(found)):
        return None
    if _is_one_number(copied, facts):
        # A start for a sum, or a loss that may be none: it is made in its place, as DEV105 and DEV511 say how.
        return None
    statement = facts.statement
    if isinstance(found, ast.Call) and has_twin(found, loop, but=statement):
        return None
    if _is_one_of_many(found, loop, changes, facts):
        return None
    code = facts.code_of(found)
    if isinstance(statement, ast.Assign) and statement.value is found and isinstance(statement.targets[0], ast.Name):
        if statement not in loop.body or len(loop.body) < 2 or statement.lineno == loop.lineno:
            return None
        return Change(
            "make it once, before the loop",
            "display",
            edits=(facts.inserted_before(loop, facts.code_of(statement)), facts.removed(statement)),
        )
    name = _name_for(found, facts)
    if not name or name in facts.text.text:
        return None
    return Change(
        "move it once, before the loop",
        "display",
        ((node, cst.Name(name)),),
        (facts.inserted_before(loop, f"{name} = {code}"),),
    )


def _is_one_of_many(copy: ast.expr, loop: ast.stmt, changes: Changes, facts: Facts) -> bool:
    """Whether a loop copies more from the host's data, or waits for something else: one copy less is nothing beside those."""
    if waits_anyway(copy, loop, facts, lambda _: False):
        return True
    inside = {id(n) for n in ast.walk(copy)}
    return any(
        isinstance(n, ast.Call)
        and id(n) not in inside
        and last_name(n.func) in ("tensor", "as_tensor", "from_numpy", "FloatTensor", "LongTensor")
        and facts.model.hot_loop(n) is not None
        and not (all(map(changes.leave, n.args)) and (_name_for(n, facts) or _is_kept(n, facts)))
        for n in own_nodes(loop)
    )


def _is_kept(copy: ast.expr, facts: Facts) -> bool:
    """Whether a statement only gives a copy a name."""
    match facts.model.source.statement_of(copy):
        case ast.Assign(targets=[ast.Name()], value=ast.Call() as value):
            return copy in ast.walk(value)
    return False


def _name_for(copy: ast.expr, facts: Facts) -> str:
    """What to call a copy, by what it is a copy of, or by the argument that it is given for; "" where nothing says that."""
    if not isinstance(copy, ast.Call):
        return ""
    is_move = isinstance(copy.func, ast.Attribute) and copy.func.attr in MOVES
    data = copy.func.value if isinstance(copy.func, ast.Attribute) and is_move else copy.args[0]
    if isinstance(data, (ast.Name, ast.Attribute)):
        return f"{last_name(data)}_on_device"
    parent = next(facts.model.ancestors(copy), None)
    return f"{parent.arg}_on_device" if isinstance(parent, ast.keyword) and parent.arg else ""


def _device_arguments(call: ast.expr) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)] if isinstance(call, ast.Call) else []
