"""What a project's files say, told from their text alone.

A rule asks only where a finding hangs on it: files that nothing imports may hold the other half of a story, such as the
script that strips the keys of a checkpoint which another one wrote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from devlint.disk import digest_of
from devlint.patterns import USUAL_EXCLUDES
from devlint.source.roots import ImportRoots

# A project with more than these files, or folders, is too large to look through for one finding.
MAX_FILES = 8_000


class Texts:
    """The texts around a file: what stands under its import root and under the settings' roots."""

    def __init__(self, roots: ImportRoots) -> None:
        self._roots = roots
        self._files: dict[tuple[Path, int], list[Path] | None] = {}
        self._matching: dict[tuple[Path, str], list[Path] | None] = {}
        self._bases: dict[tuple[Path, ...], str] = {}

    def match(self, asking: Path, pattern: str) -> bool:
        """Whether another file than `asking` matches; True as well where there are too many to tell."""
        for folder in self._folders_around(asking):
            found = self._found(folder, pattern)
            if found is None or any(path != asking for path in found):
                return True
        return False

    def uses(self, asking: Path, pattern: str) -> bool:
        """Whether a file that is no test matches, `asking` itself too; False where there are too many to tell."""
        found = (path for folder in self._folders_around(asking) for path in self._found(folder, pattern) or ())
        return any(not is_test(path) and "tests" not in path.parts for path in found)

    def basis(self, asking: Path) -> str:
        """What stands for all that a match hangs on: which files there are, and what they hold."""
        folders = self._folders_around(asking)
        key = tuple(folders)
        if key not in self._bases:
            files = [self._files_of(folder, MAX_FILES) or () for folder in folders]
            spelt = (f"{path}\0{self._roots.files.digest(path)}" for found in files for path in found)
            self._bases[key] = digest_of("\0".join(spelt).encode("utf-8", "surrogateescape"))
        return self._bases[key]

    def files_around(self, asking: Path, limit: int) -> list[Path]:
        """The project's files; none where there are more than `limit`."""
        files: list[Path] = []
        for folder in self._folders_around(asking):
            found = self._files_of(folder, limit)
            if found is None:
                return []
            files += found
        return files

    def _folders_around(self, asking: Path) -> list[Path]:
        root, _ = self._roots.name_of(asking)
        return _outermost([root, *self._roots.folders])

    def _found(self, folder: Path, pattern: str) -> list[Path] | None:
        key = (folder, pattern)
        if key not in self._matching:
            files = self._files_of(folder, MAX_FILES)
            compiled = re.compile(pattern.encode())
            self._matching[key] = (
                None if files is None else [f for f in files if compiled.search(self._roots.files.read_quietly(f))]
            )
        return self._matching[key]

    def _files_of(self, folder: Path, limit: int) -> list[Path] | None:
        """The Python files of a folder; None where there are more than so many, of files or of folders."""
        if (folder, limit) not in self._files:
            files: list[Path] = []
            self._files[folder, limit] = files
            for seen, found in enumerate(_python_files(folder)):
                if seen > limit or len(files) + len(found) > limit:
                    self._files[folder, limit] = None
                    break
                files += found
        return self._files[folder, limit]


def _outermost(folders: list[Path]) -> list[Path]:
    """Each folder once, those inside others left out."""
    return [
        f
        for f in dict.fromkeys(folders)
        if f.is_dir() and not any(f != other and f.is_relative_to(other) for other in folders)
    ]


def _python_files(folder: Path) -> Iterator[list[Path]]:
    """The Python files of each folder in a folder."""
    for where, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f not in USUAL_EXCLUDES]
        yield [Path(where, name) for name in names if name.endswith((".py", ".ipynb"))]


def is_test(path: Path) -> bool:
    """Whether a file is a test, going by its name as pytest does."""
    return path.name.startswith("test_") or path.stem.endswith("_test") or path.name == "conftest.py"
