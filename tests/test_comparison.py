"""The page that compares devlint with other tools: each thing that it says of devlint is tried."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from repositories import ENVIRONMENT, commit, write
from server.editor import Editor

ROOT = Path(__file__).parents[1]
BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'
OPS = "import torch\n\n\ndef weigh(x):\n    return x * 2\n"
BROKEN = OPS.replace("x * 2", "x * torch.tensor([1.0, 2.0, 3.0])")
TRAIN = 'import torch\n\nfrom ops import weigh\n\nprint(weigh(torch.ones(3, device="cuda")))\n'
HOT = """\
import torch

model = torch.nn.Linear(2, 2).cuda()
total = 0.0
for x in torch.utils.data.DataLoader([]):
    total += model(x.cuda()).sum().item()
print(total)
"""


# Other tests keep nothing.
_AS_USERS = {name: value for name, value in ENVIRONMENT.items() if name != "DEVLINT_NO_CACHE"}


def run(folder: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "devlint", *arguments]
    return subprocess.run(command, cwd=folder, env=_AS_USERS, input=stdin, capture_output=True, text=True)


def codes(folder: Path, *arguments: str) -> list[str]:
    return [found["code"] for found in json.loads(run(folder, "--output-format", "json", *arguments).stdout)]


def fixes(folder: Path) -> None:
    write(folder, {"a.py": BAD, "b.py": HOT})
    run(folder, "--fix")
    assert ((folder / "a.py").read_text(), (folder / "b.py").read_text()) == (BAD.replace("x.to", "x = x.to"), HOT)
    run(folder, "--fix", "--unsafe-fixes")
    assert ".item()" not in (folder / "b.py").read_text()


def steps_through_files(folder: Path) -> None:
    write(folder, {"ops.py": BROKEN, "train.py": TRAIN})
    [found] = json.loads(run(folder, "--output-format", "json").stdout)
    assert {found["path"], *(note["path"] for note in found["notes"])} == {"ops.py", "train.py"}


def settings(folder: Path) -> None:
    write(folder, {"a.py": BAD, "pyproject.toml": '[tool.devlint]\nignore = ["DEV101"]\n'})
    assert codes(folder) == []


def without_suppressions(folder: Path) -> None:
    write(folder, {"a.py": BAD.replace('"cuda")', '"cuda")  # noqa: DEV101'), "b.py": f"# devlint: skip-file\n{BAD}"})
    assert codes(folder) == []
    # What a run with them kept doesn't count.
    assert codes(folder, "--ignore-noqa") == ["DEV101", "DEV101"]
    assert run(folder, "--ignore-noqa", "--add-noqa").returncode == 2


def suppressions(folder: Path) -> None:
    write(
        folder,
        {"a.py": BAD.replace("\n", "  # noqa: DEV101\n").replace("import torch  # noqa: DEV101", "import torch")},
    )
    assert "DEV101" not in codes(folder)


def baseline(folder: Path) -> None:
    commit(folder, {"a.py": BAD})
    assert run(folder, "baseline").returncode == 0
    assert codes(folder) == []
    write(folder, {"b.py": BAD.replace("x", "y")})
    assert codes(folder) == ["DEV101"]


def elsewhere(folder: Path) -> None:
    commit(folder, {"ops.py": OPS, "train.py": TRAIN})
    write(folder, {"ops.py": BROKEN})
    done = run(folder, "--since=HEAD", "--output-format", "concise")
    assert done.stdout.startswith("train.py:5")


def notebooks(folder: Path) -> None:
    cells = [{"cell_type": "code", "source": text} for text in ("import torch\nx = torch.ones(3)", 'x.to("cuda")')]
    write(folder, {"n.ipynb": json.dumps({"cells": cells, "metadata": {}})})
    assert run(folder).stdout.startswith("n.ipynb:cell 2:1:1: DEV101")


def hook(folder: Path) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"devlint", "devlint-fix", "devlint-staged"} == {each["id"] for each in hooks}
    write(folder, {"a.py": BAD})
    for each in hooks:
        program, *arguments = each["entry"].split()
        assert program == "devlint"
        assert run(folder, *arguments, "--help").returncode == 0


def language_server(folder: Path) -> None:
    write(folder, {"a.py": BAD})
    editor = Editor(folder)
    try:
        assert [found.code for found in editor.settle(editor.open(folder / "a.py"))] == ["DEV101"]
    finally:
        assert editor.quit() == 0


def reports(folder: Path) -> None:
    write(folder, {"a.py": BAD})
    for form in ("sarif", "github", "gitlab", "junit"):
        assert "DEV101" in run(folder, "--output-format", form).stdout


def kept_results(folder: Path) -> None:
    write(folder, {"a.py": BAD, "pyproject.toml": "[tool.devlint]\n"})
    run(folder)
    assert "as in an earlier run" in run(folder, "--verbose").stderr


def rules_of_ones_own(folder: Path) -> None:
    assert run(folder, "new-rule", "ACME001", "some-rule", "acme-rules").returncode == 0
    assert "devlint.rules" in (folder / "acme-rules" / "pyproject.toml").read_text()
    assert "from devlint.testing import" in (folder / "acme-rules" / "tests" / "test_rules.py").read_text()


def syntax_errors(folder: Path) -> None:
    write(folder, {"a.py": "import torch\nx = (\n", "b.py": "x = (\n"})
    assert codes(folder) == ["DEV000"]
    assert codes(folder, "b.py") == ["DEV000"]


def rule_pages(folder: Path) -> None:
    assert "## Why is this bad" in run(folder, "rule", "DEV101").stdout


def standard_input(folder: Path) -> None:
    assert run(folder, "-", "--stdin-filename", "a.py", stdin=BAD).stdout.startswith("a.py:4:1: DEV101")


def watching(folder: Path) -> None:
    write(folder, {"a.py": BAD})
    command = [sys.executable, "-P", "-m", "devlint", "--watch", "--quiet"]
    with subprocess.Popen(command, cwd=folder, env=_AS_USERS, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("a.py:4:1: DEV101")
        write(folder, {"a.py": f"\n{BAD}"})
        assert "a.py:5:1: DEV101" in "".join(process.stdout.readline() for _ in range(8))
        process.send_signal(signal.SIGINT)


# What the page says of devlint, and how that is seen; None where it says that devlint is something else.
TRIED: dict[str, tuple[str, Callable[[Path], None] | None]] = {
    "fixes": ("safe, unsafe, and for display; checked before they are written", fixes),
    "why: steps through other files": ("yes", steps_through_files),
    "settings in pyproject.toml": ("yes", settings),
    "suppressions by comment": ("yes", suppressions),
    "a run that passes over them": ("yes (`--ignore-noqa`)", without_suppressions),
    "baseline of old findings": ("yes", baseline),
    "what a change causes in other files": ("yes (`--since`)", elsewhere),
    "notebooks": ("yes", notebooks),
    "pre-commit hook": ("yes", hook),
    "editors": ("language server", language_server),
    "SARIF, GitHub, GitLab, JUnit": ("yes", reports),
    "results kept from run to run": ("yes", kept_results),
    "a rule's page in the terminal": ("yes (`devlint rule`)", rule_pages),
    "the standard input": ("yes (`-`)", standard_input),
    "watching files": ("yes (`--watch`)", watching),
    "rules of your own": ("Python packs, a test kit", rules_of_ones_own),
    "options of a rule's own": ("no", None),
    "syntax errors of any Python file": ("of those about torch, and those that are named", syntax_errors),
    "typed stubs, whole-program types": ("no", None),
    "other languages": ("no", None),
    "written in": ("Python", None),
}


def test_each_row_is_tried() -> None:
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    table = page.split("## What you expect of a linter")[1].split("## ")[0]
    rows = [
        re.split(r"\s*\|\s*", line.strip("| "))
        for line in table.splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    assert {row[0]: row[1] for row in rows if len(row) == 6} == {name: said for name, (said, _) in TRIED.items()}


@pytest.mark.slow
@pytest.mark.parametrize("row", [name for name, (_, tried) in TRIED.items() if tried is not None])
def test_what_is_said_of_devlint_is_so(row: str, tmp_path: Path) -> None:
    tried = TRIED[row][1]
    assert tried is not None
    tried(tmp_path)
