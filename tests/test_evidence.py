"""`devlint run` and `--evidence`: a program is run, what it did is written down, and laid beside the findings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from devlint.evidence import Event, Evidence

pytest.importorskip("torch")

PROGRAM = """\
import sys

import torch

device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.ones(12, 4), batch_size=2)
for batch in loader:
    loss = model(batch.to(device)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
checkpoint = "never.pt"
if len(sys.argv) > 2:
    torch.load(checkpoint)
sys.exit(int(sys.argv[1]))
"""
ITEM_LINE = 14
# What a program that needs CUDA loads, and what it waits for at the end of a step, is told where it is asked for.
ASKED = ("--isolated", "--select", "DEV,DEV301,DEV501", "--evidence", "report.json")


def devlint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "devlint", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A program that was run on a virtual GPU, with its report."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "train.py").write_text(PROGRAM)
    done = devlint(folder, "run", "--virtual-cuda", "1", "--report", "report.json", "train.py", "7")
    assert done.returncode == 7, done.stderr
    assert "train.py:14" in done.stderr, "the summary names the busiest lines"
    return folder


def test_a_finding_says_how_often_it_was_seen(folder):
    done = devlint(folder, "train.py", *ASKED, "--output-format", "json")
    seen = {(f["code"], f["line"]): f.get("seen") for f in json.loads(done.stdout)}
    assert seen[("DEV501", ITEM_LINE)]["count"] == 6
    assert seen[("DEV301", 17)] is None


def test_what_was_seen_comes_first(folder):
    plain = devlint(folder, "train.py", "--isolated", "--output-format", "concise", "--select", "DEV3,DEV5")
    beside = devlint(folder, "train.py", *ASKED, "--output-format", "concise")
    assert "seen" not in plain.stdout
    assert beside.stdout.splitlines()[0].endswith("(seen 6 times)")


def test_what_no_finding_speaks_of_is_listed(folder):
    done = devlint(folder, "train.py", *ASKED)
    listed = done.stdout.split("Seen at run time, without a finding:")[1]
    assert "train.py:10: transfer" in listed
    assert "train.py:14" not in listed


def test_what_costs_the_same_is_listed_as_the_report_has_it():
    events = tuple(Event("sync", Path(f"/x/{name}.py"), 1, "item", 3, 0) for name in "dbacfe")
    _, left = Evidence((*events, events[0])).beside([])
    assert left == [*events]


def test_the_text_report_tells_it_too(folder):
    done = devlint(folder, "train.py", *ASKED)
    assert "\nseen: 6 times" in done.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "can't be read"),
        ("{", "isn't JSON"),
        ("[]", "isn't a report"),
        ('{"tool": "devlint", "events": [], "schema": 99}', "form 99"),
    ],
)
def test_a_bad_report_is_one_line_and_exit_2(folder, content, said):
    report = folder / "bad.json"
    report.unlink(missing_ok=True)
    if content is not None:
        report.write_text(content)
    done = devlint(folder, "train.py", "--evidence", "bad.json")
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_script_that_isnt_there(folder):
    done = devlint(folder, "run", "nowhere.py")
    assert done.returncode == 2
    assert done.stderr.strip() == "error: no such script: nowhere.py"


def test_what_was_not_seen_is_ranked_by_what_it_must_cost(folder):
    (folder / "two.py").write_text(PROGRAM.replace("checkpoint =", "torch.load(checkpoint)\ncheckpoint ="))
    done = devlint(folder, "two.py", *ASKED, "--output-format", "json")
    effects = [f["cost"]["effect"] for f in json.loads(done.stdout)]
    assert effects == ["error", "error", "slow"]


SERVING = """\
import torch
from torch import nn


class Pool(nn.Module):
    def forward(self, x, lengths: list[int]):
        ends = torch.tensor(lengths, device=x.device)
        weights = torch.ones(x.shape[-1]).to(x.device, non_blocking=True)
        return (x * weights).cumsum(0)[ends]
"""
SERVE = """\
import torch
from pool import Pool

model = Pool().cuda()
x = torch.ones(4, 3, device="cuda")
for _ in range(5):
    model(x, [1, 2])
"""


@pytest.mark.slow
def test_what_hot_code_copies_in_silence_is_joined_too(tmp_path):
    (tmp_path / "pool.py").write_text(SERVING)
    (tmp_path / "serve.py").write_text(SERVE)
    devlint(tmp_path, "run", "--virtual-cuda", "1", "--report", "report.json", "serve.py")
    options = ("--isolated", "--select", "DEV511,DEV512", "--evidence", "report.json", "--output-format", "json")
    done = devlint(tmp_path, "pool.py", *options)
    assert {(f["code"], f["line"]): f["seen"]["count"] for f in json.loads(done.stdout)} == {
        ("DEV511", 7): 5,
        ("DEV512", 8): 5,
    }


def test_an_error_that_was_seen_is_joined_to_its_finding(tmp_path):
    text = (
        'import torch\n\nx = torch.ones(3)\nx.to("cuda")\ny = torch.ones(3, device="cuda")\nprint(y + torch.ones(3))\n'
    )
    (tmp_path / "a.py").write_text(text)
    devlint(tmp_path, "run", "--virtual-cuda", "1", "--report", "report.json", "a.py")
    options = ("--isolated", "--evidence", "report.json")
    told = devlint(tmp_path, "a.py", *options, "--output-format", "json")
    assert [(f["code"], f["line"], f["seen"]["count"]) for f in json.loads(told.stdout)] == [
        ("DEV201", 6, 1),
        ("DEV101", 4, 1),
    ]
    assert "without a finding" not in devlint(tmp_path, "a.py", *options).stdout
