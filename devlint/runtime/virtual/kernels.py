"""Which kernel runs for a device's tensors, where the host's would be the wrong one.

Operators of somebody's library have kernels for CUDA of their own, written in Python; a few of PyTorch's have none; and
attention has backends to choose from, with rules of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from devlint.runtime import compat
from devlint.runtime.places import accelerator, place_of, tensors_in
from devlint.runtime.virtual import engine, errors, subclasses

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

# The operator namespaces of PyTorch itself.
_PYTORCHS = frozenset(
    """
    aten prim prims quantized _quantized onednn mkldnn mkldnn_prepacked prepacked xnnpack profiler rngprims debugprims
    c10d _c10d_functional c10d_functional _c10d_functional_autograd inductor static_runtime sparse cuda symm_mem
    _dtensor dtensor fsdp streams higher_order debug export torch_attn inductor_prims _inductor_test
    """.split()  # noqa: SIM905 - names
)


def _namespace(func: Any) -> str | None:
    if isinstance(func, torch._ops.OpOverload):
        return str(func.namespace)
    if isinstance(func, torch._ops.OpOverloadPacket):
        return str(func._qualified_op_name).partition("::")[0]
    return None


def _pass(func: Any, args: Args, kwargs: Kwargs) -> Any:
    return func(*args, **kwargs)


def handler_of(func: Any) -> engine.Handler:
    """The handler of a function that has none of its own."""
    namespace = _namespace(func)
    if namespace == "profiler":
        return _pass
    if namespace == "aten" and (name := str(func).split(".")[1]) in TABLE["host_only"]:
        return _refuse_devices(f"aten::{name}")
    return engine.run if namespace is None or namespace in _PYTORCHS else _run_library_operator


engine.handler_of = handler_of


def wrapper_of(func: Any) -> str:
    """What PyTorch calls the wrapper of an operator's kernel in errors, after the device's name (torchgen/dest/register_dispatch_key.py)."""
    name, overload = func._schema.name.removeprefix("aten::"), func._schema.overload_name
    if (f"{name}.{overload}" if overload else name) in _STRUCTURED:
        return f"{name}_{overload}" if overload else name
    return f"{overload}_{name}"


_KEYS = {name: torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)) for name in ("CPU", "CUDA", "MPS", "XPU")}


class _DevicesKernel(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Beneath autograd: a library's operator runs what the library registered for the device."""

    def __init__(self, place: torch.device | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.place = place

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        __tracebackhide__ = True
        kwargs = kwargs or {}
        if func.namespace in _PYTORCHS:
            return func(*args, **kwargs)
        name, has = func.name(), torch._C._dispatch_has_kernel_for_dispatch_key
        in_python = func._schema.name in OPDEFS
        key = "CPU" if self.place is None else self.place.type.upper()
        registered = self.place is not None and has(name, key)
        if (
            self.place is not None
            and not registered
            and in_python
            and not any(has(name, key) for key in engine.COMPOSITE)
        ):
            raise no_kernel(func._schema.name)
        with engine.VirtualMode():  # `redispatch` doesn't ask it, what the kernel calls does
            result = func.redispatch(_KEYS[key if registered else "CPU"], *args, **kwargs)
        if self.place is not None and not registered and not in_python:
            engine.tag(result, self.place)  # the host's kernel, in C++, stands for the device's
        return result


def no_kernel(operator: str) -> NotImplementedError:
    """What the dispatcher says of an operator that has no kernel for the device."""
    error = NotImplementedError(
        f"Could not run '{operator}' with arguments from the '{accelerator.kind.upper()}' backend. This could be because the operator doesn't "
        "exist for this backend, or was omitted during the selective/custom build process (if using custom build)."
    )
    error._devlint_ours = True  # type: ignore[attr-defined]
    return error


def _run_library_operator(func: Any, args: Args, kwargs: Kwargs) -> Any:
    __tracebackhide__ = True
    places = (tensor._devlint_place for tensor in tensors_in((args, kwargs)))  # type: ignore[attr-defined]
    with _DevicesKernel(next((place for place in places if place is not None), None)):
        return func(*args, **kwargs)


# --- what CUDA has no kernel for ------------------------------------------------------------------------------------

# Written by tools/cuda_kernels.py: operators without a kernel for CUDA, data types that CUDA's kernels lack, and data types
# that the host's lack as well.
TABLE = json.loads((Path(__file__).parent / "kernels.json").read_text(encoding="utf-8"))
# Operators whose kernels' wrappers are named in another way.
_STRUCTURED = frozenset(TABLE["structured"].split())
# Functions that are written in terms of such operators.
_CALLERS = {
    "_histogramdd_bin_edges": "histogramdd",
    "mm": "__matmul__ __rmatmul__",
    "baddbmm": "addbmm",
    "max_pool2d": "max_pool2d_with_indices",
    "max_pool3d": "max_pool3d_with_indices",
}
# What they call themselves in errors, where it isn't their name and "_cuda".
_KERNELS = {"addmv": "addmv_impl_cuda", "mv": "addmv_impl_cuda", "dot": "dot", "vdot": "vdot", "histc": "histogram_cuda"} | dict.fromkeys(
    ("mm", "addmm", "matmul", "linear", "inner", "tensordot"), "addmm_cuda"
) | dict.fromkeys(("bmm", "baddbmm", "addbmm", "bilinear"), "baddbmm_cuda")  # fmt: skip
# Some of their calls multiply nothing.
_NOT_ALWAYS = frozenset({"einsum", "inner", "norm"})
_PARTS = tuple(vars(torch._C)[name] for name in ("_nn", "_linalg", "_fft"))
_COMPLEX_NAMES = {torch.complex32: "ComplexHalf", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}
_DTYPE_NAMES = {
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "float16": "Half", "bfloat16": "BFloat16",
}  # fmt: skip


def functions_named(names: str) -> Iterator[Any]:
    """PyTorch's C functions and methods of these names."""
    for name in names.split():
        for home in (torch, torch._C._VariableFunctions, torch.Tensor, *_PARTS):
            function = getattr(home, name, None)
            if callable(function):
                yield function


def _refuse_devices(operator: str) -> engine.Handler:
    def handler(func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        if any(tensor._devlint_place is not None for tensor in tensors_in((args, kwargs))):  # type: ignore[attr-defined]
            raise no_kernel(operator)
        return func(*args, **kwargs)

    return handler


def _without(kernel: str, lacking: dict[torch.dtype, str]) -> engine.Handler:
    def handler(func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        result = engine.run(func, args, kwargs)
        first = args[0] if args and isinstance(args[0], torch.Tensor) else next(tensors_in((args, kwargs)))
        if first.dtype in lacking and place_of(first).type == "cuda" and not subclasses.is_wrapper(first):
            raise no_dtype(kernel, lacking[first.dtype])
        return result

    return handler


def no_dtype(kernel: str, dtype: str) -> RuntimeError:
    """What a kernel of CUDA's says of a data type that it isn't there for."""
    error = compat.MissingKernelError(f"\"{kernel}\" not implemented for '{dtype}'")
    error._devlint_ours = True  # type: ignore[attr-defined]
    return error


_NEITHER = {family: frozenset(names.split()) for family, names in TABLE["neither"].items()}
_FAMILIES = {"Half": "float16", "BFloat16": "bfloat16", "Float": "float32", "Double": "float32", "Bool": "bool"} | (
    dict.fromkeys(("Long", "Int", "Short", "Char", "Byte"), "int64")
    | dict.fromkeys(("ComplexFloat", "ComplexDouble"), "complex64")
)
_LACKS = re.compile(r"\"(\w+)\" not implemented for '(\w+)'")


def lacking(func: Any, text: str) -> RuntimeError | None:
    """What CUDA says to a call that fails for its data type on the host, where it fails so there too; else None."""
    found = _LACKS.search(text)
    if found is None or accelerator.kind != "cuda":
        return None
    schema = getattr(func, "_schema", None)
    name = schema.name.partition("::")[2] if schema is not None else getattr(func, "__name__", "")
    if not {name, name.rstrip("_"), name.strip("_"), name.removeprefix("special_")} & _NEITHER.get(
        _FAMILIES.get(found[2], ""), frozenset()
    ):
        return None
    return no_dtype(found[1].replace("_cpu", "_cuda"), found[2])


errors.lacking = lacking


for _name, _dtypes in TABLE["dtypes"].items():
    _lacking = {getattr(torch, name): _DTYPE_NAMES[name] for name in _dtypes if name in _DTYPE_NAMES}
    if _lacking and _name not in _NOT_ALWAYS:
        for _function in functions_named(f"{_name} {_CALLERS.get(_name, '')}"):
            engine.HANDLERS[_function] = _without(_KERNELS.get(_name, f"{_name}_cuda"), _lacking)


def _scatter(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """`scatter(reduce="multiply")`: CUDA doesn't multiply complex numbers there."""
    __tracebackhide__ = True
    result = engine.run(func, args, kwargs)
    reduced = kwargs.get("reduce", args[4] if len(args) > 4 else None)
    if reduced == "multiply" and place_of(result).type == "cuda" and result.is_complex():
        raise no_dtype("cuda_scatter_gather_base_kernel_func", _COMPLEX_NAMES[result.dtype])
    return result


for _function in functions_named("scatter scatter_"):
    engine.HANDLERS[_function] = _scatter
for _name in TABLE["host_only"]:
    for _function in functions_named(f"{_name} {_CALLERS.get(_name, '')}"):
        engine.HANDLERS[_function] = _refuse_devices(f"aten::{_name}")


# --- precision ------------------------------------------------------------------------------------------------------

_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def _cast(values: Any, to: dict[torch.dtype, torch.dtype]) -> Any:
    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in to:
            return engine.tag(value.to(to[value.dtype]), value._devlint_place)  # type: ignore[attr-defined]
        return value

    return tree_map(cast, values)


def run_wider(func: Any, args: Args, kwargs: Kwargs, error: BaseException) -> Any:
    """Runs a call that the host has no kernel for in half precision, and CUDA has one, in float32.

    Raises `error` where that isn't what was wrong, or where the call writes to its operands.
    """
    __tracebackhide__ = True
    found = _LACKS.search(str(error))
    if found is None or found[2] not in ("Half", "BFloat16") or lacking(func, str(error)) is not None:
        raise error
    if "out" in kwargs or getattr(func, "__name__", "_").endswith("_"):
        raise error
    used = {tensor.dtype for tensor in tensors_in((args, kwargs))} & _WIDER.keys()
    if len(used) != 1:
        raise error
    result = engine.run(func, *_cast((args, kwargs), _WIDER))
    return _cast(result, {torch.float32: used.pop()})


engine.run_wider = run_wider

_HALF_TO_SINGLE = {torch.float16: torch.float32, torch.complex32: torch.complex64}


def _transform(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Fourier transforms: CUDA knows them in half precision, the host doesn't."""
    __tracebackhide__ = True
    half = any(tensor.dtype in _HALF_TO_SINGLE for tensor in tensors_in((args, kwargs)))
    if not half or "out" in kwargs or place_of(next(tensors_in((args, kwargs)))).type != "cuda":
        return engine.run(func, args, kwargs)
    result = engine.run(func, *_cast((args, kwargs), _HALF_TO_SINGLE))
    return _cast(result, {single: kind for kind, single in _HALF_TO_SINGLE.items()})


for _name in dir(vars(torch._C)["_fft"]):
    if "fft_" in _name and not _name.endswith(("shift", "freq")):
        engine.HANDLERS[getattr(vars(torch._C)["_fft"], _name)] = _transform


# --- attention ------------------------------------------------------------------------------------------------------

_HALF = (torch.float16, torch.bfloat16)


def _has_backend(query: torch.Tensor, mask: Any) -> bool:
    """Whether one of the enabled backends takes a call: flash and cuDNN want half precision, flash no mask."""
    backends: Any = torch.backends.cuda
    half = query.dtype in _HALF and query.dim() == 4
    return (
        backends.math_sdp_enabled()
        or (backends.flash_sdp_enabled() and half and mask is None)
        or (backends.cudnn_sdp_enabled() and half)
        or (backends.mem_efficient_sdp_enabled() and query.dim() == 4 and query.dtype in (*_HALF, torch.float32))
    )


def _attention(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """`scaled_dot_product_attention` by the host's plain form, where a backend of CUDA's would take the call."""
    __tracebackhide__ = True
    query = args[0] if args else kwargs["query"]
    backends: Any = torch.backends.cuda
    if query._devlint_place is None or backends.math_sdp_enabled():
        return engine.run(func, args, kwargs)
    if not _has_backend(query, args[3] if len(args) > 3 else kwargs.get("attn_mask")):
        raise RuntimeError("No available kernel. Aborting execution.")
    backends.enable_math_sdp(True)
    try:
        return engine.run(func, args, kwargs)
    finally:
        backends.enable_math_sdp(False)


engine.HANDLERS[torch._C._nn.scaled_dot_product_attention] = _attention
