"""Several JSON reports as one, such as those of the shards of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from devlint.disk import FileError, read_bytes
from devlint.files import Source, read_source
from devlint.findings import Cost, Edit, Finding, Fix, Note, Seen, Span
from devlint.reports import FileResult

# What each finding of a report has.
_NEEDED = {"code": str, "path": str, "message": str, "line": int, "column": int, "severity": str}
_MAX_BYTES = 256_000_000


class ReportError(Exception):
    """A report that can't be used; the text is one line that says what to do."""


@dataclass(frozen=True)
class Part:
    """A JSON report: its findings, and which part of how many it is, where it says so."""

    path: Path
    findings: list[dict[str, Any]]
    shard: tuple[int, int] | None = None


def read_report(path: Path) -> Part:
    """What a JSON report holds. Raises ReportError."""
    advice = "write it with `devlint --output-format json`"
    try:
        report = json.loads(read_bytes(path, _MAX_BYTES))
    except OSError as error:
        raise ReportError(f"{path}: can't be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise ReportError(f"{path}: isn't JSON; {advice}") from None
    shard = None
    if isinstance(report, dict):
        shard, report = report.get("shard"), report.get("findings")
    match shard:
        case None | {"part": int(), "of": int()} if isinstance(report, list) and all(map(_is_finding, report)):
            return Part(path, report, None if shard is None else (shard["part"], shard["of"]))
    raise ReportError(f"{path}: isn't a report of devlint; {advice}")


def check_parts(parts: Sequence[Part]) -> None:
    """Raises ReportError where parts of one run are missing, or there twice, by what they say of themselves."""
    shards = [(part.shard, part.path) for part in parts if part.shard is not None]
    counts = sorted({of for (_, of), _ in shards})
    if len(counts) > 1:
        raise ReportError(f"these are parts of {counts[0]} and of {counts[1]}; merge those of one run")
    named: dict[int, Path] = {}
    for (number, of), path in shards:
        if number in named:
            raise ReportError(f"part {number} of {of} is there twice: {named[number]}, {path}")
        named[number] = path
    missing = [number for number in range(1, counts[0] + 1) if number not in named] if counts else []
    if missing:
        said = ", ".join(map(str, missing))
        raise ReportError(
            f"part{'s' * (len(missing) > 1)} {said} of {counts[0]} {'are' if len(missing) > 1 else 'is'} missing"
        )


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


def results_of(findings: Iterable[dict[str, Any]]) -> list[FileResult]:
    """What the entries of JSON reports were made of, with the texts of the files that are there, for other reports.

    Raises ReportError.
    """
    results = []
    for path, entries in groupby(findings, key=lambda entry: str(entry["path"])):
        source = _source_of(path)
        try:
            results.append(FileResult(path, tuple(_finding(entry, source) for entry in entries), source))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ReportError(f"a finding in {path} lacks or garbles {error}; report it by this devlint") from None
    return results


def _source_of(path: str) -> Source | None:
    try:
        return read_source(Path(path), path)
    except FileError:
        return None


def _finding(entry: dict[str, Any], source: Source | None) -> Finding:
    fix, seen = entry["fix"], entry.get("seen")
    return Finding(
        entry["code"],
        entry["name"],
        entry["message"],
        entry["path"],
        _span(entry, source),
        entry["confidence"],
        tuple(_note(note, source if note["path"] == entry["path"] else None) for note in entry["notes"]),
        entry["hint"],
        fix and Fix(fix["title"], fix["safety"], _edits(fix, source), tuple(fix.get("imports", ()))),
        seen and Seen(seen["count"], seen["bytes"], seen.get("failed", False)),
        Cost(entry["cost"]["effect"], entry["cost"]["loops"]),
        entry["severity"],
    )


def _edits(fix: dict[str, Any], source: Source | None) -> tuple[Edit, ...]:
    return tuple(Edit(_span(edit, source), edit["text"]) for edit in fix["edits"])


def _note(note: dict[str, Any], source: Source | None) -> Note:
    return Note(note["message"], note["path"], *_place(note, "line", "column", source))


def _span(entry: dict[str, Any], source: Source | None) -> Span:
    return Span(*_place(entry, "line", "column", source), *_place(entry, "end_line", "end_column", source))


def _place(entry: dict[str, Any], line_key: str, column_key: str, source: Source | None) -> tuple[int, int]:
    """The line and column of a source's text, the reverse of `place_of`."""
    told, cell = int(entry[line_key]), entry.get("cell")
    container = source.notebook if source is not None else None
    line = container.line_of(cell, told) if container is not None else None if cell else told
    if line is None and cell is not None:
        path = entry.get("path", source.display if source is not None else "")
        raise ReportError(f"to tell where a notebook's cells are, `devlint merge` needs it as it was linted: {path}")
    line = line or told
    return line, int(entry[column_key]) - (container.indent(line) if container is not None else 0)
