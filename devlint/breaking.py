"""How one line of code is broken into several, as black, ruff and yapf break it.

At its last bracket: what is between the brackets goes on a line of its own, or, where that is too long as well, each part
of it does. Or, where operators hold it together, before those, in brackets.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Iterator, Sequence

from devlint.records import record

OPENING, CLOSING = "([{", ")]}"
_CLOSERS = frozenset(CLOSING)
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


class TooLongError(Exception):
    """A line that gets too long and can't be broken."""


def lines_of(line: Line, style: Style, is_inner: bool) -> list[str]:
    """The lines that one of a text is broken into; raises TooLongError."""
    balance = sum((t.text in OPENING) - (t.text in CLOSING) for t in line.tokens if t.type == tokenize.OP)
    if balance > 0:
        return _behind_comma(line, style)
    if not is_inner:
        return _split(line, style, is_inner=False)
    if style.form:
        # yapf weighs the whole statement.
        raise TooLongError
    return _filled(line, style) if _closes_more(line) else _split(line, style, is_inner=True)


def _behind_comma(line: Line, style: Style) -> list[str]:
    """A line whose brackets go on, broken in the last call that closes on it, which is given two arguments.

    The second goes below the first, as other lines do that are aligned to a bracket.
    """
    opened: list[tuple[int, list[int]]] = []
    found = None
    for number, token in enumerate(line.tokens):
        if token.type == tokenize.OP and token.text in OPENING:
            opened.append((number, []))
        elif token.type == tokenize.OP and token.text in CLOSING and opened:
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
class Style:
    """How a file is laid out."""

    width: int
    step: str
    newline: str
    # Whether its brackets close behind what they hold, rather than on lines of their own.
    hugs: bool
    # How yapf breaks its lines, where that is used: "aligned" to a bracket, or "hanging" behind it.
    form: str = ""


@record(frozen=True)
class Token:
    type: int
    text: str
    start: int
    end: int


@record(frozen=True)
class Line:
    """A line of code whose brackets all close on it: its indentation, the rest, and the tokens of that."""

    indent: str
    code: str
    tokens: tuple[Token, ...]

    def part(self, start: int, stop: int, indent: str, behind: str = "") -> Line:
        """Some of its tokens as a line of their own, with a text behind them."""
        tokens = self.tokens[start:stop]
        base = tokens[0].start
        code = self.code[base : tokens[-1].end]
        moved = [Token(t.type, t.text, t.start - base, t.end - base) for t in tokens]
        if behind:
            moved.append(Token(tokenize.OP, behind, len(code), len(code) + len(behind)))
        return Line(indent, code + behind, tuple(moved))

    def __len__(self) -> int:
        return len(self.indent) + len(self.code)


def tokens_by_row(text: str) -> dict[int, tuple[list[tokenize.TokenInfo], bool]]:
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
                depth += (token.string in OPENING) - (token.string in CLOSING)
    except (tokenize.TokenError, SyntaxError):
        raise TooLongError from None
    return rows


def as_line(line: str, tokens: Sequence[tokenize.TokenInfo]) -> Line:
    """A line as its tokens; raises TooLongError where it can't be broken by them alone."""
    indent = line[: len(line) - len(line.lstrip())]
    if not tokens or line.endswith("\\"):
        raise TooLongError
    found = []
    for token in tokens:
        is_whole = token.start[0] == token.end[0]
        if not is_whole or token.type == tokenize.COMMENT or token.string == ";":
            raise TooLongError
        found.append(Token(token.type, token.string, token.start[1] - len(indent), token.end[1] - len(indent)))
    return Line(indent, line.strip(), tuple(found))


def _split(line: Line, style: Style, *, is_inner: bool) -> list[str]:
    """The lines that a line is broken into; `is_inner` says that it is a part of what stands between brackets."""
    if len(line) <= style.width:
        return [line.indent + line.code]
    start = 0 if is_inner else start_of_value(line)
    cuts = cuts_of(line, start)
    is_tuple = bool(cuts) and line.tokens[cuts[0]].text == ","
    if len(cuts) == 1 and line.tokens[start].text in OPENING and not is_tuple:
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


def _by_yapf(line: Line, pair: tuple[int, int], style: Style, *, may_align: bool) -> list[str]:
    """A line that ends with a call, as yapf breaks it in the plainest of cases; raises TooLongError."""
    start = start_of_value(line)
    if len(list(_pairs(line, start))) > 1 or line.code[line.tokens[pair[1]].start :] not in (")", "),"):
        raise TooLongError
    head, tail = line.code[: line.tokens[pair[0]].end], line.code[line.tokens[pair[1]].start :]
    body = line.part(pair[0] + 1, pair[1], line.indent + style.step)
    commas = _outer(body, ",")
    is_first_open = body.tokens[0].text in OPENING
    if may_align and commas and commas[-1] < len(body.tokens) - 1 and (style.form == "aligned" or is_first_open):
        below = line.part(pair[0] + 1, pair[1], " " * (len(line.indent) + len(head)))
        listed = [part.removesuffix(",") if last else part for part, last in _marked(_listed(below, commas, style))]
        if all(len(part) <= style.width for part in listed) and len(listed[-1] + tail) <= style.width:
            return [line.indent + head + listed[0].lstrip(), *listed[1:-1], listed[-1] + tail]
    return _around(line.indent + head, _body(line, pair, body, style), line.indent, tail, style)


def _marked(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Lines, each with whether it is the last one."""
    yield from ((line, number == len(lines) - 1) for number, line in enumerate(lines))


def _closes_more(line: Line) -> bool:
    """Whether brackets close on a line that others opened, behind something: black leaves no line so."""
    signs = [t.text for t in line.tokens if t.type == tokenize.OP]
    return line.tokens[0].text not in _CLOSERS and sum(map(OPENING.count, signs)) < sum(map(CLOSING.count, signs))


def _filled(line: Line, style: Style) -> list[str]:
    """A line of arguments, on as few lines as will do; raises TooLongError."""
    lines = []
    while len(line) > style.width:
        depth, cut = 0, 0
        for number, token in enumerate(line.tokens):
            if token.type == tokenize.OP:
                depth += (token.text in OPENING) - (token.text in CLOSING)
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


def _around(head: str, lines: list[str], indent: str, tail: str, style: Style) -> list[str]:
    """Lines between brackets, which close as those of the file do; raises TooLongError."""
    if style.hugs:
        lines, last = lines[:-1], lines[-1].removesuffix(",") + tail
    else:
        last = indent + tail
    if len(last) > style.width:
        raise TooLongError
    return [head, *lines, last]


def _in_brackets(line: Line, start: int, style: Style) -> list[str]:
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


def _cut(line: Line, cuts: Sequence[int], style: Style) -> list[str]:
    """A line broken before each of some tokens."""
    ends = [*cuts, len(line.tokens)]
    return [
        part
        for begin, end in zip([0, *cuts], ends, strict=True)
        for part in _split(line.part(begin, end, line.indent), style, is_inner=True)
    ]


def _body(line: Line, pair: tuple[int, int], body: Line, style: Style) -> list[str]:
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


def _listed(body: Line, commas: Sequence[int], style: Style) -> list[str]:
    """Parts with commas between, each on a line of its own."""
    inner = [comma for comma in commas if comma < len(body.tokens) - 1]
    ends = [*inner, len(body.tokens) - (len(inner) < len(commas))]
    starts = [0, *(comma + 1 for comma in inner)]
    return [
        part
        for begin, end in zip(starts, ends, strict=True)
        for part in _split(body.part(begin, end, body.indent, ","), style, is_inner=True)
    ]


def start_of_value(line: Line) -> int:
    """Where the value begins that a statement assigns or gives back; 0 where it does neither."""
    signs = [n for n, depth in enumerate(_depths(line)) if depth == 0 and line.tokens[n].text.endswith("=")]
    assigning = [n for n in signs if line.tokens[n].text not in _COMPARING and line.tokens[n].type == tokenize.OP]
    if assigning:
        return assigning[-1] + 1
    return int(line.tokens[0].text == "return")


def _pairs(line: Line, start: int) -> Iterator[tuple[int, int]]:
    """The pairs of brackets at which a value may be broken, the last one first."""
    opened: list[int] = []
    found = []
    for number, (token, depth) in enumerate(zip(line.tokens, _depths(line), strict=True)):
        if depth == 0 and token.type == tokenize.OP and token.text in OPENING:
            opened.append(number)
        elif depth == 0 and token.type == tokenize.OP and token.text in CLOSING:
            found.append((opened.pop(), number))
    yield from (pair for pair in reversed(found) if pair[0] >= start and pair[1] > pair[0] + 1)


def cuts_of(line: Line, start: int) -> list[int]:
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


def _outer(line: Line, *texts: str) -> list[int]:
    """The tokens of those texts that stand in no bracket of the line."""
    return [n for n, depth in enumerate(_depths(line)) if depth == 0 and line.tokens[n].text in texts]


def _depths(line: Line) -> list[int]:
    """How deep in brackets of the line each token stands, brackets as deep as what is around them; raises TooLongError."""
    depth, found = 0, []
    for token in line.tokens:
        closes = token.type == tokenize.OP and token.text in CLOSING
        depth -= closes
        found.append(depth)
        if depth < 0:
            raise TooLongError
        depth += token.type == tokenize.OP and token.text in OPENING
    if depth:
        raise TooLongError
    return found


def _is_operand(token: Token) -> bool:
    """Whether a value ends with a token."""
    if token.type == tokenize.NAME:
        return not keyword.iskeyword(token.text) or token.text in ("None", "True", "False")
    return token.text in _CLOSERS or token.type in (tokenize.NUMBER, tokenize.STRING)
