"""Finds what the functions of `torch.cuda` ask of the machine, for devlint/knowledge/cuda.json.

Each is called once in a process of its own, with no accelerator in sight. That it asks the driver shows in what it reaches:
`_lazy_init`, one of torch's functions below, which stand in its way here, or a class that the driver makes the objects of.
Without those in its way, it raises or it doesn't. `tools/generate_knowledge.py` writes and checks the file with the others.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

OUTPUT = Path(__file__).resolve().parent.parent / "devlint" / "knowledge" / "cuda.json"

# The functions of torch's C++ half through which `torch.cuda` asks the driver without `_lazy_init`.
DRIVER = ("_cuda_getDeviceCount", "_cuda_getDevice", "_cuda_setDevice")
# What the driver makes the objects of.
CLASSES = (torch._C._CudaStreamBase, torch._C._CudaEventBase, torch._C._CUDAGraph)
# What is given to parameters that want something. Functions with others are left out.
GIVEN: dict[str, Any] = {"device": 0, "peer_device": 0, "seed": 1, "fraction": 0.5, "debug_mode": 0, "size": 1, "data_ptr": 0,
                         "new_state": torch.zeros(8, dtype=torch.uint8), "new_states": [torch.zeros(8, dtype=torch.uint8)]}  # fmt: skip


class ReachedError(BaseException):
    """A call came to the driver."""


def reached(*_: object, **__: object) -> None:
    raise ReachedError


def functions() -> dict[str, Callable[..., Any]]:
    """The functions and classes of `torch.cuda` that can be called here, but for old tensor types."""
    found = {name: getattr(torch.cuda, name) for name in sorted(torch.cuda.__all__)}
    return {
        name: known
        for name, known in found.items()
        if callable(known) and not name.endswith(("Tensor", "Storage", "Error")) and arguments(known) is not None
    }


def arguments(function: Callable[..., Any]) -> list[Any] | None:
    """What a function is given here; None where it wants something else."""
    parameters = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    return [GIVEN[p.name] for p in parameters] if all(p.name in GIVEN for p in parameters) else None


def raises(function: Callable[..., Any]) -> bool:
    """Whether calling it does."""
    try:
        function(*(arguments(function) or ()))
    except Exception:
        return True
    return False


def asks(function: Callable[..., Any]) -> bool:
    """Whether calling it comes to the driver, whose functions are to be `reached`."""
    if isinstance(function, type) and issubclass(function, CLASSES):
        return True
    try:
        raises(function)
    except ReachedError:
        return True
    return False


def facts() -> dict[str, dict[str, bool]]:
    """The facts about each function, by its name; has to run without an accelerator, in a process of its own."""
    raising = {name for name, function in functions().items() if raises(function)}
    for name in DRIVER:
        setattr(torch._C, name, reached)
    for module in (torch.cuda, *(m for n, m in sys.modules.items() if n.startswith("torch.cuda."))):
        if hasattr(module, "_lazy_init"):
            module._lazy_init = reached
    asking = {name for name, function in functions().items() if asks(function)}
    return {
        name: {
            "asks": name in asking,
            "raises": name in asking & raising,
            "takes_device": next(iter(inspect.signature(function).parameters), "") == "device",
        }
        for name, function in functions().items()
    }


def collect() -> dict[str, Any]:
    """Everything that the file holds."""
    code = "import cuda_functions as c, json; print(json.dumps(c.facts()))"
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return {"torch": torch.__version__.split("+")[0], "functions": json.loads(done.stdout)}


def main(*, check: bool) -> int:
    """Writes the file, or says whether it is as it would be written (0: yes)."""
    # In the process without an accelerator, nothing of devlint is needed.
    from counterparts import put

    return put(OUTPUT, collect(), check=check)


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
