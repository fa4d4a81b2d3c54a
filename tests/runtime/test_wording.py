"""The words of errors, where PyTorch's releases differ: the table against the libraries of the torch that runs."""

from __future__ import annotations

import itertools
import mmap
import re
from pathlib import Path

import pytest
import torch

from devlint.runtime import virtual_cuda
from devlint.runtime.virtual import wording

LIBRARIES = Path(torch.__file__).parent / "lib"
# Which libraries hold a text; those of CUDA are there in CUDA builds only.
HELD_BY = {
    "argument elsewhere": ("libtorch_cpu",),
    "events without timing": ("libtorch_cuda", "libc10_cuda"),
    "events without a record": ("libtorch_cuda",),
    "invalid ordinal": ("libc10_cuda",),
    "out of memory": ("libc10_cuda",),
}
FIRST, LAST = (2, 4), (2, 15)


def pieces(text: str) -> list[str]:
    """The constant parts of a text that a library holds as they are: between what is filled in, sentence by sentence."""
    parts = re.split(r"\{[^}]*\}|\n|wrapper_|0 bytes|(?<=\.) |(?<=try setting) |, and ", text)
    return [part.strip() for part in parts if len(part.strip()) > 8]


@pytest.mark.parametrize("name", wording.TABLE)
def test_the_rows_are_in_order_and_differ(name):
    row = wording.TABLE[name]
    assert row[0].since == FIRST
    assert all(one.since < other.since <= LAST for one, other in itertools.pairwise(row))
    assert all(one[1:] != other[1:] for one, other in itertools.pairwise(row))


@pytest.mark.parametrize("name", wording.TABLE)
def test_the_running_release_has_these_words(name):
    found = [file for held in HELD_BY[name] for file in sorted(LIBRARIES.glob(f"{held}.*"))]
    if not found:
        pytest.skip(f"this torch comes without {HELD_BY[name][0]}")
    # What the driver itself says, and what a compiler may have cut up, isn't there as it is.
    missing = {piece for piece in pieces(wording.words(name).text) if not piece.startswith(CUT_UP)}
    for library in found:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            missing -= {piece for piece in missing if held.find(piece.encode()) >= 0}
    assert missing == set()


CUT_UP = (
    "CUDA error",
    "GPU device may be out of range",
    "Including non-PyTorch memory",
    " memory in use",
    " allocated",
)


ELSEWHERE = {(2, 4): "(when checking argument for argument mat2 in", (2, 8): "but got mat2 is on cpu, different"}
EVENTS = {(2, 4): (RuntimeError, "invalid resource handle"), (2, 8): (ValueError, "enable_timing=True")}
ORDINAL = {
    (2, 4): r"ordinal\nCUDA kernel errors.*TORCH_USE_CUDA_DSA",
    (2, 9): r"ordinal\nGPU device may be out of range.*\nCUDA kernel errors.*TORCH_USE_CUDA_DSA",
    (2, 13): r"ordinal\nGPU device may be out of range.*\nCUDA kernel errors.*LAUNCH_BLOCKING=1\n$",
}
MEMORY = {
    (2, 4): r"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True .*\(https://pytorch\.org/",
    (2, 10): r"PYTORCH_ALLOC_CONF=expandable_segments:True .*\(https://pytorch\.org/",
    (2, 11): r"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True .*\(https://docs\.pytorch\.org/",
}


def of(row, release):
    return next(row[since] for since in sorted(row, reverse=True) if release >= since)


@pytest.mark.parametrize("release", [(2, minor) for minor in range(4, 16)])
def test_errors_speak_as_a_release_does(monkeypatch, release):
    monkeypatch.setattr(wording, "RELEASE", release)
    with virtual_cuda(1, memory="1MiB"):
        with pytest.raises(RuntimeError, match=re.escape(of(ELSEWHERE, release))):
            torch.ones(3, 3, device="cuda") @ torch.ones(3, 3)
        kind, said = of(EVENTS, release)
        with pytest.raises(kind, match=said):
            torch.cuda.Event().elapsed_time(torch.cuda.Event())
        with pytest.raises(of({(2, 4): RuntimeError, (2, 8): ValueError}, release), match="must be recorded"):
            torch.cuda.Event(enable_timing=True).elapsed_time(torch.cuda.Event(enable_timing=True))
        with pytest.raises(RuntimeError, match=f"(?s){of(ORDINAL, release)}"):
            torch.ones(3, device="cuda:1")
        full = re.escape(
            "CUDA out of memory. Tried to allocate 3.81 MiB. GPU 0 has a total capacity of 1024.00 KiB of which "
        )
        with pytest.raises(torch.cuda.OutOfMemoryError, match=f"^{full}.*{of(MEMORY, release)}"):
            torch.ones(1000, 1000, device="cuda")


def test_an_older_release_than_any_gets_the_oldest_words(monkeypatch):
    monkeypatch.setattr(wording, "RELEASE", (2, 0))
    assert wording.words("argument elsewhere").since == FIRST
