"""What PyTorch's functions demand of their tensors, and what shape they give, found by trying.

Each function of PyTorch's operator database (`op_db`) is called under virtual CUDA with one of its tensors on the host
and the others on the accelerator, each in turn. Only a function that refuses all of it is listed; tensors without
dimensions are left where they belong, since element-wise functions take those from the host. Which functions never
lose a dimension is found on the same samples.
"""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from devlint.runtime import virtual_cuda

# Samples that are tried of each function.
SAMPLES = 12
# Samples of these don't show all that they do.
LOSING = frozenset({"squeeze", "reshape", "view", "reshape_as", "view_as", "as_strided", "select", "sum_to_size"})
# These copy, or compare sizes, and don't compute from all of their tensors.
NOT_COMPUTING = frozenset({"type_as", "view_as", "expand_as", "reshape_as", "to"})


def demands() -> list[str]:
    """Functions (`torch.add`) and methods (`torch.Tensor.add`) whose tensors must be on one device, sorted."""
    found: set[str] = set()
    with warnings.catch_warnings(), virtual_cuda(1):
        warnings.simplefilter("ignore")
        for op in _operators():
            if op.name not in NOT_COMPUTING and _refuses(op):
                found.update(_names(op))
    return sorted(found)


def keeping_dimensions() -> list[str]:
    """Functions and methods whose results have as many dimensions as their first tensor at least, sorted."""
    found: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in _operators():
            if op.name not in LOSING and _keeps_dimensions(op):
                found.update(_names(op))
    return sorted(found)


def _keeps_dimensions(op: Any) -> bool:
    tried = 0
    for sample in _samples(op):
        try:
            results, _ = tree_flatten(op(sample.input, *sample.args, **sample.kwargs))
        except Exception:
            return False
        tensors = [r for r in results if isinstance(r, torch.Tensor)]
        if not tensors or not isinstance(sample.input, torch.Tensor):
            return False
        tried += 1
        if any(t.ndim < sample.input.ndim for t in tensors):
            return False
    return tried > 0


def _samples(op: Any) -> Iterator[Any]:
    """The first samples of an operator, float32 where it takes that."""
    dtypes = op.supported_dtypes("cpu")
    if not dtypes or op.variant_test_name:
        return
    dtype = torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]
    torch.manual_seed(0)
    yield from islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES)


def _operators() -> list[Any]:
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        # PyTorch's test helpers import it for a base class that the operator database doesn't use.
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def _names(op: Any) -> Iterator[str]:
    for name in (n.removeprefix("torch.") for n in (op.name, *(alias.name for alias in op.aliases))):
        owner: Any = torch
        for part in name.split("."):
            owner = getattr(owner, part, None)
        if "._" in f".{name}":
            continue
        if callable(owner):
            yield f"torch.{name}"
        if callable(getattr(torch.Tensor, name, None)):
            yield f"torch.Tensor.{name}"
            if callable(getattr(torch.Tensor, f"{name}_", None)):
                yield f"torch.Tensor.{name}_"


def _refuses(op: Any) -> bool:
    tried = 0
    for sample in _samples(op):
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        placed = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.ndim and leaf.numel()]
        if len(placed) > 1:
            tried += 1
            if any(_accepts(op, leaves, spec, left) for left in placed):
                return False
    return tried > 0


def _accepts(op: Any, leaves: list[Any], spec: Any, left: int) -> bool:
    """Whether the call works with one tensor left on the host."""
    given = [
        leaf.clone().to("cuda") if isinstance(leaf, torch.Tensor) and i != left else leaf
        for i, leaf in enumerate(leaves)
    ]
    first, args, kwargs = tree_unflatten(given, spec)
    try:
        op(first, *args, **kwargs)
    except RuntimeError as error:
        return not any(word in str(error) for word in ("device", "weight type", "cuda"))
    except Exception:
        return True
    return True
