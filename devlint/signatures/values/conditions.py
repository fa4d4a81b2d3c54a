"""Conditions as values: under which outcomes of a program's tests something holds.

A condition is in disjunctive normal form: a set of clauses, each a set of literals, each an atom's number, negative
where the test came out false. Equal conditions are equal objects, so that two values which one test decides can't
come apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import product
from typing import NamedTuple

Clause = frozenset[int]
Condition = frozenset[Clause]
Joined = dict[tuple[Condition, Condition], Condition]

TRUE: Condition = frozenset({frozenset()})
FALSE: Condition = frozenset()

# A condition with more clauses than these is forgotten: something that may be so or not, and goes with nothing else.
MAX_CLAUSES = 6
# So many joined conditions are remembered.
MAX_JOINED = 2_000
_TOO_MANY: Condition = frozenset({frozenset({0})})


class Atom(NamedTuple):
    """One test: what makes it the same test elsewhere, and what it says of accelerators.

    `host_when` is the outcome under which the program, or the tensor that is asked, is on the host; None where the test
    isn't about devices at all.
    """

    key: Hashable
    host_when: bool | None


class Atoms:
    """The tests of one analysis, numbered from 1."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._atoms: list[Atom] = []
        self._negated: dict[Condition, Condition] = {}
        # What was joined lately: a scope joins the same conditions again and again.
        self._conjunctions: Joined = {}
        self._unions: Joined = {}

    def literal(self, key: Hashable, host_when: bool | None = None) -> Condition:
        """The condition that the test of that key came out true."""
        number = self._numbers.get(key)
        if number is None:
            self._atoms.append(Atom(key, host_when))
            number = self._numbers[key] = len(self._atoms)
        return frozenset({frozenset({number})})

    def atom(self, literal: int) -> Atom:
        """The test of a literal, whatever its outcome."""
        return self._atoms[abs(literal) - 1]

    def forgotten(self) -> Condition:
        """A condition of which nothing is known any more."""
        return self.literal(("forgotten", len(self._atoms)))

    def is_forgotten(self, condition: Condition) -> bool:
        """Whether each way to it passes a condition of which nothing is known any more."""
        return all(any(self._is_forgotten(x) for x in clause) for clause in condition)

    def _is_forgotten(self, literal: int) -> bool:
        key = self.atom(literal).key
        while isinstance(key, tuple) and key[0] == "at call":
            key = key[2]
        return isinstance(key, tuple) and key[0] == "forgotten"

    def both(self, a: Condition, b: Condition) -> Condition:
        """`a and b`."""
        if a is TRUE or a == TRUE or a is b:
            return b
        if b == TRUE:
            return a
        if len(a) == 1 and len(b) == 1:
            (c,), (d,) = a, b
            return FALSE if any(-x in d for x in c) else a if d <= c else frozenset({c | d})
        known = self._conjunctions.get((a, b))
        if known is None:
            clauses = (c | d for c, d in product(a, b) if not any(-x in d for x in c))
            known = self._kept(self._conjunctions, a, b, clauses)
        return known if known is not _TOO_MANY else self.forgotten()

    def either(self, a: Condition, b: Condition) -> Condition:
        """`a or b`."""
        if a == b or not b:
            return a
        if not a:
            return b
        known = self._unions.get((a, b))
        if known is None:
            known = self._kept(self._unions, a, b, (*a, *b))
        return known if known is not _TOO_MANY else self.forgotten()

    def negated(self, a: Condition) -> Condition:
        """`not a`."""
        known = self._negated.get(a)
        if known is None:
            known = TRUE
            for clause in a:
                known = self.both(known, frozenset(frozenset({-x}) for x in clause))
            self._negated[a] = known
        return known

    def _kept(self, joined: Joined, a: Condition, b: Condition, clauses: Iterable[Clause]) -> Condition:
        """The clauses as a condition, remembered for a while; nothing for those that are too many."""
        if len(joined) >= MAX_JOINED:
            joined.clear()
        found = _simplified(set(clauses))
        joined[a, b] = found if len(found) <= MAX_CLAUSES else _TOO_MANY
        return joined[a, b]

    def implies(self, a: Condition, b: Condition) -> bool:
        """Whether `b` holds wherever `a` does; False where that can't be told."""
        return b == TRUE or all(any(d <= c for d in b) for c in a)

    def with_host(self, condition: Condition) -> bool:
        """Whether each way to it passes a test that says: this is on the host, the program runs without accelerator."""
        return bool(condition) and all(any(self._says_host(x) for x in clause) for clause in condition)

    def about_devices(self, condition: Condition) -> bool:
        """Whether a test of devices takes part."""
        return any(self.atom(x).host_when is not None for clause in condition for x in clause)

    def _says_host(self, literal: int) -> bool:
        told = self.atom(literal).host_when
        return told is not None and told == (literal > 0)


def _simplified(clauses: set[Clause]) -> Condition:
    """The clauses without those that others make superfluous: `a b | a -b` is `a`, `a | a b` is `a`."""
    if len(clauses) == 2:
        # Most often: nothing can follow from what is left of them.
        return _of_two(*clauses)
    # Only a clause that is as long makes another one superfluous, or shorter.
    kept = sorted(clauses, key=len)
    changed = len(kept) > 1
    while changed:
        changed = False
        at = 0
        while at < len(kept) - 1:
            clause, left = kept[at], kept[: at + 1]
            at += 1
            for other in kept[at:]:
                apart = clause - other
                if len(apart) > 1 or (apart and -next(iter(apart)) not in other):
                    left.append(other)
                    continue
                changed = True
                if apart:
                    left.append(other - {-next(iter(apart))})
            kept = left
        if changed:
            kept = sorted(set(kept), key=len)
    return frozenset(kept) if kept != [frozenset()] else TRUE


def _of_two(a: Clause, b: Clause) -> Condition:
    """The same of two clauses."""
    if len(a) > len(b):
        a, b = b, a
    if a <= b:
        return frozenset({a})
    apart = a - b
    if len(apart) > 1:
        return frozenset({a, b})
    (x,) = apart
    if -x not in b:
        return frozenset({a, b})
    # `x c | -x c d` is `x c | c d`, and `x c | -x c` is `c`.
    rest = b - {-x}
    return frozenset({rest}) if len(rest) < len(a) else frozenset({a, rest})
