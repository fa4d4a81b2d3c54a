"""Where the linter says that hot code waits, virtual CUDA counts a wait for each step, and nowhere else."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks.real_cuda import telling_waits
from devlint.engine import Linter
from devlint.files import read_source
from devlint.rule import load_registry
from devlint.runtime import virtual_cuda, watch_devices
from devlint.settings import Settings
from tests.runtime.hot import routing, sampling, serving, solving

# What waits: each rule by its code, as what hardly anybody would act on counts here too.
SELECT = tuple(rule.code for rule in load_registry().rules() if rule.code.startswith("DEV5"))


@pytest.mark.parametrize("run", [serving.serve, sampling.sample, routing.train, solving.train])
def test_what_is_told_is_what_waits_line_by_line(run: Callable[[int], object], tmp_path: Path) -> None:
    # Among tests, nothing is hot by its role.
    path = Path(shutil.copy(run.__code__.co_filename, tmp_path))
    linter = Linter(Settings(tmp_path, select=SELECT, preview=True), load_registry())
    told = Counter(finding.span.line for finding in linter.check(read_source(path, path.name)))
    assert waits_of_a_step(run) == told


def waits_of_a_step(run: Callable[[int], object]) -> dict[int, int]:
    """Line -> how often the host waits there at each step, once the program has started."""
    with virtual_cuda(1):
        few, more = waits(run, 2), waits(run, 5)
    per_step = {line: (count - few[line]) / 3 for line, count in more.items()}
    return {line: int(count) for line, count in per_step.items() if count}


def waits(run: Callable[[int], object], steps: int) -> Counter[int]:
    """Line -> how often the host waits there in that many steps."""
    with watch_devices() as watch:
        run(steps)
    found: Counter[int] = Counter()
    for event in watch.report().waits:
        if event.path == run.__code__.co_filename:
            found[event.line] += event.count
    return found


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no real CUDA device")
@pytest.mark.parametrize("run", [serving.serve, sampling.sample, routing.train, solving.train])
def test_a_gpu_waits_on_those_lines(run: Callable[[int], object]) -> None:
    run(2)
    with watch_devices() as watch:
        run(5)
    counted = {
        event.line for event in watch.report().syncs if event.path == run.__code__.co_filename and event.count >= 5
    }
    told = {line for line, count in told_waits(run, 5).items() if count >= 5}
    assert told == counted


def told_waits(run: Callable[[int], object], steps: int) -> Counter[int]:
    """Line -> how many waits PyTorch tells of there in that many steps. It doesn't tell of staged copies."""
    found: Counter[int] = Counter()

    def tell(message: Warning | str, *_: object, **__: object) -> None:
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_filename != run.__code__.co_filename:
            frame = frame.f_back
        if frame is not None and "synchronizing CUDA operation" in str(message):
            found[frame.f_lineno] += 1

    with warnings.catch_warnings(), telling_waits():
        warnings.simplefilter("always")
        warnings.showwarning = tell
        run(steps)
    return found
