"""What the names in a file may mean, told from the imports in its text."""

from __future__ import annotations

import re
from pathlib import Path

from devlint.regexes import regex
from devlint.source.filesystem import import_pattern
from devlint.source.roots import ImportRoots, imported_names
from devlint.source.said import Unit
from devlint.source.standing import Names

# The module of which all names are taken; it may begin with dots.
_ALL_OF = regex(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+\*", re.MULTILINE)


class Imports:
    """Which files of a project import which others, and what they take out of them."""

    def __init__(self, roots: ImportRoots, names: Names) -> None:
        self._roots = roots
        self._names = names
        self._known: dict[Path, set[tuple[str, ...]]] = {}
        self._owned: dict[Path, frozenset[str]] = {}

    def imports(self, path: Path, other: Path) -> bool:
        """Whether a file imports another one, by way of the packages around it too, going by how its names end."""
        if self._names_module(path, other):
            return True
        around = [folder / "__init__.py" for folder in (other.parent, other.parent.parent)]
        return any(self._names_module(path, package) and self._names_module(package, other) for package in around)

    def takes_others(self, path: Path, unit: Unit) -> bool:
        """Whether a file takes other names out of that of a unit, one by one, and hasn't got the file itself."""
        parts = unit.path.with_suffix("").parts
        taken: set[str] = set()
        for match in import_pattern().finditer(self._roots.files.import_statements(path)):
            module = tuple(name for name in (match["module"] or match["plain"]).strip(".").split(".") if name)
            names = imported_names(match["names"], original=True) if match["names"] else set()
            if not names and parts[-len(module) :] == module:
                return False
            if any(parts[-len(module) - 1 :] == (*module, name) for name in names):
                return False
            taken |= names if module and parts[-len(module) :] == module else set()
        return bool(taken) and unit.called not in taken

    def has_from_library(self, path: Path, unit: Unit, project: Path) -> bool:
        """Whether what has the name of a unit in a file is imported there from a library, which has one too."""
        statements = self._roots.files.import_statements(path) if path.suffix == ".py" else ""
        if unit.called not in statements:
            return False
        taken = [
            match["module"].partition(".")[0]
            for match in import_pattern().finditer(statements)
            if match["names"] and unit.called in imported_names(match["names"], original=True)
        ]
        return bool(taken) and all(module and module not in self.own_names(project) for module in taken)

    def takes_all_of_own(self, path: Path) -> bool:
        """Whether a file takes all names of some module of its project."""
        if not self.takes_all(path):
            return False
        project = self._names.project_of(path)
        taken = _ALL_OF.findall(self._roots.files.import_statements(path))
        firsts = (module.partition(".")[0] for module in taken)
        return project is None or any(not first or first in self.own_names(project) for first in firsts)

    def takes_all(self, path: Path) -> bool:
        return "import *" in self._roots.files.import_statements(path)

    def own_names(self, project: Path) -> frozenset[str]:
        """What a project's files and folders are called, itself and what is around it included."""
        if project not in self._owned:
            names = {name for file in self._names.listed(project) for name in (file.stem, *file.parent.parts)}
            self._owned[project] = frozenset(names)
        return self._owned[project]

    def _names_module(self, path: Path, other: Path) -> bool:
        """Whether an import of a file ends like the name of another one."""
        parts = other.parent.parts if other.stem == "__init__" else other.with_suffix("").parts
        return any(parts[-len(name) :] == name for name in self._imported(path))

    def _imported(self, path: Path) -> set[tuple[str, ...]]:
        """The modules that a file may import, each by what the parts of its path are, or end with."""
        if path not in self._known:
            found: set[tuple[str, ...]] = set()
            for match in import_pattern().finditer(self._roots.files.import_statements(path)):
                names = imported_names(match["names"], original=True) if match["names"] else set()
                for module in self._meant(match["module"] or match["plain"], path):
                    found |= {(*module, name) for name in names}
                    found |= {module} if module else set()
            self._known[path] = found
        return self._known[path]

    def _meant(self, module: str, path: Path) -> list[tuple[str, ...]]:
        """What the paths of modules that a file means by a dotted name are, or end with.

        A program in a folder takes what lies beside it, or else what lies around that: another of that name, elsewhere, is meant only
        where none is there.
        """
        names = tuple(name for name in module.split(".") if name)
        level = len(module) - len(module.lstrip("."))
        if level:
            return [(*path.parents[min(level, len(path.parents)) - 1].parts, *names)]
        project = self._names.project_of(path)
        around = [f for f in path.parents if project is not None and (f == project or project in f.parents)]
        near = [(*folder.parts, *names) for folder in around if self._roots.has(folder, names[0])]
        return near or [names]
