"""CUDA's autocast: which functions run in the lower precision, in float32, or in the widest of their operands' types.

The lists are those of "CUDA Ops that can autocast to ..." in PyTorch's `torch.amp` page. PyTorch's own casts look at
the dispatch keys of the tensors, which are the host's here, so they are made on the way in.
"""

from __future__ import annotations

from typing import Any

import torch

from devlint.runtime.places import accelerator, tensors_in
from devlint.runtime.virtual import engine

Tensor = torch.Tensor
_LOWER = """
    __matmul__ __rmatmul__ addbmm addmm addmv addr baddbmm bmm chain_matmul linalg_multi_dot linalg_vecdot conv1d conv2d
    conv3d convolution conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d linear matmul mm mv prelu
    scaled_dot_product_attention lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell einsum
""".split()  # noqa: SIM905 - names
_FLOAT32 = """
    __pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist
    cosine_similarity cross_entropy_loss cumprod cumsum dist erfinv exp expm1 group_norm hinge_embedding_loss
    huber_loss kl_div l1_loss layer_norm rms_norm log log10 log_softmax log1p log2 logsumexp margin_ranking_loss
    mse_loss multilabel_margin_loss multi_margin_loss multilabel_margin_loss nll_loss nll_loss_nd nll_loss2d norm
    frobenius_norm nuclear_norm pdist poisson_nll_loss pow prod reciprocal renorm rsqrt sinh smooth_l1_loss
    soft_margin_loss softmax softplus sum tan triplet_margin_loss upsample_nearest1d upsample_nearest2d
    upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
""".split()  # noqa: SIM905 - names
_WIDEST = """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put index_put_ scatter_add tensordot cat stack
""".split()  # noqa: SIM905 - names
_BANNED = "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."


def _lower() -> torch.dtype:
    return torch.get_autocast_dtype(accelerator.kind)


def _policies() -> dict[Any, str]:
    homes: tuple[Any, ...] = (
        torch._C.TensorBase,
        torch,
        torch._C._VariableFunctions,
        torch._C._nn,
        getattr(torch._C, "_linalg", None),
    )
    table: dict[Any, str] = {}
    for policy, names in (("lower", _LOWER), ("float32", _FLOAT32), ("widest", _WIDEST)):
        for name in names:
            for home in homes:
                function = getattr(home, name, None)
                if function is not None:
                    table[function] = policy
    table[torch._C._nn.binary_cross_entropy] = "banned"
    return table


_POLICY = _policies()


def _eligible(tensor: Tensor) -> bool:
    return (
        tensor.is_floating_point() and tensor.dtype is not torch.float64 and tensor._devlint_place is not None  # type: ignore[attr-defined]
    )


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        if not _eligible(value) or value.dtype is dtype:
            return value
        return engine.tag(value.to(dtype), value._devlint_place)  # type: ignore[attr-defined]
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        return type(value)([_cast(item, dtype) for item in value])
    return value


def autocast_arguments(func: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments as CUDA's autocast would hand them to `func`. Raises RuntimeError where CUDA refuses."""
    policy = _POLICY.get(func)
    if policy is None:
        return args, kwargs
    if policy == "banned":
        raise RuntimeError(
            f"{_BANNED}\nMany models use a sigmoid layer right before the binary cross entropy layer. In this case, "
            "combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits or "
            "torch.nn.BCEWithLogitsLoss."
        )
    if policy == "lower":
        dtype = _lower()
    elif policy == "float32":
        dtype = torch.float32
    else:
        dtypes = {tensor.dtype for tensor in tensors_in((args, kwargs)) if _eligible(tensor)}
        dtype = torch.float32 if len(dtypes) > 1 else next(iter(dtypes), torch.float32)
    return tuple(_cast(value, dtype) for value in args), {k: _cast(value, dtype) for k, value in kwargs.items()}


def run_under_autocast(func: Any, args: Any, kwargs: Any) -> Any:
    """Runs a function on a device's tensors: CUDA's autocast looks at them, the CPU's doesn't."""
    if torch.is_autocast_enabled(accelerator.kind):
        args, kwargs = autocast_arguments(func, args, kwargs)
    if not torch.is_autocast_enabled("cpu"):
        return func(*args, **kwargs)
    with torch._C._DisableAutocast():
        return func(*args, **kwargs)


engine.run_under_autocast = run_under_autocast
