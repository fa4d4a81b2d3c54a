"""Words that a text must have for a regular expression to match it, read off the expression itself.

Looking for words costs little, and most texts lack those that a rule is about: what they turn down isn't searched. A
word here is any run of letters, digits and underscores, also as a part of a longer one; case is left aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

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

    expression: re.Pattern[bytes]
    # One of these stands in all that it matches; None where no such words could be told.
    words: frozenset[bytes] | None


@cache
def alternatives(pattern: str) -> tuple[Alternative, ...]:
    """The outermost alternatives of an expression: it matches where one of them does."""
    return tuple(Alternative(re.compile(part.encode()), _needed(part)) for part in _split(pattern))


_TOKEN = re.compile(
    r"""(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])
    | (?P<width>\\[bBAZ]|[\^$]|\(\?[aiLmsux]+\)|\(\?\#[^)]*\))  # it takes up no characters
    | \\(?P<escaped>[^\w\s]|_)                                  # a character that would mean something else
    | (?P<unknown>\\.|\.|\(\?P=\w+\))
    | (?P<open>\((?:\?(?:P<\w+>|[aiLmsux-]+:|\(\w+\)|[:>]|<?[=!]))?)
    | (?P<close>\))
    | (?P<repeat>[*+?]|\{\d*(?:,\d*)?\})[?+]?
    | (?P<plain>.)""",
    re.DOTALL | re.VERBOSE,
)


def _split(pattern: str) -> Iterator[str]:
    depth = start = 0
    for token in _TOKEN.finditer(pattern):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token[0] == "|" and not depth:
            yield pattern[start : token.start()]
            start = token.end()
    yield pattern[start:]


def _needed(pattern: str) -> frozenset[bytes] | None:
    """The words of which one stands in whatever an expression matches; None where it doesn't tell.

    What isn't understood here, such as a reference to another group, counts as any text.
    """
    sets = [_of_sequence(part) for part in _split(pattern)]
    return None if None in sets else frozenset().union(*(s for s in sets if s is not None))


def _of_sequence(pattern: str) -> frozenset[bytes] | None:
    """The same for an expression without alternatives: of several such sets, the most telling one."""
    found = [words for words in _sets(_flat(pattern)) if words is not None]
    return max(found, key=_shortest, default=None)


def _shortest(words: frozenset[bytes]) -> int:
    return min(map(len, words), default=1_000)


class _Part(NamedTuple):
    """One part of a sequence: a character, a group by how it opens and what is in it, or something else."""

    kind: str
    text: str
    # How often it stands there at least; None where it isn't repeated.
    least: int | None


def _parts(pattern: str) -> Iterator[_Part]:
    tokens = list(_TOKEN.finditer(pattern))
    at = 0
    while at < len(tokens):
        token, at = tokens[at], at + 1
        kind, text = token.lastgroup or "", token["escaped"] or token[0]
        if kind == "open":
            depth = 1
            while depth and at < len(tokens):
                depth += (tokens[at].lastgroup == "open") - (tokens[at].lastgroup == "close")
                at += 1
            kind, text = token[0], pattern[token.end() : tokens[at - 1].start()]
        least = None
        if at < len(tokens) and (repeat := tokens[at]["repeat"]):
            least, at = _least(repeat), at + 1
        yield _Part(kind, text, least)


def _least(repeat: str) -> int:
    if repeat[0] != "{":
        return int(repeat == "+")
    number = repeat[1:-1].partition(",")[0]
    return int(number or 0)


def _flat(pattern: str) -> Iterator[_Part]:
    """The parts of a sequence; a group that only holds things together is its parts."""
    for part in _parts(pattern):
        if part.kind == "(?:" and part.least is None and len(list(_split(part.text))) == 1:
            yield from _flat(part.text)
        else:
            yield part


def _sets(parts: Iterable[_Part]) -> Iterator[frozenset[bytes] | None]:
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
            yield _needed(part.text)
    yield _word(run)


# Between the characters of a word, they leave it one.
_WITHOUT_WIDTH = ("width", "(?=", "(?!", "(?<=", "(?<!")


def _is_of_words(character: str) -> bool:
    return character.isascii() and _TO_WORDS[ord(character)] != _BLANK


def _word(run: str) -> frozenset[bytes] | None:
    return frozenset({run.lower().encode()}) if len(run) >= _MIN_LENGTH else None
