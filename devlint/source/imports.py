"""What the names in a file may mean, and whether it can be run at all, told from the imports in its text."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from devlint.regexes import regex
from devlint.source.filesystem import import_pattern
from devlint.source.roots import COPIED, ImportRoots, imported_names
from devlint.source.said import Unit
from devlint.source.standing import Names
from devlint.source.texts import may_bind
from devlint.source.traces import traced

# The module of which all names are taken; it may begin with dots.
_ALL_OF = regex(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+\*", re.MULTILINE)

# Names of what a build makes, or generates.
_BUILT = regex(r"^_|_pb2|_ext\b|_cuda\b|_cpu\b|_kernels?\b|_lib\b|_native\b|cython|(?i:version)")
# Those of which a text doesn't say what they are called.
_UNNAMED_EXTENSION = regex(r"cythonize|Extension\(\s{0,80}(?:name\s?=\s?)?(?:f['\"]|\w{1,60}\s?[,)])")
_EXTENSIONS = regex(r"ext_modules|\bExtension\(|cpp_extension|_ext\(")
# What brings a program to paths of its own.
_OWN_PATHS = regex(r"\bsys\.path\b|\bsite\.addsitedir\b|\b_?init_paths?\b|\b__path__\b")
# What may bind names of a module that its text doesn't.
_DYNAMIC = regex(
    rb"import[ \t]*\*|__getattr__|\bglobals\(|\bexec\(|\bsys\.modules\b|\blocals\(|\bsetattr\((?!self\b|cls\b)|(?<!\bself\.)\b__dict__\b|\b__path__\b"
)
# Libraries that folders of data, or of code about them, are called after: the library is meant.
_LIBRARIES = COPIED | {
    "datasets", "evaluate", "wandb", "tests", "test", "data", "gym", "hydra", "ray", "mlflow", "torch", "numpy", "scipy", "pandas",
    "tensorflow", "jax", "flax", "sklearn", "yaml", "tqdm", "PIL", "cv2", "matplotlib", "networkx", "dask", "dgl", "pytorch_lightning",
    "lightning", "keras", "nltk", "spacy", "gradio", "omegaconf", "onnx", "apex", "deepspeed", "optuna",
}  # fmt: skip

# What programs call modules of their own, and no library is called.
_OWN_NAMES = frozenset(
    {"model", "models", "dataset", "dataloader", "data_loader", "utils", "util", "network", "networks", "layers", "losses", "trainer",
     "helpers", "model_utils", "data_utils"}
)  # fmt: skip

# A folder with so many files that are called like those beside a file is what they were copied from.
_SEVERAL = 2


class Imports:
    """Which files of a project import which others, and what they take out of them."""

    def __init__(self, roots: ImportRoots, names: Names) -> None:
        self._roots = roots
        self._names = names
        self.traces = names.traces
        self._owned: dict[Path, frozenset[str]] = {}
        names.kinds["builds extensions"] = self._builds_extensions

    def imports(self, path: Path, other: Path) -> bool:
        """Whether a file imports another one, by way of the packages around it too, going by how its names end."""
        if self._names_module(path, other):
            return True
        return any(self._names_module(path, package) for package in self._packages_with(other))

    @traced
    def _packages_with(self, other: Path) -> list[Path]:
        """The packages around a file that import it themselves: few do, and all files of a project are asked about each."""
        around = [folder / "__init__.py" for folder in (other.parent, other.parent.parent)]
        return [package for package in around if self._names_module(package, other)]

    def takes_others(self, path: Path, unit: Unit) -> bool:
        """Whether a file takes other names out of that of a unit, one by one, and hasn't got the file itself."""
        parts = unit.path.with_suffix("").parts
        taken: set[str] = set()
        for match in import_pattern().finditer(self._names.statements(path)):
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
        statements = self._names.statements(path) if path.suffix == ".py" else ""
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
        taken = _ALL_OF.findall(self._names.statements(path))
        firsts = (module.partition(".")[0] for module in taken)
        return project is None or any(not first or first in self.own_names(project) for first in firsts)

    def takes_all(self, path: Path) -> bool:
        return "import *" in self._names.statements(path)

    def own_names(self, project: Path) -> frozenset[str]:
        """What a project's files and folders are called, itself and what is around it included."""
        if project not in self._owned:
            names = {name for file in self._names.listed(project) for name in (file.stem, *file.parent.parts)}
            self._owned[project] = frozenset(names)
        return self._owned[project]

    @traced
    def is_broken(self, path: Path) -> bool:
        """Whether a file surely fails as it begins: it imports what its project, or its folder, hasn't got, or what lies beside a copy of it alone.

        Of the project is what its own folders around the file are called, whatever is imported from beside, and what no library is
        called (`models`). What a build makes,
        and what is looked for on paths of a program's own, may be there.
        """
        if _OWN_PATHS.search(self._names.text(path)):
            return False
        statements = import_pattern().finditer(self._names.statements(path))
        on_top = [match for match in statements if match[0][0] not in " \t"]
        return any(self._is_in_vain(match, path) for match in on_top) or self._is_stray(on_top, path)

    def _listed(self, path: Path) -> Iterable[Path]:
        """The texts of a file's project; none for a loose file."""
        project = self._names.project_of(path)
        return self._names.listed(project) if project is not None else ()

    def _around(self, path: Path) -> list[Path]:
        return self._names.around(path) or [path.parent]

    def _is_stray(self, statements: Iterable[re.Match[str]], path: Path) -> bool:
        """Whether modules that are out of a file's reach lie beside another file of its name: a copy was left without them.

        Or beside others that are called like several modules which it has from beside it: their folder was copied in part. Or several
        in one folder below its own, where they were put away.
        """
        names = {(match["module"] or match["plain"]).split(".")[0] for match in statements} - {""}
        around, listed = self._around(path), self._listed(path)
        lost = [name for name in names - _LIBRARIES if not any(self._roots.has(folder, name) for folder in around)]
        beside = {f"{name}.py" for name in names if self._roots.files.is_file(path.parent / f"{name}.py")}
        alike = Counter(f.parent for f in listed if lost and f.name in beside and f.parent != path.parent)
        twins = {f.parent for f in listed if lost and f.name == path.name and f != path}
        below = Counter(f.parent for f in listed if lost and f.stem in lost and path.parent in f.parent.parents)
        twins |= {folder for folder, count in (alike + below).items() if count >= _SEVERAL}
        return any(self._roots.has(twin, name) for twin in twins for name in lost)

    def _is_in_vain(self, statement: re.Match[str], path: Path) -> bool:
        module = statement["module"] or statement["plain"]
        names = [name for name in module.split(".") if name]
        level = len(module) - len(module.lstrip("."))
        if not names or _BUILT.search(names[-1]):
            return False
        if level:
            bases = [path.parents[min(level, len(path.parents)) - 1]]
        else:
            if names[0] in sys.stdlib_module_names:
                return False
            bases = [b for b in self._around(path) if self._is_own(b / names[0], path)]
            if not bases and names[0] in _OWN_NAMES:
                project = self._names.project_of(path)
                return project is not None and names[0] not in self.own_names(project)
            # From a package's own folder nothing is imported by a plain name, unless a module of it is run.
            if all(self._roots.files.is_file(b / "__init__.py") for b in bases):
                return False
        places = [base.joinpath(*names) for base in bases]
        there = [p for p in places if self._roots.files.is_folder(p) or self._roots.files.is_file(f"{p}.py")]
        if places and not there:
            if self._builds(names[-1], path):
                return False
            # Elsewhere it may be on a path that somebody sets.
            return bool(level) or not any(_ends_like(f, tuple(names)) for f in self._listed(path))
        asked = imported_names(statement["names"], original=True) if statement["names"] else set()
        return bool(there) and any(not any(self._may_have(p, name) for p in there) for name in asked - {"*"})

    def _builds(self, name: str, path: Path) -> bool:
        """Whether the project of a file may make a module of that name of code in other languages."""
        return self._names.any_of_kind("builds extensions", name, among=self._listed(path))

    def _builds_extensions(self, path: Path, name: str) -> bool:
        text = self._names.text(path) if path.name == "setup.py" else ""
        return _EXTENSIONS.search(text) is not None and (name in text or _UNNAMED_EXTENSION.search(text) is not None)

    def _is_own(self, place: Path, path: Path) -> bool:
        """Whether a module, or a folder that holds code, of a file's project is there, and no library's name is on it."""
        files = self._roots.files
        if place.name in _LIBRARIES:
            return False
        if files.is_file(f"{place}.py"):
            return True
        if not files.is_folder(place):
            return False
        if files.is_file(place / "__init__.py"):
            return True
        return any(f.suffix == ".py" and f.parent == place for f in self._listed(path))

    def _may_have(self, module: Path, name: str) -> bool:
        """Whether a name may be had from a module, or from a package: by its text, or as a module of it."""
        files = self._roots.files
        if files.is_folder(module / name) or files.is_file(module / f"{name}.py") or _BUILT.search(name):
            return True
        texts = [t for t in (module.parent / f"{module.name}.py", module / "__init__.py") if files.is_file(t)]
        raws = [self._names.raw(text) for text in texts]
        # A folder without a file of its own has nothing but modules.
        return any(may_bind(raw, name.encode()) or _DYNAMIC.search(raw) is not None for raw in raws)

    def _names_module(self, path: Path, other: Path) -> bool:
        """Whether an import of a file ends like the name of another one."""
        return not self._imported(path).isdisjoint(_endings(other))

    @traced
    def _imported(self, path: Path) -> set[tuple[str, ...]]:
        """The modules that a file may import, each by what the parts of its path are, or end with."""
        found: set[tuple[str, ...]] = set()
        around = self._names.around(path)
        for match in import_pattern().finditer(self._names.statements(path)):
            names = imported_names(match["names"], original=True) if match["names"] else set()
            for module in self._meant(match["module"] or match["plain"], path, around):
                found |= {(*module, name) for name in names}
                found |= {module} if module else set()
        return found

    def _meant(self, module: str, path: Path, around: list[Path]) -> list[tuple[str, ...]]:
        """What the paths of modules that a file means by a dotted name are, or end with.

        A program in a folder takes what lies beside it, or else what lies around that: another of that name, elsewhere, is meant only
        where none is there.
        """
        names = tuple(name for name in module.split(".") if name)
        level = len(module) - len(module.lstrip("."))
        if level:
            return [(*path.parents[min(level, len(path.parents)) - 1].parts, *names)]
        near = [(*folder.parts, *names) for folder in around if self._roots.has(folder, names[0])]
        return near or [names]


@lru_cache(maxsize=10_000)
def _endings(file: Path) -> frozenset[tuple[str, ...]]:
    """What a file's path ends with, as the names of modules go: `nets/all.py`, `nets/all/__init__.py`."""
    parts = file.parent.parts if file.stem == "__init__" else file.with_suffix("").parts
    return frozenset(parts[at:] for at in range(len(parts)))


def _ends_like(file: Path, names: tuple[str, ...]) -> bool:
    return names in _endings(file)
