"""Where a tensor attribute that stays on the host would meet moved tensors, were its module on an accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from devlint.knowledge.ecosystem import STEP_FUNCTIONS
from devlint.placement.mixing import Mixing, Sense, mixings
from devlint.placement.values import Kind, Sort, Step, Value, accelerator

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.placement.classes import ClassModel
    from devlint.placement.sources import FunctionModel

# What a framework or the user calls with the inputs of a module that was moved.
ENTRIES = ("forward", *STEP_FUNCTIONS)
# Methods that lead on from there are followed up to this many.
MAX_METHODS = 16

CUDA = accelerator("cuda")


class Meeting(NamedTuple):
    """An operation whose operands would be at different places."""

    node: ast.expr | ast.AugAssign
    function: FunctionModel
    # The other operand, or what calls for one there, is a tensor by its name or use alone.
    likely: bool


class _Run(NamedTuple):
    """One method, run as if its module and its inputs were on an accelerator."""

    function: FunctionModel
    record: dict[ast.expr, Value]
    # Parameters that are taken for tensors for want of anything better.
    guessed: frozenset[str]


def meeting(cls: ClassModel, attribute: str, host: Value, facts: Facts) -> Meeting | None:
    """The first place where a tensor attribute of a class, `host`, meets what `module.to` and the caller have moved."""
    step = Step(f"self.{attribute}", "<attribute>", 0, 0)
    marked = replace(host, trail=(step,))
    me = Value(Kind.MODULE, CUDA, cls=cls, keys=(attribute,), elements=(marked,), depth=1, site="self")
    for run in _runs(cls, me, facts):
        if run.function.source is not facts.model.source:
            continue
        found = [m for m in mixings(facts.model, run.record) if step in m.host.value.trail and not _is_guess(m, run)]
        if found:
            first = min(found, key=lambda m: (m.node.lineno, m.node.col_offset))
            return Meeting(first.node, run.function, first.other.value.likely)
    return None


def _is_guess(mixing: Mixing, run: _Run) -> bool:
    """Whether an index is a parameter that nothing says is a tensor."""
    other = mixing.other.node
    return mixing.sense is Sense.INDEX and isinstance(other, ast.Name) and other.id in run.guessed


def _runs(cls: ClassModel, me: Value, facts: Facts) -> Iterator[_Run]:
    """`forward` and the methods that it calls."""
    entries = [f for name in ENTRIES if (f := cls.method(name)) is not None]
    waiting = [(f, *_inputs(f, me, facts)) for f in entries]
    seen = set(entries)
    while waiting and len(seen) <= MAX_METHODS:
        function, given, guessed = waiting.pop(0)
        record = facts.model.supposing(function, given)
        yield _Run(function, record, guessed)
        for node in function.nodes:
            if isinstance(node, ast.Call) and (called := _own_method(node, cls)) is not None and called not in seen:
                seen.add(called)
                waiting.append((called, _arguments(node, called, me, record), frozenset()))


def _inputs(function: FunctionModel, me: Value, facts: Facts) -> tuple[dict[str, Value], frozenset[str]]:
    """The parameters of a method that is called from outside: tensors come moved, and the first one is a tensor."""
    given = {name: _moved(value) for name, value in facts.model.declared(function).items()}
    if not function.parameters:
        return given, frozenset()
    given[function.parameters[0].arg] = me
    guessed = frozenset(
        a.arg
        for a in function.parameters[1:2]
        if given[a.arg].kind is Kind.UNKNOWN and a.annotation is None and not function.node.args.defaults
    )
    given |= {name: Value(Kind.TENSOR, CUDA, likely=True) for name in guessed}
    return given, guessed


def _moved(value: Value) -> Value:
    """An input as it comes to a module that was moved."""
    match value.kind:
        case Kind.TENSOR | Kind.BATCH if value.place.sort is Sort.UNKNOWN:
            return replace(value, place=CUDA)
        case Kind.SEQUENCE | Kind.MAPPING:
            elements = tuple(_moved(e) for e in value.elements) if value.elements is not None else None
            return replace(value, elements=elements, each=_moved(value.each) if value.each is not None else None)
    return value


def _own_method(call: ast.Call, cls: ClassModel) -> FunctionModel | None:
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return cls.method(name)
    return None


def _arguments(call: ast.Call, function: FunctionModel, me: Value, record: dict[ast.expr, Value]) -> dict[str, Value]:
    """What a call of a method of the same object gives it."""
    names = [a.arg for a in function.parameters]
    given: dict[str, Value] = {}
    if not function.is_static and names:
        given[names.pop(0)] = me
    if not any(isinstance(a, ast.Starred) for a in call.args):
        given |= {name: record[a] for name, a in zip(names, call.args, strict=False) if a in record}
    given |= {k.arg: record[k.value] for k in call.keywords if k.arg in names and k.value in record}
    # What isn't known of an argument may be known of the parameter.
    return {name: value for name, value in given.items() if value.kind is not Kind.UNKNOWN}
