"""`devlint where`, as a user calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = {
    "net.py": """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)
""",
    "train.py": """\
import torch
from torch.utils.data import DataLoader

from metrics import score
from net import Net

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = Net().to(device)
for x, y in DataLoader([], batch_size=2):
    out = net(x.to(device))
    print(out - y, score(out))


def check(batch, hint):
    moved = batch.cuda() if hint else batch
    return moved
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def where(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "devlint", "where", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_a_line_is_explained_value_by_value(project: Path) -> None:
    told = where(project, "train.py:11").stdout
    assert told.startswith("train.py:11\n11 |     print(out - y, score(out))\n")
    assert "\nout: tensor on cuda\n" in told
    assert "    moved to cuda here (train.py:8)\n" in told
    assert "\ny: batch on cpu (likely)\n    comes from `DataLoader` (train.py:9)\n" in told


def test_one_value_is_asked_for(project: Path) -> None:
    told = where(project, "train.py:11:y").stdout
    assert "y: batch on cpu" in told
    assert "out:" not in told


def test_alternatives_come_with_their_conditions(project: Path) -> None:
    told = where(project, "train.py:16:moved").stdout
    assert "on cuda (likely), if hint\n" in told
    assert "moved: unknown, if not (hint)\n" in told


def test_alternatives_that_say_the_same_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        "import torch\n\n\ndef f(many):\n    x = torch.ones(3)\n    if many:\n        y = x\n    else:\n        y = x\n    return y\n"
    )
    assert where(tmp_path, "t.py:10:y").stdout.count("y: tensor on cpu\n") == 1


def test_a_line_says_nothing_of_names_that_mean_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import torch\nimport torch.nn as N\n\nx = torch.ones(3)\nm = N.Linear(2, 2)\n")
    told = where(tmp_path, "t.py:4").stdout
    assert "reference" not in told
    assert "torch.ones(3): tensor on cpu" in told
    assert "N: reference torch.nn" in where(tmp_path, "t.py:5").stdout
    assert "torch: reference torch" in where(tmp_path, "t.py:4:torch").stdout


def test_it_says_why_something_is_unknown(project: Path) -> None:
    called = where(project, "train.py:11:score(out)").stdout
    assert "devlint knows nothing of what `metrics.score` returns" in called
    given = where(project, "train.py:15:hint").stdout
    assert "it is a parameter of `check`, whose callers in this file don't tell" in given


def test_it_says_that_an_owner_is_one_of_several(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        "import torch\n\nmodel = torch.nn.Linear(3, 3)\nif torch.cuda.device_count() > 1:\n"
        "    model = torch.nn.DataParallel(model)\nprint(model.predict)\n"
    )
    told = where(tmp_path, "t.py:6:model.predict").stdout
    assert "is either" not in told
    assert "`model` is one of several, and of one of them nothing is known of `predict`" in told


def test_json_holds_the_same(project: Path) -> None:
    told = json.loads(where(project, "train.py:11:y", "--output-format", "json").stdout)
    assert told["untold"] == []
    (known,) = told["values"]
    assert (known["text"], known["kind"], known["place"], known["likely"]) == ("y", "batch", "cpu", True)
    assert known["trail"] == [["comes from `DataLoader`", "train.py", 9]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("train.py", "error: train.py: isn't FILE:LINE or FILE:LINE:NAME, such as train.py:31:labels"),
        ("gone.py:3", "error: gone.py: can't be read: No such file or directory"),
        ("train.py:900", "error: train.py:900: the file has 16 lines"),
        ("train.py:3", "error: train.py:3: no name, attribute or call starts there"),
        (
            "train.py:9:z",
            "error: train.py:9: no `z` starts there; there is `x`, `y`, `DataLoader`, `DataLoader([], batch_size=2)`",
        ),
        ("bad.py:1", "error: bad.py: isn't valid Python: invalid syntax"),
    ],
)
def test_bad_input_is_one_clear_line(project: Path, asked: str, said: str) -> None:
    (project / "bad.py").write_text("x = = 1\n")
    run = where(project, asked)
    assert run.returncode == 2
    assert run.stderr.splitlines() == [said]
    assert run.stdout == ""


def test_the_settings_say_what_a_name_means(tmp_path: Path) -> None:
    (tmp_path / "devlint.toml").write_text('behaves-like = { "acme.to_gpu" = "torch.Tensor.cuda" }\n')
    (tmp_path / "train.py").write_text("import acme\nimport torch\nx = acme.to_gpu(torch.ones(3))\n")
    assert "x: tensor on cuda\n" in where(tmp_path, "train.py:3:x").stdout


def test_a_notebook_s_place_is_cell_and_line(project: Path) -> None:
    cells = [{"cell_type": "markdown", "source": "#"}]
    cells += [
        {"cell_type": "code", "source": text} for text in ("import torch\nx = torch.ones(3)", "y = x.cuda()\nprint(y)")
    ]
    (project / "n.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))
    told = where(project, "n.ipynb:cell 3:2:y").stdout
    assert told.startswith("n.ipynb:cell 3:2\n2 | print(y)\n")
    assert "created on cpu by `torch.ones` (n.ipynb:cell 2:2)" in told
    for place, said in (
        ("n.ipynb:2", "a notebook's lines count from their cell; write n.ipynb:cell 1:2"),
        ("n.ipynb:cell 1:1", "no line of Python is there"),
        ("n.ipynb:cell 2:9", "no line of Python is there"),
        ("train.py:cell 2:9", "the file has no cells; write train.py:9"),
    ):
        assert where(project, place).stderr.endswith(f"{said}\n")


def test_a_place_of_a_report_can_be_pasted_and_steps_can_be_followed(project: Path) -> None:
    assert where(project, "train.py:11:11").stdout == where(project, "train.py:11").stdout
    package = project / "package"
    package.mkdir()
    (package / "made.py").write_text("import torch\n\n\ndef make():\n    return torch.ones(1).cuda()\n")
    (project / "use.py").write_text("from package.made import make\n\nz = make()\nprint(z)\n")
    assert "(package/made.py:5)" in where(project, "use.py:4:z").stdout


def test_what_a_finding_goes_by_is_told_with_its_trail(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(
        "import torch\n\n\ndef weights(labels):\n    counts = torch.bincount(labels)\n    return counts.sum() / counts\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch\n\nfrom data import weights\n\n\nclass Set:\n    def __init__(self):\n        self.labels = torch.tensor([0, 1])\n\n\n"
        "def main(loader):\n    loader = torch.utils.data.DataLoader(Set())\n    w = weights(loader.dataset.labels)\n    w.cuda()\n"
    )
    command = [sys.executable, "-m", "devlint", "train.py", "--select", "DEV101", "--output-format", "json"]
    [found] = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout)
    told = where(tmp_path, "train.py:14:w").stdout
    assert "\nw: tensor on cpu (likely)\n" in told
    for note in found["notes"]:
        assert f"    {note['message']} ({note['path']}:{note['line']})\n" in told


def untold(folder: Path, place: str) -> list[str]:
    """What `where` says isn't told of a line."""
    return where(folder, place).stdout.rstrip().split("\n\n")[-1].splitlines()


def test_it_says_what_would_be_told_by_code_or_in_preview(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n\n\ndef train(model, loader, optimizer, device):\n    losses = []\n    for x, y in loader:\n"
        "        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)\n"
        "        loss = (model(x) - y).square().mean()\n        loss.backward()\n"
        "        optimizer.step()\n        losses.append(loss.item())\n"
    )
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x, lengths):\n        return x[: int(lengths.max())]\n"
    )
    message = "`loss.item()` makes the host wait for the accelerator at each step"
    why = "there is no fix for a wait at each step"
    with_code = "--extend-select DEV501"
    assert untold(tmp_path, "train.py:11") == [f"DEV501 would be told here with `{with_code}` ({why}): {message}"]
    shown = json.loads(where(tmp_path, "train.py:11", "--output-format", "json").stdout)["untold"]
    assert shown == [{"code": "DEV501", "message": message, "options": with_code, "why": why}]
    [told] = untold(tmp_path, "net.py:6")
    in_preview = "DEV501 would be told here with `--preview` (waits in code that is hot by its role are in preview): "
    assert told.startswith(in_preview + "`int(lengths.max())` makes the host wait")
    # And so it is.
    command = [sys.executable, "-m", "devlint", "train.py", "--output-format", "concise"]
    assert message not in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    named = [*command, "--extend-select", "DEV501"]
    assert message in subprocess.run(named, cwd=tmp_path, capture_output=True, text=True).stdout


def test_it_says_why_findings_are_silent(tmp_path: Path) -> None:
    text = "import torch\n\n\ndef {0}(x):\n    return x + torch.arange(4)\n\n\nDEVICE = 'cuda'\n"
    for name in ("load_rows", "shift"):
        (tmp_path / f"{name}.py").write_text(text.format(name))
    open_inputs = "DEV2 tells nothing here that hangs on where inputs are"
    assert untold(tmp_path, "load_rows.py:5") == [
        f"by its name or its class, `load_rows` is code for the host: {open_inputs}"
    ]
    assert "is code for the host" not in where(tmp_path, "shift.py:5").stdout
    (tmp_path / "shift.py").write_text(text.format("shift").replace("DEVICE = 'cuda'", "shift(torch.ones(4))"))
    assert untold(tmp_path, "shift.py:5")
    (tmp_path / "setup_torch.py").write_text("import torch\n\ntorch.set_default_device('cuda')\n")
    assert "setup_torch.py sets a default device: DEV2 says nothing of tensors that are made without one" in untold(
        tmp_path, "shift.py:5"
    )


def test_columns_count_characters(tmp_path: Path) -> None:
    # `ast` counts the bytes of UTF-8.
    (tmp_path / "tools.py").write_text("def added(名, x):\n    return 名 + x\n", encoding="utf-8")
    made = "文字 = '数'; host = torch.ones(3); there = torch.ones(3).cuda(); added(host, there)\n"
    (tmp_path / "main.py").write_text(f"import torch\nfrom tools import added\n\n{made}", encoding="utf-8")
    checked = [sys.executable, "-m", "devlint", "check", "--exit-zero", "--select", "DEV201", "--output-format", "json", "."]  # fmt: skip
    finding = json.loads(subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True).stdout)[0]
    assert finding["column"] == made.index("added(") + 1
    columns = {note["column"] for note in finding["notes"]}
    assert columns == {made.index(part) + 1 for part in ("torch.ones(3);", "torch.ones(3).cuda")}
    told = json.loads(where(tmp_path, "main.py:4", "--output-format", "json").stdout)
    columns = {value["text"]: value["column"] for value in told["values"]}
    assert columns["host"] == made.index("host") + 1
