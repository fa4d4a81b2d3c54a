"""A text and the spans of its syntax tree: lines as Python's parser counts them, columns in characters."""

from __future__ import annotations

import ast

from devlint.findings import Span
from devlint.regexes import regex

_NEWLINE = regex(r"\r\n|\n|\r")
# Where Python's own parser ends a line; str.splitlines ends it at form feeds and other characters as well.
_LINE = regex(r"[^\r\n]+(?:\r\n?|\n)?|\r\n?|\n")


def split_lines(text: str) -> list[str]:
    r"""`text` cut after each `\n`, `\r\n` and `\r`, and nowhere else."""
    return _LINE.findall(text)


def column_of(line: str, byte_column: int) -> int:
    """The column, in characters from 1, of what `ast` says stands so many bytes of UTF-8 into a line."""
    if line.isascii():
        return byte_column + 1
    return len(line.encode()[:byte_column].decode(errors="replace")) + 1


class TextMap:
    """Where things stand in one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = list(_NEWLINE.finditer(text))
        # Offset of each line's first character.
        self.starts = [0, *(match.end() for match in found)]
        self._ends = [*(match.start() for match in found), len(text)]
        # The text's own newline, for lines that are added.
        self.newline = found[0].group() if found else "\n"

    def line(self, number: int) -> str:
        """A line (from 1) without its newline."""
        return self.text[self.starts[number - 1] : self._ends[number - 1]]

    def offset(self, line: int, column: int) -> int:
        """The offset in the text of a line and column, both from 1."""
        return self.starts[line - 1] + column - 1

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column), from 1, of an offset."""
        from bisect import bisect_right

        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def slice(self, span: Span) -> str:
        return self.text[self.offset(span.line, span.column) : self.offset(span.end_line, span.end_column)]

    def around(self, span: Span, lines: int) -> str:
        """The lines of a span, and so many before and behind."""
        first, last = max(span.line - lines, 1), min(span.end_line + lines, len(self.starts))
        return self.text[self.starts[first - 1] : self._ends[last - 1]]

    def span_of(self, node: ast.stmt | ast.expr | ast.keyword | ast.arg | ast.alias) -> Span:
        """The span of an `ast` node, whose columns count UTF-8 bytes."""
        end_line, end_offset = node.end_lineno or node.lineno, node.end_col_offset or 0
        return Span(
            node.lineno,
            column_of(self.line(node.lineno), node.col_offset),
            end_line,
            column_of(self.line(end_line), end_offset),
        )


def minimal_edit(old: str, new: str) -> tuple[int, int, str]:
    """(start, end, text): the shortest replacement in `old` that gives `new`."""
    start = 0
    limit = min(len(old), len(new))
    while start < limit and old[start] == new[start]:
        start += 1
    end = 0
    while end < limit - start and old[len(old) - 1 - end] == new[len(new) - 1 - end]:
        end += 1
    return start, len(old) - end, new[start : len(new) - end]
