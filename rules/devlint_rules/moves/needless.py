"""Dropped moves after which nothing is amiss: the tensor is there already, or nobody wants it elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import takewhile

from devlint.facts import HOST, Facts, calls_in, kept_on_node, last_name, own_nodes, place_of_device, walk
from devlint.findings import Note
from devlint.knowledge.ecosystem import CLOCKS
from devlint.lazy import cst, m
from devlint_rules.moves.dropped import MOVES, root_of, said_by


def goes_by_itself(call: cst.Call, moved: cst.BaseExpression) -> bool:
    """`x.to(x.device)`: another one's device was meant."""
    return any(m.matches(a.value, m.Attribute(attr=m.Name("device"))) and _same(a.value, moved) for a in call.args)


def _same(device: cst.BaseExpression, moved: cst.BaseExpression) -> bool:
    return cst.ensure_type(device, cst.Attribute).value.deep_equals(moved)


def changes_nothing(call: cst.Call, moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether a tensor is what the call would make of it, or it doesn't matter: the next statement moves it, or it is only copied from.

    `copy_` casts and moves by itself.
    """
    node, root = facts.node(call), facts.node(_bare(moved))
    if not isinstance(node, ast.Call) or not isinstance(root, ast.Name):
        return False
    wanted = said_by(node)
    made = [v for v in facts.model.assigned_values(root) if v.lineno <= node.lineno]
    if wanted and made and all(_is_made_with(value, wanted) for value in made):
        return True
    read = _read_by_text(facts.model.enclosing_scope(root)).get(root.id, ())
    if _is_moved_beside(node, root, facts):
        return True
    uses = [n for n in read if n.lineno > node.lineno]
    return bool(uses) and all(_is_copied_from(use, facts) for use in uses)


def is_read_no_more(call: cst.Call, moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether a function has bound the name of what is moved itself, has read it, and doesn't read it again: nothing comes of the mistake."""
    node, root = facts.node(call), facts.node(moved)
    if not isinstance(node, ast.Call) or not isinstance(root, ast.Name):
        return False
    scope = facts.model.enclosing_scope(root)
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    names = [n for n in walk(scope) if isinstance(n, ast.Name) and n.id == root.id]
    around = takewhile(lambda parent: parent is not scope, facts.model.ancestors(node))
    within = set(walk(next((p for p in around if isinstance(p, _LOOPS)), scope)))
    bound = [n.lineno for n in names if isinstance(n.ctx, ast.Store) and n.lineno < node.lineno and n in within]
    read = [n.lineno for n in names if isinstance(n.ctx, ast.Load)]
    return bool(bound) and max(read) <= node.lineno and any(max(bound) < line < node.lineno for line in read)


_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def is_computed_there(call: cst.Call, moved: cst.BaseExpression, trail: Iterable[Note], facts: Facts) -> bool:
    """Whether what is moved is a sum or a product of what was moved before: then it is there, if anything is."""
    node, root = facts.node(call), facts.node(moved)
    if not isinstance(node, ast.Call) or not isinstance(root, ast.Name):
        return False
    made = [v for v in facts.model.assigned_values(root) if v.lineno <= node.lineno]
    if not made or not all(isinstance(value, ast.BinOp) for value in made):
        return False
    if any(note.message.startswith("moved") and "to cpu" not in note.message for note in trail):
        return True
    wanted = said_by(node)
    operands = [n for value in made for n in ast.walk(value) if isinstance(n, ast.Name)]
    parts = [part for n in operands for value in facts.model.assigned_values(n) for part in ast.walk(value)]
    return bool(wanted) and any(isinstance(n, ast.Call) and _is_to(n) and said_by(n) == wanted for n in parts)


def _is_moved_beside(call: ast.Call, root: ast.Name, facts: Facts) -> bool:
    """Whether the next statement moves what the dropped result was made of, for good: `x.to(device)`, `x = x.cpu()`.

    Or the one before has moved it to where what it meets is: `x = x.to(y.device)`, `x.to(device)`.
    """
    statement = facts.model.source.statement_of(call)
    following = [c for s in facts.model.source.after(statement)[:1] for c in _moves_for_good(s, root.id)]
    earlier = [c for s in facts.model.source.before(statement)[-1:] for c in _moves_for_good(s, root.id)]
    return bool(following) or any(a.endswith(".device") for c in earlier for a in said_by(c))


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


def _is_made_with(value: ast.expr, wanted: set[str]) -> bool:
    """`torch.zeros(3, device=device)`, `make().to(device)`: the last call of what makes a tensor says all that is wanted."""
    return (
        isinstance(value, ast.Call)
        and last_name(value.func) not in ("cpu", "cuda")
        and wanted <= ({ast.unparse(k.value) for k in value.keywords} | (said_by(value) if _is_to(value) else set()))
    )


def _is_to(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "to"


def _is_copied_from(use: ast.expr, facts: Facts) -> bool:
    """`parameter.data.copy_(x)`"""
    match next(facts.model.ancestors(use), None):
        case ast.Call(func=ast.Attribute(attr="copy_"), args=[argument, *_]):
            return argument is use
    return False


def is_there_already(call: cst.Call, moved: cst.BaseExpression, facts: Facts) -> bool:
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


def is_shown(moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether the next line does nothing but show where the tensor still is, as a notebook does: it teaches what a move leaves."""
    following = facts.model.source.after(facts.statement)
    match following[:1]:
        case [ast.Expr(value=ast.Attribute(value=shown, attr="is_cuda" | "device"))]:
            root = facts.node(root_of(moved))
            return root is not None and ast.dump(shown) == ast.dump(root)
    return False


def is_wanted_on_host(call: cst.Call, moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether what was to be moved is only collected, or its function asks for arrays of what isn't copied to the host.

    That works as long as the result is dropped.
    """
    node = facts.node(root_of(moved))
    if node is None or facts.value(call).place == HOST:
        return False
    line = facts.statement.lineno
    read = _read_by_text(facts.model.enclosing_scope(node))
    if any(n.lineno > line for n in read.get(_AS_ARRAY, ())):
        return True
    uses = [n for n in read.get(ast.unparse(node), ()) if n.lineno > line]
    return bool(uses) and all(_is_collected(use, facts) for use in uses)


def is_given_back(call: cst.Call, moved: cst.BaseExpression, facts: Facts) -> bool:
    """Whether a tensor goes to the host to free memory, and nobody reads it there: to take the result would copy it, and wait.

    A loop that reads it above brings another one with its next pass.
    """
    name = facts.node(root_of(moved))
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


def is_timed(call: ast.expr | None, facts: Facts) -> bool:
    """Whether the clock is read right before a call and soon after it: how long the copy takes is what is asked for."""
    if call is None:
        return False
    source = facts.model.source
    statement = source.statement_of(call)
    around = (reversed(source.before(statement)), source.after(statement))
    return all(_reads_clock(next((s for s in side if not _goes_along(s)), None)) for side in around)


def _goes_along(statement: ast.stmt) -> bool:
    """`torch.cuda.synchronize()`, or another copy that is timed with it; not `started.record()`."""
    match statement:
        case (
            ast.Expr(value=ast.Call(func=ast.Attribute(attr=name)))
            | ast.Assign(value=ast.Call(func=ast.Attribute(attr=name)))
        ):
            return name == "synchronize" or name in MOVES
    return False


def _reads_clock(statement: ast.stmt | None) -> bool:
    """`start = time.time()`, `started.record()`."""
    calls = calls_in(statement) if statement is not None and not hasattr(statement, "body") else ()
    return any(last_name(c.func) in CLOCKS or last_name(c.func) == "record" for c in calls)
