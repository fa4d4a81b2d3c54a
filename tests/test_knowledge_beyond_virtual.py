"""Facts that virtual CUDA shows otherwise. ATen's own code shows them on the `meta` device, which isn't the host either."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from devlint.knowledge.operators import operator  # noqa: E402


def test_targets_of_ctc_loss_may_be_on_the_host():
    facts = operator("torch.nn.functional.ctc_loss")
    assert facts is not None
    assert not facts.together
    assert "targets" in facts.anywhere
    log_probs = torch.empty(4, 1, 3, device="meta")
    loss = F.ctc_loss(log_probs, torch.ones(1, 2, dtype=torch.int64), (4,), (2,))
    assert loss.device.type == "meta"


def test_a_shape_as_a_tensor_is_on_the_host():
    facts = operator("torch.onnx.operators.shape_as_tensor")
    assert facts is not None
    assert facts.result == "host"
    assert torch._shape_as_tensor(torch.empty(3, 3, device="meta")).device.type == "cpu"


def test_lengths_of_unpacked_sequences_are_on_the_host():
    facts = operator("torch.nn.utils.rnn.pad_packed_sequence")
    assert facts is not None
    assert facts.part_places == ("together", "host")
    packed = nn.utils.rnn.PackedSequence(torch.empty(3, 3, device="meta"), torch.tensor([1, 1, 1]))
    padded = nn.utils.rnn.pad_packed_sequence(packed)
    assert [t.device.type for t in padded] == ["meta", "cpu"]


def test_a_variable_is_where_its_tensor_is():
    facts = operator("torch.autograd.Variable")
    assert facts is not None
    assert facts.result == "together"
    assert torch.autograd.Variable(torch.empty(3, device="meta")).device.type == "meta"
