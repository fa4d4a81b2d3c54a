"""Words that a text must have for a regular expression to match it, read off the expression itself.

A blank before or behind a word says that it begins or ends there in the text as well: `\\bnp\\.` needs ` np `, which `input` hasn't got.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from devlint.expressions import Part, parse
from devlint.regexes import regex

# A word shorter than this stands nearly everywhere.
_MIN_LENGTH = 2


def words_for(pattern: str) -> frozenset[str] | None:
    """Words of which one stands, in small letters, in whatever an expression matches; None where it doesn't tell."""
    return _needed(parse(pattern), begins=False, ends=False)


def _needed(parsed: Sequence[Sequence[Part]], *, begins: bool, ends: bool) -> frozenset[str] | None:
    """The words of which one stands in whatever a parsed expression matches; None where it doesn't tell.

    `begins` and `ends` say that no word goes on before it, or behind it.
    """
    sets = [_of_sequence(parts, begins=begins, ends=ends) for parts in parsed]
    return None if None in sets else frozenset().union(*(s for s in sets if s is not None))


def _of_sequence(parts: Sequence[Part], *, begins: bool, ends: bool) -> frozenset[str] | None:
    """The same for an expression without alternatives: of several such sets, the most telling one."""
    found = [words for words in _sets(parts, begins=begins, ends=ends) if words is not None]
    return max(found, key=_shortest, default=None)


def _shortest(words: frozenset[str]) -> int:
    return min(map(len, words), default=1_000)


def _sets(parts: Sequence[Part], *, begins: bool, ends: bool) -> Iterator[frozenset[str] | None]:
    run, first, last = "", 0, 0
    for at, part in enumerate(parts):
        if part.kind in ("plain", "escaped") and part.least is None and _is_of_words(part.text):
            first, last = first if run else at, at
            run += part.text
            continue
        if part.kind in ("(?!", "(?<!") and not part.text:
            # It matches nowhere.
            yield frozenset()
        if part.kind in _WITHOUT_WIDTH:
            continue
        yield _word(run, begins=_is_edge(parts[:first], -1, begins), ends=_is_edge(parts[last + 1 :], 1, ends))
        run = ""
        if part.kind.startswith("(") and not part.kind.startswith("(?(") and part.least != 0:
            is_once = part.least is None
            yield _needed(
                part.inside,
                begins=is_once and _is_edge(parts[:at], -1, begins),
                ends=is_once and _is_edge(parts[at + 1 :], 1, ends),
            )
    yield _word(run, begins=_is_edge(parts[:first], -1, begins), ends=_is_edge(parts[last + 1 :], 1, ends))


# Between the characters of a word, they leave it one.
_WITHOUT_WIDTH = ("width", "(?=", "(?!", "(?<=", "(?<!")


def _is_of_words(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _word(run: str, *, begins: bool, ends: bool) -> frozenset[str] | None:
    if len(run) < _MIN_LENGTH:
        return None
    return frozenset({f"{' ' * begins}{run.lower()}{' ' * ends}"})


# -- where words begin and end -----------------------------------------------------------------------------------------


def _is_edge(parts: Sequence[Part], step: int, outside: bool) -> bool:
    """Whether a word that stands before some parts (`step` 1), or behind them (-1), ends or begins there.

    `outside` tells it of what stands on their other side.
    """
    for part in parts[::step]:
        if part.kind == "width" and part.text in _EDGES:
            return True
        if part.kind in _WITHOUT_WIDTH:
            continue
        if not _is_apart(part, step):
            return False
        if part.least != 0:
            return True
    return outside


# A word that stands right beside them ends or begins there.
_EDGES = (r"\b", "^", "$", r"\A", r"\Z")


def _is_apart(part: Part, step: int) -> bool:
    """Whether what a part matches begins, or ends, with what is of no word."""
    if part.kind.startswith("("):
        return not part.kind.startswith("(?(") and all(_is_edge(inside, step, False) for inside in part.inside)
    if part.kind == "class":
        return _OF_NO_WORDS.fullmatch(part.text) is not None
    if part.kind == "unknown":
        return part.text in (r"\s", r"\W", r"\n", r"\r", r"\t")
    # In a verbose expression, blanks and comments stand for nothing.
    is_said = part.kind == "escaped" or not (part.text.isspace() or part.text == "#")
    return part.kind in ("plain", "escaped") and is_said and part.text.isascii() and not _is_of_words(part.text)


# A class of characters of which none is of a word.
_OF_NO_WORDS = regex(r"\[(?:[^\w\\\]^-]|\\[sWnrt]|\\[^\w\s])+\]")
