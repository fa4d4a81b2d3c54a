"""What PyTorch's errors say where its releases differ: the words of the running one. The one place that knows releases.

Texts that are the same from 2.4 to 2.15 stand where they are raised. Read in the libraries of the CUDA builds of 2.4.1,
2.5.1, 2.6.0, 2.8.0, 2.9.1, 2.10.0, 2.11.0, 2.12.1, 2.13.0, 2.14.1 and 2.15.0 (their strings), and in the headers that they bring;
no GPU was asked. tests/runtime/test_wording.py looks for them in the libraries of the torch that runs.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch

from devlint.runtime import compat

RELEASE: tuple[int, ...] = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])


class Words(NamedTuple):
    """What an error is and says since a release, until the next one in its row."""

    since: tuple[int, int]
    kind: type[Exception]
    text: str


# What every error of the driver ends with.
_ASYNCHRONOUS = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
    "\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)
_ASSERTIONS = "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
_RANGE = "\nGPU device may be out of range, do you have enough GPUs?"
_OUT_OF_MEMORY: type[Exception] = torch.cuda.OutOfMemoryError
_FULL = (
    "CUDA out of memory. Tried to allocate {asked}. GPU {index} has a total capacity of {total} of which {free} is free. "
    "Including non-PyTorch memory, this process has {held} memory in use. Of the allocated memory {held} is allocated by "
    "PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
)
_FRAGMENTS = "=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  "
_VARIABLES = "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
_OPTIMIZING = (
    "(https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


TABLE: dict[str, tuple[Words, ...]] = {
    # The device check in the wrapper of each kernel.
    "argument elsewhere": (
        Words(
            (2, 4),
            RuntimeError,
            "Expected all tensors to be on the same device, but found at least two devices, {common} and {place}! "
            "(when checking argument for argument {argument} in method wrapper_{kind}_{operator})",
        ),
        Words(
            (2, 8),
            RuntimeError,
            "Expected all tensors to be on the same device, but got {argument} is on {place}, different from other "
            "tensors on {common} (when checking argument in method wrapper_{kind}_{operator})",
        ),
    ),
    # An index that no device has.
    "invalid ordinal": (
        Words((2, 4), compat.DriverError, f"CUDA error: invalid device ordinal{_ASYNCHRONOUS}{_ASSERTIONS}"),
        Words((2, 9), compat.DriverError, f"CUDA error: invalid device ordinal{_RANGE}{_ASYNCHRONOUS}{_ASSERTIONS}"),
        Words((2, 13), compat.DriverError, f"CUDA error: invalid device ordinal{_RANGE}{_ASYNCHRONOUS}\n"),
    ),
    "out of memory": (
        Words((2, 4), _OUT_OF_MEMORY, f"{_FULL}PYTORCH_CUDA_ALLOC_CONF{_FRAGMENTS}{_VARIABLES}"),
        Words((2, 10), _OUT_OF_MEMORY, f"{_FULL}PYTORCH_ALLOC_CONF{_FRAGMENTS}{_VARIABLES}"),
        Words((2, 11), _OUT_OF_MEMORY, f"{_FULL}PYTORCH_CUDA_ALLOC_CONF{_FRAGMENTS}{_OPTIMIZING}"),
    ),
    # torch.cuda.Event.elapsed_time. Before 2.8 the driver said what is wrong with events that take no time.
    "events without timing": (
        Words((2, 4), RuntimeError, f"CUDA error: invalid resource handle{_ASYNCHRONOUS}{_ASSERTIONS}"),
        Words((2, 8), ValueError, "Both events must be created with argument 'enable_timing=True'."),
    ),
    "events without a record": (
        Words((2, 4), RuntimeError, "Both events must be recorded before calculating elapsed time."),
        Words((2, 8), ValueError, "Both events must be recorded before calculating elapsed time."),
    ),
}


def words(name: str) -> Words:
    """The row's entry for the running release; the oldest one for older releases."""
    row = TABLE[name]
    return next((entry for entry in reversed(row) if entry.since <= RELEASE), row[0])


def worded(name: str, **parts: Any) -> Exception:
    """The error in the running release's words; `parts` fill its text."""
    entry = words(name)
    return entry.kind(entry.text.format(**parts))
