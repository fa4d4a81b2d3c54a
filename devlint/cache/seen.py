"""What a run, or one process of it, has seen of the files around those that it linted."""

from __future__ import annotations

from dataclasses import field

from devlint.records import record
from devlint.settings import Settings
from devlint.source.filesystem import FileFacts
from devlint.source.looks import Looks


@record
class Seen:
    """What the linting of files saw of others."""

    # By settings, which tell where imports start from.
    looks: dict[Settings, Looks] = field(default_factory=dict)
    facts: dict[str, FileFacts] = field(default_factory=dict)

    def take_in(self, other: Seen) -> None:
        """Adds what another process saw."""
        for settings, looks in other.looks.items():
            self.looks.setdefault(settings, Looks()).take_in(looks)
        self.facts |= other.facts
