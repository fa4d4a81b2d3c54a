"""Which functions make the host wait, as `torch.cuda.set_sync_debug_mode` counts it.

The tables hold C functions as a function mode receives them. Functions that wait only for some arguments have a test.
Source: the CUDA kernels that read sizes or values back (`nonzero`, `unique`, error codes of torch.linalg, ...).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Base: Any = torch._C.TensorBase

_READS = """
    item tolist __bool__ __float__ __int__ __index__ __complex__ is_nonzero
""".split()  # noqa: SIM905 - names
_DATA_DEPENDENT = """
    nonzero argwhere masked_select unique_dim _unique2 _unique unique_consecutive bincount equal allclose
    linalg_inv linalg_solve linalg_cholesky cholesky inverse linalg_eigh linalg_eigvalsh linalg_eig
    linalg_eigvals linalg_svd linalg_svdvals linalg_lstsq linalg_matrix_rank linalg_pinv lu_solve linalg_lu_factor
    nonzero_numpy
""".split()  # noqa: SIM905 - names


def _lookup(names: list[str]) -> set[Any]:
    homes: tuple[Any, ...] = (Base, torch, torch._C._VariableFunctions, getattr(torch._C, "_linalg", None))
    return {function for name in names for home in homes if callable(function := getattr(home, name, None))}


# Reads of a value, and functions whose result's size (or success) depends on the data.
ALWAYS: set[Any] = _lookup(_READS + _DATA_DEPENDENT)


def _accelerated_mask(index: Any) -> bool:
    from devlint.runtime.places import is_accelerated, place_of

    items = index if isinstance(index, tuple | list) else (index,)
    return any(
        isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8) and is_accelerated(place_of(item))
        for item in items
    )


def _getitem(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return _accelerated_mask(args[1])


def _setitem(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    # One value for all the mask's elements is filled in on the device.
    value = args[2]
    one = not isinstance(value, torch.Tensor) or value.numel() == 1
    return _accelerated_mask(args[1]) and not (one and not isinstance(args[1], tuple))


def _where(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return len(args) + len(kwargs) == 1


def _repeat_interleave(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    repeats = args[1] if len(args) > 1 else kwargs.get("repeats", args[0] if args else None)
    return isinstance(repeats, torch.Tensor) and kwargs.get("output_size") is None


def _one_hot(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    return bool(classes == -1)


# Functions that wait for some arguments only.
SOMETIMES: dict[Any, Callable[[tuple[Any, ...], dict[str, Any]], bool]] = {
    Base.__getitem__: _getitem,
    Base.__setitem__: _setitem,
    torch.where: _where,
    torch.nn.functional.one_hot: _one_hot,
    Base.repeat_interleave: _repeat_interleave,
    torch.repeat_interleave: _repeat_interleave,
}
