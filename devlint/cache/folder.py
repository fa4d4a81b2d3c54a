"""The folder of the cache: where it is, how it is made, and how it is emptied."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

# Backup programs and the like leave folders with such a file alone (https://bford.info/cachedir/).
_TAG = "CACHEDIR.TAG"
_SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of devlint's; it may be removed.\n"
_DATABASE = "results-1.sqlite"


def prepared(folder: Path) -> Path | None:
    """The database in a cache's folder, which is made where it isn't there; None where it can't be used."""
    try:
        if folder.is_symlink():
            # Whoever made it may mean another folder to be written to.
            return None
        folder.mkdir(parents=True, exist_ok=True)
        _write_new(folder / _TAG, _SIGNATURE)
        _write_new(folder / ".gitignore", "# Made by devlint.\n*\n")
        if not _is_ours(folder) or not os.access(folder, os.W_OK):
            return None
    except OSError:
        return None
    return folder / _DATABASE


def clean(folder: Path) -> bool:
    """Removes a cache's folder, and nothing in it that isn't devlint's; returns whether there was one. Raises OSError."""
    if folder.is_symlink() or not _is_ours(folder):
        return False
    for path in list(folder.iterdir()):
        if path.name in (_TAG, ".gitignore") or path.name.startswith("results-"):
            path.unlink()
    with contextlib.suppress(OSError):
        # Something else is in it.
        folder.rmdir()
    return True


def _write_new(path: Path, text: str) -> None:
    with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)


def _is_ours(folder: Path) -> bool:
    """Whether a folder is a cache of devlint's, going by its tag."""
    try:
        return (folder / _TAG).read_text(encoding="utf-8", errors="replace").startswith(_SIGNATURE)
    except OSError:
        return False
