"""The signatures: what they say of a function in words, and that their rooms import one way."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from click.testing import CliRunner

import devlint
from devlint.cli import cli

ROOMS = ("values", "state", "libraries", "reading", "answers")
HOME = Path(devlint.__file__).parent / "signatures"

SOURCE = """\
import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x, device):
        steps = torch.arange(4, device=device)
        return self.fc(x) * steps, steps.cpu().numpy()


def place(model, batch, device):
    model.to(device)
    return batch.numpy()


def scored(net, images):
    return net.scale.data.cpu() * net.encode(images)
"""


def said(tmp_path: Path, line: int, *options: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(SOURCE, encoding="utf-8")
    result = CliRunner().invoke(cli, ["where", f"{path}:{line}", "--isolated", *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_def_line_shows_what_a_function_needs_and_gives(tmp_path: Path) -> None:
    lines = said(tmp_path, 10).splitlines()
    assert lines[0] == "forward(self, x, device)"
    assert "    needs `x` (where `x` is) and `self.fc` (where `self` is) together: `self.fc`, line 12" in lines
    assert any(line.startswith("    gives (a tensor") and line.endswith("an array)") for line in lines)


def test_a_def_line_shows_what_a_function_moves_and_wants_on_the_host(tmp_path: Path) -> None:
    output = said(tmp_path, 15)
    assert "moves `model`: on `device` afterwards" in output
    assert "needs `batch` (where `batch` is) on cpu: `.numpy()`, line 17" in output


def test_what_may_be_a_number_on_the_host_is_taken_along(tmp_path: Path) -> None:
    # Nobody knows how many dimensions the scale has.
    assert "gives what may be a tensor where `images` is" in said(tmp_path, 20)


def test_a_signature_as_json(tmp_path: Path) -> None:
    told = json.loads(said(tmp_path, 15, "--output-format", "json"))
    assert told["signature"][0] == "place(model, batch, device)"


def test_the_rooms_import_one_way() -> None:
    """What runs: imports for types alone stand under TYPE_CHECKING."""
    wrong = []
    for place, room in enumerate(ROOMS):
        for file in (HOME / room).glob("*.py"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                if module.startswith("devlint.signatures."):
                    target = module.split(".")[2]
                    if ROOMS.index(target) > place:
                        wrong.append(f"{room}/{file.name} imports {target}")
    assert not wrong


KNOT = {
    "a_back.py": """\
import torch
from forth import forth


def back(x, n):
    if n:
        return forth(x, n - 1)
    return x.cuda()
""",
    "forth.py": """\
import torch
from a_back import back


def forth(x, n):
    if n:
        return back(x, n - 1)
    return torch.zeros(3)
""",
    "use.py": """\
import torch
from forth import forth


def added(x):
    return forth(x, 3) + torch.ones(3, device="cuda")


def shown(x):
    return forth(x, 3).numpy()
""",
}


def test_what_calls_itself_through_others_is_the_same_whichever_file_comes_first(tmp_path: Path) -> None:
    for name, text in KNOT.items():
        (tmp_path / name).write_text(text)
    options = ["check", "--no-cache", "--isolated", "--output-format", "concise", "--jobs", "1"]
    # What hangs on a path is told where the rule is selected by its code.
    options += ["--extend-select", "DEV201"]

    def told(*paths: str) -> list[str]:
        lines = CliRunner().invoke(cli, [*options, *(str(tmp_path / path) for path in paths)]).output.splitlines()
        return [line for line in lines if "use.py:" in line]

    alone = told("use.py")
    # Either may come out of it: what was told of the one where the other was still being read isn't the whole.
    assert ["DEV201" in line and "likely" in line for line in alone] == [True, False]
    assert ["DEV204" in line and "likely" in line for line in alone] == [False, True]
    assert alone == told(*KNOT)
    assert alone == told("forth.py", "use.py")


def test_what_python_calls_by_itself_is_called_where_it_is_asked_for(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n\n\nclass Pair:\n    def __init__(self, left, right):\n        self.left, self.right = left, right\n\n"
        "    @property\n    def total(self):\n        return self.left + self.right\n\n\n"
        "host = torch.ones(2)\ngpu = torch.ones(2, device='cuda')\n"
        "print(Pair(host, host).total)\nprint(Pair(host, gpu).total)\n",
        encoding="utf-8",
    )
    result = CliRunner().invoke(cli, ["check", str(program), "--isolated", "--no-cache", "--output-format", "json"])
    (finding,) = [f for f in json.loads(result.stdout) if f["code"] == "DEV201"]
    calls = [note["line"] for note in finding["notes"] if note["message"].startswith("called from here")]
    assert calls == [16]
