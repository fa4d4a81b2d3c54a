"""Writes devlint/runtime/virtual/kernels.json: what the host computes and CUDA does not, by PyTorch's own registration.

    python tools/cuda_kernels.py [--check]

`host_only` are the operators that native_functions.yaml (it is part of the wheel) gives a kernel for the CPU, none for CUDA,
and none that is written in terms of others. `dtypes` are the data types that PyTorch's operator database, which its
CI holds against real GPUs, names for the CPU and not for CUDA. `neither` are, by data type, the operators that have a kernel for
it on neither. `structured` are those whose CUDA wrapper PyTorch names in another way, in errors. `--check` writes nothing; exits with 1 where the file differs.
Needs numpy; the file is of the release of PyTorch that it names.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import types
import unittest
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DispatchKey

TARGET = Path(__file__).parents[1] / "devlint/runtime/virtual/kernels.json"
_NATIVE = Path(torchgen.__file__).parent / "packaged/ATen/native"
_IN_TERMS_OF_OTHERS = (
    DispatchKey.CompositeExplicitAutograd,
    DispatchKey.CompositeImplicitAutograd,
    DispatchKey.CompositeExplicitAutogradNonFunctional,
)
# PyTorch's own test operators, and those whose name says which device they are for.
_LEFT_OUT = ("_test_", "_foobar", "mkldnn_rnn", "_empty_")
# (name, variant) in the database: the operator, where the name alone isn't it.
_VARIANTS = {
    ("nn.functional.interpolate", "bilinear"): "upsample_bilinear2d",
    ("nn.functional.interpolate", "bicubic"): "upsample_bicubic2d",
}


def host_only() -> list[str]:
    """Operators, without the overload, of which no overload that the CPU has is there for CUDA."""
    parsed = parse_native_yaml(str(_NATIVE / "native_functions.yaml"), str(_NATIVE / "tags.yaml"))
    indices = parsed.backend_indices
    there: dict[str, list[bool]] = defaultdict(list)
    for function in parsed.native_functions:
        if indices[DispatchKey.CPU].has_kernel(function):
            keys = (DispatchKey.CUDA, *_IN_TERMS_OF_OTHERS)
            there[str(function.func.name.name)].append(any(indices[key].has_kernel(function) for key in keys))
    names = (name for name, found in there.items() if not any(found))
    return sorted(name for name in names if not name.startswith(_LEFT_OUT) and "_for_cpu" not in name)


_INTEGERS = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}
# One of each family of data types, which kernels are there for or aren't as a whole.
_OF_FAMILIES = (torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool, torch.complex64)


def database() -> list[Any]:
    """PyTorch's operator database, as it is on a machine with a recent GPU."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        # The database's module imports it for tests of its own.
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]
    import torch.testing._internal.common_cuda as machine

    for name in dir(machine):
        if name.startswith("SM") and name.endswith("OrLater"):
            setattr(machine, name, True)
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def dtypes() -> dict[str, list[str]]:
    """By operator: the data types that the host has a kernel for and CUDA has not."""
    lacking: dict[str, set[Any]] = {}
    for entry in database():
        if entry.variant_test_name in ("", "decomposed"):
            name = entry.aten_name.removeprefix("nn.functional.")
        elif (entry.name, entry.variant_test_name) in _VARIANTS:
            name = _VARIANTS[entry.name, entry.variant_test_name]
        else:
            continue
        missing = set(entry.dtypes) - set(entry.dtypesIfCUDA)
        if torch.int64 in missing and _INTEGERS.isdisjoint(entry.dtypesIfCUDA):
            missing |= _INTEGERS  # of which the database tries one
        lacking[name] = missing & lacking[name] if name in lacking else missing
    return {
        name: sorted(str(kind).removeprefix("torch.") for kind in lacking[name])
        for name in sorted(lacking)
        if lacking[name]
    }


def neither() -> dict[str, str]:
    """By one data type of each family: the operators that have a kernel for it neither on the host nor on CUDA."""
    there: dict[str, set[Any]] = defaultdict(set)
    for entry in database():
        for name in {
            entry.name.split(".")[-1],
            entry.aten_name.split(".")[-1],
            *(alias.name for alias in entry.aliases),
        }:
            there[name] |= {*entry.dtypes, *entry.dtypesIfCUDA}
    names = {kind: [name for name in sorted(there) if kind not in there[name]] for kind in _OF_FAMILIES}
    return {str(kind).removeprefix("torch."): " ".join(found) for kind, found in names.items()}


def structured() -> str:
    """The operators of two tensors or more with a structured kernel, whose wrapper is called by name and overload."""
    parsed = parse_native_yaml(str(_NATIVE / "native_functions.yaml"), str(_NATIVE / "tags.yaml"))
    found = (f for f in parsed.native_functions if f.structured or f.structured_delegate is not None)
    return " ".join(
        sorted(str(f.func.name) for f in found if str(f.func).count("Tensor") > 1 and not f.func.is_out_fn())
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the file differs")
    check = parser.parse_args().check
    release = torch.__version__.partition("+")[0]
    table = {
        "torch": release,
        "host_only": host_only(),
        "dtypes": dtypes(),
        "neither": neither(),
        "structured": structured(),
    }
    text = json.dumps(table, indent=1) + "\n"
    if not check:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET.name} differs from PyTorch {release}: run python tools/cuda_kernels.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
