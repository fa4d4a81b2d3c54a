"""Evidence: what the runtime companion saw, laid beside what the linter found.

Reads the JSON that `devlint run --report` and `pytest --devlint-report` write. Neither needs torch here.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devlint.disk import read_bytes
from devlint.escapes import printable
from devlint.findings import Finding, Seen

# The version of the report's form that this module reads (devlint/runtime/watch/report.py).
SCHEMA = 1
# A report has an event for each line of a program where something happened: this is a very large one.
MAX_BYTES = 64_000_000
_NAMES = {
    "mismatch": "mismatch",
    "sync": "sync",
    "staged": "staged copy",
    "transfer": "transfer",
    "round_trip": "round trip",
    "flush": "flush",
}


class EvidenceError(Exception):
    """A report that can't be used; the text is one line that says what to do."""


@dataclass(frozen=True)
class Event:
    """Something that happened at a line, `count` times."""

    kind: str
    path: Path
    line: int
    operation: str
    count: int
    bytes: int

    @property
    def cost(self) -> tuple[bool, int, int]:
        """What sorts events: errors first, then bytes, then how often."""
        return self.kind == "mismatch", self.bytes, self.count


@dataclass(frozen=True)
class Evidence:
    """All events of a report."""

    events: tuple[Event, ...]

    def beside(self, findings: Iterable[tuple[Path, Finding, tuple[str, ...]]]) -> tuple[list[Finding], list[Event]]:
        """(findings, events without one): findings that were seen to happen first, the costliest at the top.

        Each finding comes with its file and the kinds of event that it speaks of.
        """
        told: set[Event] = set()
        marked: list[Finding] = []
        by_line: dict[tuple[Path, int], list[Event]] = defaultdict(list)
        for event in self.events:
            by_line[event.path, event.line].append(event)
        for path, finding, kinds in findings:
            lines = range(finding.span.line, finding.span.end_line + 1)
            seen = [e for line in lines for e in by_line.get((path, line), ()) if e.kind in kinds]
            told.update(seen)
            marked.append(replace(finding, seen=_happened(seen)) if seen else finding)
        left = [event for event in dict.fromkeys(self.events) if event not in told]
        # Stable: what costs the same stays in reading order, or in that of the report.
        return sorted(marked, key=lambda f: f.rank), sorted(left, key=lambda e: e.cost, reverse=True)


def _happened(events: Sequence[Event]) -> Seen:
    """Events of one place as one: a sync and the transfer that it waits for are one happening."""
    failed = any(e.kind == "mismatch" for e in events)
    return Seen(max(e.count for e in events), max(e.bytes for e in events), failed)


def read_evidence(path: Path) -> Evidence:
    """The events of a report. Raises EvidenceError."""
    advice = "write it with `devlint run --report` or `pytest --devlint-report`"
    try:
        raw: Any = json.loads(read_bytes(path, MAX_BYTES))
    except OSError as error:
        raise EvidenceError(f"{path}: can't be read: {error.strerror or error}; {advice}") from None
    except (ValueError, RecursionError):
        raise EvidenceError(f"{path}: isn't JSON; {advice}") from None
    if not isinstance(raw, dict) or raw.get("tool") != "devlint" or not isinstance(raw.get("events"), list):
        raise EvidenceError(f"{path}: isn't a report of devlint; {advice}")
    if raw.get("schema") != SCHEMA:
        raise EvidenceError(
            f"{path}: is of form {raw.get('schema')}, this devlint reads {SCHEMA}; {advice} of this version"
        )
    try:
        return Evidence(tuple(_event(e) for e in raw["events"]))
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise EvidenceError(f"{path}: an event lacks or garbles {error}; {advice}") from None


def _event(raw: dict[str, Any]) -> Event:
    return Event(
        str(raw["kind"]),
        Path(os.path.realpath(raw["path"])),
        int(raw["line"]),
        str(raw["operation"]),
        int(raw["count"]),
        int(raw.get("bytes", 0)),
    )


def describe(events: Sequence[Event], limit: int = 20) -> str:
    """The events that no finding speaks of, a line each; "" for none."""
    if not events:
        return ""
    lines = ["Seen at run time, without a finding:"]
    for event in events[:limit]:
        where = event.path
        if where.is_relative_to(Path.cwd()):
            where = where.relative_to(Path.cwd())
        seen = Seen(event.count, event.bytes)
        lines.append(
            printable(
                f"  {where.as_posix()}:{event.line}: {_NAMES.get(event.kind, event.kind)} by {event.operation}, {seen}"
            )
        )
    if len(events) > limit:
        lines.append(f"  ... and {len(events) - limit} more lines")
    return "\n".join(lines) + "\n"
