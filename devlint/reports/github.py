"""The report as commands of a GitHub workflow: each finding becomes an annotation of its line."""

from __future__ import annotations

from devlint.files import Source
from devlint.findings import Finding
from devlint.reports import Run
from devlint.reports.anchors import advice, in_file, path_from_top, told

# GitHub reads the commands line by line.
_IN_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES = {**_IN_DATA, ":": "%3A", ",": "%2C"}


def render(run: Run) -> str:
    """The whole report: `::error file=...::message` for each finding."""
    return "".join(_command(finding, source, run.page_of(finding)) for finding, source in run.findings)


def _command(finding: Finding, source: Source | None, url: str) -> str:
    span = in_file(source, finding.span)
    properties = {
        "title": f"{finding.code} ({finding.name})",
        "file": path_from_top(finding.path),
        "line": str(span.line),
        "endLine": str(span.end_line),
    }
    if span.line == span.end_line:
        # Columns are of one line; the last one belongs to the stretch.
        properties |= {"col": str(span.column), "endColumn": str(max(span.end_column - 1, span.column))}
    said = [told(finding, source), *(f"help: {line}" for line in advice(finding)), *([f"see {url}"] if url else [])]
    spelt = ",".join(f"{name}={_spelt(value, _IN_PROPERTIES)}" for name, value in properties.items())
    return f"::{finding.severity} {spelt}::{_spelt(chr(10).join(said), _IN_DATA)}\n"


def _spelt(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
