"""`virtual_cuda`: switches everything on and off."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils._device import DeviceContext, _device_constructors

from devlint.runtime import compat, modes, threads, transparency
from devlint.runtime.places import TAG, accelerator
from devlint.runtime.virtual import (
    autocast,
    autograd,
    batch_norm,
    children,
    collectives,
    compilers,
    determinism,
    driver,
    engine,
    handlers,
    kernels,
    legacy,
    memory,
    parallel,
    random,
    rules,
    shortcuts,
    storages,
    subclasses,
)
from devlint.runtime.virtual.memory import parse_size
from devlint.runtime.virtual.patching import Patches
from devlint.runtime.virtual.state import machine

P = ParamSpec("P")
R = TypeVar("R")

_patches = Patches()
_stack = ExitStack()
_lock = threading.RLock()
_host_device: Any = torch._C.TensorBase.device
_host_is_cpu: Any = torch._C.TensorBase.is_cpu


def _device(tensor: Any) -> torch.device:
    place = tensor._devlint_place
    found: torch.device = place if place is not None else _host_device.__get__(tensor)
    return found


def _default_device(context: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`with torch.device("cuda")` and `set_default_device`: the innermost mode, so it runs after ours."""
    kwargs = kwargs or {}
    if func in _device_constructors() and kwargs.get("device") is None:
        kwargs = {**kwargs, "device": context.device}
        handler = engine.HANDLERS[func]
        return func(*args, **kwargs) if handler is None else handler(func, args, kwargs)
    return func(*args, **kwargs)


def _install() -> None:
    # Optimizers import it on first use. It must not look at torch.cuda while our layer is beneath.
    import torch._dynamo

    patches = _patches
    patches.set(torch.Tensor, TAG, None)
    patches.set(torch.Tensor, "device", property(_device))
    patches.set(torch.Tensor, f"is_{accelerator.kind}", property(lambda tensor: tensor._devlint_place is not None))
    patches.set(
        torch.Tensor,
        "is_cpu",
        property(lambda tensor: tensor._devlint_place is None and _host_is_cpu.__get__(tensor)),
    )
    # Its C parser takes no stream of ours.
    patches.set(torch.Tensor, "record_stream", lambda tensor, stream: None)
    patches.set(DeviceContext, "__torch_function__", _default_device)
    patches.set(engine, "_autocast_on", compat.autocast_question(accelerator.kind))
    compat.forget_device_module()
    _stack.callback(compat.forget_device_module)
    transparency.install(patches)
    modes.install(patches)
    for part in (driver, random, storages, autograd, parallel, compilers, subclasses, shortcuts):
        part.install(patches)
    if accelerator.kind == "cuda":
        collectives.install(patches)
        legacy.install(patches)
    _stack.enter_context(compat.compiled_functions_run_eagerly())


KINDS = ("cuda", "mps", "xpu")


class virtual_device:  # noqa: N801 - reads as the function it stands for
    """Makes this process behave as if it had `count` devices of a type: "cuda", "mps" (one) or "xpu".

    A context manager and a decorator. Tensors keep real values in host memory and carry a place of their own; torch
    answers as a build for them on a machine with `count` does, errors included. May be nested: the inner count
    holds inside. Threads started inside take part; threads that run already don't.

    `memory` is what each device has: bytes, or a text such as "16GiB". With it, a device that is full raises
    `torch.cuda.OutOfMemoryError`; without it, the host's memory is the limit. An inner one keeps the outer's.

    Raises ValueError for a type that isn't one of these, a count below 1 (or another than 1 for "mps"), another type than
    that of an outer one, and for a size that isn't one. What isn't supported raises `VirtualCudaUnsupportedError`.
    """

    def __init__(self, kind: str = "cuda", count: int = 1, memory: int | str | None = None) -> None:
        if kind not in KINDS:
            raise ValueError(f"virtual_device: the type must be one of {', '.join(KINDS)}, not {kind!r}")
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"virtual_{kind}: count must be at least 1, not {count!r}")
        if kind == "mps" and count != 1:
            raise ValueError(f"virtual_device: there is one mps device in a machine, not {count}")
        self.kind = kind
        self.count = count
        self.memory = None if memory is None else parse_size(memory)
        self._entered: list[tuple[int, int, int | None, engine.VirtualMode]] = []

    def __enter__(self) -> virtual_device:
        with _lock:
            if machine.count and self.kind != accelerator.kind:
                raise ValueError(f"virtual_device: {accelerator.kind} devices are on, and one type is at a time")
            if machine.count == 0:
                accelerator.kind = self.kind
                _install()
            mode = engine.VirtualMode()
            self._entered.append((machine.count, machine.current.index, machine.used_in, mode))
            if machine.count == 0:
                machine.switched_on()
                memory.ledger.clear()
                threads.add(engine.VirtualMode)
                if self.memory is not None:
                    memory.ledger.limit = self.memory
                    memory.ledger.start()
            machine.count = self.count
            children.announce(self.count, memory.ledger.limit)
            machine.current.index = 0
            mode.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _lock:
            machine.count, machine.current.index, used_in, mode = self._entered.pop()
            mode.__exit__(kind, error, traceback)
            children.announce(machine.count, memory.ledger.limit)
            if machine.count == 0:
                machine.used_in = used_in
                machine.current.streams.clear()
                threads.remove(engine.VirtualMode)
                memory.ledger.clear()
                _stack.close()
                _patches.undo()
                accelerator.kind = "cuda"

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorates a function: each call runs under virtual devices."""

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with virtual_device(self.kind, self.count, self.memory):
                return function(*args, **kwargs)

        return wrapper


class virtual_cuda(virtual_device):  # noqa: N801
    """`virtual_device("cuda", count, memory)`: this process has `count` CUDA devices. The same holds as there."""

    def __init__(self, count: int = 1, memory: int | str | None = None) -> None:
        super().__init__("cuda", count, memory)


def is_virtual() -> bool:
    """Whether virtual CUDA is on."""
    return machine.count > 0 and accelerator.kind == "cuda"


__all__ = [
    "autocast",
    "batch_norm",
    "determinism",
    "handlers",
    "is_virtual",
    "kernels",
    "rules",
    "virtual_cuda",
    "virtual_device",
]
