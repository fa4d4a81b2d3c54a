"""How far the expression goes that begins at a place."""

from __future__ import annotations

import pytest

from devlint.server.extents import extent
from devlint.textmap import TextMap

TEXT = """\
x = torch.ones(3).to("(") + y
for a, (b, c) in enumerate(loader):  # each
    f(a,
      b)[0].item() + 2
def f(x: int = {1: 2}) -> int: return -x.y
    @torch.no_grad()  # no gradients
y = (1 +
"""


@pytest.mark.parametrize(
    ("line", "column", "text"),
    [
        (1, 1, "x"),
        (1, 5, 'torch.ones(3).to("(")'),
        (1, 29, "y"),
        (2, 1, "for a, (b, c) in enumerate(loader)"),
        (3, 5, "f(a,\n      b)[0].item()"),
        (5, 1, "def f(x: int = {1: 2}) -> int"),
        (5, 39, "-x.y"),
        (6, 5, "@torch.no_grad()"),
        # No Python, and behind the end.
        (7, 5, "(1 +"),
        (7, 4, " (1 +"),
        (90, 1, ""),
    ],
)
def test_what_begins_at_a_place(line: int, column: int, text: str) -> None:
    lines = TextMap(TEXT)
    assert lines.slice(extent(lines, line, column)) == text
