"""The hooks, run by the real pre-commit from a git repository of this package on another one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from repositories import ENVIRONMENT, commit, packaged

BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'


@pytest.fixture
def package(tmp_path):
    """A git repository of the package as it stands in the working tree."""
    return packaged(tmp_path / "package")


@pytest.mark.slow
def test_fails_on_a_bad_file_then_fixes_it_then_passes(tmp_path, package):
    user = tmp_path / "user"
    user.mkdir()
    bad = user / "bad.py"
    bad.write_text(BAD)
    (user / "notes.txt").write_text('x.to("cuda")\n')
    commit(user)

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
    assert done.stdout.count("All checks passed!") == 3
