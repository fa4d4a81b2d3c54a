"""The five parts of `SyncBatchNorm`, which PyTorch has for CUDA alone: the same sums, on host data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from devlint.runtime.virtual import engine

Tensor = torch.Tensor


def _dims(x: Tensor) -> list[int]:
    return [0, *range(2, x.dim())]


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _channels(values: Tensor, x: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (x.dim() - 2))


def _stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    x = _wide(x)
    return x.mean(_dims(x)), (x.var(_dims(x), unbiased=False) + eps).rsqrt()


def _gather_stats(
    x: Tensor,
    means: Tensor,
    inverses: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    shares = counts.reshape(-1, 1).to(means.dtype)
    total = shares.sum()
    mean = (means * shares).sum(0) / total
    variance = ((inverses**-2 - eps + (means - mean) ** 2) * shares).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(momentum * mean)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(momentum * variance * total / (total - 1))
    return mean, (variance + eps).rsqrt()


def _normalize(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, inverse: Tensor, eps: float
) -> Tensor:
    result = (_wide(x) - _channels(mean, x)) * _channels(inverse, x)
    if weight is not None:
        result = result * _channels(weight, x)
    if bias is not None:
        result = result + _channels(bias, x)
    return result.to(x.dtype)


def _reduce_gradients(
    gradient: Tensor, x: Tensor, mean: Tensor, inverse: Tensor, weight: Tensor | None, *wanted: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    gradient, x = _wide(gradient), _wide(x)
    total = gradient.sum(_dims(x))
    with_x = (gradient * (x - _channels(mean, x))).sum(_dims(x))
    return total, with_x, with_x * inverse if wanted[1] else None, total if wanted[2] else None


def _input_gradient(
    gradient: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    total: Tensor,
    with_x: Tensor,
    counts: Tensor,
) -> Tensor:
    count = counts.sum()
    centred = _wide(x) - _channels(mean, x)
    scaled = _channels(inverse**2 * with_x / count, x)
    result = (_wide(gradient) - _channels(total / count, x) - centred * scaled) * _channels(inverse, x)
    if weight is not None:
        result = result * _channels(weight, x)
    return result.to(x.dtype)


_PARTS: dict[str, Callable[..., Any]] = {
    "batch_norm_stats": _stats,
    "batch_norm_gather_stats_with_counts": _gather_stats,
    "batch_norm_elemt": _normalize,
    "batch_norm_backward_reduce": _reduce_gradients,
    "batch_norm_backward_elemt": _input_gradient,
}


def _on_devices(part: Callable[..., Any]) -> engine.Handler:
    def handler(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = engine.common_place(args, kwargs)
        if place is engine.MIXED or place is None or place is engine.UNSEEN or kwargs:
            return engine.run(func, args, kwargs)
        with torch.no_grad():
            return engine.tag(part(*args), place)

    return handler


for _name, _part in _PARTS.items():
    engine.HANDLERS[getattr(torch, _name)] = _on_devices(_part)
