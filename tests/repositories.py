"""Real git repositories for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# A clean environment: what runs the tests must not leak into git, or into hooks.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "GIT_", "GITHUB_", "CI_")) and name not in ("FORCE_COLOR", "DEVLINT_DEBUG")
} | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
_IDENTITY = ["-c", "user.name=test", "-c", "user.email=test@example.org"]


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a folder; what it said."""
    done = subprocess.run(["git", *_IDENTITY, *arguments], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    return done.stdout.decode()


def write(folder: Path, files: dict[str, str]) -> None:
    """Writes files under a folder; a text of "" removes one."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text:
            path.write_text(text, newline="")
        else:
            path.unlink(missing_ok=True)


def commit(folder: Path, files: dict[str, str] | None = None, message: str = "more") -> str:
    """Commits all that is in a folder, with files written before, in a repository that is made where none is; its name."""
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    write(folder, files or {})
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--no-verify", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD").strip()


_ROOT = Path(__file__).parents[1]
_PACKAGED = (
    *("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md", ".pre-commit-hooks.yaml"),
    *("devlint", "rules"),
)


def packaged(folder: Path) -> Path:
    """A git repository of the package as it stands in the working tree."""
    folder.mkdir()
    for name in _PACKAGED:
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    commit(folder)
    return folder


def devlint(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs devlint in a folder."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "devlint", *arguments],
        cwd=folder,
        env=ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def told(folder: Path, *arguments: str, **environment: str) -> list[str]:
    """`path:line code` of each finding; fails where devlint does."""
    done = devlint(folder, *arguments, "--output-format", "concise", "-q", **environment)
    assert done.returncode in (0, 1), done.stderr
    assert bool(done.returncode) == bool(done.stdout)
    lines = (line.split(": ", 1) for line in done.stdout.splitlines())
    return [f"{place.rpartition(':')[0]} {rest.split()[0]}" for place, rest in lines]
