"""Where PyTorch's factories and legacy types make their tensors, found by calling them.

Must be called under virtual CUDA. A factory that follows the default device is told so by `with torch.device("cuda")`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from operator_signatures import lookup, params

# A call of each factory, which gives a result without dimensions where it can; `x` is on the accelerator.
FACTORIES: dict[str, str] = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), "()"),
    **{"full": "(), 1.0", "randint": "3, ()", "randperm": "3", "arange": "3", "range": "0, 3", "linspace": "0, 1, 3"},
    **{"logspace": "0, 1, 3", "eye": "3", "tensor": "1.0", "as_tensor": "1.0", "asarray": "1.0"},
    **{"scalar_tensor": "1.0", "empty_strided": "(), ()", "empty_permuted": "(), ()", "normal": "0.0, 1.0, ()"},
    **{"tril_indices": "3, 3", "triu_indices": "3, 3", "from_numpy": "np.array(1.0)", "frombuffer": "bytearray(8), dtype=torch.uint8"},
    **dict.fromkeys(("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"), "4"),
    **{"fft.fftfreq": "4", "fft.rfftfreq": "4", "signal.windows.hann": "4", "signal.windows.hamming": "4"},
    **{"signal.windows.blackman": "4", "signal.windows.bartlett": "4", "signal.windows.kaiser": "4"},
    **{"signal.windows.cosine": "4", "signal.windows.exponential": "4", "signal.windows.gaussian": "4"},
    **{"sparse_coo_tensor": "[[0]], [1.0], (2,)", "sparse_csr_tensor": "[0, 1], [0], [1.0], (1, 1)", "Generator": ""},
    **dict.fromkeys(("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"), "x"),
    **{"full_like": "x, 1.0", "randint_like": "x, 3"},
    **dict.fromkeys(("Tensor.new_zeros", "Tensor.new_ones", "Tensor.new_empty"), "x, ()"),
    **{"Tensor.new_full": "x, (), 1.0", "Tensor.new_tensor": "x, 1.0", "Tensor.new_empty_strided": "x, (), ()"},
}  # fmt: skip
TYPES = "Float Double Half BFloat16 Long Int Short Char Byte Bool"


def factories() -> dict[str, Any]:
    """The facts of each factory by its qualified name."""
    return {f"torch.{name}": _factory(f"torch.{name}", text) for name, text in sorted(FACTORIES.items())}


def _factory(name: str, text: str) -> dict[str, Any]:
    function = lookup(name)
    words = {"torch": torch, "np": np, "x": torch.tensor(1.0, device="cuda")}
    args, kwargs = eval(f"(lambda *a, **k: (a, k))({text})", words)
    made = function(*args, **kwargs)
    with torch.device("cuda"):
        told = function(*args, **kwargs)
    place = "like" if made.device.type == "cuda" else "default" if told.device.type == "cuda" else "host"
    written = params(name)
    names = {n.lstrip("*") for part in written.split() for n in part.split("|")}
    facts = {"params": written, "place": place, "takes_device": "device" in names}
    if isinstance(made, torch.Tensor):
        facts |= {"size": sorted(names & {"size"}), "at_least_1": made.ndim > 0}
    return {k: v for k, v in facts.items() if v not in ([], False, "", "default")}


def constructors() -> dict[str, Any]:
    """The facts of each legacy type by its qualified name."""
    found: dict[str, Any] = {"torch.Tensor": {"place": torch.Tensor(2).device.type}}
    given = torch.ones(2), torch.ones(2, device="cuda")
    for name in (f"torch.{home}{t}Tensor" for t in TYPES.split() for home in ("", "cuda.")):
        kind = lookup(name)
        by_type = {x.type(kind).device.type for x in given} | {x.type(name).device.type for x in given}
        assert len(by_type) == 1, name
        found[name] = {"place": kind(2).device.type, "type_place": by_type.pop()}
    for facts in found.values():
        facts.update({k: "host" for k, v in facts.items() if v == "cpu"})
    with torch.device("cuda"):
        if torch.Tensor(2).device.type == "cuda":
            found["torch.Tensor"]["place"] = "default"
    return dict(sorted(found.items()))
