"""Virtual CUDA against what a real GPU was recorded to do; `python -m benchmarks.cuda_truth` lists what differs."""

from __future__ import annotations

import warnings

import pytest
import torch

from benchmarks import cuda_truth

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU: tools/cuda_truth.py records it")

# How much of each kind of question is answered as the GPU answered it; docs/runtime.md has what was measured.
LEAST = {
    "calls": 0.995,
    "waits of calls": 0.99,
    "texts of errors": 0.8,
    "dtypes": 0.97,
    "programs": 0.99,
    "waits of programs": 0.99,
    "waits": 0.97,
}


# All of them take minutes: `python -m benchmarks.cuda_truth`.
STEPS = {"calls": 4, "dtypes": 10, "programs": 4}


@pytest.mark.slow
@pytest.mark.parametrize("part", cuda_truth.PARTS)
def test_virtual_cuda_does_as_a_gpu_did(part):
    asked = dict(list(cuda_truth.truth()[part].items())[:: STEPS.get(part, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = list(cuda_truth.PARTS[part](asked))
    for kind in {answer.part for answer in answers}:
        told = [answer for answer in answers if answer.part == kind]
        different = [answer for answer in told if not answer.agrees]
        assert len(told) > 200
        assert len(different) <= (1 - LEAST[kind]) * len(told), different[:20]


@pytest.mark.filterwarnings("ignore")
def test_another_call_of_the_same_name_is_left_out():
    known = cuda_truth.truth()["calls"]["add/0"]
    assert {answer.part for answer in cuda_truth.calls({"add/0": known})} == {"calls", "waits of calls"}
    assert list(cuda_truth.calls({"add/0": known | {"given": "of another release"}})) == []


@pytest.mark.filterwarnings("ignore")
def test_what_differs_is_told():
    known = cuda_truth.truth()["calls"]["add/0"] | {"00": ["cpu", 1]}
    different = [answer for answer in cuda_truth.calls({"add/0": known}) if not answer.agrees]
    assert [(a.part, a.name, a.real, a.virtual) for a in different] == [
        ("calls", "add/0/00", "cpu", "cuda:0"),
        ("waits of calls", "add/0/00", True, False),
    ]
