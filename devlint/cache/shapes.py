"""Findings as data that JSON can hold, and back."""

from __future__ import annotations

from typing import Any

from devlint.findings import Cost, Edit, Finding, Fix, Note, Span, Untold


def data_of(finding: Finding) -> list[Any]:
    """A finding as lists, texts and numbers."""
    fix = finding.fix
    return [
        finding.code,
        finding.name,
        finding.message,
        finding.path,
        _numbers(finding.span),
        finding.confidence,
        [[note.message, note.path, note.line, note.column] for note in finding.notes],
        finding.hint,
        fix and [fix.title, fix.safety, [[_numbers(edit.span), edit.text] for edit in fix.edits], [*fix.imports]],
        [finding.cost.effect, finding.cost.loops],
        finding.severity,
    ]


def finding_of(data: list[Any]) -> Finding:
    """The finding that `data_of` gave that for; raises TypeError or ValueError for what it never gives."""
    code, name, message, path, span, confidence, notes, hint, fix, cost, severity = data
    return Finding(
        code,
        name,
        message,
        path,
        Span(*span),
        confidence,
        tuple(Note(*note) for note in notes),
        hint,
        fix and _fix(*fix),
        cost=Cost(*cost),
        severity=severity,
    )


def _fix(title: str, safety: Any, edits: list[Any], imports: list[str]) -> Fix:
    return Fix(title, safety, tuple(Edit(Span(*span), text) for span, text in edits), tuple(imports))


def _numbers(span: Span) -> list[int]:
    return [span.line, span.column, span.end_line, span.end_column]


def untold_of(data: list[Any]) -> Untold:
    """What JSON makes of an Untold as one again."""
    withheld, *counts = data
    return Untold(tuple((code, count) for code, count in withheld), *counts)
