"""How the result of a dropped move is assigned to what was moved."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devlint.facts import BUFFER, Facts, Kind, Value, access_path, calls_in, last_name, own_nodes, plain_name
from devlint.findings import Safety
from devlint.lazy import cst
from devlint.rule import Change
from devlint_rules.moves.dropped import is_deliberate, root_of


def elements_of(statement: cst.Expr) -> Sequence[cst.BaseElement]:
    """The parts of a tuple that is a statement."""
    return cst.ensure_type(statement.value, cst.Tuple).elements


def assignment_of(statement: cst.Expr, facts: Facts) -> Change | None:
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
        elements = elements_of(statement)
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
    if any(_moves_with_module(facts.node(root_of(call)), facts) for call in calls):
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
    if drop is None or is_deliberate(node, facts):
        return None
    root = root_of(call)
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
