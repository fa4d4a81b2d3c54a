"""Whether the index of a device counts: `current_accelerator()` has none, and `torch.device("cuda:0")` has one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import dotted

if TYPE_CHECKING:
    from devlint.facts import Facts

# Functions that refuse a device without an index.
_ASK = ("set_device", "set_device_index")


def index_counts(device: ast.expr, facts: Facts) -> bool:
    """Whether what is done with a device, or with the variable that it is kept in, tells it from one without an index."""
    if _is_told_apart(device, facts):
        return True
    match next(facts.model.ancestors(device), None):
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            scope = facts.model.enclosing_scope(device)
            uses = (n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name)
            return any(_is_told_apart(use, facts) for use in uses)
    return False


def _is_told_apart(device: ast.expr, facts: Facts) -> bool:
    match next(facts.model.ancestors(device), None):
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()]) | ast.Attribute(attr="index"):
            return True
        case ast.Call(func=func):
            return (dotted(func) or "").rpartition(".")[2] in _ASK
    return False
