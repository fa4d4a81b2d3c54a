"""Real models: forward and one training step under virtual CUDA equal the CPU's, bit for bit."""

from __future__ import annotations

import importlib.util
import sys
import types
from contextlib import contextmanager

import pytest
import torch

from devlint.runtime import virtual_cuda, watch_devices


@contextmanager
def _without_torchvision():
    """timm imports a handful of names from torchvision, for datasets and for layers that these models don't have."""
    if importlib.util.find_spec("torchvision") is not None:
        yield
        return
    parts = ("", ".ops", ".ops.misc", ".transforms", ".transforms.functional", ".datasets", ".datasets.folder")
    names = ["torchvision" + part for part in parts]
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = []
        module.__getattr__ = _stand_in
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


class _AnyConstant(type):
    """A class that has every attribute: timm makes tables of torchvision's interpolation modes."""

    def __getattr__(cls, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return f"{cls.__name__}.{attribute}"


def _stand_in(attribute):
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return _AnyConstant(attribute, (), {})


def _timm(name):
    pytest.importorskip("huggingface_hub", reason="timm needs huggingface_hub")
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    try:
        with _without_torchvision():
            import timm
    except ImportError as error:
        pytest.skip(f"timm does not import here: {error}")
    model = timm.create_model(name, num_classes=5)
    return model, {"x": torch.randn(2, 3, 224 if name.startswith("vit") else 64, 224 if name.startswith("vit") else 64)}


def _bert():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    ids = torch.randint(60, (2, 7))
    model = transformers.BertForSequenceClassification(config)
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([0, 1])}


def _gpt2():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.GPT2Config(vocab_size=60, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    ids = torch.randint(60, (2, 7))
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


MODELS = {
    "resnet18": lambda: _timm("resnet18"),
    "vit_tiny": lambda: _timm("vit_tiny_patch16_224"),
    "efficientnet_b0": lambda: _timm("efficientnet_b0"),
    "convnext_atto": lambda: _timm("convnext_atto"),
    "bert": _bert,
    "gpt2": _gpt2,
}


def _step(make, device):
    """Forward, one step of training, forward again: (first output, gradients' norm, second output)."""
    torch.manual_seed(0)
    model, inputs = make()
    model.to(device)
    inputs = {name: value.to(device) for name, value in inputs.items()}
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def forward():
        output = model(**inputs) if "input_ids" in inputs else model(inputs["x"])
        return output.loss if hasattr(output, "loss") else output

    first = forward()
    assert first.device.type == torch.device(device).type
    first.square().mean().backward()
    gradients = [parameter.grad.norm().item() for parameter in model.parameters() if parameter.grad is not None]
    optimizer.step()
    model.eval()
    with torch.no_grad():
        second = forward()
    return first.detach().cpu(), gradients, second.cpu()


@pytest.mark.parametrize("name", MODELS)
def test_trains_as_on_the_cpu(name):
    expected = _step(MODELS[name], "cpu")
    with virtual_cuda():
        found = _step(MODELS[name], "cuda")
    assert torch.equal(found[0], expected[0])
    assert found[1] == expected[1]
    assert torch.equal(found[2], expected[2])


@pytest.mark.parametrize("name", MODELS)
def test_an_input_left_on_the_host(name):
    model, inputs = MODELS[name]()
    with virtual_cuda(), watch_devices() as watch:
        model.cuda()
        with pytest.raises(RuntimeError, match=r"same device|should be the same") as caught:
            model(**inputs) if "input_ids" in inputs else model(inputs["x"])
    assert watch.report().mismatches
    (note,) = caught.value.__notes__
    assert "on cpu" in note
    assert "moved to cuda:0 by to at" in note
