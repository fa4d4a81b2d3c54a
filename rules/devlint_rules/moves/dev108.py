"""DEV108: an optimizer that holds what the module has no more, or state that stays behind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import MOVES, dotted, own_nodes, walk
from devlint.lazy import cst, m
from devlint.rule import Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts


class OptimizerBeforeRebind(Rule):
    """An optimizer that updates what its module no longer has, or whose state stays behind when the module moves.

    ## What it does
    Looks at functions that make an optimizer and change its model. Flags a part of the model that is replaced after the optimizer
    was given its parameters (`model.head = nn.Linear(...)`, `model.w = nn.Parameter(...)`), and an optimizer that has state
    (from `load_state_dict`, or because it is Adagrad, which makes it at once) before `model.cuda()` or `model.to(...)`. Left alone are
    optimizers that are made again or given the new part afterwards, those that do nothing after the move, and models that were
    moved before.

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    The optimizer goes on with the old parameters, and the new part never learns. `module.to` moves the parameters in place, but not
    the optimizer's state: the next `step` raises `RuntimeError: Expected all tensors to be on the same device`.

    ## Example
    ```python
    import torch
    from torch import nn

    saved = nn.Linear(2, 2)
    before = torch.optim.Adam(saved.parameters())
    saved(torch.ones(1, 2)).sum().backward()
    before.step()

    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(before.state_dict())
    model.to("cuda")
    model(torch.ones(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    saved = nn.Linear(2, 2)
    before = torch.optim.Adam(saved.parameters())
    saved(torch.ones(1, 2)).sum().backward()
    before.step()

    model = nn.Linear(2, 2)
    model.to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(before.state_dict())
    model(torch.ones(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    ```

    ## References
    - [torch.optim: constructing it](https://docs.pytorch.org/docs/stable/optim.html#constructing-it)
    - [pytorch/pytorch 2830](https://github.com/pytorch/pytorch/issues/2830)
    """

    code = "DEV108"
    name = "optimizer-before-rebind"
    trigger = r"\.load_state_dict\s*\(|\bAdagrad\s*\(|=\s*(?:torch\.)?(?:nn\.)?(?:Linear|Conv\w{1,20}|Parameter|Embedding|Sequential|Identity|\w{1,20}Norm\w{0,4})\("
    needs = (r"\.parameters\(\)",)
    default = False
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device")

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        if not isinstance(call, ast.Call):
            return
        scope = facts.model.enclosing_scope(call)
        nodes = own_nodes(scope)
        for made in _optimizers(nodes, facts):
            if made.call.lineno > call.lineno:
                continue
            if call is made.call or _loads(call, made):
                stateful = call is not made.call or made.kind == "Adagrad"
                moved = _moved_after(nodes, made, call) if stateful else None
                # What a module's top level makes may be used elsewhere.
                if moved is not None and (isinstance(scope, ast.Module) or _is_used_after(nodes, made, moved)):
                    state = "makes its state at once" if call is made.call else "has its state by now"
                    yield Report(
                        node,
                        f"`{made.name}` {state}, and `{made.model}` is moved afterwards: the state stays where it is",
                        "likely",
                        notes=(facts.note(f"`{made.model}` is moved here", moved),),
                        hint="move the model before its optimizer is made",
                    )
            elif _replaces(call, made, facts) and not _told_again(nodes, made, call):
                yield Report(
                    node,
                    f"this takes the place of parameters that `{made.name}` holds: the optimizer never sees the new ones",
                    "likely",
                    notes=(facts.note(f"`{made.name}` is given the parameters here", made.call),),
                    hint="make the optimizer afterwards, or `add_param_group`",
                )


class _Made(NamedTuple):
    """An optimizer that a scope makes of all the parameters of one model."""

    name: str
    model: str
    kind: str
    call: ast.Call


def _optimizers(nodes: list[ast.AST], facts: Facts) -> list[_Made]:
    found = []
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=ast.Call(func=func, args=[given, *_]) as call) if dotted(target):
                name = facts.model.qualified(func) or ""
                model = _whole_model(given)
                if name.startswith("torch.optim.") and "lr_scheduler" not in name and model:
                    found.append(_Made(dotted(target) or "", model, name.rpartition(".")[2], call))
    return found


def _whole_model(given: ast.expr) -> str:
    """`model` of `model.parameters()`, of a filter of those too."""
    for node in walk(given):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="parameters" | "named_parameters"), args=[]):
                return dotted(owner) or ""
    return ""


def _loads(call: ast.Call, made: _Made) -> bool:
    if dotted(call.func) != f"{made.name}.load_state_dict":
        return False
    plain = made.kind == "SGD" and not any(k.arg == "momentum" for k in made.call.keywords)
    return not plain


def _moved_after(nodes: list[ast.AST], made: _Made, call: ast.Call) -> ast.Call | None:
    """The first move of the model behind a call; None where it was moved before, or the optimizer is made anew."""
    moves = sorted((n for n in nodes if isinstance(n, ast.Call) and _moves(n, made.model)), key=lambda n: n.lineno)
    if any(n.lineno <= made.call.lineno for n in moves) or _is_made_elsewhere(nodes, made):
        return None
    later = next((n for n in moves if n.lineno > call.lineno), None)
    if later is None or _told_again(nodes, made, call):
        return None
    return later


def _is_made_elsewhere(nodes: list[ast.AST], made: _Made) -> bool:
    """Whether the model was moved as it was made: `model = Net(args).to(device)`, in a wrapper too."""
    return any(
        isinstance(n, ast.Assign)
        and n.lineno <= made.call.lineno
        and any(dotted(t) == made.model for t in n.targets)
        and any(isinstance(c, ast.Call) and _is_move(c) for c in walk(n.value))
        for n in nodes
    )


def _is_used_after(nodes: list[ast.AST], made: _Made, move: ast.Call) -> bool:
    """Whether an optimizer of a function that has a local name is mentioned behind a move: its state meets nothing otherwise."""
    line = move.end_lineno or move.lineno
    return "." in made.name or any(
        isinstance(n, ast.Name) and n.id == made.name and isinstance(n.ctx, ast.Load) and n.lineno > line for n in nodes
    )


def _moves(call: ast.Call, model: str) -> bool:
    """`model.cuda()`, `nn.DataParallel(model).cuda()`, `model.to(device)`."""
    if not isinstance(call.func, ast.Attribute) or not _is_move(call):
        return False
    owner: ast.expr = call.func.value
    while isinstance(owner, ast.Call) and owner.args:
        owner = owner.args[0]
    return dotted(owner) == model


def _is_move(call: ast.Call) -> bool:
    """A move to an accelerator, as far as is told."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in MOVES or call.func.attr == "cpu":
        return False
    if call.func.attr != "to":
        return True
    if not call.args:
        return any(k.arg == "device" for k in call.keywords)
    return "dtype" not in ast.unparse(call.args[0])


def _told_again(nodes: list[ast.AST], made: _Made, call: ast.Call) -> bool:
    """Whether the optimizer is made anew, or told of more, behind a call; or its state is moved."""
    for node in nodes:
        match node:
            case ast.Assign(targets=targets) if node.lineno > call.lineno and node.value is not call:
                if any(dotted(t) == made.name for t in targets):
                    return True
            case ast.Call(func=func) if node.lineno > call.lineno and dotted(func) == f"{made.name}.add_param_group":
                return True
            case ast.Attribute(attr="state") if dotted(node) == f"{made.name}.state":
                return True
    return False


def _replaces(call: ast.Call, made: _Made, facts: Facts) -> bool:
    """`model.part = nn.Linear(...)`, with parameters, behind the optimizer."""
    parent = next(facts.model.ancestors(call), None)
    if not isinstance(parent, ast.Assign) or parent.lineno <= made.call.lineno or len(parent.targets) != 1:
        return False
    target = dotted(parent.targets[0]) if isinstance(parent.targets[0], ast.Attribute) else None
    if target is None or not target.startswith(f"{made.model}."):
        return False
    name = facts.model.qualified(call.func) or ""
    return name.startswith("torch.nn.") and name.rpartition(".")[2] in _WITH_PARAMETERS


_WITH_PARAMETERS = frozenset(
    {"Linear", "Parameter", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "Embedding", "BatchNorm1d", "BatchNorm2d",
     "LayerNorm", "LSTM", "GRU", "MultiheadAttention"}
)  # fmt: skip
