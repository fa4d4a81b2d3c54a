"""The concise report: one line for each finding."""

from __future__ import annotations

import click

from devlint.console import linked
from devlint.escapes import printable
from devlint.reports import COLORS, Run, place_of, spell_place, summary


def render(run: Run) -> str:
    """The whole report, with colours; click drops them where they aren't wanted."""
    lines = []
    for finding, source in run.findings:
        place = place_of(source, finding.span.line, finding.span.column)
        where = click.style(spell_place(finding.path, place), bold=True)
        code = click.style(finding.code, fg=COLORS[finding.severity], bold=True)
        fixable = finding.fix is not None and finding.fix.goes_with(run.safety)
        lines.append(
            f"{where}: {linked(code, run.page_of(finding) if run.links else '')} "
            f"{'[*] ' * fixable}{printable(finding.message)}"
            + " (likely)" * (finding.confidence == "likely")
            + (f" ({finding.seen})" if finding.seen else "")
        )
    if not run.quiet and (closing := summary(run.results, safety=run.safety, failed=run.failed)):
        lines.append(closing)
    return "".join(line + "\n" for line in lines) + run.also
