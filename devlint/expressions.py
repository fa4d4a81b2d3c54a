"""Regular expressions in their parts, as far as it takes to tell what a text must hold for one to match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from devlint.regexes import regex

# A class of characters, an escape, how a group begins, how often something is repeated, or one character.
_TOKEN = regex(
    r"""(?P<class>\[\^?\]?(?:\\.|[^\]\\]){0,400}\])
    | (?P<width>\\[bBAZ]|[\^$]|\(\?[aiLmsux]{1,9}\)|\(\?\#[^)]{0,400}\))  # it takes up no characters
    | \\(?P<escaped>[^\w\s]|_)                                  # a character that would mean something else
    | (?P<unknown>\\.|\.|\(\?P=\w{1,60}\))
    | (?P<open>\((?:\?(?:P<\w{1,60}>|[aiLmsux-]{1,9}:|\(\w{1,60}\)|[:>]|<?[=!]))?)
    | (?P<close>\))
    | (?P<repeat>[*+?]|\{\d{0,9}(?:,\d{0,9})?\})[?+]?
    | (?P<plain>.)""",
    re.DOTALL | re.VERBOSE,
)


class Part(NamedTuple):
    """One part of a sequence: a character, a group by how it opens, or something else."""

    kind: str
    text: str
    # How often it stands there at least; None where it isn't repeated.
    least: int | None
    # The alternatives in a group.
    inside: Sequence[Sequence[Part]]


def parse(pattern: str) -> Sequence[Sequence[Part]]:
    """The outermost alternatives of a valid expression, each a sequence of parts.

    What isn't understood here, such as a reference to a group, is of kind `unknown`. A group that only holds things
    together is its parts.
    """
    return [list(_flat(part)) for part in split(pattern)]


def split(pattern: str) -> Iterator[str]:
    """The outermost alternatives of an expression, as text."""
    depth = start = 0
    for token in _TOKEN.finditer(pattern):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token[0] == "|" and not depth:
            yield pattern[start : token.start()]
            start = token.end()
    yield pattern[start:]


def _flat(pattern: str) -> Iterator[Part]:
    for part in _parts(pattern):
        if part.kind == "(?:" and part.least is None and len(part.inside) == 1:
            yield from part.inside[0]
        else:
            yield part


def _parts(pattern: str) -> Iterator[Part]:
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
        yield Part(kind, text, least, parse(text) if kind.startswith("(") else ())


def _least(repeat: str) -> int:
    if repeat[0] != "{":
        return int(repeat == "+")
    number = repeat[1:-1].partition(",")[0]
    return int(number or 0)
