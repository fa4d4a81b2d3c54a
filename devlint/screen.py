"""Whether a file could hold a finding at all, told from its bytes before anything is parsed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache

from devlint.rule import Rule
from devlint.words import Vocabulary, alternatives

# Every rule is about torch; a file that never says the word, but in comments, has no tensors to speak of.
TORCH = b"torch"


class Screen:
    """One text, searched once for each expression, whichever rules ask for it.

    Of a text that differs from another one (`before`) in the part `changed` alone, only that part is searched: what was found
    before counts as found. Where that is gone by now, a rule is asked in vain.
    """

    def __init__(self, raw: bytes, before: Screen | None = None, changed: bytes = b"") -> None:
        self._raw = raw
        self._known: dict[str, bool] = {}
        if before is not None:
            self._known = {pattern: held or _stands_in(pattern, changed) for pattern, held in before._known.items()}

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(self._raw)

    @cached_property
    def is_about_torch(self) -> bool:
        """Whether torch is spoken of, and not in comments alone: what those merely mention has no tensors."""
        return any(_is_before_comment(line) for line in _lines_up_to(TORCH, self._raw))

    def holds(self, pattern: str) -> bool:
        """Whether a regular expression matches somewhere."""
        if pattern not in self._known:
            self._known[pattern] = any(
                (part.words is None or self._vocabulary.has_one(part.words)) and part.expression.search(self._raw)
                for part in alternatives(pattern)
            )
        return self._known[pattern]


def _lines_up_to(word: bytes, raw: bytes) -> Iterator[bytes]:
    """What stands before a word on each line that has it."""
    at = raw.find(word)
    while at >= 0:
        yield raw[raw.rfind(b"\n", 0, at) + 1 : at]
        end = raw.find(b"\n", at)
        at = raw.find(word, end) if end >= 0 else -1


def _is_before_comment(part: bytes) -> bool:
    """Whether no comment begins on a part of a line; what is quoted may have its sign."""
    return b"#" not in part or b"'" in part or b'"' in part


def _stands_in(pattern: str, raw: bytes) -> bool:
    return any(part.expression.search(raw) for part in alternatives(pattern))


def lets_through(rule: type[Rule], screens: Sequence[Screen]) -> bool:
    """Whether a rule's trigger, and all that it needs, stands in one of some texts that are about torch."""
    return any(s.is_about_torch for s in screens) and all(
        any(s.holds(pattern) for s in screens) for pattern in (*rule.needs, rule.trigger)
    )


def pattern_of(rule: type[Rule]) -> re.Pattern[bytes]:
    """A rule's trigger, for bytes."""
    return re.compile(rule.trigger.encode())


def trigger_lines(
    text: str, rule: type[Rule], line_starts: list[int], spelt: Mapping[str, str], within: range | None = None
) -> list[int]:
    """The lines (from 1) that bear a rule's trigger, or a name that stands for it; `spelt` says what some names mean.

    `within` are the lines that are asked about, if not all.
    """
    start, stop = 0, len(text)
    if within is not None:
        start = line_starts[within.start - 1]
        stop = line_starts[within.stop - 1] if within.stop <= len(line_starts) else stop
    offsets = [*_offsets(rule.trigger, text, start, stop)]
    if rule.alias:
        names = _aliases(rule.alias, text) if within is None else _aliases_by_line(rule.alias, text)
        offsets += _offsets_of(text, names, start, stop)
    meaning_it = {name for name, meant in spelt.items() if _compiled(rule.trigger).search(meant)}
    return _lines([*offsets, *_offsets_of(text, meaning_it, start, stop)], line_starts)


@lru_cache(maxsize=8)
def _offsets(pattern: str, text: str, start: int, stop: int) -> tuple[int, ...]:
    """Where an expression matches: several rules look for the same."""
    return tuple(match.start() for match in _compiled(pattern, text.isascii()).finditer(text, start, stop))


def _aliases(pattern: str, text: str) -> set[str]:
    """The names that a text gives to what a rule looks for."""
    return {name for match in _compiled(pattern, text.isascii()).finditer(text) for name in match.groups() if name}


def _aliases_by_line(pattern: str, text: str) -> set[str]:
    """The same, where most of the lines were asked about before: what stands on several lines isn't seen."""
    return {name for line in text.split("\n") for name in _aliases_on(pattern, line)}


@lru_cache(maxsize=1 << 15)
def _aliases_on(pattern: str, line: str) -> frozenset[str]:
    return frozenset(_aliases(pattern, line))


def lines_of_names(text: str, names: Iterable[str], line_starts: list[int]) -> list[int]:
    """The lines (from 1) on which one of the names stands."""
    return _lines(_offsets_of(text, names, 0, len(text)), line_starts)


def _offsets_of(text: str, names: Iterable[str], start: int, stop: int) -> list[int]:
    wanted = "|".join(sorted(names))
    found = re.compile(rf"\b(?:{wanted})\b").finditer(text, start, stop) if wanted else ()
    return [match.start() for match in found]


def _lines(offsets: Iterable[int], line_starts: list[int]) -> list[int]:
    return sorted({bisect_right(line_starts, offset) for offset in offsets})


@cache
def _compiled(pattern: str, is_ascii: bool = False) -> re.Pattern[str]:
    """An expression; for a text without other characters than those of ASCII, one that needn't ask what each is."""
    return re.compile(pattern, re.ASCII if is_ascii else 0)
