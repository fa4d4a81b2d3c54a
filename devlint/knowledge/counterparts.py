"""What stands in for the names of `torch.cuda` on any accelerator.

`counterparts.json` is found by running both, by tools/counterparts.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Literal

from devlint.knowledge.files import text_of

Release = tuple[int, int]


@dataclass(frozen=True)
class Counterpart:
    """What does for any accelerator what something in `torch.cuda` does for CUDA."""

    name: str
    # The first release that has it; None where all that count have.
    since: Release | None
    # On a machine with CUDA, both do the same for these forms of the first argument: `nothing`, `index`, `text`, `device`, `none`.
    forms: frozenset[str]
    # What it gives is the same too; otherwise it has a wider class, or another call.
    exact: bool
    # Its first argument can't be given by keyword.
    by_position: bool
    # Its first argument is the type of the device.
    of_type: bool
    # On a machine without an accelerator: `alike`, or it `raises` where CUDA's doesn't.
    without: Literal["alike", "raises", "differs"]


@cache
def counterparts() -> dict[str, Counterpart]:
    """`torch.cuda.X` -> its counterpart; read once for a process."""
    raw = json.loads(text_of("counterparts.json"))
    return {
        name: Counterpart(
            facts["name"],
            _release(facts["since"]),
            frozenset(facts["forms"]),
            facts["exact"],
            facts.get("by_position", False),
            facts.get("of_type", False),
            facts["without"],
        )
        for name, facts in raw["counterparts"].items()
    }


def counterpart(name: str, oldest: Release | None) -> Counterpart | None:
    """What stands in for a name, for code that runs with torch from the release `oldest` on (None: with the newest)."""
    found = counterparts().get(name)
    if found is None or (oldest is not None and found.since is not None and found.since > oldest):
        return None
    return found


def _release(text: str | None) -> Release | None:
    if text is None:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)
