"""The function modes of a thread lie on a stack; the mode of the default device lies deepest.

Newer releases of PyTorch see to that; older ones (2.4) leave it where it was entered, and take the uppermost mode away
for it when the default device changes. Ours would be that mode.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _len_torch_function_stack
from torch.utils._device import DeviceContext

from devlint.runtime.virtual.patching import Patches

_pop: Any = torch.overrides._pop_mode
push: Any = torch.overrides._push_mode
_enter: Any = DeviceContext.__enter__
_exit: Any = DeviceContext.__exit__


def pop_all() -> list[Any]:
    """Takes all modes off this thread's stack; the outermost (first to run) comes first."""
    return [_pop() for _ in range(_len_torch_function_stack())]


def push_default_devices(modes: list[Any]) -> list[Any]:
    """Puts back the default devices that lie deepest among `modes`; returns the other modes."""
    rest = list(modes)
    while rest and isinstance(rest[-1], DeviceContext):
        push(rest.pop())
    return rest


def _enter_deepest(context: Any) -> Any:
    above = push_default_devices(pop_all())
    result = _enter(context)
    for mode in reversed(above):
        push(mode)
    return result


def _exit_in_place(context: Any, *exc: Any) -> Any:
    modes = pop_all()
    place = next((i for i, mode in enumerate(modes) if mode is context), len(modes))
    for mode in (*reversed(modes[place + 1 :]), context):
        push(mode)
    result = _exit(context, *exc)  # takes the uppermost mode away
    for mode in reversed(modes[:place]):
        push(mode)
    return result


def take_away(mode: Any) -> None:
    """Exits a mode wherever on this thread's stack it lies."""
    lying = pop_all()
    above = lying[: next((i for i, other in enumerate(lying) if other is mode), len(lying))]
    for other in reversed(lying[len(above) :]):
        push(other)
    if len(above) < len(lying):
        mode.__exit__(None, None, None)
    for other in reversed(above):
        push(other)


def install(patches: Patches) -> None:
    """Keeps the default device deepest where PyTorch doesn't: where its class knows nothing of the stack."""
    if "_pop_mode" not in vars(torch.utils._device):
        patches.set(DeviceContext, "__enter__", _enter_deepest)
        patches.set(DeviceContext, "__exit__", _exit_in_place)
