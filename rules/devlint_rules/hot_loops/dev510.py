"""DEV510: metrics of libraries that read their inputs back at each step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import HOST, Kind, Value, calls_in, leaves, own_nodes
from devlint.findings import Edit, Note, Safety
from devlint.knowledge.ecosystem import LIGHTNING_MODULES
from devlint.knowledge.metrics import UNSETTLED, WaitTable, needs_one_device, wait_table
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.hot_loops import stalls
from devlint_rules.hot_loops.gains import waits_all_the_same

if TYPE_CHECKING:
    from devlint.facts import Facts, HotLoop, PlacementModel, Unit

# What a metric can be told so that it waits less, and what that means.
REMEDIES: dict[str, tuple[object, str]] = {
    "validate_args": (False, "`validate_args=False` leaves out the checks of the values"),
    "nan_strategy": ("disable", '`nan_strategy="disable"` (torchmetrics 1.6.2) leaves out the search for NaN'),
    "device": ("cuda", "tell it the device of its inputs, `device=`: it copies them to the host"),
}
# What not every release takes, and what the metric then gives is another number: a reader decides.
_FOR_READER = frozenset({"nan_strategy"})
ONCE = "collect its inputs on the device and update it once after the loop, or update it on some steps only"


class MetricInHotLoop(Rule):
    """A metric that makes the host wait at each step, to check its inputs for example.

    ## What it does
    Flags updates of metrics of torchmetrics, torcheval, ignite and MONAI with accelerator tensors at each pass of a hot
    loop, where the metric waits for the accelerator by itself: to check the values, to look for NaN, to count, or
    because it keeps its state on the host. How often each metric waits, with which options, was measured with the
    runtime companion on the libraries' own code; metrics that don't wait, such as
    `Accuracy(task="multiclass", ...)` of torchmetrics on scores, are left alone, and so are those in
    evaluations that can't be told to wait less. By default it tells of what it has a fix for, and where it is selected by its code of the rest.

    ## Why is this bad
    Nothing in the loop looks like a read, and yet the host waits until all work that was queued is done, and the
    accelerator then waits for the host: one stall or several at each step, for a check that never fails once the
    program is right, or for numbers that are wanted after the loop.

    ## Example
    ```python
    import torch
    from torch import nn
    from torchmetrics import Accuracy

    device = torch.device("cuda")
    model = nn.Linear(4, 3).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    accuracy = Accuracy(task="multiclass", num_classes=3).to(device)
    with torch.no_grad():
        for batch in loader:
            predicted = model(batch.to(device)).argmax(dim=1)
            accuracy.update(predicted, torch.zeros_like(predicted))
    print(accuracy.compute())
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn
    from torchmetrics import Accuracy

    device = torch.device("cuda")
    model = nn.Linear(4, 3).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    accuracy = Accuracy(task="multiclass", num_classes=3, validate_args=False).to(device)
    with torch.no_grad():
        for batch in loader:
            predicted = model(batch.to(device)).argmax(dim=1)
            accuracy.update(predicted, torch.zeros_like(predicted))
    print(accuracy.compute())
    ```

    ## Fix safety
    Unsafe: a metric that doesn't check its inputs any more gives wrong numbers for wrong inputs, where it gave an error
    before. Offered where that ends all waiting and the metric is made in the same file. `nan_strategy="disable"` is a suggestion:
    torchmetrics has it since 1.6.2 and refuses it before, and NaN is then counted rather than left out.

    ## References
    - [torchmetrics: Accuracy, `validate_args`](https://lightning.ai/docs/torchmetrics/stable/classification/accuracy.html)
    - [Performance Tuning Guide: avoid unnecessary CPU-GPU synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "DEV510"
    name = "metric-in-hot-loop"
    severity = "warning"
    trigger = r"\w\s*\("
    needs = (r"\b(?:torchmetrics|torcheval|ignite|monai)\b", *stalls.NEEDS)
    only_hot = True
    effect = Effect(syncs=4, words="unique")
    seen_as = ("sync",)
    fix = "U/D"

    def concerns(self, unit: Unit) -> bool:
        return any(call.args or call.keywords for call in calls_in(unit.node))

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        model.ensure(unit.scope)
        calls = calls_in(unit.node)
        return any(_updated(call, model) for call in calls) and stalls.reads_accelerator(unit, model)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(args=[m.AtLeastN(n=1)])

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        assert isinstance(call, ast.Call)
        waiting = [updated for updated in _updated(call, facts.model) if updated.waits() and not updated.refuses()]
        given = _on_accelerator(call, facts) if waiting else None
        hot = facts.hot_loop(node) if given is not None else None
        if given is None or hot is None:
            return
        value, likely = given
        remedy = _Remedy.of(waiting)
        makers = [w.maker(call, facts) for w in waiting]
        if remedy is None and _evaluates(call, hot, facts):
            # Nothing could be told it, and nobody keeps all the outputs of an evaluation to save its stalls.
            return
        change = (
            _told(waiting, makers, remedy, facts)
            if remedy is not None and not _waits_beside(call, facts) and not waits_all_the_same(call, hot, facts)
            else None
        )
        yield Report(
            node,
            f"`{facts.name_of(node)}` reads its inputs back: the host waits for {stalls.place_of(value)} "
            f"{_times(max(w.waits() for w in waiting))} at each step",
            "likely" if likely or hot.likely or stalls.under_no_grad(call, facts.model) else "certain",
            notes=(*_made_notes(makers, call, facts), *stalls.loop_notes(hot, value, facts)),
            hint=None if change else remedy.text if remedy is not None else ONCE,
            change=change,
            minor=hot.evaluates or change is None or _is_of_lightning(call, facts),
        )


class _Updated(NamedTuple):
    """A metric that a call updates, its table, and what is known of the options; a function is its own metric."""

    metric: Value
    table: WaitTable
    given: dict[str, object]

    def waits(self, **told: object) -> int:
        """How often the host waits at least, also if the metric were told something else."""
        return self.table.waits(self.given | told)

    def refuses(self) -> bool:
        """Whether it takes nothing from an accelerator, being left on the host: that is the finding then (DEV202)."""
        return self.metric.place == HOST and needs_one_device(self.metric.name)

    def maker(self, call: ast.Call, facts: Facts) -> ast.Call | None:
        """The call that decides the options: what made the metric, where that stands in the file."""
        return call if self.metric.kind is Kind.FUNCTION else facts.model.maker_of(self.metric)


def _updated(call: ast.Call, model: PlacementModel) -> list[_Updated]:
    """The metrics that a call updates, and the function of one that it calls."""
    how, owner = _updated_by(call)
    found = []
    for metric in model.metrics_in(owner):
        table = wait_table(metric.name)
        if table is not None:
            options = zip(metric.keys or (), metric.elements or (), strict=True)
            found.append(_Updated(metric, table, {name: _told_as(name, value) for name, value in options}))
    name = model.qualified(call.func) if not found else None
    table = wait_table(name) if name is not None and name.rpartition(".")[2].islower() else None
    if name is not None and table is not None:
        found.append(_Updated(Value(Kind.FUNCTION, name=name), table, _given_to_function(call, table, model)))
    known = {"how": how} | ({"predictions": "labels"} if found and _are_labels(call, model) else {})
    return [updated._replace(given=known | updated.given) for updated in found]


def _given_to_function(call: ast.Call, table: WaitTable, model: PlacementModel) -> dict[str, object]:
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return {option.name: UNSETTLED for option in table.options if option.position is not None}
    found: dict[str, object] = {}
    for option in table.options:
        node = next((k.value for k in call.keywords if k.arg == option.name), None)
        if node is None and option.position is not None and option.position < len(call.args):
            node = call.args[option.position]
        if node is not None:
            found[option.name] = _told_as(option.name, model.value(node))
    return found


def _told_as(name: str, value: Value) -> object:
    """An option's value as the tables spell it."""
    if name == "device" and (value.place.off_host or value.place == HOST):
        return "cuda" if value.place.off_host else "cpu"
    return value.constant if value.kind is Kind.CONSTANT else UNSETTLED


_EVALUATION = regex(r"valid|eval|test|predict|infer", re.IGNORECASE)


def _evaluates(call: ast.Call, hot: HotLoop, facts: Facts) -> bool:
    """Whether the pass is one of an evaluation: nothing is trained in it, and it builds no graph or is called so."""
    scope = facts.model.enclosing_scope(call)
    names = f"{'' if isinstance(scope, ast.Module) else scope.name} {hot.reason}"
    around = hot.node or scope
    if "train" in names or any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in own_nodes(around)):
        return False
    return stalls.under_no_grad(call, facts.model) or bool(_EVALUATION.search(names))


def _is_of_lightning(call: ast.Call, facts: Facts) -> bool:
    """Whether a Lightning module keeps a metric and logs it, as its documentation has it: who minds has another way to begin with."""
    cls = facts.model.class_around(call)
    return cls is not None and not LIGHTNING_MODULES.isdisjoint(cls.outside_bases)


def _on_accelerator(call: ast.Call, facts: Facts) -> tuple[Value, bool] | None:
    """The first of the arguments that is on an accelerator, alone or in a tuple."""
    for node in (*call.args, *(k.value for k in call.keywords)):
        for leaf in leaves(facts.model.value(node)):
            known = facts.accelerated(leaf)
            if known is not None and known[0].kind is not Kind.UNKNOWN:
                return known
    return None


# -- what the predictions are ------------------------------------------------------------------------------------------

# Functions and methods that give whole numbers, or truth values.
_LABELS = frozenset(
    {"argmax", "argmin", "argsort", "bool", "int", "long", "eq", "ne", "gt", "ge", "lt", "le", "isclose", "logical_and",
     "logical_or", "logical_not"}
)  # fmt: skip
_LABEL_TYPES = frozenset({"torch.long", "torch.int64", "torch.int", "torch.int32", "torch.uint8", "torch.bool"})
# Methods that keep what a tensor's numbers are.
_KEEPING = frozenset(
    {"detach", "view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous", "to", "cuda", "transpose", "permute"}
)
# Names and functions are followed this far.
_FARTHEST = 4
# Functions and methods whose second result is one of positions.
_RANKING = frozenset({"max", "min", "topk", "sort", "median", "mode"})


def _are_labels(call: ast.Call, model: PlacementModel) -> bool:
    """Whether the predictions are surely whole numbers or truth values; others are looked at less closely."""
    first = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg in ("preds", "input")), None)
    if isinstance(first, ast.Tuple) and first.elts:
        # The pair that ignite's metrics take.
        first = first.elts[0]
    return first is not None and _gives_labels(first, model)


def _gives_labels(node: ast.expr, model: PlacementModel, back: int = 0) -> bool:
    """Whether an expression surely gives labels, names and the file's own functions followed some way back."""
    match node:
        case ast.Name():
            return back < _FARTHEST and _all_labels(model.assigned_values(node), model, back)
        case ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr="to" | "type"), args=[dtype]) if ast.unparse(dtype) in _LABEL_TYPES:
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if name in _LABELS:
            return True
        case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if name in _KEEPING:
            return _gives_labels(receiver, model, back)
        case ast.Call():
            return back < _FARTHEST and _all_labels(_returned_by(node, model), model, back)
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr=name)), slice=ast.Constant(value=part)) if (
            name in _RANKING
        ):
            return part == 1
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr=name)), attr="indices") if name in _RANKING:
            return True
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int() as part)):
            tuples = [returned for returned in _returned_by(call, model) if isinstance(returned, ast.Tuple)]
            parts = [each.elts[part] for each in tuples if part < len(each.elts)]
            return back < _FARTHEST and _all_labels(parts, model, back)
        case ast.Subscript(value=value) | ast.UnaryOp(op=ast.Invert(), operand=value):
            return _gives_labels(value, model, back)
    return False


def _all_labels(nodes: list[ast.expr], model: PlacementModel, back: int) -> bool:
    return bool(nodes) and all(_gives_labels(node, model, back + 1) for node in nodes)


def _returned_by(call: ast.Call, model: PlacementModel) -> list[ast.expr]:
    """What a function of the file that is called may return."""
    function = model.function_called(call)
    returns = [n for n in own_nodes(function) if isinstance(n, ast.Return)] if function is not None else []
    return [each.value for each in returns if each.value is not None]


# -- what to write instead ---------------------------------------------------------------------------------------------


def _waits_beside(call: ast.Call, facts: Facts) -> bool:
    """Whether the same function reads something else: then it waits all the same."""
    return any(
        isinstance(n, ast.Call)
        and n is not call
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("item", "cpu", "tolist", "numpy")
        for n in own_nodes(facts.model.enclosing_scope(call))
    )


def _times(count: int) -> str:
    # Those that wait for each class, or each image, wait as often as there are.
    return {1: "once", 2: "twice"}.get(count, "several times")


class _Remedy(NamedTuple):
    """What the metrics can be told so that they wait less: an option, its value, and what that means."""

    option: str
    value: object
    text: str
    # Whether it ends all waiting.
    whole: bool

    @classmethod
    def of(cls, waiting: list[_Updated]) -> _Remedy | None:
        """The first that helps; None where nothing does."""
        before = sum(w.waits() for w in waiting)
        for option, (value, text) in REMEDIES.items():
            told = [w for w in waiting if any(o.name == option for o in w.table.options)]
            after = sum(w.waits(**{option: value}) for w in waiting)
            if told and after < before:
                whole = not after and len(told) == len(waiting)
                return cls(option, value, text if whole else f"{text}, which saves some of it; {ONCE}", whole)
        return None


def _told(waiting: list[_Updated], makers: list[ast.Call | None], remedy: _Remedy, facts: Facts) -> Change | None:
    """The option given where the metrics are made."""
    if not remedy.whole or remedy.option == "device":
        return None
    edits = [_with_option(w, maker, remedy, facts) for w, maker in zip(waiting, makers, strict=True)]
    known = tuple(dict.fromkeys(edit for edit in edits if edit is not None))
    safety: Safety = "display" if remedy.option in _FOR_READER else "unsafe"
    return Change(remedy.text, safety, edits=known) if None not in edits else None


def _with_option(updated: _Updated, maker: ast.Call | None, remedy: _Remedy, facts: Facts) -> Edit | None:
    """The option put into the call that makes a metric, or put right there; a metric's clone isn't told options."""
    if (
        maker is None
        or facts.model.qualified(maker.func) != updated.metric.name
        or any(isinstance(a, ast.Starred) for a in maker.args)
        or any(not k.arg for k in maker.keywords)
    ):
        return None
    position = next(o.position for o in updated.table.options if o.name == remedy.option)
    given = [k.value for k in maker.keywords if k.arg == remedy.option]
    given += maker.args[position : position + 1] if position is not None else []
    code = repr(remedy.value).replace("'", '"')
    return facts.replaced(given[0], code) if given else facts.with_argument(maker, f"{remedy.option}={code}")


def _made_notes(makers: list[ast.Call | None], call: ast.Call, facts: Facts) -> Iterator[Note]:
    for maker in dict.fromkeys(makers):
        # A function is its own maker: the finding stands there.
        if maker is not None and maker is not call:
            yield facts.note("the metric is made here", maker)


def _updated_by(call: ast.Call) -> tuple[str, ast.expr]:
    """(how, the metric), if it is one that a call updates: by its method `update`, or by calling it."""
    match call.func:
        case ast.Attribute(value=owner, attr="update"):
            return "update", owner
        case ast.Attribute(value=owner, attr="forward"):
            return "call", owner
    return "call", call.func
