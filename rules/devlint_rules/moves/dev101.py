"""DEV101: a tensor's move whose result is dropped."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import Facts, Kind, is_test_file, own_nodes
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.moves.assigned import assignment_of, elements_of
from devlint_rules.moves.dropped import MOVES, is_deliberate, root_of, said_by
from devlint_rules.moves.dtypes import casts_to_own_type
from devlint_rules.moves.meeting_host import meets_host
from devlint_rules.moves.needless import (
    changes_nothing,
    goes_by_itself,
    is_computed_there,
    is_given_back,
    is_read_no_more,
    is_shown,
    is_there_already,
    is_timed,
    is_wanted_on_host,
)

if TYPE_CHECKING:
    from devlint.facts import PlacementModel, Unit


class DiscardedMove(Rule):
    """The result of a tensor's `.to(device)` is dropped, so nothing is moved.

    ## What it does
    Flags `tensor.to(...)`, `.cuda()`, `.cpu()` and their like where nothing takes the result. Told where it is selected by its code: a name
    that the function has bound and read itself and doesn't read again, for then nothing comes of the mistake, and a copy between two
    readings of the clock.

    ## Why is this bad
    `nn.Module.to` moves a module in place. `Tensor.to` doesn't: it returns a moved copy and leaves the tensor where it
    is. The program runs on, and crashes later, far from here, where the tensor meets one on the other device.

    ## Example
    ```python
    import torch

    device = torch.device("cuda")
    x = torch.ones(3)
    x.to(device)
    print(x.device)
    ```

    ## Use instead
    ```python
    import torch

    device = torch.device("cuda")
    x = torch.ones(3)
    x = x.to(device)
    print(x.device)
    ```

    ## Fix safety
    Safe: the result is assigned to what was moved, when that is a name, an attribute or a subscript, and isn't there, or of that type, already.
    Unsafe where only the use of it tells that it is a tensor, as for the parts of a batch: it may be meant to stay.
    Not offered for what goes to the host and isn't read there, for what is only collected in a list, for what is computed with beside a
    tensor that is made on the host (`torch.ones(3) * self.rate`), or where arrays are made without a copy to the host: that works as
    long as the result is dropped.

    ## References
    - [torch.Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
    - [torch.nn.Module.to](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to)
    """

    code = "DEV101"
    name = "discarded-move"
    trigger = r"\.\s*(?:to|cuda|cpu|xpu|mps|hpu|npu)\s*\("
    statement = ast.Expr
    effect = Effect(holds='x.device.type == "cpu"')
    seen_as = ("sync", "transfer")
    fix = "S/U"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        value = unit.node.value if isinstance(unit.node, ast.Expr) else None
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        return any(
            isinstance(p, ast.Call) and isinstance(p.func, ast.Attribute) and p.func.attr in MOVES for p in parts
        )

    def shape(self) -> m.BaseMatcherNode:
        move = m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(n) for n in MOVES))))
        several = m.Tuple(elements=[m.ZeroOrMore(), m.Element(move), m.ZeroOrMore()])
        return m.Expr(value=m.OneOf(move, several))

    def judge(self, node: cst.Expr, facts: Facts) -> Iterator[Report]:
        calls = [node.value] if isinstance(node.value, cst.Call) else [e.value for e in elements_of(node)]
        for call in calls:
            if m.matches(call, m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(n) for n in MOVES))))):
                yield from self._judged(cst.ensure_type(call, cst.Call), node, facts)

    def _judged(self, call: cst.Call, node: cst.Expr, facts: Facts) -> Iterator[Report]:
        if is_deliberate(facts.node(call), facts):
            return
        moved = cst.ensure_type(call.func, cst.Attribute).value
        drop = facts.drop(call)
        if drop is None or (drop.likely and (_is_of_graphs(facts) or _comes_with_no_tensor(facts.node(call), facts))):
            return
        subject = facts.name_of(root_of(moved))
        needless = (
            is_there_already(call, moved, facts)
            or casts_to_own_type(facts.node(call), facts)
            or is_wanted_on_host(call, moved, facts)
            or is_given_back(call, moved, facts)
            or is_shown(moved, facts)
            or meets_host(facts.node(call), facts)
        )
        assigned = assignment_of(node, facts)
        change = None if needless else assigned
        made, kept = _made(call, facts)
        yield Report(
            call,
            f"`{facts.name_of(call)}` returns a {made} copy and leaves `{subject}` {kept}; the result is dropped",
            "likely" if drop.likely else "certain",
            notes=facts.notes(drop.trail),
            hint=_hint(subject, assigned) if change is None else None,
            change=change,
            # What a test moves of which only its use tells is moved to see that it can be.
            minor=is_shown(moved, facts)
            or is_timed(facts.node(call), facts)
            or (is_there_already(call, moved, facts) and not goes_by_itself(call, moved))
            or changes_nothing(call, moved, facts)
            or is_read_no_more(call, moved, facts)
            or casts_to_own_type(facts.node(call), facts)
            or is_computed_there(call, moved, facts.notes(drop.trail), facts)
            or (drop.likely and is_test_file(Path(facts.path))),
        )


def _is_of_graphs(facts: Facts) -> bool:
    """Whether a file works on graphs: those of PyTorch Geometric are moved in place, and used like tensors (`Data.to`)."""
    return not _GRAPHS.isdisjoint(facts.model.source.imported_packages)


_GRAPHS = frozenset({"torch_geometric"})


def _comes_with_no_tensor(call: ast.expr | None, facts: Facts) -> bool:
    """Whether what is moved came out of one value together with what is moved beside it, and isn't a tensor: they are of one kind.

    `first, second = batch`, `first.to(device)`, `second.to(device)`, where `first` is an object that moves in place.
    """
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name() as moved)):
            pass
        case _:
            return False
    statement = facts.model.source.statement_of(call)
    for beside in (*facts.model.source.before(statement)[-1:], *facts.model.source.after(statement)[:1]):
        match beside:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as other)) as sister):
                if (
                    sister not in facts.model.drops
                    and said_by(sister) == said_by(call)
                    and _are_unpacked_together(moved, other, facts)
                    and _taken_by(moved, facts) & _taken_by(other, facts)
                ):
                    return True
    return False


def _taken_by(name: ast.Name, facts: Facts) -> set[str]:
    """What is called with a name: `model` of `model(x)`."""
    return {
        ast.unparse(n.func)
        for n in own_nodes(facts.model.enclosing_scope(name))
        if isinstance(n, ast.Call) and any(isinstance(a, ast.Name) and a.id == name.id for a in n.args)
    }


def _are_unpacked_together(one: ast.Name, other: ast.Name, facts: Facts) -> bool:
    names = {one.id, other.id}
    return any(
        isinstance(target, ast.Tuple) and names <= {e.id for e in target.elts if isinstance(e, ast.Name)}
        for node in own_nodes(facts.model.enclosing_scope(one))
        for target in (
            *(node.targets if isinstance(node, ast.Assign) else ()),
            *((node.target,) if isinstance(node, ast.For) else ()),
        )
    )


def _hint(subject: str, assigned: Change | None) -> str:
    """What to do where no fix is offered."""
    if assigned is None:
        return "use the result, or build what holds it anew from moved tensors"
    return f"assign the result to `{subject}` where it is meant to move; take the call out where it isn't"


def _made(call: cst.Call, facts: Facts) -> tuple[str, str]:
    """What the call makes, a copy elsewhere or one of another type, and how it leaves what it was made of."""
    arguments = [facts.value(a.value) for a in call.args]
    types = [v.kind is Kind.REFERENCE and v.name.startswith("torch.") for v in arguments]
    return ("cast", "as it is") if types and all(types) else ("moved", "where it is")
