"""Counts events while a program runs. Nothing is formatted or looked up before a report is asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from devlint.runtime import allowed
from devlint.runtime.places import TRAIL, place_of
from devlint.runtime.watch.report import Event, Kind, Operand, Report, Step, ordered
from devlint.runtime.watch.sites import Mark, site


class Trail(tuple[Any, Any, Any, Any]):
    """A tensor's trail: operation, mark, (source, target) of a move or None for "created", the step before."""

    __slots__ = ()

    def __deepcopy__(self, memo: Any) -> Trail:
        return self


_SPOKEN = {
    "__bool__": "bool()",
    "__float__": "float()",
    "__int__": "int()",
    "__index__": "int()",
    "__complex__": "complex()",
    "__getitem__": "indexing",
    "__setitem__": "index assignment",
}


# A tensor that goes back and forth in a loop keeps its oldest step and the newest ones.
_LONGEST = 8


def extended(trail: Trail | None, operation: Any, marked: Any, move: Any) -> Trail:
    """A trail with one step more, shortened in the middle where it grows long."""
    steps = []
    link: Any = trail
    while link is not None:
        steps.append(link)
        link = link[3]
    if len(steps) >= _LONGEST:
        shortened: Any = steps[-1]
        source = steps[-2][2][0]  # where it was created: the first move says it
        for step in reversed(steps[: _LONGEST - 2]):
            shortened = Trail((step[0], step[1], (source, step[2][1]), shortened))
            source = step[2][1]
        trail = shortened
    return Trail((operation, marked, move, trail))


def operation_name(func: Any) -> str:
    """The name under which people know a function: `__get__` of `grad` is `grad`, `__bool__` is `bool()`."""
    if isinstance(func, str):
        return func
    name = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__"):
        return str(getattr(func.__self__, "__name__", name))
    return _SPOKEN.get(name, str(name))


def trail_steps(tensor: torch.Tensor) -> tuple[Step, ...]:
    """A tensor's trail, oldest step first."""
    steps: list[Step] = []
    here = str(place_of(tensor))
    trail: Trail | None = getattr(tensor, TRAIL, None)
    links: list[Trail] = []
    while trail is not None:
        links.append(trail)
        trail = trail[3]
    links.reverse()
    for position, (operation, marked, move, _) in enumerate(links):
        found = site(marked)
        if move is None:
            following = links[position + 1][2] if position + 1 < len(links) else None
            place = str(following[0]) if following else here
            steps.append(Step("created", operation_name(operation), place, found.path, found.line, found.function))
        else:
            steps.append(Step("moved", operation_name(operation), str(move[1]), found.path, found.line, found.function))
    return tuple(steps)


def operand_of(tensor: torch.Tensor) -> Operand:
    """A tensor as a mismatch shows it."""
    return Operand(
        str(place_of(tensor)), str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), trail_steps(tensor)
    )


@dataclass
class _Tally:
    count: int = 0
    bytes: int = 0


@dataclass
class Recorder:
    """The events of one watch, from all threads."""

    virtual_devices: int = 0
    _tallies: dict[tuple[Any, ...], _Tally] = field(default_factory=dict)
    _mismatches: dict[tuple[Any, ...], Event] = field(default_factory=dict)
    _muted: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self, kind: Kind, func: Any, marked: Mark | None, size: int = 0, move: Any = None, blocking: bool = True
    ) -> None:
        """Counts an event; `move` is (source, target) for those that carry data."""
        if self._muted or (kind in ("sync", "staged", "flush") and allowed.reasons.get()):
            return
        key = (kind, operation_name(func), marked, move, blocking)
        with self._lock:
            tally = self._tallies.get(key)
            if tally is None:
                tally = self._tallies[key] = _Tally()
            tally.count += 1
            tally.bytes += size

    def add_mismatch(self, func: Any, marked: Mark | None, tensors: list[torch.Tensor], error: BaseException) -> Event:
        """Notes an operation whose operands did not meet; returns it, with trails."""
        found = site(marked)
        text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        operands = tuple(operand_of(tensor) for tensor in tensors[:8])
        event = Event(
            "mismatch", found.path, found.line, found.function, operation_name(func), 1, error=text, operands=operands
        )
        key = (found, event.operation)
        with self._lock:
            before = self._mismatches.get(key)
            count = 1 if before is None else before.count + 1
            fields = {name: getattr(event, name) for name in Event.__slots__} | {"count": count}
            self._mismatches[key] = Event(**fields)
        return event

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Inside, nothing is counted: it belongs to an event that is, or to nobody."""
        before, self._muted = self._muted, True
        try:
            yield
        finally:
            self._muted = before

    def clear(self) -> None:
        """Forgets everything so far."""
        with self._lock:
            self._tallies.clear()
            self._mismatches.clear()

    def report(self) -> Report:
        """All events so far, summed by line."""
        with self._lock:
            tallies = list(self._tallies.items())
            events = list(self._mismatches.values())
        lines: dict[tuple[Any, ...], _Tally] = {}
        for (kind, name, marked, move, blocking), tally in tallies:
            source, target = (str(move[0]), str(move[1])) if move else ("", "")
            line = lines.setdefault((kind, name, site(marked), source, target, blocking), _Tally())
            line.count += tally.count
            line.bytes += tally.bytes
        for (kind, name, found, source, target, blocking), tally in lines.items():
            events.append(
                Event(
                    kind,
                    found.path,
                    found.line,
                    found.function,
                    name,
                    tally.count,
                    tally.bytes,
                    source,
                    target,
                    blocking,
                )
            )
        return Report(ordered(events), str(torch.__version__), self.virtual_devices)
