"""Whether a regular expression takes more than linear time on some text, told from its form.

The expression becomes an automaton whose states are the characters that it reads. Backtracking takes quadratic time (or
worse) where a text can be read by staying in one loop, by staying in another, and by going from the first to the second
(infinite degree of ambiguity); a search that begins anew at each character is such a loop too. It takes exponential time
where there are two ways around one loop. Look-ahead is left out of account, so more is told than is true, never less.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from re import _constants as c
from re import _parser as parser
from typing import Any

# Letters, digits, marks and spaces of ASCII, and one of each kind from beyond.
ALPHABET = [chr(i) for i in range(128)] + ["é", "\u2003", "日", "→"]
_ALL = frozenset(range(len(ALPHABET)))
_CATEGORIES = {
    c.CATEGORY_DIGIT: str.isdigit, c.CATEGORY_SPACE: str.isspace,
    c.CATEGORY_WORD: lambda ch: ch.isalnum() or ch == "_",
}  # fmt: skip
_NOT = {
    c.CATEGORY_NOT_DIGIT: c.CATEGORY_DIGIT,
    c.CATEGORY_NOT_SPACE: c.CATEGORY_SPACE,
    c.CATEGORY_NOT_WORD: c.CATEGORY_WORD,
}
_WORD = frozenset(i for i, ch in enumerate(ALPHABET) if ch.isalnum() or ch == "_")
# Of repeats with an end, so many rounds are looked at: they cost a factor, and no more.
_FEW = 4


def _category(which: Any) -> frozenset[int]:
    if which in _NOT:
        return _ALL - _category(_NOT[which])
    return frozenset(i for i, ch in enumerate(ALPHABET) if _CATEGORIES[which](ch))


@dataclass
class _Automaton:
    """Positions from 1; 0 is the start. An edge has the condition on the character before it (None: any)."""

    reads: list[frozenset[int]] = field(default_factory=lambda: [frozenset()])
    edges: dict[int, set[tuple[int, frozenset[int] | None]]] = field(default_factory=lambda: defaultdict(set))
    doubled: bool = False


# The open ends of a piece: (position, condition on the next step); whether nothing may be read stands beside it.
_Ends = set[tuple[int, frozenset[int] | None]]


def _both(a: frozenset[int] | None, b: frozenset[int] | None) -> frozenset[int] | None:
    return b if a is None else a if b is None else a & b


class _Builder:
    def __init__(self, flags: int) -> None:
        self.machine = _Automaton()
        self.flags = flags

    def sequence(self, parsed: Any, ends: _Ends) -> _Ends:
        for what, given in parsed:
            ends = self.piece(what, given, ends)
        return ends

    def letter(self, which: frozenset[int], ends: _Ends) -> _Ends:
        if self.flags & re.IGNORECASE:
            which = frozenset(
                i for i, ch in enumerate(ALPHABET) if {ch.lower(), ch.upper()} & {ALPHABET[j] for j in which}
            )
        self.machine.reads.append(which)
        position = len(self.machine.reads) - 1
        for before, condition in ends:
            self.machine.edges[before].add((position, condition))
        return {(position, None)}

    def piece(self, what: Any, given: Any, ends: _Ends) -> _Ends:
        if what in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            return self.letter(self.charset(what, given), ends)
        if what is c.SUBPATTERN:
            return self.sequence(given[-1], ends)
        if what is c.BRANCH:
            return set().union(*(self.sequence(part, ends) for part in given[1]))
        if what in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            return self.repeat(*given, ends)
        if what is c.AT:
            return self.anchored(given, ends)
        if what is c.ASSERT or what is c.ASSERT_NOT:
            return self.looked(what, given, ends)
        if what is c.GROUPREF:
            # What a group has read is read again in one way; it may be nothing.
            return ends
        raise NotImplementedError(what)

    def charset(self, what: Any, given: Any) -> frozenset[int]:
        if what is c.LITERAL:
            return frozenset(i for i, ch in enumerate(ALPHABET) if ord(ch) == given)
        if what is c.NOT_LITERAL:
            return _ALL - self.charset(c.LITERAL, given)
        if what is c.ANY:
            return _ALL if self.flags & re.DOTALL else _ALL - {ord("\n")}
        found: set[int] = set()
        negated = False
        for inner, value in given:
            if inner is c.NEGATE:
                negated = True
            elif inner is c.LITERAL:
                found |= self.charset(inner, value)
            elif inner is c.RANGE:
                found |= {i for i, ch in enumerate(ALPHABET) if value[0] <= ord(ch) <= value[1]}
            elif inner is c.CATEGORY:
                found |= _category(value)
        return _ALL - found if negated else frozenset(found)

    def repeat(self, least: int, most: Any, body: Any, ends: _Ends) -> _Ends:
        for _ in range(min(least, _FEW)):
            ends = self.sequence(body, ends)
        if most is not c.MAXREPEAT:
            for _ in range(min(most - least, _FEW)):
                ends = ends | self.sequence(body, ends)
            return ends
        # Around and around: what ends the body may begin it.
        first = len(self.machine.reads)
        after = self.sequence(body, ends)
        entries = {(p, k) for before, _ in ends for p, k in self.machine.edges[before] if p >= first}
        for position, condition in after:
            if position >= first:
                for entry, wanted in entries:
                    edge = (entry, _both(condition, wanted))
                    # The body goes around by itself as well, as in `(?:a*)*`.
                    self.machine.doubled |= edge in self.machine.edges[position]
                    self.machine.edges[position].add(edge)
        return ends | after

    def anchored(self, given: Any, ends: _Ends) -> _Ends:
        if given is c.AT_BEGINNING:
            allowed = frozenset({ord("\n")}) if self.flags & re.MULTILINE else frozenset()
            return {(p, _both(k, allowed)) for p, k in ends}
        if given in (c.AT_END, c.AT_END_STRING):
            return {(p, _END) for p, _ in ends}
        if given is c.AT_BOUNDARY:
            # Told by what comes next, in `_step`: here it is marked by both kinds of conditions.
            return {(p, k if k is not None else _BOUNDARY) for p, k in ends}
        return ends

    def looked(self, what: Any, given: Any, ends: _Ends) -> _Ends:
        direction, body = given
        if direction < 0 and len(body) == 1:
            one = self.charset(*body[0]) if body[0][0] in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN) else None
            if one is not None:
                condition = one if what is c.ASSERT else _ALL - one
                return {(p, _both(k, condition)) for p, k in ends}
        return ends


_BOUNDARY = frozenset({-1})
_END = frozenset({-2})
# A state: a position, and the character read last (-1: none yet).
_State = tuple[int, int]


class _Machine:
    """The automaton over classes of characters that the expression doesn't tell apart."""

    def __init__(self, pattern: str, flags: int, *, search: bool) -> None:
        # The parser tells what flags the pattern sets itself.
        parsed = parser.parse(pattern, flags)
        builder = _Builder(parsed.state.flags)
        # Here a search has found what it wants, and begins anew behind it.
        self.final = {p for p, condition in builder.sequence(parsed, {(0, None)}) if condition is None}
        self.doubled = builder.machine.doubled
        self.reads, self.edges, self.search = builder.machine.reads, builder.machine.edges, search
        conditions = [k for edges in self.edges.values() for _, k in edges if k is not None]
        groups: dict[tuple[bool, ...], int] = {}
        for i in range(len(ALPHABET)):
            kind = (*(i in read for read in self.reads), *(i in k for k in conditions), i in _WORD)
            groups.setdefault(kind, i)
        self.letters = sorted(groups.values())
        self._next: dict[tuple[_State, int], set[_State]] = {}

    def step(self, state: _State, letter: int) -> set[_State]:
        key = (state, letter)
        if key not in self._next:
            position, last = state
            found: set[_State] = set()
            if position == 0 and self.search:
                found.add((0, letter))
            for target, condition in self.edges.get(position, ()):
                if letter in self.reads[target] and self._holds(condition, last, letter):
                    found.add((target, letter))
            self._next[key] = found
        return self._next[key]

    def takes_anything(self, state: _State) -> bool:
        """Whether a loop reads on whatever comes, line ends aside: what ends with it has no way to fail."""
        return all(
            any(position == state[0] for position, _ in self.step(state, letter))
            for letter in self.letters
            if letter != ord("\n")
        )

    @staticmethod
    def _holds(condition: frozenset[int] | None, last: int, letter: int) -> bool:
        if condition is None:
            return True
        if condition is _BOUNDARY:
            return (last in _WORD) != (letter in _WORD)
        return last == -1 or last in condition


def superlinear(pattern: str, flags: int = 0, *, search: bool = True) -> str:
    """A character by character account of a text that the expression reads in too many ways; "" where there is none."""
    machine = _Machine(pattern, flags, search=search)
    if machine.doubled:
        return "a loop right in a loop"
    states = _reachable(machine)
    around = _loops(machine, states)
    for p in around:
        word = _exponential(machine, p, around[p])
        if word:
            return f"two ways around {_spelt(word)}"
        for q in around:
            if q[0] in machine.final and (p[0] == 0 or machine.takes_anything(q)):
                continue
            if p != q and p[1] == q[1] and (word := _path(machine, p, q, around[p], around[q])):
                return f"many ways to read {_spelt(word)}"
    return ""


def _spelt(word: list[int]) -> str:
    return repr("".join(ALPHABET[i] for i in word)) + " again and again"


def _reachable(machine: _Machine) -> set[_State]:
    seen = {(0, -1)}
    todo = list(seen)
    while todo:
        state = todo.pop()
        for letter in machine.letters:
            new = machine.step(state, letter) - seen
            seen |= new
            todo += new
    return seen


def _loops(machine: _Machine, states: set[_State]) -> dict[_State, set[_State]]:
    """The states that lie on a way from themselves to themselves, with those on such ways."""
    after = {s: set().union(*(machine.step(s, letter) for letter in machine.letters)) for s in states}
    reach: dict[_State, set[_State]] = {}
    for state in states:
        seen: set[_State] = set()
        todo = list(after[state])
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo += after[one]
        reach[state] = seen
    return {s: {t for t in reach[s] if s in reach[t]} for s in states if s in reach[s]}


def _path(machine: _Machine, p: _State, q: _State, at_p: set[_State], at_q: set[_State]) -> list[int]:
    """A word that leads from p to p, from p to q and from q to q."""
    start = (p, p, q)
    seen = {start}
    todo: list[tuple[tuple[_State, _State, _State], list[int]]] = [(start, [])]
    for (a, b, d), word in todo:
        for letter in machine.letters:
            for a2 in machine.step(a, letter) & at_p:
                for d2 in machine.step(d, letter) & at_q:
                    for b2 in machine.step(b, letter):
                        new = (a2, b2, d2)
                        if new == (p, q, q):
                            return [*word, letter]
                        if new not in seen and len(seen) < 20_000:
                            seen.add(new)
                            todo.append((new, [*word, letter]))
    return []


def _exponential(machine: _Machine, p: _State, at_p: set[_State]) -> list[int]:
    """A word that leads from p to p in two ways."""
    start = (p, p, False)
    seen = {start}
    todo: list[tuple[tuple[_State, _State, bool], list[int]]] = [(start, [])]
    for (a, b, apart), word in todo:
        for letter in machine.letters:
            for a2 in machine.step(a, letter) & at_p:
                for b2 in machine.step(b, letter) & at_p:
                    new = (a2, b2, apart or a2 != b2)
                    if new == (p, p, True):
                        return [*word, letter]
                    if new not in seen and len(seen) < 20_000:
                        seen.add(new)
                        todo.append((new, [*word, letter]))
    return []
