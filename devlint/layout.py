"""How the lines of a fix are laid out: none gets longer than its project lets lines be.

A line that would is broken as black and ruff break it. At its last bracket: what is between the brackets goes on a line
of its own, or, where that is too long as well, each part of it does. Or, where operators hold it together, before those,
in brackets. Where that leads nowhere (comments, texts over several lines) there is no layout, and the fix is left to the
reader. Lines that are aligned to a bracket go with it.
"""

from __future__ import annotations

import io
import itertools
import keyword
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from devlint.findings import Edit, Fix, Span
from devlint.records import record
from devlint.regexes import regex
from devlint.source.widths import NARROWEST
from devlint.textmap import TextMap, minimal_edit

_OPENING, _CLOSING = "([{", ")]}"
_OPENED_BY = ("(", "[", "{", "")
_CLOSERS = frozenset(_CLOSING)
_COMPARING = frozenset({"==", "!=", "<=", ">=", "<", ">"})
_COMMA = frozenset({","})
# Operators by how they bind, those first that bind least.
_KINDS = (
    _COMMA,
    frozenset({"if", "else"}),
    frozenset({"or", "and"}),
    _COMPARING | {"in", "is", "not"},
    frozenset({"|"}),
    frozenset({"^"}),
    frozenset({"&"}),
    frozenset({"<<", ">>"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "//", "%", "@"}),
)
_ALONE = regex(r"^[ \t]*[)\]}]+[,:]?[ \t]*\r?$", re.MULTILINE)
_SINGLE = regex(r"(?<![\"'])'[^\"'\\\n]{1,100}'(?!')")
_DOUBLE = regex(r"(?<![\"'])\"[^\"'\\\n]{1,100}\"(?!\")")
# What a comment quotes, a license say, shows nobody's style.
_WHOLE_COMMENT = regex(r"^[ \t]*#[^\n]*", re.MULTILINE)
# So many texts, and so many to one, show which quotes somebody uses; where there is one kind alone, that does.
_FEWEST_QUOTED, _MORE_OFTEN = 3, 4
_PRAGMA = regex(r"[ \t]{1,8}# ?(?:type:|noqa|nosec|pylint:|pyright:|pragma:)[^#]{0,80}$")
_COMMENT = regex(r"[ \t]{1,8}#[^'\"#]*$")
_VALUE_IN_BRACKETS = regex(r"^(?:.*[^=!<>]=|[ \t]*return) \([ \t]*\r?$")
_OPENED = regex(r"[(\[{][ \t]*\r?$", re.MULTILINE)


class TooLongError(Exception):
    """A line that gets too long and can't be broken."""


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
            old, _broken(text, old, new, span, _Style(width, step, text.newline, _hugs(text.text) or bool(form), form))
        )
        base = text.offset(span.line, span.column)
        settled.append(Edit(Span(*text.position(base + start), *text.position(base + end)), code))
    return tuple(settled)


def in_quotes_of(text: str, code: str, near: Sequence[str] = ()) -> str:
    """New code, its texts in the quotes of the first of the lines `near` that have one kind alone, else of a text; what is there stays."""
    if '"' not in code or "'" in code:
        return code
    text, near = _WHOLE_COMMENT.sub("", text), [_WHOLE_COMMENT.sub("", lines) for lines in near]
    counts = [(len(_SINGLE.findall(lines)), len(_DOUBLE.findall(lines))) for lines in near]
    singles, doubles = next(((s, d) for s, d in counts if bool(s) != bool(d)), (0, 0))
    by_line = bool(counts) and bool(counts[0][0]) != bool(counts[0][1])
    if not singles and not doubles:
        singles, doubles = len(_SINGLE.findall(text)), len(_DOUBLE.findall(text))
        if doubles and singles < _FEWEST_QUOTED:
            return code
    if not singles or singles < _MORE_OFTEN * doubles:
        return code
    said = near[0] if by_line else text
    return _DOUBLE.sub(lambda found: found[0] if found[0] in said else f"'{found[0][1:-1]}'", code)


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
    return sum(line.count(sign) for sign in _OPENING) - sum(line.count(sign) for sign in _CLOSING)


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
            if token.type == tokenize.OP and token.string in _OPENING:
                opened.append(token.start)
            elif token.type == tokenize.OP and token.string in _CLOSING and opened:
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
    line = _parts(whole, _tokens_by_row(whole).get(1, ([], False))[0])
    if _cuts(line, _start_of_value(line)):
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


def habit_of(text: str) -> str:
    """How a text breaks its lines: "aligned" where the lines of a text that go on in brackets mostly begin below what follows the bracket; "" else."""
    lines = text.splitlines()
    pairs = [(above, below) for above, below in itertools.pairwise(lines) if above.endswith((",", "(", "["))]
    is_below = [_innermost_open(above) == len(below) - len(below.lstrip()) for above, below in pairs]
    hanging = sum(above.endswith(("(", "[")) for above, _ in pairs)
    return "aligned" if sum(is_below) > max(1, 2 * hanging) else ""


def _innermost_open(line: str) -> int:
    """Where what follows the last open bracket of a line begins, going by brackets alone; -1 where none is open."""
    opened: list[int] = []
    for column, character in enumerate(line):
        if character in "([{":
            opened.append(column + 1)
        elif character in ")]}" and opened:
            opened.pop()
    return opened[-1] if opened else -1


def _hugs(text: str) -> bool:
    """Whether the brackets of a text close behind what they hold."""
    return _OPENED.search(text) is not None and _ALONE.search(text) is None


def _broken(text: TextMap, old: str, new: str, span: Span, style: _Style) -> str:
    """The new text of some lines, with those broken that are too long; raises TooLongError."""
    start, end = text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)
    whole = text.text[:start] + new + text.text[end:]
    rows = _tokens_by_row(whole)
    lines = new.splitlines(keepends=True)
    for number in _too_long(old, new, style.width):
        tokens, is_inner = rows.get(span.line + number, ([], False))
        line = lines[number]
        bare = line.rstrip("\r\n")
        code, comment = _without_comment(bare, tokens)
        parts = _parts(code, tokens[: len(tokens) - bool(comment)])
        # What is too long for its comment, or for what it takes the place of, is broken all the same.
        narrow = replace(style, width=min(style.width, len(parts) - 1))
        lines[number] = text.newline.join(_lines_of(parts, narrow, is_inner)) + comment + line[len(bare) :]
    return "".join(lines)


def _without_comment(line: str, tokens: Sequence[tokenize.TokenInfo]) -> tuple[str, str]:
    """A line without the comment at its end, and that with the blanks before it."""
    if len(tokens) < 2 or tokens[-1].type != tokenize.COMMENT:
        return line, ""
    code = line[: tokens[-1].start[1]].rstrip()
    return code, line[len(code) :]


def _lines_of(line: _Line, style: _Style, is_inner: bool) -> list[str]:
    """The lines that one of a text is broken into; raises TooLongError."""
    balance = sum((t.text in _OPENING) - (t.text in _CLOSING) for t in line.tokens if t.type == tokenize.OP)
    if balance > 0:
        return _behind_comma(line, style)
    if not is_inner:
        return _split(line, style, is_inner=False)
    if style.form:
        # yapf weighs the whole statement.
        raise TooLongError
    return _filled(line, style) if _closes_more(line) else _split(line, style, is_inner=True)


def _behind_comma(line: _Line, style: _Style) -> list[str]:
    """A line whose brackets go on, broken in the last call that closes on it, which is given two arguments.

    The second goes below the first, as other lines do that are aligned to a bracket.
    """
    opened: list[tuple[int, list[int]]] = []
    found = None
    for number, token in enumerate(line.tokens):
        if token.type == tokenize.OP and token.text in _OPENING:
            opened.append((number, []))
        elif token.type == tokenize.OP and token.text in _CLOSING and opened:
            start, commas = opened.pop()
            if token.text == ")" and len(commas) == 1 and start and _is_operand(line.tokens[start - 1]):
                found = start, commas[0]
        elif token.text == "," and opened:
            opened[-1][1].append(number)
    if (style.hugs and style.form != "aligned") or found is None or not opened or opened[0][0] + 1 == len(line.tokens):
        raise TooLongError
    start, comma = found
    first = line.part(0, comma + 1, line.indent)
    below = " " * (len(line.indent) + line.tokens[start].end)
    second = line.part(comma + 1, len(line.tokens), below)
    if max(len(first), len(second)) > style.width or "\t" in line.indent:
        raise TooLongError
    return [first.indent + first.code, second.indent + second.code]


@record(frozen=True)
class _Style:
    """How a file is laid out."""

    width: int
    step: str
    newline: str
    # Whether its brackets close behind what they hold, rather than on lines of their own.
    hugs: bool
    # How yapf breaks its lines, where that is used: "aligned" to a bracket, or "hanging" behind it.
    form: str = ""


@record(frozen=True)
class _Token:
    type: int
    text: str
    start: int
    end: int


@record(frozen=True)
class _Line:
    """A line of code whose brackets all close on it: its indentation, the rest, and the tokens of that."""

    indent: str
    code: str
    tokens: tuple[_Token, ...]

    def part(self, start: int, stop: int, indent: str, behind: str = "") -> _Line:
        """Some of its tokens as a line of their own, with a text behind them."""
        tokens = self.tokens[start:stop]
        base = tokens[0].start
        code = self.code[base : tokens[-1].end]
        moved = [_Token(t.type, t.text, t.start - base, t.end - base) for t in tokens]
        if behind:
            moved.append(_Token(tokenize.OP, behind, len(code), len(code) + len(behind)))
        return _Line(indent, code + behind, tuple(moved))

    def __len__(self) -> int:
        return len(self.indent) + len(self.code)


def _tokens_by_row(text: str) -> dict[int, tuple[list[tokenize.TokenInfo], bool]]:
    """The tokens that begin or end on each line, and whether that begins within a bracket; raises TooLongError."""
    rows: dict[int, tuple[list[tokenize.TokenInfo], bool]] = {}
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
                continue
            for row in {token.start[0], token.end[0]}:
                rows.setdefault(row, ([], depth > 0))[0].append(token)
            if token.type == tokenize.OP:
                depth += (token.string in _OPENING) - (token.string in _CLOSING)
    except (tokenize.TokenError, SyntaxError):
        raise TooLongError from None
    return rows


def _parts(line: str, tokens: Sequence[tokenize.TokenInfo]) -> _Line:
    """A line as its tokens; raises TooLongError where it can't be broken by them alone."""
    indent = line[: len(line) - len(line.lstrip())]
    if not tokens or line.endswith("\\"):
        raise TooLongError
    found = []
    for token in tokens:
        is_whole = token.start[0] == token.end[0]
        if not is_whole or token.type == tokenize.COMMENT or token.string == ";":
            raise TooLongError
        found.append(_Token(token.type, token.string, token.start[1] - len(indent), token.end[1] - len(indent)))
    return _Line(indent, line.strip(), tuple(found))


def _split(line: _Line, style: _Style, *, is_inner: bool) -> list[str]:
    """The lines that a line is broken into; `is_inner` says that it is a part of what stands between brackets."""
    if len(line) <= style.width:
        return [line.indent + line.code]
    start = 0 if is_inner else _start_of_value(line)
    cuts = _cuts(line, start)
    is_tuple = bool(cuts) and line.tokens[cuts[0]].text == ","
    if len(cuts) == 1 and line.tokens[start].text in _OPENING and not is_tuple:
        # Formatters have more to weigh there.
        raise TooLongError
    if is_inner and cuts:
        return _listed(line, _outer(line, ","), style) if is_tuple else _cut(line, cuts, style)
    if len(cuts) > 1 or is_tuple or (cuts and line.tokens[-1].text not in _CLOSERS):
        return _in_brackets(line, start, style)
    pair = next(
        (pair for pair in _pairs(line, start) if len(line.part(0, pair[0] + 1, line.indent)) <= style.width), None
    )
    if pair is None:
        raise TooLongError
    if style.form:
        return _by_yapf(line, pair, style, may_align=not cuts)
    body = line.part(pair[0] + 1, pair[1], line.indent + style.step)
    head, tail = line.code[: line.tokens[pair[0]].end], line.code[line.tokens[pair[1]].start :]
    return _around(line.indent + head, _body(line, pair, body, style), line.indent, tail, style)


def _by_yapf(line: _Line, pair: tuple[int, int], style: _Style, *, may_align: bool) -> list[str]:
    """A line that ends with a call, as yapf breaks it in the plainest of cases; raises TooLongError."""
    start = _start_of_value(line)
    if len(list(_pairs(line, start))) > 1 or line.code[line.tokens[pair[1]].start :] not in (")", "),"):
        raise TooLongError
    head, tail = line.code[: line.tokens[pair[0]].end], line.code[line.tokens[pair[1]].start :]
    body = line.part(pair[0] + 1, pair[1], line.indent + style.step)
    commas = _outer(body, ",")
    is_first_open = body.tokens[0].text in _OPENING
    if may_align and commas and commas[-1] < len(body.tokens) - 1 and (style.form == "aligned" or is_first_open):
        below = line.part(pair[0] + 1, pair[1], " " * (len(line.indent) + len(head)))
        listed = [part.removesuffix(",") if last else part for part, last in _marked(_listed(below, commas, style))]
        if all(len(part) <= style.width for part in listed) and len(listed[-1] + tail) <= style.width:
            return [line.indent + head + listed[0].lstrip(), *listed[1:-1], listed[-1] + tail]
    return _around(line.indent + head, _body(line, pair, body, style), line.indent, tail, style)


def _marked(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Lines, each with whether it is the last one."""
    yield from ((line, number == len(lines) - 1) for number, line in enumerate(lines))


def _closes_more(line: _Line) -> bool:
    """Whether brackets close on a line that others opened, behind something: black leaves no line so."""
    signs = [t.text for t in line.tokens if t.type == tokenize.OP]
    return line.tokens[0].text not in _CLOSERS and sum(map(_OPENING.count, signs)) < sum(map(_CLOSING.count, signs))


def _filled(line: _Line, style: _Style) -> list[str]:
    """A line of arguments, on as few lines as will do; raises TooLongError."""
    lines = []
    while len(line) > style.width:
        depth, cut = 0, 0
        for number, token in enumerate(line.tokens):
            if token.type == tokenize.OP:
                depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if depth < 0 or len(line.indent) + token.end > style.width:
                break
            if depth == 0 and token.text == "," and number < len(line.tokens) - 1:
                cut = number + 1
        if not cut:
            raise TooLongError
        first = line.part(0, cut, line.indent)
        lines.append(first.indent + first.code)
        line = line.part(cut, len(line.tokens), line.indent)
    return [*lines, line.indent + line.code]


def _around(head: str, lines: list[str], indent: str, tail: str, style: _Style) -> list[str]:
    """Lines between brackets, which close as those of the file do; raises TooLongError."""
    if style.hugs:
        lines, last = lines[:-1], lines[-1].removesuffix(",") + tail
    else:
        last = indent + tail
    if len(last) > style.width:
        raise TooLongError
    return [head, *lines, last]


def _in_brackets(line: _Line, start: int, style: _Style) -> list[str]:
    """A value that is too long for a line, in brackets of its own; raises TooLongError."""
    if start == 0 or style.form:
        # yapf adds no brackets.
        raise TooLongError
    body = line.part(start, len(line.tokens), line.indent + style.step)
    head = f"{line.indent}{line.code[: line.tokens[start - 1].end]} ("
    commas = _outer(body, ",")
    return _around(
        head, _listed(body, commas, style) if commas else _split(body, style, is_inner=True), line.indent, ")", style
    )


def _cut(line: _Line, cuts: Sequence[int], style: _Style) -> list[str]:
    """A line broken before each of some tokens."""
    ends = [*cuts, len(line.tokens)]
    return [
        part
        for begin, end in zip([0, *cuts], ends, strict=True)
        for part in _split(line.part(begin, end, line.indent), style, is_inner=True)
    ]


def _body(line: _Line, pair: tuple[int, int], body: _Line, style: _Style) -> list[str]:
    """What is between brackets: on one line where a call's arguments fit there, else each part on its own."""
    commas = _outer(body, ",")
    # Or an index.
    is_call = pair[0] > 0 and _is_operand(line.tokens[pair[0] - 1])
    if _outer(body, "for", "lambda"):
        # They have commas of their own.
        if len(body) > style.width:
            raise TooLongError
        return [body.indent + body.code]
    # A comma behind the last part says that each wants its line.
    if not commas or (is_call and commas[-1] != len(body.tokens) - 1 and len(body) <= style.width):
        return _split(body, style, is_inner=True)
    return _listed(body, commas, style)


def _listed(body: _Line, commas: Sequence[int], style: _Style) -> list[str]:
    """Parts with commas between, each on a line of its own."""
    inner = [comma for comma in commas if comma < len(body.tokens) - 1]
    ends = [*inner, len(body.tokens) - (len(inner) < len(commas))]
    starts = [0, *(comma + 1 for comma in inner)]
    return [
        part
        for begin, end in zip(starts, ends, strict=True)
        for part in _split(body.part(begin, end, body.indent, ","), style, is_inner=True)
    ]


def _start_of_value(line: _Line) -> int:
    """Where the value begins that a statement assigns or gives back; 0 where it does neither."""
    signs = [n for n, depth in enumerate(_depths(line)) if depth == 0 and line.tokens[n].text.endswith("=")]
    assigning = [n for n in signs if line.tokens[n].text not in _COMPARING and line.tokens[n].type == tokenize.OP]
    if assigning:
        return assigning[-1] + 1
    return int(line.tokens[0].text == "return")


def _pairs(line: _Line, start: int) -> Iterator[tuple[int, int]]:
    """The pairs of brackets at which a value may be broken, the last one first."""
    opened: list[int] = []
    found = []
    for number, (token, depth) in enumerate(zip(line.tokens, _depths(line), strict=True)):
        if depth == 0 and token.type == tokenize.OP and token.text in _OPENING:
            opened.append(number)
        elif depth == 0 and token.type == tokenize.OP and token.text in _CLOSING:
            found.append((opened.pop(), number))
    yield from (pair for pair in reversed(found) if pair[0] >= start and pair[1] > pair[0] + 1)


def _cuts(line: _Line, start: int) -> list[int]:
    """Where a value is broken that no bracket holds together: before the operators that bind least, or a chain's calls."""
    if _outer(line, "lambda"):
        # What is behind it is all its own.
        raise TooLongError
    depths, tokens = _depths(line), line.tokens
    outer = [n for n in range(start, len(tokens)) if depths[n] == 0]
    by_kind = {
        kind: [n for n in outer if n > start and tokens[n].text in kind and _is_operand(tokens[n - 1])]
        for kind in _KINDS
    }
    for kind, found in by_kind.items():
        if kind == _COMMA:
            found = [n for n in found if n < len(tokens) - 1]
        if found:
            return found
    if _outer(line, "for", "await", "yield", "not"):
        raise TooLongError
    calls = [n for n in outer if n > start and tokens[n].text == "." and tokens[n - 1].text in _CLOSERS]
    return calls if len(calls) > 1 else []


def _outer(line: _Line, *texts: str) -> list[int]:
    """The tokens of those texts that stand in no bracket of the line."""
    return [n for n, depth in enumerate(_depths(line)) if depth == 0 and line.tokens[n].text in texts]


def _depths(line: _Line) -> list[int]:
    """How deep in brackets of the line each token stands, brackets as deep as what is around them; raises TooLongError."""
    depth, found = 0, []
    for token in line.tokens:
        closes = token.type == tokenize.OP and token.text in _CLOSING
        depth -= closes
        found.append(depth)
        if depth < 0:
            raise TooLongError
        depth += token.type == tokenize.OP and token.text in _OPENING
    if depth:
        raise TooLongError
    return found


def _is_operand(token: _Token) -> bool:
    """Whether a value ends with a token."""
    if token.type == tokenize.NAME:
        return not keyword.iskeyword(token.text) or token.text in ("None", "True", "False")
    return token.text in _CLOSERS or token.type in (tokenize.NUMBER, tokenize.STRING)
