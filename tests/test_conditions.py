"""Conditions, and values under them, are what a table of all outcomes says."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from devlint.signatures.values.conditions import MAX_CLAUSES, TRUE, Atoms, Condition
from devlint.signatures.values.values import Value, constant, either, one_of

TESTS = ("a", "b", "c")
OUTCOMES = list(product((False, True), repeat=len(TESTS)))
# Which way three tests go: no condition of them has more clauses than are kept.
CLAUSES = st.lists(st.dictionaries(st.sampled_from(range(len(TESTS))), st.booleans(), min_size=1), max_size=3)
TABLES = st.lists(st.tuples(CLAUSES, st.integers(0, 3)), min_size=1, max_size=3)


def condition_of(clauses: list[dict[int, bool]], atoms: Atoms) -> Condition:
    """Some ways to something: each says how some tests came out."""
    found: Condition = frozenset()
    for clause in clauses:
        way = TRUE
        for number, outcome in clause.items():
            test = atoms.literal(TESTS[number])
            way = atoms.both(way, test if outcome else atoms.negated(test))
        found = atoms.either(found, way)
    return found


def holds(condition: Condition, outcomes: tuple[bool, ...]) -> bool:
    # The lower bits of a literal count the tests.
    return any(all(outcomes[(abs(x) & 0xFFFFFF) - 1] == (x > 0) for x in clause) for clause in condition)


def atoms_of_tests() -> Atoms:
    atoms = Atoms()
    for test in TESTS:
        atoms.literal(test)
    return atoms


@given(CLAUSES, CLAUSES)
def test_two_conditions_may_meet_where_both_hold_for_some_outcomes(left, right):
    atoms = atoms_of_tests()
    a, b = condition_of(left, atoms), condition_of(right, atoms)
    assert atoms.may_meet(a, b) == any(holds(a, o) and holds(b, o) for o in OUTCOMES) == bool(atoms.both(a, b))


def value_of(table: list[tuple[list[dict[int, bool]], int]], atoms: Atoms) -> Value:
    """A value that is a number where a condition holds and none before it does, and 9 elsewhere."""
    options, left = [], TRUE
    for clauses, number in table:
        condition = condition_of(clauses, atoms)
        options.append((atoms.both(left, condition), constant(number)))
        left = atoms.both(left, atoms.negated(condition))
    return either([*options, (left, constant(9))], atoms)


def seen(value: Value, outcomes: tuple[bool, ...]) -> set[object]:
    return {option.data for condition, option in value.options() if holds(condition, outcomes)}


@given(CLAUSES, TABLES, TABLES)
def test_what_is_one_value_on_one_way_and_another_one_elsewhere(way, left, right):
    atoms = atoms_of_tests()
    when, a, b = condition_of(way, atoms), value_of(left, atoms), value_of(right, atoms)
    found = one_of(when, a, atoms.negated(when), b, atoms)
    for outcomes in OUTCOMES:
        assert seen(found, outcomes) == seen(a if holds(when, outcomes) else b, outcomes)


def test_a_condition_that_grew_too_long_says_whether_it_asked_for_devices() -> None:
    for host_when in (None, True):
        atoms = Atoms()
        ways = TRUE
        for number in range(MAX_CLAUSES):
            one = atoms.either(atoms.literal(("a", number)), atoms.literal(("b", number), host_when))
            ways = atoms.both(ways, one)
        assert atoms.is_forgotten(ways)
        assert atoms.forgets_devices(ways) is (host_when is not None)
