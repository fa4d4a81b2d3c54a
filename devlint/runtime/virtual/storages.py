"""Storages carry their tensor's place, so that pickling, `torch.save` and `torch.load` see it."""

from __future__ import annotations

import functools
from typing import Any

import torch

from devlint.runtime.places import HOST, PINNED, PRIVATE, TAG, accelerator
from devlint.runtime.virtual.errors import refuse
from devlint.runtime.virtual.patching import Patches
from devlint.runtime.virtual.state import machine

_Storage: Any = torch.UntypedStorage
_StorageBase: Any = torch._C.StorageBase
_host_device: Any = _StorageBase.device
_host_new: Any = _Storage.__new__
_host_is_shared: Any = _Storage.is_shared
_host_deepcopy: Any = torch.UntypedStorage.__deepcopy__


def _device(storage: Any) -> torch.device:
    place: torch.device | None = getattr(storage, TAG, None)
    if place is not None:
        return place
    found: torch.device = _host_device.__get__(storage)
    return found


def _new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    """`torch.UntypedStorage(8, device="cuda")`."""
    place = machine.place(device) if device is not None else None
    if place is None:
        return _host_new(cls, *args, **({"device": device} if device is not None else {}), **kwargs)
    storage = _host_new(cls, *args, **kwargs)
    setattr(storage, TAG, place)
    return storage


def _is_shared(storage: Any) -> bool:
    return getattr(storage, TAG, None) is not None or _host_is_shared(storage)


def _to(storage: Any, *, device: Any, non_blocking: bool = False) -> Any:
    place = machine.place(device)
    if place is None and torch.device(device).type != "cpu":
        refuse(f"moving a storage to {device}")
    if _host_device.__get__(storage).type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if place is getattr(storage, TAG, None):
        return storage
    moved = _Storage(storage.nbytes())
    moved.copy_(storage)
    setattr(moved, TAG, place)
    if place is None and non_blocking:
        setattr(moved, PINNED, True)  # what CUDA copies to without waiting
    return moved


def place_of_storage(storage: Any) -> torch.device:
    """Where a storage is, typed or not."""
    return _device(getattr(storage, "_untyped_storage", storage))


def on_the_host(storage: Any) -> Any:
    """The data of a storage, typed or not, for C functions that make a tensor of it."""
    typed: Any = torch.TypedStorage
    if isinstance(storage, typed):
        inner = _to(storage._untyped_storage, device=HOST)
        return typed(wrap_storage=inner, dtype=storage.dtype, _internal=True)
    return _to(storage, device=HOST)


def _is_pinned(storage: Any, device: Any = None) -> bool:
    return hasattr(storage, PINNED)


def _cuda(storage: Any, device: Any = None, non_blocking: bool = False) -> Any:
    return _to(storage, device=accelerator.kind if device is None else device)


def _cpu(storage: Any) -> Any:
    return _to(storage, device=HOST)


def _clone(storage: Any) -> Any:
    copy = _Storage(storage.nbytes())
    copy.copy_(storage)
    setattr(copy, TAG, getattr(storage, TAG, None))
    return copy


def _deepcopy(storage: Any, memo: dict[str, Any]) -> Any:
    copied = _host_deepcopy(storage, memo)
    setattr(copied, TAG, getattr(storage, TAG, None))
    return copied


def without_private_state(state: Any) -> Any:
    """An object's pickled state without our attributes (they would outlive the virtual device in a checkpoint)."""
    if isinstance(state, dict) and any(name in state for name in PRIVATE):
        return {name: value for name, value in state.items() if name not in PRIVATE}
    if isinstance(state, tuple):
        return tuple(without_private_state(part) for part in state)
    return state


_parameter_new: Any = torch.nn.Parameter.__new__


@functools.wraps(_parameter_new)
def _new_parameter(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """`type(parameter)(data, **parameter.__dict__)`: what keeps a parameter's own attributes may keep ours."""
    return _parameter_new(cls, *args, **{name: value for name, value in kwargs.items() if name not in PRIVATE})


def install_hiding(patches: Patches) -> None:
    """Keeps our attributes out of pickles, and from those who read a tensor's `__dict__`; the watcher needs this too."""
    patches.set(torch.nn.Parameter, "__new__", staticmethod(_new_parameter))
    original: Any = torch._utils._get_obj_state

    def get_obj_state(obj: Any) -> Any:
        state = original(obj)
        return without_private_state(state) if isinstance(obj, torch.Tensor) else state

    patches.set(torch._utils, "_get_obj_state", get_obj_state)


def _share_refused(storage: Any, *_: Any, **__: Any) -> Any:
    refuse("sending CUDA tensors to another process", "send host tensors")


def _foreign(name: str) -> Any:
    """Protocols that hand device memory to other libraries: of a placed tensor they would hand out host memory."""
    original = getattr(torch.Tensor, name)

    def guarded(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        _keep_inside(tensor, name)
        call = original.__get__(tensor)
        return call(*args, **kwargs) if callable(call) else call

    return property(guarded) if isinstance(original, property) else guarded


def _set_(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """`tensor.set_(source, ...)`, which no function mode sees."""
    source = args[0] if args else kwargs.get("source")
    source = getattr(source, "_untyped_storage", source)  # a typed one warns that it is old
    here, there = tensor.device, getattr(source, "device", None)
    if there is not None and there != here:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{here}" to a storage on different device "{there}".  '
            "This is no longer allowed; the devices must match."
        )
    return _host_set(tensor, *args, **kwargs)


_host_set: Any = torch._C.TensorBase.set_


def _keep_inside(tensor: Any, name: str) -> None:
    if getattr(tensor, TAG, None) is not None:
        refuse(f"sharing a CUDA tensor's memory with other libraries ({name})", "move it to the host first")


def _to_dlpack(tensor: Any) -> Any:
    """The same as a function, from before the protocol."""
    _keep_inside(tensor, "to_dlpack")
    return _ORIGINAL_TO_DLPACK(tensor)


_ORIGINAL_TO_DLPACK = torch._C._to_dlpack


def install(patches: Patches) -> None:
    """Puts these in place of torch's."""
    patches.set(_Storage, "__new__", staticmethod(_new))
    patches.set(_Storage, "is_shared", _is_shared)
    patches.set(_Storage, "is_pinned", _is_pinned)
    patches.set(_Storage, "device", property(_device))
    patches.set(_Storage, "is_cuda", property(lambda storage: _device(storage).type == "cuda"))
    patches.set(_Storage, "to", _to)
    patches.set(_Storage, accelerator.kind, _cuda)
    patches.set(_Storage, "cpu", _cpu)
    patches.set(_Storage, "clone", _clone)
    patches.set(_Storage, "__deepcopy__", _deepcopy)
    patches.set(_Storage, "_share_cuda_", _share_refused)
    for name in ("__dlpack__", "__cuda_array_interface__"):
        patches.set(torch.Tensor, name, _foreign(name))
    patches.set(torch.Tensor, "set_", _set_)
    for module in (torch, torch.utils.dlpack):
        patches.set(module, "to_dlpack", _to_dlpack)
    install_hiding(patches)
