"""Calls that are answered without a function mode: arithmetic between tensors, and attributes of parameters.

A call that PyTorch hands to a mode costs twice what it does without one: C++ packs it up for Python, then reads it again.
These are the many small ones: `x * y`, and what optimizers read of each parameter. They are put in front of PyTorch's own
where our mode is the only one of the thread; any other mode, and any tensor class, sees what it always saw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import (
    _len_torch_function_stack,
    _pop_torch_function_stack,
    _push_on_torch_function_stack,
)

from devlint.runtime.virtual.engine import VirtualMode
from devlint.runtime.virtual.memory import ledger
from devlint.runtime.virtual.patching import Patches

Tensor, Parameter = torch.Tensor, torch.nn.Parameter
Base: Any = torch._C.TensorBase
_PLAIN = frozenset({Tensor, Parameter})
_NUMBERS = frozenset({int, float, bool})

# Modes see these under the name of a method (`add`), so nobody can have a table with `Tensor.__add__` in it.
_OPERATORS = """
    __add__ __radd__ __iadd__ __sub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __itruediv__
    __lt__ __le__ __gt__ __ge__ __ne__
""".split()  # noqa: SIM905 - names
_ATTRIBUTES = ("dtype", "shape", "ndim", "layout", "requires_grad", "is_leaf", "is_sparse", "is_nested", "is_meta")


def _operator(ordinary: Any) -> Callable[[Any, Any], Any]:
    def operator(tensor: Any, other: Any) -> Any:
        __tracebackhide__ = True
        place = tensor._devlint_place
        kind = type(other)
        if (
            _len_torch_function_stack() != 1
            or type(tensor) not in _PLAIN
            or not (kind in _NUMBERS or (kind in _PLAIN and other._devlint_place is place))
            or ledger.on
        ):
            return ordinary(tensor, other)
        result = None
        mode = _pop_torch_function_stack()
        try:
            if type(mode) is VirtualMode:
                result = ordinary(tensor, other)
        except Exception:  # the mode tells it in its own words
            result = None
        finally:
            _push_on_torch_function_stack(mode)
        if result is None:
            return ordinary(tensor, other)
        if place is not None and result is not NotImplemented:
            result._devlint_place = place
        return result

    return operator


def _attribute(getter: Any) -> Callable[[Any], Any]:
    def read(parameter: Any) -> Any:
        if _len_torch_function_stack() != 1 or type(parameter) is not Parameter:
            return getter(parameter)
        mode = _pop_torch_function_stack()
        ours = type(mode) is VirtualMode
        try:
            if ours:
                return getter(parameter)
        finally:
            _push_on_torch_function_stack(mode)
        return getter(parameter)

    return read


_gradient = _attribute(Base.grad.__get__)


def _get_grad(parameter: Any) -> Any:
    gradient = _gradient(parameter)
    if gradient is not None:
        gradient._devlint_place = parameter._devlint_place
    return gradient


def _set_grad(parameter: Any, value: Any) -> None:
    if value is not None or _len_torch_function_stack() != 1 or type(parameter) is not Parameter:
        _give_grad(parameter, value)
        return
    mode = _pop_torch_function_stack()
    ours = type(mode) is VirtualMode
    try:
        if ours:
            _give_grad(parameter, None)
    finally:
        _push_on_torch_function_stack(mode)
    if not ours:
        _give_grad(parameter, None)


_give_grad = Base.grad.__set__


def install(patches: Patches) -> None:
    """Puts these in front of torch's."""
    for name, operator in _SHORTCUTS.items():
        patches.set(Tensor, name, operator)
    for name, attribute in _READERS.items():
        patches.set(Parameter, name, attribute)


_SHORTCUTS = {name: _operator(getattr(Tensor, name)) for name in _OPERATORS}
_READERS = {
    name: property(_attribute(getattr(Base, name).__get__), getattr(getattr(Base, name), "__set__", None))
    for name in _ATTRIBUTES
}
_READERS["grad"] = property(_get_grad, _set_grad, Base.grad.__delete__)
