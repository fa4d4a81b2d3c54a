"""Several JSON reports as one, such as those of the shards of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from devlint.disk import read_bytes

# What each finding of a report has.
_NEEDED = {"code": str, "path": str, "message": str, "line": int, "column": int, "severity": str}
_MAX_BYTES = 256_000_000


class ReportError(Exception):
    """A report that can't be used; the text is one line that says what to do."""


def read_report(path: Path) -> list[dict[str, Any]]:
    """The findings of a JSON report. Raises ReportError."""
    advice = "write it with `devlint --output-format json`"
    try:
        findings = json.loads(read_bytes(path, _MAX_BYTES))
    except OSError as error:
        raise ReportError(f"{path}: can't be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise ReportError(f"{path}: isn't JSON; {advice}") from None
    if not isinstance(findings, list) or not all(map(_is_finding, findings)):
        raise ReportError(f"{path}: isn't a report of devlint; {advice}")
    return findings


def _is_finding(item: object) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(key), kind) for key, kind in _NEEDED.items())


def merged(reports: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All findings of some reports in the order of one run over all files; what several of them tell, once."""
    told: set[str] = set()
    found = []
    for finding in (finding for report in reports for finding in report):
        spelt = json.dumps(finding, sort_keys=True)
        if spelt not in told:
            told.add(spelt)
            found.append(finding)
    # Stable: a file's own findings stay in their order.
    return sorted(found, key=lambda finding: finding["path"])


def render(findings: list[dict[str, Any]]) -> str:
    """The whole report."""
    return json.dumps(findings, indent=2).replace("\x7f", "\\u007f") + "\n"
