"""Operators that treat places in a way of their own, and protocols that leave PyTorch."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from devlint.runtime.virtual.device_checks import NO_NUMBERS

CUDA0 = torch.device("cuda", 0)


def cuda(*shape):
    return torch.rand(*shape, device="cuda")


RESULTS = {
    "ctc with host lengths": lambda: nn.CTCLoss()(
        cuda(5, 2, 4).log_softmax(2),
        torch.ones(2, 3, dtype=torch.long, device="cuda"),
        torch.tensor([5, 5]),
        torch.tensor([3, 3]),
    ),
    "sparse": lambda: cuda(3, 3).to_sparse() @ cuda(3, 3),
    "sparse from parts": lambda: torch.sparse_coo_tensor([[0], [1]], [2.0], device="cuda"),
    "embedding bag": lambda: nn.EmbeddingBag(5, 2).cuda()(
        torch.tensor([1, 2], device="cuda"), torch.tensor([0], device="cuda")
    ),
    "stft": lambda: torch.stft(cuda(64), 16, window=torch.hann_window(16, device="cuda"), return_complex=True),
    "named tuple": lambda: cuda(3, 3).max(dim=0).values,
    "normal": lambda: torch.distributions.Normal(cuda(2), 1.0).sample(),
    "categorical": lambda: torch.distributions.Categorical(logits=cuda(3)).sample(),
    "hessian": lambda: torch.autograd.functional.hessian(lambda v: (v**3).sum(), cuda(3)),
    "functional_call": lambda: torch.func.functional_call(
        nn.Linear(3, 3), {name: value.cuda() for name, value in nn.Linear(3, 3).state_dict().items()}, (cuda(1, 3),)
    ),
    "symbolic trace": lambda: torch.fx.symbolic_trace(nn.Linear(3, 3).cuda())(cuda(1, 3)),
    "lazy batch norm": lambda: nn.LazyBatchNorm1d().cuda()(cuda(3, 3)),
    "iteration": lambda: next(iter(cuda(2, 2))),
    "aten": lambda: torch.ops.aten.add(cuda(2), cuda(2)),
    "scatter into a clone": lambda: torch.slice_scatter(cuda(4), torch.zeros(2), end=2),
    "host fill value": lambda: cuda(2).masked_fill(cuda(2) > 0, torch.tensor(1.0)),
    "interpolate": lambda: F.interpolate(cuda(1, 1, 4, 4), scale_factor=2, mode="bilinear"),
    "orthogonal": lambda: nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)).cuda().weight,
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_there(name, gpus):
    assert RESULTS[name]().device == CUDA0


@pytest.mark.parametrize("name", ["addcdiv", "addcmul", "lerp"])
def test_a_host_number_among_three_operands(name, gpus):
    operator, taken = getattr(torch, name), name not in NO_NUMBERS
    with nullcontext() if taken else pytest.raises(RuntimeError, match="two devices, cuda:0 and cpu"):
        assert operator(cuda(2), cuda(2), torch.tensor(0.5)).device == CUDA0
    with pytest.raises(RuntimeError, match="too many CPU scalars" if taken else "two devices, cuda:0 and cpu"):
        operator(cuda(2), torch.tensor(0.5), torch.tensor(0.5))


@pytest.mark.skipif("addcmul" in NO_NUMBERS, reason="this release takes no number")
def test_addcmul_takes_a_host_number_last(gpus):
    number = torch.tensor(0.5)
    for operands, argument in (((number, cuda(2), cuda(2)), "self"), ((cuda(2), number, cuda(2)), "tensor1")):
        with pytest.raises(RuntimeError, match=f"CPU Scalar support for {argument} argument"):
            torch.addcmul(*operands)


def test_custom_operators(gpus):
    # The schema is spelt out: older releases don't read annotations that are text.
    @torch.library.custom_op("devlint_test::shift", mutates_args=(), schema="(Tensor x) -> Tensor")
    def shift(x):
        return x + torch.ones(x.shape, device=x.device)

    @shift.register_fake
    def _(x):
        return torch.empty_like(x)

    assert shift(cuda(2)).device == CUDA0
    assert torch.ops.devlint_test.shift(cuda(2)).device == CUDA0


def test_what_leaves_pytorch_is_refused():
    from multiprocessing.reduction import ForkingPickler

    from devlint.runtime import VirtualCudaUnsupportedError, virtual_cuda

    with virtual_cuda():
        x = cuda(2)
        for attempt in (
            lambda: torch.from_dlpack(x),
            lambda: torch.to_dlpack(x),
            lambda: torch.utils.dlpack.to_dlpack(x),
            lambda: x.__cuda_array_interface__,
            lambda: ForkingPickler.dumps(x),
            lambda: torch.export.export(nn.Linear(2, 2).cuda(), (x,)),
            lambda: torch.export.export(nn.Linear(2, 2).cuda(), (x,), strict=True),
            lambda: torch.nested.nested_tensor([x, x]),
            lambda: torch.cuda.memory._record_memory_history(),
        ):
            with pytest.raises(VirtualCudaUnsupportedError):
                attempt()
        assert torch.from_dlpack(torch.ones(2)).tolist() == [1.0, 1.0]
        assert torch.from_dlpack(torch.to_dlpack(torch.ones(2))).tolist() == [1.0, 1.0]
