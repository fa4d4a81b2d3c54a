"""What a watch saw: dataclasses, their JSON form, and tables for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

# The version of the JSON form. It goes up when a reader of an older one would misread a newer one.
SCHEMA = 1

Kind = Literal["mismatch", "sync", "staged", "transfer", "round_trip", "flush"]
KINDS: tuple[Kind, ...] = ("mismatch", "sync", "staged", "transfer", "round_trip", "flush")
# Those in which the host waits for a device.
WAITS: tuple[Kind, ...] = ("sync", "staged")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a trail: `created` or `moved`, by which operation, where."""

    what: Literal["created", "moved"]
    operation: str
    place: str
    path: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of a mismatch, with the way it came to its place (oldest step first)."""

    place: str
    dtype: str
    shape: tuple[int, ...]
    trail: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a line of user code, `count` times.

    `source` and `target` are places (of a transfer), `bytes` their sum. A mismatch has the error and its operands.
    """

    kind: Kind
    path: str
    line: int
    function: str
    operation: str
    count: int
    bytes: int = 0
    source: str = ""
    target: str = ""
    blocking: bool = True
    error: str = ""
    operands: tuple[Operand, ...] = ()

    @property
    def where(self) -> str:
        """`path:line`, short."""
        from devlint.runtime.watch.sites import Site

        return str(Site(self.path, self.line, self.function))


@dataclass(frozen=True, slots=True)
class Report:
    """All events of a watch, the costliest first within each kind."""

    events: tuple[Event, ...]
    torch: str = ""
    virtual_devices: int = 0
    schema: int = field(default=SCHEMA)

    def of(self, kind: Kind) -> tuple[Event, ...]:
        """The events of one kind."""
        return tuple(event for event in self.events if event.kind == kind)

    @property
    def mismatches(self) -> tuple[Event, ...]:
        """Operations whose operands were at different places."""
        return self.of("mismatch")

    @property
    def syncs(self) -> tuple[Event, ...]:
        """Lines where the host waited for a device."""
        return self.of("sync")

    @property
    def staged(self) -> tuple[Event, ...]:
        """Lines whose copies were to be asynchronous, but had to be staged: the host waited in silence."""
        return self.of("staged")

    @property
    def waits(self) -> tuple[Event, ...]:
        """Lines where the host waited, in silence or not."""
        return tuple(event for kind in WAITS for event in self.of(kind))

    @property
    def transfers(self) -> tuple[Event, ...]:
        """Lines that copied data from place to place."""
        return self.of("transfer")

    @property
    def round_trips(self) -> tuple[Event, ...]:
        """Lines that brought back to a device what had come from one."""
        return self.of("round_trip")

    @property
    def flushes(self) -> tuple[Event, ...]:
        """Lines that emptied the cache or waited for a whole device."""
        return self.of("flush")

    @property
    def sync_count(self) -> int:
        """How many times the host waited."""
        return sum(event.count for event in self.syncs)

    @property
    def transfer_bytes(self) -> int:
        """How many bytes went from place to place."""
        return sum(event.bytes for event in self.transfers)

    def to_dict(self) -> dict[str, Any]:
        """A form that `json.dumps` takes; `from_dict` reads it."""
        return {
            "schema": self.schema,
            "tool": "devlint",
            "torch": self.torch,
            "virtual_devices": self.virtual_devices,
            "totals": {kind: sum(event.count for event in self.of(kind)) for kind in KINDS}
            | {"transfer_bytes": self.transfer_bytes},
            "events": [_event_dict(event) for event in self.events],
        }

    def table(self, limit: int = 10) -> Group:
        """The summary as a rich renderable: mismatches with trails, then the busiest lines of each kind."""
        parts: list[Any] = []
        for event in self.mismatches[:limit]:
            parts.append(Text(describe_mismatch(event)))
        for kind, title in _TITLES.items():
            events = self.of(kind)
            if events:
                parts.append(_table(title, events[:limit], len(events) - limit))
        if not parts:
            parts.append(Text("no mismatches, syncs or transfers seen"))
        return Group(*parts)

    def print(self, console: Console | None = None, limit: int = 10) -> None:
        """Prints `table` (to stderr, where no console is given)."""
        (console or Console(stderr=True, soft_wrap=True)).print(self.table(limit))

    def write(self, path: Path) -> None:
        """Writes the JSON form. Raises OSError where the file can't be written."""
        path.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")


_TITLES: dict[Kind, str] = {
    "sync": "Syncs (the host waited)",
    "staged": "Staged copies (memory that isn't pinned: the host waited in silence)",
    "transfer": "Transfers",
    "round_trip": "Host round trips",
    "flush": "Flushes",
}


def size_text(size: int) -> str:
    """Bytes for people."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def _table(title: str, events: Iterable[Event], left_off: int) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("count", justify="right")
    table.add_column("bytes", justify="right")
    table.add_column("what")
    table.add_column("where", overflow="fold")
    for event in events:
        direction = f" {event.source} -> {event.target}" if event.source else ""
        size = size_text(event.bytes) if event.bytes else ""
        table.add_row(f"{event.count:,}", size, event.operation + direction, event.where)
    if left_off > 0:
        table.add_row("", "", f"... and {left_off} more lines", "")
    return table


def describe_mismatch(event: Event) -> str:
    """The text that is added to the error as a note."""
    from devlint.runtime.watch.sites import Site

    lines = [f"devlint: {event.operation} at {event.where}" + (f" ({event.count} times)" if event.count > 1 else "")]
    for operand in event.operands:
        shape = ", ".join(map(str, operand.shape))
        lines.append(f"  {operand.dtype}[{shape}] on {operand.place}")
        for step in operand.trail:
            site = Site(step.path, step.line, step.function)
            lines.append(
                f"    created on {step.place} by {step.operation} at {site}"
                if step.what == "created"
                else f"    moved to {step.place} by {step.operation} at {site}"
            )
        if not operand.trail:
            lines.append("    made before the watch, or by torch itself")
    return "\n".join(lines)


_DEFAULTS = {"bytes": 0, "source": "", "target": "", "blocking": True, "error": "", "operands": ()}


def _event_dict(event: Event) -> dict[str, Any]:
    found = {name: getattr(event, name) for name in Event.__slots__}
    found["operands"] = [
        {"place": o.place, "dtype": o.dtype, "shape": list(o.shape), "trail": [_step_dict(step) for step in o.trail]}
        for o in event.operands
    ]
    return {name: value for name, value in found.items() if name not in _DEFAULTS or value not in (_DEFAULTS[name], [])}


def _step_dict(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in Step.__slots__}


def from_dict(data: dict[str, Any]) -> Report:
    """Reads the JSON form. Raises ValueError for anything else."""
    if not isinstance(data, dict) or data.get("tool") != "devlint":
        raise ValueError("not a devlint report")
    if data.get("schema") != SCHEMA:
        raise ValueError(f"a devlint report of schema {data.get('schema')}; this version reads {SCHEMA}")
    try:
        events = tuple(_event(item) for item in data["events"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"a damaged devlint report: {error}") from error
    return Report(events, data.get("torch", ""), data.get("virtual_devices", 0))


def _event(item: dict[str, Any]) -> Event:
    operands = tuple(
        Operand(o["place"], o["dtype"], tuple(o["shape"]), tuple(Step(**step) for step in o["trail"]))
        for o in item.get("operands", ())
    )
    return Event(**{**item, "operands": operands})


def merge(reports: Iterable[Report]) -> Report:
    """One report of several (the workers of one test run): same lines are summed."""
    merged: dict[tuple[Any, ...], Event] = {}
    version, devices = "", 0
    for report in reports:
        version, devices = report.torch or version, max(devices, report.virtual_devices)
        for event in report.events:
            key = (event.kind, event.path, event.line, event.operation, event.source, event.target, event.blocking)
            seen = merged.get(key)
            if seen is not None:
                fields = {name: getattr(event, name) for name in Event.__slots__}
                fields |= {"count": event.count + seen.count, "bytes": event.bytes + seen.bytes}
                event = Event(**fields)
            merged[key] = event
    return Report(ordered(merged.values()), version, devices)


def ordered(events: Iterable[Event]) -> tuple[Event, ...]:
    """By kind, then the costliest first."""
    return tuple(sorted(events, key=lambda e: (KINDS.index(e.kind), -e.bytes, -e.count, e.path, e.line, e.operation)))
