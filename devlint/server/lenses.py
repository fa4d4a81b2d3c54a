"""Code lenses: how often the host waits in a function that runs again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lsprotocol import types

from devlint.findings import Span
from devlint.server.documents import Snapshot
from devlint.signatures.state.waits import RACE
from devlint.source.units import all_functions

if TYPE_CHECKING:
    from devlint.placement.model import PlacementModel
    from devlint.placement.waiting import HotStall
    from devlint.source.modules import FunctionModel


def lenses(model: PlacementModel, snapshot: Snapshot, shown: Iterable[int]) -> list[tuple[str, types.CodeLens]]:
    """The lenses of a document, each with the text that it stands in; `shown` are the lines of waits that findings tell of."""
    waits: dict[FunctionModel, Counter[str]] = {}
    known: set[int] = set()
    for stall in model.stalls:
        # A copy that races is no wait, but the lack of one.
        if stall.sense != RACE:
            waits.setdefault(stall.function, Counter())[_each(stall)] += 1
            known.add(stall.node.lineno)
    for line in shown:
        around = [f for f in all_functions(model.source) if f.node.lineno <= line <= (f.node.end_lineno or 0)]
        if line not in known and around:
            waits.setdefault(around[-1], Counter())["per step"] += 1
    found = []
    for function, counts in waits.items():
        line, column = function.node.lineno, function.node.col_offset + 1
        uri, range = snapshot.range(Span(line, column, line, column + len("def")))
        title = ", ".join(f"{count} {'wait' if count == 1 else 'waits'} {each}" for each, count in counts.items())
        # No command: there is nothing to do but to read it.
        found.append((uri, types.CodeLens(range, types.Command(title, ""))))
    return found


def _each(stall: HotStall) -> str:
    """How often one wait happens, in two words."""
    if stall.often.startswith("once"):
        return "per call"
    return "per step" if stall.often == "at each step" else "per pass of a loop"
