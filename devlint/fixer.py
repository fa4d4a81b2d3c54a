"""Stand-in: findings to edited text."""

from __future__ import annotations

from dataclasses import dataclass

from devlint.engine import Linter
from devlint.files import Source
from devlint.findings import Finding


@dataclass
class FixOutcome:
    """What fixing one source came to."""

    source: Source
    applied: list[Finding]
    remaining: list[Finding]


def fix(source: Source, linter: Linter, *, unsafe: bool) -> FixOutcome:
    """Apply fixes until nothing changes."""
    applied: list[Finding] = []
    while True:
        findings = linter.check(source)
        todo = [f for f in findings if f.fix and (unsafe or f.fix.safety == "safe")]
        if not todo or len(applied) > 100:
            return FixOutcome(source, applied, findings)
        finding = todo[-1]
        assert finding.fix is not None
        lines = source.lines
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        text = source.text
        for edit in reversed(finding.fix.edits):
            a = starts[edit.span.line - 1] + edit.span.column - 1
            b = starts[edit.span.end_line - 1] + edit.span.end_column - 1
            text = text[:a] + edit.text + text[b:]
        source = source.with_text(text)
        applied.append(finding)
