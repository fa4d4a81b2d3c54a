"""The runtime companion: what devices do while the code runs.

`virtual_cuda` gives a machine without a GPU devices that behave as CUDA's; `watch_devices` follows tensors and explains
mismatches, transfers and syncs; `sync_allowed` says that a wait is meant; the `assert_*` functions check placement in tests. The names load on first use, so
that importing `devlint.runtime` does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devlint.runtime.allowed import sync_allowed as sync_allowed
    from devlint.runtime.assertions import (
        assert_device_agnostic as assert_device_agnostic,
    )
    from devlint.runtime.assertions import (
        assert_moves_with_module as assert_moves_with_module,
    )
    from devlint.runtime.assertions import (
        assert_no_sync as assert_no_sync,
    )
    from devlint.runtime.assertions import (
        assert_on as assert_on,
    )
    from devlint.runtime.assertions import (
        assert_same_device as assert_same_device,
    )
    from devlint.runtime.run import run_program as run_program
    from devlint.runtime.virtual.context import virtual_cuda as virtual_cuda
    from devlint.runtime.virtual.context import virtual_device as virtual_device
    from devlint.runtime.virtual.errors import VirtualCudaUnsupportedError as VirtualCudaUnsupportedError
    from devlint.runtime.watch.report import Report as Report
    from devlint.runtime.watch.watcher import watch_devices as watch_devices

_HOMES = {
    "assert_device_agnostic": "assertions",
    "assert_moves_with_module": "assertions",
    "assert_no_sync": "assertions",
    "assert_on": "assertions",
    "assert_same_device": "assertions",
    "run_program": "run",
    "sync_allowed": "allowed",
    "virtual_cuda": "virtual.context",
    "virtual_device": "virtual.context",
    "VirtualCudaUnsupportedError": "virtual.errors",
    "Report": "watch.report",
    "watch_devices": "watch.watcher",
}

__all__ = [
    "Report",
    "VirtualCudaUnsupportedError",
    "assert_device_agnostic",
    "assert_moves_with_module",
    "assert_no_sync",
    "assert_on",
    "assert_same_device",
    "run_program",
    "sync_allowed",
    "virtual_cuda",
    "virtual_device",
    "watch_devices",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except AttributeError as error:  # `from devlint.runtime import ...` would hide it behind "cannot import name"
        raise ImportError(f"devlint.runtime.{name} can't be loaded: {error}", name=name) from error
