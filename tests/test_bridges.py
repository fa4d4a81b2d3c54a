"""devlint inside of flake8 and pytest, each run as a user runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import BAD, BROKEN, CLEAN, devlint, write

from devlint import __version__

WAIT = "import torch\n\ndef run(net, loader):\n    for batch in loader:\n        net(batch).sum().backward()\n        torch.cuda.synchronize()\n"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("pyproject.toml", "[tool.devlint]\n")


def python(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], input=stdin, capture_output=True, text=True, timeout=300, check=False
    )


def flake8(*arguments: str, stdin: str = "") -> list[str]:
    pytest.importorskip("flake8")
    done = python("flake8", "--isolated", "--select", "DEV,F", "-j", "2", *arguments, stdin=stdin)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_flake8_tells_each_finding_once():
    write("bad.py", BAD + "y = torch.ones(2); y.cuda()\n")
    write("clean.py", CLEAN + "import os\n")
    write("wait.py", WAIT)
    told = flake8(".")
    ours = json.loads(devlint("--output-format", "json").stdout)
    assert sorted(line for line in told if "DEV" in line) == sorted(
        f"./{f['path']}:{f['line']}:{f['column']}: {f['code']} {f['message']}{' (likely)' * (f['confidence'] == 'likely')}"
        for f in ours
    )
    assert len(ours) == 3
    assert "./clean.py:4:1: F401 'os' imported but unused" in told
    assert f"devlint: {__version__}" in python("flake8", "--version").stdout.replace("\n", " ")


def test_flake8_goes_by_devlint_s_settings_and_baseline():
    write("bad.py", BAD)
    write("old/bad.py", BAD)
    write("gen/bad.py", BAD)
    write("load.py", 'import torch\n\nstate = torch.load("a.pt")\nprint(state)\n')
    write("pyproject.toml", '[tool.devlint]\nignore = ["DEV301"]\nexclude = ["gen"]\n')
    assert devlint("baseline", "old").returncode == 0
    assert [line.split(":")[0] for line in flake8(".")] == ["./bad.py"]
    # Its own comments switch off, too.
    write("bad.py", BAD.replace('"cuda")', '"cuda")  # noqa: DEV101'))
    assert flake8(".") == []
    write("pyproject.toml", "[tool.devlint]\nslect = []\n")
    (line,) = [line for line in flake8("bad.py") if "DEV000" in line]
    assert line.startswith("bad.py:1:1: DEV000 ")
    assert line.endswith("unknown key 'slect'; did you mean 'select'?")


def test_flake8_reads_the_standard_input():
    assert flake8("-", "--stdin-display-name", "bad.py", stdin=BAD) == [
        'bad.py:4:1: DEV101 `x.to("cuda")` returns a moved copy and leaves `x` where it is; the result is dropped'
    ]


def lint(*arguments: str) -> subprocess.CompletedProcess[str]:
    return python("pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--devlint-lint", *arguments)


@pytest.mark.slow
def test_pytest_fails_an_item_for_each_file_with_findings():
    write("src/bad.py", BAD)
    write("src/clean.py", CLEAN)
    write("src/broken.py", BROKEN)
    write("src/n.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": BAD, "metadata": {}}], "metadata": {}}))
    write("test_x.py", "def test_x():\n    pass\n")
    done = lint("-v", ".")
    outcomes = dict(re.findall(r"^(\S+)::\S+ (PASSED|FAILED)", done.stdout, re.MULTILINE))
    assert done.returncode == 1
    assert outcomes == {
        "src/bad.py": "FAILED",
        "src/broken.py": "FAILED",
        "src/clean.py": "PASSED",
        "src/n.ipynb": "FAILED",
        "test_x.py": "PASSED",
    }
    assert "src/bad.py:4:1: DEV101 [discarded-move]" in done.stdout
    assert "src/n.ipynb:cell 1:4:1: DEV101" in done.stdout
    assert re.search(r"src/broken\.py:2:\d+: DEV000", done.stdout)
    assert "Traceback" not in done.stdout
    # Alone, and without the option.
    plain = python("pytest", "-p", "no:cacheprovider", ".").stdout
    assert "1 passed" in plain
    assert "2 passed, 1 deselected" in lint("-m", "devlint_lint", "test_x.py", "src/clean.py").stdout


@pytest.mark.slow
def test_pytest_goes_by_fail_on():
    write("wait.py", WAIT)
    assert lint("wait.py").returncode == 1
    write("pyproject.toml", '[tool.devlint]\nfail-on = "error"\n')
    done = lint("-rP", "wait.py")
    assert done.returncode == 0
    assert "wait.py:6:9: DEV506" in done.stdout
    write("pyproject.toml", '[tool.devlint]\nselect = ["DEV1"]\n')
    assert "DEV506" not in lint("-rP", "wait.py").stdout


@pytest.mark.slow
def test_pytest_tells_settings_that_cannot_be_used():
    write("pyproject.toml", "[tool.devlint]\nslect = []\n")
    write("clean.py", CLEAN)
    done = lint("clean.py")
    assert done.returncode == 1
    assert "unknown key 'slect'; did you mean 'select'?" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("module", ["devlint.bridges.pytest_lint", "devlint.bridges.flake8"])
def test_being_installed_costs_nothing(module):
    heavy = "{'libcst', 'torch', 'rich', 'devlint.engine', 'devlint.settings'}"
    script = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_script_with_cells_is_one_program_in_the_lines_of_its_file():
    text = '# %% Setup\nimport torch\n\nx = torch.ones(3)\n\n# %% [markdown]\n# Text.\n\n# %%\nx.to("cuda")\n'
    write("cells.py", text)
    (found,) = json.loads(devlint("cells.py", "--output-format", "json").stdout)
    assert (found["line"], found["column"], found["notes"][0]["line"]) == (10, 1, 4)
    assert "cell" not in found
    assert devlint("cells.py", "--fix").returncode == 0
    assert Path("cells.py").read_text() == text.replace("x.to(", "x = x.to(")
