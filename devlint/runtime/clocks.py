"""Counts readings of the wall clock that are made while an accelerator still has work queued.

On a real GPU the stream is asked. Virtual CUDA has done its work when a call returns; there, what would still be queued
is followed: an operation with a result on a device queues work, a sync ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from devlint.runtime.places import is_accelerated, place_of, tensors_in
from devlint.runtime.virtual.patching import Patches
from devlint.runtime.watch.syncs import ALWAYS

_CLOCKS = ("time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "monotonic_ns")


class EarlyReadings(TorchFunctionMode):
    """Inside, `count` counts clock readings that don't include all work; `real` asks the machine's own GPU."""

    def __init__(self, *, real: bool) -> None:
        super().__init__()
        self.count = 0
        self._real = real
        self._queued = False
        self._patches = Patches()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in ALWAYS:
            self._queued = False
        elif any(is_accelerated(place_of(tensor)) for tensor in tensors_in(result)):
            self._queued = True
        return result

    def __enter__(self) -> EarlyReadings:
        for name in _CLOCKS:
            self._patches.set(time, name, self._counting(getattr(time, name)))
        self._patches.set(torch.cuda, "synchronize", self._waiting(torch.cuda.synchronize))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        self._patches.undo()

    def _counting(self, clock: Callable[[], Any]) -> Callable[[], Any]:
        def read() -> Any:
            self.count += not torch.cuda.current_stream().query() if self._real else self._queued
            return clock()

        return read

    def _waiting(self, synchronize: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*args: Any, **kwargs: Any) -> Any:
            self._queued = False
            return synchronize(*args, **kwargs)

        return wait
