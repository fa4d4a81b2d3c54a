"""Stand-in rule pack."""

from __future__ import annotations

from devlint.rule import Rule


def _rule(code: str, name: str, doc: str, *, default: bool = True, fix: str = "-") -> type[Rule]:
    return type(code, (Rule,), {"code": code, "name": name, "__doc__": doc, "default": default, "fix": fix})


RULES = [
    _rule("DEV000", "unreadable-file", "A file that can't be read or parsed."),
    _rule("DEV001", "unused-suppression", "A suppression that suppresses nothing.", fix="S"),
    _rule("DEV002", "unknown-code", "An unknown code in a suppression."),
    _rule("DEV003", "withheld-fix", "A fix that was withheld."),
    _rule("DEV101", "discarded-move", "A tensor's move whose result is dropped.\n\n## What it does\nLooks.", fix="S"),
    _rule("DEV301", "load-without-map-location", "`torch.load` without `map_location`.", fix="S/U"),
    _rule("DEV501", "item-in-hot-loop", "A sync in each pass of a hot loop.", fix="U"),
    _rule("DEV502", "host-copy-in-hot-loop", "A host copy in each pass of a hot loop.", fix="U"),
    _rule("DEV507", "blocking-copy", "A copy that blocks.", default=False, fix="S"),
    _rule("DEV603", "hard-coded-device", "A fixed device.", default=False, fix="U"),
]
