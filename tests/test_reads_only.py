"""The linted code is read, never imported and never run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Leaves a file behind wherever it is run, whatever is imported of it.
_TRAP = """\
import pathlib

pathlib.Path({mark!r}).write_text(__name__)
"""
_PROJECT = {
    "trap.py": "",
    "package/__init__.py": "from package.net import Net\nfrom package.star import *\n",
    "package/net.py": "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n",
    "package/star.py": "DEVICE = 'cuda'\n",
    "sitecustomize.py": "",
    "conftest.py": "",
    "setup.py": "import torch\n",
    "torch/__init__.py": "",
    "numpy.py": "",
    "main.py": """\
import numpy as np
import torch

import trap
from package import DEVICE, Net

net = torch.nn.DataParallel(Net())
x = torch.ones(3)
x.to(DEVICE)
x = x.cuda()
print(np.asarray(x), net.other, torch.load("model.pt"))
""",
}


def test_nothing_of_the_project_is_run(tmp_path: Path) -> None:
    project, mark = tmp_path / "project", tmp_path / "was-run"
    for name, text in _PROJECT.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_TRAP.format(mark=str(mark)) + text)
    run = subprocess.run(
        # -P: the folder that is linted isn't where Python looks for devlint's own imports.
        [sys.executable, "-P", "-m", "devlint", "--select", "ALL", "--isolated", "--output-format", "concise", "."],
        cwd=project,
        capture_output=True,
        text=True,
    )
    found = {line.split()[1] for line in run.stdout.splitlines() if ": DEV" in line}
    assert {"DEV101", "DEV204", "DEV301", "DEV401"} <= found, run.stdout + run.stderr
    assert not mark.exists(), mark.read_text()
