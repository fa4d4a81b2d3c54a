"""What can be told of a condition from its nodes alone: kept on the node, for loops and callees come to it again."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devlint.placement.values import Guard
from devlint.source.paths import access_path, unparsed
from devlint.source.trees import kept_on_node, walk


@dataclass(frozen=True, slots=True)
class Condition:
    """A test, as text that two tests share where one holds when the other does, or when the other doesn't."""

    text: str
    # The test holds where the text doesn't: `x is not None` beside `x is None`.
    negated: bool
    # The access paths in it: bound anew, it is another condition.
    paths: tuple[str, ...]
    # It asks what kind of thing a value is.
    asks_for_type: bool
    # It calls or binds something: evaluating it changes what is known.
    does_something: bool


@kept_on_node
def condition_of(test: ast.expr) -> Condition:
    """What is to be told of a test."""
    nodes = walk(test)
    calls = [n.func for n in nodes if isinstance(n, ast.Call)]
    names = {f.id if isinstance(f, ast.Name) else f.attr for f in calls if isinstance(f, (ast.Name, ast.Attribute))}
    paths = {path for n in nodes if isinstance(n, ast.expr) and (path := access_path(n))}
    positive = _positive(test)
    return Condition(
        unparsed(positive or test),
        positive is not None,
        # `self` by itself is no more than the way to its parts.
        tuple(sorted(paths - {"self"})),
        not names.isdisjoint(_TYPE_QUESTIONS),
        any(isinstance(n, _DOING) for n in nodes),
    )


def is_for_the_host(parent: ast.AST, child: ast.AST) -> bool:
    """Whether `child` runs, by standing in `parent`, only where there is no accelerator."""
    match parent:
        case ast.If(test=test, body=body) if child is not test:
            holds = child in body
        case ast.IfExp(test=test, body=then) if child is not test:
            holds = child is then
        case _:
            return False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    condition = condition_of(test)
    return Guard(condition.text, holds != condition.negated).without_accelerator


def _positive(test: ast.expr) -> ast.expr | None:
    """The opposite of a test with a negative operator: `!=`, `is not`, `not in`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        return ast.Compare(test.left, [_OPPOSITE[type(test.ops[0])]()], test.comparators)
    return None


_OPPOSITE: dict[type, type[ast.cmpop]] = {ast.IsNot: ast.Is, ast.NotEq: ast.Eq, ast.NotIn: ast.In}
_TYPE_QUESTIONS = frozenset({"isinstance", "hasattr", "is_tensor", "callable", "issubclass"})
_DOING = (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
