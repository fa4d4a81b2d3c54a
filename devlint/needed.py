"""Words that a text must have for a regular expression to match it, read off the expression itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from devlint.expressions import Part, parse

# A word shorter than this stands nearly everywhere.
_MIN_LENGTH = 2


def words_for(pattern: str) -> frozenset[str] | None:
    """Words of which one stands, in small letters, in whatever an expression matches; None where it doesn't tell."""
    return _needed(parse(pattern))


def _needed(parsed: Sequence[Sequence[Part]]) -> frozenset[str] | None:
    """The words of which one stands in whatever a parsed expression matches; None where it doesn't tell."""
    sets = [_of_sequence(parts) for parts in parsed]
    return None if None in sets else frozenset().union(*(s for s in sets if s is not None))


def _of_sequence(parts: Iterable[Part]) -> frozenset[str] | None:
    """The same for an expression without alternatives: of several such sets, the most telling one."""
    found = [words for words in _sets(parts) if words is not None]
    return max(found, key=_shortest, default=None)


def _shortest(words: frozenset[str]) -> int:
    return min(map(len, words), default=1_000)


def _sets(parts: Iterable[Part]) -> Iterator[frozenset[str] | None]:
    run = ""
    for part in parts:
        if part.kind in ("plain", "escaped") and part.least is None and _is_of_words(part.text):
            run += part.text
            continue
        if part.kind in ("(?!", "(?<!") and not part.text:
            # It matches nowhere.
            yield frozenset()
        if part.kind in _WITHOUT_WIDTH:
            continue
        yield _word(run)
        run = ""
        if part.kind.startswith("(") and not part.kind.startswith("(?(") and part.least != 0:
            yield _needed(part.inside)
    yield _word(run)


# Between the characters of a word, they leave it one.
_WITHOUT_WIDTH = ("width", "(?=", "(?!", "(?<=", "(?<!")


def _is_of_words(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _word(run: str) -> frozenset[str] | None:
    return frozenset({run.lower()}) if len(run) >= _MIN_LENGTH else None
