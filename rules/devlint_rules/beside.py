"""What stands beside a statement and decides whether its fix would be wanted: other branches, and what becomes of its value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING

from devlint.facts import MOVES, own_nodes, walk

if TYPE_CHECKING:
    from devlint.facts import Facts


def differs_by_move_alone(node: ast.AST, facts: Facts) -> bool:
    """Whether another branch says the same without the move: `f(x.cuda())` and `else: f(x)`, which a fix would make equal."""
    child = node
    for parent in facts.model.ancestors(node):
        match parent:
            case ast.IfExp(body=body, orelse=orelse) if child in (body, orelse):
                if _differs(child, orelse if child is body else body, _without_moves(child)):
                    return True
            case ast.If(body=body, orelse=orelse) if child in body or child in orelse:
                said = _without_moves(child)
                if any(_differs(child, other, said) for other in (orelse if child in body else body)):
                    return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return False
        child = parent
    return False


def other_branches(statement: ast.AST, facts: Facts) -> Iterator[ast.stmt]:
    """The statements of the branches that a test takes in the place of those in which a statement stands, test by test."""
    around = [statement, *facts.model.ancestors(statement)]
    for branch in (parent for parent in around if isinstance(parent, ast.If)):
        # An `elif` is a test in the other branch of one.
        yield from branch.orelse if any(s in branch.body for s in around) else branch.body


def _differs(node: ast.AST, other: ast.AST, said: str) -> bool:
    """Whether two nodes differ, and not without their moves: `said` is what the first one says without them."""
    return _without_moves(other) == said and ast.dump(other) != ast.dump(node)


class _Unmoved(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node.func:
            case ast.Attribute(value=owner, attr=attr) if attr in MOVES:
                unmoved: ast.AST = self.visit(owner)
                return unmoved
        node.keywords = [k for k in node.keywords if k.arg != "device"]
        return self.generic_visit(node)


def _without_moves(node: ast.AST) -> str:
    return ast.dump(_Unmoved().visit(deepcopy(node)))


def is_never_read(statement: ast.AST, facts: Facts) -> bool:
    """Whether nothing reads the name that a statement binds: in its function, or before its block puts something else there."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            pass
        case _:
            return False
    scope = facts.model.enclosing_scope(statement)
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) and not _may_read(scope, name):
        return True
    for later in facts.model.source.after(statement):
        named = [n for n in walk(later) if isinstance(n, ast.Name) and n.id == name]
        if (
            any(isinstance(n.ctx, ast.Load) for n in named)
            or isinstance(later, ast.AugAssign)
            or hasattr(later, "body")
        ):
            return False
        if named:
            return True
    return False


def _may_read(function: ast.AST, name: str) -> bool:
    """Whether something in a function reads a name, or it isn't the function's alone."""
    for node in walk(function):
        match node:
            case ast.Name(id=found, ctx=ast.Load()) if found in (name, "locals", "vars", "eval", "exec"):
                return True
            case ast.Global(names=names) | ast.Nonlocal(names=names) if name in names:
                return True
            case ast.AugAssign(target=ast.Name(id=found)) | ast.Delete(targets=[ast.Name(id=found)]) if found == name:
                return True
    return False


def is_never_reached(statement: ast.AST, facts: Facts) -> bool:
    """Whether the program ends, or the function does, before a statement in its block or in one around it."""
    around = (statement, *facts.model.ancestors(statement))
    return any(_ends(before) for s in around if isinstance(s, ast.stmt) for before in facts.model.source.before(s))


def _ends(statement: ast.stmt) -> bool:
    match statement:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="quit" | "exit"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="sys" | "os"), attr="exit" | "_exit"))):
            return True
    return False


def has_twin(call: ast.Call, around: ast.AST, *, but: ast.AST) -> bool:
    """Whether the same call stands elsewhere in a block or loop."""
    said = ast.dump(call)
    inside = set(walk(but))
    return any(isinstance(n, ast.Call) and n not in inside and ast.dump(n) == said for n in own_nodes(around))


def reads_beside(call: ast.Call, statement: ast.AST) -> bool:
    """Whether a statement brings something else to the host than a call needs: it waits all the same."""
    inside = set(walk(call))
    return any(
        isinstance(n, ast.Call)
        and n not in inside
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("cpu", "item", "tolist", "numpy", "generate")
        for n in walk(statement)
    )
