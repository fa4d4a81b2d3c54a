"""How far the expression goes that a trail names by its first character: editors underline it, and a click selects it."""

from __future__ import annotations

import keyword
import tokenize
from collections.abc import Iterator
from tokenize import TokenInfo

from devlint.findings import Span
from devlint.textmap import TextMap

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_AT_ITS_END = frozenset([tokenize.NEWLINE, tokenize.ENDMARKER])
# What has no end of its own there: the rest of its line is shown.
_PASSED_OVER = frozenset([tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT])
# Words that stand before the rest of an expression, and all that one begins with.
_AHEAD = frozenset(["await", "lambda", "not"])
_WITHIN = _AHEAD | {"None", "True", "False"}


def extent(text: TextMap, line: int, column: int) -> Span:
    """The span of what begins at a place (both from 1): an expression with its calls and attributes, or a statement's header.

    The text needn't be Python. Where nothing begins there, the rest of the line.
    """
    if line > len(text.starts):
        line, column = text.position(len(text.text))
    end = _end(list(_tokens(text, line, column)))
    if end is None:
        return Span(line, column, line, max(len(text.line(line).rstrip()) + 1, column))
    rows, columns = end
    return Span(line, column, line + rows - 1, columns + (column if rows == 1 else 1))


def _tokens(text: TextMap, line: int, column: int) -> Iterator[TokenInfo]:
    """The tokens of the logical line that begins at a place, as far as they are any."""
    numbers = iter(range(line + 1, len(text.starts) + 1))
    first = f"{text.line(line)[column - 1 :]}\n"

    def lines() -> Iterator[str]:
        yield first
        for number in numbers:
            yield f"{text.line(number)}\n"

    try:
        for token in tokenize.generate_tokens(lines().__next__):
            if token.type in _AT_ITS_END:
                return
            if token.type not in _PASSED_OVER:
                yield token
    except (tokenize.TokenError, SyntaxError):
        return


def _end(tokens: list[TokenInfo]) -> tuple[int, int] | None:
    """(row, column) behind what the tokens begin with, counted from their first line; None where that is nothing."""
    if not tokens:
        return None
    is_header = keyword.iskeyword(tokens[0].string) and tokens[0].string not in _WITHIN
    depth = 0
    before: TokenInfo | None = None
    for token in tokens:
        ends = token.string == ":" if is_header else before is not None and not _goes_on(before, token)
        if depth == 0 and ends:
            break
        depth += (token.string in _OPENING) - (token.string in _CLOSING)
        if depth < 0:
            break
        before = token
    return before.end if before is not None else None


def _goes_on(before: TokenInfo, token: TokenInfo) -> bool:
    """Whether an expression goes on with a token: an attribute, a call, a subscript, or what an operator begins."""
    if before.string == "." or before.string in _AHEAD:
        return True
    if before.type == tokenize.OP and before.string not in _CLOSING:
        return True
    return token.string in {".", "(", "["}
