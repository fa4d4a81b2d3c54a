"""`torch.use_deterministic_algorithms`: what CUDA's kernels refuse and the host's don't.

Which functions those are is what PyTorch's own documentation of that function says, so it differs between releases as
PyTorch does. The names in the errors are those of PyTorch's tests (test_torch.py) and of its kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from devlint.runtime.places import accelerator, is_accelerated, place_of, tensors_in
from devlint.runtime.virtual import engine, handlers, kernels
from devlint.runtime.virtual.engine import HANDLERS

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_PAGE = torch.use_deterministic_algorithms.__doc__ or ""
# The list of what is refused.
REFUSED = _PAGE.partition("normally-nondeterministic operations will throw a")[2].partition("In addition")[0]


def _always(args: Args, kwargs: Kwargs) -> bool:
    return True


def _floating(args: Args, kwargs: Kwargs) -> bool:
    dtype = kwargs.get("dtype") or next(tensors_in((args, kwargs))).dtype
    return bool(dtype.is_floating_point or dtype.is_complex)


def _weighted(args: Args, kwargs: Kwargs) -> bool:
    return (args[1] if len(args) > 1 else kwargs.get("weights")) is not None


def _with_indices(args: Args, kwargs: Kwargs) -> bool:
    return len(args) > 1 or "dim" in kwargs


def _of_images(args: Args, kwargs: Kwargs) -> bool:
    scores, labels = list(tensors_in((args, kwargs)))[:2]
    return scores.dim() > 2 and not labels.is_floating_point()


def _product(args: Args, kwargs: Kwargs) -> bool:
    return (args[4] if len(args) > 4 else kwargs.get("reduce")) == "prod"


# (what the documentation calls it, the kernel, the functions that run it, in which calls). It lists `cumsum` as well,
# which PyTorch's own tests want to be deterministic on CUDA.
CALLS: tuple[tuple[str, str, str, Callable[[Args, Kwargs], bool]], ...] = (
    ("torch.Tensor.put_", "put_", "put put_", _always),
    ("torch.histc", "_histc_cuda with floating point input", "histc", _floating),
    ("torch.bincount", "_bincount_cuda", "bincount", _weighted),
    ("torch.median", "median CUDA with indices output", "median nanmedian", _with_indices),
    ("torch.kthvalue", "kthvalue CUDA", "kthvalue", _always),
    (
        "torch.nn.NLLLoss",
        "nll_loss2d_forward_out_cuda_template",
        "nll_loss_nd nll_loss2d cross_entropy_loss",
        _of_images,
    ),
    ("torch.Tensor.scatter_reduce", "scatter_reduce_cuda", "scatter_reduce scatter_reduce_", _product),
)
# By the name of the node: what the documentation calls it, and the kernel that it runs.
BACKWARDS: dict[str, tuple[str, str]] = {
    "AvgPool3D": ("torch.nn.AvgPool3d", "avg_pool3d_backward_cuda"),
    "AdaptiveAvgPool2D": ("torch.nn.AdaptiveAvgPool2d", "adaptive_avg_pool2d_backward_cuda"),
    "AdaptiveAvgPool3D": ("torch.nn.AdaptiveAvgPool3d", "adaptive_avg_pool3d_backward_cuda"),
    "AdaptiveMaxPool2D": ("torch.nn.AdaptiveMaxPool2d", "adaptive_max_pool2d_backward_cuda"),
    "MaxPool3DWithIndices": ("torch.nn.MaxPool3d", "max_pool3d_with_indices_backward_cuda"),
    "FractionalMaxPool2D": ("torch.nn.FractionalMaxPool2d", "fractional_max_pool2d_backward_cuda"),
    "FractionalMaxPool3D": ("torch.nn.FractionalMaxPool3d", "fractional_max_pool3d_backward_cuda"),
    "UpsampleLinear1D": ("``linear``", "upsample_linear1d_backward_out_cuda"),
    "UpsampleBilinear2D": ("``bilinear``", "upsample_bilinear2d_backward_out_cuda"),
    "UpsampleBicubic2D": ("``bicubic``", "upsample_bicubic2d_backward_out_cuda"),
    "UpsampleTrilinear3D": ("``trilinear``", "upsample_trilinear3d_backward_out_cuda"),
    "ReflectionPad1D": ("torch.nn.ReflectionPad1d", "reflection_pad1d_backward_out_cuda"),
    "ReflectionPad2D": ("torch.nn.ReflectionPad2d", "reflection_pad2d_backward_cuda"),
    "ReflectionPad3D": ("torch.nn.ReflectionPad3d", "reflection_pad3d_backward_out_cuda"),
    "CtcLoss": ("torch.nn.CTCLoss", "ctc_loss_backward_gpu"),
    "EmbeddingBag": ("torch.nn.EmbeddingBag", "embedding_bag_backward_cuda_max"),
    "GridSampler2D": ("torch.nn.functional.grid_sample", "grid_sampler_2d_backward_cuda"),
    "GridSampler3D": ("torch.nn.functional.grid_sample", "grid_sampler_3d_backward_cuda"),
}
# Refused only where the forward pass ran before: under the setting, `pad` is written in other functions.
MADE_BEFORE = {f"ReplicationPad{n}D": f"replication_pad{n}d_backward_cuda" for n in (1, 2, 3)}
_DIFFERENTIATED = """
    avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d max_pool3d max_pool3d_with_indices
    fractional_max_pool2d fractional_max_pool3d upsample_linear1d upsample_bilinear2d upsample_bicubic2d
    upsample_trilinear3d reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d pad ctc_loss embedding_bag _embedding_bag
    grid_sampler grid_sampler_2d grid_sampler_3d
"""


def alert(kernel: str) -> None:
    """What PyTorch says of a kernel without a deterministic form, where one was asked for.

    Raises RuntimeError, or warns under `warn_only=True`.
    """
    __tracebackhide__ = True
    if not torch.are_deterministic_algorithms_enabled():
        return
    told = (
        f"{kernel} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
    )
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(
            f"{told}, warn_only=True)'. You can file an issue at https://github.com/pytorch/pytorch/issues to help us "
            "prioritize adding deterministic support for this operation.",
            stacklevel=2,
        )
        return
    raise RuntimeError(
        f"{told})'. You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if "
        "that's acceptable for your application. You can also file an issue at "
        "https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support for this operation."
    )


def _on_a_device(value: Any) -> bool:
    return accelerator.kind == "cuda" and any(is_accelerated(place_of(tensor)) for tensor in tensors_in(value))


def _in_the_call(before: engine.Handler, kernel: str, applies: Callable[[Args, Kwargs], bool]) -> engine.Handler:
    def handler(func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        if torch.are_deterministic_algorithms_enabled() and _on_a_device((args, kwargs)) and applies(args, kwargs):
            alert(kernel)
        return before(func, args, kwargs)

    return handler


def _nodes(result: Any, known: set[Any]) -> Iterator[Any]:
    """The nodes that a call has added to the graph."""
    waiting = [tensor.grad_fn for tensor in tensors_in(result) if tensor.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node not in known:
            known.add(node)
            yield node
            waiting.extend(following for following, _ in node.next_functions if following is not None)


def _in_backward(before: engine.Handler) -> engine.Handler:
    def handler(func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        result = before(func, args, kwargs)
        if not torch.is_grad_enabled() or not _on_a_device(result):
            return result
        known = {tensor.grad_fn for tensor in tensors_in((args, kwargs))}
        for node in _nodes(result, known):
            kernel = _KERNELS.get(node.name().partition("Backward")[0])
            if kernel is not None and not (kernel.endswith("_max") and node._saved_mode != 2):
                node.register_prehook(lambda _, kernel=kernel: alert(kernel))
        return result

    return handler


_KERNELS = MADE_BEFORE | {node: kernel for node, (told, kernel) in BACKWARDS.items() if told in REFUSED}
for _told, _kernel, _names, _applies in CALLS:
    if _told in REFUSED:
        for _function in kernels.functions_named(_names):
            HANDLERS[_function] = _in_the_call(HANDLERS[_function] or engine.run, _kernel, _applies)
for _function in kernels.functions_named(_DIFFERENTIATED):
    HANDLERS[_function] = _in_backward(HANDLERS[_function] or engine.run)

__all__ = ["BACKWARDS", "CALLS", "REFUSED", "alert", "handlers"]  # handlers: ours go around theirs
