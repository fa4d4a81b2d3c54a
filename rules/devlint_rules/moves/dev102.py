"""DEV102: a parameter that is moved as it is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import HOST, is_test_file, last_name, own_nodes, place_of_device, walk
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.moves import factories

if TYPE_CHECKING:
    from devlint.facts import Facts, FunctionModel, PlacementModel, Unit

MOVES = ("to", "cuda", "xpu", "hpu", "npu")
PARAMETER = "torch.nn.Parameter"
# Calls that are given parameters, and make none of other tensors, as ParameterList and ParameterDict do (seen in torch 2.13).
KEEPERS = ("register_parameter", "append")


class MovedParameter(Rule):
    """A parameter moved as it is made (`nn.Parameter(...).cuda()`), which makes it a plain tensor.

    ## What it does
    Flags `nn.Parameter(...).cuda()` and `nn.Parameter(...).to(...)` where the result is kept: assigned, returned, or
    put into a list or a dict. Moving the tensor inside the call is fine, and so is a `ParameterList`, which makes a
    parameter of what it is given.

    ## Why is this bad
    A move returns a tensor that was computed from the parameter. It isn't a parameter: a module that it is assigned to
    doesn't register it, so the optimizer never sees it, `state_dict()` lacks it and the gradient ends up in a
    parameter that nobody holds. On a machine without an accelerator the move does nothing and all is well.

    ## Example
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3)).cuda()


    scale = Scale()
    print(dict(scale.named_parameters()))
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, device="cuda"))


    scale = Scale()
    print(dict(scale.named_parameters()))
    ```

    ## Fix safety
    Safe: the tensor inside is moved, or made there, instead. Unsafe where a random factory makes it there, which draws
    from the device's own generator.

    ## References
    - [torch.nn.Parameter](https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html)
    - [torch.Tensor.is_leaf](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html)
    """

    code = "DEV102"
    name = "moved-parameter"
    trigger = r"\)\s*\.\s*(?:to|cuda|xpu|hpu|npu)\s*\("
    effect = Effect(holds='"weight" not in dict(scale.named_parameters())')
    fix = "S/U"

    def concerns(self, unit: Unit) -> bool:
        return any(made.args or made.keywords for made in factories.moved_at_once(unit.node))

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        model.ensure(unit.scope)
        return any(model.qualified(made.func) == PARAMETER for made in factories.moved_at_once(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Attribute(value=m.Call(), attr=m.OneOf(*(m.Name(n) for n in MOVES))))

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        func = cst.ensure_type(node.func, cst.Attribute)
        made = cst.ensure_type(func.value, cst.Call)
        if facts.qualified(made.func) != PARAMETER or not _is_kept(node, facts):
            return
        real = _is_real(node, made, func.attr.value, facts)
        if real is None:
            return
        yield Report(
            node,
            f"`{facts.name_of(made.func)}(...).{func.attr.value}(...)` is a tensor computed from a parameter, not a parameter: no module registers it, and no optimizer sees it",
            "certain" if real else "likely",
            change=_moved_inside(node, made, facts),
            # A test that asks for no gradient, and optimizes nothing, has an input of this name.
            minor=(is_test_file(Path(facts.path)) and _LEARNED.search(facts.text.text) is None)
            or _is_brought(node, made, facts)
            or _is_learned_nowhere(node, facts)
            or _is_fixed(made)
            or _is_handed_back(node, facts),
        )


def _is_handed_back(node: cst.Call, facts: Facts) -> bool:
    """Whether a method hands it back, and the file keeps what that gives on nothing: it stands in for a loss, say."""
    found, scope = facts.node(node), facts.scope
    if found is None or scope is None or scope.cls is None:
        return False
    if not isinstance(next(facts.model.ancestors(found), None), ast.Return):
        return False
    return not any(
        isinstance(n, ast.Assign)
        and any(isinstance(t, ast.Attribute) for t in n.targets)
        and any(isinstance(c, ast.Call) and last_name(c.func) == scope.name for c in walk(n.value))
        for n in walk(facts.model.source.tree)
    )


def _is_fixed(made: cst.Call) -> bool:
    """`nn.Parameter(kernel, requires_grad=False)`: nothing trains it, whether or not it is registered."""
    return any(
        a.keyword is not None
        and a.keyword.value == "requires_grad"
        and isinstance(a.value, cst.Name)
        and a.value.value == "False"
        for a in made.args
    )


def _is_brought(node: cst.Call, made: cst.Call, facts: Facts) -> bool:
    """Whether what becomes a parameter comes from whoever calls the function, as the device does, or from where that is told: it may be there already."""
    scope = facts.scope
    given = next((a.value for a in node.args if a.keyword is None or a.keyword.value == "device"), None)
    inner = next((a.value for a in made.args if a.keyword is None or a.keyword.value == "data"), None)
    if scope is None or given is None or inner is None:
        return False
    handed = {p.arg for p in scope.parameters} - {"self"}
    device, data = facts.node(given), facts.node(inner)
    if not isinstance(data, ast.Name):
        return False
    names, made_here = _comes_from(data.id, scope)
    match device:
        case ast.Name(id=name) if name in handed:
            return not made_here and bool(names & handed - {name})
        case ast.Attribute(value=ast.Name(id=name), attr="device"):
            return not made_here and name != "self"
    return False


def _is_learned_nowhere(node: cst.Call, facts: Facts) -> bool:
    """Whether it has a name in its function alone, where nothing shows that it is to be learned: it is computed with."""
    match facts.statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if facts.scope is not None:
            nodes = own_nodes(facts.model.enclosing_scope(facts.statement))
            uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
            return bool(uses) and not any(_is_for_learning(use, facts) for use in uses)
    return False


def _is_for_learning(use: ast.Name, facts: Facts) -> bool:
    """Whether a use keeps a parameter, hands it on, or asks for its gradient: all but computing with it."""
    child: ast.AST = use
    for parent in facts.model.ancestors(use):
        match parent:
            case ast.Call(func=func):
                is_method = isinstance(func, ast.Attribute) and func.value is child
                return not is_method and facts.model.qualified(func) not in _JOINING
            case ast.Attribute(attr=attr):
                return attr in ("grad", "requires_grad", "backward", "retain_grad")
            case ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.Subscript():
                return False
            case ast.List() | ast.Tuple():
                child = parent
            case _:
                return True
    return True


# What computes with several tensors at once.
_JOINING = frozenset({"torch.cat", "torch.concat", "torch.stack", "torch.matmul", "torch.mul", "torch.add"})


# Functions that make a tensor of sizes or numbers.
_MAKING = frozenset(
    {"zeros", "ones", "empty", "full", "rand", "randn", "eye", "arange", "linspace", "tensor", "Tensor"}
)


def _comes_from(name: str, scope: FunctionModel) -> tuple[set[str], bool]:
    """The names that what a name holds is computed from, and whether a tensor is made for it."""
    seen: set[str] = set()
    waiting = {name}
    while waiting:
        here = waiting.pop()
        seen.add(here)
        values = scope.assigned.get(here, [])
        if any(isinstance(n, ast.Call) and last_name(n.func) in _MAKING for value in values for n in walk(value)):
            return seen, True
        waiting |= {n.id for value in values for n in walk(value) if isinstance(n, ast.Name)} - seen
    return seen, False


_LEARNED = regex(r"\.grad\b|\boptim|parameters\(")


def _is_kept(node: cst.Call, facts: Facts) -> bool:
    """Whether the result is meant to be the parameter: something holds it as it is."""
    found = facts.node(node)
    parents = facts.model.ancestors(found) if found is not None else iter(())
    for parent in parents:
        match parent:
            case ast.Assign(targets=[ast.Name(id=name)]) if _is_made_leaf(name, parent, facts):
                return False
            case ast.Return() if facts.scope is not None and _OF_LOSS.search(facts.scope.name):
                # A loss that nobody learns from, which only has to take a `backward()`.
                return False
            case ast.Assign() | ast.AnnAssign() | ast.Return():
                return not _is_put_by_hand(parent, facts)
            case ast.List() | ast.Tuple() | ast.Dict() | ast.ListComp() | ast.DictComp() | ast.IfExp():
                continue
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                return name in KEEPERS
        break
    return False


_OF_LOSS = regex(r"(?i)loss")


def _is_made_leaf(name: str, statement: ast.stmt, facts: Facts) -> bool:
    """Whether what a name holds is told to ask for a gradient later: made without one, it is a leaf, which an optimizer takes."""
    for node in own_nodes(facts.model.enclosing_scope(statement)):
        match node:
            case (
                ast.Attribute(value=ast.Name(id=owner), attr="requires_grad_", lineno=line)
                | ast.Attribute(value=ast.Name(id=owner), attr="requires_grad", ctx=ast.Store(), lineno=line)
            ) if owner == name and line > statement.lineno:
                return True
    return False


def _is_put_by_hand(statement: ast.stmt, facts: Facts) -> bool:
    """`module._parameters[name] = value`: whoever writes there knows what isn't registered."""
    scope = facts.model.enclosing_scope(statement)
    return any(isinstance(n, ast.Attribute) and n.attr == "_parameters" for n in own_nodes(scope))


def _is_real(node: cst.Call, made: cst.Call, method: str, facts: Facts) -> bool | None:
    """Whether the move goes to an accelerator for sure; None where it surely, or as far as is known, changes nothing."""
    given = next((a for a in node.args if a.keyword is None or a.keyword.value == "device"), None)
    if given is None:
        return None if method == "to" else True
    if _is_its_own(given.value, made, facts):
        return None
    places = [place_of_device(v, facts.node(given)) for _, v in facts.value(given).alternatives()]
    there = [v.place for a in made.args[:1] for _, v in facts.value(a.value).alternatives()]
    known = [p for p in places if p is not None and p[0] != HOST and p[0] not in there]
    return known[0][0].off_host and not known[0][1] if known else None


def _is_its_own(given: cst.BaseExpression, made: cst.Call, facts: Facts) -> bool:
    """Whether the device is that of what the parameter is made of: it is there, and the move gives the parameter itself."""
    device, parameter = facts.node(given), facts.node(made)
    if device is None or parameter is None:
        return False
    values = facts.model.assigned_values(device) if isinstance(device, ast.Name) else [device]
    parts = {ast.unparse(n) for n in walk(parameter) if isinstance(n, (ast.Name, ast.Attribute))}
    return bool(values) and all(
        isinstance(v, ast.Attribute) and v.attr == "device" and ast.unparse(v.value) in parts for v in values
    )


def _moved_inside(node: cst.Call, made: cst.Call, facts: Facts) -> Change | None:
    """The tensor moved before it becomes a parameter, or made in its place."""
    inner = next((a for a in made.args if a.keyword is None or a.keyword.value == "data"), None)
    if inner is None or inner.star:
        return None
    func = cst.ensure_type(node.func, cst.Attribute)
    name = factories.factory(inner.value, facts)
    move = factories.move(node, facts)
    exact = True
    if name is not None and move is not None and not move.rest:
        factory = cst.ensure_type(inner.value, cst.Call)
        value: cst.BaseExpression = factories.made_there(factory, move.device)
        exact = factories.is_exact(name, factory)
    else:
        value = cst.Call(cst.Attribute(_closed(inner.value), func.attr), node.args)
    arguments = [a.with_changes(value=value) if a is inner else a for a in made.args]
    inside = made.with_changes(args=arguments, lpar=node.lpar, rpar=node.rpar)
    return Change("move the tensor, not the parameter", "safe" if exact else "unsafe", ((node, inside),))


def _closed(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression that an attribute can be asked of: operators in parentheses."""
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
