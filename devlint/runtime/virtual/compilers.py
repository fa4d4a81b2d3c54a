"""What runs Python elsewhere: torch.compile and TorchScript run eagerly, tracing is refused."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from devlint.runtime.places import tensors_in
from devlint.runtime.virtual.errors import called, refuse
from devlint.runtime.virtual.patching import Patches
from devlint.runtime.virtual.state import machine


def _compile(model: Any = None, **options: Any) -> Any:
    """`torch.compile` that compiles nothing: what it is given runs as it is."""
    if model is None:
        return functools.partial(_compile, **options)
    warnings.warn("devlint: under virtual_cuda() torch.compile runs the code eagerly", stacklevel=2)
    if isinstance(model, torch.nn.Module):
        from torch._dynamo import eval_frame

        wrapper: Any = eval_frame.OptimizedModule
        return wrapper(model, lambda function: function)
    return model


def _eager(obj: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`torch.jit.script` and `trace` as with PYTORCH_JIT=0: what they are given runs as it is."""
    if str(getattr(obj, "__module__", "")).startswith("torch._decomp"):
        return _script(obj)  # forward-mode derivatives are kept as TorchScript
    warnings.warn("devlint: under virtual_cuda() torch.jit.script and trace run the code eagerly", stacklevel=2)
    return kwargs.get("func", obj)


_script: Any = torch.jit.script


def _refused(*args: Any, **kwargs: Any) -> Any:
    refuse("torch.jit.load, save and trace_module: TorchScript runs in C++, which sees host tensors")


def _guarded(call: Any) -> Any:
    def guarded(function: Any, *args: Any, **kwargs: Any) -> Any:
        for tensor in tensors_in((args, kwargs)):
            if getattr(tensor, "_devlint_place", None) is not None:
                refuse("calling TorchScript functions with CUDA tensors", "call the Python function")
        return call(function, *args, **kwargs)

    return guarded


def _no_tracing(*args: Any, **kwargs: Any) -> Any:
    refuse(
        f"{called()} here: it traces with FakeTensorMode, which would build CUDA's autograd nodes and end this process"
    )


def _nested(make: Any) -> Any:
    def guarded(data: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        placed = any(getattr(tensor, "_devlint_place", None) is not None for tensor in tensors_in(data))
        if (placed and device is None) or (device is not None and machine.place(device) is not None):
            refuse("nested tensors")
        return make(data, *args, **kwargs)

    return guarded


def install(patches: Patches) -> None:
    """Puts these in place of torch's."""
    patches.set(torch, "compile", _compile)
    for name in ("script", "trace", "freeze", "optimize_for_inference"):
        patches.set(torch.jit, name, _eager)
    for name in ("load", "save", "trace_module"):
        patches.set(torch.jit, name, _refused)
    patches.set(FakeTensorMode, "__enter__", _no_tracing)
    patches.set(torch.export, "export", _no_tracing)  # strict export puts an error of its own around the refusal
    patches.set(torch.nested, "nested_tensor", _nested(torch.nested.nested_tensor))
    patches.set(torch.nested, "as_nested_tensor", _nested(torch.nested.as_nested_tensor))
    patches.set(torch.jit.ScriptFunction, "__call__", _guarded(torch.jit.ScriptFunction.__call__))
