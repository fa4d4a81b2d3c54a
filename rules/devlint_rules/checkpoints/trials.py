"""What a trial of Ray's restores: it goes on where it was, on a machine like the one that wrote it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import last_name, walk
from devlint_rules.checkpoints.values import values_of

if TYPE_CHECKING:
    from devlint.facts import Facts

# How a trial comes by its own checkpoint (https://docs.ray.io/en/latest/train/user-guides/checkpoints.html); a function that is
# tuned was given its folder in earlier releases.
_ASKED = frozenset({"get_checkpoint"})
_GIVEN = frozenset({"checkpoint_dir"})
# How many names lie between a file and what it is in, at most.
_DEPTH = 3


def is_of_trial(call: ast.Call, facts: Facts) -> bool:
    """Whether the file that a call loads is one of the checkpoints that Ray keeps of the same trial."""
    if "ray" not in facts.model.source.imported_packages or not call.args:
        return False
    scope = facts.model.enclosing_scope(call)
    parameters = (
        {a.arg for a in facts.model.source.function_at(scope).parameters}
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef))
        else set()
    )
    return _comes_of_trial(call.args[0], facts, parameters & _GIVEN, _DEPTH)


def _comes_of_trial(path: ast.expr, facts: Facts, given: set[str], depth: int) -> bool:
    nodes = walk(path)
    if any(isinstance(n, ast.Call) and last_name(n.func) in _ASKED for n in nodes):
        return True
    if any(isinstance(n, ast.Name) and n.id in given for n in nodes):
        return True
    return depth > 0 and any(_comes_of_trial(v, facts, given, depth - 1) for v in values_of(path, facts))
