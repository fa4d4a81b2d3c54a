"""The report in reviewdog's form (rdjson), which brings findings and their fixes into reviews of many services."""

from __future__ import annotations

from typing import Any

from devlint.addresses import REPOSITORY
from devlint.escapes import printable
from devlint.files import Source
from devlint.findings import Finding, Note, Span
from devlint.reports import Run, Sources
from devlint.reports.anchors import advice, in_file, path_from_top, told
from devlint.reports.json import dumped


def render(run: Run) -> str:
    """The whole report."""
    sources = Sources(run.results)
    diagnostics = [_diagnostic(finding, source, run.page_of(finding), sources) for finding, source in run.findings]
    return dumped({"source": {"name": "devlint", "url": REPOSITORY}, "severity": "WARNING", "diagnostics": diagnostics})


def _diagnostic(finding: Finding, source: Source | None, url: str, sources: Sources) -> dict[str, Any]:
    fix = finding.fix
    # What stands in a notebook's JSON can't be suggested, nor what needs an import elsewhere.
    suggested = fix is not None and not fix.imports and (source is None or source.notebook is None)
    return {
        "message": "\n".join([told(finding, source), *(f"help: {line}" for line in advice(finding))]),
        "location": _location(finding.path, finding.span, source),
        "severity": finding.severity.upper(),
        "code": {"value": finding.code, **({"url": url} if url else {})},
        **({"suggestions": [_suggestion(e.span, e.text, source) for e in fix.edits]} if fix and suggested else {}),
        **({"relatedLocations": [_related(note, sources) for note in finding.notes]} if finding.notes else {}),
    }


def _suggestion(span: Span, text: str, source: Source | None) -> dict[str, Any]:
    return {"range": _range(span, source), "text": text}


def _related(note: Note, sources: Sources) -> dict[str, Any]:
    span = Span(note.line, note.column, note.line, note.column)
    return {
        "message": printable(note.message),
        "location": _location(note.path, span, sources.get(note.path)),
    }


def _location(path: str, span: Span, source: Source | None) -> dict[str, Any]:
    return {"path": path_from_top(path), "range": _range(span, source)}


def _range(span: Span, source: Source | None) -> dict[str, Any]:
    there = in_file(source, span)
    return {
        "start": _position(there.line, there.column, source),
        "end": _position(there.end_line, there.end_column, source),
    }


def _position(line: int, column: int, source: Source | None) -> dict[str, int]:
    """A position as reviewdog counts: columns in bytes of UTF-8."""
    if source is None or source.notebook is not None or line > len(source.lines):
        return {"line": line, "column": column}
    before = source.lines[line - 1][: column - 1]
    return {"line": line, "column": len(before.encode("utf-8", "surrogatepass")) + 1}
