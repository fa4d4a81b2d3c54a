"""What the text of a file shows of how its author writes: which quotes, and how lines are broken."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from devlint.regexes import regex

_ALONE = regex(r"^[ \t]*[)\]}]+[,:]?[ \t]*\r?$", re.MULTILINE)
# A text on one line as Python reads it, from its first quote on: what quotes stand inside are no text of their own.
_QUOTED = regex(r"\"\"\"[^\n]*|'''[^\n]*|\"(?:[^\"\\\n]|\\.){0,200}\"|'(?:[^'\\\n]|\\.){0,200}'")
_DOUBLE = regex(r"(?<![\"'])\"[^\"'\\\n]{1,100}\"(?!\")")
# What a comment quotes, a license say, shows nobody's style.
_WHOLE_COMMENT = regex(r"^[ \t]*#[^\n]*", re.MULTILINE)
# So many texts, and so many to one, show which quotes somebody uses; where there is one kind alone, that does.
_FEWEST_QUOTED, _MORE_OFTEN = 3, 4
_OPENED = regex(r"[(\[{][ \t]*\r?$", re.MULTILINE)


def in_quotes_of(text: str, code: str, near: Sequence[str] = ()) -> str:
    """New code, its texts in the quotes of the first of the lines `near` that have one kind alone, else of a text; what is there stays."""
    if '"' not in code or "'" in code:
        return code
    text, near = _WHOLE_COMMENT.sub("", text), [_WHOLE_COMMENT.sub("", lines) for lines in near]
    counts = [_quotes_in(lines) for lines in near]
    singles, doubles = next(((s, d) for s, d in counts if bool(s) != bool(d)), (0, 0))
    by_line = bool(counts) and bool(counts[0][0]) != bool(counts[0][1])
    if not singles and not doubles:
        singles, doubles = _quotes_in(text)
        if doubles and singles < _FEWEST_QUOTED:
            return code
    if not singles or singles < _MORE_OFTEN * doubles:
        return code
    said = near[0] if by_line else text
    return _DOUBLE.sub(lambda found: found[0] if found[0] in said else f"'{found[0][1:-1]}'", code)


def _quotes_in(text: str) -> tuple[int, int]:
    """How many texts are in single and in double quotes that could as well be in the others."""
    quotes = [q[0] for q in _QUOTED.findall(text) if len(q) > 2 and q[1:3] != q[0] * 2 and _OTHER[q[0]] not in q]
    return quotes.count("'"), quotes.count('"')


_OTHER = {"'": '"', '"': "'"}


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


def hugs(text: str) -> bool:
    """Whether the brackets of a text close behind what they hold."""
    return _OPENED.search(text) is not None and _ALONE.search(text) is None
