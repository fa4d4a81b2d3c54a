"""The runtime companion: what devices do while the code runs.

`virtual_cuda` gives a machine without a GPU devices that behave as CUDA's; `watch_devices` follows tensors and explains
mismatches, transfers and syncs; the `assert_*` functions check placement in tests. The names load on first use, so
that importing `devlint.runtime` does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devlint.runtime.virtual.context import virtual_cuda
    from devlint.runtime.virtual.errors import VirtualCudaUnsupported

_HOMES = {
    "virtual_cuda": "devlint.runtime.virtual.context",
    "VirtualCudaUnsupported": "devlint.runtime.virtual.errors",
}

__all__ = ["VirtualCudaUnsupported", "virtual_cuda"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
