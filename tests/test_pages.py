"""Each rule's page, run: the bad example shows what the rule states, the good and the fixed one don't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from devlint.rule import META_RULES, load_registry

torch = pytest.importorskip("torch")

from devlint.runtime.pages import run_page  # noqa: E402
from devlint.testing import check_page  # noqa: E402

RULES = [rule for rule in load_registry().rules() if rule not in META_RULES]
SHOWN = [rule for rule in RULES if rule.effect is not None]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.effect is None], ids=lambda rule: rule.code)
def test_a_page_without_effect_says_why_and_its_examples_are_told_apart(rule, tmp_path: Path):
    assert "can't be shown" in " ".join(rule.page().split())
    check_page(rule, tmp_path)


@pytest.mark.parametrize("rule", SHOWN, ids=lambda rule: rule.code)
@pytest.mark.parametrize(
    "real",
    [
        pytest.param(False, id="virtual"),
        pytest.param(
            True,
            id="real",
            marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")],
        ),
    ],
)
def test_the_page_is_true(rule, real):
    if real and not 0 < rule.effect.devices <= torch.cuda.device_count():
        pytest.skip("needs more devices, or another accelerator")
    outcomes = run_page(rule, real=real)
    assert [o.title for o in outcomes][:2] == ["bad example", "good example"]
    assert all(o.as_stated for o in outcomes), outcomes


@pytest.mark.slow
def test_a_library_that_an_example_needs_is_missing():
    code = "import sys; sys.modules['torchmetrics'] = None; from devlint.cli import main; main()"
    command = [sys.executable, "-c", code, "rule", "metric-in-hot-loop", "--run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: the examples of DEV510 need torchmetrics, which isn't installed here: pip install torchmetrics"
    ]


@pytest.mark.slow
def test_the_user_can_run_a_page(tmp_path: Path):
    command = [sys.executable, "-m", "devlint", "rule", "discarded-move", "--run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.count("[ok]") == 3
