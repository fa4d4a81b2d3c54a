"""The example that the README is about works when it is fixed; the page about adopting shows what happens."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repositories import commit, write

ROOT = Path(__file__).parents[1]


def devlint(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "devlint", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_fixed_example_has_no_findings_and_runs(tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("*.pt", "__pycache__"))
    assert devlint("--isolated", "--fix", "--unsafe-fixes", "examples", cwd=tmp_path).returncode == 0
    for script in ("train.py", "evaluate.py"):
        subprocess.run([sys.executable, script], cwd=folder, check=True, capture_output=True)


def test_what_the_page_about_adopting_shows(tmp_path):
    page = (ROOT / "docs" / "adopting.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ops = "import torch\n\n\ndef weigh(x):\n    return x * 2\n"
    train = (
        'import torch\n\nfrom ops import weigh\n\nbatch = torch.ones(3)\nbatch.to("cuda")\n'
        'print(weigh(torch.ones(3, device="cuda")))\n'
    )
    write(tmp_path, {"ops.py": ops, "train.py": train})
    devlint("baseline", cwd=tmp_path)
    commit(tmp_path)
    assert devlint(cwd=tmp_path).stdout == shown[0]
    write(tmp_path, {"ops.py": ops.replace("x * 2", "x * torch.tensor([1.0, 2.0, 3.0])")})
    assert devlint("--since=HEAD", cwd=tmp_path).stdout == shown[2]
    write(tmp_path, {"ops.py": ops, "train.py": train.replace("batch.to(", "batch = batch.to(")})
    assert devlint(cwd=tmp_path).stdout == shown[1]
