"""Expressions that nest deeper than Python's stack lets anybody read them node by node: a call of what nobody knows instead.

So no reader and no rule has to beware of them: nothing is known of what such an expression gives, nor of what it names
once it was run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import accumulate

from devlint.source.trees import children, walk

# Deeper than this, what reads a tree node by node (`ast.unparse` does) would come to the end of Python's stack.
MAX_DEPTH = 250
# The name of what is called instead.
UNREAD = "_too_deep_to_be_read"
# Each level takes two characters at least: `.a`, `+x`, `()`.
_LEAST = 2 * MAX_DEPTH


def make_shallow(tree: ast.Module, text: str) -> ast.Module:
    """The same tree, in which each expression that is nested too deeply has become a call that is given what it names."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    # Most files have no statement that is so long.
    if len(text) >= _LEAST:
        for statement in _statements(tree):
            for expression in _expressions(statement) if _is_long(statement, starts) else ():
                if _is_long(expression, starts) and _is_deep(expression):
                    _replace(statement, expression)
    return tree


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    blocks: list[list[ast.AST]] = [[*tree.body]]
    for block in blocks:
        for node in block:
            yield node
            for name in ("body", "orelse", "handlers", "finalbody", "cases"):
                if inner := getattr(node, name, None):
                    blocks.append(inner)


def _is_long(node: ast.AST, starts: list[int]) -> bool:
    """Whether a node has so many characters that it may be nested too deeply."""
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", None) or len(starts) - 1
    return last >= len(starts) or starts[last] - starts[first - 1] >= _LEAST


def _expressions(statement: ast.AST) -> list[ast.expr]:
    return [node for node in children(statement) if isinstance(node, ast.expr)]


def _is_deep(expression: ast.AST) -> bool:
    level, depth = [expression], 0
    while level and depth <= MAX_DEPTH:
        level, depth = [child for parent in level for child in children(parent)], depth + 1
    return depth > MAX_DEPTH


def _replace(statement: ast.AST, expression: ast.expr) -> None:
    names = sorted({node.id for node in walk(expression) if isinstance(node, ast.Name)})
    given: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
    unread = ast.Call(ast.Name(UNREAD, ast.Load()), given, [])
    for node in walk(unread):
        ast.copy_location(node, expression)
    for name, value in ast.iter_fields(statement):
        if value is expression:
            setattr(statement, name, unread)
        elif isinstance(value, list) and expression in value:
            value[value.index(expression)] = unread
