"""CUDA's errors, with CUDA's types and texts, and the one error of our own.

The texts are PyTorch's (c10/core/Device*, ATen/core/TensorBase, torch/csrc); those that differ between its releases stand in
`wording`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from devlint.runtime.places import accelerator
from devlint.runtime.virtual.wording import worded, words


class VirtualCudaUnsupportedError(NotImplementedError):
    """Something that virtual CUDA doesn't do; the message says what, and what to do instead."""


class MissingPartError(VirtualCudaUnsupportedError, AttributeError):
    """A part of `torch._C` that a build for the device has, this one hasn't, and virtual CUDA doesn't make up for."""


def refuse(what: str, instead: str = "run this part on a real GPU, or outside virtual_cuda()") -> NoReturn:
    """Raises `VirtualCudaUnsupportedError`."""
    raise VirtualCudaUnsupportedError(f"devlint: virtual {accelerator.kind.upper()} does not support {what}; {instead}")


def called() -> str:
    """The function of torch that the program called, of those that run now: `torch.distributed.fsdp.fully_shard`."""
    frame: Any = sys._getframe(1)
    found = "this"
    while frame is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if module.startswith("torch.") and hasattr(sys.modules.get(module), name):
            found = f"{module}.{name}"
        elif not module.startswith(("torch", "devlint.runtime", "contextlib", "functools")):
            break
        frame = frame.f_back
    return found


# What PyTorch's own parts say when they meet a build without CUDA, or a tensor that isn't what it seems. Where such an error
# comes out of a call, it says something about virtual CUDA, not about the program.
_LEAKS = re.compile(
    r"not linked with support for|Cannot access accelerator|[Ii]nvalid python storage|Cannot access (storage|data pointer) of"
    r"|Could not run 'aten::.*from the 'CPU' backend|compiled without CUDA|not compiled with CUDA|without ATen_cuda|No such operator|arguments from the 'CUDA' backend"
    r"|backends? 'CPU'.*functorch|not implemented for '\w+'|on CPU does not support|DeviceGuardImpl|doesn't have storage"
)


def _later(*_: Any) -> Any:
    raise AssertionError("devlint.runtime.virtual.context is not imported")


lacking: Callable[[Any, str], BaseException | None] = _later  # set by kernels.py, which imports this module
_OUT_OF_MEMORY = re.compile(r"DefaultCPUAllocator.*you tried to allocate (\d+) bytes", re.DOTALL)


def translated(error: BaseException, func: Any) -> BaseException:
    """An error as the user should see it: itself, `OutOfMemoryError`, or the refusal of a call that virtual CUDA can't do."""
    if isinstance(error, VirtualCudaUnsupportedError) or getattr(error, "_devlint_ours", False):
        return error
    text = str(error)
    full = _OUT_OF_MEMORY.search(text)
    if full is not None:
        return out_of_memory(int(full[1]))
    if _LEAKS.search(text) is None or (accelerator.kind != "cuda" and "compiled with CUDA" in text):
        return error
    if (theirs := lacking(func, text)) is not None:
        return theirs
    name = torch.overrides.resolve_name(func) or getattr(func, "__qualname__", None) or str(func)
    return VirtualCudaUnsupportedError(
        f"devlint: virtual {accelerator.kind.upper()} does not support this call of {name} (PyTorch says: {text.splitlines()[0]}); run this part "
        "on a real GPU, or outside virtual_cuda(), and tell devlint's maintainers of it with this line"
    )


def out_of_memory(asked: int, index: int = 0, total: int | None = None, held: int = 0) -> Exception:
    """What the device says when it is full; `total` is None where it is the host's memory that was."""
    if total is None or accelerator.kind != "cuda":
        kind: type[Exception] = torch.cuda.OutOfMemoryError
        return kind(f"{accelerator.kind.upper()} out of memory. Tried to allocate {_size(asked)}.")
    sizes = {"asked": asked, "total": total, "free": total - held, "held": held}
    return worded("out of memory", index=index, **{name: _size(size) for name, size in sizes.items()})


def _size(size: int) -> str:
    """A number of bytes, as the allocator writes it."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size > unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


def invalid_ordinal() -> Exception:
    """What CUDA says to the index of a device that isn't there."""
    try:
        return worded("invalid ordinal")
    except TypeError:  # a type of error that Python can't make
        return RuntimeError(words("invalid ordinal").text)


def bad_fork() -> RuntimeError:
    """What CUDA says in a forked child of a process that has used it."""
    return RuntimeError(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
        "you must use the 'spawn' start method"
    )


def two_devices(first: torch.device | str, second: torch.device | str) -> RuntimeError:
    """TensorIterator's text: element-wise operations and reductions."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


def argument_elsewhere(
    argument: str, place: torch.device | str, common: torch.device | str, operator: str
) -> Exception:
    """The text of the device check that every CUDA kernel's wrapper makes."""
    parts = {"argument": argument, "place": place, "common": common, "operator": operator}
    return worded("argument elsewhere", kind=accelerator.kind.upper(), **parts)


def mask_elsewhere(mask: torch.device | str, place: torch.device | str) -> RuntimeError:
    """What `masked_fill_` says (masked_fill__cuda in ATen/native/cuda/IndexKernel.cpp)."""
    return RuntimeError(f"expected self and mask to be on the same device, but got mask on {mask} and self on {place}")


def number_refused(operator: str, argument: str) -> RuntimeError:
    """What a CUDA kernel says to a 0-dim host tensor that its TensorIterator took."""
    if operator == "lerp":
        return RuntimeError(
            "iter.device(arg).is_cuda() INTERNAL ASSERT FAILED, please report a bug to PyTorch. argument "
            f"{1 if argument == 'self' else 2}: expected a CUDA device but found cpu"
        )
    swap = " However, CPU Scalar support for tensor2 is supported, please swap your tensor1 and tensor2 terms."
    return RuntimeError(
        f"CPU Scalar support for {argument} argument is not supported when calling {operator} on CUDA tensors."
        + (swap if argument == "tensor1" else "")
    )


def too_many_numbers() -> RuntimeError:
    """What TensorIterator says to a second 0-dim host tensor in one call."""
    return RuntimeError("Trying to pass too many CPU scalars to non-CPU kernel!")


def device_type_elsewhere(expected: str, found: str, function: str) -> RuntimeError:
    """The text of at::checkDeviceType."""
    return RuntimeError(
        f"Expected tensor to have {expected} DeviceType, but got tensor with {found} DeviceType "
        f"(while checking arguments for {function})"
    )


def not_numpy(place: torch.device) -> TypeError:
    """What `.numpy()` says to a tensor that isn't in host memory."""
    return TypeError(
        f"can't convert {place} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )
