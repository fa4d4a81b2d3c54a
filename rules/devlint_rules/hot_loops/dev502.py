"""DEV502: copying tensors to the host at each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import HOST, Kind, last_name, own_nodes
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.hot_loops import by_role, stalls
from devlint_rules.hot_loops.needed import is_written
from devlint_rules.hot_loops.other_waits import waits_anyway

if TYPE_CHECKING:
    from devlint.facts import Facts, HotLoop, HotStall, PlacementModel, Unit

# Functions that make one tensor, or one array, of a list.
JOINERS = {"cat", "concat", "concatenate", "stack", "vstack", "hstack"}


class HostCopyInHotLoop(Rule):
    """Tensors copied to the host at each step.

    ## What it does
    Flags `.cpu()`, `.to("cpu")` and `.numpy()` on an accelerator tensor at each pass of a hot loop. Copies under a step
    guard, on the last pass, in an exception handler or after the loop are left alone, and so are those in loops that
    make text (`generate` waits at each token anyway, and `batch_decode` works on the host), in `predict_step`, which
    hands its results out, those that PyTorch asks for, as `pack_padded_sequence` does, and those that become a file, an
    encoded image or a response. Where an evaluation hands
    each batch to something on the host, only a measurement can tell whether it matters: such findings are `likely`.

    Told where the rule is selected by its code, as in `--select DEV502`: what waits in loops that train nothing (under
    `torch.no_grad()`, after `model.eval()`, in functions that are named for it, or that only call a model), or whose passes are
    epochs; at the end of a step, after `optimizer.step()`; in a guard (`if not math.isfinite(loss.item()): sys.exit(1)`, `assert`,
    `if loss < best:`); where a program of several processes isn't (`if not args.distributed:`); and where the same stretch
    of the step waits for something else that no rule tells of. Copies for an
    algorithm of the host, such as a search, are told so too.
    At the end of a step it tells by default of what it has a fix for.

    In code that is hot by its role (in preview) it tells of what each step comes by; of what stands where an option leads,
    runs once a request, or follows right on another wait, where it is selected by its code as well.

    ## Why is this bad
    A copy to the host waits until the accelerator has done all that was queued before it, and the accelerator then
    waits for the host: one stall, and one small transfer, at each step.

    ## Example
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 2).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    outputs = []
    with torch.no_grad():
        for batch in loader:
            output = model(batch.to(device))
            outputs.append(output.cpu())
    result = torch.cat(outputs)
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 2).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    outputs = []
    with torch.no_grad():
        for batch in loader:
            output = model(batch.to(device))
            outputs.append(output)
    result = torch.cat(outputs).cpu()
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: what is collected stays in the accelerator's memory until the loop is over. Offered where the copies are
    appended to a list that starts right before the loop and is joined once after it, and where nothing else makes each step wait.

    ## References
    - [Performance Tuning Guide: avoid unnecessary CPU-GPU synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "DEV502"
    name = "host-copy-in-hot-loop"
    severity = "warning"
    trigger = r"\.\s*(?:cpu|numpy|to)\s*\("
    only_hot = True
    only_training = True
    only_amid_step = True
    effect = Effect(syncs=4, words="cpu")
    seen_as = ("sync", "transfer")
    fix = "D"

    senses = frozenset({"copy"})

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return stalls.reads_accelerator(unit, model)

    def judge_stall(self, node: cst.CSTNode, stall: HotStall, facts: Facts) -> Iterator[Report]:
        if isinstance(stall.node, ast.expr) and is_written(stall.node, facts):
            return
        text = facts.shown(stall.node)
        message = f"`{text}` copies to the host, and waits for the accelerator, {stall.often}"
        yield by_role.report(
            node, stall, facts, message, "compute on the device, or keep what the host made on the host too"
        )

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Attribute(attr=m.OneOf(m.Name("cpu"), m.Name("numpy"), m.Name("to"))))

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        func = cst.ensure_type(node.func, cst.Attribute)
        known = facts.on_accelerator(func.value)
        hot = facts.hot_loop(node)
        if known is None or hot is None or not _goes_to_host(node, func, facts):
            return
        value, likely = known
        found, moved = facts.node(node), facts.node(func.value)
        assert found is not None
        assert moved is not None
        if (value.kind is Kind.UNKNOWN and stalls.is_no_tensor(moved, facts)) or _is_wanted(found, hot, facts):
            return
        likely = likely or hot.likely or not _is_appended(found, facts) or stalls.under_no_grad(found, facts.model)
        change = _collected(found, func.value, hot, facts)
        yield Report(
            node,
            f"`{facts.name_of(node)}` copies to the host at each step, and waits for {stalls.place_of(value)} each time",
            "likely" if likely else "certain",
            notes=stalls.loop_notes(hot, value, facts),
            hint=None if change else "collect on the device and copy once after the loop",
            change=change,
        )


# Methods of language models and tokenizers: what generates waits at each token, and text is made on the host.
_TEXT_MAKERS = frozenset({"generate", "batch_decode", "ids_to_text"})
# Functions that take an argument on the host only.
_HOST_TAKERS = frozenset({"pack_padded_sequence"})


def _is_wanted(copy: ast.expr, hot: HotLoop, facts: Facts) -> bool:
    """Whether the host needs each copy: of predictions, which are handed out, of lengths, of what becomes text or a file."""
    scope = facts.model.enclosing_scope(copy)
    if not isinstance(scope, ast.Module) and scope.name == "predict_step":
        return True
    call = next((p for p in facts.model.ancestors(copy) if isinstance(p, ast.Call)), None)
    if (call is not None and last_name(call.func) in _HOST_TAKERS) or is_written(copy, facts):
        return True
    # One copy of the tokens is nothing beside making them, or text of them.
    around = hot.node or (scope if hot.kind == "step" else None)
    return around is not None and any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _TEXT_MAKERS
        for n in ast.walk(around)
    )


def _goes_to_host(node: cst.Call, func: cst.Attribute, facts: Facts) -> bool:
    if func.attr.value == "numpy":
        # Somebody moved it, under the condition that moved the model too.
        return all(v.place != HOST for _, v in facts.value(func.value).alternatives())
    if any(a.keyword is not None and a.keyword.value == "non_blocking" for a in node.args):
        # Asked not to wait; whoever reads the copy must see to that.
        return False
    if func.attr.value != "to":
        return True
    results = [v for _, v in facts.value(node).alternatives()]
    return (
        bool(results)
        and all(v.kind is not Kind.UNKNOWN or v.place == HOST for v in results)
        and all(v.place == HOST for v in results)
    )


def _is_appended(found: ast.expr, facts: Facts) -> bool:
    return _appended_to(found, facts) is not None


def _appended_to(found: ast.expr, facts: Facts) -> tuple[str, ast.expr] | None:
    """(list, what is appended) where the copy, or the array made of it, is all that a statement appends."""
    match facts.model.source.statement_of(found):
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[appended])):
            if appended is found or (
                isinstance(appended, ast.Call)
                and isinstance(appended.func, ast.Attribute)
                and appended.func.attr == "numpy"
                and appended.func.value is found
            ):
                return name, appended
    return None


def _collected(found: ast.expr, tensor: cst.BaseExpression, hot: HotLoop, facts: Facts) -> Change | None:
    """Appended where it is, joined after the loop, copied once."""
    loop = stalls.statement_loop(hot)
    target = _collectable(found, loop, facts) if loop is not None else None
    if target is None or loop is None:
        return None
    if waits_anyway(found, loop, facts, lambda call: _is_collected(call, loop, facts)):
        return None
    appended, joined = target
    as_array = appended is not found
    qualified = facts.model.value(joined.func).name
    joiner = f"torch.{_torch_joiner(qualified)}" if as_array else facts.code_of(joined.func)
    arguments = ", ".join(
        [facts.code_of(a) for a in joined.args] + [f"{k.arg}={facts.code_of(k.value)}" for k in joined.keywords]
    )
    kept = facts.code_of(_node_of(tensor, facts))
    if not stalls.under_no_grad(found, facts.model) and not kept.endswith(".detach()"):
        kept = f"{kept}.detach()"
    whole = f"{joiner}({arguments.replace('axis=', 'dim=') if as_array else arguments}).cpu()" + (
        ".numpy()" if as_array else ""
    )
    return Change(
        "collect on the device, copy once after the loop",
        "display",
        edits=(facts.replaced(appended, kept), facts.replaced(joined, whole)),
    )


def _collectable(found: ast.expr, loop: ast.stmt, facts: Facts) -> tuple[ast.expr, ast.Call] | None:
    """(what is appended, the call that joins the list after the loop) where one copy of the whole will do."""
    target = _appended_to(found, facts)
    if target is None:
        return None
    name, appended = target
    start, joined = stalls.initialised_before(loop, name, facts), _joined_after(loop, name, facts)
    if joined is None or not (isinstance(start, ast.List) and not start.elts) or stalls.uses_in(loop, name) != 1:
        return None
    as_array = appended is not found
    if as_array != facts.model.value(joined.func).name.startswith("numpy."):
        return None
    return None if as_array and "torch" not in facts.model.source.bindings else (appended, joined)


def _is_collected(call: ast.Call, loop: ast.stmt, facts: Facts) -> bool:
    """Whether another copy is told, and mended, too."""
    match call.func:
        case ast.Attribute(value=tensor, attr="cpu"):
            known = facts.accelerated(facts.model.value(tensor))
            return known is not None and _collectable(call, loop, facts) is not None
    return False


def _node_of(tensor: cst.BaseExpression, facts: Facts) -> ast.expr:
    node = facts.node(tensor)
    assert node is not None
    return node


def _torch_joiner(qualified: str) -> str:
    name = qualified.rsplit(".", 1)[-1]
    return "cat" if name in ("concatenate", "concat") else name


def _joined_after(loop: ast.stmt, name: str, facts: Facts) -> ast.Call | None:
    """The one use of the list after the loop, where that joins it."""
    scope = facts.model.enclosing_scope(loop)
    inside = set(ast.walk(loop))
    uses = [
        n
        for n in own_nodes(scope)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and n not in inside
    ]
    if len(uses) != 1:
        return None
    parent = next(facts.model.ancestors(uses[0]), None)
    if (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Attribute)
        and parent.func.attr in JOINERS
        and parent.args[:1] == [uses[0]]
    ):
        qualified = facts.model.value(parent.func).name
        return parent if qualified.startswith(("torch.", "numpy.")) else None
    return None
