"""Which CUDA kernels check that all operands are on one device, where an operator's tags don't tell.

PyTorch generates the check for each CUDA kernel but those marked `device_check: NoCheck` in native_functions.yaml
(it is part of the wheel: torchgen/packaged/ATen/native). Those go through TensorIterator, which takes 0-dim host
tensors as numbers, and nearly all carry the tag `pointwise`. These are the exceptions, for operators that take two
tensors or more, by name without the overload; recorded from PyTorch 2.13.
"""

from __future__ import annotations

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
# numbers. Read in ATen's sources of earlier releases (IndexKernel.cpp, TensorAdvancedIndexing.cpp); no GPU was asked.
BOUND_ARGUMENTS = frozenset({("masked_fill_", "mask"), ("index_fill_", "index")})

# TensorIterators that are configured without `allow_cpu_scalars`, and those of three operands or more that have it:
# one 0-dim host tensor a call, no more. Seen by running the C++ structured kernels on the `meta` device
# (tests/runtime/test_fidelity.py does so again for these).
NO_NUMBERS = frozenset({"addcdiv", "addcdiv_"})
ONE_NUMBER = frozenset({"addcmul", "addcmul_", "lerp", "lerp_"})
