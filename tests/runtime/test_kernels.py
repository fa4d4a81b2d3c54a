"""What CUDA has no kernel for, and what it refuses under `use_deterministic_algorithms`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from devlint.runtime import VirtualCudaUnsupportedError, virtual_cuda
from devlint.runtime.compat import MissingKernelError
from devlint.runtime.virtual.determinism import BACKWARDS, CALLS, REFUSED
from devlint.runtime.virtual.kernels import TABLE

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")


@pytest.mark.slow
@pytest.mark.skipif(not torch.__version__.startswith(TABLE["torch"]), reason="the table is of another release")
def test_the_table_is_what_pytorch_registers():
    tool = [sys.executable, ROOT / "tools/cuda_kernels.py", "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


HOST_ONLY = {
    "histogram": lambda x: torch.histogram(x, 4),
    "histogramdd": lambda x: torch.histogramdd(x.reshape(2, 2), [2, 2]),
    "a method": lambda x: x.histogram(4),
    "to_mkldnn": lambda x: x.to_mkldnn(),
    "the operator": lambda x: torch.ops.aten.histogram.bin_ct(x, 4),
    "_spdiags": lambda x: torch.ops.aten._spdiags(x.reshape(1, 4), torch.tensor([0]), (4, 4)),
}


@pytest.mark.parametrize("call", HOST_ONLY.values(), ids=HOST_ONLY)
def test_operators_of_the_host(call):
    call(torch.rand(4))
    with virtual_cuda():
        call(torch.rand(4))
        with pytest.raises(
            NotImplementedError, match=r"Could not run 'aten::\w+' with arguments from the 'CUDA' backend"
        ):
            call(torch.rand(4, device="cuda"))


WITHOUT = {
    "matmul": ("int64", lambda x: x @ x),
    "mm": ("int32", lambda x: torch.mm(x, x)),
    "linear": ("int64", lambda x: F.linear(x, x)),
    "dot": ("uint8", lambda x: torch.dot(x[0], x[0])),
    "mv": ("int16", lambda x: x.mv(x[0])),
    "bmm": ("int64", lambda x: torch.bmm(x[None], x[None])),
    "tensordot": ("int64", lambda x: torch.tensordot(x, x)),
    "conv1d": ("int64", lambda x: F.conv1d(x[None], x[None])),
    "conv1d, other integers": ("int32", lambda x: F.conv1d(x[None], x[None])),
    "conv2d": ("int64", lambda x: F.conv2d(x[None, None], x[None, None])),
    "avg_pool2d": ("int64", lambda x: F.avg_pool2d(x[None], 2)),
    "max_pool2d": ("int64", lambda x: F.max_pool2d(x[None], 2)),
    "max_pool2d with indices": ("int32", lambda x: F.max_pool2d(x[None], 2, return_indices=True)),
    "interpolate": ("uint8", lambda x: F.interpolate(x[None, None], size=3, mode="bilinear")),
    "scatter": (
        "complex64",
        lambda x: x.scatter_(0, torch.zeros_like(x, dtype=torch.int64), x.clone(), reduce="multiply"),
    ),
    "angle": ("float16", lambda x: x.angle()),
    "histc": ("bfloat16", lambda x: x.histc(3)),
    "igamma": ("bfloat16", lambda x: torch.igamma(x, x)),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_data_types_without_a_kernel(name):
    dtype, call = WITHOUT[name]
    host = torch.ones(4, 4, dtype=getattr(torch, dtype))
    call(host)
    with virtual_cuda():
        call(host)
        call(host.real.float().cuda())
        with pytest.raises(
            MissingKernelError, match=r"not implemented for '(Long|Int|Short|Byte|Half|BFloat16|ComplexFloat)'"
        ):
            call(host.cuda())


# The host has no kernel for these either, so that nothing but the words was wrong.
NEITHER = {
    "svd": ("float16", lambda x: torch.linalg.svd(x)),
    "a method": ("bfloat16", lambda x: x.cholesky()),
    "det": ("float16", lambda x: x.det()),
    "eigh": ("float16", lambda x: torch.linalg.eigh(x)),
    "solve": ("float16", lambda x: torch.linalg.solve(x, x)),
    "cdist": ("float16", lambda x: torch.cdist(x, x)),
    "zeta": ("float16", lambda x: torch.special.zeta(x, x)),
    "bincount": ("float32", lambda x: x[0].bincount()),
    "randn": ("int64", lambda x: torch.randn(2, dtype=x.dtype, device=x.device)),
    "normal_": ("int64", lambda x: x.normal_()),
}


@pytest.mark.parametrize("name", NEITHER)
def test_data_types_without_a_kernel_anywhere(name):
    dtype, call = NEITHER[name]
    host = torch.eye(4).to(getattr(torch, dtype))
    with pytest.raises(RuntimeError):
        call(host)
    with (
        virtual_cuda(),
        pytest.raises(MissingKernelError, match=r"not implemented for '(Long|Half|BFloat16|Float)'") as raised,
    ):
        call(host.cuda())
    assert not isinstance(raised.value, VirtualCudaUnsupportedError)
    assert "_cpu" not in str(raised.value)


def test_classes_that_hold_others_have_a_data_type_of_their_own():
    """A graph's edges are integers, and it multiplies numbers."""

    class Edges(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_wrapper_subclass(cls, (2, 2), dtype=torch.int64, device=data.device)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return torch.ones(2, 1, device=args[1].device)

    with virtual_cuda():
        assert (Edges(torch.ones(2, device="cuda")) @ torch.ones(2, 1, device="cuda")).is_cuda


def test_fourier_transforms_in_half_precision():
    with virtual_cuda():
        x = torch.rand(2, 8, device="cuda").half()
        x.requires_grad_()
        found = torch.fft.rfft(x)
        assert found.dtype == torch.complex32
        assert found.device == x.device
        torch.testing.assert_close(found.to(torch.complex64), torch.fft.rfft(x.float()), rtol=1e-2, atol=1e-2)
        assert torch.fft.irfft(found).dtype == torch.float16
        found.abs().sum().backward()
        assert x.grad.is_cuda
        with pytest.raises(RuntimeError):
            torch.fft.rfft(x.cpu())


# --- determinism ----------------------------------------------------------------------------------------------------

IMAGES, VOLUMES = (2, 3, 6, 6), (2, 3, 6, 6, 6)
REFUSED_CALLS = {
    "put_": lambda x: x.put_(torch.tensor([0], device=x.device), x[0, 0, 0, :1].clone(), accumulate=True),
    "_histc_cuda": lambda x: torch.histc(x),
    "_bincount_cuda": lambda x: torch.bincount(torch.tensor([0, 1], device=x.device), x[0, 0, 0, :2]),
    "median": lambda x: x.median(0),
    "nanmedian": lambda x: torch.nanmedian(x, dim=1),
    "nll_loss2d": lambda x: F.nll_loss(x, torch.zeros(2, 6, 6, dtype=torch.long, device=x.device)),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.zeros(2, 6, 6, dtype=torch.long, device=x.device)),
    "scatter_reduce": lambda x: x.scatter_reduce(0, torch.zeros_like(x, dtype=torch.long), x, "prod"),
}
ALLOWED_CALLS = {
    "a median": lambda x: x.median(),
    "counts": lambda x: torch.bincount(torch.tensor([0, 1], device=x.device)),
    "running sums": lambda x: x.cumsum(0),
    "labels": lambda x: F.cross_entropy(x[:, :, 0, 0], torch.zeros(2, dtype=torch.long, device=x.device)),
    "sums": lambda x: x.scatter_reduce(0, torch.zeros_like(x, dtype=torch.long), x, "sum"),
    "pooling": lambda x: F.adaptive_avg_pool2d(x.requires_grad_(), 1).sum().backward(),
}
DIFFERENTIATED = {
    "AvgPool3D": (VOLUMES, lambda x: F.avg_pool3d(x, 2)),
    "AdaptiveAvgPool2D": (IMAGES, nn.AdaptiveAvgPool2d(3)),
    "AdaptiveAvgPool3D": (VOLUMES, nn.AdaptiveAvgPool3d(3)),
    "AdaptiveMaxPool2D": (IMAGES, nn.AdaptiveMaxPool2d(3)),
    "MaxPool3DWithIndices": (VOLUMES, nn.MaxPool3d(2)),
    "FractionalMaxPool2D": (IMAGES, nn.FractionalMaxPool2d(2, output_ratio=0.5)),
    "FractionalMaxPool3D": (VOLUMES, nn.FractionalMaxPool3d(2, output_ratio=0.5)),
    "UpsampleLinear1D": ((2, 3, 6), lambda x: F.interpolate(x, size=12, mode="linear")),
    "UpsampleBilinear2D": (IMAGES, lambda x: torch._C._nn.upsample_bilinear2d(x, (12, 12), False)),
    "UpsampleBicubic2D": (IMAGES, lambda x: F.interpolate(x, size=12, mode="bicubic")),
    "UpsampleTrilinear3D": (VOLUMES, lambda x: torch._C._nn.upsample_trilinear3d(x, (12, 12, 12), False)),
    "ReflectionPad1D": ((2, 3, 6), nn.ReflectionPad1d(1)),
    "ReflectionPad2D": (IMAGES, nn.ReflectionPad2d(1)),
    "ReflectionPad3D": (VOLUMES, nn.ReflectionPad3d(1)),
    "CtcLoss": (
        (6, 2, 5),
        lambda x: F.ctc_loss(x, torch.ones(2, 3, dtype=torch.long, device=x.device), (6, 6), (2, 2)),
    ),
    "EmbeddingBag": (
        (6, 3),
        lambda x: F.embedding_bag(torch.zeros(2, 2, dtype=torch.long, device=x.device), x, mode="max"),
    ),
    "GridSampler2D": (
        IMAGES,
        lambda x: F.grid_sample(x, torch.zeros(2, 2, 2, 2, device=x.device), align_corners=False),
    ),
    "GridSampler3D": (
        VOLUMES,
        lambda x: F.grid_sample(x, torch.zeros(2, 2, 2, 2, 3, device=x.device), align_corners=False),
    ),
}


@pytest.fixture
def deterministic():
    with virtual_cuda():
        yield torch.use_deterministic_algorithms
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", REFUSED_CALLS)
def test_calls_without_a_deterministic_form(deterministic, name):
    call, x = REFUSED_CALLS[name], torch.rand(IMAGES, device="cuda")
    call(x)
    deterministic(True)
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation, but you set"):
        call(x)
    deterministic(True, warn_only=True)
    with pytest.warns(UserWarning, match="does not have a deterministic implementation, but you set"):
        call(x)


@pytest.mark.parametrize("name", ALLOWED_CALLS)
def test_calls_with_one(deterministic, name):
    deterministic(True)
    ALLOWED_CALLS[name](torch.rand(IMAGES, device="cuda"))


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_backward_without_a_deterministic_form(deterministic, name):
    told, kernel = BACKWARDS[name]
    shape, function = DIFFERENTIATED[name]
    x = torch.rand(shape, device="cuda", requires_grad=True)
    result = function(x).sum()
    deterministic(True)
    if told not in REFUSED:
        result.backward()
        return
    with pytest.raises(RuntimeError, match=re.escape(kernel) + " does not have a deterministic implementation"):
        result.backward()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_padding_that_was_made_before(deterministic, dim):
    x = torch.rand(2, 3, *(4,) * dim, device="cuda", requires_grad=True)
    result = F.pad(x, (1, 1) * dim, mode="replicate").sum()
    deterministic(True)
    with pytest.raises(RuntimeError, match=f"replication_pad{dim}d_backward_cuda does not have a deterministic"):
        result.backward()
    F.pad(x, (1, 1) * dim, mode="replicate").sum().backward()


def test_the_host_is_left_alone(deterministic):
    deterministic(True)
    host = torch.rand(IMAGES)
    torch.histc(host)
    host.median(0)
    F.adaptive_avg_pool2d(host.requires_grad_(), 3).sum().backward()


def test_all_that_pytorch_tells_is_known():
    """Each line of PyTorch's documentation that speaks of CUDA, but for those that the host refuses as well."""
    lines = re.findall(r"^ {8}\* :\w+:`([\w.]+)` ?(.*)$", REFUSED, re.MULTILINE)
    known = (
        {told for told, *_ in CALLS}
        | {told for told, _ in BACKWARDS.values()}
        | {"torch.nn.functional.interpolate", "torch.cumsum"}
        # On the page of 2.4 still, where `pad` was written in other functions already.
        | {f"torch.nn.ReplicationPad{n}d" for n in (1, 2, 3)}
    )
    others = {name for name, _ in lines if not re.match(r"torch\.nn\.MaxUnpool|torch\.Tensor\.resize_", name)}
    assert others <= known
