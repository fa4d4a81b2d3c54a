"""Whether what mends tensors that are apart is sure to mend something, so that it may be offered as a fix.

The finding may be right without that: what it rests on is told, and the reader decides.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.facts import HOST, Mixing, Sort, is_test_file, is_told
from devlint.lazy import regex

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel


def is_proven(mixing: Mixing, facts: Facts) -> bool:
    """Whether the program itself brings the two together, in code that is meant for an accelerator, and nothing else there fails."""
    if is_test_file(Path(facts.path)):
        # What a test makes, it makes where it passes.
        return False
    return _comes_to_accelerator(mixing, facts) and is_only_one(mixing, facts)


def _comes_to_accelerator(mixing: Mixing, facts: Facts) -> bool:
    """Whether the code says that the other operand is elsewhere, or it is a module's, which goes where its caller puts it."""
    place = mixing.other.value.place
    if mixing.certain or place.sort is Sort.ACCELERATOR or is_told(place):
        return True
    return runs_in_module(facts.model.enclosing_scope(mixing.node), facts)


def runs_in_module(scope: ast.AST, facts: Facts) -> bool:
    """Whether a function is a module's method, is called by one or with what is on an accelerator, or says itself where things are."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return True
    if _is_of_module(scope, facts.model) or _SPEAKS_OF_DEVICES.search(facts.code_of(scope)):
        return True
    return any(
        _is_of_module(model.enclosing_scope(call), model)
        or any(facts.accelerated(model.value(given)) for given in (*call.args, *(k.value for k in call.keywords)))
        for model, call in facts.model.calls_in_sight(scope)
    )


_SPEAKS_OF_DEVICES = regex(r"\.device\b|\bdevice\s*=")


def _is_of_module(scope: ast.AST, model: PlacementModel) -> bool:
    cls = model.class_around(scope)
    return cls is not None and any(model.is_module_base(base) for base in cls.outside_bases)


def is_only_one(mixing: Mixing, facts: Facts) -> bool:
    """Whether nothing else in a function is apart: what meets others in several places is to be made elsewhere, not moved at each."""
    return all(other is mixing for other in beside(facts.model.enclosing_scope(mixing.node), facts))


def beside(scope: ast.AST, facts: Facts) -> list[Mixing]:
    """All that is apart in a function, whatever is told of it."""
    model = facts.model
    found = (*model.mixings.values(), *model.unplaced.values())
    return [m for m in found if not m.host.foreign and model.enclosing_scope(m.node) is scope]


def is_surely_there(mixing: Mixing, facts: Facts) -> bool:
    """Whether the other operand is on the host on no path: a flag that nobody gives may be all that moves it."""
    values = (
        [mixing.other.value] if mixing.other.foreign else [mixing.other.value, facts.model.value(mixing.other.node)]
    )
    return not mixing.sometimes and all(v.place != HOST for value in values for _, v in value.alternatives())
