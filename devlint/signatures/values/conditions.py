"""Conditions as values: under which outcomes of a program's tests something holds.

A condition is in disjunctive normal form: a set of clauses, each a set of literals, each an atom's number, negative
where the test came out false. Equal conditions are equal objects, so that two values which one test decides can't
come apart.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Set
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


# So many conditions are kept with what they are when they don't hold.
_MANY_NEGATED = 4096


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
        self._literals: dict[Hashable, Condition] = {}
        self._atoms: dict[int, Atom] = {}
        self._negated: dict[Condition, Condition] = {}
        # The tests that say of a thing which constant it is, with a number for the thing.
        self._things: dict[Hashable, int] = {}
        self._equal: dict[int, tuple[int, Hashable]] = {}
        # The tests of devices, those of which nothing is known any more, and of these such in which one of devices took part.
        self._of_devices: set[int] = set()
        self._forgotten: set[int] = set()
        self._forgotten_devices: set[int] = set()

    def close(self) -> None:
        """Forgets all tests."""
        self._literals.clear()
        self._atoms.clear()
        self._negated.clear()
        self._things.clear()
        self._equal.clear()
        for tests in (self._of_devices, self._forgotten, self._forgotten_devices):
            tests.clear()

    def equal(self, key: Hashable, thing: Hashable, constant: Hashable, host_when: bool | None = None) -> Condition:
        """The condition that a test came out true which says that a thing is some constant: it is no other one then."""
        told = self.literal(key, host_when)
        ((number,),) = told
        if number not in self._equal:
            self._equal[number] = self._things.setdefault(thing, len(self._things)), constant
        return told

    def contradicts(self, clause: Clause) -> bool:
        """Whether a clause says of a thing that it is two different ones."""
        return len(clause) > 1 and self._settled(clause) is None

    def _settled(self, clause: Clause) -> Clause | None:
        """A clause without what follows from the rest of it, for a thing that is one constant is no other; None where it would be two."""
        equal = self._equal
        told = {equal[x] for x in clause if x in equal}
        if not told:
            return clause
        said = dict(told)
        if len(said) < len(told):
            return None
        follows = [x for x in clause if x < 0 and -x in equal and equal[-x][0] in said]
        return clause.difference(follows) if follows else clause

    def literal(self, key: Hashable, host_when: bool | None = None) -> Condition:
        """The condition that the test of that key came out true."""
        asked = (key, host_when)
        known = self._literals.get(asked)
        if known is None:
            known = self._literals[asked] = self._new(key, host_when)
        return known

    def _new(self, key: Hashable, host_when: bool | None) -> Condition:
        """The condition that a test which wasn't met so far came out true."""
        # What a condition is made smaller to hangs on the order of its tests, which mustn't hang on what was read before.
        rank = crc32(_outline(key).encode(errors="replace"))
        number = rank << 24 | len(self._atoms) + 1
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
        return self._new(("forgotten", about_devices, len(self._atoms)), None)

    def is_forgotten(self, condition: Condition) -> bool:
        """Whether each way to it passes a condition of which nothing is known any more."""
        return not any(self._forgotten.isdisjoint(map(abs, clause)) for clause in condition)

    def forgets(self, condition: Condition) -> bool:
        """Whether a way to it passes a condition of which nothing is known any more."""
        return not self._forgotten.isdisjoint(map(abs, chain.from_iterable(condition)))

    def forgets_devices(self, condition: Condition) -> bool:
        """Whether a way to it passes a condition of which only that is known that a test of devices took part."""
        return not self._forgotten_devices.isdisjoint(map(abs, chain.from_iterable(condition)))

    def both(self, a: Condition, b: Condition) -> Condition:
        """`a and b`."""
        if a is TRUE or a is b:
            return b
        if b is TRUE:
            return a
        if len(a) == 1:
            (c,) = a
            if not c:
                return b
            if len(b) == 1:
                (d,) = b
                if d <= c:
                    return a
                if not d.isdisjoint(map(neg, c)):
                    return FALSE
                settled = self._settled(c | d)
                return FALSE if settled is None else frozenset((settled,))
        elif b == TRUE:
            return a
        joint = _conjoined(a, b)
        if self._equal and not self._equal.keys().isdisjoint(chain.from_iterable(joint)):
            told = {settled for clause in joint if (settled := self._settled(clause)) is not None}
            joint = joint if told == joint else _simplified(told)
        return joint if len(joint) <= MAX_CLAUSES else self._given_up(joint)

    def may_meet(self, a: Condition, b: Condition) -> bool:
        """Whether there is a way to `a and b`, which needn't be worked out for that."""
        if a is TRUE or b is TRUE:
            return bool(a) and bool(b)
        for c in a:
            denied = frozenset(map(neg, c))
            for d in b:
                if denied.isdisjoint(d) and not self.contradicts(c | d):
                    return True
        return False

    def either(self, a: Condition, b: Condition) -> Condition:
        """`a or b`."""
        if a == b or not b:
            return a
        if not a:
            return b
        if len(a) == 1 and len(b) == 1:
            return _of_two(*a, *b)
        joint = _disjoined(a, b)
        return joint if len(joint) <= MAX_CLAUSES else self._given_up(joint)

    def negated(self, a: Condition) -> Condition:
        """`not a`."""
        known = self._negated.get(a)
        if known is None:
            if len(self._negated) == _MANY_NEGATED:
                self._negated.clear()
            known = self._negated[a] = self._denied(a)
        return known

    def _denied(self, a: Condition) -> Condition:
        if len(a) == 1:
            (clause,) = a
            return frozenset([frozenset((-x,)) for x in clause])
        denied = TRUE
        for clause in clauses_of(a):
            denied = self.both(denied, frozenset([frozenset((-x,)) for x in clause]))
        return denied

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
    if isinstance(key, str):
        return _COUNT.sub("", key) if "#" in key or " at " in key else key
    if isinstance(key, tuple):
        if key and key[0] in _COUNTED:
            # What a scope meets is told apart by the node and the turn.
            return f"({key[0]})"
        return f"({','.join([_outline(part) for part in key])})"
    kind, path, data = getattr(key, "kind", None), getattr(key, "path", None), getattr(key, "data", None)
    if isinstance(path, tuple):
        return f"{kind} {_outline(path)}"
    return f"{type(key).__name__} {kind} {data if isinstance(data, (str, int, float)) else ''}"


_COUNTED = frozenset({"ran", "again", "broke", "raised", "handler", "pattern", "forgotten", "this is call"})
_COUNT = regex(r"#[\d.]+| at \d+")


def clauses_of(condition: Condition) -> Collection[Clause]:
    """The clauses of a condition, in the same order whatever was read before."""
    return _in_order(condition) if len(condition) > 1 else condition


@lru_cache(maxsize=2048)
def _in_order(condition: Condition) -> tuple[Clause, ...]:
    return tuple(sorted(condition, key=_order))


@lru_cache(maxsize=1 << 13)
def _order(clause: Clause) -> tuple[int, tuple[int, ...]]:
    return len(clause), tuple(sorted(clause))


def about(condition: Condition, tests: Set[int]) -> Condition:
    """What a condition says of some tests."""
    return _simplified({frozenset(x for x in clause if abs(x) in tests) for clause in condition})


# The same two conditions meet again and again on a program's way: once for each value that they decide.
@lru_cache(maxsize=2048)
def _conjoined(a: Condition, b: Condition) -> Condition:
    if len(a) == 1 or len(b) == 1:
        ((one,), others) = (a, b) if len(a) == 1 else (b, a)
        return _narrowed(one, others)
    if tests_of(a).isdisjoint(tests_of(b)):
        # Nothing of the one makes anything of the other superfluous.
        return frozenset([c | d for c in a for d in b])
    met = set[Clause]()
    for c in a:
        denied = frozenset(map(neg, c))
        met.update([c | d for d in b if denied.isdisjoint(d)])
    return _simplified(met)


def _narrowed(clause: Clause, condition: Condition) -> Condition:
    """What a condition says where a clause holds, with that clause."""
    denied = frozenset(map(neg, clause))
    kept = [c for c in condition if denied.isdisjoint(c)]
    if len(kept) == len(condition) and all(map(clause.isdisjoint, kept)):
        # Nothing of the one makes anything of the other superfluous.
        return frozenset([clause | c for c in kept])
    # What all have in common makes nothing superfluous.
    return frozenset([clause | c for c in _simplified({c - clause for c in kept})])


@lru_cache(maxsize=2048)
def _disjoined(a: Condition, b: Condition) -> Condition:
    return _simplified({*a, *b})


@lru_cache(maxsize=2048)
def tests_of(condition: Condition) -> frozenset[int]:
    """The tests that take part in a condition, whatever their outcome."""
    return frozenset(map(abs, frozenset().union(*condition)))


def _simplified(clauses: set[Clause]) -> Condition:
    """The clauses without those that others make superfluous: `a b | a -b` is `a`, `a | a b` is `a`."""
    count = len(clauses)
    if count == 2:
        # Most often: nothing can follow from what is left of them.
        return _of_two(*clauses)
    if count < 2:
        return TRUE if frozenset() in clauses else frozenset(clauses)
    kept: list[Clause] = []
    for clause in sorted(clauses, key=len):
        is_new = True
        denied = frozenset(map(neg, clause))
        for other in kept:
            if other <= clause:
                is_new = False
            elif not denied.isdisjoint(other) and len(other - clause) == 1:
                # From here on it hangs on which comes first.
                return _reduced(clauses)
        if is_new:
            kept.append(clause)
    return frozenset(_without_covered(kept)) if kept[0] else TRUE


def _reduced(clauses: set[Clause]) -> Condition:
    """The same where a clause makes a test of another one superfluous."""
    kept = _absorbed(clauses)
    return TRUE if kept == [frozenset()] else frozenset(_without_covered(kept))


def _absorbed(clauses: set[Clause]) -> list[Clause]:
    """The clauses without those, and without the tests, that one other makes superfluous."""
    # Only a clause that is as long makes another one superfluous, or shorter.
    kept = sorted(clauses, key=_order)
    changed = True
    while changed:
        changed, at = False, 0
        while at < len(kept) - 1:
            clause = kept[at]
            denied = frozenset(map(neg, clause))
            at += 1
            superfluous = []
            for place in range(at, len(kept)):
                other = kept[place]
                if clause <= other:
                    superfluous.append(place)
                elif not denied.isdisjoint(other) and len(clause - other) == 1:
                    kept[place] = other - denied
                    changed = True
            for place in reversed(superfluous):
                del kept[place]
                changed = True
        if changed:
            kept = sorted(set(kept), key=_order)
    return kept


# Whether the others cover a clause is asked of so many at most.
_MANY = 12


def _without_covered(clauses: list[Clause]) -> list[Clause]:
    """The clauses without those that the others say together: of `a b | -a c | b c`, the last."""
    literals = frozenset[int]().union(*clauses) if 2 < len(clauses) <= _MANY else frozenset[int]()
    # Clauses say something together only by a test that comes out both ways in them, and of which the other says nothing.
    both_ways = literals.intersection(map(neg, literals))
    covered = [c for c in clauses if _is_covered(c, clauses, both_ways)] if both_ways else []
    # Of several that cover one another, some stay.
    for clause in sorted(covered, key=_order, reverse=True) if len(covered) > 1 else covered:
        if _is_covered(clause, clauses, both_ways):
            clauses = [c for c in clauses if c is not clause]
    return clauses


def _is_covered(clause: Clause, clauses: list[Clause], both_ways: Clause) -> bool:
    """Whether some clauses, but for one of them, hold wherever that does; `both_ways` are the literals of tests that come out so."""
    denied = frozenset(map(neg, clause))
    known = both_ways | clause
    others = [c - clause for c in clauses if c is not clause and c <= known and denied.isdisjoint(c)]
    return len(others) > 1 and _is_always(others)


def _covers(condition: Collection[Clause], clause: Clause) -> bool:
    """Whether a condition holds wherever a clause does, by several of its own together."""
    denied = frozenset(map(neg, clause))
    return len(condition) > 1 and _is_always([c - clause for c in condition if denied.isdisjoint(c)])


def _is_always(clauses: list[Clause]) -> bool:
    """Whether one of some clauses holds, however their tests come out."""
    if not all(clauses):
        return True
    literals = frozenset[int]().union(*clauses)
    # A clause with a test that comes out but one way in them says nothing of the other.
    both_ways = literals.intersection(map(neg, literals))
    left = [c for c in clauses if c <= both_ways] if both_ways else []
    if len(left) < 2:
        return False
    if len(left) < len(clauses):
        return _is_always(left)
    # A clause of one test says a half of all that may be, one of two a quarter.
    if sum([0.5 ** len(c) for c in left]) < 1:
        return False
    test = min(x for x in both_ways if x > 0)
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
