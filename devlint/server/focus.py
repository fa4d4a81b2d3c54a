"""What a change of a text touches: the function around it, which is looked at first, and findings that only move."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from devlint.findings import Edit, Finding, Fix, Note, Span

# A change that touches more lines than these is no key, and no first look is worth its while.
MOST_LINES = 200

_DEFINITION = re.compile(r"(?:async\s+)?def\b|class\b")


@dataclass(frozen=True)
class Change:
    """The lines that differ between two texts, all from 1: those above `first` are the same, and so are those below."""

    first: int
    # The first line below, in the text before and in the one after.
    old_end: int
    new_end: int
    # What is to be looked at again, in the text after.
    within: range

    def moved(self, findings: Iterable[Finding], path: str) -> Iterator[Finding]:
        """Findings of the text before where they stand in the one after, but for those that are to be looked for again."""
        for finding in findings:
            span = self._span(finding.span)
            if span is not None and span.line not in self.within:
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


def change_between(before: Sequence[str], after: Sequence[str]) -> Change | None:
    """What differs between the lines of two texts; None where that is more than somebody types."""
    shorter = min(len(before), len(after))
    top = 0
    while top < shorter and before[top] == after[top]:
        top += 1
    below = 0
    while below < shorter - top and before[-1 - below] == after[-1 - below]:
        below += 1
    first, old_end, new_end = top + 1, len(before) - below + 1, len(after) - below + 1
    if max(old_end, new_end) - first > MOST_LINES:
        return None
    # What goes at the end leaves the line before it.
    last = min(max(new_end - 1, first), len(after))
    return Change(first, old_end, new_end, _around(after, min(first, last), last) if after else range(1, 2))


def _around(lines: Sequence[str], first: int, last: int) -> range:
    """The lines of the definitions at the top level, or of the methods of one class, that some lines stand in."""
    starts = _starts(lines, range(1, len(lines) + 1), "")
    outer = _between(starts, first, last, len(lines))
    header = next((number for number in outer if not lines[number - 1].startswith("@")), outer.start)
    if not lines[header - 1].startswith("class"):
        return outer
    body = next((line for line in lines[header : outer.stop - 1] if line.strip()), "")
    indent = body[: len(body) - len(body.lstrip())]
    members = _starts(lines, range(header + 1, outer.stop), indent) if indent else []
    if not members or first < members[0]:
        return outer
    inner = _between(members, first, last, outer.stop - 1)
    # What a class holds beside its methods is there for all of them.
    is_method = all(_DEFINITION.match(lines[n - 1].lstrip()) or "@" in lines[n - 1] for n in members if n in inner)
    return inner if is_method else outer


def _starts(lines: Sequence[str], among: range, indent: str) -> list[int]:
    """The lines on which statements begin that are as deep as `indent`, definitions with their decorators."""
    found: list[int] = []
    decorated = False
    for number in among:
        line = lines[number - 1]
        if _begins(line, indent):
            if not decorated:
                found.append(number)
            decorated = line.lstrip().startswith("@")
    return found


def _begins(line: str, indent: str) -> bool:
    """Whether a statement begins on a line, as deep as `indent`; what closes brackets or comes after `if` goes with it."""
    rest = line[len(indent) :]
    if not line.startswith(indent) or not rest.strip() or rest[0] in " \t#)]}'\"":
        return False
    return not re.match(r"(?:else|elif|except|finally)\b", rest)


def _between(starts: Sequence[int], first: int, last: int, end: int) -> range:
    """From the last start at or before `first` to the first one behind `last`."""
    begin = max((start for start in starts if start <= first), default=1)
    stop = min((start for start in starts if start > last), default=end + 1)
    return range(begin, max(stop, last + 1))
