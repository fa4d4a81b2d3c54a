"""Which functions make the host wait, as `torch.cuda.set_sync_debug_mode` counts it.

The tables hold C functions as a function mode receives them. Functions that wait only for some arguments have a test.
Source: measured on a GPU (tools/cuda_truth.py; tests/data/cuda_truth.json.gz), beside the CUDA kernels that read sizes or values
back (`nonzero`, `unique`, error codes of torch.linalg, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from devlint.runtime.places import is_accelerated, place_of, tensors_in
from devlint.runtime.watch.indices import is_mask, reading_waits, writing_waits

Base: Any = torch._C.TensorBase
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Test = Callable[[Args, Kwargs], bool]

_READS = """
    item tolist __bool__ __float__ __int__ __index__ __complex__ is_nonzero
""".split()  # noqa: SIM905 - names
_DATA_DEPENDENT = """
    nonzero argwhere masked_select unique_dim _unique2 _unique unique_consecutive bincount allclose
    nonzero_numpy combinations cov corrcoef istft ctc_loss _ctc_loss to_sparse
""".split()  # noqa: SIM905 - names
# They read an error code, or the condition of a matrix: where there is nothing to compute, too, or not then.
_OF_MATRICES = """
    linalg_inv linalg_solve linalg_cholesky inverse linalg_eig linalg_eigvals linalg_lu_factor linalg_ldl_factor
    linalg_tensorinv linalg_tensorsolve
""".split()  # noqa: SIM905 - names
_OF_FILLED_MATRICES = """
    cholesky linalg_eigh linalg_eigvalsh linalg_svd linalg_svdvals linalg_lstsq linalg_matrix_rank linalg_pinv
    linalg_cond linalg_matrix_exp matrix_exp pinverse svd
""".split()  # noqa: SIM905 - names
# Numbers that a factory is given: sizes, bounds, what to fill with.
_FACTORIES = """
    arange range zeros ones empty full rand randn randint randperm eye linspace logspace scalar_tensor empty_strided
""".split()  # noqa: SIM905 - names
# By function: where the numbers are that are read from tensors, and their names.
_NUMBERS: dict[str, tuple[tuple[int, str], ...]] = {
    "masked_fill": ((2, "value"),),
    "index_fill": ((3, "value"),),
    "narrow": ((2, "start"), (3, "length")),
    "select": ((2, "index"),),
    "full_like": ((1, "fill_value"),),
    "new_full": ((2, "fill_value"),),
    "add": ((3, "alpha"),),
    "sub": ((3, "alpha"),),
}


def _lookup(names: Iterable[str]) -> set[Any]:
    homes: tuple[Any, ...] = (Base, torch, torch._C._VariableFunctions, getattr(torch._C, "_linalg", None))
    return {function for name in names for home in homes if callable(function := getattr(home, name, None))}


# Reads of a value, and functions whose result's size (or success) depends on the data.
ALWAYS: set[Any] = _lookup(_READS + _DATA_DEPENDENT + _OF_MATRICES)


def given(args: Args, kwargs: Kwargs, position: int, name: str) -> Any:
    """An argument by its position or name; None where it isn't given."""
    return args[position] if len(args) > position else kwargs.get(name)


# --- arguments -------------------------------------------------------------------------------------------------------


def _index_put(args: Args, kwargs: Kwargs) -> bool:
    """Indices from elsewhere are copied, a mask's places are counted where it is."""
    here = is_accelerated(place_of(args[0]))
    indices = tensors_in(given(args, kwargs, 1, "indices"))
    return any(is_accelerated(place_of(item)) == (is_mask(item) or not here) for item in indices)


def _holds_elements(args: Args, kwargs: Kwargs) -> bool:
    return any(tensor.numel() > 0 for tensor in tensors_in((args, kwargs)))


def _equal(args: Args, kwargs: Kwargs) -> bool:
    """It looks at sizes, and whether it is one tensor, before it asks the device."""
    one, other = args[0], given(args, kwargs, 1, "other")
    return bool(one is not other and one.shape == other.shape and one.numel())


def _where(args: Args, kwargs: Kwargs) -> bool:
    """Alone it gives the places of what is true; a number in a tensor on the host is copied to the device."""
    values = [given(args, kwargs, i, name) for i, name in ((1, "input"), (2, "other"))]
    if all(value is None for value in values) and "self" not in kwargs:
        return True
    return any(isinstance(v, torch.Tensor) and v.dim() == 0 and place_of(v).type == "cpu" for v in values)


def _repeat_interleave(args: Args, kwargs: Kwargs) -> bool:
    repeats = args[1] if len(args) > 1 else kwargs.get("repeats", args[0] if args else None)
    return isinstance(repeats, torch.Tensor) and kwargs.get("output_size") is None


def _one_hot(args: Args, kwargs: Kwargs) -> bool:
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    return bool(classes == -1)


def _histc(args: Args, kwargs: Kwargs) -> bool:
    """Without a range it is that of the values."""
    return bool((given(args, kwargs, 2, "min") or 0) == (given(args, kwargs, 3, "max") or 0))


def _matrix_power(args: Args, kwargs: Kwargs) -> bool:
    return bool(given(args, kwargs, 1, "n") < 0)


def _norm(args: Args, kwargs: Kwargs) -> bool:
    """Norms by singular values."""
    order = next((value for name in ("ord", "p") if (value := given(args, kwargs, 1, name)) is not None), None)
    dim = given(args, kwargs, 2, "dim")
    matrix = args[0].dim() >= 2 if dim is None else isinstance(dim, tuple | list) and len(dim) == 2
    return order == "nuc" or (matrix and order in (2, -2))


def _nuclear(args: Args, kwargs: Kwargs) -> bool:
    return bool(given(args, kwargs, 1, "p") == "nuc")


def _normal(args: Args, kwargs: Kwargs) -> bool:
    """It looks whether a deviation is negative."""
    return isinstance(given(args, kwargs, 1, "std"), torch.Tensor)


def _isin(args: Args, kwargs: Kwargs) -> bool:
    """Many elements to look for are sorted, without repeats (aten/src/ATen/native/TensorCompare.cpp, `isin_Tensor_Tensor_out`)."""
    elements, wanted = given(args, kwargs, 0, "elements"), given(args, kwargs, 1, "test_elements")
    if not isinstance(elements, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return False
    return bool(wanted.numel() >= 10 * elements.numel() ** 0.145)


def _without_size(args: Args, kwargs: Kwargs) -> bool:
    return len(args) < 3 and "size" not in kwargs


def _is_mixed(args: Args, kwargs: Kwargs) -> bool:
    places = {place_of(tensor).type for tensor in tensors_in((args, kwargs)) if tensor.numel()}
    return "cpu" in places and len(places) > 1


def _reads(places: tuple[tuple[int, str], ...]) -> Test:
    def test(args: Args, kwargs: Kwargs) -> bool:
        values = (given(args, kwargs, *place) for place in places)
        return any(isinstance(value, torch.Tensor) and is_accelerated(place_of(value)) for value in values)

    return test


def _is_given_tensors(args: Args, kwargs: Kwargs) -> bool:
    """Sizes and values, not where the result is written."""
    others = (value for name, value in kwargs.items() if name != "out")
    return any(is_accelerated(place_of(tensor)) for tensor in tensors_in((args, *others)))


# Functions that wait for some arguments only; they are asked about where one of the tensors is on an accelerator.
SOMETIMES: dict[Any, Test] = {
    Base.__getitem__: reading_waits,
    Base.__setitem__: writing_waits,
    torch.nn.functional.one_hot: _one_hot,
    torch.sparse_coo_tensor: _without_size,
    torch.normal: _normal,
}
for _test, _names in (
    (_holds_elements, _OF_FILLED_MATRICES),
    (_is_given_tensors, _FACTORIES),
    (_equal, ("equal",)),
    (_where, ("where",)),
    (_index_put, ("index_put", "index_put_")),
    (_repeat_interleave, ("repeat_interleave",)),
    (_histc, ("histc",)),
    (_matrix_power, ("matrix_power", "linalg_matrix_power")),
    (_norm, ("linalg_norm", "linalg_matrix_norm")),
    (_nuclear, ("norm",)),
    (_isin, ("isin",)),
    (_is_mixed, ("select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter")),
):
    SOMETIMES |= dict.fromkeys(_lookup(_names), _test)
for _name, _places in _NUMBERS.items():
    SOMETIMES |= dict.fromkeys(_lookup((_name, f"{_name}_")), _reads(_places))
