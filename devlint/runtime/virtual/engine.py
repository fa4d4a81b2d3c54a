"""The hot path: every call of a C function of torch passes here while virtual CUDA is on.

Operands at one place: the function runs as it is, on host data, and its results get that place. Operands at
different places: `rules.run_mixed` decides. Functions that name, read or change a device have a handler each
(`handlers.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from devlint.runtime import compat, modes
from devlint.runtime.virtual.errors import translated
from devlint.runtime.virtual.state import machine

# The dispatch keys of operators that are written in terms of others.
COMPOSITE = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")

Tensor = torch.Tensor
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class _Handlers(dict[Any, Handler | None]):
    """By the function as TorchFunctionMode passes it; None for those of `PASS`, which run as they are."""

    def __missing__(self, func: Any) -> Handler | None:
        chosen = self[func] = None if func in PASS else handler_of(func)
        return chosen


# Filled by handlers.py and kernels.py.
HANDLERS = _Handlers()
# Functions that never need a look: they return no tensor and read no device.
PASS: set[Any] = set()

_UNSEEN: Any = object()
_MIXED: Any = object()
_NO_KWARGS: dict[str, Any] = {}


# Set by rules.py, handlers.py, autocast.py, kernels.py, and memory.py (they import this module).
def _later(*_: Any) -> Any:
    raise AssertionError("devlint.runtime.virtual.context is not imported")


run_mixed: Handler = _later
run_with_device: Handler = _later
run_wider: Callable[[Any, Any, Any, BaseException], Any] = _later
handler_of: Callable[[Any], Handler] = _later
ledger: Any = None
run_under_autocast: Handler = _later
_autocast_on = compat.autocast_question("cuda")


class _Kinds(dict[type, int]):
    """What a value of a class may be: a tensor, a sequence that may hold some, or neither.

    (`isinstance` asks the metaclass of Tensor in C++ for everything that isn't one, which takes longer.)
    """

    def __missing__(self, kind: type) -> int:
        found = _TENSOR if issubclass(kind, Tensor) else _SEVERAL if issubclass(kind, tuple | list) else _NEITHER
        self[kind] = found
        return found


_NEITHER, _TENSOR, _SEVERAL = range(3)
_KINDS = _Kinds()


def tag(result: Any, place: torch.device | None) -> Any:
    """Gives a place to every tensor of a result; returns the result."""
    kind = _KINDS[type(result)]
    if kind == _TENSOR:
        result._devlint_place = place
    elif kind:
        for item in result:
            if type(item) is Tensor:
                item._devlint_place = place  # type: ignore[attr-defined]
            else:
                tag(item, place)
    return result


def _scan(items: Any, place: Any) -> Any:
    for item in items:
        kind = _KINDS[type(item)]
        if kind == _TENSOR:
            found = item._devlint_place
            if found is not place:
                if place is not _UNSEEN:
                    return _MIXED
                place = found
        elif kind and item:
            place = _scan(item, place)
            if place is _MIXED:
                return place
    return place


def common_place(args: Any, kwargs: Any = None) -> Any:
    """The place of all tensors in the arguments; `MIXED` where they differ, `UNSEEN` where there is none."""
    place = _scan(args, _UNSEEN)
    if kwargs and place is not _MIXED:
        place = _scan(kwargs.values(), place)
    return place


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a function whose results live where its operands do."""
    __tracebackhide__ = True
    place = _UNSEEN
    for arg in args:
        kind = _KINDS[type(arg)]
        if kind == _TENSOR:
            found = arg._devlint_place
            if found is not place:
                if place is not _UNSEEN:
                    return run_mixed(func, args, kwargs)
                place = found
        elif kind and arg:
            place = _scan(arg, place)
            if place is _MIXED:
                return run_mixed(func, args, kwargs)
    if kwargs:
        if "device" in kwargs or "generator" in kwargs or "pin_memory" in kwargs:
            return run_with_device(func, args, kwargs)
        place = _scan(kwargs.values(), place)
        if place is _MIXED:
            return run_mixed(func, args, kwargs)
    if place is None or place is _UNSEEN:
        return func(*args, **kwargs)
    try:
        result = run_under_autocast(func, args, kwargs) if _autocast_on() else func(*args, **kwargs)
    except RuntimeError as error:
        return run_wider(func, args, kwargs, error)
    if type(result) is Tensor:
        result._devlint_place = place  # type: ignore[attr-defined]
        return result
    return tag(result, place)


class VirtualMode(TorchFunctionMode):
    """On each thread that runs while virtual CUDA is on.

    It stands for the machine, so it lies beneath all other modes (watchers, the user's own), whichever was entered
    first; only the default device's mode lies deeper.
    """

    def __enter__(self) -> VirtualMode:
        above = modes.push_default_devices(modes.pop_all())
        for mode in (self, *reversed(above)):
            modes.push(mode)
        return self

    def __exit__(self, *exc: object) -> None:
        for mode in reversed(modes.pop_all()):
            if mode is not self:
                modes.push(mode)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        __tracebackhide__ = True
        # Subclasses come before their bases; `Tensor` itself is there where a method was called.
        if types and types[0] is not Tensor and not _ORDINARY[types] and torch._C._is_torch_function_enabled():
            return _by_subclass(func, types, args, kwargs or _NO_KWARGS)
        handler = HANDLERS[func]
        if handler is None:
            return func(*args, **(kwargs or _NO_KWARGS))
        try:
            result = handler(func, args, kwargs or _NO_KWARGS)
        except (RuntimeError, AssertionError) as error:
            told = translated(error, func)
            if told is error:
                raise
            raise told from error
        if ledger.on:
            ledger.note(result)
        return result


class _Ordinary(dict[Any, bool]):
    """Whether all classes of a call leave it to PyTorch."""

    def __missing__(self, types: Any) -> bool:
        found = self[types] = all(kind.__torch_function__ in _LEFT_ALONE for kind in types)
        return found


_LEFT_ALONE = (Tensor.__torch_function__, torch._C._disabled_torch_function_impl)
_ORDINARY = _Ordinary()


def _by_subclass(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Tensor classes with a `__torch_function__` of their own have the word, and what they call is seen in turn."""
    __tracebackhide__ = True
    with VirtualMode():
        for kind in types:
            result = kind.__torch_function__(func, types, args, kwargs)
            if result is not NotImplemented:
                return result
    raise TypeError(f"no implementation found for '{func}' on types that implement __torch_function__: {list(types)}")


MIXED, UNSEEN = _MIXED, _UNSEEN
__all__ = ["HANDLERS", "MIXED", "PASS", "UNSEEN", "VirtualMode", "common_place", "machine", "run", "tag"]
