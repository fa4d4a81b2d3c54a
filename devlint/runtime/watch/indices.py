"""What an index makes the host do: read numbers, copy lists, count what a mask leaves.

Measured on a GPU: benchmarks/cuda_waits.py has the expressions, tests/data/cuda_truth.json.gz what they came to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from devlint.runtime.places import is_accelerated, place_of

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def items_of(index: Any) -> tuple[Any, ...]:
    """The parts of an index."""
    return index if isinstance(index, tuple) else (index,)


def is_mask(item: Any) -> bool:
    """Whether a part of an index is a mask."""
    return isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)


def is_number(item: Any) -> bool:
    """Whether a part of an index is a tensor that stands for one number, which the host reads."""
    return isinstance(item, torch.Tensor) and item.dim() == 0 and not is_mask(item)


def numbers_in(index: Any) -> Iterator[torch.Tensor]:
    """The tensors in an index that the host reads as a number: single ones, and the bounds of slices."""
    for item in items_of(index):
        parts = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
        yield from (part for part in parts if is_number(part))


def _is_written_out(item: Any) -> bool:
    """Whether a part of an index is made a tensor on the host: a list of numbers, an array, a range."""
    if isinstance(item, bool | int | slice | torch.Tensor | type(None) | type(...)) or not hasattr(item, "__len__"):
        return False
    return not any(isinstance(part, torch.Tensor) for part in item)


def _accelerated_mask(index: Any) -> bool:
    return any(is_mask(item) and is_accelerated(place_of(item)) for item in items_of(index))


def reading_waits(args: Args, kwargs: Kwargs) -> bool:
    """Whether `x[index]` waits, beside what `numbers_in` reads and what is copied: masks, and lists that become tensors."""
    return _accelerated_mask(args[1]) or any(_is_written_out(item) for item in items_of(args[1]))


def writing_waits(args: Args, kwargs: Kwargs) -> bool:
    """Whether `x[index] = value` waits beside that: a number is copied to the device where one element is set, or several by an
    index other than a mask alone. A row or a slice is filled without."""
    target, index, value = args
    items = items_of(index)
    masks = [item for item in items if is_mask(item)]
    others = [i for i in items if (isinstance(i, torch.Tensor) and not is_mask(i) and i.dim()) or _is_written_out(i)]
    if len(masks) == 1 and not others and is_accelerated(place_of(masks[0])):
        # One value for all of the mask's elements is filled in on the device.
        one = not isinstance(value, torch.Tensor) or value.dim() == 0
        return not one or (isinstance(value, torch.Tensor) and is_accelerated(place_of(value)))
    if any(_is_written_out(item) for item in items) or _accelerated_mask(index):
        return True
    if isinstance(value, torch.Tensor) and (value.dim() or is_accelerated(place_of(value))):
        return False
    single = len(items) == target.dim() and all(is_number(i) or type(i) is int for i in items)
    return single or bool(others or masks)
