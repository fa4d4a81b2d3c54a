"""The place of a tensor: the tag that virtual CUDA gives it, and the device that torch reports otherwise.

A virtual tensor is a plain host tensor with one attribute more. An untagged tensor is where torch says it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

HOST = torch.device("cpu")

# One attribute on the tensor (and on its storage, for the pickler). Its value is one of the interned devices below,
# so places are compared by identity on the hot path.
TAG = "_devlint_place"
TRAIL = "_devlint_trail"
PINNED = "_devlint_pinned"
PRIVATE = (TAG, TRAIL, PINNED)


class _Accelerator:
    """Which type of accelerator virtual devices are of, while there are any: there is one type at a time."""

    kind = "cuda"


accelerator = _Accelerator()
_interned: dict[tuple[str, int], torch.device] = {}


def virtual_place(index: int) -> torch.device:
    """The one `torch.device` object that stands for virtual device `index`."""
    key = (accelerator.kind, index)
    place = _interned.get(key)
    if place is None:
        place = _interned[key] = torch.device(*key)
    return place


def place_of(tensor: torch.Tensor) -> torch.device:
    """Where a tensor is: its virtual place if it has one, else `tensor.device`."""
    tag: torch.device | None = getattr(tensor, TAG, None)
    return tag if tag is not None else tensor.device


def is_accelerated(place: torch.device) -> bool:
    """Whether a place is a GPU or its like, real or virtual (not the host, not `meta`)."""
    return place.type not in ("cpu", "meta")


def tensors_in(value: Any, depth: int = 6) -> Iterator[torch.Tensor]:
    """Every tensor in nested tuples, lists, dicts, dataclass-like attributes not included."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, depth - 1)
