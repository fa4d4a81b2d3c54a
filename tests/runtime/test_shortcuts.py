"""Calls that are answered without the mode: the same answers, and other modes see what they always saw."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from devlint.runtime import virtual_cuda, watch_devices

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.le, operator.gt, operator.ge,
    operator.ne, operator.iadd, operator.isub, operator.imul, operator.itruediv,
]  # fmt: skip


class Names(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("function", BINARY, ids=lambda function: function.__name__)
def test_operators(function):
    data = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 0.5])
    with virtual_cuda(2):
        x, y = (tensor.to("cuda:1") for tensor in data)
        for other in (y, 3, 0.5, nn.Parameter(y), torch.tensor(2.0)):
            result = function(x.clone(), other)
            assert result.device == torch.device("cuda:1")
            host = other.cpu() if isinstance(other, torch.Tensor) else other
            assert result.cpu().equal(function(data[0].clone(), host))
        if not function.__name__.startswith("i"):
            assert function(3, x).device == torch.device("cuda:1")
            with pytest.raises(RuntimeError, match="found at least two devices"):
                function(x, data[1])
        with pytest.raises(RuntimeError, match="must match the size"):
            function(x, torch.ones(3, device="cuda:1"))
        assert torch.ones(2).cuda().device == torch.device("cuda:0")  # the mode is there still


def test_other_classes_have_the_word():
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    with virtual_cuda():
        x = torch.ones(2, device="cuda")
        assert x + torch.ones(2).as_subclass(Mine) == "add"
        assert x.__add__(object()) is NotImplemented
        with pytest.raises(TypeError):
            x + object()


def test_other_modes_see_what_they_always_saw():
    parameter = nn.Parameter(torch.ones(2))

    def program(device):
        with Names() as names:
            x = torch.ones(2, device=device)
            x * x + 2 * x
            _ = parameter.grad, parameter.dtype, parameter.shape
        return names.seen

    plain = program("cpu")
    with virtual_cuda():
        assert program("cuda") == plain


def test_watches_see_operators():
    with virtual_cuda(), watch_devices() as watch, pytest.raises(RuntimeError) as caught:
        torch.ones(2, device="cuda") * torch.ones(2)
    assert "devlint: mul at" in "".join(caught.value.__notes__)
    assert watch.report().mismatches


def test_autocast_and_integers():
    with virtual_cuda(), torch.autocast("cuda", torch.bfloat16):
        x = torch.ones(2, 2, device="cuda")
        assert (x + x).dtype is torch.float32
        assert (x @ x).dtype is torch.bfloat16


def test_memory_counts_operators():
    with virtual_cuda(memory="1MiB"):
        x = torch.ones(100, 1000, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            held = [x * 2, x * 2, x * 2]  # noqa: F841


def test_attributes_of_parameters():
    with virtual_cuda(2):
        parameter = nn.Parameter(torch.ones(2, 3)).to("cuda:1")
        parameter = nn.Parameter(parameter.detach())
        assert (parameter.dtype, parameter.shape, parameter.ndim) == (torch.float32, (2, 3), 2)
        assert parameter.is_leaf
        assert parameter.grad is None
        parameter.requires_grad = False
        assert not parameter.requires_grad
        parameter.requires_grad = True
        (parameter * 2).sum().backward()
        assert parameter.grad.device == torch.device("cuda:1")
        parameter.grad = None
        assert parameter.grad is None
        with pytest.raises(RuntimeError, match="attempting to assign a gradient"):
            parameter.grad = torch.ones(2, 3)
        del parameter.grad
        assert parameter.grad is None
    assert "grad" not in vars(nn.Parameter)
    assert "__mul__" not in vars(torch.Tensor)
