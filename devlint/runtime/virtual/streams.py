"""Streams and events. Host work is done when the call returns, so these keep order and time, and wait for nothing."""

from __future__ import annotations

import itertools
import time
from typing import Any

import torch

from devlint.runtime.places import accelerator, virtual_place
from devlint.runtime.virtual.memory import ledger
from devlint.runtime.virtual.state import machine
from devlint.runtime.virtual.wording import worded

_ids = itertools.count(1)


class _AsClass(type):
    """Makes `isinstance(stream, torch.Stream)` hold for both names of a class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return any(getattr(base, "_devlint_kind", None) == cls._devlint_kind for base in type(instance).__mro__)  # type: ignore[attr-defined]


class Stream(metaclass=_AsClass):
    """Stands for `torch.cuda.Stream` and `torch.Stream`."""

    _devlint_kind = "stream"

    def __init__(
        self,
        device: Any = None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        device_index: int | None = None,
        **_: Any,
    ) -> None:
        self.device_index = machine.index(device) if device_index is None else device_index
        self.device = virtual_place(self.device_index)
        self.device_type = 1
        self.stream_id = next(_ids) if stream_id is None else stream_id
        self.priority = priority
        self._previous: list[tuple[int, Stream]] = []  # the current device, and this one's stream

    @property
    def cuda_stream(self) -> int:
        """A handle, as CUDA has; it points to nothing."""
        return self.stream_id

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Any = None) -> Any:
        """Records an event (a new one for None) and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def is_capturing(self) -> bool:
        """Whether a graph is being captured: never."""
        return False

    def query(self) -> bool:
        """Whether all work is done: always."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def __enter__(self) -> Stream:
        self._previous.append((machine.current.index, current_stream(self.device)))
        set_stream(self)
        return self

    def __exit__(self, *exc: object) -> None:
        index, stream = self._previous.pop()
        set_stream(stream)
        machine.current.index = index

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Stream) and other.stream_id == self.stream_id and other.device_index == self.device_index
        )

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.{self.device.type}.Stream device={self.device} cuda_stream={self.stream_id:#x}>"


class Event(metaclass=_AsClass):
    """Stands for `torch.cuda.Event` and `torch.Event`; times are the host's."""

    _devlint_kind = "event"

    def __init__(self, device: Any = None, enable_timing: bool = False, blocking: bool = False, **_: Any) -> None:
        if isinstance(device, bool):  # torch.cuda.Event(enable_timing, ...)
            enable_timing = device
        self.enable_timing = enable_timing
        self.device = virtual_place(machine.current.index)
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Notes the time."""
        self._time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Whether the event has happened: always."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`. Raises what CUDA does, where they take no time or have none."""
        if not (self.enable_timing and end_event.enable_timing):
            raise worded("events without timing")
        if self._time is None or end_event._time is None:
            raise worded("events without a record")
        return (end_event._time - self._time) * 1e3


def default_stream(device: Any = None) -> Stream:
    """The stream 0 of a device."""
    return Stream(virtual_place(machine.index(device)), stream_id=0)


def current_stream(device: Any = None) -> Stream:
    """The stream that `stream(...)` or `set_stream` chose, else stream 0."""
    index = machine.index(device)
    found: Stream | None = machine.current.streams.get(index)
    return found if found is not None else default_stream(index)


def set_stream(stream: Any) -> None:
    """Makes a stream, and its device, current; None changes nothing."""
    if stream is not None:
        machine.current.streams[stream.device_index] = stream
        machine.current.index = stream.device_index


def set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    """What `torch._C` does to make a stream current, by its number."""
    set_stream(Stream(stream_id=stream_id, device_index=device_index))


def data_of(stream: Stream) -> tuple[int, int, int]:
    """What torch._C says of a stream: its own number, its device's, its device's type."""
    return stream.stream_id, stream.device_index, stream.device_type


class Properties:
    """What `get_device_properties` says of a virtual device: the figures of an ordinary data-centre GPU."""

    name = "devlint virtual device"
    major, minor = 8, 0
    multi_processor_count = 108
    warp_size = 32
    max_threads_per_multi_processor = 2048
    max_threads_per_block = 1024
    regs_per_multiprocessor = 65536
    shared_memory_per_block = 49152
    shared_memory_per_block_optin = 166912
    shared_memory_per_multiprocessor = 167936
    L2_cache_size = 40 * 2**20
    is_integrated = 0
    is_multi_gpu_board = 0
    gcnArchName = "devlint virtual device"  # noqa: N815 - PyTorch's name
    uuid = "00000000-0000-0000-0000-000000000000"

    @property
    def total_memory(self) -> int:
        """Bytes."""
        return ledger.total

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, multi_processor_count={self.multi_processor_count})"
        )


def install(patches: Any) -> None:
    """Puts the classes in place of torch's."""
    module: Any = getattr(torch, accelerator.kind)
    for owner in (torch, module, getattr(module, "streams", None)):
        for name, kind in (("Stream", Stream), ("Event", Event)):
            if hasattr(owner, name):
                patches.set(owner, name, kind)
