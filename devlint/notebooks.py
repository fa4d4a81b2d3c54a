"""Jupyter notebooks: the code cells as one Python text, and that text back into the cells.

The cells are joined in order, each after a marker line, so that a line of the text tells its cell and an edited text
can be taken apart again. What is not Python (magics, shell lines) becomes a stand-in line that also carries a
marker. In the notebook's JSON only the `source` of a cell that changed is written anew.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from devlint.disk import FileError
from devlint.findings import Span
from devlint.regexes import regex
from devlint.textmap import split_lines

# After these the rest of the cell is Python; after any other cell magic it is something else.
_PYTHON_CELL_MAGICS = frozenset({"capture", "prun", "python", "python3", "time", "timeit"})

_SPACE = regex(r"[ \t\r\n]*")
# A line of IPython's own: `%magic`, `!shell`, `?help`, `help?`, and `name = !shell` or `name = %magic`.
_MAGIC = regex(r"[ \t]*(?:[%!?]|[\w.]+\?{1,2}[ \t]*$|(?P<target>[\w.,\[\]][\w.,\[\] \t]*=)[ \t]*[%!](?!=))")
# What can hide a bracket or begin a string that goes on: for telling where a statement begins.
_LEXEME = regex(r"#.*|'''|\"\"\"|'(?:\\.|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?|[()\[\]{}]|\\$")

_decoder = json.JSONDecoder()


@dataclass(frozen=True)
class _Cell:
    number: int
    # Where its `source` stands in the notebook's text.
    start: int
    end: int
    code: str


@dataclass(frozen=True)
class Notebook:
    """A notebook's JSON text and its Python cells."""

    text: str
    cells: tuple[_Cell, ...]
    # The lines that stand-ins stand for, by their number.
    magics: tuple[str, ...]
    # The first line of each cell in the joined code.
    first_lines: tuple[int, ...]
    # The word that begins markers; it stands nowhere in the notebook.
    mark: str

    def locate(self, line: int) -> tuple[int, int]:
        """The cell, counted from 1 among all cells of the notebook, and the line in it, of a line of the code."""
        index = max(bisect_right(self.first_lines, line) - 1, 0)
        if not self.cells:
            return (1, 1)
        return (self.cells[index].number, max(line - self.first_lines[index] + 1, 1))

    def indent(self, line: int) -> int:
        """Nothing stands before the code."""
        return 0

    def over(self, code: str) -> Notebook:
        """The same notebook with its cells where they stand in an edited code."""
        marks = (f"# %% {self.mark} cell {cell.number}" for cell in self.cells)
        lines = {line.rstrip("\r\n"): at for at, line in enumerate(split_lines(code), 1) if line.startswith("# %% ")}
        firsts = (lines.get(mark, first - 1) + 1 for mark, first in zip(marks, self.first_lines, strict=True))
        return replace(self, first_lines=tuple(firsts))

    def line_of(self, cell_number: int | None, line: int) -> int | None:
        """The line of the code that is a line of a cell, the reverse of `locate`; None where there is none."""
        for cell, first in zip(self.cells, self.first_lines, strict=True):
            if cell.number == cell_number and line <= len(split_lines(cell.code)):
                return first + line - 1
        return None

    def file_line(self, line: int) -> int:
        """The line of the notebook's JSON text, from 1, in which a line of the code is spelt."""
        cell_number, number = self.locate(line)
        cell = next((cell for cell in self.cells if cell.number == cell_number), None)
        if cell is None:
            return 1
        at = cell.start
        if self.text[at] == "[":
            for start, end in _items(self.text, at):
                at = start
                number -= json.loads(self.text[start:end]).count("\n")
                if number < 1:
                    break
        return self.text.count("\n", 0, at) + 1

    def parts(self, code: str) -> list[tuple[int, str]]:
        """The cells where they stand in the code, each with its first line."""
        lines = split_lines(code)
        return [(first, "".join(lines[first - 1 : self._end(at, lines)])) for at, first in enumerate(self.first_lines)]

    def emptied(self, code: str, line: int) -> str:
        """The code with the lines of the cell around a line empty."""
        lines = split_lines(code)
        at = bisect_right(self.first_lines, line) - 1
        if at < 0:
            return code
        first, end = self.first_lines[at] - 1, self._end(at, lines)
        return "".join([*lines[:first], *("\n" for _ in lines[first:end]), *lines[end:]])

    def _end(self, at: int, lines: list[str]) -> int:
        """The last line of a cell: before the next one stands its marker."""
        return self.first_lines[at + 1] - 2 if at + 1 < len(self.first_lines) else len(lines)

    def can_edit(self, span: Span) -> bool:
        """Whether an edit of the span leaves the cells apart: it takes in no part of a marker line."""
        if span.column == 1 and (span.line, 1) == (span.end_line, span.end_column):
            return True
        # An end at column 1 takes in the line end before it, and nothing of the line itself.
        last = span.end_line - 1 if span.end_column == 1 and span.end_line > span.line else span.end_line
        return not any(span.line < first <= last + 1 for first in self.first_lines)

    def with_code(self, code: str) -> str:
        """The notebook's JSON text with the cells of an edited joined code; raises FileError if a marker was lost."""
        parts = re.split(rf"^# %% {self.mark} cell (\d+)\n", code, flags=re.MULTILINE)
        if len(parts) > 2:
            # What was put at the very top, such as an import, goes to the first cell.
            parts[2] = parts[0] + parts[2]
        if [int(number) for number in parts[1::2]] != [cell.number for cell in self.cells]:
            raise FileError("a fix would cross the cells of the notebook")
        stand_in = re.compile(rf"^.*# {self.mark} magic (\d+)$", re.MULTILINE)
        pieces, at = [], 0
        for cell, edited in zip(self.cells, parts[2::2], strict=True):
            restored = stand_in.sub(lambda match: self.magics[int(match[1])], edited)
            if not cell.code.endswith("\n"):
                restored = restored.removesuffix("\n")
            if restored != cell.code:
                pieces += [self.text[at : cell.start], _source_literal(self.text[cell.start : cell.end], restored)]
                at = cell.end
        return "".join([*pieces, self.text[at:]])


def read_notebook(text: str) -> tuple[Notebook, str]:
    """A notebook and the joined code of its Python cells; raises FileError when `text` is no notebook."""
    try:
        document = json.loads(text)
        cells = list(_code_cells(text)) if _is_python(document) else []
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise FileError(f"isn't a Jupyter notebook of format 4: {error}") from None
    mark = "devlint"
    while mark in text:
        mark += "-"
    magics: list[str] = []
    code, first_lines, kept, line = [], [], [], 1
    for cell in cells:
        python = _to_python(cell.code, magics, mark)
        if python is None:
            continue
        python += "" if python.endswith("\n") else "\n"
        code += [f"# %% {mark} cell {cell.number}\n", python]
        kept.append(cell)
        first_lines.append(line + 1)
        line += 1 + len(split_lines(python))
    return Notebook(text, tuple(kept), tuple(magics), tuple(first_lines), mark), "".join(code)


def _is_python(document: dict[str, object]) -> bool:
    if not isinstance(document["cells"], list):
        raise TypeError("its cells are no list")
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    for key, field in (("language_info", "name"), ("kernelspec", "language")):
        named = metadata.get(key)
        if isinstance(named, dict) and isinstance(named.get(field), str):
            return named[field].lower() in ("python", "ipython")
    return True


def _code_cells(text: str) -> Iterator[_Cell]:
    top = {key: start for key, start, _ in _members(text, _skip(text, 0))}
    for number, (start, _) in enumerate(_items(text, top["cells"]), 1):
        cell = {key: (start, end) for key, start, end in _members(text, start)}
        kind, source = (json.loads(text[slice(*cell[key])]) for key in ("cell_type", "source"))
        if kind == "code":
            code = source if isinstance(source, str) else "".join(source)
            yield _Cell(number, cell["source"][0], cell["source"][1], code.replace("\r\n", "\n"))


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Key, start and end of each value of the JSON object at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _decoder.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _decoder.raw_decode(text, start)
        yield key, start, end
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Start and end of each item of the JSON array at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = _decoder.raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _source_literal(before: str, code: str) -> str:
    """`code` as the JSON of a cell's source, in the manner of what stood there before; equal lines stay as spelt."""
    plain = before.isascii() and "\\u" in before
    if before.startswith('"'):
        return json.dumps(code, ensure_ascii=plain)
    spans = list(_items(before, 0))
    spelt = {json.loads(before[start:end]): before[start:end] for start, end in spans}
    lines = [spelt.get(line) or json.dumps(line, ensure_ascii=plain) for line in split_lines(code)]
    if not spans:
        return f"[{', '.join(lines)}]"
    opening, closing = before[: spans[0][0]], before[spans[-1][1] :]
    between = before[spans[0][1] : spans[1][0]] if len(spans) > 1 else "," + opening[1:]
    return opening + between.join(lines) + closing


def _to_python(code: str, magics: list[str], mark: str) -> str | None:
    """The cell with stand-ins for what isn't Python (added to `magics`); None when none of it is."""
    lines = split_lines(code)
    result: list[str] = []
    scan = _Scan()
    continued = False
    for line in lines:
        body = line.rstrip("\r\n")
        first = not any(text.strip() for text in result)
        if first and body.startswith("%%"):
            word = re.match(r"\w*", body[2:])
            if word is None or word[0] not in _PYTHON_CELL_MAGICS:
                return None
        match = _MAGIC.match(body)
        if continued or (match and scan.at_statement):
            target = match["target"] if match and not continued else None
            stand_in = f"{target} get_ipython()" if target else "" if continued else "pass"
            indent = "" if continued else body[: len(body) - len(body.lstrip())]
            result.append(f"{indent}{stand_in}  # {mark} magic {len(magics)}{line[len(body) :]}")
            magics.append(body)
            continued = body.endswith("\\")
        else:
            scan.feed(body)
            result.append(line)
    return "".join(result)


class _Scan:
    """Follows brackets and long strings, line by line."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote: str | None = None
        self._continued = False

    @property
    def at_statement(self) -> bool:
        """Whether the next line begins a statement."""
        return self._depth == 0 and self._quote is None and not self._continued

    def feed(self, line: str) -> None:
        """Take in one line, without its end."""
        at = 0
        self._continued = False
        while at < len(line):
            if self._quote is not None:
                end = line.find(self._quote, at)
                while end > 0 and line[end - 1] == "\\":
                    end = line.find(self._quote, end + 1)
                if end < 0:
                    return
                at, self._quote = end + 3, None
                continue
            match = _LEXEME.search(line, at)
            if match is None:
                return
            at = match.end()
            if match[0] in ("'''", '"""'):
                self._quote = match[0]
            elif match[0] in "([{":
                self._depth += 1
            elif match[0] in ")]}":
                self._depth = max(self._depth - 1, 0)
            elif match[0] == "\\":
                self._continued = True
