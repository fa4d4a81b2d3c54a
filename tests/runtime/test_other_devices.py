"""Virtual devices of other types: what a suite needs that is parametrised over devices."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

from devlint.runtime import virtual_cuda, virtual_device
from tests.runtime import programs
from tests.runtime.test_children import python

KINDS = ("mps", "xpu")


def available():
    return {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "xpu": torch.xpu.is_available(),
    }


@pytest.fixture(params=KINDS)
def kind(request):
    if any(available().values()):
        pytest.skip("has an accelerator")
    with virtual_device(request.param):
        yield request.param


def test_one_type_is_there(kind):
    assert available() == {"cuda": False, "mps": False, "xpu": False} | {kind: True}
    assert torch.get_device_module() is getattr(torch, kind)
    getattr(torch, kind).synchronize()
    getattr(torch, kind).empty_cache()
    getattr(torch, kind).manual_seed(1)


@pytest.mark.skipif(not hasattr(torch, "accelerator"), reason="this release of PyTorch has no torch.accelerator")
def test_it_is_the_accelerator(kind):
    assert torch.accelerator.current_accelerator() == torch.device(kind)
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 1
    torch.accelerator.synchronize()


def test_tensors_and_modules_move(kind):
    place = torch.device(kind, 0)
    x = torch.ones(2, 3, device=kind)
    model = nn.Linear(3, 2).to(0)
    result = model(x)
    result.sum().backward()
    assert x.device == result.device == model.weight.grad.device == place
    assert getattr(x, f"is_{kind}")
    assert not x.is_cuda
    assert not x.is_cpu
    assert x.cpu().device.type == "cpu"
    assert x.type() == f"torch.{kind}.FloatTensor"
    assert torch.rand(2, device=kind, generator=torch.Generator(kind)).device == place
    assert copy.deepcopy(model).weight.device == place
    if torch.amp.is_autocast_available(kind):
        with torch.autocast(kind, dtype=torch.bfloat16):
            assert model(x).dtype == torch.bfloat16
    with pytest.raises(TypeError, match=f"can't convert {kind}:0 device type tensor to numpy"):
        x.numpy()


def test_mixed_devices_are_errors(kind):
    with pytest.raises(RuntimeError, match=f"at least two devices, {kind}:0 and cpu"):
        torch.ones(2, device=kind) + torch.ones(2)
    with pytest.raises(RuntimeError, match=f"wrapper_{kind.upper()}_"):
        torch.ones(2, 2, device=kind) @ torch.ones(2, 2)


def test_checkpoints(kind):
    saved = io.BytesIO()
    torch.save(torch.ones(2, device=kind), saved)
    saved.seek(0)
    assert torch.load(saved).device.type == kind
    saved.seek(0)
    assert torch.load(saved, map_location="cpu").device.type == "cpu"


def test_cuda_isn_t_there(kind):
    with pytest.raises((AssertionError, RuntimeError), match=r"CUDA|NVIDIA"):
        torch.ones(2).cuda()


def test_programs_train(kind):
    assert programs.mlp(kind) == programs.mlp("cpu")
    assert programs.transformer(kind) == programs.transformer("cpu")


def test_metal_has_no_double_precision():
    with virtual_device("mps"):
        for attempt in (
            lambda: torch.ones(2, dtype=torch.float64, device="mps"),
            lambda: torch.ones(2, dtype=torch.float64).to("mps"),
            lambda: torch.ones(2, device="mps").double(),
            lambda: nn.Linear(2, 2).double().to("mps"),
        ):
            with pytest.raises(TypeError, match="doesn't support float64"):
                attempt()


@pytest.mark.slow
def test_children_have_the_same_type():
    with virtual_device("xpu", 2):
        assert python("-c", "import torch; print(torch.ones(1).to('xpu:1').device)") == "xpu:1"


def test_bad_types():
    with pytest.raises(ValueError, match="one of cuda, mps, xpu"):
        virtual_device("tpu")
    with pytest.raises(ValueError, match="one mps device"):
        virtual_device("mps", 2)
    with virtual_cuda(), pytest.raises(ValueError, match="cuda devices are on"), virtual_device("mps"):
        pass
