"""What a run's findings cost, in a few lines: errors first, then warnings, those that the most loops repeat at the top."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import click

from devlint.findings import Finding, Seen
from devlint.reports import FileResult, place_of, spell_place

# A report with fewer findings is taken in at a glance.
_FEW = 6
_MOST_LINES = 8


def ranking(results: Sequence[FileResult]) -> str:
    """The kinds of findings, the costliest first, with how often and where; "" where there is nothing to rank."""
    kinds: dict[tuple[str, str, int], list[tuple[Finding, str]]] = defaultdict(list)
    for result in results:
        for finding in result.findings:
            place = spell_place(finding.path, place_of(result.source, finding.span.line, finding.span.column))
            kinds[_kind(finding)].append((finding, place))
    if len(kinds) < 2 or sum(len(found) for found in kinds.values()) < _FEW:
        return ""
    ordered = sorted((sorted(found, key=lambda item: item[0].rank) for found in kinds.values()), key=_rank)
    rows = [
        (_expected([f for f, _ in found]), str(len(found)), _named(found[0][0]), _where([place for _, place in found]))
        for found in ordered[:_MOST_LINES]
    ]
    cost, count, name = (max(len(row[column]) for row in rows) for column in range(3))
    lines = [f"  {said:<{cost}}  {total:>{count}}  {rule:<{name}}  {where}" for said, total, rule, where in rows]
    if len(ordered) > len(rows):
        left = sum(len(found) for found in ordered[_MOST_LINES:])
        lines.append(f"  ... and {left} more of {len(ordered) - len(rows)} kinds")
    return "".join(line + "\n" for line in [click.style("Costliest first:", bold=True), *lines, ""])


def _kind(finding: Finding) -> tuple[str, str, int]:
    """What is told in one line: findings of one rule that cost the same, or were seen to happen."""
    if finding.seen is not None:
        return finding.code, "seen", 0
    return finding.code, finding.severity, finding.cost.loops


def _rank(found: Sequence[tuple[Finding, str]]) -> tuple[tuple[int, ...], int, str]:
    costliest = found[0][0]
    return costliest.rank, -len(found), costliest.code


def _named(finding: Finding) -> str:
    return f"{finding.code} {finding.name}"


def _expected(found: Sequence[Finding]) -> str:
    seen = [f.seen for f in found if f.seen is not None]
    if seen:
        return str(Seen(sum(s.count for s in seen), sum(s.bytes for s in seen)))
    severity, cost = found[0].severity, found[0].cost
    if severity == "error" or not cost.loops:
        return severity
    return f"{severity}, each step" + (f", {cost.loops} loops deep" if cost.loops > 1 else "")


def _where(places: Sequence[str]) -> str:
    return places[0] + (f" and {len(places) - 1} more" if len(places) > 1 else "")
