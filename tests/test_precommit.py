"""The hooks, run by the real pre-commit from a git repository of this package on another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGED = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".pre-commit-hooks.yaml", "devlint", "rules")
BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'
# A clean environment: what runs the tests must not leak into the hooks' own one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GIT_"))}


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)


def commit_all(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--no-verify", "-m", "all")


@pytest.fixture
def package(tmp_path):
    """A git repository of the package as it stands in the working tree."""
    folder = tmp_path / "package"
    folder.mkdir()
    for name in PACKAGED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    commit_all(folder)
    return folder


def test_fails_on_a_bad_file_then_fixes_it_then_passes(tmp_path, package):
    user = tmp_path / "user"
    user.mkdir()
    bad = user / "bad.py"
    bad.write_text(BAD)
    (user / "notes.txt").write_text('x.to("cuda")\n')
    commit_all(user)

    def run_hook(*hook: str) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [sys.executable, "-m", "pre_commit", "try-repo", str(package), *hook, "--all-files", "--verbose"],
            cwd=user,
            env={**ENVIRONMENT, "PRE_COMMIT_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 3 and "No matching distribution" in done.stdout and "connect" in done.stdout.lower():
            pytest.skip("the package index can't be reached")
        return done

    done = run_hook("devlint")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "bad.py:4:1: DEV101" in done.stdout
    assert bad.read_text() == BAD

    done = run_hook("devlint-fix")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "files were modified by this hook" in done.stdout
    assert bad.read_text() == BAD.replace("x.to(", "x = x.to(")

    done = run_hook()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("All checks passed!") == 2
