"""DataParallel's copies between devices, and what optimizers group by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from devlint.runtime.places import place_of, virtual_place
from devlint.runtime.virtual.patching import Patches
from devlint.runtime.virtual.state import machine

Tensor = torch.Tensor


def _place(device: Any) -> torch.device:
    return virtual_place(machine.index(device))


def _broadcast(tensor: Tensor, devices: Sequence[Any]) -> list[Tensor]:
    return [tensor.to(_place(device)) for device in devices]


def _broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 0) -> list[list[Tensor]]:
    first = _place(devices[0])
    for tensor in tensors:
        if place_of(tensor) != first:
            raise RuntimeError(f"All tensors must be on devices[0]: {first.index}")
    return [[tensor.to(_place(device)) for tensor in tensors] for device in devices]


def _scatter(
    tensor: Any, devices: Sequence[Any], chunk_sizes: Any = None, dim: int = 0, streams: Any = None
) -> tuple[Tensor, ...]:
    parts = tensor.split(list(chunk_sizes), dim) if chunk_sizes else tensor.chunk(len(devices), dim)
    # Asynchronous, as PyTorch's (torch/csrc/cuda/comm.cpp).
    return tuple(part.to(_place(device), non_blocking=True) for part, device in zip(parts, devices, strict=False))


def _gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None) -> Tensor:
    for index, tensor in enumerate(tensors):
        if place_of(tensor).type != "cuda":
            raise RuntimeError(
                f"Expected all input tensors to be CUDA tensors, but tensor at index {index} has device '{place_of(tensor)}'"
            )
    if destination is None or destination == -1:
        target: Any = virtual_place(machine.index()) if destination is None else "cpu"
    else:
        target = torch.device("cuda", destination) if isinstance(destination, int) else destination
    return torch.cat([tensor.to(target) for tensor in tensors], dim)


def _group_by_place(tensor_lists: Any, with_indices: bool = False) -> Any:
    """What optimizers group by: the place and dtype of the first list's tensors (None counts with its column)."""
    groups: dict[Any, Any] = {}
    for column in range(len(tensor_lists[0])):
        first = tensor_lists[0][column]
        key = (place_of(first), first.dtype)
        lists, indices = groups.setdefault(key, ([[] for _ in tensor_lists], []))
        for target, source in zip(lists, tensor_lists, strict=True):
            if source:
                target.append(source[column])
        if with_indices:
            indices.append(column)
    return groups


def install(patches: Patches) -> None:
    """Puts these in place of torch's."""
    patches.set(torch._C, "_broadcast", _broadcast)
    patches.set(torch._C, "_broadcast_coalesced", _broadcast_coalesced)
    patches.set(torch._C, "_scatter", _scatter)
    # Streams for copies, one for each device that there was at the first of them.
    patches.set(torch.nn.parallel._functions, "_streams", None)
    patches.set(torch._C, "_gather", _gather)
    patches.set(torch._C, "_group_tensors_by_device_and_dtype", _group_by_place)
