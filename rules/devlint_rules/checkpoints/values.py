"""What the names in a path are given, near it and where they are imported from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from devlint.facts import own_nodes, walk

if TYPE_CHECKING:
    from devlint.facts import Facts


def given_to(call: ast.Call) -> list[ast.expr]:
    """What a call is given, by place or by name."""
    return [*call.args, *(k.value for k in call.keywords)]


# Several questions about a file ask for them.
@lru_cache(maxsize=4)
def values_of(file: ast.expr, facts: Facts) -> tuple[ast.expr, ...]:
    """What the names in an expression are assigned, and what the names in there are at the top level."""
    return tuple(_values(file, facts))


def _values(file: ast.expr, facts: Facts) -> Iterator[ast.expr]:
    if isinstance(file, ast.Attribute):
        # `self.path = folder + name`, some lines before.
        stores = (n for n in own_nodes(facts.model.enclosing_scope(file)) if isinstance(n, ast.Assign))
        yield from (n.value for n in stores if any(ast.unparse(t) == ast.unparse(file) for t in n.targets))
    for name in (n for n in walk(file) if isinstance(n, ast.Name)):
        given = (*facts.model.assigned_values(name), *entered_as(name, facts), *_looped_over(name, facts))
        for value in (*given, *facts.model.source.top_level_values(name.id)):
            yield value
            for inner in walk(value):
                if isinstance(inner, ast.Name) and inner.id != name.id:
                    yield from facts.model.source.top_level_values(inner.id)


def makers_of(name: ast.Name, facts: Facts) -> list[ast.expr]:
    """What is called for what a `with` enters under a name."""
    return [v.func for v in entered_as(name, facts) if isinstance(v, ast.Call)]


def entered_as(name: ast.Name, facts: Facts) -> list[ast.expr]:
    """What a `with` enters under a name: `with open(path) as name:`."""
    return _entered_in(facts.model.enclosing_scope(name)).get(name.id, [])


# A scope is asked for each of its loads.
@lru_cache(maxsize=2)
def _entered_in(scope: ast.AST) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for item in (i for n in own_nodes(scope) if isinstance(n, ast.With) for i in n.items):
        if isinstance(item.optional_vars, ast.Name):
            found.setdefault(item.optional_vars.id, []).append(item.context_expr)
    return found


def _looped_over(name: ast.Name, facts: Facts) -> list[ast.expr]:
    """What a loop takes a name from: `for name in glob.glob("*.mel"):`."""
    return _looped_over_in(facts.model.enclosing_scope(name)).get(name.id, [])


@lru_cache(maxsize=2)
def _looped_over_in(scope: ast.AST) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for loop in own_nodes(scope):
        if isinstance(loop, (ast.For, ast.AsyncFor)) and isinstance(loop.target, ast.Name):
            found.setdefault(loop.target.id, []).append(loop.iter)
    return found


def imported_values(file: ast.expr, facts: Facts) -> list[ast.expr]:
    """What the names in an expression are where they are imported from."""
    names = (n.id for n in walk(file) if isinstance(n, ast.Name))
    return [value for name in names for value in facts.model.imported_values(name)]
