"""How often each rule was broken, without where."""

from __future__ import annotations

import json
from collections.abc import Sequence

from devlint.findings import Finding, OutputFormat, Safety
from devlint.reports import FileResult


def render(results: Sequence[FileResult], output_format: OutputFormat, *, safety: Safety) -> str:
    """A line for each rule, the most frequent first; `[*]` where --fix, as it was called, would mend some."""
    rules: dict[str, list[Finding]] = {}
    for finding in (finding for result in results for finding in result.findings):
        rules.setdefault(finding.code, []).append(finding)
    ordered = sorted(rules.values(), key=lambda found: (-len(found), found[0].code))
    rows = [(len(found), found[0], *_fixable(found, safety)) for found in ordered]
    if output_format == "json":
        counts = [
            {
                "code": first.code,
                "name": first.name,
                "severity": first.severity,
                "count": total,
                "fixable": fixable,
                "fixable_unsafely": unsafely,
            }
            for total, first, fixable, unsafely in rows
        ]
        return json.dumps(counts, indent=2) + "\n"
    width = max((len(str(total)) for total, *_ in rows), default=0)
    return "".join(
        f"{total:>{width}}  {first.code}  {first.severity:<7}  {'[*]' if fixable else '   '} {first.name}\n"
        for total, first, fixable, _ in rows
    )


def _fixable(found: Sequence[Finding], safety: Safety) -> tuple[int, int]:
    """How many findings --fix mends, and how many more --unsafe-fixes would."""
    fixes = [finding.fix for finding in found if finding.fix is not None and finding.fix.goes_with("unsafe")]
    mended = sum(fix.goes_with(safety) for fix in fixes)
    return mended, len(fixes) - mended
