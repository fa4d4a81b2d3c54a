"""DEV302: a wrapper's state dict in a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, calls_in
from devlint.findings import Note
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.checkpoints.keys import STRIPPING, WRAPS_AND_LOADS, state_of
from devlint_rules.wrappers.unwrapping import class_of, unwrapped, wrap_notes

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit, Value


class WrappedStateDict(Rule):
    """A checkpoint saved from a parallel wrapper, whose keys all start with `module.`.

    ## What it does
    Flags the `state_dict()` of a `DataParallel` or `DistributedDataParallel` object that goes into `torch.save`: directly,
    as a part of a dict, through a variable or through a function that saves it. Projects are left alone that load into a wrapper
    again, pass one to a function that loads, make it by a function that is called where others load, or remove `module.` from the keys anywhere. If the model is wrapped on some paths
    only, the finding is `likely`.

    ## Why is this bad
    The wrapper holds the model as its `module`, and each key says so. The file doesn't load into a bare model, such as
    in a test, a demo or an export: `Missing key(s) in state_dict: "fc.weight" ... Unexpected key(s):
    "module.fc.weight"`. With `strict=False` it loads nothing, and says nothing.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(2, 2))
    torch.save(model.state_dict(), "model.pt")
    keys = list(torch.load("model.pt", map_location="cpu"))
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(2, 2))
    torch.save(model.module.state_dict(), "model.pt")
    keys = list(torch.load("model.pt", map_location="cpu"))
    ```

    ## Fix safety
    Unsafe: no code of the project loads the file into a wrapper, but older checkpoints keep their keys. A suggestion if nothing in
    the project loads checkpoints: the code that does so elsewhere may have wrapped the model. Not
    offered if another file of the project loads checkpoints, since it may load them into a wrapper.

    ## References
    - [Saving torch.nn.DataParallel models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    - [pytorch/pytorch 9176](https://github.com/pytorch/pytorch/issues/9176)
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    """

    code = "DEV302"
    name = "wrapped-state-dict"
    trigger = r"\.state_dict\s*\(\s*\)"
    effect = Effect(holds="all(key.startswith('module.') for key in keys)")
    fix = "U/D"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        model.ensure(unit.scope)
        calls = calls_in(unit.node)
        return any(state_of(model.value(call)) is not None for call in calls)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Attribute(attr=m.Name("state_dict")), args=[])

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        state = state_of(facts.value(node))
        if state is None or not isinstance(found, ast.Call) or not isinstance(node.func, cst.Attribute):
            return
        saved = facts.model.happenings("saved", found)
        if not saved or _is_known(facts):
            return
        wrapper, sometimes = state
        owner = node.func.value
        if _is_given_to_a_loader(found.func, facts) or (not sometimes and _is_made_for_loaders_too(wrapper, facts)):
            return
        when = " on some paths" if sometimes else ""
        model = unwrapped(owner, found, facts, sometimes=sometimes)
        yield Report(
            node,
            f"`{facts.name_of(owner)}` is a {class_of(wrapper)}{when}: each key that is saved starts with `module.`, "
            "and doesn't load into the bare model",
            "likely" if sometimes or wrapper.likely else "certain",
            notes=(*wrap_notes(wrapper, facts), *_saves(found, facts)),
            change=None
            if facts.model.texts_match(_LOADS, elsewhere=True)
            else Change(
                "save the wrapped model's own state",
                "unsafe" if any(_loads_model(call) for call in facts.model.calls("load_state_dict")) else "display",
                ((node.func, node.func.with_changes(value=model)),),
            ),
        )


# What another file loads may go into a wrapper, whose keys are those that are saved now.
_LOADS = r"\b(?![\w.]{0,60}(?:optim|sched|scaler))\w[\w.]{0,60}\.load_state_dict\("


def _saves(call: ast.Call, facts: Facts) -> tuple[Note, ...]:
    """Where it is saved, unless that is where it is taken."""
    steps = dict.fromkeys(h.step for h in facts.model.happenings("saved", call))
    around = {n for n in facts.model.ancestors(call) if isinstance(n, ast.Call)}
    return facts.notes(s for s in steps if s.line not in {n.lineno for n in around})


def _is_known(facts: Facts) -> bool:
    """The project loads into a wrapper again, or takes the prefix off somewhere."""
    return (
        any(_may_load_into_wrapper(call, facts) for call in facts.model.calls("load_state_dict"))
        or facts.model.texts_match(STRIPPING)
        or facts.model.texts_match(WRAPS_AND_LOADS, elsewhere=True)
    )


def _is_given_to_a_loader(state_dict: ast.expr, facts: Facts) -> bool:
    """Whether what is saved is given to a function of another file that loads, going by its name: wrapped, as it is."""
    if not isinstance(state_dict, ast.Attribute) or not facts.model.texts_match(_LOADS, elsewhere=True):
        return False
    owner = ast.unparse(state_dict.value)
    return any(
        owner == ast.unparse(given)
        for call in calls_in(facts.model.source.tree)
        if _LOADER.search(ast.unparse(call.func))
        for given in (*call.args, *(k.value for k in call.keywords))
    )


def _is_made_for_loaders_too(wrapper: Value, facts: Facts) -> bool:
    """Whether the function that wraps what it makes is called in another file that loads: `make_model().load_state_dict(...)`."""
    step = next((step for step in wrapper.trail if step.message.startswith("wrapped by")), None)
    if step is None:
        return False
    files = [facts.model, *facts.model.files_matching(r"Parallel\(")]
    where = next((file.source for file in files if file.source.path == step.path), None)
    for made in where.tree.body if where is not None else ():
        if isinstance(made, ast.FunctionDef) and made.lineno <= step.line <= (made.end_lineno or 0):
            users = facts.model.files_matching(rf"\b{made.name}\(")
            return any(re.search(_LOADS, user.source.without_comments) for user in users if user.source is not where)
    return False


_LOADER = regex(r"(?i)(?:load|resume|restore)\w{0,40}$")


def _loads_model(call: ast.Call) -> bool:
    """Whether a `load_state_dict` is one of a model's, going by the name of its owner."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call
    name = ast.unparse(owner).rsplit(".", 1)[-1].lower()
    return not any(word in name for word in ("optim", "sched", "scaler", "opt_"))


def _may_load_into_wrapper(call: ast.Call, facts: Facts) -> bool:
    """A wrapper, or something of which it isn't known that it is none."""
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = call.func.value
    if not _loads_model(call) or facts.model.is_unused(call):
        return False
    options = [v for _, v in facts.model.value(owner).alternatives()]
    return any(v.kind is Kind.WRAPPER or v.kind is Kind.UNKNOWN or (v.is_module and v.likely) for v in options)
