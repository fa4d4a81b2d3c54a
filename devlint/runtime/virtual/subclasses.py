"""Tensor classes of other people: those that wrap tensors and see each operator (`__torch_dispatch__`).

PyTorch calls them from C++, where function modes are off. What they do inside is user code like any other, so it runs
under the mode; a wrapper made for a device is a host object with that device's place.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from devlint.runtime.places import HOST
from devlint.runtime.virtual import engine
from devlint.runtime.virtual.patching import Patches
from devlint.runtime.virtual.state import machine

_make_wrapper: Any = torch.Tensor._make_wrapper_subclass


class _Target(threading.local):
    """Where the call that runs now moves a wrapper to: C++ tells its class of the host only."""

    place: torch.device | None = None


_target = _Target()


class Wrappers:
    """The wrapper classes that were met since virtual CUDA came on."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._owners: set[type] = set()

    def make(self, cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        """`Tensor._make_wrapper_subclass`."""
        place = machine.place(device) if device is not None else None
        result = _make_wrapper(cls, *args, device=device if place is None else HOST, **kwargs)
        self._run_under_mode(cls)
        return engine.tag(result, place)

    def _run_under_mode(self, cls: type) -> None:
        owner = next(base for base in cls.__mro__ if "__torch_dispatch__" in vars(base))
        if owner in self._owners:
            return
        self._owners.add(owner)
        original: Any = vars(owner)["__torch_dispatch__"]
        _wrapping.add(owner)

        def dispatch(kind: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            __tracebackhide__ = True
            kwargs = dict(kwargs or {})
            if _target.place is not None and kwargs.get("device") == HOST:
                kwargs["device"] = _target.place
            with at(None), engine.VirtualMode():
                return original.__get__(None, kind)(func, types, args, kwargs)

        self._patches.set(owner, "__torch_dispatch__", classmethod(dispatch))


_wrapping: set[type] = set()


@contextmanager
def at(place: torch.device | None) -> Iterator[None]:
    """Inside, a wrapper that is moved to the host goes to `place` instead."""
    before, _target.place = _target.place, place
    try:
        yield
    finally:
        _target.place = before


def is_wrapper(tensor: Any) -> bool:
    """Whether a tensor's class is one of those."""
    return type(tensor) is not torch.Tensor and bool(_wrapping) and not _wrapping.isdisjoint(type(tensor).__mro__)


def install(patches: Patches) -> None:
    """Puts these in place of torch's."""
    _wrapping.clear()
    patches.set(torch.Tensor, "_make_wrapper_subclass", staticmethod(Wrappers(patches).make))
