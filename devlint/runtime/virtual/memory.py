"""What tensors hold of a virtual device's memory, and where it ends.

Nothing is counted before somebody asks, or sets a limit. From then on each new storage is, when a call returns it, and
its end is told by a weak reference. Memory that only C++ has seen counts from when Python first gets at it.
"""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import torch

from devlint.runtime.places import TAG, tensors_in
from devlint.runtime.virtual import engine
from devlint.runtime.virtual.errors import out_of_memory

_BLOCK = 512  # CUDA's allocator gives whole blocks
_COUNTED = "_devlint_counted"
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
DEFAULT_TOTAL = 16 * 2**30


def parse_size(size: int | str) -> int:
    """Bytes of `"16GiB"`, `"500MB"` (both in powers of 1024) or a number. Raises ValueError for anything else."""
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", size.lower() if isinstance(size, str) else "")
    if match is None or float(match[1]) == 0:
        raise ValueError(f'virtual_cuda: memory must be a number of bytes or a text such as "16GiB", not {size!r}')
    return int(float(match[1]) * _UNITS[match[2]])


class Ledger:
    """The bytes that are held at each device, and the most that were."""

    def __init__(self) -> None:
        self.on = False
        self.limit: int | None = None
        self.fractions: dict[int, float] = {}
        self.held: dict[int, int] = {}
        self.peak: dict[int, int] = {}
        self._ends: dict[int, weakref.ref[Any]] = {}
        self._round = 0  # what was counted before `clear` isn't now

    @property
    def total(self) -> int:
        """What a device has in all."""
        return DEFAULT_TOTAL if self.limit is None else self.limit

    def clear(self) -> None:
        """Stops counting."""
        self.on, self.limit = False, None
        self._round += 1
        for kept in (self.fractions, self.held, self.peak, self._ends):
            kept.clear()

    def start(self) -> None:
        """Counts what is alive; from now on, calls count what they make."""
        if self.on:
            return
        self.on = True
        for found in gc.get_objects():
            # `type(...)`: isinstance would run the __class__ properties of strangers' proxies.
            if issubclass(type(found), torch.Tensor) and getattr(found, TAG, None) is not None:
                self._take(found)

    def note(self, result: Any) -> None:
        """Counts what a call returned. Raises OutOfMemoryError where a device has no more."""
        __tracebackhide__ = True
        for tensor in tensors_in(result):
            if tensor._devlint_place is not None:  # type: ignore[attr-defined]
                self._take(tensor, limited=True)

    def _allowed(self, index: int) -> int | None:
        if index in self.fractions:
            return int(self.total * self.fractions[index])
        return self.limit

    def _take(self, tensor: Any, limited: bool = False) -> None:
        __tracebackhide__ = True
        try:
            with torch._C.DisableTorchFunction():
                storage = torch._C.TensorBase.untyped_storage(tensor)
                size = -(-storage.nbytes() // _BLOCK) * _BLOCK
                index = tensor._devlint_place.index
                if getattr(storage, _COUNTED, None) == (self._round, index) or size == 0:
                    return
        except (RuntimeError, NotImplementedError):
            return  # no storage: sparse, wrapped, meta
        held, allowed = self.held.get(index, 0), self._allowed(index)
        if limited and allowed is not None and held + size > allowed:
            raise out_of_memory(size, index, self.total, held)
        setattr(storage, _COUNTED, (self._round, index))
        self.held[index] = held + size
        self.peak[index] = max(self.peak.get(index, 0), held + size)
        key = id(storage)

        def ended(reference: Any) -> None:
            if self._ends.get(key) is reference:
                del self._ends[key]
                self.held[index] -= size

        self._ends[key] = weakref.ref(storage, ended)

    def reset_peak(self, index: int) -> None:
        """Forgets the most that was held."""
        self.start()
        self.peak[index] = self.held.get(index, 0)

    def figures(self, index: int) -> tuple[int, int]:
        """Bytes held now, and the most since `reset_peak`."""
        self.start()
        return self.held.get(index, 0), self.peak.get(index, 0)


ledger = engine.ledger = Ledger()
