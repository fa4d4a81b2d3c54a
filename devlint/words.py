"""Words that a text must have for a regular expression to match it, read off the expression itself.

Looking for words costs little, and most texts lack those that a rule is about: what they turn down isn't searched. A
word here is any run of letters, digits and underscores, also as a part of a longer one; case is left aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

# What `re` itself parses with; it is documented nowhere, but has been the same since Python 3.11.
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

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
    return tuple(Alternative(part.encode(), _needed(parser.parse(part))) for part in _split(pattern))


# An escape, a class of characters, or one character.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def _split(pattern: str) -> Iterator[str]:
    depth = start = 0
    for token in _TOKEN.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if token[0] == "|" and not depth:
            yield pattern[start : token.start()]
            start = token.end()
    yield pattern[start:]


def _needed(parsed: Iterable[tuple[Any, Any]]) -> frozenset[bytes] | None:
    """The words of which one stands in whatever a parsed sequence matches: of several such sets, the most telling one."""
    found = [words for words in _sets(parsed) if words is not None]
    return max(found, key=_shortest, default=None)


def _shortest(words: frozenset[bytes]) -> int:
    return min(map(len, words), default=1_000)


def _sets(parsed: Iterable[tuple[Any, Any]]) -> Iterator[frozenset[bytes] | None]:
    run = ""
    for what, given in parsed:
        if what is code.LITERAL and given < 128 and _TO_WORDS[given] != _BLANK:
            run += chr(given)
            continue
        if what is code.FAILURE or (what is code.ASSERT_NOT and not given[1]):
            # `(?!)` matches nowhere.
            yield frozenset()
        if what in _WITHOUT_WIDTH:
            continue
        yield _word(run)
        run = ""
        if what is code.SUBPATTERN or (what in _REPEATS and given[0] > 0):
            yield _needed(given[-1])
        elif what is code.BRANCH:
            sets = [_needed(part) for part in given[1]]
            yield None if None in sets else frozenset().union(*(s for s in sets if s is not None))
    yield _word(run)


# Between the characters of a word, they leave it one.
_WITHOUT_WIDTH = (code.AT, code.ASSERT, code.ASSERT_NOT)
_REPEATS = (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT)


def _word(run: str) -> frozenset[bytes] | None:
    return frozenset({run.lower().encode()}) if len(run) >= _MIN_LENGTH else None
