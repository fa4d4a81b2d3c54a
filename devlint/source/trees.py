"""Walks over syntax trees, several times as fast as those of `ast`: without contexts, operators and what is no node."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from typing import Any, TypeVar

_Node = TypeVar("_Node", bound=ast.AST)
_Result = TypeVar("_Result")
_NOTHING: Any = object()

# Fields that hold text, numbers, contexts or operators in whatever node they are.
_WITHOUT_NODES = frozenset(
    {
        *("ctx", "op", "ops", "id", "attr", "arg", "name", "asname", "rest", "module", "level", "kind", "kwd_attrs"),
        *("tag", "type_comment", "type_ignores", "conversion", "is_async", "simple", "str"),
    }
)
_LEAVES = frozenset(
    {ast.Name, ast.Constant, ast.MatchSingleton, ast.alias, ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal}
)
# Those, and scopes of their own.
_CLOSED = {*_LEAVES, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda}


def _types(base: type[ast.AST]) -> Iterator[type[ast.AST]]:
    yield base
    for kind in base.__subclasses__():
        yield from _types(kind)


def _fields_with_nodes(kind: type[ast.AST]) -> tuple[str, ...]:
    if kind in _LEAVES:
        return ()
    # In `type X = ...`, the name is a node.
    return tuple(f for f in kind._fields if f not in _WITHOUT_NODES or kind.__name__ == "TypeAlias")


_FIELDS = {kind: _fields_with_nodes(kind) for kind in _types(ast.AST)}


def fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields in which nodes of a kind hold others."""
    return _FIELDS[kind]


def treat_alike(kind: type[ast.AST], other: type[ast.AST]) -> None:
    """Lets walks take nodes of another kind for those of one."""
    _FIELDS[other] = _FIELDS[kind]
    if kind in _CLOSED:
        _CLOSED.add(other)


def kept_on_node(work: Callable[[_Node], _Result]) -> Callable[[_Node], _Result]:
    """Keeps on each node what is worked out of it alone: loops and callees come to it again."""
    attribute = f"devlint_{work.__name__.strip('_')}"

    @wraps(work)
    def once(node: _Node) -> _Result:
        known: _Result = getattr(node, attribute, _NOTHING)
        if known is _NOTHING:
            known = work(node)
            setattr(node, attribute, known)
        return known

    return once


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node, in the order of its fields."""
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            # `{**more}` has no key there, `def f(*, a)` no default.
            found += value if None not in value else [v for v in value if v is not None]
        elif value is not None:
            found.append(value)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all below it, those nearer to it first."""
    found = [node]
    for one in found:
        if _FIELDS[type(one)]:
            found += children(one)
    return found


def calls_in(node: ast.AST) -> list[ast.Call]:
    """The calls in a node, itself counted, those nearer to it first."""
    return [part for part in walk(node) if isinstance(part, ast.Call)]


def own_nodes(scope: ast.AST) -> list[ast.AST]:
    """The nodes of a scope, nested definitions named but not entered; the last come first."""
    return list(_own_nodes(scope))


# Rules ask many things of one scope, one after the other.
@lru_cache(maxsize=16)
def _own_nodes(scope: ast.AST) -> tuple[ast.AST, ...]:
    found: list[ast.AST] = []
    stack = children(scope)
    while stack:
        node = stack.pop()
        found.append(node)
        if type(node) not in _CLOSED:
            stack += children(node)
    return tuple(found)


@kept_on_node
def bound_once(scope: ast.AST) -> frozenset[str]:
    """The names that a scope binds in one place alone."""
    bound = Counter(n.id for n in own_nodes(scope) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    return frozenset(name for name, times in bound.items() if times == 1)


@kept_on_node
def first_stores(scope: ast.AST) -> dict[str, int]:
    """The first line of a scope on which each name is bound."""
    found: dict[str, int] = {}
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = min(node.lineno, found.get(node.id, node.lineno))
    return found


def parents_in(top: ast.AST) -> dict[ast.AST, ast.AST]:
    """The node that each node below another stands in."""
    found: dict[ast.AST, ast.AST] = {}
    todo = [top]
    for node in todo:
        if _FIELDS[type(node)]:
            below = children(node)
            found.update(dict.fromkeys(below, node))
            todo += below
    return found


# More branches than these, one in the other, would bring a reader to the end of Python's stack.
MAX_BRANCHES = 120


@kept_on_node
def has_too_many_branches(statement: ast.If) -> bool:
    """Whether a statement has more `elif` than can be read one in the other."""
    branches = 0
    while branches <= MAX_BRANCHES and len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If):
        branches, statement = branches + 1, statement.orelse[0]
    return branches > MAX_BRANCHES


def names_in(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The names that a statement binds somewhere in it, and those that it reads."""
    names = [node for node in walk(statement) if isinstance(node, ast.Name)]
    read = {n.id for n in names if isinstance(n.ctx, ast.Load)}
    return {n.id for n in names if not isinstance(n.ctx, ast.Load)}, read


def touches(node: ast.stmt, lines: range) -> bool:
    """Whether a statement stands on one of some lines."""
    return node.lineno < lines.stop and lines.start <= (node.end_lineno or node.lineno)


def without_runs(tree: ast.Module, within: range) -> ast.Module:
    """A module without the calls at its top level that run the program: `main()`, also under a test of `__name__`."""

    def kept(statement: ast.stmt) -> bool:
        is_run = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        return not is_run or statement.lineno in within

    body = []
    for statement in tree.body:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            left = [s for s in statement.body if kept(s)] or [ast.copy_location(ast.Pass(), statement.body[0])]
            statement = ast.copy_location(ast.If(statement.test, left, statement.orelse), statement)
        if kept(statement):
            body.append(statement)
    return ast.Module(body, tree.type_ignores)
