"""Path patterns as .gitignore writes them, for settings and for .gitignore files themselves."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


# Folders that hold other people's code, or none; never entered unless named.
USUAL_EXCLUDES = frozenset(
    {
        ".bzr", ".devlint_cache", ".direnv", ".eggs", ".git", ".hg", ".hypothesis", ".idea", ".ipynb_checkpoints", ".mypy_cache",
        ".nox", ".pants.d", ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode",
        "__pycache__", "__pypackages__", "_build", "buck-out", "build", "dist", "node_modules", "site-packages", "venv",
    }
)  # fmt: skip


@lru_cache(maxsize=256)
def _compiled(lines: tuple[str, ...]) -> GitIgnoreSpec:
    # Imported here because most runs on one file have no pattern to match.
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def is_valid(lines: tuple[str, ...]) -> bool:
    """Whether each line is a pattern."""
    try:
        return not lines or bool(_compiled(lines))
    except ValueError:
        return False


def verdict(lines: tuple[str, ...], root: Path, path: str | Path, *, folder: bool = False) -> bool | None:
    """Whether the last pattern that speaks of `path` takes it in (True) or, with `!`, leaves it out (False).

    `root` is the folder that the patterns stand in; None when no pattern speaks of the path. A path outside `root`
    is judged by its name alone.
    """
    if not lines:
        return None
    relative = os.path.relpath(path, root).replace(os.sep, "/")
    if relative == ".":
        return None
    if relative.startswith("../"):
        relative = Path(path).name
    return _compiled(lines).check_file(relative + "/" * folder).include


def without_those_on(lines: tuple[str, ...], root: Path, folder: Path) -> tuple[str, ...]:
    """The patterns but for those that take in all of `folder`."""
    if not verdict(lines, root, folder, folder=True):
        return lines
    return tuple(line for line in lines if not verdict((line,), root, folder, folder=True))
