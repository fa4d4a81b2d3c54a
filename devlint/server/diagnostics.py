"""Findings as the editor shows them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from lsprotocol import types

from devlint.disk import FileError, read_bytes
from devlint.files import source_from_bytes
from devlint.findings import Finding, Note
from devlint.rule import Registry
from devlint.server.desk import Outcome
from devlint.server.documents import Snapshot
from devlint.server.extents import extent
from devlint.server.positions import Places, uri_of

SOURCE = "devlint"
_SEVERITY = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning}
# Comments that do nothing are shown faded.
_TAGS = {"DEV001": [types.DiagnosticTag.Unnecessary]}


def diagnostics(outcome: Outcome, registry: Registry, *, with_related: bool) -> dict[str, list[types.Diagnostic]]:
    """The diagnostics of each text of a document, those without any too; `with_related`: the editor shows trails."""
    found: dict[str, list[types.Diagnostic]] = {uri: [] for uri in outcome.snapshot.uris}
    for finding in outcome.findings:
        uri, range = range_of(finding, outcome.snapshot)
        rule = registry.find(finding.code)
        page = rule.address() if rule is not None else ""
        found.setdefault(uri, []).append(_diagnostic(finding, range, page, outcome.snapshot, with_related))
    return found


def range_of(finding: Finding, snapshot: Snapshot) -> tuple[str, types.Range]:
    """The text and the range in it where a finding stands; an empty one takes in the rest of its line."""
    if finding.code == "DEV000":
        # The file may be none at all, and then has no lines to tell places by.
        try:
            uri, range = snapshot.range(finding.span)
        except FileError:
            return snapshot.uri, types.Range(types.Position(0, 0), types.Position(0, 0))
        end = types.Position(range.start.line, range.start.character + 1)
        return uri, types.Range(range.start, end) if range.start == range.end else range
    return snapshot.range(finding.span)


def _diagnostic(
    finding: Finding, range: types.Range, page: str, snapshot: Snapshot, with_related: bool
) -> types.Diagnostic:
    return types.Diagnostic(
        range,
        message_of(finding, with_trail=not with_related),
        _SEVERITY[finding.severity],
        finding.code,
        types.CodeDescription(page) if page else None,
        SOURCE,
        _TAGS.get(finding.code),
        [_related(note, snapshot) for note in finding.notes] if with_related else None,
    )


def message_of(finding: Finding, *, with_trail: bool = False) -> str:
    """What is said of a finding; with its trail where the editor has no place of its own for that."""
    likely = " (likely)" if finding.confidence == "likely" else ""
    lines = [f"{finding.message}{likely}"]
    if with_trail:
        lines += [f"note: {note.message} ({Path(note.path).name}:{note.line})" for note in finding.notes]
    if finding.hint:
        lines.append(f"help: {finding.hint}")
    if finding.fix is not None:
        lines.append(f"fix: {finding.fix.title}{finding.fix.mark}")
    return "\n".join(lines)


def _related(note: Note, snapshot: Snapshot) -> types.DiagnosticRelatedInformation:
    if note.path == snapshot.display:
        uri, range = snapshot.range(extent(snapshot.map, note.line, note.column))
    else:
        places = _places_in(note.path, snapshot.encoding)
        at = types.Position(note.line - 1, note.column - 1)
        range = places.range(extent(places.map, note.line, note.column)) if places else types.Range(at, at)
        uri = uri_of(note.path)
    return types.DiagnosticRelatedInformation(types.Location(uri, range), note.message)


def _places_in(path: str, encoding: str) -> Places | None:
    """The places of another file, as it is in the editor or on the disk; None where it can't be read."""
    try:
        return _places_of(read_bytes(Path(path)), path, encoding)
    except (OSError, FileError):
        return None


@lru_cache(maxsize=32)
def _places_of(raw: bytes, path: str, encoding: str) -> Places:
    return Places(source_from_bytes(raw, Path(path), path).text, encoding)
