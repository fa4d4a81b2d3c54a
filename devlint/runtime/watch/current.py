"""The watches that count right now, in this thread and task.

Function modes belong to a thread, but many tasks may take turns on one: what a task does counts for the watches that it,
or what started it, has entered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from devlint.runtime import modes
from devlint.runtime.watch.recorder import Recorder
from devlint.runtime.watch.report import Event, Kind
from devlint.runtime.watch.sites import Mark

_recorders: ContextVar[tuple[Recorder, ...]] = ContextVar("recorders", default=())


def recorders() -> tuple[Recorder, ...]:
    """Those that count here, the innermost watch's last."""
    return _recorders.get()


def begin(*more: Recorder) -> None:
    """From now on, these count here too."""
    _recorders.set((*_recorders.get(), *more))


def end(recorder: Recorder) -> None:
    """One counts no more here. (It may be another context than the one that it began in: a fixture's.)"""
    left = list(_recorders.get())
    if recorder in left:
        left.remove(recorder)
        _recorders.set(tuple(left))


def add(kind: Kind, func: Any, marked: Mark | None, size: int = 0, move: Any = None, blocking: bool = True) -> None:
    """Counts an event (`Recorder.add`)."""
    for recorder in _recorders.get():
        recorder.add(kind, func, marked, size, move, blocking)


def add_mismatch(func: Any, marked: Mark | None, tensors: list[torch.Tensor], error: BaseException) -> Event | None:
    """Notes a mismatch (`Recorder.add_mismatch`); None where nobody watches."""
    event = None
    for recorder in _recorders.get():
        event = recorder.add_mismatch(func, marked, tensors, error)
    return event


@contextmanager
def muted() -> Iterator[None]:
    """Inside, nothing is counted."""
    with ExitStack() as stack:
        for recorder in _recorders.get():
            stack.enter_context(recorder.muted())
        yield


class SharedMode:
    """One function mode for each thread, there as long as any task of the thread is watched."""

    def __init__(self, mode: type[Any]) -> None:
        self._make = mode
        self._local = threading.local()

    def enter(self) -> None:
        """One watch more on this thread."""
        self._local.count = getattr(self._local, "count", 0) + 1
        if self._local.count == 1:
            self._local.mode = self._make()
            self._local.mode.__enter__()

    def leave(self) -> None:
        """One watch less. Tasks end in any order, so that other modes may lie above."""
        self._local.count = getattr(self._local, "count", 1) - 1
        if self._local.count == 0:
            modes.take_away(self._local.mode)
            del self._local.mode
