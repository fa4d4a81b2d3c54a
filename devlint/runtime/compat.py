"""What this torch has, where the releases of PyTorch differ: the one place that asks.

Each answer is found by looking, not by the version's number (what errors say can't be looked at: virtual/wording.py). Where torch lacks a thing, virtual CUDA lacks it too.
Tried with PyTorch 2.4.1 and 2.15.0 (CUDA builds) and 2.13.0 (the CPU-only wheel), none with a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from devlint.runtime.virtual.patching import Patches

# `torch.accelerator`, None before 2.6.
accelerator: Any = getattr(torch, "accelerator", None)

# The tensor classes of PyTorch itself: plain tensors to a function mode. `nn.Buffer` came with 2.5.
PLAIN_TENSORS: frozenset[type] = frozenset(
    found for owner, name in ((torch, "Tensor"), (torch.nn.parameter, "Parameter"), (torch.nn.parameter, "Buffer"))
    if (found := getattr(owner, name, None)) is not None
)  # fmt: skip

# The subclass of RuntimeError that newer releases have for errors of the driver.
DriverError: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)


def _missing_kernel_error() -> type[RuntimeError]:
    try:
        torch.ones(1).bincount()
    except RuntimeError as error:
        return type(error)
    raise AssertionError("bincount counts floating-point numbers")


# What a kernel raises that isn't there for a data type: NotImplementedError, and in 2.4 its base.
MissingKernelError = _missing_kernel_error()


def autocast_question(kind: str) -> Callable[[], bool]:
    """What tells whether autocast is on for a type of device or for the CPU: one question for all where torch has it."""
    of_all: Callable[[], bool] | None = getattr(torch._C, "_is_any_autocast_enabled", None)
    if of_all is not None and kind != "mps":  # which it leaves out
        return of_all
    try:
        torch.is_autocast_enabled(kind)
    except RuntimeError:  # a type that has none in this release
        return lambda: torch.is_autocast_enabled("cpu")
    return lambda: torch.is_autocast_enabled(kind) or torch.is_autocast_enabled("cpu")


def has_device(kind: str) -> bool:
    """Whether this machine has a device of a type, such as "mps" or "xpu"."""
    module: Any = torch.backends.mps if kind == "mps" else getattr(torch, kind, None)
    return hasattr(module, "is_available") and bool(module.is_available())


def forget_device_module() -> None:
    """`torch.get_device_module` finds out anew what there is; before 2.5 it kept nothing."""
    forget: Callable[[], None] | None = getattr(torch.get_device_module, "cache_clear", None)
    if forget is not None:
        forget()


@contextmanager
def compiled_functions_run_eagerly() -> Iterator[None]:
    """Inside, functions that `torch.compile` made earlier run as they were written."""
    if hasattr(torch.compiler, "set_stance"):
        with torch.compiler.set_stance("force_eager"):
            yield
        return
    # Before 2.6: each call of such a function switches the compiler on for its frames by this function.
    from torch._dynamo import eval_frame

    patches = Patches()
    patches.set(eval_frame, "set_eval_frame", lambda callback: None)
    try:
        yield
    finally:
        patches.undo()
