"""Programs with a device bug: each fails as on CUDA, with CUDA's error type and the key words of its text."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

SAME = "Expected all tensors to be on the same device"


def x():
    return torch.randn(4, 3, device="cuda")


def h(*shape):
    return torch.randn(*(shape or (4, 3)))


class Forgetful(nn.Module):
    """Keeps a plain tensor, which `.to` does not move."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = torch.ones(3)

    def forward(self, x):
        return self.linear(x) * self.scale


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(3, 3)]

    def forward(self, x):
        return self.layers[0](x)


def mask_without_device():
    q = torch.randn(1, 2, 4, 8, device="cuda")
    return F.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(4, 4))


def out_elsewhere():
    return torch.add(x(), x(), out=torch.empty(4, 3))


def optimizer_before_the_state_moved():
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    model(h()).sum().backward()
    optimizer.step()
    model.cuda()
    model(x()).sum().backward()
    optimizer.step()


def assigned_gradient():
    parameter = nn.Parameter(torch.ones(3, device="cuda"))
    parameter.grad = torch.ones(3)


def gradient_from_the_host():
    (nn.Linear(3, 3).cuda()(x())).backward(h())


def backward_returns_host_gradient():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad.cpu()

    Bad.apply(x().requires_grad_()).sum().backward()


def numpy_function():
    return np.sqrt(x())


def banned_under_autocast():
    with torch.autocast("cuda"):
        F.binary_cross_entropy(torch.rand(3, device="cuda"), torch.ones(3, device="cuda"))


def lengths_on_the_gpu():
    return nn.utils.rnn.pack_padded_sequence(x()[None], torch.tensor([4], device="cuda"), batch_first=True)


def vector_loss():
    nn.DataParallel(nn.Linear(3, 1).cuda())(x()).backward()


def wrapped_while_on_the_host():
    nn.DataParallel(nn.Linear(3, 1))(x())


FAILING = {
    "add host": (lambda: x() + h(), RuntimeError, "at least two devices"),
    "host minus gpu": (lambda: h() - x(), RuntimeError, "at least two devices"),
    "in-place add host": (lambda: x().add_(h()), RuntimeError, "at least two devices"),
    "host in-place add gpu": (lambda: h().add_(x()), RuntimeError, "at least two devices"),
    "one-element host vector": (lambda: x() + torch.ones(1), RuntimeError, "at least two devices"),
    "where": (lambda: torch.where(x() > 0, x(), h()), RuntimeError, SAME),
    "a number where none is taken": (lambda: torch.addcdiv(x(), x(), h()[0, 0]), RuntimeError, "at least two devices"),
    "mask": (lambda: x().masked_fill(h() > 0, 0), RuntimeError, "expected self and mask to be on the same device"),
    "0-dim mask": (lambda: x().masked_fill(torch.tensor(True), 0), RuntimeError, "expected self and mask"),
    "0-dim index": (lambda: x().index_fill(0, torch.tensor(0), 0), RuntimeError, "at least two devices"),
    "inner of a number": (lambda: torch.inner(h()[0, 0], x()), RuntimeError, "to have cpu DeviceType"),
    "maximum": (lambda: torch.maximum(x(), h()), RuntimeError, "at least two devices"),
    "matmul": (lambda: x() @ h(3, 2), RuntimeError, SAME),
    "host matmul gpu": (lambda: h(2, 4) @ x(), RuntimeError, SAME),
    "einsum": (lambda: torch.einsum("ij,kj->ik", x(), h()), RuntimeError, SAME),
    "cat": (lambda: torch.cat([x(), h()]), RuntimeError, SAME),
    "stack": (lambda: torch.stack([x(), h()]), RuntimeError, SAME),
    "linear": (lambda: nn.Linear(3, 2).cuda()(h()), RuntimeError, SAME),
    "linear on the host": (lambda: nn.Linear(3, 2)(x()), RuntimeError, SAME),
    "conv": (
        lambda: nn.Conv2d(1, 1, 1).cuda()(h(1, 1, 2, 2)),
        RuntimeError,
        # By size and release.
        rf"Input type \(torch.FloatTensor\) and weight type \(torch.cuda.FloatTensor\) should be the same|{SAME}",
    ),
    "conv bias on the host": (
        lambda: F.conv1d(x()[None], h(2, 4, 1).cuda(), h(2)),
        RuntimeError,
        r"Input type \(torch.cuda.FloatTensor\) and bias type \(torch.FloatTensor\) should be the same",
    ),
    "conv on the host": (
        lambda: nn.Conv1d(1, 1, 1)(torch.ones(1, 1, 3, device="cuda")),
        RuntimeError,
        r"Input type \(torch.cuda.FloatTensor\) and weight type \(torch.FloatTensor\) should be the same",
    ),
    "batch norm": (lambda: nn.BatchNorm1d(3)(x()), RuntimeError, SAME),
    "layer norm": (lambda: nn.LayerNorm(3)(x()), RuntimeError, SAME),
    "embedding": (lambda: nn.Embedding(5, 2).cuda()(torch.tensor([1])), RuntimeError, SAME),
    "lstm": (lambda: nn.LSTM(3, 3).cuda()(h(2, 1, 3)), RuntimeError, "not at the same device"),
    "gru hidden": (
        lambda: nn.GRU(3, 3).cuda()(torch.ones(2, 1, 3, device="cuda"), torch.zeros(1, 1, 3)),
        RuntimeError,
        "not at the same device",
    ),
    "attention": (lambda: nn.MultiheadAttention(4, 2).cuda()(*[h(2, 1, 4)] * 3), RuntimeError, SAME),
    "attention mask": (mask_without_device, RuntimeError, SAME + "|same device"),
    "labels": (lambda: F.cross_entropy(x(), torch.zeros(4, dtype=torch.long)), RuntimeError, SAME),
    "class weights": (
        lambda: nn.CrossEntropyLoss(weight=torch.ones(3))(x(), torch.zeros(4, dtype=torch.long, device="cuda")),
        RuntimeError,
        SAME,
    ),
    "mse": (lambda: F.mse_loss(x(), h()), RuntimeError, SAME),
    "unregistered tensor": (lambda: Forgetful().cuda()(x()), RuntimeError, "at least two devices"),
    "unregistered module": (lambda: Listed().cuda()(x()), RuntimeError, SAME),
    "gather": (lambda: x().gather(1, torch.zeros(4, 1, dtype=torch.long)), RuntimeError, SAME),
    "index_select": (lambda: torch.index_select(x(), 0, torch.tensor([0])), RuntimeError, SAME),
    "scatter": (
        lambda: x().scatter_(1, torch.zeros(4, 1, dtype=torch.long, device="cuda"), h(4, 1)),
        RuntimeError,
        SAME,
    ),
    "masked_fill mask": (lambda: x().masked_fill(h() > 0, 0.0), RuntimeError, "same device|two devices"),
    "index host by gpu": (
        lambda: h()[torch.tensor([0], device="cuda")],
        RuntimeError,
        "indices should be either on cpu",
    ),
    "mask host by gpu": (lambda: h()[x() > 0], RuntimeError, "indices should be either on cpu"),
    "assign vector by index": (
        lambda: x().__setitem__(torch.tensor([0, 1], device="cuda"), h(2, 3)),
        RuntimeError,
        SAME,
    ),
    "numpy": (lambda: x().numpy(), TypeError, "can't convert cuda:0 device type tensor to numpy"),
    "asarray": (lambda: np.asarray(x()), TypeError, r"Use Tensor.cpu\(\)"),
    "numpy function": (numpy_function, TypeError, "can't convert cuda:0"),
    "numpy allclose": (lambda: np.allclose(np.ones((4, 3)), x()), TypeError, "can't convert cuda:0"),
    "ordinal": (lambda: torch.ones(2, device="cuda:99"), RuntimeError, "invalid device ordinal"),
    "set_device": (lambda: torch.cuda.set_device(99), RuntimeError, "invalid device ordinal"),
    "properties": (lambda: torch.cuda.get_device_properties(99), (AssertionError, RuntimeError), "nvalid device"),
    "bad device text": (lambda: torch.ones(2, device="gpu"), RuntimeError, "Expected one of cpu, cuda"),
    "bad index text": (lambda: h().to("cuda: 0"), RuntimeError, "nvalid device string"),
    "cuda of cpu": (lambda: h().cuda("cpu"), (RuntimeError, ValueError), "nvalid device"),
    "host generator": (
        lambda: torch.randn(2, device="cuda", generator=torch.Generator()),
        RuntimeError,
        "Expected a 'cuda' device type for generator but found 'cpu'",
    ),
    "gpu generator": (
        lambda: torch.randperm(4, generator=torch.Generator("cuda")),
        RuntimeError,
        "Expected a 'cpu' device type for generator but found 'cuda'",
    ),
    "in-place random": (
        lambda: x().normal_(generator=torch.Generator()),
        RuntimeError,
        "Expected a 'cuda' device type for generator",
    ),
    "pin": (lambda: x().pin_memory(), RuntimeError, "cannot pin 'torch.cuda.FloatTensor'"),
    "out": (out_elsewhere, RuntimeError, "two devices"),
    "optimizer state": (optimizer_before_the_state_moved, RuntimeError, "same device|two devices"),
    "assigned gradient": (assigned_gradient, RuntimeError, "attempting to assign a gradient with device type 'cpu'"),
    "gradient from the host": (gradient_from_the_host, RuntimeError, "expected device cuda:0 but got cpu"),
    "custom backward": (backward_returns_host_gradient, RuntimeError, "expected device cuda:0 but got cpu"),
    "banned under autocast": (banned_under_autocast, RuntimeError, "unsafe to autocast"),
    "lengths": (lengths_on_the_gpu, RuntimeError, "'lengths' argument should be a 1D CPU int64 tensor"),
    "vector loss": (vector_loss, RuntimeError, "scalar outputs"),
    "wrapped on the host": (
        wrapped_while_on_the_host,
        RuntimeError,
        "module must have its parameters and buffers on device cuda:0",
    ),
    "optimizer to": (
        lambda: torch.optim.SGD([nn.Parameter(x())], 0.1).cuda(),
        AttributeError,
        "has no attribute 'cuda'",
    ),
    "apply_": (lambda: x().apply_(abs), TypeError, "apply_ is only implemented on CPU tensors"),
    "meta": (lambda: torch.ones(2, device="meta").cuda(), NotImplementedError, "Cannot copy out of meta tensor"),
    "searchsorted": (
        lambda: torch.searchsorted(torch.arange(3.0, device="cuda"), torch.ones(2)),
        RuntimeError,
        "same device",
    ),
    "interpolate weight": (
        lambda: F.grid_sample(torch.ones(1, 1, 2, 2, device="cuda"), torch.zeros(1, 2, 2, 2), align_corners=False),
        RuntimeError,
        "same device",
    ),
    "foreach": (lambda: torch._foreach_add([x()], [h()]), RuntimeError, "same device|two devices"),
    "equal": (lambda: torch.equal(x(), h()), RuntimeError, "same device|devices"),
    "linalg": (lambda: torch.linalg.solve(torch.eye(3, device="cuda"), h(3, 1)), RuntimeError, "same device"),
    "dataparallel leftover": (
        lambda: nn.DataParallel(Forgetful().cuda())(x()),
        RuntimeError,
        "at least two devices",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_fails_as_on_cuda(name, gpus):
    program, error, words = FAILING[name]
    if name == "wrapped on the host" and torch.cuda.device_count() < 2:
        pytest.skip("on one GPU, DataParallel moves the module itself")
    with pytest.raises(error, match=words):
        program()


TWO = {
    "add": (lambda a, b: a + b, "at least two devices, cuda:0 and cuda:1"),
    "0-dim": (lambda a, b: a * b.sum(), "at least two devices, cuda:0 and cuda:1"),
    "matmul": (lambda a, b: a @ b, SAME),
    "index": (lambda a, b: a[b.argmax(1)], "indices should be either on cpu"),
    "linear": (lambda a, b: nn.Linear(3, 3).to("cuda:1")(a), SAME),
    "cat": (lambda a, b: torch.cat([a, b]), SAME),
}


@pytest.mark.parametrize("name", TWO)
def test_two_gpus_do_not_mix(name, two_gpus):
    operation, words = TWO[name]
    with pytest.raises(RuntimeError, match=words):
        operation(torch.ones(3, 3, device="cuda:0"), torch.ones(3, 3, device="cuda:1"))


def test_checkpoint_needs_map_location_elsewhere():
    from devlint.runtime import virtual_cuda

    if torch.cuda.is_available():
        pytest.skip("this machine could load it")
    saved = io.BytesIO()
    with virtual_cuda():
        torch.save({"w": torch.ones(3, device="cuda"), "module": nn.Linear(2, 2).cuda().state_dict()}, saved)
    saved.seek(0)
    with pytest.raises(RuntimeError, match=r"Attempting to deserialize object on a CUDA device.*map_location"):
        torch.load(saved)
    saved.seek(0)
    loaded = torch.load(saved, map_location="cpu")
    assert loaded["w"].tolist() == [1.0, 1.0, 1.0]
    assert loaded["w"].device.type == "cpu"


def test_checkpoint_of_a_bigger_machine():
    from devlint.runtime import virtual_cuda

    if torch.cuda.is_available():
        pytest.skip("this machine could load it")
    saved = io.BytesIO()
    with virtual_cuda(2):
        torch.save(torch.ones(3, device="cuda:1"), saved)
    saved.seek(0)
    with virtual_cuda(1), pytest.raises(RuntimeError, match="Attempting to deserialize object on CUDA device 1 but"):
        torch.load(saved)


class GpuDataset(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.ones(2).cuda()


def test_cuda_in_a_forked_worker(gpus):
    torch.ones(1, device="cuda")
    loader = torch.utils.data.DataLoader(GpuDataset(), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        next(iter(loader))


def scripted_before(x):
    return x * 2


def test_torchscript_from_before_is_refused():
    from devlint.runtime import VirtualCudaUnsupportedError, virtual_cuda

    function = torch.jit.script(scripted_before)
    with virtual_cuda():
        assert function(torch.ones(1)).item() == 2.0
        with pytest.raises(VirtualCudaUnsupportedError, match="TorchScript"):
            function(torch.ones(1, device="cuda"))


def test_refusals_are_loud():
    from devlint.runtime import VirtualCudaUnsupportedError, virtual_cuda

    with virtual_cuda():
        for attempt in (
            lambda: torch.cuda.CUDAGraph(),
            lambda: torch.jit.load("model.pt"),
            lambda: torch.jit.save(nn.Linear(2, 2), "model.pt"),
            lambda: torch.cuda.memory._snapshot(),
            lambda: torch.cuda.current_blas_handle(),
            lambda: torch.set_default_tensor_type("torch.cuda.FloatTensor"),
            lambda: torch.ones(2).to("mps"),
        ):
            with pytest.raises(VirtualCudaUnsupportedError, match="devlint: virtual CUDA does not support"):
                attempt()
