"""Pages of Markdown and reStructuredText: their blocks of Python as one Python text, and that text back into the page.

The text has the page's lines, blank where the page says something else: a line of the one is the same line of the other.
The blocks of a page are one program, in their order, as a reader follows them. What stands before a block's code on its
lines (indentation, the `>` of a quotation, the prompts of a session) is taken off, and put back.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from devlint.disk import FileError
from devlint.findings import Span
from devlint.regexes import regex
from devlint.textmap import split_lines

MARKDOWN_SUFFIXES = (".md", ".markdown")
_PYTHON = frozenset({"python", "python3", "py", "pycon", "ipython", "ipython3"})
# What a fence says of its code: `python`, `{.python .numberLines}`, `{code-block} python`, `python title="train.py"`.
_INFO = regex(r"\{code-(?:block|cell)\}\s*(?P<directive>\w+)|\{\s*\.?(?P<attribute>\w+)|(?P<word>\w+)")
_DIRECTIVE = regex(r"(?P<indent>[ \t]*)\.\.[ \t]+(?:code-block|sourcecode|code|testcode)::(?P<language>.*)")
_OPTION = regex(r"[ \t]*:[\w-]+:")
_PROMPT = regex(r"(?:>>>|\.\.\.)(?: |$)")


@dataclass(frozen=True)
class _Block:
    # Of its code, from 1; the marker lines stand around it.
    first: int
    last: int
    # What stands before the code of each line.
    prefixes: tuple[str, ...]
    lines: tuple[str, ...]
    # The prompts of a session, whose lines can't be written anew one by one.
    is_session: bool = False


@dataclass(frozen=True)
class Page:
    """A page's text and its blocks of Python."""

    text: str
    blocks: tuple[_Block, ...]
    # The first line of each block that isn't Python, though the page says so.
    amiss: tuple[int, ...]
    # The word that begins markers; it stands nowhere in the page.
    mark: str
    # The first and last line of each block now.
    places: tuple[tuple[int, int], ...]

    def locate(self, line: int) -> tuple[None, int]:
        """(no cell, the line of the page)."""
        return None, line

    def indent(self, line: int) -> int:
        """How many characters stand before the code on a line of the page."""
        for block, (first, last) in zip(self.blocks, self.places, strict=True):
            if first <= line <= last:
                return len(block.prefixes[min(line - first, len(block.prefixes) - 1)])
        return 0

    def line_of(self, cell: int | None, line: int) -> int | None:
        """The line of the code that is a line of the page; None where no code is."""
        return line if cell is None and any(first <= line <= last for first, last in self.places) else None

    def file_line(self, line: int) -> int:
        """The line of the page: the same one."""
        return line

    def parts(self, code: str) -> list[tuple[int, str]]:
        """None: names that one block binds are those of the next."""
        return []

    def emptied(self, code: str, line: int) -> str:
        """The same: blocks that aren't Python were left out when the page was read."""
        return code

    def can_edit(self, span: Span) -> bool:
        """Whether an edit of the span stays in one block."""
        for block, (first, last) in zip(self.blocks, self.places, strict=True):
            ends_inside = span.end_line <= last or (span.end_line, span.end_column) == (last + 1, 1)
            if first <= span.line and ends_inside and not block.is_session:
                return True
        return False

    def over(self, code: str) -> Page:
        """The same page with the blocks where they stand in an edited code."""
        starts = {int(number): at for at, kind, number in self._markers(code) if kind == "block"}
        ends = {int(number): at for at, kind, number in self._markers(code) if kind == "end"}
        last = len(split_lines(code))
        places = (
            (starts.get(at, first - 1) + 1, ends.get(at, last + 1) - 1) for at, (first, _) in enumerate(self.places)
        )
        return replace(self, places=tuple(places))

    def with_code(self, code: str) -> str:
        """The page's text with the blocks of an edited code; raises FileError where an edit left its block."""
        lines = split_lines(code)
        markers = list(self._markers(code))
        opened = [int(number) for _, kind, number in markers if kind == "block"]
        starts = {int(number): at for at, kind, number in markers if kind == "block"}
        ends = {int(number): at for at, kind, number in markers if kind == "end"}
        pieces, at = [], 0
        page = split_lines(self.text)
        inside: set[int] = set()
        for number, block in enumerate(self.blocks):
            if number not in starts:
                raise FileError("a fix would cross the blocks of the page")
            stop = ends.get(number, len(lines) + 1)
            inside.update(range(starts[number], stop + 1))
            edited = lines[starts[number] : stop - 1]
            pieces += page[at : block.first - 1]
            pieces += _restored(block, page[block.first - 1 : block.last], edited)
            at = block.last
        outside = (line for n, line in enumerate(lines, 1) if n not in inside)
        if opened != list(range(len(self.blocks))) or any(line.strip() for line in outside):
            raise FileError("a fix would cross the blocks of the page")
        return "".join([*pieces, *page[at:]])

    def _markers(self, code: str) -> Iterator[tuple[int, str, str]]:
        """(line, kind, number) of each marker line."""
        form = re.compile(rf"# %% {self.mark} (block|end) (\d+)")
        for at, line in enumerate(split_lines(code), 1):
            if match := form.match(line):
                yield at, match[1], match[2]


def read_page(text: str, display: str) -> tuple[Page, str]:
    """A page and the code of its Python blocks, in the lines of the page."""
    found = _in_markdown(text) if display.endswith(MARKDOWN_SUFFIXES) else _in_restructured_text(split_lines(text))
    blocks, amiss = [], []
    for block in found:
        if _is_python(block):
            blocks.append(block)
        else:
            amiss.append(block.first)
    mark = "devlint"
    while mark in text:
        mark += "-"
    lines = [_line_end(line) for line in split_lines(text)]
    for number, block in enumerate(blocks):
        lines[block.first - 2] = f"# %% {mark} block {number}{lines[block.first - 2]}"
        for at, line in enumerate(block.lines, block.first - 1):
            lines[at] = line + lines[at]
        if block.last < len(lines):
            lines[block.last] = f"# %% {mark} end {number}{lines[block.last]}"
    places = tuple((block.first, block.last) for block in blocks)
    return Page(text, tuple(blocks), tuple(amiss), mark, places), "".join(lines)


def _line_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _is_python(block: _Block) -> bool:
    try:
        ast.parse("\n".join(block.lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _in_markdown(text: str) -> Iterator[_Block]:
    from markdown_it import MarkdownIt

    lines = [line.rstrip("\r\n") for line in split_lines(text)]
    for token in MarkdownIt("commonmark").parse(text):
        info = _INFO.match(token.info.strip())
        if token.type != "fence" or token.map is None or info is None:
            continue
        if (info["directive"] or info["attribute"] or info["word"]).lower() in _PYTHON:
            first = token.map[0] + 1
            contents = token.content.removesuffix("\n").split("\n")
            # Options of a directive of MyST.
            while contents and info["directive"] and _OPTION.match(contents[0]):
                contents, first = contents[1:], first + 1
            yield from _block(first, lines[first : first + len(contents)], contents)


def _in_restructured_text(ended: Sequence[str]) -> Iterator[_Block]:
    lines = [line.rstrip("\r\n") for line in ended]
    language, at = "python", 0
    while at < len(lines):
        match = _DIRECTIVE.match(lines[at])
        at += 1
        if named := re.match(r"[ \t]*\.\. highlight::[ \t]*(\w+)", lines[at - 1]):
            language = named[1]
        if match is None:
            continue
        indent = len(match["indent"].expandtabs())
        while at < len(lines) and _OPTION.match(lines[at]):
            at += 1
        start = at
        while at < len(lines) and (not lines[at].strip() or _depth(lines[at]) > indent):
            at += 1
        body = lines[start:at]
        if (match["language"].strip() or language).lower() in _PYTHON:
            yield from _block(start, body, body)


def _depth(line: str) -> int:
    line = line.expandtabs()
    return len(line) - len(line.lstrip())


def _block(before: int, raws: Sequence[str], contents: Sequence[str]) -> Iterator[_Block]:
    """The block of some lines of a page behind the line `before`, without what surrounds its code; none where it is blank."""
    filled = [at for at, line in enumerate(contents) if line.strip()]
    if not filled or any(not raw.endswith(line) for raw, line in zip(raws, contents, strict=True)):
        return
    start, stop = filled[0], filled[-1] + 1
    raws, contents = raws[start:stop], contents[start:stop]
    common = min((re.match(r"[ \t]*", line)[0] for line in contents if line.strip()), key=len)  # type: ignore[index]
    lines = [line.removeprefix(common) if line.strip() else "" for line in contents]
    is_session = lines[0].startswith(">>>")
    if is_session:
        lines = [_PROMPT.sub("", line, count=1) if _PROMPT.match(line) else "" for line in lines]
    prefixes = tuple(raw[: len(raw) - len(line)] if line else "" for raw, line in zip(raws, lines, strict=True))
    first = before + start + 1
    yield _Block(first, first + len(lines) - 1, prefixes, tuple(lines), is_session)


def _restored(block: _Block, page: Sequence[str], edited: Sequence[str]) -> Iterator[str]:
    """The lines of a block in the page, edited: those that are the same as they were, new ones behind what stands before
    the others."""
    prefix = next((prefix for prefix, line in zip(block.prefixes, block.lines, strict=True) if line), "")
    plain = [line.rstrip("\r\n") for line in edited]
    for tag, start, stop, new_start, new_stop in difflib.SequenceMatcher(
        None, block.lines, plain, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            yield from page[start:stop]
        else:
            for line, ended in zip(plain[new_start:new_stop], edited[new_start:new_stop], strict=True):
                yield (prefix + line if line else prefix.rstrip()) + _line_end(ended)
