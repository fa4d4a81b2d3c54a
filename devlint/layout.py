"""How the lines of a fix are laid out: none gets longer than its project lets lines be.

A line that would is broken as formatters break it (`breaking.py`). Where that leads nowhere (comments, texts over several
lines) there is no layout, and the fix is left to the reader. Lines that are aligned to a bracket go with it.
"""

from __future__ import annotations

import io
import itertools
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from devlint.breaking import (
    CLOSING,
    OPENING,
    Style,
    TooLongError,
    as_line,
    cuts_of,
    lines_of,
    start_of_value,
    tokens_by_row,
)
from devlint.findings import Edit, Fix, Span
from devlint.habits import hugs
from devlint.regexes import regex
from devlint.source.widths import NARROWEST
from devlint.textmap import TextMap, minimal_edit

_OPENED_BY = ("(", "[", "{", "")
_PRAGMA = regex(r"[ \t]{1,8}# ?(?:type:|noqa|nosec|pylint:|pyright:|pragma:)[^#]{0,80}$")
_COMMENT = regex(r"[ \t]{1,8}#[^'\"#]*$")
_VALUE_IN_BRACKETS = regex(r"^(?:.*[^=!<>]=|[ \t]*return) \([ \t]*\r?$")


def laid_out(text: TextMap, edits: Sequence[Edit], width: int, step: str, form: str = "") -> tuple[Edit, ...]:
    """The edits, with the lines broken that they make longer than `width`; raises TooLongError.

    A line of the text that is longer already may stay as long. `step` is what the text is indented by, `form` how yapf
    breaks it ("aligned", "hanging"), where that is used.
    """
    settled: list[Edit] = []
    for span, group, old, new in _changes(text, edits):
        if not _too_long(old, new, width):
            settled += group
            continue
        whole = None if form else _without_own_brackets(text, span, new)
        if whole is not None:
            span, old, new = whole[0], text.slice(whole[0]), whole[1]
        start, end, code = minimal_edit(
            old, _broken(text, old, new, span, Style(width, step, text.newline, hugs(text.text) or bool(form), form))
        )
        base = text.offset(span.line, span.column)
        settled.append(Edit(Span(*text.position(base + start), *text.position(base + end)), code))
    return tuple(settled)


def aligned(fix: Fix, text: TextMap) -> Fix:
    """A fix that moves the lines along which are aligned to a bracket that it moves."""
    moved = [edit for _, group, _, _ in _changes(text, fix.edits) for edit in _moved_along(text, group)]
    taken = {line for edit in fix.edits for line in range(edit.span.line + 1, edit.span.end_line + 1)}
    if not moved or any(edit.span.line in taken for edit in moved):
        return fix
    return replace(fix, edits=tuple(sorted((*fix.edits, *moved))))


def _moved_along(text: TextMap, group: Sequence[Edit]) -> Iterator[Edit]:
    """The edits that move the lines below those of a group, as far as its last line opens brackets that they are aligned to."""
    first, last = group[0].span.line, max(edit.span.end_line for edit in group)
    if last == len(text.starts) or _depth_by_eye(text.line(last)) <= 0:
        return
    try:
        opened, stop = _left_open(text.text, last)
    except TooLongError:
        return
    shifts = {}
    for column in opened:
        before = [e for e in group if (e.span.end_line, e.span.end_column) <= (last, column + 1)]
        new = _applied(text, before, Span(first, 1, last, column + 1))
        shifts[column + 1] = len(new) - (new.rfind("\n") + 1) - column
    shift = 0
    for number in range(last + 1, stop + 1):
        line = text.line(number)
        indent = len(line) - len(line.lstrip())
        if indent in shifts:
            shift = shifts[indent]
        elif indent < min(shifts, default=0):
            shift = 0
        if shift and line.strip():
            gone = max(-shift, 0)
            yield Edit(Span(number, 1, number, 1 + gone), " " * max(shift, 0))


def _depth_by_eye(line: str) -> int:
    """How many more brackets a line opens than it closes, as far as its characters tell."""
    return sum(line.count(sign) for sign in OPENING) - sum(line.count(sign) for sign in CLOSING)


def _left_open(text: str, row: int) -> tuple[list[int], int]:
    """Where the brackets stand that a line opens before something, and doesn't close; and the line where the last of them closes.

    Raises TooLongError where there are texts over several lines between them.
    """
    opened: list[tuple[int, int]] = []
    here: list[int] = []
    code = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.start[0] == row and token.type not in (tokenize.COMMENT, tokenize.NL):
                code = token.line[: token.end[1]]
            elif token.start[0] > row and not here:
                here = [column for line, column in opened if line == row and column + 1 < len(code)]
                if not here:
                    return [], row
            if token.start[0] < token.end[0] and token.end[0] > row:
                raise TooLongError
            if token.type == tokenize.OP and token.string in OPENING:
                opened.append(token.start)
            elif token.type == tokenize.OP and token.string in CLOSING and opened:
                line, column = opened.pop()
                if here and (line, column) == (row, here[0]):
                    return here, token.start[0]
    except (tokenize.TokenError, SyntaxError):
        raise TooLongError from None
    return [], row


def kept_within(
    fix: Fix, text: TextMap, width: Callable[[], int], step: str, form: Callable[[], str] = str
) -> Fix | None:
    """A fix whose lines are no longer than its project lets lines be; None where they can't be broken so.

    `width` tells that length, `form` how yapf breaks lines; they are asked for where a line gets longer than everybody's may be.
    """
    if not gets_too_long(text, fix.edits, width):
        return fix
    try:
        return replace(fix, edits=laid_out(text, fix.edits, width(), step, form()))
    except TooLongError:
        return None


def is_broken_aside(text: TextMap, fix: Fix, laid_out: Fix) -> bool:
    """Whether a line is broken at brackets that hold nothing of what a fix changes: nobody would do that by hand."""
    for (span, group, _, plain), (_, _, _, broken) in zip(
        _changes(text, fix.edits), _changes(text, laid_out.edits), strict=False
    ):
        if plain == broken:
            continue
        at = next((i for i, (a, b) in enumerate(zip(plain, broken, strict=False)) if a != b), len(plain))
        end = len(plain) - len(text.slice(Span(*_end_of(group), span.end_line, span.end_column)))
        return at > end and broken[at : at + 1].isspace() and not _CALLED.fullmatch(plain[end:at])
    return False


def is_put_in_brackets(text: TextMap, laid_out: Fix) -> bool:
    """Whether a fix puts a value in brackets of its own to break it: `x = (`, as formatters do, and people rarely."""
    return any(
        any(map(_VALUE_IN_BRACKETS.match, new.splitlines()[:1]))
        and not any(map(_VALUE_IN_BRACKETS.match, old.splitlines()[:1]))
        for _, _, old, new in _changes(text, laid_out.edits)
    )


# What is left of a name, up to the bracket of its call.
_CALLED = regex(r"[\w.]*[(\[{]")


def _end_of(edits: Sequence[Edit]) -> tuple[int, int]:
    last = max(edits, key=lambda edit: (edit.span.end_line, edit.span.end_column))
    return last.span.end_line, last.span.end_column


def gets_too_long(text: TextMap, edits: Sequence[Edit], width: Callable[[], int]) -> bool:
    """Whether edits make a line longer than `width`, and than what it takes the place of."""
    changed = [(old, new) for _, _, old, new in _changes(text, edits)]
    return any(_too_long(old, new, NARROWEST) for old, new in changed) and any(
        _too_long(old, new, width()) for old, new in changed
    )


def longest_before(text: TextMap, edits: Sequence[Edit]) -> int:
    """How long the longest line is that edits change."""
    return max((_length(line) for _, _, old, _ in _changes(text, edits) for line in old.splitlines()), default=0)


def was_long_before(text: TextMap, edits: Sequence[Edit]) -> bool:
    """Whether each line that edits make longer than anybody's lines may be was that before, and is hardly longer now."""
    changed = [(old, new) for _, _, old, new in _changes(text, edits) if _too_long(old, new, NARROWEST)]
    return bool(changed) and all(
        _NOBODYS < longest <= max(map(_length, new.splitlines())) <= longest + _HARDLY
        for longest, new in ((max(map(_length, old.splitlines())), new) for old, new in changed)
    )


# No formatter and no style guide lets lines be so long.
_NOBODYS = 120
# So many more columns show in no editor.
_HARDLY = 8


def _changes(text: TextMap, edits: Sequence[Edit]) -> Iterator[tuple[Span, list[Edit], str, str]]:
    """The lines that edits change: where they are, the edits there, what stands there and what they make of it."""
    for lines, group in _by_lines(sorted(edits)):
        span = Span(lines.start, 1, lines.stop - 1, len(text.line(lines.stop - 1)) + 1)
        yield span, group, text.slice(span), _applied(text, group, span)


def _by_lines(edits: Sequence[Edit]) -> Iterator[tuple[range, list[Edit]]]:
    """The edits that share lines, with those lines."""
    group: list[Edit] = []
    for edit in edits:
        if group and edit.span.line > group[-1].span.end_line:
            yield range(group[0].span.line, group[-1].span.end_line + 1), group
            group = []
        group.append(edit)
    if group:
        yield range(group[0].span.line, group[-1].span.end_line + 1), group


def _applied(text: TextMap, edits: Sequence[Edit], span: Span) -> str:
    """What edits make of the lines that they stand on."""
    base = text.offset(span.line, span.column)
    new = text.slice(span)
    for edit in reversed(edits):
        start = text.offset(edit.span.line, edit.span.column) - base
        end = text.offset(edit.span.end_line, edit.span.end_column) - base
        new = new[:start] + edit.text + new[end:]
    return new


def _without_own_brackets(text: TextMap, span: Span, new: str) -> tuple[Span, str] | None:
    """The statement `x = (`, a line, `)` as one line, where what stands there gets too long and no operator wants brackets.

    Formatters drop such brackets before they break the value at its own.
    """
    above = text.line(span.line - 1) if span.line > 1 else ""
    below = text.line(span.end_line + 1) if span.end_line < len(text.starts) else ""
    if span.line != span.end_line or not _VALUE_IN_BRACKETS.search(above) or below.strip() != ")":
        return None
    whole = f"{above.rstrip()[:-1]}{new.strip()}"
    line = as_line(whole, tokens_by_row(whole).get(1, ([], False))[0])
    if cuts_of(line, start_of_value(line)):
        return None
    return Span(span.line - 1, 1, span.end_line + 1, len(below) + 1), whole


def _too_long(old: str, new: str, width: int) -> list[int]:
    """The lines of `new`, from 0, that are longer than `width`, and than each of the lines that they take the place of."""
    lines = old.splitlines() or [""]
    allowed = max(width, *map(_length, lines))
    if len(new.splitlines()) < len(lines):
        # Somebody broke that, and it would be longer again than what was broken.
        allowed = max(NARROWEST, min(allowed, _joined_length(lines) - 1))
    return [number for number, line in enumerate(new.splitlines()) if _length(line) > allowed]


def _joined_length(lines: Sequence[str]) -> int:
    """How long the code of lines would be on one."""
    code = [_COMMENT.sub("", line).rstrip() for line in lines]
    return len(code[0]) + sum(len(c.strip()) + (b[-1:] not in _OPENED_BY) for b, c in itertools.pairwise(code))


def _length(line: str) -> int:
    """How long a line is, without what it says to tools at its end, which formatters let stand there."""
    return len(_PRAGMA.sub("", line))


def _broken(text: TextMap, old: str, new: str, span: Span, style: Style) -> str:
    """The new text of some lines, with those broken that are too long; raises TooLongError."""
    start, end = text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)
    whole = text.text[:start] + new + text.text[end:]
    rows = tokens_by_row(whole)
    lines = new.splitlines(keepends=True)
    for number in _too_long(old, new, style.width):
        tokens, is_inner = rows.get(span.line + number, ([], False))
        line = lines[number]
        bare = line.rstrip("\r\n")
        code, comment = _without_comment(bare, tokens)
        parts = as_line(code, tokens[: len(tokens) - bool(comment)])
        # What is too long for its comment, or for what it takes the place of, is broken all the same.
        narrow = replace(style, width=min(style.width, len(parts) - 1))
        lines[number] = text.newline.join(lines_of(parts, narrow, is_inner)) + comment + line[len(bare) :]
    return "".join(lines)


def _without_comment(line: str, tokens: Sequence[tokenize.TokenInfo]) -> tuple[str, str]:
    """A line without the comment at its end, and that with the blanks before it."""
    if len(tokens) < 2 or tokens[-1].type != tokenize.COMMENT:
        return line, ""
    code = line[: tokens[-1].start[1]].rstrip()
    return code, line[len(code) :]
