"""How close virtual CUDA is to a real GPU, by what one was recorded to do (tests/data/cuda_truth.json.gz).

    python -m benchmarks.cuda_truth [--part calls|dtypes|programs|waits] [--json FILE]

tools/cuda_truth.py tells what was recorded, and how. What another release of PyTorch calls by the same name and isn't the same call
is left out.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch

from benchmarks import cuda_waits, fidelity
from devlint.runtime import virtual_cuda, watch_devices
from tests.random_programs.programs import draw
from tests.random_programs.truth import NAME, run

TRUTH = Path(__file__).parents[1] / "tests/data/cuda_truth.json.gz"
# How many samples of each operator were recorded.
SAMPLES = 3


@dataclass(frozen=True)
class Answer:
    """What one question came to: both answers, and what kind of question it is."""

    part: str
    name: str
    real: Any
    virtual: Any

    @property
    def agrees(self) -> bool:
        return bool(self.real == self.virtual)


@cache
def truth() -> dict[str, Any]:
    """What was recorded."""
    with gzip.open(TRUTH, "rt", encoding="utf-8") as stream:
        data: dict[str, Any] = json.load(stream)
        return data


def mark_of(text: str) -> str:
    """What tells a program's text from another one of the same seed: generators change."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def calls(recorded: dict[str, Any]) -> Iterator[Answer]:
    """By operator, sample and placement: the devices of the results, or "error"; and whether the host waits."""
    for sample in fidelity.samples(SAMPLES, {name.rpartition("/")[0] for name in recorded}):
        found = recorded.get(f"{sample.name}/{sample.index}")
        if found is None or found["given"] != fidelity.fingerprint(sample):
            continue
        with virtual_cuda(1):
            for placement in found.keys() - {"given"}:
                yield from _placed(sample, placement, found[placement])


def _placed(sample: fidelity.Sample, placement: str, found: list[Any]) -> Iterator[Answer]:
    name = f"{sample.name}/{sample.index}/{placement}"
    torch.manual_seed(0)
    call = sample.prepared(fidelity.move, placement)
    try:
        with watch_devices() as watch:
            devices = fidelity.devices_of(call())
    except Exception as error:
        yield Answer("calls", name, found[0], "error" if found[0] == "error" else f"error: {error}"[:150])
        if found[0] == "error":
            yield Answer("texts of errors", name, _worded(found[1]), _worded(cuda_waits.text_of(error)))
        return
    yield Answer("calls", name, found[0] if found[0] != "error" else found, devices)
    if found[0] != "error":
        yield Answer("waits of calls", name, found[-1] > 0, watch.report().sync_count > 0)


def _worded(text: str) -> str:
    """An error's text without what no two machines have in common: the file that an assertion stands in."""
    return re.sub(r' at "[^"]*":\d+', "", text)


def dtypes(recorded: dict[str, Any]) -> Iterator[Answer]:
    """By operator and data type: whether the first sample can be computed on the device."""
    with virtual_cuda(1):
        for op in fidelity.op_db:
            for dtype, outcome in (recorded.get(fidelity.name_of(op)) or {}).items():
                sample = fidelity.first_sample(op, getattr(torch, dtype))
                if sample is None:
                    continue
                try:
                    sample.call(fidelity.move, "0" * len(sample.positions))
                    virtual = "ok"
                except Exception as error:
                    virtual = "error" if outcome != "ok" else f"error: {error}"[:150]
                real = outcome if outcome == "ok" or virtual == "ok" else "error"
                yield Answer("dtypes", f"{fidelity.name_of(op)} {dtype}", real, virtual)


def programs(recorded: dict[str, Any]) -> Iterator[Answer]:
    """By seed: the lines of the traceback that ended the program, those that errors went through, and those that waited."""
    with virtual_cuda(1):
        for seed, found in recorded.items():
            text, flags = draw(Random(int(seed)))
            if found is None or mark_of(text) != found["text"]:
                continue
            with watch_devices() as watch:
                ran = run(text, flags)
            # A comprehension has a frame of its own up to Python 3.11.
            real, virtual = (list(dict.fromkeys(crash)) for crash in (found["crash"], ran.crash))
            yield Answer("programs", seed, [real, found["raised"]], [virtual, sorted(ran.raised)])
            # A wait within a library's function was recorded without its line; what fails may wait before.
            if all(line for line, _ in found["waits"]):
                told = {line for line, _ in found["waits"]} - set(found["raised"])
                waits = {e.line for e in watch.report().syncs if e.path == NAME} - ran.raised
                yield Answer("waits of programs", seed, sorted(told), sorted(waits))


def waits(recorded: dict[str, Any]) -> Iterator[Answer]:
    """By expression of benchmarks/cuda_waits.py: whether the host waits, staged copies aside."""
    with virtual_cuda(1):
        for name, found in recorded.items():
            counted = cuda_waits.counted(name)
            if isinstance(found, str) or isinstance(counted, str):
                yield Answer(
                    "waits",
                    name,
                    found if isinstance(found, str) else "runs",
                    counted if isinstance(counted, str) else "runs",
                )
                continue
            syncs, staged = counted
            # A staged copy may wait, whatever its size.
            real = [found[0] or found[1] > 0, bool(staged)] if not staged else [found[1] > 0, True]
            yield Answer("waits", name, real, [syncs > 0, bool(staged)])


PARTS = {"calls": calls, "dtypes": dtypes, "programs": programs, "waits": waits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, help="one part only")
    parser.add_argument("--json", type=Path, help="write the disagreements there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    answers = [a for part in PARTS if options.part in (None, part) for a in PARTS[part](truth()[part])]
    different = [a for a in answers if not a.agrees]
    if options.json:
        options.json.write_text(json.dumps([[a.part, a.name, a.real, a.virtual] for a in different], indent=0))
    for part, count in Counter(a.part for a in answers).items():
        same = count - sum(a.part == part for a in different)
        print(f"{part}: {same:,} of {count:,} as on a {truth()['device']} ({same / count:.2%})")


if __name__ == "__main__":
    main()
