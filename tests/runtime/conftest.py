"""Scenarios run on virtual CUDA always, and on a real GPU where there is one (`-m gpu` for those alone)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from devlint.runtime import virtual_cuda  # noqa: E402


@pytest.fixture(params=["virtual", pytest.param("real", marks=pytest.mark.gpu)])
def gpus(request):
    """Two CUDA devices: virtual, or real ones. The value says which."""
    if request.param == "virtual":
        with virtual_cuda(2):
            yield "virtual"
    elif torch.cuda.device_count() < 1:
        pytest.skip("no real CUDA device")
    else:
        yield "real"


@pytest.fixture
def two_gpus(gpus):
    """`gpus`, where there are two."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    return gpus
