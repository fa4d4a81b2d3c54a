"""Writes devlint/knowledge/torch.json: what PyTorch's functions, methods and classes are, read off the installed torch;
and beside it operators.json, what they demand of devices (operator_facts.py), counterparts.json, what stands in for
`torch.cuda` on any accelerator (counterparts.py), and cuda.json, what its functions ask of the machine (cuda_functions.py).

    python tools/generate_knowledge.py            # writes the files
    python tools/generate_knowledge.py --check    # exit 1 when a file differs from what this torch gives

Return kinds come from torch's own stub files (`torch/_C/*.pyi`), classes and attributes from the live package.
Only the tools need torch; the linter reads the files.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import counterparts
import cuda_functions
import operator_facts
import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812
from torch.optim import Optimizer, lr_scheduler
from torch.utils.data import DataLoader

OUTPUT = Path(__file__).resolve().parent.parent / "devlint" / "knowledge" / "torch.json"
STUBS = Path(torch.__file__).parent / "_C"

# Namespaces of plain tensor functions whose builtins carry no annotations.
TENSOR_NAMESPACES = {"torch.fft": torch.fft, "torch.linalg": torch.linalg, "torch.special": torch.special}
SCALARS = {
    "_int",
    "_float",
    "_bool",
    "_size",
    "_dtype",
    "_layout",
    "int",
    "float",
    "bool",
    "str",
    "Number",
    "Size",
    "Number | _complex",
    "builtins.bool",
    "None",
    "list",
    "list[_int]",
    "SymInt",
    "_complex",
    "_symint",
    "builtins.int",
}


def kind_of_annotation(text: str) -> str:
    """One of tensor, tensors (a tuple of them), scalar, ndarray, device, other."""
    if text in {"Tensor", "Self", "torch.Tensor"}:
        return "tensor"
    if text.startswith(("torch.return_types.", "return_types.")) or (
        "Tensor" in text and text.startswith(("tuple[", "list[", "tuple", "Tuple"))
    ):
        return "tensors"
    if text in SCALARS:
        return "scalar"
    if "ndarray" in text:
        return "ndarray"
    if text in {"_device", "torch.device", "Device"}:
        return "device"
    return "other"


def merge(kinds: Iterable[str]) -> str:
    """The kind of all overloads together; `batch` is tensors in some structure."""
    found = set(kinds)
    if len(found) == 1:
        return found.pop()
    return "batch" if found <= {"tensor", "tensors"} else "other"


def stub_returns(body: list[ast.stmt]) -> dict[str, str]:
    overloads: dict[str, list[str]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            overloads.setdefault(node.name, []).append(kind_of_annotation(ast.unparse(node.returns)))
    return {name: merge(kinds) for name, kinds in overloads.items()}


def takes_device(body: list[ast.stmt]) -> set[str]:
    """Functions with a `device` parameter and no tensor among their required ones: factories."""
    found = set()
    for node in body:
        if not isinstance(node, ast.FunctionDef):
            continue
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        names = {a.arg for a in arguments}
        takes_tensor = any(a.arg in {"input", "self"} for a in arguments)
        if "device" in names and not takes_tensor:
            found.add(node.name)
    return found


def torch_functions() -> tuple[dict[str, str], list[str]]:
    stub = ast.parse((STUBS / "_VariableFunctions.pyi").read_text())
    returns = {
        f"torch.{n}": k for n, k in stub_returns(stub.body).items() if hasattr(torch, n) and not n.startswith("_")
    }
    factories = {f"torch.{n}" for n in takes_device(stub.body) if returns.get(f"torch.{n}") == "tensor"}
    # Python-level functions of torch that the stub doesn't hold.
    returns |= {
        "torch.einsum": "tensor",
        "torch.norm": "tensor",
        "torch.split": "tensors",
        "torch.chunk": "tensors",
        "torch.stack": "tensor",
        "torch.cdist": "tensor",
        "torch.tensordot": "tensor",
        "torch.cartesian_prod": "tensor",
        "torch.block_diag": "tensor",
        "torch.stft": "tensor",
        "torch.meshgrid": "tensors",
        "torch.unique": "batch",
        "torch.broadcast_tensors": "tensors",
        "torch.atleast_1d": "batch",
        "torch.atleast_2d": "batch",
        "torch.from_numpy": "tensor",
        "torch.clone": "tensor",
    }
    for namespace, module in TENSOR_NAMESPACES.items():
        for name in dir(module):
            if (
                not name.startswith("_")
                and name not in {"Tensor", "LinAlgError", "common_args"}
                and callable(getattr(module, name))
            ):
                returns[f"{namespace}.{name}"] = "batch" if namespace == "torch.linalg" else "tensor"
    functional = {
        n: "tensor"
        for n in vars(F)
        if n.islower()
        and not n.startswith("_")
        and callable(getattr(F, n))
        and getattr(getattr(F, n), "__module__", "")
        in {"torch.nn.functional", "torch._C._nn", "torch._jit_internal", None, "builtins", "torch"}
    }
    functional = {
        n: k
        for n, k in functional.items()
        if not n.startswith(("has_torch", "handle_torch", "boolean", "assert", "importlib", "math"))
    }
    functional |= {"multi_head_attention_forward": "tensors"} | {
        n: "tensors" for n in functional if n.endswith("_with_indices")
    }
    returns |= {f"torch.nn.functional.{n}": k for n, k in functional.items()}
    returns |= {f"torch.nn.init.{n}": "tensor" for n in vars(nn.init) if n.endswith("_") and not n.startswith("_")}
    return returns, sorted(factories | {"torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.frombuffer"})


def tensor_class() -> tuple[dict[str, str], dict[str, str]]:
    """(methods -> kind returned, attributes -> kind)."""
    stub = ast.parse((STUBS / "__init__.pyi").read_text())
    base = next(n for n in stub.body if isinstance(n, ast.ClassDef) and n.name == "TensorBase")
    properties = {
        n.name
        for n in base.body
        if isinstance(n, ast.FunctionDef)
        and any(isinstance(d, ast.Name) and d.id == "property" for d in n.decorator_list)
    }
    methods = {n: k for n, k in stub_returns(base.body).items() if n not in properties and not n.startswith("_")}
    attributes = {
        n.target.id: kind_of_annotation(ast.unparse(n.annotation))
        for n in base.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and not n.target.id.startswith("_")
    }
    for name in dir(torch.Tensor):
        if not name.startswith("_") and name not in methods and name not in attributes:
            live = inspect.getattr_static(torch.Tensor, name)
            if callable(live):
                methods[name] = "tensor"
            else:
                attributes[name] = "other"
    methods |= {
        "backward": "scalar",
        "item": "scalar",
        "tolist": "scalar",
        "numpy": "ndarray",
        "split": "tensors",
        "unique": "batch",
        "share_memory_": "tensor",
        "register_hook": "other",
        "storage": "other",
        "untyped_storage": "other",
        "unflatten": "tensor",
        "is_shared": "scalar",
        "retain_grad": "scalar",
        "refine_names": "tensor",
        "data_ptr": "scalar",
        "stft": "tensor",
        "type": "other",
    }
    attributes |= {
        "grad": "tensor",
        "data": "tensor",
        "T": "tensor",
        "mT": "tensor",
        "H": "tensor",
        "mH": "tensor",
        "real": "tensor",
        "imag": "tensor",
        "shape": "scalar",
        "dtype": "scalar",
        "device": "device",
        "ndim": "scalar",
        "is_cuda": "scalar",
    }
    return dict(sorted(methods.items())), dict(sorted(attributes.items()))


def public_classes(module: Any, base: type, prefix: str) -> list[str]:
    return [
        f"{prefix}.{n}"
        for n, c in vars(module).items()
        if inspect.isclass(c) and issubclass(c, base) and not n.startswith("_")
    ]


def stateless_modules(names: Iterable[str]) -> list[str]:
    """Those that have neither parameters nor buffers as they are made by default; containers have what they hold."""
    found = []
    for name in names:
        cls = getattr(nn, name.rsplit(".", 1)[1])
        made = next((m for sizes in SIZES if (m := made_with(cls, sizes)) is not None), None)
        if made is not None and not (made.state_dict() or hasattr(cls, "append") or hasattr(cls, "keys")):
            found.append(name)
    return sorted(set(found) - {"torch.nn.Module", "torch.nn.Container"})


# Arguments that some constructor takes.
SIZES = ((), (1,), (2, 2), (2, 2, 2), (4, 2, 2, 2), (1, (1, 1)))


def made_with(cls: type[nn.Module], sizes: tuple[Any, ...]) -> nn.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return cls(*sizes)
        except (TypeError, ValueError, AssertionError):
            return None


def collect() -> dict[str, Any]:
    functions, factories = torch_functions()
    methods, attributes = tensor_class()
    modules = public_classes(nn, nn.Module, "torch.nn")
    wrappers = {
        "torch.nn.DataParallel": sorted(instance_attributes(nn.DataParallel)),
        "torch.nn.parallel.DistributedDataParallel": sorted(instance_attributes(nn.parallel.DistributedDataParallel)),
    }
    return {
        "torch": torch.__version__.split("+")[0],
        "functions": dict(sorted(functions.items())),
        "factories": factories,
        "tensor_methods": methods,
        "tensor_attributes": attributes,
        "modules": sorted(set(modules) - set(wrappers)),
        "stateless": stateless_modules(set(modules) - set(wrappers)),
        "wrappers": wrappers,
        "optimizers": sorted(public_classes(torch.optim, Optimizer, "torch.optim")),
        "schedulers": sorted(public_classes(lr_scheduler, lr_scheduler.LRScheduler, "torch.optim.lr_scheduler")),
        "loaders": sorted(f"torch.utils.data.{c.__name__}" for c in (DataLoader,)),
    }


def instance_attributes(wrapper: type[nn.Module]) -> set[str]:
    """What an object of a wrapper class has: its classes' names, and what their methods set on `self`."""
    found = set(dir(wrapper)) | set(dir(nn.Module()))
    for cls in wrapper.__mro__[:-1]:
        try:
            tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls)))
        except (OSError, TypeError):
            # No Python source: typing's Generic.
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and ast.unparse(node.value) == "self"
            ):
                found.add(node.attr)
    return found


def main() -> int:
    text = json.dumps(collect(), indent=0, sort_keys=True) + "\n"
    check = "--check" in sys.argv
    others = max(part.main(check=check) for part in (operator_facts, counterparts, cuda_functions))
    if check:
        same = OUTPUT.read_text() == text
        print("up to date" if same else f"{OUTPUT} is out of date: run python {Path(__file__).name}")
        return others if same else 1
    OUTPUT.write_text(text)
    return others


if __name__ == "__main__":
    sys.exit(main())
