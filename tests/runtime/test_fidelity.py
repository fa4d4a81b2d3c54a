"""Virtual CUDA against its oracles, on part of the operators; benchmarks/fidelity.py does them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from benchmarks import fidelity
from devlint.runtime.virtual.device_checks import CHECKED_ITERATORS, UNTAGGED_ITERATORS

OPERATORS = """
    add mul where matmul addmm linalg.solve cat stack gather scatter_add index_select index_put take_along_dim
    nn.functional.linear nn.functional.embedding nn.functional.cross_entropy nn.functional.layer_norm
    nn.functional.scaled_dot_product_attention masked_fill clamp lerp copysign logical_and searchsorted
    slice_scatter block_diag cumsum sort unbind split fft.rfft einsum cdist dist outer dot softmax var_mean
""".split()  # noqa: SIM905 - names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", OPERATORS)
def test_agrees_with_fake_tensors(operator):
    found = fidelity.compare(1, operator)
    assert found.compared > 0
    assert [row for row in found.disagreements if not row[3]] == []


def test_truth_files_are_read_as_written(tmp_path):
    data = {"torch": "x", "device": "y", "devices": 2, "samples": 1, "outcomes": {"add/0/00": "cuda:0"}}
    path = tmp_path / "truth.json.gz"
    fidelity.write_truth(data, path)
    before = path.read_bytes()
    assert fidelity.read_truth(path) == data
    fidelity.write_truth(data, path)
    assert path.read_bytes() == before
    assert fidelity.against_truth({**data, "outcomes": {"add/0/0h": "nonsense"}}) == [
        ("add/0/0h", "nonsense", "cuda:0")
    ]


@pytest.mark.skipif(
    not fidelity.TRUTH.exists(), reason="no recording of a real GPU yet: benchmarks/fidelity.py --record"
)
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_recorded_cuda():
    truth = fidelity.read_truth()
    if truth["torch"].split("+")[0] != torch.__version__.split("+")[0]:
        pytest.skip(f"recorded with PyTorch {truth['torch']}")
    differing = fidelity.against_truth(truth)
    assert len(differing) <= 0.01 * len(truth["outcomes"]), differing[:20]


def test_device_checks_are_those_of_this_release():
    """The tables are what native_functions.yaml says, for operators that take two tensors or more."""
    if not torch.__version__.startswith("2.13."):
        pytest.skip("recorded from PyTorch 2.13")
    torchgen = pytest.importorskip("torchgen")
    text = (Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml").read_text()
    unchecked, checked = set(), set()
    for entry in re.split(r"^- func: ", text, flags=re.M)[1:]:
        name, overload = re.match(r"(\w+)(?:\.(\w+))?\(", entry).groups()
        parameters = entry.split(" -> ")[0]
        kernels = "CUDA" in entry or "structured_delegate" in entry
        if len(re.findall(r"Tensor", parameters)) < 2 or not kernels or (overload or "").endswith("out"):
            continue
        free = "device_check: NoCheck" in entry
        pointwise = bool(re.search(r"tags:.*pointwise", entry))
        if free and not pointwise:
            unchecked.add(name)
        elif pointwise and not free:
            checked.add(name)
    assert unchecked >= UNTAGGED_ITERATORS
    assert checked >= CHECKED_ITERATORS
