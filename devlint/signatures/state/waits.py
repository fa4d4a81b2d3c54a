"""Points where the host may wait for an accelerator, as a reading notes them: what is done, to what, under which path."""

from __future__ import annotations

import ast

from devlint.signatures.state.frame import Frame
from devlint.signatures.state.outcome import Wait
from devlint.signatures.values.values import Value

# A value is read: `.item()`, `int(t)`, `range(t)`, `x[:t]`.
READ = "read"
# A tensor is copied to the host, and the host waits for the copy.
COPY = "copy"
# The same without waiting: whoever reads the copy has to.
RACE = "race"
# A tensor becomes text.
TEXT = "text"
# A value decides which way the host goes.
DECIDE = "decide"
# Values decide how large a result is.
SIZE = "size"
# Whether something could be computed is looked up on the host.
SOLVED = "solved"
# A tensor is made on an accelerator from what the host has: a copy from memory that isn't pinned.
MADE = "made"
# What is on the host is copied to an accelerator, or back into memory of the host, without waiting as it seems.
STAGED = "staged"
# All work that was queued is waited for.
FLUSH = "flush"
# A collective is asked for a tensor, which all processes then have to bring from the same kind of device.
COLLECTIVE = "collective"


def note(
    frame: Frame, sense: str, node: ast.expr | ast.stmt, name: str, asked: ast.expr, value: Value,
    target: Value | None = None,
) -> None:  # fmt: skip
    """Notes a point where the host may wait."""
    frame.waits.append(Wait(sense, node, name, asked, value, frame.path, target, frame.supposing > 0))
