"""Which kernel runs for a device's tensors, where the host's would be the wrong one.

Operators of somebody's library have kernels for CUDA of their own, written in Python; a few of PyTorch's have none; and
attention has backends to choose from, with rules of their own.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from devlint.runtime.places import accelerator, tensors_in
from devlint.runtime.virtual import engine

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


def handler_of(func: Any) -> engine.Handler:
    """The handler of a function that has none of its own."""
    namespace = _namespace(func)
    return engine.run if namespace is None or namespace in _PYTORCHS else _run_library_operator


engine.handler_of = handler_of


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


# Functions of PyTorch whose operator has a kernel for the CPU alone (native_functions.yaml, PyTorch 2.13).
HOST_ONLY = {
    "histogram": "aten::histogram.bin_ct",
    "histogramdd": "aten::_histogramdd_bin_edges",
    "_spdiags": "aten::_spdiags",
    "to_mkldnn": "aten::to_mkldnn",
}


def _refuse_devices(operator: str) -> engine.Handler:
    def handler(func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        if any(tensor._devlint_place is not None for tensor in tensors_in((args, kwargs))):  # type: ignore[attr-defined]
            raise no_kernel(operator)
        return func(*args, **kwargs)

    return handler


for _name, _operator in HOST_ONLY.items():
    for _home in (torch, torch._C._VariableFunctions, torch.Tensor):
        if callable(_function := getattr(_home, _name, None)):
            engine.HANDLERS[_function] = _refuse_devices(_operator)


# --- integers -------------------------------------------------------------------------------------------------------

# Functions whose CUDA kernels multiply matrices of floating point only, and what those call themselves.
_FLOATING = {
    "addmm_cuda": "mm addmm matmul linear __matmul__ __rmatmul__",
    "baddbmm_cuda": "bmm baddbmm",
    "addmv_impl_cuda": "mv addmv",
    "dot": "dot",
    "vdot": "vdot",
}
_DTYPE_NAMES = {torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte"}


def _floating_only(kernel: str) -> engine.Handler:
    def handler(func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        result = engine.run(func, args, kwargs)
        if result.dtype in _DTYPE_NAMES and result._devlint_place is not None and accelerator.kind == "cuda":
            error = NotImplementedError(f"\"{kernel}\" not implemented for '{_DTYPE_NAMES[result.dtype]}'")
            error._devlint_ours = True  # type: ignore[attr-defined]
            raise error
        return result

    return handler


for _kernel, _names in _FLOATING.items():
    for _name in _names.split():
        for _home in (torch, torch._C._VariableFunctions, torch.Tensor, torch._C._nn):
            if callable(_function := getattr(_home, _name, None)):
                engine.HANDLERS[_function] = _floating_only(_kernel)


# --- precision ------------------------------------------------------------------------------------------------------

_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
_LACKS = re.compile(r"not implemented for '(Half|BFloat16)'")


def run_wider(func: Any, args: Args, kwargs: Kwargs, error: BaseException) -> Any:
    """Runs a call that the host has no kernel for in half precision (CUDA has them all) in float32.

    Raises `error` where that isn't what was wrong, or where the call writes to its operands.
    """
    __tracebackhide__ = True
    if not _LACKS.search(str(error)) or "out" in kwargs or getattr(func, "__name__", "_").endswith("_"):
        raise error
    used = {tensor.dtype for tensor in tensors_in((args, kwargs))} & _WIDER.keys()
    if len(used) != 1:
        raise error

    def cast(value: Any, to: dict[torch.dtype, torch.dtype]) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in to:
            return engine.tag(value.to(to[value.dtype]), value._devlint_place)  # type: ignore[attr-defined]
        return value

    args, kwargs = tree_map(lambda value: cast(value, _WIDER), (args, kwargs))
    result = engine.run(func, args, kwargs)
    return tree_map(lambda value: cast(value, {torch.float32: used.copy().pop()}), result)


engine.run_wider = run_wider


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
