"""The layer under `torch.cuda` and `torch.accelerator`: the `torch._C._cuda_*` functions that a CPU-only build lacks.

PyTorch's own Python code runs on top of them, so functions that were imported before virtual CUDA came on
(`from torch.cuda import is_available`) work too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from devlint.runtime import compat
from devlint.runtime.places import accelerator
from devlint.runtime.virtual import streams
from devlint.runtime.virtual.errors import MissingPartError, invalid_ordinal, refuse
from devlint.runtime.virtual.memory import ledger
from devlint.runtime.virtual.patching import Patches
from devlint.runtime.virtual.state import machine


def _check(index: int) -> int:
    if not 0 <= index < machine.visible():
        raise invalid_ordinal()
    return index


def _set_device(index: int) -> None:
    machine.touch()
    machine.current.index = _check(index)


def _exchange_device(index: int) -> int:
    if index < 0:
        return -1
    before = machine.current.index
    machine.current.index = _check(index)
    return before


# --- memory -----------------------------------------------------------------------------------------------------


def _memory_stats(index: int) -> dict[str, Any]:
    current, peak = ledger.figures(index)
    figures = {"current": current, "peak": peak, "allocated": peak, "freed": peak - current}
    kinds = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes", "inactive_split_bytes")
    counts = ("allocation", "segment", "active", "inactive_split")
    zero = dict.fromkeys(figures, 0)
    stats: dict[str, Any] = {kind: {"all": figures, "small_pool": zero, "large_pool": zero} for kind in kinds}
    stats |= {count: {"all": zero, "small_pool": zero, "large_pool": zero} for count in counts}
    return (
        stats
        | {"num_alloc_retries": 0, "num_ooms": 0, "num_sync_all_streams": 0, "num_device_alloc": 0}
        | {"num_device_free": 0, "max_split_size": -1, "oversize_allocations": zero, "oversize_segments": zero}
    )


def _flat(stats: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in stats.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return dict(sorted(flat.items()))


def _memory_info(device: Any = None) -> tuple[int, int]:
    index = machine.index(device)
    return ledger.total - ledger.figures(index)[0], ledger.total


def _set_fraction(fraction: float, index: int) -> None:
    ledger.start()
    ledger.fractions[index] = fraction


def _dtypes() -> set[torch.dtype]:
    return {kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)}


class _PlanCache:
    """`torch.backends.cuda.cufft_plan_cache`, of all devices: it can be set, and holds nothing."""

    size, max_size = 0, 4096

    def __getitem__(self, device: Any) -> _PlanCache:
        machine.index(device)
        return self

    def clear(self) -> None:
        """Nothing to forget."""


def _profile_the_host(patches: Patches) -> None:
    """A profile of CUDA's activities is one of the host's: there are no others, and the profiler would complain of each."""
    profiler: Any = torch.autograd.profiler
    gpu = profiler.ProfilerActivity.CUDA
    supported = {*profiler._supported_activities(), gpu}
    patches.set(profiler, "_supported_activities", lambda: supported)
    config = profiler.profile.config

    def of_the_host(profile: Any, *args: Any, **kwargs: Any) -> Any:
        if profile.profiler_kind is profiler.ProfilerState.KINETO_GPU_FALLBACK:
            profile.profiler_kind = profiler.ProfilerState.KINETO
        return config(profile, *args, **kwargs)

    patches.set(profiler.profile, "config", of_the_host)
    for name in ("_enable_profiler", "_prepare_profiler"):
        original = getattr(profiler, name)

        def on_the_host(config: Any, activities: Any, *rest: Any, _original: Any = original, **more: Any) -> Any:
            return _original(config, set(activities) - {gpu}, *rest, **more)

        patches.set(profiler, name, on_the_host)


# --- everything the Python layers ask for --------------------------------------------------------------------------


def _nothing(*_: Any) -> None:
    return None


def _sync_debug_mode(debug_mode: int | str) -> None:
    if debug_mode not in (0, "default"):
        refuse("set_sync_debug_mode", "count syncs with devlint.runtime.watch_devices or assert_no_sync")


def _refusal(what: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        refuse(what)

    return refused


def _refused_class(what: str) -> Any:
    """A class that has no instances: programs name it in annotations and in `isinstance`."""
    return type("refused", (), {"__new__": _refusal(what), "__module__": "torch.cuda"})


# What torch.accelerator stands on, for any type of device.
_ACCELERATOR_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_get_accelerator": lambda: torch.device(accelerator.kind),
    "_accelerator_getAccelerator": lambda: torch.device(accelerator.kind),
    "_accelerator_getDeviceIndex": lambda: machine.current.index,
    "_accelerator_setDeviceIndex": _set_device,
    "_accelerator_exchangeDevice": _exchange_device,
    "_accelerator_maybeExchangeDevice": _exchange_device,
    "_accelerator_synchronizeDevice": _nothing,
    "_accelerator_getStream": streams.current_stream,
    "_accelerator_setStream": streams.set_stream,
    "_accelerator_emptyCache": _nothing,
    "_accelerator_emptyHostCache": _nothing,
    "_accelerator_isAllocatorInitialized": lambda: machine.used_in is not None,
    "_accelerator_getDeviceStats": lambda index: _flat(_memory_stats(index)),
    "_accelerator_resetPeakStats": ledger.reset_peak,
    "_accelerator_resetAccumulatedStats": _nothing,
    "_accelerator_getMemoryInfo": _memory_info,
    "_accelerator_getDeviceCapability": lambda index: {"supported_dtypes": _dtypes()},
}

_C_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_cuda_init": machine.touch,
    "_cuda_isInBadFork": lambda: False,
    "_cuda_getDeviceCount": machine.visible,
    "_cuda_getDevice": lambda: machine.current.index,
    "_cuda_setDevice": _set_device,
    "_cuda_exchangeDevice": _exchange_device,
    "_cuda_maybeExchangeDevice": _exchange_device,
    "_cuda_getCurrentRawStream": lambda index: 0,
    "_cuda_getCurrentStream": lambda index: streams.data_of(streams.current_stream(index)),
    "_cuda_getDefaultStream": lambda index: streams.data_of(streams.default_stream(index)),
    "_cuda_setStream": streams.set_stream_by_id,
    "_cuda_synchronize": _nothing,
    "_cuda_emptyCache": _nothing,
    "_cuda_ipc_collect": _nothing,
    "_cuda_sleep": _nothing,
    "_cuda_getArchFlags": lambda: "sm_80",
    "_cuda_canDeviceAccessPeer": lambda *_: True,
    "_cuda_memoryStats": _memory_stats,
    "_cuda_resetPeakMemoryStats": ledger.reset_peak,
    "_cuda_resetAccumulatedMemoryStats": _nothing,
    "_cuda_setMemoryFraction": _set_fraction,
    "_cuda_getMemoryFraction": lambda index: ledger.fractions.get(index, 1.0),
    "_cuda_getAllocatorBackend": lambda: "native",
    "_cuda_get_sync_debug_mode": lambda: 0,
    "_get_cuda_backend_name": lambda: "CUDA",
    "_nccl_version": lambda: (2 << 32) + (27 << 16) + 5,
    "_nccl_version_suffix": lambda: b"",
    "_cuda_memorySnapshot": _refusal("memory snapshots"),
    "_cuda_record_memory_history": _refusal("memory snapshots"),
    "_cuda_record_memory_history_legacy": _refusal("memory snapshots"),
    "_cuda_getCurrentBlasHandle": _refusal("cuBLAS handles"),
    "_cuda_getCurrentSolverHandle": _refusal("cuSOLVER handles"),
    "_cuda_jiterator_compile_and_launch_kernel": _refusal("jiterator kernels"),
    "_cuda_cudaCachingAllocator_raw_alloc": _refusal("raw device memory"),
    "_cuda_cudaCachingAllocator_raw_delete": _refusal("raw device memory"),
    "_cuda_cudaHostAllocator": _refusal("the CUDA host allocator"),
    "_cuda_customAllocator": _refusal("pluggable allocators"),
}
for _name in ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"):
    _C_FUNCTIONS[f"_nccl_{_name}"] = _refusal("collectives of torch.cuda.nccl, which need no process group")

_CUDA_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "is_available": machine.available,
    "device_count": machine.visible,
    "is_initialized": lambda: machine.used_in is not None,
    "_lazy_init": machine.touch,
    "init": machine.touch,
    "_is_in_bad_fork": lambda: False,
    "_exchange_device": _exchange_device,
    "_maybe_exchange_device": _exchange_device,
    "is_bf16_supported": lambda including_emulation=True: True,
    "is_tf32_supported": lambda: True,
    "is_current_stream_capturing": lambda: False,
    "_get_device_properties": lambda index: streams.Properties(),
    "get_arch_list": lambda: ["sm_80"],
    "current_stream": streams.current_stream,
    "default_stream": streams.default_stream,
    "set_stream": streams.set_stream,
    "mem_get_info": _memory_info,
    "memory_usage": lambda device=None: 0,
    "utilization": lambda device=None: 0,
    "cudart": _refusal("the CUDA runtime library (torch.cuda.cudart)"),
    "set_sync_debug_mode": _sync_debug_mode,
    "CUDAGraph": _refused_class("CUDA graphs"),
    "graph": _refused_class("CUDA graphs"),
    "make_graphed_callables": _refusal("CUDA graphs"),
    "MemPool": _refused_class("memory pools"),
    "get_stream_from_external": _refusal("external streams"),
    "ExternalStream": _refused_class("external streams"),
    "temperature": _refusal("NVML readings"),
    "power_draw": _refusal("NVML readings"),
    "clock_rate": _refusal("NVML readings"),
    "_compile_kernel": _refusal("CUDA kernels in source form"),
}


# --- other accelerators: what a suite asks that is parametrised over devices ----------------------------------------

_MPS_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_mps_is_available": machine.available,
    "_mps_is_on_macos_or_newer": lambda *_: True,
    "_mps_deviceSynchronize": _nothing,
    "_mps_emptyCache": _nothing,
    "_mps_setMemoryFraction": lambda fraction: _set_fraction(fraction, 0),
    "_mps_currentAllocatedMemory": lambda: ledger.figures(0)[0],
    "_mps_driverAllocatedMemory": lambda: ledger.figures(0)[0],
    "_mps_recommendedMaxMemory": lambda: ledger.total,
    "_mps_get_name": lambda: streams.Properties.name,
}
_XPU_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_xpu_init": machine.touch,
    "_xpu_isInBadFork": lambda: False,
    "_xpu_getDeviceCount": machine.visible,
    "_xpu_getDevice": lambda: machine.current.index,
    "_xpu_setDevice": _set_device,
    "_xpu_exchangeDevice": _exchange_device,
    "_xpu_maybeExchangeDevice": _exchange_device,
    "_xpu_getCurrentStream": lambda index: streams.data_of(streams.current_stream(index)),
    "_xpu_setStream": streams.set_stream_by_id,
    "_xpu_synchronize": _nothing,
    "_xpu_emptyCache": _nothing,
    "_xpu_memoryStats": _memory_stats,
    "_xpu_resetPeakMemoryStats": lambda index: ledger.reset_peak(index),
    "_xpu_resetAccumulatedMemoryStats": _nothing,
    "_xpu_setMemoryFraction": lambda fraction, index: _set_fraction(fraction, index),
    "_xpu_getMemoryFraction": lambda index: ledger.fractions.get(index, 1.0),
    "_xpu_getMemoryInfo": _memory_info,
    "_xpu_canDeviceAccessPeer": lambda *_: True,
    "_xpu_getArchFlags": lambda: "",
}


def _install_mps(patches: Patches) -> None:
    for name, function in _MPS_FUNCTIONS.items():
        patches.set(torch._C, name, function)
    patches.set(torch._C, "_has_mps", True)
    patches.set(torch.backends.mps, "is_built", lambda: True)
    patches.set(torch.backends.mps, "is_available", machine.available)


def _install_xpu(patches: Patches) -> None:
    for name, function in _XPU_FUNCTIONS.items():
        patches.set(torch._C, name, function)
    patches.set(torch._C, "_has_xpu", True)
    functions: dict[str, Any] = {
        "is_available": machine.available,
        "device_count": machine.visible,
        "_lazy_init": machine.touch,
        "init": machine.touch,
        "is_initialized": lambda: machine.used_in is not None,
        "get_device_properties": lambda device=None: streams.Properties(),
        "current_stream": streams.current_stream,
        "set_stream": streams.set_stream,
        "is_bf16_supported": lambda including_emulation=True: True,
    }
    for name, function in functions.items():
        patches.set(torch.xpu, name, function)


def _missing_part(name: str) -> Any:
    """`torch._C.<name>` of a part that nobody has made. `hasattr` says no, and the error says what it is."""
    if name.startswith(f"_{accelerator.kind}_"):
        raise MissingPartError(
            f"devlint: virtual {accelerator.kind.upper()} does not support what stands on torch._C.{name}; run this part "
            "on a real GPU, or outside virtual_cuda(), and tell devlint's maintainers of it with this line"
        )
    raise AttributeError(f"module 'torch._C' has no attribute {name!r}")


def install(patches: Patches) -> None:
    """Installs the layer for the accelerator of the day; `patches.undo()` takes it away."""
    patches.set(torch._C, "__getattr__", _missing_part)
    for name, function in _ACCELERATOR_FUNCTIONS.items():
        patches.set(torch._C, name, function)
    if compat.accelerator is not None:
        patches.set(compat.accelerator, "device_count", machine.visible)
        patches.set(compat.accelerator, "is_available", machine.available)
        kind = torch.device(accelerator.kind)
        patches.set(compat.accelerator, "current_accelerator", lambda check_available=False: kind)
    {"cuda": _install_cuda, "mps": _install_mps, "xpu": _install_xpu}[accelerator.kind](patches)
    streams.install(patches)


def _install_cuda(patches: Patches) -> None:
    for name, function in _C_FUNCTIONS.items():
        patches.set(torch._C, name, function)
    for name, function in _CUDA_FUNCTIONS.items():
        if name.startswith("_") or hasattr(torch.cuda, name):
            patches.set(torch.cuda, name, function)
    patches.set(torch.cuda.memory, "mem_get_info", _memory_info)
    for owner in (torch.cuda, torch.cuda.memory):
        patches.set(owner, "CUDAPluggableAllocator", _refused_class("pluggable allocators"))
    # Functions that torch.cuda's submodules imported by name look at these.
    patches.set(torch.cuda, "_initialized", True)
    patches.set(torch.cuda, "_cached_device_count", None)
    patches.set(torch._C, "_has_cuda", True)
    patches.set(torch.backends.cuda, "is_built", lambda: True)
    for name in ("mark", "range_push", "range_pop", "range_start", "range_end"):
        patches.set(torch.cuda.nvtx, name, lambda *_, **__: 0)
    patches.set(torch.cuda.nccl, "is_available", lambda tensors: False)
    patches.set(torch.backends.cudnn, "is_available", lambda: True)
    patches.set(torch.backends.cudnn, "version", lambda: 91002)
    patches.set(torch.backends.cuda, "cufft_plan_cache", _PlanCache())
    for name in ("__enter__", "__exit__"):
        patches.set(torch.autograd.profiler.emit_nvtx, name, lambda ranges, *_: ranges if not _ else None)
    _profile_the_host(patches)
    patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    patches.set(torch.version, "cuda", "12.8")
