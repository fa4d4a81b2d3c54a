"""Which files of a project import which, told from their text alone."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devlint.placement.project import Project

# A file that more than these import is a library to them: its functions have no one story.
MAX_IMPORTERS = 4
# In a project with more files than these, nobody pays for reading all of them.
MAX_FILES = 600


class Importers:
    """The few files that a file is a part of the program of."""

    def __init__(self, project: Project) -> None:
        self._project = project
        # By import root: file -> the files that import it.
        self._known: dict[Path, dict[Path, list[Path]]] = {}

    def of(self, path: Path) -> list[Path]:
        """The files that import a file, tests left out; none where there are too many of them, or of files at all."""
        root, _ = self._project.name_of(path)
        if root not in self._known:
            self._known[root] = self._read(path)
        known = self._known[root]
        found = dict.fromkeys(known.get(path.resolve(), ()))
        for package in [f for f in found if f.stem == "__init__"]:
            # What it re-exports is imported from it.
            found.update(dict.fromkeys(known.get(package, ())))
        found.pop(path.resolve(), None)
        return list(found) if len(found) <= MAX_IMPORTERS else []

    def _read(self, asking: Path) -> dict[Path, list[Path]]:
        found: dict[Path, list[Path]] = defaultdict(list)
        for path in self._project.texts.files_around(asking, MAX_FILES):
            if path.suffix == ".py" and not is_test(path):
                for imported in self._project.imports_of(path):
                    found[imported].append(path.resolve())
        return found


def is_test(path: Path) -> bool:
    """Whether a file is a test, going by its name as pytest does."""
    return path.name.startswith("test_") or path.stem.endswith("_test") or path.name == "conftest.py"
