"""Portable code, run: what a fix gives runs like what it was made of, with an accelerator and without one."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from devlint.engine import Linter
from devlint.files import read_source
from devlint.findings import Safety
from devlint.fixer import fix
from devlint.knowledge.counterparts import counterpart, counterparts
from devlint.rule import load_registry
from devlint.settings import Settings

torch = pytest.importorskip("torch")

from devlint.runtime import virtual_cuda, virtual_device  # noqa: E402

REGISTRY = load_registry()


def fixed(code: str, folder: Path, *, safety: Safety = "unsafe", **choices: object) -> str:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(code), encoding="utf-8")
    settings = dataclasses.replace(Settings(folder, select=("DEV7",)), **choices)
    outcome = fix(read_source(path, path.name), Linter(settings, REGISTRY), safety=safety)
    assert not outcome.remaining, outcome.remaining
    return outcome.source.text


def ran(code: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(textwrap.dedent(code), "program.py", "exec"), names)
    return names


def without_accelerator(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


SAFE = """
    import torch

    def step():
        torch.cuda.synchronize()
        torch.cuda.set_device(1)
        with torch.cuda.device(0):
            here = torch.cuda.current_device()
        return here, torch.cuda.current_device(), torch.cuda.device_count()

    def clear():
        torch.cuda.empty_cache()
        return "cleared"
"""


def test_safe_fixes_do_the_same_with_cuda(tmp_path):
    after = fixed(SAFE, tmp_path, safety="safe")
    assert "cuda" not in after
    results = []
    for code in (SAFE, after):
        with virtual_cuda(2):
            names = ran(code)
            results.append((names["step"](), names["clear"]()))
    assert results == [((0, 1, 2), "cleared")] * 2


@pytest.mark.slow
def test_safe_fixes_do_the_same_without_an_accelerator(tmp_path):
    after = fixed(SAFE, tmp_path, safety="safe")
    for code in (textwrap.dedent(SAFE), after):
        cleared = without_accelerator(f"{code}\nprint(clear())")
        assert cleared.stdout == "cleared\n", cleared.stderr
        # Both fail, each in its words.
        assert without_accelerator(f"{code}\nstep()").returncode == 1


CHOICE = """
    import torch

    def noise(n):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.randn(n, device=device)

    def kind():
        return "cuda" if torch.cuda.is_available() else "cpu"

    def moved(x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return x.cuda() * torch.ones(3, device="cuda:0")
"""


@pytest.mark.parametrize("accelerator", ["cuda", "xpu"])
def test_choices_take_the_accelerator_that_is_there(tmp_path, accelerator):
    after = fixed(CHOICE, tmp_path)
    with virtual_cuda(1) if accelerator == "cuda" else virtual_device(accelerator):
        names = ran(after)
        assert names["noise"](2).device.type == accelerator
        assert names["kind"]() == accelerator
        assert names["moved"](torch.ones(3)).device.type == accelerator


def test_choices_take_the_host_where_there_is_nothing_else(tmp_path):
    after = fixed(CHOICE, tmp_path)
    done = without_accelerator(f"{after}\nprint(noise(2).device, kind(), moved(torch.ones(3)).device)")
    assert done.stdout == "cpu cpu cpu\n", done.stderr


def test_a_layer_is_imported_and_used(tmp_path, monkeypatch):
    from devlint.portable import Portable, layer_of

    (tmp_path / "layers_of_ours.py").write_text(
        "import torch\nclass Own:\n    synchronize = staticmethod(torch.cuda.synchronize)\n"
        "    name = 'cuda'\ndef current():\n    return Own\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    replace = {"torch.cuda": "layers_of_ours.current()", "cuda": "layers_of_ours.current().name"}
    portable = Portable(tuple((subject, layer_of(text)) for subject, text in replace.items()))
    code = "import torch\n\ntorch.cuda.synchronize()\nx = torch.ones(3).cuda()\n"
    after = fixed(code, tmp_path, portable=portable)
    assert "from layers_of_ours import current\n" in after
    with virtual_cuda(1):
        assert ran(after)["x"].device.type == "cuda"


@pytest.mark.parametrize("name", [name for name, known in counterparts().items() if known.exact])
def test_counterparts_are_there_and_raise_without_an_accelerator_where_it_is_said(name):
    known = counterparts()[name]
    target = torch
    for part in known.name.split(".")[1:]:
        target = getattr(target, part)
    if torch.accelerator.is_available() or "nothing" not in known.forms:
        pytest.skip("asked of a machine without an accelerator, and of calls without arguments")
    if known.without == "raises":
        with pytest.raises(RuntimeError, match="none is available"):
            target()


def test_counterparts_by_release():
    assert counterpart("torch.cuda.synchronize", (2, 6)) is not None
    assert counterpart("torch.cuda.synchronize", (2, 5)) is None
    assert counterpart("torch.cuda.empty_cache", (2, 8)) is None
    assert counterpart("torch.cuda.empty_cache", None) is not None
    assert counterpart("torch.cuda.nvtx", None) is None


def lint(code: str, folder: Path, select: tuple[str, ...]) -> list[str]:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(code), encoding="utf-8")
    return [f.code for f in Linter(Settings(folder, select=select), REGISTRY).check(read_source(path, path.name))]


def test_the_rule_that_says_more_speaks(tmp_path):
    code = "import torch\nx = torch.ones(3).cuda()\n"
    assert lint(code, tmp_path, ("DEV603",)) == ["DEV603"]
    assert lint(code, tmp_path, ("DEV603", "DEV7")) == ["DEV702"]
    skipped = (
        "import pytest\nimport torch\n\n\n"
        "@pytest.mark.skipif(not torch.cuda.is_available(), reason='')\ndef test_x():\n    pass\n"
    )
    assert lint(skipped, tmp_path, ("DEV701",)) == ["DEV701"]
    assert lint(skipped, tmp_path, ("DEV7",)) == ["DEV703"]


MADE = "import torch\n\n\ndef made({}):\n    return torch.cuda.FloatTensor([1.0])\n"


@pytest.mark.parametrize(
    ("select", "parameters", "place"),
    [
        (("DEV604",), "", '"cuda"'),
        (("DEV604", "DEV7"), "device", "device"),
        # Where no device is at hand, nothing short says any accelerator.
        (("DEV604", "DEV7"), "", None),
    ],
)
def test_fixes_of_other_rules_name_no_cuda(tmp_path, select, parameters, place):
    path = tmp_path / "program.py"
    path.write_text(MADE.format(parameters), encoding="utf-8")
    outcome = fix(read_source(path, path.name), Linter(Settings(tmp_path, select=select), REGISTRY), safety="safe")
    if place is None:
        assert outcome.source.text == MADE.format(parameters)
        assert [finding.fix for finding in outcome.remaining] == [None] * len(outcome.remaining)
        assert outcome.remaining
    else:
        assert outcome.source.text.endswith(f"    return torch.tensor([1.0], dtype=torch.float32, device={place})\n")
        assert not outcome.remaining


TIMED = """
    import time

    import torch
    from torch import nn


    def measure():
        model = nn.Linear(4, 1).cuda()
        x = torch.ones(8, 4).cuda()
        start = time.perf_counter()
        y = model(x)
        return time.perf_counter() - start, y
"""
WAITS = "    if torch.accelerator.is_available():\n        torch.accelerator.synchronize()\n"


def test_a_clock_waits_for_what_is_there(tmp_path):
    # DEV702's fix lets the program run without an accelerator, where DEV509's would end it.
    after = fixed(TIMED, tmp_path, select=("DEV509", "DEV7"), extend_unsafe_fixes=("DEV509",))
    assert after.count(WAITS) == 2
    assert ".cuda()" not in after
    with virtual_cuda():
        elapsed, y = ran(after)["measure"]()
        assert elapsed > 0
        assert y.is_cuda
    done = without_accelerator(f"{after}\nprint(measure()[1].device)")
    assert done.stdout == "cpu\n", done.stderr
