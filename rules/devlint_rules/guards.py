"""Code that is ready for what would be an error elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from devlint.facts import last_name

if TYPE_CHECKING:
    from devlint.facts import Facts


def expects_missing(found: ast.expr, attribute: str, facts: Facts) -> bool:
    """Whether the code around the read of an attribute is ready for it to be missing."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.Try(body=body, handlers=handlers) if child in body:
                caught = [ast.unparse(h.type) if h.type is not None else "Exception" for h in handlers]
                if any("AttributeError" in text or "Exception" in text for text in caught):
                    return True
            case ast.If(test=test) | ast.IfExp(test=test) if child is not test and _asks(test, attribute):
                return True
            case ast.If(test=test, body=body) if child in body and _asks_of(test, found):
                # What has that is no wrapper, which would have said no.
                return True
            case ast.BoolOp(values=values) if any(v is not child and _asks(v, attribute) for v in values):
                return True
        child = parent
    return False


def tests_deciding(found: ast.AST, facts: Facts) -> Iterator[ast.expr]:
    """The tests of `if` that decide whether an expression is reached, the nearest first, out to the top level."""
    child = found
    for parent in facts.model.ancestors(found):
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            yield parent.test
        child = parent


def is_tried_another_way(found: ast.AST, thing: str, error: str, facts: Facts) -> bool:
    """Whether a handler around, which catches that error, does something else with the same thing."""
    child = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.Try(body=body, handlers=handlers) if child in body:
                catching = [h for h in handlers if _catches(h, error)]
                if any(_speaks_of(handler, thing) for handler in catching[:1]):
                    return True
        child = parent
    return False


def _catches(handler: ast.ExceptHandler, error: str) -> bool:
    named = {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)} if handler.type is not None else {error}
    return not named.isdisjoint({error, "Exception", "BaseException"})


def _speaks_of(handler: ast.ExceptHandler, thing: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == thing for statement in handler.body for n in ast.walk(statement))


def is_unwrapped_beside(found: ast.Attribute, facts: Facts) -> bool:
    """Whether the other branch of an `if` around reads the same attribute of what is wrapped: a test tells both apart."""
    unwrapped = f"{ast.unparse(found.value)}.module.{found.attr}"
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.If(body=body, orelse=orelse) if child in body or child in orelse:
                other = orelse if child in body else body
                if any(unwrapped in ast.unparse(statement) for statement in other):
                    return True
            case ast.IfExp(body=body, orelse=orelse) if child is body or child is orelse:
                if unwrapped in ast.unparse(orelse if child is body else body):
                    return True
        child = parent
    return False


def _asks(test: ast.expr, attribute: str) -> bool:
    """`hasattr(x, "<attribute>")` in a condition."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Name)
        and n.func.id in ("hasattr", "getattr")
        and len(n.args) > 1
        and isinstance(n.args[1], ast.Constant)
        and n.args[1].value == attribute
        for n in ast.walk(test)
    )


def _asks_of(test: ast.expr, found: ast.expr) -> bool:
    """`if getattr(x, "own", False):`, `if hasattr(x, "own"):`, of what an attribute is read from."""
    match test:
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, _, ast.Constant(value=False | None)]):
            pass
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant()]):
            pass
        case _:
            return False
    return isinstance(found, ast.Attribute) and ast.unparse(found.value).startswith(ast.unparse(owner))


def asks_for_main(test: ast.expr) -> bool:
    """`__name__ == "__main__"`"""
    return "__name__" in ast.unparse(test)


def moves_on_each_way(block: list[ast.stmt], also: Callable[[ast.AST], bool] = lambda _: False) -> bool:
    """Whether each way through a block moves something to CUDA: `if gpu is None: m = DataParallel(m).cuda()`, `else: m = m.cuda(gpu)`.

    `also` tells of other nodes that they do.
    """
    for statement in block:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                if moves_on_each_way(body, also) and (moves_on_each_way(orelse, also) or asks_for_main(test)):
                    return True
            case ast.With(body=body):
                if moves_on_each_way(body, also):
                    return True
            case ast.Assign(value=value) | ast.Expr(value=value) if _moves(value, also):
                return True
    return False


def _moves(node: ast.AST, also: Callable[[ast.AST], bool]) -> bool:
    """Whether an expression moves something to CUDA, whichever way it goes: not `m.cuda() if use_cuda else m.cpu()`."""
    match node:
        case ast.IfExp(body=body, orelse=orelse):
            return _moves(body, also) and _moves(orelse, also)
        case ast.BoolOp(values=[first, *_]):
            return _moves(first, also)
        case ast.Lambda():
            return False
    return _is_move(node) or also(node) or any(_moves(child, also) for child in ast.iter_child_nodes(node))


def _is_move(node: ast.AST) -> bool:
    """`model.cuda()`, `x.to("cuda")`, `x.to(0)`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda", value=owner)):
            return last_name(owner) != "torch"
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value=str() as place), *_]):
            return place.startswith("cuda")
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value=place), *_]):
            return type(place) is int
    return False
