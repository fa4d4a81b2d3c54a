"""What is done with a name in a file, going by the name alone: it is called, or it is something else."""

from __future__ import annotations

import ast
from typing import NamedTuple

from devlint.source.modules import SourceModule, last_name
from devlint.source.trees import kept_on_node, walk


class Uses(NamedTuple):
    """The places in which a name stands: `f` of `f(x)`, of `a.f(x)` and of `map(f, xs)`."""

    calls: tuple[ast.Call, ...] = ()
    # It stands elsewhere than in a call of it: whoever has it then may call it too.
    is_handed_on: bool = False


def uses_of(source: SourceModule, name: str) -> Uses:
    """What is done with a name in a file."""
    return _uses_by_name(source.tree).get(name, Uses())


@kept_on_node
def _uses_by_name(tree: ast.Module) -> dict[str, Uses]:
    calls: dict[str, list[ast.Call]] = {}
    handed_on = set[str]()
    called = set[ast.AST]()
    for node in walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            called.add(node.func)
            if isinstance(node.func, ast.Name) and node.func.id == "super":
                # `super(Net, self)` hands nobody the class.
                called.update(node.args)
            calls.setdefault(last_name(node.func), []).append(node)
        elif isinstance(node, (ast.Name, ast.Attribute)) and node not in called:
            # What is called comes after its call.
            handed_on.add(last_name(node))
    return {name: Uses(tuple(calls.get(name, ())), name in handed_on) for name in calls.keys() | handed_on}
