"""What a change of a text touches: the function around it, which is looked at first, and findings that only move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from devlint.findings import Edit, Finding, Fix, Note, Span
from devlint.regexes import regex

# A change that touches more lines than these is no key, and no first look is worth its while.
MOST_LINES = 200
# Of a longer definition, a first look is at the statements around the change.
LONG = 60

_DEFINITION = regex(r"(?:async\s+)?def\b|class\b")
_DECORATED = regex(rf"{_DEFINITION.pattern}|@")
# What a line that begins no statement begins with.
_INSIDE = frozenset(["", *" \t\r\n#)]}'\""])
_GOES_ON = regex(r"(?:else|elif|except|finally)\b")


@dataclass(frozen=True)
class Change:
    """The lines that differ between two texts, all from 1: those above `first` are the same, and so are those below."""

    first: int
    # The first line below, in the text before and in the one after.
    old_end: int
    new_end: int
    # What is to be looked at again, in the text after.
    within: range
    # Whether those lines are a part of their definition alone: what it is to the rest is left for later.
    is_part: bool = False

    def moved(self, findings: Iterable[Finding], path: str) -> Iterator[Finding]:
        """Findings of the text before where they stand in the one after, but for those that are to be looked for again."""
        again = range(self.first, self.new_end) if self.is_part else self.within
        for finding in findings:
            span = self._span(finding.span)
            if span is not None and span.line not in again:
                notes = tuple(self._note(note, path) for note in finding.notes)
                yield replace(finding, span=span, notes=notes, fix=self._fix(finding))

    def _span(self, span: Span) -> Span | None:
        if span.end_line < self.first or (span.end_line == self.first and span.end_column == 1):
            return span
        if span.line < self.old_end:
            return None
        by = self.new_end - self.old_end
        return Span(span.line + by, span.column, span.end_line + by, span.end_column)

    def _note(self, note: Note, path: str) -> Note:
        if note.path != path or note.line < self.first:
            return note
        moved = note.line + self.new_end - self.old_end if note.line >= self.old_end else self.first
        return replace(note, line=moved)

    def _fix(self, finding: Finding) -> Fix | None:
        if finding.fix is None:
            return None
        spans = [self._span(edit.span) for edit in finding.fix.edits]
        edits = [Edit(span, edit.text) for span, edit in zip(spans, finding.fix.edits, strict=True) if span is not None]
        return replace(finding.fix, edits=tuple(edits)) if len(edits) == len(spans) else None


def standing(before: Sequence[str], after: Sequence[str], findings: Iterable[Finding], path: str) -> Iterator[Finding]:
    """Findings of a text where they stand in one that is no Python: those on lines that it has as well, without fixes."""
    lines = lines_kept(before, after)
    for finding in findings:
        span = finding.span
        by = lines.get(span.line, 0) - span.line
        if all(lines.get(number) == number + by for number in range(span.line, span.end_line + 1)):
            notes = tuple(replace(n, line=lines.get(n.line, n.line)) if n.path == path else n for n in finding.notes)
            moved = replace(span, line=span.line + by, end_line=span.end_line + by)
            yield replace(finding, span=moved, notes=notes, fix=None)


def lines_kept(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """The lines of a text that another one has as well, each with its number there; all from 1."""
    top, below = _alike(before, after)
    old, new = before[top : len(before) - below], after[top : len(after) - below]
    lines = dict(
        zip(range(len(before) - below + 1, len(before) + 1), range(len(after) - below + 1, len(after) + 1), strict=True)
    )
    lines |= {number: number for number in range(1, top + 1)}
    for same in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        lines |= {top + same.a + n: top + same.b + n for n in range(1, same.size + 1)}
    return lines


def _alike(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines two texts have in common at their top, and how many of the others at their end."""
    shorter = min(len(before), len(after))
    top = 0
    while top < shorter and before[top] == after[top]:
        top += 1
    below = 0
    while below < shorter - top and before[-1 - below] == after[-1 - below]:
        below += 1
    return top, below


def change_between(before: Sequence[str], after: Sequence[str]) -> Change | None:
    """What differs between the lines of two texts; None where that is more than somebody types."""
    top, below = _alike(before, after)
    first, old_end, new_end = top + 1, len(before) - below + 1, len(after) - below + 1
    if max(old_end, new_end) - first > MOST_LINES:
        return None
    # What goes at the end leaves the line before it.
    last = min(max(new_end - 1, first), len(after))
    whole = _around(after, min(first, last), last) if after else range(1, 2)
    near = _narrowed(after, whole, min(first, last), last)
    return Change(first, old_end, new_end, near, is_part=near != whole)


def _around(lines: Sequence[str], first: int, last: int) -> range:
    """The lines of the definitions at the top level, or of the methods of one class, that some lines stand in."""
    outer = _statement(lines, range(1, len(lines) + 1), "", first, last)
    header = next((number for number in outer if not lines[number - 1].startswith("@")), outer.start)
    if not lines[header - 1].startswith("class"):
        return outer
    indent = _indent(next((line for line in lines[header : outer.stop - 1] if line.strip()), ""))
    members = range(header + 1, outer.stop)
    if not indent or _start_above(lines, members, indent, first) is None:
        return outer
    inner = _statement(lines, members, indent, first, last)
    # What a class holds beside its methods is there for all of them.
    starts = (lines[n - 1].lstrip() for n in inner if _begins(lines[n - 1], indent))
    return inner if all(_DEFINITION.match(start) or "@" in start for start in starts) else outer


def _narrowed(lines: Sequence[str], around: range, first: int, last: int) -> range:
    """The statements of a long definition that some lines stand in: as little of it as has its own beginning."""
    while len(around) > LONG:
        inside = range(around.start + 1, around.stop)
        indents = [_indent(line) for line in lines[around.start : around.stop - 1] if line.strip()]
        deeper = [i for i in indents if len(i) > len(_indent(lines[around.start - 1]))]
        if not deeper:
            break
        indent = min(deeper, key=len)
        if _start_above(lines, inside, indent, first) is None:
            # The header of it.
            below = next((n for n in range(last + 1, inside.stop) if _begins(lines[n - 1], indent)), inside.stop)
            return range(around.start, below)
        inner = _statement(lines, inside, indent, first, last)
        if inner == around:
            break
        around = inner
    return around


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _statement(lines: Sequence[str], among: range, indent: str, first: int, last: int) -> range:
    """The statements as deep as `indent` that some lines stand in, definitions with their decorators."""
    start = _start_above(lines, among, indent, first)
    while start is not None and _DECORATED.match(lines[start - 1].lstrip()):
        above = _start_above(lines, among, indent, start - 1)
        if above is None or not _is_decorator(lines[above - 1]):
            break
        start = above
    latest = _start_above(lines, among, indent, last)
    is_decorated = latest is not None and _is_decorator(lines[latest - 1])
    stop = last + 1
    while stop < among.stop and (is_decorated or not _begins(lines[stop - 1], indent)):
        if _begins(lines[stop - 1], indent):
            is_decorated = _is_decorator(lines[stop - 1])
        stop += 1
    return range(start if start is not None else among.start, stop)


def _start_above(lines: Sequence[str], among: range, indent: str, line: int) -> int | None:
    """The line at or above another on which a statement begins that is as deep as `indent`."""
    return next((n for n in range(line, among.start - 1, -1) if _begins(lines[n - 1], indent)), None)


def _is_decorator(line: str) -> bool:
    return line.lstrip().startswith("@")


def _begins(line: str, indent: str) -> bool:
    """Whether a statement begins on a line, as deep as `indent`; what closes brackets or comes after `if` goes with it."""
    if not line.startswith(indent):
        return False
    rest = line[len(indent) :]
    return rest[:1] not in _INSIDE and not _GOES_ON.match(rest)
