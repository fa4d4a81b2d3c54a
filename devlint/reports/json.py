"""The JSON report: an array of findings, with lines and columns from 1 and columns in characters.

A finding in a notebook has a `cell`, and its lines count from the cell's start. The report of a part of the files
(`--shard`) is an object that names the part, and holds that array.
"""

from __future__ import annotations

import json
from typing import Any

from devlint.files import Source
from devlint.findings import Edit, Finding, Note, Seen, Span
from devlint.reports import Run, place_of


def render(run: Run) -> str:
    """The whole report."""
    findings = [_finding(finding, source, run.page_of(finding)) for finding, source in run.findings]
    if run.shard is None:
        return dumped(findings)
    part, of = run.shard
    return dumped({"shard": {"part": part, "of": of}, "findings": findings})


def dumped(document: object) -> str:
    """A JSON document as a report: in ASCII, and without characters that a terminal would obey."""
    # All that isn't ASCII is escaped; of what is, this alone is a control character that JSON lets stand.
    return json.dumps(document, indent=2).replace("\x7f", "\\u007f") + "\n"


def _finding(finding: Finding, source: Source | None, url: str) -> dict[str, Any]:
    fix = finding.fix and {
        "title": finding.fix.title,
        "safety": finding.fix.safety,
        "edits": [_edit(edit, source) for edit in finding.fix.edits],
        **({"imports": [*finding.fix.imports]} if finding.fix.imports else {}),
    }
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "path": finding.path,
        **_span(finding.span, source),
        "severity": finding.severity,
        "confidence": finding.confidence,
        "cost": {"effect": finding.cost.effect, "loops": finding.cost.loops},
        "notes": [_note(note, finding, source) for note in finding.notes],
        "hint": finding.hint,
        "fix": fix,
        "url": url or None,
        **({"seen": _seen(finding.seen)} if finding.seen else {}),
    }


def _seen(seen: Seen) -> dict[str, Any]:
    return {"count": seen.count, "bytes": seen.bytes, **({"failed": True} if seen.failed else {})}


def _span(span: Span, source: Source | None) -> dict[str, int]:
    start, end = place_of(source, span.line, span.column), place_of(source, span.end_line, span.end_column)
    ends = {"line": start.line, "column": start.column, "end_line": end.line, "end_column": end.column}
    return ends if start.cell is None else {"cell": start.cell, **ends}


def _edit(edit: Edit, source: Source | None) -> dict[str, Any]:
    return {**_span(edit.span, source), "text": edit.text}


def _note(note: Note, finding: Finding, source: Source | None) -> dict[str, Any]:
    place = place_of(source if note.path == finding.path else None, note.line, note.column)
    where = {"line": place.line, "column": place.column}
    if place.cell is not None:
        where = {"cell": place.cell, **where}
    return {"message": note.message, "path": note.path, **where}
