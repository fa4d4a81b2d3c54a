"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from devlint import __version__

BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'
FIXED = BAD.replace("x.to(", "x = x.to(")
UNSAFE = """import torch

net = torch.nn.Linear(2, 2)
state = torch.load("a.pt")
net.load_state_dict(state["net"])
print(state["loss"])
"""
# It names what the rules look for: a file that doesn't is never parsed.
BROKEN = "import torch\nx = torch.ones(3).to(\n"
CLEAN = "import torch\n\nx = torch.ones(3)\n"


def devlint(*arguments: str, stdin: bytes | str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """Runs `devlint` in the current folder; output as text, line ends as they are."""
    done = subprocess.run(
        [sys.executable, "-m", "devlint", *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env={**os.environ, "NO_COLOR": "", "PYTHONIOENCODING": "utf-8", **(env or {})},
        timeout=120,
        check=False,
    )
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def found(*arguments: str, **more: object) -> list[tuple[str, str]]:
    """Path and code of all findings."""
    done = devlint(*arguments, "--output-format", "json", **more)
    return [(entry["path"], entry["code"]) for entry in json.loads(done.stdout)]


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> Path:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, newline="")
    return file


def test_version_and_help():
    assert devlint("--version").stdout == f"devlint {__version__}\n"
    assert "check" in devlint("--help").stdout
    assert "--unsafe-fixes" in devlint("check", "--help").stdout


@pytest.mark.parametrize("arguments", [["--version"], ["clean.py"], ["clean.py", "--output-format", "json"]])
def test_start_up_stays_lean(arguments):
    write("clean.py", CLEAN)
    script = (
        "import sys\nfrom devlint.cli import main\n"
        f"sys.argv = ['devlint', *{arguments!r}]\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'libcst', 'rich', 'asyncio', 'multiprocessing', 'torch', 'pathspec'} & set(sys.modules)\n"
        "    print('HEAVY', sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "HEAVY []"


def test_exit_codes_and_the_default_command():
    write("src/clean.py", CLEAN)
    assert devlint("src").returncode == 0
    assert devlint("src").stdout == "All checks passed!\n"
    write("src/bad.py", BAD)
    for arguments in (["src"], ["check", "src"], ["src/bad.py"], []):
        done = devlint(*arguments)
        assert (done.returncode, done.stderr) == (1, "")
        assert "src/bad.py:4:1: DEV101 [discarded-move]" in done.stdout
        assert '4 | x.to("cuda")' in done.stdout
    assert devlint("src", "--exit-zero").returncode == 0


def test_a_file_that_cannot_be_parsed_does_not_stop_the_others():
    write("broken.py", BROKEN)
    write("bytes.py", "").write_bytes(b"import torch  # \xff\n")
    write("bad.py", BAD)
    assert set(found()) == {("bad.py", "DEV101"), ("broken.py", "DEV000"), ("bytes.py", "DEV000")}
    assert devlint().returncode == 2
    assert devlint("--exit-zero", "broken.py").returncode == 2


def test_a_file_that_is_no_python_is_told_where_it_is_named():
    """It says nothing of torch: met in a folder, it is other tools' affair."""
    text = "def f(:\n x\n"
    write("bad.py", text)
    assert devlint(".").returncode == 0
    # What a run over the folder kept doesn't count.
    done = devlint("bad.py")
    assert done.returncode == 2
    assert "bad.py:1:7: DEV000 [unreadable-file] isn't valid Python: invalid syntax" in done.stdout
    assert devlint("-", stdin=text).returncode == 2
    assert devlint("bad.py", "--fix").returncode == 2
    assert devlint(".").returncode == 0


def test_a_place_instead_of_a_file():
    write("bad.py", BAD)
    done = devlint("bad.py:3")
    assert done.returncode == 2
    assert (
        done.stderr == "error: bad.py:3: no such file or folder; `devlint where bad.py:3` tells what is known there\n"
    )
    assert devlint("gone.py:3").stderr == "error: gone.py:3: no such file or folder\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "DEV101"], "no such file, folder or command; `devlint rule CODE` prints a rule's page"),
        (["dev101"], "no such file, folder or command; `devlint rule DEV101` prints the rule's page, "),
        (["chekc"], "no such file, folder or command; did you mean `devlint check`?"),
        (["train"], "no such file or folder\n"),
        (["--since", "main"], "error: main: no such file or folder; a revision is written --since=main\n"),
    ],
)
def test_what_was_meant_for_something_else(arguments, said):
    done = devlint(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_missing_paths_and_no_files():
    write("bad.py", BAD)
    done = devlint("nope", "bad.py", "gone.py")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: nope: no such file or folder",
        "error: gone.py: no such file or folder",
    ]
    assert "bad.py:4:1" in done.stdout
    Path("empty").mkdir()
    done = devlint("empty")
    assert done.returncode == 0
    assert done.stderr == "warning: no Python files found under empty\n"


def test_misuse():
    for arguments, message in (
        (["--select", "DEV111"], "error: --select: no rule is called 'DEV111'; did you mean 'DEV101'?"),
        (["--ignore", "DEV1,nonsense"], "error: --ignore: no rule is called 'nonsense'"),
        (["--exclude", "!"], "error: --exclude: '!' is no path pattern; write it as in a .gitignore file"),
        (["--config", "x.toml"], "error: x.toml: no such settings file; check --config"),
        (["--select", "DEV999"], "error: --select: no rule is called 'DEV999'; see `devlint rules`"),
        (["rule", "DEV999"], "error: no rule is called 'DEV999'; see `devlint rules`"),
        (["rule", "DEV1010"], "error: no rule is called 'DEV1010'; did you mean 'DEV101'?"),
    ):
        done = devlint(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1
    for arguments in (["--jobs", "0"], ["--nonsense"], ["--output-format", "xml"], ["-", "a.py"]):
        done = devlint(*arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_settings_and_the_command_line_over_them():
    write("bad.py", BAD)
    write("load.py", UNSAFE)
    write("pyproject.toml", '[tool.devlint]\nselect = ["DEV1"]\nexclude = ["skipped"]\n')
    write("skipped/bad.py", BAD)
    assert found() == [("bad.py", "DEV101")]
    assert found("--select", "DEV301") == [("load.py", "DEV301")]
    assert found("--extend-select", "DEV3") == [("bad.py", "DEV101"), ("load.py", "DEV301")]
    assert found("--ignore", "discarded-move") == []
    assert ("skipped/bad.py", "DEV101") in found("--isolated")
    assert found("skipped/bad.py") == [("skipped/bad.py", "DEV101")]
    assert found("skipped/bad.py", "--force-exclude") == []
    assert found("--exclude", "bad.py") == []
    write("other.toml", 'select = ["load-without-map-location"]')
    assert ("load.py", "DEV301") in found("--config", "other.toml")
    write("pyproject.toml", "[tool.devlint]\nslect = []\n")
    done = devlint()
    assert done.returncode == 2
    assert done.stderr.endswith("pyproject.toml: unknown key 'slect'; did you mean 'select'?\n")


def test_settings_can_be_shown():
    write(
        "pyproject.toml", '[tool.devlint]\nextend = "base.toml"\nignore = ["dev502"]\nseverity = { DEV5 = "error" }\n'
    )
    write("base.toml", 'exclude = ["gen"]\nignore = ["DEV501"]\n')
    write("src/bad.py", BAD)
    done = devlint("--show-settings", "src/bad.py", "--config", "hot-functions = ['go']", "--select", "dev5")
    assert (done.returncode, done.stderr) == (0, "")
    said = {line.split(" = ")[0]: line for line in done.stdout.splitlines()}
    folder = Path.cwd()
    assert said["exclude"] == f'exclude = ["gen"]  # {folder}/base.toml'
    assert said["severity"] == f'severity = {{ "DEV5" = "error" }}  # {folder}/pyproject.toml'
    assert said["hot-functions"] == 'hot-functions = ["go"]  # --config'
    assert said["confidence"] == 'confidence = "likely"  # the default'
    assert said["# select"].endswith("# the default: all rules that are on by default, those of installed packs too")
    assert said["# on top: select"] == '# on top: select = ["DEV5"]  # the command line'
    (codes,) = (line for line in said if "rules are on" in line)
    assert "DEV503" in codes
    assert "DEV101" not in codes
    # It is TOML, and no file was linted.
    assert tomllib.loads(done.stdout)["ignore"] == ["dev502"]
    done = devlint("--show-files", "--exclude", "other.py")
    assert (done.returncode, done.stdout) == (0, "src/bad.py\n")
    assert devlint("--show-files", "gone.py").returncode == 2


def test_settings_of_the_run_itself():
    write("bad.py", BAD)
    write("devlint.toml", 'output-format = "concise"\nfail-on = "error"\nseverity = { DEV101 = "warning" }\n')
    done = devlint()
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "Found 1 warning in 1 file (1 fixable with --fix)"
    assert devlint("--fail-on", "warning").returncode == 1
    assert devlint("--config", 'severity = { DEV1 = "error" }').returncode == 1
    assert json.loads(devlint("--output-format", "json").stdout)[0]["severity"] == "warning"
    assert devlint("--config", "unfixable = ['DEV101']", "--fix").returncode == 0
    assert Path("bad.py").read_text() == BAD
    assert "[*]" not in devlint("--config", "unfixable = ['DEV101']").stdout
    assert found("--select", "dev101", "--isolated") == [("bad.py", "DEV101")]


def test_nothing_passes_after_an_error():
    write("clean.py", CLEAN)
    for arguments in (["clean.py", "gone.py"], ["clean.py", "gone.py", "--output-format", "concise"]):
        done = devlint(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
    write("broken.py", BROKEN)
    assert "passed" not in devlint().stdout
    done = devlint("--diff")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No fixes" not in done.stderr


def test_exclude_counts_from_the_current_folder(project, monkeypatch):
    write("pyproject.toml", "[tool.devlint]\n")
    write("a/b/x.py", BAD)
    write("a/y.py", BAD)
    monkeypatch.chdir(project / "a")
    assert found("--exclude", "b/x.py") == [("y.py", "DEV101")]


def test_each_project_has_its_own_settings():
    write("one/pyproject.toml", '[tool.devlint]\nignore = ["DEV101"]\n')
    write("one/x.py", BAD)
    write("two/x.py", BAD)
    assert found() == [("two/x.py", "DEV101")]


def test_confidence_is_passed_on():
    write("bad.py", BAD)
    assert found("--confidence", "certain") == [("bad.py", "DEV101")]


def test_fix_writes_and_a_second_run_changes_nothing():
    write("bad.py", BAD.replace("\n", "\r\n"))
    done = devlint("--fix")
    assert done.returncode == 0
    assert done.stdout == "Found 1 error in 1 file (1 fixed, 0 remaining)\n"
    assert Path("bad.py").read_bytes() == FIXED.replace("\n", "\r\n").encode()
    before = Path("bad.py").stat()
    assert devlint("--fix").stdout == "All checks passed!\n"
    assert Path("bad.py").stat() == before


def test_unsafe_fixes_wait_for_their_option():
    write("load.py", UNSAFE)
    assert devlint("--fix").returncode == 1
    assert Path("load.py").read_text() == UNSAFE
    assert devlint("--fix", "--unsafe-fixes").returncode == 0
    assert "map_location" in Path("load.py").read_text()


SUGGESTED = "import torch\n\nx = torch.ones(3, device='cuda')\nprint(x + torch.ones(3, 3))\n"


def test_suggestions_are_shown_and_never_applied():
    write("mix.py", SUGGESTED)
    for option in ("--fix", "--diff"):
        done = devlint(option, "--unsafe-fixes")
        assert done.returncode == 1 if option == "--fix" else "No fixes" in done.stderr + done.stdout
        assert Path("mix.py").read_text() == SUGGESTED
    assert json.loads(devlint("--output-format", "json").stdout)[0]["fix"]["safety"] == "display"
    assert "[*]" not in devlint("--output-format", "concise", "--unsafe-fixes").stdout


@pytest.mark.parametrize(
    ("settings", "arguments", "is_applied"),
    [
        ("extend-unsafe-fixes = ['DEV2']", ["--unsafe-fixes"], True),
        ("extend-unsafe-fixes = ['DEV2']", [], False),
        ("extend-safe-fixes = ['DEV201']", [], True),
        ("extend-safe-fixes = ['DEV2']\nextend-unsafe-fixes = ['DEV201']", [], False),
        ("extend-safe-fixes = ['DEV201']\nextend-unsafe-fixes = ['DEV2']", [], True),
    ],
)
def test_whoever_trusts_the_fixes_of_a_rule_may_have_them_applied(settings, arguments, is_applied):
    write("devlint.toml", settings)
    write("mix.py", SUGGESTED)
    devlint("--fix", *arguments)
    assert (Path("mix.py").read_text() != SUGGESTED) is is_applied


def test_a_safe_fix_may_be_made_unsafe():
    write("bad.py", BAD)
    write("devlint.toml", "extend-unsafe-fixes = ['DEV101']")
    devlint("--fix")
    assert Path("bad.py").read_text() == BAD
    devlint("--fix", "--unsafe-fixes")
    assert Path("bad.py").read_text() == FIXED


@pytest.mark.parametrize(
    ("paper", "says", "is_offered"),
    [
        ("README.md", "Runs with PyTorch >= 0.3.1 and Python 3.", False),
        ("requirements.txt", "numpy\ntorch==0.2.0\n", False),
        ("requirements.txt", "torch>=1.10.3\n", True),
        ("README.md", "Reaches 0.3 with PyTorch 2.1", True),
    ],
)
def test_what_releases_before_0_4_lack_is_no_fix_where_a_project_says_that_it_runs_on_them(paper, says, is_offered):
    # There `map_location` is no text.
    write(paper, says)
    write(
        "train.py", 'import torch\n\nnet = torch.nn.Linear(2, 2).to("cuda" if torch.cuda.is_available() else "cpu")\n'
    )
    write("load.py", UNSAFE)
    devlint("--fix", "--unsafe-fixes")
    assert ("map_location" in Path("load.py").read_text()) is is_offered


def test_a_file_that_cannot_be_written():
    write("bad.py", BAD)
    if os.geteuid() == 0:
        pytest.skip("root may write any file")
    Path("bad.py").chmod(0o444)
    done = devlint("--fix", "bad.py")
    assert done.returncode == 2
    assert "can't be written: it is read-only" in done.stdout
    assert "bad.py:4:1: DEV101" in done.stdout


def test_diff():
    write("bad.py", BAD.rstrip("\n"))
    done = devlint("--diff")
    assert done.returncode == 1
    assert done.stdout == (
        "--- bad.py\n+++ bad.py\n@@ -1,4 +1,4 @@\n import torch\n \n x = torch.ones(3)\n"
        '-x.to("cuda")\n\\ No newline at end of file\n+x = x.to("cuda")\n\\ No newline at end of file\n'
    )
    assert done.stderr == "Would fix 1 error\n"
    assert Path("bad.py").read_text() == BAD.rstrip("\n")
    write("bad.py", CLEAN)
    done = devlint("--diff")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "No fixes to show\n")


def test_diff_tells_of_a_fix_that_it_lacks():
    write("pyproject.toml", '[tool.devlint]\nextend-safe-fixes = ["DEV104"]\n')
    write(
        "model.py",
        """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.TransformerEncoderLayer(8, 8) for _ in range(2)]

    def forward(self, x):
        mask = torch.triu(torch.ones(x.size(1), x.size(1)), diagonal=1).bool()
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return x
""",
    )
    done = devlint("--diff", "--select", "DEV104,DEV203,DEV003", "--color", "never")
    assert done.stdout == ""
    assert done.stderr.startswith(
        "warning: model.py:8: the fix for DEV104 was withheld, since it would uncover DEV203 (line 11: `torch.ones` creates"
    )
    assert done.stderr.endswith("No fixes to show\n")


def test_stdin():
    done = devlint("-", stdin=BAD)
    assert done.returncode == 1
    assert done.stdout.startswith("-:4:1: DEV101")
    assert found("-", "--stdin-filename", "src/x.py", stdin=BAD) == [("src/x.py", "DEV101")]
    write("pyproject.toml", '[tool.devlint]\nexclude = ["gen"]\n[tool.devlint.per-file-ignores]\n"t/*" = ["DEV1"]\n')
    assert found("-", "--stdin-filename", "t/x.py", stdin=BAD) == []
    assert found("-", "--stdin-filename", "gen/x.py", "--force-exclude", stdin=BAD) == []
    done = devlint("-", stdin=b"\xff")
    assert done.returncode == 2


def test_stdin_fix_prints_the_fixed_text_alone():
    done = devlint("-", "--fix", stdin=BAD.replace("\n", "\r\n"))
    assert done.returncode == 0
    assert done.stdout == FIXED.replace("\n", "\r\n")
    assert "1 fixed" in done.stderr
    done = devlint("-", "--fix", stdin=BROKEN)
    assert (done.returncode, done.stdout) == (2, BROKEN)
    done = devlint("-", "--diff", stdin=BAD)
    assert done.returncode == 1
    assert '+x = x.to("cuda")\n' in done.stdout


def test_notebooks_are_linted_and_fixed():
    cells = [{"cell_type": "code", "metadata": {}, "source": ["%matplotlib inline\n", *BAD.splitlines(keepends=True)]}]
    text = json.dumps({"cells": cells, "metadata": {}}, indent=1)
    write("n.ipynb", text)
    (entry,) = json.loads(devlint("--output-format", "json").stdout)
    assert (entry["path"], entry["cell"], entry["line"], entry["column"]) == ("n.ipynb", 1, 5, 1)
    assert "n.ipynb:cell 1:5:1: DEV101" in devlint().stdout
    assert '+    "x = x.to(\\"cuda\\")\\n"' in devlint("--diff").stdout
    assert devlint("--fix").returncode == 0
    assert Path("n.ipynb").read_text() == text.replace("x.to(", "x = x.to(")


def test_suppressions():
    write("bad.py", BAD.replace('")', '")  # devlint: ignore[DEV101] in place by C++'))
    assert found() == []
    write("unused.py", "import torch\n\nx = torch.ones(3)  # noqa: DEV101\n")
    assert found() == [("unused.py", "DEV001")]
    assert devlint("--fix").returncode == 0
    assert Path("unused.py").read_text() == CLEAN


def test_output_file_and_statistics():
    write("bad.py", BAD)
    done = devlint("--output-format", "concise", "--output-file", "out.txt", "--color", "auto")
    assert (done.returncode, done.stdout) == (1, "")
    assert Path("out.txt").read_text().startswith("bad.py:4:1: DEV101 [*] ")
    done = devlint("--output-file", "no/such/folder.txt")
    assert done.returncode == 2
    assert done.stderr == "error: --output-file no/such/folder.txt: can't be written: No such file or directory\n"
    assert devlint("--statistics").stdout == "1  DEV101  error    [*] discarded-move\n"
    (entry,) = json.loads(devlint("--statistics", "--output-format", "json").stdout)
    assert entry == {
        "code": "DEV101",
        "name": "discarded-move",
        "severity": "error",
        "count": 1,
        "fixable": 1,
        "fixable_unsafely": 0,
    }


def test_quiet_and_verbose():
    write("clean.py", CLEAN)
    assert devlint("-q").stdout == ""
    assert devlint("-q", "--output-format", "json").stdout == "[]\n"
    done = devlint("-v")
    assert "the defaults" in done.stderr
    assert "1 files" not in done.stderr
    assert "1 file\n" in done.stderr
    write("bad.py", BAD)
    assert "Found" not in devlint("-q").stdout


def test_color():
    write("bad.py", BAD)
    assert "\x1b[" not in devlint().stdout
    assert "\x1b[" in devlint("--color", "always").stdout
    assert "\x1b[" in devlint(env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[" not in devlint(env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout
    assert "\x1b[" not in devlint("--color", "never", env={"FORCE_COLOR": "1"}).stdout


def test_rules_and_pages():
    table = devlint("rules").stdout.splitlines()
    assert table[0].split() == ["code", "name", "severity", "default", "fix", "what", "it", "finds"]
    assert [line.split()[:4] for line in table if line.startswith("DEV101")] == [
        ["DEV101", "discarded-move", "error", "on"]
    ]
    page = devlint("rule", "DEV101").stdout
    assert page == devlint("rule", "discarded-move").stdout
    assert "## What it does" in page
    assert "\x1b[" in devlint("rule", "DEV101", env={"FORCE_COLOR": "1"}).stdout
    assert "DEV101" in devlint("rules", env={"FORCE_COLOR": "1"}).stdout


def test_several_processes_keep_the_order():
    for number in range(30):
        write(f"m{number:02}.py", BAD if number % 3 else CLEAN)
    write("broken.py", BROKEN)
    alone, together = (devlint("--output-format", "concise", "--jobs", jobs) for jobs in ("1", "3"))
    assert alone.stdout == together.stdout
    assert alone.stdout.count("DEV101") == 20
    assert devlint("--fix", "--jobs", "3").returncode == 2
    assert found() == [("broken.py", "DEV000")]


def test_what_is_found_doesnt_hang_on_the_order_of_files():
    # A block that never runs ties fourteen functions into a circle, for those alone who ask what stands in it.
    steps = "".join(
        f"def step{n}(batch):\n    return {f'step{n + 1}' if n < 13 else 'train'}(batch)\n" for n in range(1, 14)
    )
    write(
        "circle.py",
        "import torch\ndef train(batch):\n    if False:\n        return step1(batch)\n    return batch.cuda()\n"
        f"{steps}def check():\n    return step1(torch.ones(3)) + torch.ones(3)\n",
    )
    write("asks.py", "import torch\nfrom circle import train\nx = train(torch.ones(3)) + torch.ones(3)\n")
    alone = devlint("circle.py", "--output-format", "concise").stdout.splitlines()
    both = devlint("asks.py", "circle.py", "--output-format", "concise").stdout.splitlines()
    assert "DEV203" in alone[0]
    assert alone[0] in both


# A linter that fails in its own ways, run through the whole program.
_HARNESS = """
import os, sys, time
import devlint.batch as batch
from devlint.cli import main

class Troubled(batch.Linter):
    def check(self, source):
        if source.display == "raises.py":
            raise ZeroDivisionError("oh")
        if source.display == "dies.py":
            os._exit(9)
        if source.display.startswith("slow"):
            os.write(2, b"BUSY\\n")  # at once: two processes share the line otherwise
            time.sleep(600)
        return super().check(source)

batch.Linter = Troubled
main()
"""
_linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the harness relies on fork")


@_linux_only
@pytest.mark.parametrize(
    ("names", "jobs"), [(["raises.py"], "1"), (["raises.py"], "2"), (["raises.py", "dies.py"], "2")]
)
def test_a_crash_in_one_file_leaves_the_others(names, jobs):
    for name in ("bad.py", "last.py", *names):
        write(name, BAD)
    done = subprocess.run(
        [sys.executable, "-c", _HARNESS, "--jobs", jobs, "--output-format", "json"], capture_output=True, check=False
    )
    assert done.returncode == 2
    entries = json.loads(done.stdout)
    assert {entry["path"]: entry["code"] for entry in entries} == {
        "bad.py": "DEV101",
        "last.py": "DEV101",
        **dict.fromkeys(names, "DEV000"),
    }
    assert all("internal error, please report" in entry["message"] for entry in entries if entry["code"] == "DEV000")


@_linux_only
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c(jobs):
    for number in range(4):
        write(f"slow{number}.py", BAD)
    process = subprocess.Popen(
        [sys.executable, "-c", _HARNESS, "--jobs", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "BUSY\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert [line for line in errors.splitlines() if line not in ("BUSY", "")] == ["interrupted"]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("processes are left behind")


def test_a_reader_that_goes_away():
    for number in range(300):
        write(f"m{number}.py", BAD)
    done = subprocess.run(
        f"{sys.executable} -m devlint | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert "DEV101" in done.stdout
    assert done.stderr == ""


DEEP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def smooth(scores):
    return [score.item() for score in scores]


def train_epoch(model, loader):
    for x in loader:
        scores = model(x.cuda())
        scores.sum().item()
        smooth(scores)
        for score in scores:
            score.item()


def main(dataset):
    model = nn.Linear(4, 4).cuda()
    loader = DataLoader(dataset)
    for epoch in range(3):
        train_epoch(model, loader)
        for x in loader:
            model(x.cuda()).sum().item()
    state = torch.load("a.pt")
    return state, torch.zeros(3).cuda()
"""


def test_the_loops_that_run_a_finding_are_counted_and_ranked():
    """From the loop over steps inwards, by way of calls too; epochs aren't counted."""
    write("deep.py", DEEP)
    asked = ("--select", "DEV,DEV301,DEV501")
    done = devlint("deep.py", "--isolated", *asked, "--output-format", "json")
    costs = {f["line"]: (f["cost"]["effect"], f["cost"]["loops"]) for f in json.loads(done.stdout) if f["line"] < 26}
    assert costs == {7: ("slow", 2), 13: ("slow", 1), 16: ("slow", 2), 25: ("slow", 1)}
    ranked = (
        devlint("deep.py", "--isolated", *asked, "--extend-select", "DEV107")
        .stdout.split("Costliest first:\n")[1]
        .splitlines()
    )
    assert [line.split("DEV")[0].split() for line in ranked[:4]] == [
        ["error", "1"],
        ["warning,", "each", "step,", "2", "loops", "deep", "2"],
        ["warning,", "each", "step", "2"],
        ["warning", "1"],
    ]


# Syntax by the first Python that knows it.
NEWER = {
    (3, 12): BAD + "type Tensors = list[torch.Tensor]\n",
    (3, 14): BAD + 'y = t"{torch.ones(1)}"\n',
}


@pytest.mark.parametrize("version", NEWER)
def test_code_for_a_newer_python_is_told_as_such(version):
    if sys.version_info >= version:
        pytest.skip("this Python knows it")
    spelt = ".".join(map(str, version))
    write("new.py", NEWER[version])
    write("devlint.toml", f'target-version = "{spelt}"\n')
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    done = devlint("new.py")
    assert done.returncode == 2
    assert (
        f"isn't valid Python {ours}, on which devlint runs, while the code is for {spelt} (target-version); "
        "run devlint with that: " in done.stdout
    )
    # Where it isn't newer, a wrong text is just that.
    write("devlint.toml", f'target-version = "{ours}"\n')
    assert "isn't valid Python: " in devlint("new.py").stdout
    write("devlint.toml", 'target-version = "py312"\n')
    assert "must be a release of Python such as \"3.14\", not 'py312'" in devlint("new.py").stderr


def test_rules_can_be_read_by_programs():
    rules = {entry["code"]: entry for entry in json.loads(devlint("rules", "--output-format", "json").stdout)}
    assert len(rules) == len(devlint("rules").stdout.splitlines()) - 1
    moved, optional = rules["DEV105"], rules["DEV702"]
    assert moved["name"] == "created-then-moved"
    assert (moved["severity"], moved["default"], moved["fixes"]) == ("warning", True, ["safe", "unsafe", "display"])
    assert (optional["default"], rules["DEV106"]["fixes"]) == (False, [])
    assert moved["page"] == devlint("rule", "DEV105").stdout
    assert moved["url"].endswith("/rules/DEV105/")
    assert moved["pack"].startswith("the rule pack devlint")


HOT = """\
import torch

model = torch.nn.Linear(2, 2).cuda()
total = 0.0
for x in torch.utils.data.DataLoader([]):
    total += model(x.cuda()).sum().item()
"""


def test_who_names_a_rule_is_told_what_it_tells_in_preview_alone():
    write("a.py", CLEAN)
    said = "More of DEV501 and DEV504 is in preview: waits in code that is hot by its role (--preview)\n"
    assert devlint("a.py", "--select", "DEV501,DEV504").stdout.endswith(said)
    write("hot.py", HOT)
    assert "in preview" not in devlint("hot.py", "--select", "DEV501").stdout
    for others in (["--preview"], ["--quiet"], ["--output-format", "json"]):
        assert "in preview" not in devlint("a.py", "--select", "DEV501", *others).stdout
    for selected in ("DEV", "ALL", "DEV101", "DEV511"):
        assert "in preview" not in devlint("a.py", "--select", selected).stdout
    assert "More of DEV501, DEV502, " in devlint("a.py", "--extend-select", "DEV5").stdout


# A wait at the end of a step, for which there is no fix: hardly anybody would act on it.
AT_THE_END = """\
import torch

model = torch.nn.Linear(2, 2).cuda()
seen = []
for x in torch.utils.data.DataLoader([]):
    loss = model(x.cuda()).sum()
    loss.backward()
    seen.append(loss.item())
"""


def test_who_names_the_beginning_of_a_code_is_told_what_only_its_whole_code_has_told():
    write("end.py", AT_THE_END)
    assert "withheld" not in devlint("end.py").stdout
    said = "1 finding of DEV501 withheld, which only its whole code has told (--extend-select DEV501)\n"
    for options in (["--extend-select", "DEV5"], ["--select", "DEV50"]):
        assert said in devlint("end.py", *options).stdout
    assert "withheld" not in devlint("end.py", "--extend-select", "DEV501").stdout


def test_verbose_says_what_is_not_told():
    write("end.py", AT_THE_END)
    write("other.py", "x = (\n")
    write("off.py", BAD.replace("\n", "  # noqa: DEV101\n"))
    for _ in range(2):
        said = devlint("-v").stderr
        assert "1 file not about PyTorch, and not parsed\n" in said
        assert "1 finding switched off by comments (--ignore-noqa tells them)\n" in said
        assert "1 finding of DEV501 withheld (--extend-select DEV501 tells them)\n" in said
    assert "likely, not certain" not in said
    write("guess.py", "def step(model, batch):\n    batch.images.cuda()\n    return model(batch.images)\n")


def test_the_beginning_of_codes_lists_its_rules():
    listed = devlint("rule", "dev1").stdout.splitlines()
    assert listed[0].split() == devlint("rules").stdout.splitlines()[0].split()
    assert {line[:4] for line in listed[1:]} == {"DEV1"}
    assert len(listed) > 5


def test_a_file_about_torch_that_isnt_python_is_told_whatever_stands_in_it():
    write("a.py", "import torch\ndef f(:\n    pass\n")
    done = devlint("a.py")
    assert done.returncode == 2
    assert "a.py:2:7: DEV000 [unreadable-file] isn't valid Python" in done.stdout
    # Others' syntax is others' matter, unless somebody names the file.
    write("others/b.py", "def f(:\n    pass\n")
    assert devlint("others").returncode == 0
    assert devlint("others/b.py").returncode == 2


def test_a_baseline_that_is_named_must_be_there():
    write("a.py", BAD)
    done = devlint("--baseline", "nosuch.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: nosuch.json: no such baseline; `devlint baseline --baseline nosuch.json` writes it\n"


def test_a_run_without_rules_is_told():
    write("a.py", BAD)
    done = devlint("--select", "DEV101", "--ignore", "DEV101")
    assert done.returncode == 0
    assert "warning: no rule is on for any of the files" in done.stderr
    assert devlint("--select", "DEV102").stderr == ""


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("DEV999", "; see `devlint rules`"),
        ("DEV119", "; did you mean 'DEV101'?"),
        ("E501", "; did you mean 'DEV501'?"),
        ("discarded-mov", "; did you mean 'discarded-move'?"),
    ],
)
def test_a_rule_that_there_isnt_is_like_another_of_its_family(word, said):
    for arguments in (("rule", word), ("--select", word)):
        assert f"no rule is called '{word}'{said}" in devlint(*arguments).stderr


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads it")
def test_syntax_of_a_newer_python_is_told_as_such():
    write("a.py", "import torch\n\ntype Number = int | float\n")
    assert "devlint runs on Python 3.11; for newer syntax run it with that Python" in devlint("a.py").stdout


def test_a_fix_that_waits_for_one_in_another_file_is_applied_in_the_same_run():
    """The first file's would bring a mix that is the second one's fault."""
    write(
        "net.py",
        """import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.scale = torch.ones(3)

    def forward(self, x):
        return self.layer(x) * self.scale
""",
    )
    use = "import torch\n\nfrom net import Scaled\n\nmodel = Scaled().cuda()\nprint(model(torch.ones(2, 3)))\n"
    write("a.py", use)
    write("devlint.toml", 'extend-unsafe-fixes = ["DEV103", "DEV202"]\n')
    done = devlint("--fix", "--unsafe-fixes", ".")
    assert (done.returncode, done.stdout) == (0, "Found 2 errors in 2 files (2 fixed, 0 remaining)\n")
    assert Path("a.py").read_text() == use.replace("torch.ones(2, 3)", 'torch.ones(2, 3).to("cuda")')
    assert devlint(".").returncode == 0


def test_a_folder_of_src_that_is_not_there_is_told():
    write("devlint.toml", 'src = [".", "nosuch"]\n')
    write("sub/a.py", CLEAN)
    write("b.py", CLEAN)
    done = devlint("b.py", "sub/a.py")
    assert done.returncode == 0
    file = Path("devlint.toml").absolute()
    assert done.stderr == f"warning: {file}: src: there is no folder 'nosuch' to import from\n"
    write("devlint.toml", 'src = [".", "sub"]\n')
    assert devlint("b.py").stderr == ""


def test_patterns_that_leave_nothing_out_are_told_where_the_files_are_shown():
    write("a.py", CLEAN)
    write("old/b.py", CLEAN)
    write("deep/gen/c.py", CLEAN)
    write("build/d.py", CLEAN)
    write("devlint.toml", 'exclude = ["nosuch/", "old/", "gen", "build", "a/x*.py", "!old/b.py"]\n')
    done = devlint("--show-files")
    assert done.stdout == "a.py\n"
    here = Path.cwd()
    assert done.stderr.splitlines() == [
        f"warning: exclude: '{pattern}' names nothing under {here}" for pattern in ("nosuch/", "a/x*.py")
    ]
    assert devlint(".").stderr == ""


def test_rules_lists_those_that_are_named():
    listed = devlint("rules", "DEV1", "DEV201,DEV202").stdout.splitlines()[1:]
    assert {line[:4] for line in listed} == {"DEV1", "DEV2"}
    assert sum(line.startswith("DEV2") for line in listed) == 2
    assert json.loads(devlint("rules", "DEV101", "--output-format", "json").stdout)[0]["code"] == "DEV101"
    assert "no rule is called 'DEV9'" in devlint("rules", "DEV9").stderr


def test_codes_are_listed_with_commas():
    assert "no rule is called 'DEV1 DEV2'; write DEV1,DEV2" in devlint("--select", "DEV1 DEV2").stderr


def test_a_table_inside_of_devlints_is_told_where_its_keys_stand():
    write("pyproject.toml", '[tool.devlint.lint]\nselect = ["DEV1"]\n')
    assert "unknown key 'lint'; what it holds stands in devlint's table itself" in devlint().stderr


def test_loose_files_are_looked_at_alike_however_their_path_is_given():
    """No `.git` and no pyproject.toml says where the project begins: the current folder is its top."""
    write("parts/moves.py", 'def to_gpu(x):\n    return x.to("cuda")\n')
    main = "import torch\n\nfrom parts.moves import to_gpu\n\nprint(to_gpu(torch.ones(3)) + torch.ones(3))\n"
    whole = write("jobs/main.py", main).absolute()
    for path in (".", "jobs", "jobs/main.py", str(whole)):
        assert [code for _, code in found(path)] == ["DEV201"], path
