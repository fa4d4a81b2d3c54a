"""What the virtual machine consists of: how many devices, which is current in each thread, what a `device` means."""

from __future__ import annotations

import os
import threading
from typing import Any

import torch

from devlint.runtime.places import accelerator, virtual_place
from devlint.runtime.virtual.errors import bad_fork, invalid_ordinal

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


class _Current(threading.local):
    """CUDA's current device and streams are per thread, and start at device 0."""

    def __init__(self) -> None:
        self.index = 0
        self.streams: dict[int, Any] = {}


class Machine:
    """The virtual machine. There is one (`machine`); it is off while `count` is 0."""

    def __init__(self) -> None:
        self.count = 0
        self.current = _Current()
        self.uses = 0  # how often a device was named or looked at, ever
        self.used_in: int | None = None  # process that has touched a device, as CUDA's context belongs to one
        self.environment: str | None = None
        self._looked = False
        self._chosen: list[Any] | None = None

    def switched_on(self) -> None:
        """Notes the environment that the machine starts in: what was set for real GPUs doesn't hide virtual ones."""
        self.used_in = None
        self.environment = os.environ.get(VISIBLE_DEVICES)
        self._looked = False

    def visible(self) -> int:
        """The number of devices that the program sees: it may hide some before the driver has looked."""
        chosen = self._chosen if self._looked else self._choice()
        if chosen is None:
            return self.count
        return sum(1 for index in chosen if not isinstance(index, int) or index < self.count)

    def _choice(self) -> list[Any] | None:
        """The devices that the program has chosen by the environment; None where it has chosen nothing."""
        if os.environ.get(VISIBLE_DEVICES) == self.environment:
            return None
        return list(torch.cuda._parse_visible_devices())

    def available(self) -> bool:
        """`torch.cuda.is_available`: starts the driver, which looks at the environment once."""
        self._look()
        return self.visible() > 0

    def _look(self) -> None:
        if not self._looked:
            self._looked, self._chosen = True, self._choice()

    def touch(self) -> None:
        """Notes the first use of a device; raises as CUDA does in a forked child."""
        pid = os.getpid()
        self.uses += 1
        self._look()
        if self.used_in is None:
            self.used_in = pid
        elif self.used_in != pid:
            raise bad_fork()

    def place(self, device: Any) -> torch.device | None:
        """The virtual place that a `device=` argument names; None for the host, `meta` and other real devices.

        Raises RuntimeError as CUDA does for an index out of range, and what `torch.device` raises for bad text.
        """
        if isinstance(device, int) and not isinstance(device, bool):
            index: int | None = device
        else:
            if not isinstance(device, torch.device):
                device = torch.device(device)
            if device.type != accelerator.kind:
                return None
            index = device.index
        if index is None:
            index = self.current.index
        self.touch()
        if not 0 <= index < self.visible():
            raise invalid_ordinal()
        return virtual_place(index)

    def index(self, device: Any = None) -> int:
        """The index of a CUDA device given in any way; the current one for None."""
        if device is None:
            return self.current.index
        place = self.place(device)
        if place is None:
            raise ValueError(f"Expected a {accelerator.kind} device, but got: {device}")
        return int(place.index)


machine = Machine()
