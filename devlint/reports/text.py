"""The text report: each finding with its source, the steps that led to it, and what mends it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import click

from devlint.console import linked
from devlint.escapes import escaped, printable
from devlint.files import Source
from devlint.findings import Finding, Note, Safety, Span
from devlint.reports import COLORS, Run, Sources, place_of, spell_place, summary
from devlint.reports.ranking import ranking

_TAB = 4
# Source lines wider than this are cut to the part around the span.
_WIDEST = 160
# A span of more lines shows its first two and its last one.
_MOST_LINES = 5


def render(run: Run) -> str:
    """The whole report, with colours; click drops them where they aren't wanted."""
    sources = Sources(run.results)
    blocks = ["\n".join(_finding(finding, sources, run)) + "\n\n" for finding, _ in run.findings]
    if not run.quiet:
        blocks.append(ranking(run.results))
        closing = summary(run.results, safety=run.safety, failed=run.failed)
        blocks.append(f"{closing}\n" if closing else "")
    return "".join(blocks) + run.also


def _finding(finding: Finding, sources: Sources, run: Run) -> Iterator[str]:
    source = sources.get(finding.path) if finding.code != "DEV000" or finding.span != Span(1, 1, 1, 1) else None
    where = spell_place(finding.path, place_of(source, finding.span.line, finding.span.column))
    color = COLORS[finding.severity]
    code = click.style(finding.code, fg=color, bold=True)
    likely = " (likely)" if finding.confidence == "likely" else ""
    yield f"{click.style(where, bold=True)}: {linked(code, run.page_of(finding) if run.links else '')} [{finding.name}] {printable(finding.message)}{likely}"
    gutter = _gutter_width(finding, sources)
    yield from _excerpt(source, finding.span, gutter, mark=click.style("^", fg=color, bold=True))
    for note in finding.notes:
        yield from _note(note, sources, gutter)
    if finding.seen is not None:
        yield f"{click.style('seen', fg='magenta', bold=True)}: {str(finding.seen).removeprefix('seen ')}"
    advice = list(_advice(finding, run.safety))
    label = click.style("help", fg="cyan", bold=True)
    yield from (f"{label}: {line}" for line in advice)


def _note(note: Note, sources: Sources, gutter: int) -> Iterator[str]:
    source = sources.get(note.path)
    where = spell_place(note.path, place_of(source, note.line, note.column))
    yield f"{click.style('note', fg='blue', bold=True)}: {printable(note.message)} ({where})"
    span = Span(note.line, note.column, note.line, note.column + 1)
    yield from _excerpt(source, span, gutter, mark="")


def _advice(finding: Finding, safety: Safety) -> Iterator[str]:
    if finding.hint:
        yield printable(finding.hint)
    if finding.fix is not None:
        is_applied = finding.fix.goes_with(safety)
        option = "[*] fixable with --fix" if is_applied else _OPTIONS[finding.fix.safety]
        yield f"{printable(finding.fix.title)} ({option})"


# How a fix is had that `--fix`, as it was called, leaves alone.
_OPTIONS: dict[Safety, str] = {
    "unsafe": "fixable with --fix --unsafe-fixes",
    "display": "a suggestion, which --fix leaves to you",
}


def _gutter_width(finding: Finding, sources: Sources) -> int:
    """The width of the widest line number that the finding shows."""
    shown = [(finding.path, finding.span.end_line), *((note.path, note.line) for note in finding.notes)]
    return max(len(str(place_of(sources.get(path), line, 1).line)) for path, line in shown)


def _excerpt(source: Source | None, span: Span, gutter: int, *, mark: str) -> Iterator[str]:
    """The lines of the span with their numbers; with a `mark`, what belongs to the span is underlined with it."""
    if source is None or not 1 <= span.line <= len(source.lines):
        return
    bar = click.style("|", fg="blue", bold=True)
    last = min(span.end_line, len(source.lines))
    numbers = list(range(span.line, last + 1))
    if len(numbers) > _MOST_LINES:
        numbers = [*numbers[:2], 0, numbers[-1]]
    if mark:
        yield f"{'':{gutter}} {bar}"
    for number in numbers:
        if not number:
            yield f"{'...':{gutter}}"
            continue
        line = source.lines[number - 1].rstrip("\r\n")
        start = span.column - 1 if number == span.line else len(line) - len(line.lstrip())
        end = span.end_column - 1 if number == span.end_line else len(line.rstrip())
        before, under, after = _cut(line, start, max(end, start + 1) if number == span.line else end)
        shown = click.style(f"{place_of(source, number, 1).line:>{gutter}}", fg="blue", bold=True)
        yield f"{shown} {bar} {before}{under}{after}".rstrip()
        if mark and end >= start:
            yield f"{'':{gutter}} {bar} {' ' * _width(before)}{mark * max(_width(under), 1)}"


def _cut(line: str, start: int, end: int) -> tuple[str, str, str]:
    """What stands before, in and after a stretch of a line, as it is shown on a terminal, cut if it is too wide."""
    before, under, after = _shown(line[:start]), line[start:end], line[end:]
    # Tabs stop at columns of the whole line.
    under = _shown(line[:end])[len(before) :]
    after = _shown(line)[len(before) + len(under) :]
    if _width(before) + _width(under) + _width(after) <= _WIDEST:
        return before, under, after
    if _width(under) > _WIDEST:
        under, after = under[: _WIDEST - 1] + "…", ""
    room = max(_WIDEST - _width(under), 20)
    if _width(before) > room // 2:
        before = "…" + before[-(room // 2) :]
    if len(after) > room // 2:
        after = after[: room // 2] + "…"
    return before, under, after


def _shown(text: str) -> str:
    """The text with tabs as spaces, and control characters (which a terminal would obey) escaped."""
    if text.isprintable():
        return text
    pieces: list[str] = []
    column = 0
    for character in text:
        piece = " " * (_TAB - column % _TAB) if character == "\t" else escaped(character)
        pieces.append(piece)
        column += _width(piece)
    return "".join(pieces)


def _width(text: str) -> int:
    """How many columns a terminal gives the text."""
    if text.isascii():
        return len(text)
    wide = sum(1 for character in text if unicodedata.east_asian_width(character) in "WF")
    return len(text) + wide - sum(1 for character in text if unicodedata.combining(character))
