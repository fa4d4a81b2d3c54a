"""Writes `# noqa` comments for findings: each is admitted where it stands, by its code, with a reason where one is given."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from devlint.adoption.marks import NEVER_OLD
from devlint.engine import Linter, apply_edits
from devlint.files import Source
from devlint.findings import Edit, Finding, Fix, Span
from devlint.regexes import regex

# About comments themselves: another one would be about those.
_ABOUT_COMMENTS = frozenset({"DEV001", "DEV002"})
_CODES = regex(r"#\s*noqa\s?:\s?[A-Z]+[0-9]+(?:[,\s]\s?[A-Z]+[0-9]+){0,50}", re.IGNORECASE)


def with_all_noqa(
    source: Source, findings: Iterable[Finding], reason: str, linter: Linter
) -> tuple[Source, list[Finding]]:
    """(the source with comments for the findings, and for those that they spoke for; those that got one)."""
    shown = {(f.code, f.span) for f in linter.check(source)}
    admitted: list[Finding] = []
    while True:
        source, more = with_noqa(source, findings, reason, linter.every_finding)
        if not more:
            return source, admitted
        admitted += more
        # Nobody speaks for these any more: the next run would tell them.
        findings = [f for f in linter.check(source) if (f.code, f.span) not in shown]


def with_noqa(
    source: Source, findings: Iterable[Finding], reason: str, check: Callable[[Source], Sequence[Finding]]
) -> tuple[Source, list[Finding]]:
    """(the source with comments for the findings, those that got one); the same source where that doesn't work for any.

    `check` lints a source: the findings must be gone, with nothing else changed.
    """
    findings = list(findings)
    changed, admitted = _with_all(source, findings, reason, check)
    lines = sorted({finding.span.line for finding in findings})
    if admitted or len(lines) < 2:
        return changed, admitted
    # One that no comment can admit is in no other's way: half of them are tried, and then the others.
    middle = lines[len(lines) // 2]
    for half in ([f for f in findings if f.span.line < middle], [f for f in findings if f.span.line >= middle]):
        source, more = with_noqa(source, half, reason, check)
        admitted += more
    return source, admitted


def _with_all(
    source: Source, findings: Iterable[Finding], reason: str, check: Callable[[Source], Sequence[Finding]]
) -> tuple[Source, list[Finding]]:
    """The same, for all of the findings or none."""
    asked = [f for f in findings if f.code not in NEVER_OLD | _ABOUT_COMMENTS]
    lines = _Lines(source)
    by_line: dict[int, list[Finding]] = defaultdict(list)
    for finding in asked:
        line = lines.taking(finding)
        if line is not None:
            by_line[line].append(finding)
    edits = [lines.edit(line, [f.code for f in found], reason) for line, found in sorted(by_line.items())]
    if source.notebook is not None and not all(source.notebook.can_edit(edit.span) for edit in edits):
        return source, []
    admitted = [finding for found in by_line.values() for finding in found]
    changed = source.with_text(apply_edits(source.text, [Fix("", "safe", tuple(edits))]))
    if not admitted or not _same_code(source, changed):
        return source, []
    before, after, gone = (Counter(f.code for f in found) for found in (check(source), check(changed), admitted))
    return (changed, admitted) if after == before - gone else (source, [])


def _same_code(one: Source, other: Source) -> bool:
    try:
        return ast.dump(ast.parse(one.text)) == ast.dump(ast.parse(other.text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


class _Lines:
    """Where comments stand, and could stand, in a text."""

    def __init__(self, source: Source) -> None:
        self._lines = source.lines
        self._comments: dict[int, tuple[int, str]] = {}
        # The lines that end outside of any string, and without a backslash; those that end a statement.
        self._open: set[int] = set()
        self._last: list[int] = []
        try:
            for token in tokenize.generate_tokens(io.StringIO(source.text, newline=None).readline):
                line, column = token.start
                if token.type == tokenize.COMMENT:
                    self._comments[line] = (column, token.string)
                elif token.type in (tokenize.NL, tokenize.NEWLINE):
                    self._open.add(line)
                    if token.type == tokenize.NEWLINE:
                        self._last.append(line)
        except (tokenize.TokenError, SyntaxError):
            pass

    def taking(self, finding: Finding) -> int | None:
        """The line for a finding's comment: its own, or where that can't take one the last of its statement."""
        line = finding.span.line
        return line if line in self._open else next((last for last in self._last if last >= line), None)

    def edit(self, line: int, codes: Sequence[str], reason: str) -> Edit:
        """What adds codes to a line's comment, or a comment to the line."""
        listed = ", ".join(sorted(set(codes)))
        column, comment = self._comments.get(line, (0, ""))
        known = _CODES.search(comment)
        if known is not None:
            at = column + known.end() + 1
            return Edit(Span(line, at, line, at), f", {listed}")
        at = len(self._lines[line - 1].rstrip()) + 1
        said = f"  # noqa: {listed}" + (f" - {reason}" if reason else "")
        return Edit(Span(line, at, line, at), said)
