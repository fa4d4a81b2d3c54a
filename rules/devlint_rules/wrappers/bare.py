"""Whether a model is surely bare: seen being made, and out of reach of code that might wrap it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from devlint.facts import FunctionNode, Kind, Value, uses_of
from devlint.knowledge import torch_knowledge
from devlint.knowledge.ecosystem import PLAIN_BASES

if TYPE_CHECKING:
    from devlint.facts import Facts


def bare_model(node: ast.expr, facts: Facts) -> tuple[Value, bool] | None:
    """(the bare module that an expression is on every path, whether code out of sight could give it another).

    None where it may be wrapped, or something else.
    """
    options = [v for _, v in facts.model.value(node).alternatives()]
    if not options or not all(is_bare(v) for v in options) or _may_be_set_elsewhere(node, facts):
        return None
    return options[0], not isinstance(node, ast.Name) or _is_parameter(node, facts)


def _is_parameter(node: ast.Name, facts: Facts) -> bool:
    scope = facts.model.enclosing_scope(node)
    if isinstance(scope, ast.Module):
        return False
    return any(a.arg == node.id for a in facts.model.source.function_at(scope).parameters)


def is_bare(value: Value) -> bool:
    """A module of a known class whose making was seen."""
    if value.kind is not Kind.MODULE or value.site in ("", "self"):
        return False
    if value.cls is None:
        return value.name in torch_knowledge().modules or value.name.startswith("torchvision.models.")
    if any(value.cls.defines(name) for name in ("__getattr__", "__getattribute__")):
        return False
    return all(b in PLAIN_BASES or b.startswith("torch.nn.") for b in value.cls.outside_bases)


def _may_be_set_elsewhere(node: ast.expr, facts: Facts) -> bool:
    """Code that isn't seen with it may give the name, the attribute or the parameter something else."""
    match node:
        case ast.Attribute(value=owner, attr=name):
            return _is_set_from_outside(name, facts) or _may_be_set_elsewhere(owner, facts)
        case ast.Subscript(value=owner):
            return _may_be_set_elsewhere(owner, facts)
        case ast.Name(id=name):
            return _is_rebound_elsewhere(node, name, facts)
        case ast.Call(func=func):
            return isinstance(func, ast.Attribute) and _may_be_set_elsewhere(func.value, facts)
    return False


def _is_set_from_outside(name: str, facts: Facts) -> bool:
    """Code outside of the class sets the attribute, or a class in another file wraps it."""
    outside = rf"(?<!self)\.{name}\s*=(?!=)|setattr\([^,\n]+,\s*['\"]{name}['\"]"
    wraps = rf"\.{name}\s*=[^\n]*(?i:parallel|dp\b|wrap|prepare|deepspeed|initialize)"
    return facts.model.texts_match(outside) or facts.model.texts_match(wraps, elsewhere=True)


def _is_rebound_elsewhere(node: ast.Name, name: str, facts: Facts) -> bool:
    scope = facts.model.enclosing_scope(node)
    if not isinstance(scope, ast.Module):
        if _is_parameter(node, facts):
            return name not in ("self", "cls") and not _has_known_callers(scope, facts)
        if name in facts.model.source.function_at(scope).local_names:
            return False
    # A global: other functions may bind it anew, and so may other modules.
    return re.search(rf"\b(?:global|nonlocal)\b[^\n]{{0,300}}\b{name}\b", facts.text.text) is not None


def _has_known_callers(scope: FunctionNode, facts: Facts) -> bool:
    """Every mention of a function is a call in this file."""
    uses = uses_of(facts.model.source, scope.name)
    is_told = bool(uses.calls) and not uses.is_handed_on
    return is_told and not facts.model.texts_match(rf"\b{scope.name}\b", elsewhere=True)
