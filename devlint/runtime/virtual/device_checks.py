"""Which CUDA kernels check that all operands are on one device, where an operator's tags don't tell.

PyTorch generates the check for each CUDA kernel but those marked `device_check: NoCheck` in native_functions.yaml
(it is part of the wheel: torchgen/packaged/ATen/native). Those go through TensorIterator, which takes 0-dim host
tensors as numbers, and nearly all carry the tag `pointwise`. These are the exceptions, for operators that take two
tensors or more, by name without the overload; recorded from PyTorch 2.13. Those of 2.4.1 are the same, but that it
checks `hypot` too.
"""

from __future__ import annotations

from typing import Any

import torch

# Unchecked, though not tagged `pointwise`.
UNTAGGED_ITERATORS = frozenset(
    """
    bernoulli_ binary_cross_entropy binomial copysign_ eq_ fill_ floor_divide floor_divide_ ge_ gt_ heaviside_
    index_fill_ _index_put_impl_ __irshift__ le_ lt_ masked_fill_ mse_loss ne_ rsub smooth_l1_loss
    _fused_adagrad_ _fused_adam_ _fused_adamw_ _fused_sgd_
    """.split()  # noqa: SIM905 - names
)

# Checked, though tagged `pointwise`: a 0-dim host tensor is an error like any other.
CHECKED_ITERATORS = frozenset(
    """
    clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ equal gcd gelu_backward igamma igamma_ igammac igammac_
    lcm logaddexp logaddexp2 logit_backward native_dropout_backward nextafter nextafter_ sigmoid_backward silu_backward
    tanh_backward threshold_backward
    """.split()  # noqa: SIM905 - names
)

# Unchecked by the wrapper, yet 0-dim host tensors are refused: (operator, argument). `masked_fill__cuda` compares the
# mask's device itself; `index_fill_` gives the index the tensor's own dimensions, for a TensorIterator that takes no
# numbers. Read in ATen's sources of earlier releases (IndexKernel.cpp, TensorAdvancedIndexing.cpp); a GPU agreed.
BOUND_ARGUMENTS = frozenset({("masked_fill_", "mask"), ("index_fill_", "index")})


def _numbers_taken(operator: Any) -> int:
    """How many 0-dim host tensors an operator of three tensors takes.

    Asks the C++ of its structured kernel, run on the `meta` device past PyTorch's Python version of it.
    """
    number, whole = torch.tensor(0.5), torch.ones(2, device="meta")
    taken = 0
    for count in (1, 2):
        try:
            operator._op_dk(
                torch._C.DispatchKey.CompositeExplicitAutogradNonFunctional, *[whole] * (3 - count), *[number] * count
            )
        except RuntimeError:
            break
        taken = count
    return taken


_ATEN = torch.ops.aten
_TAKEN = {
    "addcdiv": _numbers_taken(_ATEN.addcdiv.default),
    "addcmul": _numbers_taken(_ATEN.addcmul.default),
    "lerp": _numbers_taken(_ATEN.lerp.Tensor),
}

# TensorIterators that are configured without `allow_cpu_scalars`, and those of three operands or more that have it:
# one 0-dim host tensor a call, no more. Which is which differs between releases. (tests/runtime/test_fidelity.py asks
# in another way.)
# A GPU refused the last ones (tests/data/cuda_truth.json.gz).
NO_NUMBERS = frozenset(form for name in _TAKEN if _TAKEN[name] == 0 for form in (name, f"{name}_")) | {
    "binary_cross_entropy", "binomial", "mse_loss", "smooth_l1_loss"
}  # fmt: skip
ONE_NUMBER = frozenset(form for name in _TAKEN if _TAKEN[name] == 1 for form in (name, f"{name}_"))

# The kernel itself refuses what the iterator takes (addcmul_cuda_kernel; asserted by PyTorch's test_torch.py). That of `lerp`
# ends in an assertion of PyTorch's own there, as a GPU showed.
REFUSED_NUMBERS = frozenset({("addcmul", "self"), ("addcmul", "tensor1"), ("lerp", "self"), ("lerp", "end")})
