"""What a change brings, told from real git: on its lines, and in the files that depend on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from repositories import commit, devlint, git, told, write

MOVE = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'
CLEAN = "import torch\n\nx = torch.ones(3)\n"
CALLER = """\
import torch

from pkg.ops import weigh


def main():
    y = torch.ones(3, device="cuda")
    print(weigh(y))
    y.cpu()
    return y


main()
"""
GOOD = "import torch\n\n\ndef weigh(x):\n    return x * 2\n"
BREAKS = "import torch\n\n\ndef weigh(x):\n    return x * torch.ones(3)\n"


@pytest.fixture
def project(tmp_path):
    """A caller with an old finding, and what it calls."""
    commit(tmp_path, {"pkg/__init__.py": "", "pkg/ops.py": GOOD, "pkg/train.py": CALLER, "old.py": MOVE})
    assert told(tmp_path) == ["old.py:4 DEV101", "pkg/train.py:9 DEV101"]
    return tmp_path


def test_nothing_changed(project):
    assert told(project, "--since=HEAD") == []
    assert told(project, "--staged") == []
    done = devlint(project, "--since=HEAD")
    assert done.stdout == "All checks passed!\n"


def test_findings_on_touched_lines(project):
    write(project, {"old.py": MOVE + 'y = torch.zeros(3)\ny.to("cuda")\n'})
    assert told(project, "--since=HEAD") == ["old.py:6 DEV101"]
    write(project, {"old.py": MOVE.replace("x.to(", "x .to(")})
    assert told(project, "--since=HEAD") == ["old.py:4 DEV101"]
    write(project, {"old.py": "# one more line\n" + MOVE})
    assert told(project, "--since=HEAD") == []


def test_files_that_are_new_or_have_another_name(project):
    write(project, {"new.py": MOVE, "ignored.py": MOVE, ".gitignore": "ignored.py\n"})
    assert told(project, "--since=HEAD") == ["new.py:4 DEV101"]
    git(project, "mv", "old.py", "renamed.py")
    assert told(project, "--since=HEAD") == ["new.py:4 DEV101"]
    assert told(project, "--since=HEAD", "renamed.py") == []


def test_what_a_change_breaks_elsewhere(project):
    write(project, {"pkg/ops.py": BREAKS})
    # The caller's own old finding isn't the change's.
    assert told(project, "--since=HEAD") == ["pkg/train.py:8 DEV201"]
    assert told(project, "--since=HEAD", "pkg/train.py") == ["pkg/train.py:8 DEV201"]
    commit(project, message="breaks it")
    assert told(project, "--since=HEAD") == []
    assert told(project, "--since=HEAD~1") == ["pkg/train.py:8 DEV201"]


def test_by_way_of_other_files(project):
    write(project, {"pkg/__init__.py": "from pkg.ops import weigh\n"})
    write(project, {"pkg/train.py": CALLER.replace("from pkg.ops", "from pkg"), "pkg/ops.py": GOOD})
    commit(project, message="by way of the package")
    write(project, {"pkg/ops.py": BREAKS})
    assert told(project, "--since=HEAD") == ["pkg/train.py:8 DEV201"]


def test_a_caller_makes_what_it_calls_hot(tmp_path):
    by_code = "--extend-select=DEV501"
    losses = "def value(loss):\n    return loss.item()\n"
    train = """\
import torch
from torch.utils.data import DataLoader

from losses import value


def train(dataset):
    model = torch.nn.Linear(4, 1).cuda()
    for x in DataLoader(dataset):
        loss = model(x.cuda()).sum()
        {}
        loss.backward()


train([])
"""
    commit(tmp_path, {"losses.py": losses, "train.py": train.format("print('step')")})
    assert told(tmp_path, by_code) == []
    write(tmp_path, {"train.py": train.format("print('step', value(loss))")})
    here = told(tmp_path, by_code)
    assert "losses.py:2 DEV501" in here
    assert told(tmp_path, by_code, "--since=HEAD") == here


def test_settings_of_now_hold_for_both(project):
    write(project, {"devlint.toml": 'extend-select = ["DEV603"]\n'})
    assert told(project, "--since=HEAD") == []


def test_staged_is_what_would_be_committed(project):
    write(project, {"old.py": MOVE + 'y = torch.zeros(3)\ny.to("cuda")\n', "pkg/ops.py": BREAKS})
    assert told(project, "--staged") == []
    git(project, "add", "old.py")
    assert told(project, "--staged") == ["old.py:6 DEV101"]
    # What is on the disk beside it doesn't count.
    write(project, {"old.py": CLEAN, "untracked.py": MOVE})
    assert told(project, "--staged") == ["old.py:6 DEV101"]
    git(project, "add", "pkg/ops.py", "old.py")
    assert told(project, "--staged") == ["pkg/train.py:8 DEV201"]
    # Paths are told and taken as from the current folder.
    assert told(project / "pkg", "--staged") == ["train.py:8 DEV201"]
    assert told(project / "pkg", "--staged", str(project / "pkg")) == ["train.py:8 DEV201"]
    done = devlint(project / "pkg", "--staged")
    assert "print(weigh(y))" in done.stdout
    assert "(ops.py:5:" in done.stdout
    done = devlint(project / "pkg", "--staged", "--output-file", "report.txt")
    assert "DEV201" in (project / "pkg" / "report.txt").read_text()


def test_what_a_change_makes_unreadable(project):
    """Whatever it is about."""
    write(project, {"tools.py": "def f(:\n"})
    assert told(project) == ["old.py:4 DEV101", "pkg/train.py:9 DEV101"]
    git(project, "add", "-A")
    for asked in ("--since=HEAD", "--staged"):
        done = devlint(project, asked)
        assert done.returncode == 2
        assert "tools.py:1:7: DEV000" in done.stdout
    commit(project, message="broken")
    assert told(project, "--since=HEAD") == []


def test_the_first_commit(tmp_path):
    git(tmp_path, "init", "-q")
    write(tmp_path, {"a.py": MOVE, "b.py": MOVE})
    git(tmp_path, "add", "a.py")
    assert told(tmp_path, "--staged") == ["a.py:4 DEV101"]


def test_the_baseline_counts_as_well(project):
    devlint(project, "baseline")
    commit(project, message="baseline")
    write(project, {"old.py": "# moved\n" + MOVE + 'x.to("cuda")\n', "pkg/ops.py": BREAKS})
    assert told(project, "--since=HEAD") == ["old.py:6 DEV101", "pkg/train.py:8 DEV201"]
    git(project, "add", "-A")
    assert told(project, "--staged") == ["old.py:6 DEV101", "pkg/train.py:8 DEV201"]


def test_a_notebook(tmp_path):
    def notebook(*lines):
        return json.dumps({"cells": [{"cell_type": "code", "metadata": {}, "source": list(lines)}], "metadata": {}})

    first = ["import torch\n", "x = torch.ones(3)\n", 'x.to("cuda")\n']
    commit(tmp_path, {"n.ipynb": notebook(*first)})
    write(tmp_path, {"n.ipynb": notebook("# more\n", *first, "y = torch.ones(3)\n", "y.cuda()")})
    assert told(tmp_path, "--since=HEAD") == ["n.ipynb:cell 1:6 DEV101"]


def test_since_alone_is_where_the_main_branch_was_left(project):
    git(project, "checkout", "-q", "-b", "work")
    commit(project, {"mine.py": MOVE}, "mine")
    git(project, "checkout", "-q", "main")
    commit(project, {"theirs.py": MOVE}, "theirs")
    git(project, "checkout", "-q", "work")
    git(project, "merge", "-q", "-m", "merge", "main")
    assert told(project, "--since") == ["mine.py:4 DEV101"]
    # A value stands behind `=` only: this is a path.
    assert told(project, "--since", "theirs.py") == []
    # What a CI says of the target comes first, as its clone has it.
    git(project, "update-ref", "refs/remotes/origin/develop", "work~1")
    assert told(project, "--since", GITHUB_BASE_REF="develop") == ["theirs.py:4 DEV101"]
    said = one_error(devlint(project, "--since", GITHUB_BASE_REF="gone"))
    assert said.startswith("error: there is no branch origin/gone, which GITHUB_BASE_REF names, in ")
    assert said.endswith("; `git fetch origin gone` brings it, or name another, as in --since=HEAD~1\n")


def one_error(done) -> str:
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_shallow_clone(project, tmp_path_factory):
    commit(project, {"more.py": CLEAN})
    clone = tmp_path_factory.mktemp("clones") / "shallow"
    git(project, "clone", "-q", "--depth", "1", f"file://{project}", str(clone))
    git(clone, "checkout", "-q", "--detach")
    first = git(project, "rev-parse", "HEAD~1").strip()
    assert "`fetch-depth: 0`" in one_error(devlint(clone, f"--since={first}"))
    git(clone, "update-ref", "-d", "refs/remotes/origin/main")
    git(clone, "symbolic-ref", "-d", "refs/remotes/origin/HEAD")
    git(clone, "branch", "-q", "-D", "main")
    assert "this shallow clone has no main branch; fetch the whole history" in one_error(devlint(clone, "--since"))
    # No other branch stands in for the one that the CI names.
    git(clone, "branch", "-q", "main")
    said = one_error(devlint(clone, "--since", GITHUB_BASE_REF="develop"))
    assert "this shallow clone has no origin/develop; fetch the whole history" in said
    git(clone, "branch", "-q", "-D", "main")
    # A branch whose common past isn't there.
    git(project, "checkout", "-q", "-b", "side", "HEAD~1")
    commit(project, {"side.py": MOVE})
    git(clone, "fetch", "-q", "--depth", "1", "origin", "side:refs/remotes/origin/main")
    assert "doesn't reach back to origin/main; fetch the whole history" in one_error(devlint(clone, "--since"))
    git(clone, "fetch", "-q", "--unshallow", "origin")
    assert told(clone, "--since") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since=nope"], "there is no revision 'nope' in"),
        (["--since=--output=x"], "there is no revision '--output=x' in"),
        (["--since", "--staged"], "--staged and --since ask about two changes"),
        (["--since", "--fix"], "--fix and --diff are for whole files"),
        (["--staged", "-"], "`-` has no history"),
    ],
)
def test_misuse(project, arguments, message):
    done = devlint(project, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (project / "x").exists()


def test_no_repository_and_no_main_branch(tmp_path):
    write(tmp_path, {"a.py": MOVE})
    assert "not a git repository" in one_error(
        devlint(tmp_path, "--since", GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    )
    assert "git isn't installed here" in one_error(devlint(tmp_path, "--since", PATH="/nowhere"))
    commit(tmp_path)
    git(tmp_path, "branch", "-m", "trunk")
    assert "no main branch was found" in one_error(devlint(tmp_path, "--since"))


def test_what_git_is_told_to_run_isnt_run(project):
    script = project / "run.sh"
    script.write_text("#!/bin/sh\ntouch ran\n")
    script.chmod(0o755)
    for name in ("diff.external", "diff.py.textconv", "core.fsmonitor"):
        git(project, "config", name, str(script))
    write(project, {".gitattributes": "*.py diff=py\n", "old.py": "# x\n" + MOVE})
    assert told(project, "--since=HEAD") == []
    assert not (project / "ran").exists()


def test_odd_names(tmp_path):
    commit(tmp_path, {'a "b".py': MOVE, "é.py": MOVE, "tab\there.py": MOVE})
    changed = 'y = torch.zeros(3)\ny.to("cuda")\n'
    write(tmp_path, {'a "b".py': MOVE + changed, "é.py": MOVE + changed, "tab\there.py": MOVE + changed})
    assert told(tmp_path, "--since=HEAD") == ['a "b".py:6 DEV101', "tab\\there.py:6 DEV101", "é.py:6 DEV101"]


def test_deleted_and_moved_parts(project):
    write(project, {"pkg/ops.py": ""})
    assert told(project, "--since=HEAD") == []
    assert Path(project / "old.py").exists()


def test_the_repository_is_that_of_the_paths(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    commit(tmp_path / "work", {"a.py": CLEAN})
    write(tmp_path / "work", {"a.py": CLEAN + "x.cuda()\n"})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = devlint(elsewhere, "--since=HEAD", str(tmp_path / "work"), "--output-format", "concise")
    assert done.stderr == ""
    assert "DEV101" in done.stdout
