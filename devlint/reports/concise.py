"""The concise report: one line for each finding."""

from __future__ import annotations

from collections.abc import Sequence

import click

from devlint.escapes import printable
from devlint.reports import COLORS, FileResult, place_of, spell_place, summary


def render(results: Sequence[FileResult], *, unsafe_fixes: bool, quiet: bool = False, failed: bool = False) -> str:
    """The whole report, with colours; click drops them where they aren't wanted. `quiet` leaves out the summary."""
    lines = []
    for result in results:
        for finding in result.findings:
            place = place_of(result.source, finding.span.line, finding.span.column)
            where = click.style(spell_place(finding.path, place), bold=True)
            fixable = finding.fix is not None and (unsafe_fixes or finding.fix.safety == "safe")
            lines.append(
                f"{where}: {click.style(finding.code, fg=COLORS[finding.severity], bold=True)} "
                f"{'[*] ' * fixable}{printable(finding.message)}"
                + " (likely)" * (finding.confidence == "likely")
                + (f" ({finding.seen})" if finding.seen else "")
            )
    if not quiet and (closing := summary(results, unsafe_fixes=unsafe_fixes, failed=failed)):
        lines.append(closing)
    return "".join(line + "\n" for line in lines)
