"""DEV205: a host tensor indexed by an accelerator tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Sense, calls_in
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.mixing.apart import (
    MAKES_TENSORS,
    is_likely,
    moved,
    place_text,
    text_of,
    trails,
)
from devlint_rules.mixing.proof import is_proven
from devlint_rules.moves import factories

if TYPE_CHECKING:
    from devlint.facts import Facts, Mixing, Operand


class CrossDeviceIndex(Rule):
    """A tensor on the host indexed by one on an accelerator.

    ## What it does
    Flags `t[index]` where `t` is on the host and `index`, numbers or a mask, is on an accelerator. The other way round
    works: PyTorch moves an index that is on the host.

    ## Why is this bad
    `RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)`. A `.to()` behind
    the index comes too late.

    ## Example
    ```python
    import torch

    table = torch.linspace(0, 1, 1000)
    steps = torch.randint(0, 1000, (4,), device="cuda")
    betas = table[steps].to("cuda")
    ```

    ## Use instead
    ```python
    import torch

    table = torch.linspace(0, 1, 1000)
    steps = torch.randint(0, 1000, (4,), device="cuda")
    betas = table.to("cuda")[steps]
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: the index is moved to the host, which makes the host wait, and leaves the result on the host. If the
    table is read at each step, keep it on the accelerator instead. Not offered for what a factory makes, in tests, and
    if other tensors of the same function are on different devices too.

    ## References
    - [CompVis/latent-diffusion 282](https://github.com/CompVis/latent-diffusion/issues/282)
    """

    code = "DEV205"
    name = "cross-device-index"
    trigger = MAKES_TENSORS
    event = "mixing"
    seen_as = ("mismatch",)
    effect = Effect(raises="RuntimeError", words="indices should be either on cpu or on the same device")
    fix = "D"

    def shape(self) -> m.BaseMatcherNode:
        return m.Subscript()

    def judge(self, node: cst.Subscript, facts: Facts) -> Iterator[Report]:
        mixing = facts.mixing(node)
        if mixing is None or mixing.sense is not Sense.INDEX or mixing.kept:
            return
        index = text_of(mixing.other, facts)
        is_made_here = _is_made_here(mixing.host.node, facts)
        edit = (
            None
            if is_made_here
            or _is_made_elsewhere(mixing, facts)
            or _stays_half_done(mixing, facts)
            or not is_proven(mixing, facts)
            else moved(mixing.other, '"cpu"', facts)
        )
        yield Report(
            node,
            f"`{text_of(mixing.host, facts)}` is on cpu, and `{index}`, which indexes it, is "
            f"{place_text(mixing.other.value.place, mixing.other.node, facts)}",
            "likely" if is_likely(mixing) else "certain",
            minor=mixing.weak,
            notes=trails(mixing, facts),
            hint="make it where the index is: give its factory `device=`" if is_made_here else None,
            change=Change('move the index: `.to("cpu")`', "display", edits=(edit,)) if edit is not None else None,
        )


def _is_made_elsewhere(mixing: Mixing, facts: Facts) -> bool:
    """Whether another function has made what is indexed: why it is on the host is to be asked there."""
    scope = facts.model.enclosing_scope(mixing.node)
    made = next(iter(mixing.host.value.trail), None)
    if isinstance(scope, ast.Module) or made is None:
        return False
    return made.path != facts.model.source.path or not scope.lineno <= made.line <= (scope.end_lineno or scope.lineno)


def _stays_half_done(mixing: Mixing, facts: Facts) -> bool:
    """Whether one of the indices of a function was moved from the host there: then it is to index before it moves."""
    scope = facts.model.enclosing_scope(mixing.node)
    others = (m for m in facts.model.mixings.values() if m.sense is Sense.INDEX and not m.other.foreign)
    return any(_comes_from_host(m.other, facts) for m in others if facts.model.enclosing_scope(m.node) is scope)


def _comes_from_host(index: Operand, facts: Facts) -> bool:
    """Whether the same function moves the index from the host first: it would go there and back."""
    scope = facts.model.enclosing_scope(index.node)
    if isinstance(scope, ast.Module) or not isinstance(index.node, ast.Name):
        return False
    return any(
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("to", "cuda")
        for value in facts.model.assigned_values(index.node)
    )


def _is_made_here(indexed: ast.expr, facts: Facts) -> bool:
    """Whether a factory makes what a function, or a loop, indexes: then `device=` there is the remedy, and not a copy of each index."""
    while isinstance(indexed, ast.Call) and isinstance(indexed.func, ast.Attribute):
        if facts.model.qualified(indexed.func) in factories.ALL:
            # `torch.eye(n)[index]`: what is copied of it would be on the host all the same.
            return True
        # `mask.float()[index]`
        indexed = indexed.func.value
    if not isinstance(indexed, ast.Name):
        return False
    is_once = isinstance(facts.model.enclosing_scope(indexed), ast.Module)
    if is_once and not any(isinstance(p, (ast.For, ast.While)) for p in facts.model.ancestors(indexed)):
        return False
    made = (n for value in facts.model.assigned_values(indexed) for n in calls_in(value))
    return any(facts.model.qualified(call.func) in factories.ALL for call in made)
