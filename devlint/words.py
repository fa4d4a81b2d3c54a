"""Words that a text must have for a regular expression to match it, read off the expression itself.

Looking for words costs little, and most texts lack those that a rule is about: what they turn down isn't searched. A
word here is any run of letters, digits and underscores, also as a part of a longer one; case is left aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from devlint import expressions as parser

# A word shorter than this stands nearly everywhere.
_MIN_LENGTH = 2
_BLANK = ord(" ")
_TO_WORDS = bytes(
    ord(chr(c).lower()) if c < 128 and (chr(c).isalnum() or c == ord("_")) else _BLANK for c in range(256)
)


class Vocabulary:
    """The words of a text."""

    def __init__(self, raw: bytes) -> None:
        self._words = b" ".join(set(raw.translate(_TO_WORDS).split()))
        self._known: dict[bytes, bool] = {}

    def has_one(self, words: Iterable[bytes]) -> bool:
        """Whether one of the words stands in the text, by itself or in a longer one."""
        return any(self._has(word) for word in words)

    def _has(self, word: bytes) -> bool:
        known = self._known.get(word)
        if known is None:
            known = self._known[word] = word in self._words
        return known


@dataclass(frozen=True)
class Alternative:
    """One of the alternatives that an expression consists of."""

    pattern: bytes
    # One of these stands in all that it matches; None where no such words could be told.
    words: frozenset[bytes] | None

    @cached_property
    def expression(self) -> re.Pattern[bytes]:
        """The alternative, compiled when a text has one of the words."""
        return re.compile(self.pattern)


@cache
def alternatives(pattern: str) -> tuple[Alternative, ...]:
    """The outermost alternatives of an expression: it matches where one of them does."""
    return tuple(Alternative(part.encode(), _needed(parser.parse(part))) for part in parser.split(pattern))


def _needed(parsed: Sequence[Sequence[parser.Part]]) -> frozenset[bytes] | None:
    """The words of which one stands in whatever a parsed expression matches; None where it doesn't tell."""
    sets = [_of_sequence(parts) for parts in parsed]
    return None if None in sets else frozenset().union(*(s for s in sets if s is not None))


def _of_sequence(parts: Iterable[parser.Part]) -> frozenset[bytes] | None:
    """The same for an expression without alternatives: of several such sets, the most telling one."""
    found = [words for words in _sets(parts) if words is not None]
    return max(found, key=_shortest, default=None)


def _shortest(words: frozenset[bytes]) -> int:
    return min(map(len, words), default=1_000)


def _sets(parts: Iterable[parser.Part]) -> Iterator[frozenset[bytes] | None]:
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
    return character.isascii() and _TO_WORDS[ord(character)] != _BLANK


def _word(run: str) -> frozenset[bytes] | None:
    return frozenset({run.lower().encode()}) if len(run) >= _MIN_LENGTH else None
