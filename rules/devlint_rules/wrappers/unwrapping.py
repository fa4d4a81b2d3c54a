"""What the rules about parallel wrappers have in common: telling wrapped from bare, and writing the unwrapped model."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import Value, calls_in
from devlint.findings import Note
from devlint.lazy import cst, m
from devlint.rule import Rule

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit

DATA_PARALLEL = "torch.nn.DataParallel"
DISTRIBUTED = "torch.nn.parallel.DistributedDataParallel"


def class_of(wrapper: Value) -> str:
    """The wrapper's class, as people call it."""
    return wrapper.cls.name if wrapper.cls is not None else wrapper.name.rsplit(".", 1)[-1]


def wrap_notes(wrapper: Value, facts: Facts) -> tuple[Note, ...]:
    """Where the wrapper was made; where the model was made and moved doesn't matter here."""
    return facts.notes(step for step in wrapper.trail if step.message.startswith("wrapped by"))


def unwrapped(owner: cst.BaseExpression, found: ast.expr, facts: Facts, *, sometimes: bool) -> cst.BaseExpression:
    """The model inside a wrapper; a model that is bare on some paths is left as it is there."""
    if not sometimes:
        return cst.Attribute(owner, cst.Name("module"))
    quote = _free_quote(found, facts)
    return cst.Call(
        cst.Name("getattr"),
        [cst.Arg(owner), cst.Arg(cst.SimpleString(f"{quote}module{quote}")), cst.Arg(owner.deep_clone())],
    )


def _free_quote(found: ast.expr, facts: Facts) -> str:
    """A quote that a string at this place may use: before Python 3.12, not that of the f-string around it."""
    texts = [facts.code_of(parent) for parent in facts.model.ancestors(found) if isinstance(parent, ast.JoinedStr)]
    return "'" if any('"' in text for text in texts) else '"'


class AboutWrapping(Rule):
    """What rules have in common that look at calls which make a parallel wrapper."""

    trigger = r"DataParallel\s*\(|DataParallel\s+as\b"
    alias = r"DataParallel\s+as\s+(\w+)"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return any(calls_in(unit.node))

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(args=[m.AtLeastN(m.Arg(), n=1)])


def wrapping_by(node: cst.Call, facts: Facts) -> tuple[str, cst.Arg, ast.Call] | None:
    """(the wrapper's name, the argument that it wraps, the call) where a call makes a parallel wrapper."""
    called, found = facts.qualified(node.func), facts.node(node)
    given = next((a for a in node.args if a.keyword is None or a.keyword.value == "module"), None)
    if called not in (DATA_PARALLEL, DISTRIBUTED) or given is None or given.star or not isinstance(found, ast.Call):
        return None
    return called, given, found
