"""The words of a text, and those that it must have for a regular expression to match it.

Looking for words costs little, and most texts lack those that a rule is about: what they turn down isn't searched. A
word here is any run of letters, digits and underscores, also as a part of a longer one; case is left aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property

from devlint.records import record

# An expression that matches nothing.
NOWHERE = r"(?!)"
_BLANK = ord(" ")
_TO_WORDS = bytes(
    ord(chr(c).lower()) if c < 128 and (chr(c).isalnum() or c == ord("_")) else _BLANK for c in range(256)
)


def spaced(raw: bytes) -> bytes:
    """A text in small letters, with a blank in the place of each other character, and before and behind it."""
    return b" %b " % raw.translate(_TO_WORDS)


class Vocabulary:
    """The words of a text."""

    def __init__(self, raw: bytes) -> None:
        self._words = b" %b " % b" ".join(set(raw.translate(_TO_WORDS).split()))
        self._known: dict[bytes, bool] = {}

    def has_one(self, words: Iterable[bytes]) -> bool:
        """Whether one of the words stands in the text: by itself or in a longer one, but where a blank says that it begins or ends there."""
        return any(self._has(word) for word in words)

    def _has(self, word: bytes) -> bool:
        known = self._known.get(word)
        if known is None:
            known = self._known[word] = word in self._words
        return known


@record(frozen=True)
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
    told = _learnt.get(pattern)
    if told is not None:
        return tuple(Alternative(part.encode(), _encoded(words)) for part, words in told)
    from devlint.expressions import split
    from devlint.needed import words_for

    return tuple(Alternative(part.encode(), _encoded(words_for(part))) for part in split(pattern))


def _encoded(words: Iterable[str] | None) -> frozenset[bytes] | None:
    return None if words is None else frozenset(word.encode() for word in words)


# The alternatives of some expressions, each with its words, as `told_of` tells them.
Told = Mapping[str, Sequence[tuple[str, Sequence[str] | None]]]
_learnt: dict[str, Sequence[tuple[str, Sequence[str] | None]]] = {}


def learn(told: Told) -> None:
    """Takes in what was told of expressions before: it needn't be read off them again."""
    _learnt.update(told)


def told_of(patterns: Iterable[str]) -> Told:
    """The alternatives of some expressions as plain data, for `learn`."""
    return {
        pattern: [
            (part.pattern.decode(), None if part.words is None else sorted(word.decode() for word in part.words))
            for part in alternatives(pattern)
        ]
        for pattern in patterns
    }
