"""The report for GitLab's Code Quality: an array of issues, each with a fingerprint that is its own."""

from __future__ import annotations

from typing import Any

from devlint.files import Source
from devlint.findings import Finding
from devlint.reports import Run
from devlint.reports.anchors import advice, fingerprints, in_file, path_from_top, told
from devlint.reports.json import dumped

_SEVERITIES = {"error": "major", "warning": "minor"}


def render(run: Run) -> str:
    """The whole report."""
    known_by = fingerprints(run)
    issues = (_issue(finding, source, run.page_of(finding)) for finding, source in run.findings)
    return dumped([{**issue, "fingerprint": mark} for issue, mark in zip(issues, known_by, strict=True)])


def _issue(finding: Finding, source: Source | None, url: str) -> dict[str, Any]:
    span = in_file(source, finding.span)
    body = [*advice(finding), *([f"[{finding.name}]({url})"] if url else [])]
    return {
        "type": "issue",
        "check_name": finding.code,
        "description": f"{finding.code} [{finding.name}] {told(finding, source)}",
        "content": {"body": "\n\n".join(body)},
        "categories": ["Bug Risk" if finding.severity == "error" else "Performance"],
        "severity": "blocker" if finding.code == "DEV000" else _SEVERITIES[finding.severity],
        "location": {
            "path": path_from_top(finding.path),
            "lines": {"begin": span.line, "end": span.end_line},
            "positions": {
                "begin": {"line": span.line, "column": span.column},
                "end": {"line": span.end_line, "column": span.end_column},
            },
        },
    }
