"""`torch.cuda.FloatTensor` and its kin: constructors and types of another age, still in use."""

from __future__ import annotations

from typing import Any

import torch

from devlint.runtime.virtual.errors import refuse
from devlint.runtime.virtual.patching import Patches

_DTYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


class _LegacyType(type):
    """`isinstance(t, torch.cuda.FloatTensor)`: a CUDA tensor of that dtype."""

    dtype: torch.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype == cls.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = getattr(torch, cls.__name__)(*args, **kwargs)
        if args and not all(isinstance(arg, int) for arg in args) and not isinstance(args[0], torch.Size):
            return made.cuda()
        # Memory of that size, with nothing copied there.
        return torch.empty_like(made, device="cuda")


class _SparseType(_LegacyType):
    """`torch.cuda.sparse.FloatTensor(indices, values, size)`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) and instance.is_sparse

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], torch.Tensor):
            return torch.sparse_coo_tensor(*args, dtype=cls.dtype)
        return getattr(torch.sparse, cls.__name__)(*args, **kwargs).cuda()


def _default_type(kind: Any) -> None:
    if str(kind).startswith("torch.cuda") or isinstance(kind, _LegacyType):
        refuse("set_default_tensor_type with a CUDA type", 'use torch.set_default_device("cuda")')
    _set_default_tensor_type(kind)


_set_default_tensor_type: Any = torch.set_default_tensor_type


def install(patches: Patches) -> None:
    """Puts these in place of torch's."""
    for name, dtype in _DTYPES.items():
        patches.set(torch.cuda, name, _LegacyType(name, (), {"dtype": dtype, "__module__": "torch.cuda"}))
        if hasattr(torch.cuda.sparse, name):
            kind = _SparseType(name, (), {"dtype": dtype, "__module__": "torch.cuda.sparse"})
            patches.set(torch.cuda.sparse, name, kind)
    patches.set(torch, "set_default_tensor_type", _default_type)
