"""DEV101: a tensor's move whose result is dropped."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import (
    BUFFER,
    HOST,
    Facts,
    Kind,
    Value,
    access_path,
    calls_in,
    is_test_file,
    kept_on_node,
    last_name,
    own_nodes,
    place_of_device,
    plain_name,
    walk,
)
from devlint.findings import Note, Safety
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.moves.dtypes import casts_to_own_type

if TYPE_CHECKING:
    from devlint.facts import PlacementModel, Unit

MOVES = ("to", "cuda", "cpu", "xpu", "mps", "hpu", "npu")


class DiscardedMove(Rule):
    """The result of a tensor's `.to(device)` is dropped, so nothing is moved.

    ## What it does
    Flags `tensor.to(...)`, `.cuda()`, `.cpu()` and their like where nothing takes the result.

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
    Not offered for what goes to the host and isn't read there, for what is only collected in a list, or where arrays are made without a copy to the host: that works as
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
        calls = [node.value] if isinstance(node.value, cst.Call) else [e.value for e in _elements(node)]
        for call in calls:
            if m.matches(call, m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(n) for n in MOVES))))):
                yield from self._judged(cst.ensure_type(call, cst.Call), node, facts)

    def _judged(self, call: cst.Call, node: cst.Expr, facts: Facts) -> Iterator[Report]:
        if _is_deliberate(facts.node(call), facts):
            return
        moved = cst.ensure_type(call.func, cst.Attribute).value
        drop = facts.drop(call)
        if drop is None or (drop.likely and _comes_with_no_tensor(facts.node(call), facts)):
            return
        subject = facts.name_of(_root(moved))
        needless = (
            _is_there_already(call, moved, facts)
            or casts_to_own_type(facts.node(call), facts)
            or _is_wanted_on_host(call, moved, facts)
            or _is_given_back(call, moved, facts)
            or _is_shown(moved, facts)
        )
        assigned = _assignment(node, facts)
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
            minor=_is_shown(moved, facts)
            or (_is_there_already(call, moved, facts) and not _goes_by_itself(call, moved))
            or _changes_nothing(call, moved, facts)
            or casts_to_own_type(facts.node(call), facts)
            or _is_computed_there(call, moved, facts.notes(drop.trail), facts)
            or (drop.likely and is_test_file(Path(facts.path))),
        )


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
                    and _given(sister) == _given(call)
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


def _goes_by_itself(call: cst.Call, moved: cst.BaseExpression) -> bool:
    """`x.to(x.device)`: another one's device was meant."""
    return any(m.matches(a.value, m.Attribute(attr=m.Name("device"))) and _same(a.value, moved) for a in call.args)


def _same(device: cst.BaseExpression, moved: cst.BaseExpression) -> bool:
    return cst.ensure_type(device, cst.Attribute).value.deep_equals(moved)


def _changes_nothing(call: cst.Call, moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether a tensor is what the call would make of it, or it doesn't matter: the next statement moves it, or it is only copied from.

    `copy_` casts and moves by itself.
    """
    node, root = facts.node(call), facts.node(_bare(moved))
    if not isinstance(node, ast.Call) or not isinstance(root, ast.Name):
        return False
    wanted = _given(node)
    made = [v for v in facts.model.assigned_values(root) if v.lineno <= node.lineno]
    if wanted and made and all(_is_made_with(value, wanted) for value in made):
        return True
    read = _read_by_text(facts.model.enclosing_scope(root)).get(root.id, ())
    if _is_moved_beside(node, root, facts):
        return True
    uses = [n for n in read if n.lineno > node.lineno]
    return bool(uses) and all(_is_copied_from(use, facts) for use in uses)


def _is_computed_there(call: cst.Call, moved: cst.BaseExpression, trail: Iterable[Note], facts: Facts) -> bool:
    """Whether what is moved is a sum or a product of what was moved before: then it is there, if anything is."""
    node, root = facts.node(call), facts.node(moved)
    if not isinstance(node, ast.Call) or not isinstance(root, ast.Name):
        return False
    made = [v for v in facts.model.assigned_values(root) if v.lineno <= node.lineno]
    if not made or not all(isinstance(value, ast.BinOp) for value in made):
        return False
    if any(note.message.startswith("moved") and "to cpu" not in note.message for note in trail):
        return True
    wanted = _given(node)
    operands = [n for value in made for n in ast.walk(value) if isinstance(n, ast.Name)]
    parts = [part for n in operands for value in facts.model.assigned_values(n) for part in ast.walk(value)]
    return bool(wanted) and any(isinstance(n, ast.Call) and _is_to(n) and _given(n) == wanted for n in parts)


def _is_moved_beside(call: ast.Call, root: ast.Name, facts: Facts) -> bool:
    """Whether the next statement moves what the dropped result was made of, for good: `x.to(device)`, `x = x.cpu()`.

    Or the one before has moved it to where what it meets is: `x = x.to(y.device)`, `x.to(device)`.
    """
    statement = facts.model.source.statement_of(call)
    following = [c for s in facts.model.source.after(statement)[:1] for c in _moves_for_good(s, root.id)]
    earlier = [c for s in facts.model.source.before(statement)[-1:] for c in _moves_for_good(s, root.id)]
    return bool(following) or any(a.endswith(".device") for c in earlier for a in _given(c))


def _moves_for_good(statement: ast.stmt, name: str) -> list[ast.Call]:
    """The moves of `x = x.to(device).to(dtype)`."""
    found: list[ast.Call] = []
    match statement:
        case ast.Assign(targets=[ast.Name(id=into)], value=value) if into == name:
            while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                found += [value] if value.func.attr in MOVES else []
                value = value.func.value
            return found if isinstance(value, ast.Name) and value.id == name else []
    return []


def _bare(moved: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `x.uniform_(0, 1)`, which is `x` itself."""
    while m.matches(moved, m.Call(func=m.Attribute(attr=m.Name(m.MatchIfTrue(_is_in_place))))):
        moved = cst.ensure_type(cst.ensure_type(moved, cst.Call).func, cst.Attribute).value
    return moved


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _given(call: ast.Call) -> set[str]:
    """What a move says: `device`, `dtype=x.dtype`, by its text."""
    return {ast.unparse(part) for part in (*call.args, *(k.value for k in call.keywords))}


def _is_made_with(value: ast.expr, wanted: set[str]) -> bool:
    """`torch.zeros(3, device=device)`, `make().to(device)`: the last call of what makes a tensor says all that is wanted."""
    return (
        isinstance(value, ast.Call)
        and last_name(value.func) not in ("cpu", "cuda")
        and wanted <= ({ast.unparse(k.value) for k in value.keywords} | (_given(value) if _is_to(value) else set()))
    )


def _is_to(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "to"


def _is_copied_from(use: ast.expr, facts: Facts) -> bool:
    """`parameter.data.copy_(x)`"""
    match next(facts.model.ancestors(use), None):
        case ast.Call(func=ast.Attribute(attr="copy_"), args=[argument, *_]):
            return argument is use
    return False


def _is_there_already(call: cst.Call, moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether a tensor is moved to the device that it is on: nothing is lost with the result."""
    given = next((a.value for a in call.args if a.keyword is None or a.keyword.value == "device"), None)
    device = facts.node(given) if given is not None else None
    if not call.args:
        # `x.cuda()`: to the current one, as most of what is on an accelerator.
        before, after = facts.value(moved).place, facts.value(call).place
        return before == after and (before.off_host or before == HOST)
    if given is None or device is None:
        return False
    targets = {place_of_device(v, device) for _, v in facts.value(given).alternatives()}
    places = {v.place for _, v in facts.value(moved).alternatives()}
    return (
        len(places) == 1 and None not in targets and places == {target[0] for target in targets if target is not None}
    )


def _moves_with_module(moved: ast.expr | None, facts: Facts) -> bool:
    """Whether a name stands for a part of what the class around has registered: `mask = self.mask[:n]`. That is where the module is."""
    if not isinstance(moved, ast.Name) or (cls := facts.model.class_around(moved)) is None:
        return False
    owned = {
        n.attr
        for value in facts.model.assigned_values(moved)
        for n in ast.walk(value)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self"
    }
    return any(_registers(n, owned) for n in ast.walk(cls.node))


def _registers(node: ast.AST, names: set[str]) -> bool:
    match node:
        case ast.Call(
            func=ast.Attribute(attr="register_buffer" | "register_parameter"), args=[ast.Constant(value), *_]
        ):
            return value in names
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Call(func=func)):
            return name in names and last_name(func) in ("Parameter", "Buffer")
    return False


def _is_shown(moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether the next line does nothing but show where the tensor still is, as a notebook does: it teaches what a move leaves."""
    following = facts.model.source.after(facts.statement)
    match following[:1]:
        case [ast.Expr(value=ast.Attribute(value=shown, attr="is_cuda" | "device"))]:
            root = facts.node(_root(moved))
            return root is not None and ast.dump(shown) == ast.dump(root)
    return False


def _is_wanted_on_host(call: cst.Call, moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether what was to be moved is only collected, or its function asks for arrays of what isn't copied to the host.

    That works as long as the result is dropped.
    """
    node = facts.node(_root(moved))
    if node is None or facts.value(call).place == HOST:
        return False
    line = facts.statement.lineno
    read = _read_by_text(facts.model.enclosing_scope(node))
    if any(n.lineno > line for n in read.get(_AS_ARRAY, ())):
        return True
    uses = [n for n in read.get(ast.unparse(node), ()) if n.lineno > line]
    return bool(uses) and all(_is_collected(use, facts) for use in uses)


def _is_given_back(call: cst.Call, moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether a tensor goes to the host to free memory, and nobody reads it there: to take the result would copy it, and wait.

    A loop that reads it above brings another one with its next pass.
    """
    name = facts.node(_root(moved))
    if not isinstance(name, ast.Name) or facts.value(call).place != HOST:
        return False
    scope, line = facts.model.enclosing_scope(name), facts.statement.lineno
    if name.id in _declared_outer(scope):
        return False
    named = [n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id == name.id and n is not name]
    loop = next((p for p in facts.model.ancestors(name) if isinstance(p, (ast.For, ast.AsyncFor, ast.While))), None)
    first = min((n for n in named if loop is not None and n.lineno >= loop.lineno), key=_place, default=None)
    is_kept = loop is not None and first is not None and isinstance(first.ctx, ast.Load)
    return not is_kept and not any(isinstance(n.ctx, ast.Load) and n.lineno > line for n in named)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _declared_outer(scope: ast.AST) -> set[str]:
    """The names of a scope that are others' as well: a function may read what its module, or what is around it, holds."""
    if isinstance(scope, ast.Module):
        functions = (n for n in walk(scope) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))
        return {n.id for function in functions for n in ast.walk(function) if isinstance(n, ast.Name)}
    return {name for n in own_nodes(scope) if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}


# What stands for no text: arrays of what isn't copied to the host.
_AS_ARRAY = ""


@kept_on_node
def _read_by_text(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """The names, attributes and subscripts of a scope by how they are written."""
    found: dict[str, list[ast.expr]] = {}
    for node in own_nodes(scope):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            found.setdefault(ast.unparse(node), []).append(node)
        if isinstance(node, ast.Attribute) and node.attr == "numpy" and ".cpu()" not in ast.unparse(node.value):
            found.setdefault(_AS_ARRAY, []).append(node)
    return found


def _is_collected(use: ast.expr, facts: Facts) -> bool:
    """`values.append(x)`"""
    match next(facts.model.ancestors(use), None):
        case ast.Call(func=ast.Attribute(attr="append" | "extend"), args=[argument]):
            return argument is use
    return False


def _made(call: cst.Call, facts: Facts) -> tuple[str, str]:
    """What the call makes, a copy elsewhere or one of another type, and how it leaves what it was made of."""
    arguments = [facts.value(a.value) for a in call.args]
    types = [v.kind is Kind.REFERENCE and v.name.startswith("torch.") for v in arguments]
    return ("cast", "as it is") if types and all(types) else ("moved", "where it is")


def _is_deliberate(call: ast.expr | None, facts: Facts) -> bool:
    """The move is made for its own sake: a throwaway tensor wakes the accelerator up, a test expects an error, a
    benchmark repeats a transfer, or waits for what it measures (`model(x).cpu()`)."""
    if call is None:
        return True
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=func), attr="cpu")):
            if any(v.is_module for _, v in facts.model.value(func).alternatives()):
                # What has no name was never meant to be elsewhere from there on.
                return True
    root: ast.expr = call
    while isinstance(root, (ast.Call, ast.Attribute, ast.Subscript)):
        root = root.func if isinstance(root, ast.Call) else root.value
    if isinstance(root, ast.Name) and facts.model.value(root).kind in (Kind.REFERENCE, Kind.FUNCTION, Kind.CLASS):
        return True
    for parent in facts.model.ancestors(call):
        if isinstance(parent, (ast.With, ast.AsyncWith)) and any(
            "raises" in ast.unparse(i.context_expr) for i in parent.items
        ):
            return True
        if isinstance(parent, ast.For) and parent.body == [facts.statement] and not _uses(parent.target, call):
            # Nothing but the same move, again and again.
            return True
    return False


def _uses(target: ast.expr, call: ast.expr) -> bool:
    names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(call))


def _root(moved: cst.BaseExpression) -> cst.BaseExpression:
    """What a chain of moves started from."""
    while m.matches(moved, m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(n) for n in MOVES))))):
        moved = cst.ensure_type(cst.ensure_type(moved, cst.Call).func, cst.Attribute).value
    return moved


def _elements(statement: cst.Expr) -> Sequence[cst.BaseElement]:
    """The parts of a tuple that is a statement."""
    return cst.ensure_type(statement.value, cst.Tuple).elements


def _assignment(statement: cst.Expr, facts: Facts) -> Change | None:
    """The result, or each of several, assigned to what was moved."""
    value = statement.value
    if isinstance(value, cst.Tuple) and len(value.elements) == 1:
        # `x.to(device),` with a comma too many.
        value = value.elements[0].value
    if isinstance(value, cst.Call):
        calls: list[cst.BaseExpression] = [value]
        target = _target(value, facts)
        names = facts.name_of(target) if target is not None else ""
    else:
        elements = _elements(statement)
        calls = [element.value for element in elements]
        targets = [_target(element.value, facts) for element in elements]
        known = [one for one in targets if one is not None]
        names = ", ".join(map(facts.name_of, known))
        parts = [element.with_changes(value=one) for element, one in zip(elements, known, strict=False)]
        target = cst.ensure_type(statement.value, cst.Tuple).with_changes(elements=parts)
        if len(known) != len(elements) or len(set(names.split(", "))) != len(known):
            return None
    if not isinstance(target, cst.BaseAssignTargetExpression):
        return None
    targeted = cst.AssignTarget(target.deep_clone())
    assigned = cst.Assign(targets=[targeted], value=value, semicolon=statement.semicolon)
    if any(_moves_with_module(facts.node(_root(call)), facts) for call in calls):
        # It is there already: the statement is better left out.
        return None
    # Of what is a tensor by its use alone, nobody knows whether it is to stay where it is.
    safety: Safety = "unsafe" if any(_is_likely(call, facts) for call in calls) else "safe"
    return Change(f"assign the result to `{names}`", safety, ((statement, assigned),))


def _is_likely(call: cst.BaseExpression, facts: Facts) -> bool:
    drop = facts.drop(cst.ensure_type(call, cst.Call))
    return drop is not None and drop.likely


def _target(call: cst.BaseExpression, facts: Facts) -> cst.BaseExpression | None:
    """What the result of a dropped move can be assigned to."""
    node = facts.node(call)
    drop = facts.drop(call) if isinstance(call, cst.Call) else None
    if drop is None or _is_deliberate(node, facts):
        return None
    root = _root(call)
    node = facts.node(root)
    if node is not None and _is_leaf(node, facts):
        return None
    return root if node is not None and _assignable(node, facts) else None


def _is_leaf(node: ast.expr, facts: Facts) -> bool:
    """Whether a tensor is made to be optimized: its copy elsewhere is computed, and no optimizer takes that."""
    path = access_path(node)
    made = (
        n.value
        for n in own_nodes(facts.model.enclosing_scope(node))
        if isinstance(n, ast.Assign) and any(access_path(t) == path for t in n.targets)
    )
    return any(
        k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value is True
        for value in made
        for n in calls_in(value)
        for k in n.keywords
    )


def _assignable(node: ast.expr, facts: Facts) -> bool:
    match node:
        case ast.Name(id=name):
            return _is_local(node, facts) and not _is_spent_target(node, name, facts)
        case ast.Attribute(value=owner, attr=attr):
            value = facts.model.value(node)
            if value.kind is Kind.PARAMETER and value.name != BUFFER:
                # Assigning a tensor over a parameter raises TypeError.
                return False
            if facts.model.value(owner).is_tensor and attr not in ("data", "grad"):
                return False
            return plain_name(node) is not None and _can_set(facts.model.value(owner), attr)
        case ast.Subscript(value=owner, slice=index):
            return (
                facts.model.value(owner).name != "tuple"
                and plain_name(owner) is not None
                and isinstance(index, (ast.Constant, ast.Name))
                and not facts.model.value(owner).is_tensor
            )
    return False


def _can_set(owner: Value, attribute: str) -> bool:
    """Whether an attribute of an object can be assigned: a property without a setter and a frozen field can't."""
    cls = owner.cls
    if cls is None:
        return True
    method = cls.method(attribute)
    if method is not None and method.is_property and not any(d.endswith(".setter") for d in method.decorators):
        return False
    return not cls.is_frozen


def _is_local(node: ast.Name, facts: Facts) -> bool:
    """Assigning a name of an outer scope would make it another, local one."""
    scope = facts.model.enclosing_scope(node)
    if isinstance(scope, ast.Module):
        return True
    function = facts.model.source.function_at(scope)
    return node.id in function.local_names or node.id in function.declared_outer


def _is_spent_target(node: ast.Name, name: str, facts: Facts) -> bool:
    """The target of a loop that doesn't use it afterwards: `for t in tensors: t.to(device)` wants a new list."""
    for loop in facts.model.ancestors(node):
        if isinstance(loop, (ast.For, ast.AsyncFor)) and any(
            isinstance(n, ast.Name) and n.id == name for n in ast.walk(loop.target)
        ):
            later = (
                n
                for statement in loop.body
                for n in ast.walk(statement)
                if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
            )
            return not any((n.lineno, n.col_offset) > (node.lineno, node.col_offset) for n in later)
    return False
