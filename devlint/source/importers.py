"""Which files of a project import which, told from their text alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from devlint.disk import digest_of
from devlint.source.roots import ImportRoots
from devlint.source.texts import Texts, is_test

# A file that more than these import is a library to them: its functions have no one story.
MAX_IMPORTERS = 4
# In a project with more files than these, nobody pays for reading all of them.
MAX_FILES = 600


class Importers:
    """The files that a file is a part of the program of: none where more than `most` import it, or in a larger project."""

    def __init__(self, roots: ImportRoots, texts: Texts, most: int = MAX_IMPORTERS, max_files: int = MAX_FILES) -> None:
        self._roots = roots
        self._texts = texts
        self._most = most
        self._max_files = max_files
        # By import root: word -> the files with an import statement in which it stands.
        self._naming: dict[Path, dict[str, list[Path]]] = {}
        self._bases: dict[Path, str] = {}
        # By file: the dotted names that it imports, by the last part of each.
        self._imported: dict[Path, dict[str, list[str]]] = {}
        self._known: dict[Path, list[Path]] = {}
        self._real = roots.files.real

    def of(self, path: Path) -> list[Path]:
        """The files that import a file, tests left out; none where there are too many of them, or of files at all."""
        path = path.resolve()
        if path not in self._known:
            found = self._direct(path)
            # What a package re-exports is imported from it.
            packages = [package for package in found if package.stem == "__init__"]
            found = {
                f: None for f in (*found, *(f for package in packages for f in self._direct(package))) if f != path
            }
            self._known[path] = list(found) if len(found) <= self._most else []
        return self._known[path]

    def _direct(self, path: Path) -> dict[Path, None]:
        """The files that name a file in an import; no more of them than tell that there are too many."""
        found: dict[Path, None] = {}
        name = path.parent.name if path.stem == "__init__" else path.stem
        for importer in map(self._real, self._around(path).get(name, ())):
            if self._imports(importer, path, name):
                found[importer] = None
                if len(found) > self._most + 1:
                    break
        return found

    def _imports(self, importer: Path, path: Path, name: str) -> bool:
        """Whether a file imports another one, of that name: what ends in other names leads elsewhere, and isn't looked for."""
        if importer not in self._imported:
            named = self._imported[importer] = defaultdict(list)
            for dotted in self._roots.names_in(importer):
                named[dotted.rpartition(".")[2]].append(dotted)
        places = (self._roots.place(dotted, importer.parent) for dotted in self._imported[importer].get(name, ()))
        return any(self._real(place) == path for place in places if place is not None)

    def basis(self, path: Path) -> str:
        """What stands for all that who imports a file hangs on: which files there are, and their import statements."""
        root = self._roots.top_of(path)
        if root not in self._bases:
            spelt = (f"{file}\0{self._real(file)}\0{statements}" for file, statements in self._statements(path))
            self._bases[root] = digest_of("\0".join(spelt).encode("utf-8", "surrogateescape"))
        return self._bases[root]

    def _around(self, path: Path) -> dict[str, list[Path]]:
        root = self._roots.top_of(path)
        if root not in self._naming:
            naming = self._naming[root] = defaultdict(list)
            for file, statements in self._statements(path):
                for word in set(re.findall(r"\w+", statements)):
                    naming[word].append(file)
        return self._naming[root]

    def _statements(self, path: Path) -> Iterator[tuple[Path, str]]:
        """The files around a file that are no tests, with their import statements."""
        for file in self._texts.files_around(path, self._max_files):
            if file.suffix == ".py" and not is_test(file):
                yield file, self._roots.files.import_statements(file)
