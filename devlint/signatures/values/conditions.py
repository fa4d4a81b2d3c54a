"""Conditions as values: under which outcomes of a program's tests something holds.

A condition is in disjunctive normal form: a set of clauses, each a set of literals, each an atom's number, negative
where the test came out false. Equal conditions are equal objects, so that two values which one test decides can't
come apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from functools import lru_cache
from itertools import chain
from operator import neg
from typing import NamedTuple
from zlib import crc32

from devlint.regexes import regex

Clause = frozenset[int]
Condition = frozenset[Clause]

TRUE: Condition = frozenset({frozenset()})
FALSE: Condition = frozenset()

# A condition with more clauses than these is forgotten: something that may be so or not, and goes with nothing else.
MAX_CLAUSES = 6


class Atom(NamedTuple):
    """One test: what makes it the same test elsewhere, and what it says of accelerators.

    `host_when` is the outcome under which the program, or the tensor that is asked, is on the host; None where the test
    isn't about devices at all.
    """

    key: Hashable
    host_when: bool | None


class Atoms:
    """The tests of one analysis, each with a number of its own."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._atoms: dict[int, Atom] = {}
        self._negated: dict[Condition, Condition] = {}
        # The tests of devices, those of which nothing is known any more, and of these such in which one of devices took part.
        self._of_devices: set[int] = set()
        self._forgotten: set[int] = set()
        self._forgotten_devices: set[int] = set()

    def close(self) -> None:
        """Forgets all tests."""
        self._numbers.clear()
        self._atoms.clear()
        self._negated.clear()
        for tests in (self._of_devices, self._forgotten, self._forgotten_devices):
            tests.clear()

    def literal(self, key: Hashable, host_when: bool | None = None) -> Condition:
        """The condition that the test of that key came out true."""
        number = self._numbers.get((key, host_when))
        if number is None:
            # What a condition is made smaller to hangs on the order of its tests, which mustn't hang on what was read before.
            rank = crc32(_outline(key).encode(errors="replace"))
            number = self._numbers[key, host_when] = rank << 24 | len(self._atoms) + 1
            self._atoms[number] = Atom(key, host_when)
            self._sort(number, key, host_when)
        return frozenset({frozenset({number})})

    def _sort(self, number: int, key: Hashable, host_when: bool | None) -> None:
        if host_when is not None:
            self._of_devices.add(number)
        while isinstance(key, tuple) and key[0] == "at call":
            key = key[2]
        if isinstance(key, tuple) and key[0] == "forgotten":
            self._forgotten.add(number)
            if key[1]:
                self._forgotten_devices.add(number)

    def atom(self, literal: int) -> Atom:
        """The test of a literal, whatever its outcome."""
        return self._atoms[abs(literal)]

    def forgotten(self, *, about_devices: bool = False) -> Condition:
        """A condition of which nothing is known any more, but whether a test of devices took part."""
        return self.literal(("forgotten", about_devices, len(self._atoms)))

    def is_forgotten(self, condition: Condition) -> bool:
        """Whether each way to it passes a condition of which nothing is known any more."""
        return not any(self._forgotten.isdisjoint(map(abs, clause)) for clause in condition)

    def forgets_devices(self, condition: Condition) -> bool:
        """Whether a way to it passes a condition of which only that is known that a test of devices took part."""
        return not self._forgotten_devices.isdisjoint(map(abs, chain.from_iterable(condition)))

    def both(self, a: Condition, b: Condition) -> Condition:
        """`a and b`."""
        if a is TRUE or a == TRUE or a is b:
            return b
        if b == TRUE:
            return a
        if len(a) == 1 and len(b) == 1:
            (c,), (d,) = a, b
            return a if d <= c else frozenset({c | d}) if _go_together(c, d) else FALSE
        joint = _conjoined(a, b)
        return joint if len(joint) <= MAX_CLAUSES else self._given_up(joint)

    def may_meet(self, a: Condition, b: Condition) -> bool:
        """Whether there is a way to `a and b`, which needn't be worked out for that."""
        if a is TRUE or b is TRUE:
            return bool(a) and bool(b)
        return any(_go_together(c, d) for c in a for d in b)

    def either(self, a: Condition, b: Condition) -> Condition:
        """`a or b`."""
        if a == b or not b:
            return a
        if not a:
            return b
        joint = _disjoined(a, b)
        return joint if len(joint) <= MAX_CLAUSES else self._given_up(joint)

    def negated(self, a: Condition) -> Condition:
        """`not a`."""
        known = self._negated.get(a)
        if known is None:
            known = TRUE
            for clause in clauses_of(a):
                known = self.both(known, frozenset(frozenset({-x}) for x in clause))
            self._negated[a] = known
        return known

    def _given_up(self, condition: Condition) -> Condition:
        return self.forgotten(about_devices=self.about_devices(condition) or self.forgets_devices(condition))

    def implies(self, a: Condition, b: Condition) -> bool:
        """Whether `b` holds wherever `a` does; False where that can't be told."""
        return b == TRUE or all(any(d <= c for d in b) or _covers(b, c) for c in a)

    def with_host(self, condition: Condition) -> bool:
        """Whether each way to it passes a test that says: this is on the host, the program runs without accelerator."""
        return bool(condition) and all(any(self._says_host(x) for x in clause) for clause in condition)

    def about_devices(self, condition: Condition) -> bool:
        """Whether a test of devices takes part."""
        return not self._of_devices.isdisjoint(map(abs, chain.from_iterable(condition)))

    def _says_host(self, literal: int) -> bool:
        told = self.atom(literal).host_when
        return told is not None and told == (literal > 0)


def _outline(key: object) -> str:
    """What the key of a test is in any run, whatever else was read: without what was counted on the way."""
    if isinstance(key, tuple):
        # What a scope meets is told apart by the node and the turn.
        parts = key[:1] if key and key[0] in _COUNTED else key
        return f"({','.join([_outline(part) for part in parts])})"
    if isinstance(key, str):
        return _COUNT.sub("", key) if "#" in key or " at " in key else key
    kind, path, data = (getattr(key, name, None) for name in ("kind", "path", "data"))
    if isinstance(path, tuple):
        return f"{kind} {_outline(path)}"
    return f"{type(key).__name__} {kind} {data if isinstance(data, (str, int, float)) else ''}"


_COUNTED = ("ran", "again", "broke", "raised", "handler", "pattern", "forgotten", "this is call")
_COUNT = regex(r"#[\d.]+| at \d+")


@lru_cache(maxsize=4096)
def clauses_of(condition: Condition) -> tuple[Clause, ...]:
    """The clauses of a condition, in the same order whatever was read before."""
    return tuple(sorted(condition, key=_order))


@lru_cache(maxsize=1 << 15)
def _order(clause: Clause) -> tuple[int, tuple[int, ...]]:
    return len(clause), tuple(sorted(clause))


def about(condition: Condition, tests: Set[int]) -> Condition:
    """What a condition says of some tests."""
    return _simplified({frozenset(x for x in clause if abs(x) in tests) for clause in condition})


def _go_together(c: Clause, d: Clause) -> bool:
    """Whether no test would have to come out both ways."""
    return d.isdisjoint(map(neg, c))


# The same two conditions meet again and again on a program's way: once for each value that they decide.
@lru_cache(maxsize=2048)
def _conjoined(a: Condition, b: Condition) -> Condition:
    if tests_of(a).isdisjoint(tests_of(b)):
        # Nothing of the one makes anything of the other superfluous.
        return frozenset([c | d for c in a for d in b])
    return _simplified({c | d for c in a for d in b if _go_together(c, d)})


@lru_cache(maxsize=2048)
def _disjoined(a: Condition, b: Condition) -> Condition:
    return _simplified({*a, *b})


@lru_cache(maxsize=2048)
def tests_of(condition: Condition) -> frozenset[int]:
    """The tests that take part in a condition, whatever their outcome."""
    return frozenset(map(abs, frozenset().union(*condition)))


def _simplified(clauses: set[Clause]) -> Condition:
    """The clauses without those that others make superfluous: `a b | a -b` is `a`, `a | a b` is `a`."""
    if len(clauses) == 2:
        # Most often: nothing can follow from what is left of them.
        return _of_two(*clauses)
    # Only a clause that is as long makes another one superfluous, or shorter.
    kept = sorted(clauses, key=_order)
    changed = len(kept) > 1
    while changed:
        changed, at = False, 0
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
            kept = sorted(set(kept), key=_order)
    if kept == [frozenset()]:
        return TRUE
    return frozenset(kept if len(kept) > _MANY else _without_covered(kept))


# Whether the others cover a clause is asked of so many at most.
_MANY = 12


def _without_covered(clauses: list[Clause]) -> list[Clause]:
    """The clauses without those that the others say together: of `a b | -a c | b c`, the last."""
    literals = frozenset[int]().union(*clauses) if len(clauses) > 2 else frozenset[int]()
    # Clauses say something together only by a test that comes out both ways in them, and of which the other says nothing.
    both_ways = literals.intersection(map(neg, literals))
    for clause in reversed(clauses) if both_ways else ():
        if both_ways.issubset(chain(clause, map(neg, clause))):
            continue
        others = [c for c in clauses if c != clause]
        if _covers(frozenset(others), clause):
            clauses = others
    return clauses


@lru_cache(maxsize=4096)
def _covers(condition: Condition, clause: Clause) -> bool:
    """Whether a condition holds wherever a clause does, by several of its own together."""
    return len(condition) > 1 and _is_always([c - clause for c in condition if _go_together(c, clause)])


def _is_always(clauses: list[Clause]) -> bool:
    """Whether one of some clauses holds, however their tests come out."""
    if any(not c for c in clauses):
        return True
    literals = frozenset[int]().union(*clauses)
    test = next((x for x in sorted(literals) if x > 0 and -x in literals), None)
    if test is None:
        return False
    return all(_is_always([c - {x} for c in clauses if -x not in c]) for x in (test, -test))


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
