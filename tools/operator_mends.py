"""Facts that trying can't show, or shows wrong, each with the reason; and parameters whose names nothing tells.

Virtual CUDA sees waits of Python and of the functions that it knows, not those inside of C++. The latter were found by
profiling the same samples on the host (`aten::_local_scalar_dense`, `aten::_linalg_check_errors`) and by
FakeTensorMode's data-dependent errors; what only the host's kernels do was left out after reading ATen.
"""

from __future__ import annotations

from typing import Any

# Parameters that neither stubs nor docstrings tell right.
PARAMETERS = {
    "torch.einsum": "equation *operands",
    "torch.unique_consecutive": "input return_inverse return_counts dim",
    "torch.Tensor.unique_consecutive": "return_inverse return_counts dim",
    "torch.sparse.mm": "mat1 mat2 reduce",
    "torch.sparse.addmm": "mat mat1 mat2 * beta alpha",
    "torch.autograd.Variable": "data requires_grad",
    "torch.nn.init.normal_": "tensor mean std generator",
}

# Where that parameter is a tensor on the accelerator, its value is read.
_FOR = {
    "normal": ["std"],
    "index_fill": ["value"],
    "masked_fill": ["value"],
    "narrow": ["start"],
    "linspace": ["start", "end"],
    "logspace": ["start", "end"],
    "repeat_interleave": ["repeats"],
    "nn.functional.ctc_loss": ["input_lengths", "target_lengths"],
}


def _both(names: str) -> list[str]:
    """Each function, and its methods."""
    return [f"torch.{p}{n}{s}" for n in names.split() for p in ("", "Tensor.") for s in ("", "_")]


def mends() -> dict[str, dict[str, Any]]:
    """What is put over the facts that were found, by name."""
    found: dict[str, dict[str, Any]] = {}

    def put(names: list[str], facts: dict[str, Any]) -> None:
        for name in names:
            found[name] = found.get(name, {}) | facts

    for name, parameters in _FOR.items():
        put(_both(name), {"waits": "sometimes", "waits_for": parameters})
    put(_both("repeat_interleave"), {"waits_unless": ["output_size"]})
    # `repeat_interleave(repeats)` alone.
    put(["torch.repeat_interleave"], {"waits_for": ["input", "repeats"]})
    # The range is read from the values unless it is given.
    put(_both("histc"), {"waits": "sometimes", "waits_unless": ["max", "min"]})
    put(["torch.nn.functional.one_hot"], {"waits_unless": ["num_classes"]})
    # They are `isclose(...).all().item()` (at::allclose), which takes a number of the host's; FakeTensorMode ends at the reading.
    put(["torch.allclose"], {"zero_dim_ok": ["input", "other"]})
    put(["torch.Tensor.allclose"], {"zero_dim_ok": ["self", "other"]})
    # CUDA has no kernel for them: on the host alone.
    put(["torch.histogram", "torch.histogramdd"], {"host_only": ["input", "weight"], "together": []})
    put(["torch.Tensor.histogram"], {"host_only": ["self", "weight"], "together": []})
    # A batch of matrices gives as many.
    put(_both("slogdet"), {"rank": ""})
    put(_both(_SHAPED), {"rank": "", "at_least_1": False})
    # They draw from `torch.normal(mean, std)`, which looks whether any `std` is negative.
    put([f"torch.distributions.{n}.sample" for n in _NORMAL], {"waits": "always"})
    for name, parameter in _INDEX.items():
        put([*_both(name), f"torch.nn.functional.{name}"], {"index": parameter})
    for name, facts in OWN.items():
        put([name], facts)
    return found


# Their results have as many dimensions as the arguments tell.
_SHAPED = (
    "squeeze squeeze_copy reshape view view_copy reshape_as view_as as_strided as_strided_copy as_strided_scatter "
    "select sum_to_size resize_as resize __getitem__ new_zeros new_ones new_empty new_full new_empty_strided"
)
_NORMAL = ("Normal", "LogNormal", "HalfNormal", "LogisticNormal")
# Which parameter is an index; whether it may be on the host is found by trying.
_INDEX = {
    **{"__getitem__": "indices", "gather": "index", "index_select": "index", "take": "index"},
    **{"take_along_dim": "indices", "embedding": "input", "embedding_bag": "input", "index_put": "indices"},
    **dict.fromkeys(("index_add", "index_copy", "index_fill", "index_reduce"), "index"),
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce"), "index"),
}
# Functions and methods by name. One that couldn't be tried is added.
OWN: dict[str, dict[str, Any]] = {
    # ATen's ctc_loss moves the targets "as a service for the user" (LossCTC.cpp); virtual CUDA runs `_ctc_loss`, which
    # doesn't.
    "torch.nn.functional.ctc_loss": {
        "together": [],
        "anywhere": ["targets", "input_lengths", "target_lengths"],
        "waits": "sometimes",
        "waits_for": ["input_lengths", "target_lengths"],
    },
    "torch.ctc_loss": {
        "params": "log_probs targets input_lengths target_lengths blank reduction zero_infinity",
        "anywhere": ["targets", "input_lengths", "target_lengths"],
        "waits": "sometimes",
        "waits_for": ["input_lengths", "target_lengths"],
    },
    # `_shape_as_tensor` makes `at::tensor(sizes, kLong)`, without options: on the host. Virtual CUDA gives it the
    # place of its operand.
    "torch.onnx.operators.shape_as_tensor": {
        "params": "x", "result": "host", "dtype": "int", "at_least_1": True,
    },
    "torch._shape_as_tensor": {"params": "input", "result": "host", "dtype": "int", "at_least_1": True},
    # The index goes with the indexed, or is on the host. What is stored is checked for a mask and an index, copied
    # from anywhere for numbers and slices.
    "torch.Tensor.__getitem__": {"params": "indices", "together": ["self"], "host_ok": ["indices"], "index": "indices", "waits": "sometimes"},
    "torch.Tensor.__setitem__": {
        "params": "indices value", "index": "indices", "anywhere": ["indices"], "sometimes": ["self", "value"],
        "kind": "none", "waits": "sometimes",
    },
    # Placed copies have no graph, so these aren't tried: the gradients are where the inputs are, a given one must be
    # where its output is.
    "torch.autograd.grad": {"together": ["outputs", "grad_outputs"], "result": "inputs", "kind": "tensors"},
    "torch.Tensor.backward": {"together": ["self", "gradient"], "kind": "none"},
    # It is no torch function, and virtual CUDA loses the place; on CUDA it is the tensor that it is given.
    "torch.autograd.Variable": {"result": "together", "no_grad": False},
    # Gradients of parameters, which the placed copies lost; norms go to the device of the first.
    "torch.nn.utils.clip_grad_norm_": {"anywhere": ["parameters"], "result": "together", "rank": "zero", "no_grad": True},
    # Lengths must be on the host, whatever the input is: `'lengths' argument should be a 1D CPU int64 tensor`.
    "torch.nn.utils.rnn.pack_padded_sequence": {
        "together": [], "host_only": ["lengths"], "host_ok": [], "kind": ["tensor", "tensor", "none", "none"],
        "result": "together", "part_places": ["together", "host", "", ""], "needs_rank": ["input"],
    },
    "torch.nn.utils.rnn.pack_sequence": {"result": "together", "part_places": ["together", "host", "", ""]},
    # (padded, lengths): the first is where the data is, the lengths are on the host.
    "torch.nn.utils.rnn.pad_packed_sequence": {
        "params": "sequence batch_first padding_value total_length", "kind": "tensors", "part_places": ["together", "host"],
        "dtype": ["float", "int"], "at_least_1": True,
    },
    # A GPU refuses another device's storage.
    "torch.Tensor.set_": {"together": ["self", "source"], "anywhere": []},
    "torch.Tensor.pin_memory": {"result": "host"},
    "torch.embedding": {"index": "indices"},
    # Pivots without dimensions are read past their end: refused or taken by what lies there.
    "torch.lu_unpack": {"needs_rank": ["LU_data", "LU_pivots"]},
    # Moves are told by their arguments.
    "torch.Tensor.cuda": {"result": "cuda"},
    "torch.Tensor.to": {"result": "to", "waits": "never", "anywhere": ["self", "other"]},
    "torch.Tensor.type": {"result": "to"},
    "torch.Tensor.cpu": {"result": "host"},
    "torch.Tensor.numpy": {"params": "* force", "kind": "other", "host_only": ["self"]},
    "torch.Tensor.__array__": {"params": "dtype", "kind": "other", "host_only": ["self"]},
    "torch.Tensor.requires_grad_": {"no_grad": False},
    # Objects made of tensors, which aren't placed one by one.
    "torch.distributions.kl_divergence": {"params": "p q", "together": ["p", "q"]},
    # It draws the order on the host.
    "torch.utils.data.random_split": {"params": "dataset lengths generator", "host_only": ["generator"], "kind": "other"},
    # A new tensor from data: without `device=`, a tensor's place stays, anything else is on the host.
    "torch.tensor": {"result": "data", "no_grad": True},
    "torch.as_tensor": {"result": "data"},
    "torch.asarray": {"result": "data"},
    # They give the host's generator.
    "torch.manual_seed": {"result": "host", "kind": "other"},
    "torch.Generator": {"result": "device", "kind": "other"},
}  # fmt: skip
