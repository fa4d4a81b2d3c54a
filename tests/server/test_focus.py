"""Which lines a change touches, and what becomes of findings elsewhere."""

from __future__ import annotations

import pytest

from devlint.findings import Edit, Finding, Fix, Note, Span
from devlint.server.focus import LONG, Change, change_between

TEXT = """\
import torch

LIMIT = 3


@torch.no_grad()
def one(x):
    y = x
    return y


class Net:
    size = 4

    def forward(self, x):
        if x:
            return x
        return None

    @property
    def width(self):
        return 2


def last():
    return [
    1,
]
""".splitlines(keepends=True)


def changed(number: int, *lines: str) -> Change:
    """The change that puts other lines in the place of one, told by its number from 1."""
    change = change_between(TEXT, [*TEXT[: number - 1], *lines, *TEXT[number:]])
    assert change is not None
    return change


@pytest.mark.parametrize(
    ("line", "within"),
    [
        (1, range(1, 3)),
        (3, range(3, 6)),
        (6, range(6, 12)),
        (8, range(6, 12)),
        (12, range(12, 25)),
        (13, range(12, 25)),
        (16, range(15, 20)),
        (20, range(20, 25)),
        (22, range(20, 25)),
        (25, range(25, 29)),
        (27, range(25, 29)),
    ],
)
def test_the_definition_around_a_change_is_looked_at(line: int, within: range) -> None:
    assert changed(line, TEXT[line - 1].rstrip("\n") + "  # more\n").within == within


def test_lines_that_come_move_what_is_below() -> None:
    change = changed(8, "    y = x\n", "    z = y\n")
    assert (change.first, change.old_end, change.new_end) == (9, 9, 10)
    assert change.within == range(6, 13)


def test_the_last_line_of_a_class_may_go() -> None:
    methods = [
        "class Net:\n",
        "    def one(self):\n",
        "        return 1\n",
        "    def two(self):\n",
        "        return 2\n",
    ]
    change = change_between([*methods, "    x\n"], methods)
    assert change is not None
    assert change.within == range(4, 6)
    assert change_between(["x\n"], []) is not None


def test_a_large_change_is_no_key() -> None:
    assert change_between(TEXT, [f"a{n} = 1\n" for n in range(300)]) is None


def finding(line: int, *, edits: tuple[Edit, ...] = (), notes: tuple[Note, ...] = ()) -> Finding:
    fix = Fix("mend it", "safe", edits) if edits else None
    return Finding("DEV101", "discarded-move", "it is dropped", "a.py", Span(line, 5, line, 9), notes=notes, fix=fix)


def test_findings_elsewhere_move_with_their_lines_notes_and_fixes() -> None:
    change = changed(8, "    y = x\n", "    z = y\n")
    below = finding(
        21, edits=(Edit(Span(21, 5, 21, 5), "x = "),), notes=(Note("made", "a.py", 3, 1), Note("seen", "a.py", 16, 1))
    )
    [moved] = change.moved([below], "a.py")
    assert moved.span == Span(22, 5, 22, 9)
    assert [note.line for note in moved.notes] == [3, 17]
    assert moved.fix is not None
    assert moved.fix.edits == (Edit(Span(22, 5, 22, 5), "x = "),)


def test_findings_around_the_change_are_looked_for_again() -> None:
    assert list(changed(8, "    y = 2\n").moved([finding(7), finding(9)], "a.py")) == []


def test_a_fix_that_reaches_into_the_change_is_left_out() -> None:
    reaching = finding(3, edits=(Edit(Span(3, 1, 3, 2), ""), Edit(Span(8, 1, 8, 2), "")))
    [moved] = changed(8, "    y = 2\n").moved([reaching], "a.py")
    assert moved.fix is None


def test_of_a_long_function_the_statement_around_a_change_is_looked_at() -> None:
    body = [f"    y_{number} = x\n" for number in range(LONG)]
    lines = [
        "def f(\n",
        "    x,\n",
        "):\n",
        *body,
        "    for z in x:\n",
        "        w = z\n",
        "    return x\n",
        "\n",
        "g = 1\n",
    ]
    loop = len(lines) - 4

    def near(number: int) -> Change:
        change = change_between(
            lines, [*lines[: number - 1], lines[number - 1].replace("\n", "  # more\n"), *lines[number:]]
        )
        assert change is not None
        return change

    assert near(10).within == range(10, 11)
    assert near(loop + 1).within == range(loop, loop + 2)
    assert near(1).within == range(1, 2)
    assert near(10).is_part
    assert not near(len(lines)).is_part
    # What stood on other lines of it goes on standing there.
    assert [f.span.line for f in near(loop + 1).moved([finding(loop), finding(loop + 1), finding(3)], "a.py")] == [
        loop,
        3,
    ]
