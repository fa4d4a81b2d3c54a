"""`--add-noqa`: findings are admitted where they stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from repositories import commit, devlint, told, write

HEAD = "import torch\n\nx = torch.ones(3)\n"


def added(folder: Path, text: str, *arguments: str) -> str:
    write(folder, {"a.py": HEAD + text})
    done = devlint(folder, "--add-noqa", *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert devlint(folder).stdout == "All checks passed!\n"
    after = (folder / "a.py").read_bytes().decode()
    assert after.startswith(HEAD)
    return after.removeprefix(HEAD)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.cuda()\n", "x.cuda()  # noqa: DEV101\n"),
        ("x.cuda()", "x.cuda()  # noqa: DEV101"),
        ("x.cuda()\r\n", "x.cuda()  # noqa: DEV101\r\n"),
        ("x.cuda()  # why\n", "x.cuda()  # why  # noqa: DEV101\n"),
        ("x.cuda()  # noqa: E501\n", "x.cuda()  # noqa: E501, DEV101\n"),
        ("x.cuda()  # noqa: E501 - long\n", "x.cuda()  # noqa: E501, DEV101 - long\n"),
        ("x.to(\n    'cuda',\n)\n", "x.to(  # noqa: DEV101\n    'cuda',\n)\n"),
        ("x \\\n    .cuda()\n", "x \\\n    .cuda()  # noqa: DEV101\n"),
        ("x.to('cuda', copy=bool('''a\nb'''))\n", "x.to('cuda', copy=bool('''a\nb'''))  # noqa: DEV101\n"),
        ("if x.sum() > 0: x.cuda()\n", "if x.sum() > 0: x.cuda()  # noqa: DEV101\n"),
    ],
)
def test_where_the_comment_goes(tmp_path, before, after):
    assert added(tmp_path, before) == after


def test_a_reason_stands_behind_an_equals_sign_only(tmp_path):
    assert added(tmp_path, "x.cuda()\n", "a.py") == "x.cuda()  # noqa: DEV101\n"
    write(tmp_path, {"a.py": HEAD + "x.cuda()\n"})
    done = devlint(tmp_path, "--add-noqa=GH12 later", "a.py")
    assert done.stdout == "All checks passed!\nAdded: 1 code in `# noqa` comments, in 1 file\n"
    assert (tmp_path / "a.py").read_text() == HEAD + "x.cuda()  # noqa: DEV101 - GH12 later\n"
    assert told(tmp_path) == []


def test_several_findings_and_files(tmp_path):
    text = HEAD + "x.cuda(); x.cuda()\nstate = torch.load('a.pt')\nx.to(torch.load('d.pt'))\n"
    write(tmp_path, {"a.py": text, "b.py": text, "clean.py": HEAD})
    assert devlint(tmp_path, "--add-noqa").returncode == 0
    assert told(tmp_path) == []
    assert "x.cuda(); x.cuda()  # noqa: DEV101\n" in (tmp_path / "a.py").read_text()
    assert (tmp_path / "clean.py").read_text() == HEAD


def test_only_what_is_asked_for(tmp_path):
    commit(tmp_path, {"a.py": HEAD + "x.cuda()\n", "b.py": HEAD})
    write(tmp_path, {"a.py": HEAD + "x.cuda()\nx.xpu()\n"})
    assert devlint(tmp_path, "--add-noqa", "--since=HEAD").returncode == 0
    assert (tmp_path / "a.py").read_text() == HEAD + "x.cuda()\nx.xpu()  # noqa: DEV101\n"
    devlint(tmp_path, "baseline")
    write(tmp_path, {"b.py": HEAD + "x.cuda()\n"})
    assert devlint(tmp_path, "--add-noqa", "--select", "dev101").returncode == 0
    assert (tmp_path / "a.py").read_text().count("noqa") == 1
    assert (tmp_path / "b.py").read_text().count("noqa") == 1


def test_what_no_comment_can_switch_off_is_reported(tmp_path):
    write(tmp_path, {"broken.py": "import torch\nx = torch.ones(3).to(\n", "unused.py": "x = 1  # noqa: DEV101\n"})
    done = devlint(tmp_path, "--add-noqa")
    assert done.returncode == 2
    assert "DEV000" in done.stdout
    assert (tmp_path / "unused.py").read_text() == "x = 1  # noqa: DEV101\n"


def test_a_notebook(tmp_path):
    cells = [{"cell_type": "code", "metadata": {}, "source": ["%matplotlib inline\n", *HEAD.splitlines(keepends=True), "x.cuda()"]}]  # fmt: skip
    write(tmp_path, {"n.ipynb": json.dumps({"cells": cells, "metadata": {}}, indent=1)})
    assert devlint(tmp_path, "--add-noqa").returncode == 0
    assert '"x.cuda()  # noqa: DEV101"' in (tmp_path / "n.ipynb").read_text()
    assert told(tmp_path) == []


def test_what_does_not_go_together(tmp_path):
    write(tmp_path, {"a.py": HEAD})
    for arguments in (["--fix"], ["--staged"], ["-"]):
        assert devlint(tmp_path, "--add-noqa", *arguments).returncode == 2


def test_comments_can_be_looked_at_first(tmp_path):
    write(tmp_path, {"a.py": HEAD + "x.cuda()\n"})
    done = devlint(tmp_path, "--add-noqa=old", "--diff")
    assert done.returncode == 1
    assert "-x.cuda()\n+x.cuda()  # noqa: DEV101 - old\n" in done.stdout
    assert done.stderr == "Would add: 1 code in `# noqa` comments, in 1 file\n"
    assert (tmp_path / "a.py").read_text() == HEAD + "x.cuda()\n"


def test_what_a_finding_spoke_for_is_admitted_too(tmp_path):
    """With its comment, the other one would be told by the next run."""
    net = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 4)

    def forward(self, x):
        pos = torch.arange(x.shape[1])
        return x + self.emb(pos)


net = Net().cuda()
print(net(torch.ones(2, 3, 4, device="cuda")))
"""
    write(tmp_path, {"a.py": net})
    assert devlint(tmp_path).returncode == 1
    assert devlint(tmp_path, "--add-noqa").returncode == 0
    assert devlint(tmp_path).stdout == "All checks passed!\n"


def test_a_finding_that_no_comment_can_admit_stands_in_no_others_way(tmp_path):
    write(tmp_path, {"a.py": HEAD + "x.cuda()\n" * 5 + "(x.\n cuda())\n" + "x.cuda()\n"})
    done = devlint(tmp_path, "--add-noqa")
    after = (tmp_path / "a.py").read_text()
    assert after.count("x.cuda()  # noqa: DEV101\n") == 6
    assert f"Added: {after.count('noqa')} codes in `# noqa` comments, in 1 file" in done.stdout
