"""How waits in code that is hot by its role are told: in `forward`, in a sampler, in the step of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devlint.findings import Note
from devlint.rule import Change, Report
from devlint_rules.hot_loops.gains import costs_nothing_new

if TYPE_CHECKING:
    import libcst as cst

    from devlint.facts import Facts, HotStall


def report(
    node: cst.CSTNode,
    stall: HotStall,
    facts: Facts,
    message: str,
    hint: str | None = None,
    change: Change | None = None,
    *,
    minor: bool = False,
) -> Report:
    """A report on such a wait, with how what is waited for came there and what makes the code hot as notes."""
    return Report(
        node,
        message,
        "certain" if stall.certain else "likely",
        notes=notes(stall, facts),
        hint=hint if change is None else None,
        change=change,
        minor=minor or (not stall.by_role and costs_nothing_new(stall.node, facts.hot_loop(node), facts)),
    )


def notes(stall: HotStall, facts: Facts) -> tuple[Note, ...]:
    """The trail of what is waited for, then the way from the function that is hot by its role."""
    return facts.notes((*stall.trail, *stall.hot))
