"""Which modules of a project are loaded, and which never are: those that nothing names, and that are no programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from devlint.regexes import regex
from devlint.source.filesystem import import_pattern
from devlint.source.roots import COPIED, ImportRoots, imported_names
from devlint.source.said import COMMENT
from devlint.source.standing import Names
from devlint.source.texts import is_test_file, may_bind

# What a package that stands no deeper than this has is its interface.
MAX_DEPTH = 2
# Folders that packages stand in.
_SOURCES = (("src",), ("python",), ("lib",))
# What a program does at its top level, or asks for.
_DOING = regex(r"^(?:for|while|with|if __name__|\w{1,80}\()|\bargparse\b|\bsys\.argv\b|\bplt\.show\b", re.MULTILINE)
# What loads a module, or takes what is in one, under a name that is put together: `import_module(f"models.{name}")`.
_LOADING = regex(r"\b(?:import_module|__import__)\([ \t\n]{0,40}(?!['\"][\w.]{1,200}['\"][ \t\n]{0,40}[,)])[^)\s]")


# Names of what a build makes, or generates.
_BUILT = regex(r"^_|_pb2|_ext\b|_cuda\b|_cpu\b|_kernels?\b|_lib\b|_native\b|cython|(?i:version)")
_EXTENSIONS = regex(r"ext_modules|\bExtension\(|cpp_extension|_ext\(")
# What brings a program to paths of its own.
_OWN_PATHS = regex(r"\bsys\.path\b|\bsite\.addsitedir\b|\b_?init_paths?\b|\b__path__\b")
# What may bind names of a module that its text doesn't.
_DYNAMIC = regex(
    rb"import[ \t]*\*|__getattr__|\bglobals\(|\bexec\(|\bsys\.modules\b|\blocals\(|\bsetattr\(|\b__dict__\b|\b__path__\b"
)
# Libraries that folders of data, or of code about them, are called after: those without a file of a package are passed over.
_LIBRARIES = COPIED | {
    "datasets", "evaluate", "wandb", "tests", "test", "data", "gym", "hydra", "ray", "mlflow", "torch", "numpy", "scipy", "pandas",
    "tensorflow", "jax", "flax", "sklearn", "yaml", "tqdm", "PIL", "cv2", "matplotlib", "networkx", "dask", "dgl", "pytorch_lightning",
    "lightning", "keras", "nltk", "spacy", "gradio", "omegaconf", "onnx", "apex", "deepspeed", "optuna",
}  # fmt: skip


class Loads:
    """What leads to the modules of a project."""

    def __init__(self, roots: ImportRoots, names: Names) -> None:
        self._roots = roots
        self._names = names
        self._loaded: dict[Path, bool] = {}
        self._unloaded: dict[Path, bool] = {}
        self._alone: dict[Path, bool] = {}
        self._by_name: dict[Path, bool] = {}
        self._loaders: dict[Path, list[Path]] = {}
        self._built: dict[Path, bool] = {}

    def may_be_loaded_by_name(self, folder: Path, project: Path) -> bool:
        """Whether the modules of a folder may be loaded under names that are put together, of which it is a part."""
        if folder not in self._by_name:
            name = re.escape(folder.name)
            quoted = re.compile(rf"['\"]([\w./]*)\b{name}[./'\"]")
            # Who loads nothing himself may name a module, and elsewhere files of data.
            dotted = re.compile(rf"['\"]((?:\w+\.)*){name}(?:\.\w+)+['\"]|['\"]([\w./]*)\b{name}/[\w/]*\.py['\"]")
            self._by_name[folder] = any(
                _leads_to(match[match.lastindex or 1], folder, file, project)
                for file in self._loading(project)
                for text in [self._names.text(file)]
                for match in (quoted if _loads(text) else dotted).finditer(text)
            )
        return self._by_name[folder]

    def is_in_package_alone(self, path: Path) -> bool:
        """Whether a module is no program, and stands in an inner package that nothing outside of it names: it is never loaded."""
        folder, project = path.parent, self._names.project_of(path)
        package = folder / "__init__.py"
        if project is None or not self._roots.files.is_file(package) or self.is_outer(package) or self.runs(path):
            return False
        if folder not in self._alone:
            named = re.compile(rf"\b{re.escape(folder.name)}\b|\bwalk_packages\b|\biter_modules\b")
            outside = (
                f for f in self._names.listed(project) if f.suffix in (".py", ".ipynb") and folder not in f.parents
            )
            self._alone[folder] = not any(named.search(self._names.text(f)) for f in outside)
        return self._alone[folder]

    def is_alone(self, path: Path) -> bool:
        """Whether a module of an inner folder is no program, and nothing names it, though most of its neighbours are imported: it is never loaded."""
        project, package = self._names.project_of(path), path.parent / "__init__.py"
        if project is None or self.is_outer(package) or self.acts(path):
            return False
        beside = [
            f for f in self._names.listed(project) if f.parent == path.parent and f.suffix == ".py" and f != package
        ]
        if path not in self._unloaded:
            known = [self._is_loaded(f, project) for f in beside if f != path]
            self._unloaded[path] = 2 * sum(known) > len(known) and not self._is_loaded(path, project)
        return self._unloaded[path]

    def is_outer(self, package: Path) -> bool:
        """Whether what a package has is the project's interface: that of an inner one is for those who import it."""
        project = self._names.project_of(package)
        parts = package.parent.relative_to(project).parts if project is not None else ()
        inner = parts[1:] if parts[:1] in _SOURCES else parts
        return len(inner) <= MAX_DEPTH and not COPIED.intersection(inner[1:])

    def runs(self, path: Path) -> bool:
        return "__name__" in self._names.text(path)

    def _loading(self, project: Path) -> list[Path]:
        """The code of a project, where any of it loads modules under names that are put together; otherwise none."""
        if project not in self._loaders:
            code = [f for f in self._names.listed(project) if f.suffix == ".py" and not is_test_file(f)]
            self._loaders[project] = code if any(_loads(self._names.text(f)) for f in code) else []
        return self._loaders[project]

    def _is_loaded(self, path: Path, project: Path) -> bool:
        """Whether an import, or a text, names a module."""
        if path not in self._loaded:
            holding = self._names.holding(path.stem, project)
            self._loaded[path] = any(self._names_stem(f, path) for f in holding if f != path)
        return self._loaded[path]

    def _names_stem(self, file: Path, path: Path) -> bool:
        """Whether a file names a module: in an import, or anywhere else than behind another package's name."""
        whole = re.compile(rf"(?:\b(\w+)\.)?\b{re.escape(path.stem)}\b")
        text = self._names.text(file)
        if file.suffix == ".py":
            text = "\n".join(COMMENT.sub("", line) for line in text.split("\n") if path.stem in line)
        return any(match[1] in (None, path.parent.name) for match in whole.finditer(text))

    def is_broken(self, path: Path) -> bool:
        """Whether a file surely fails as it begins: it imports what its project hasn't got, or what lies beside a copy of it alone.

        Of the project is what its own folders around the file are called, and whatever is imported from beside. What a build makes,
        and what is looked for on paths of a program's own, may be there.
        """
        project = self._names.project_of(path)
        if project is None or _OWN_PATHS.search(self._names.text(path)):
            return False
        statements = import_pattern().finditer(self._roots.files.import_statements(path))
        on_top = [match for match in statements if match[0][0] not in " \t"]
        return any(self._is_in_vain(match, path, project) for match in on_top) or self._is_stray(on_top, path, project)

    def _is_stray(self, statements: Iterable[re.Match[str]], path: Path, project: Path) -> bool:
        """Whether modules that are out of a file's reach lie beside another file of its name: a copy was left without them."""
        twins = [f for f in self._names.listed(project) if f.name == path.name and f != path]
        names = {(match["module"] or match["plain"]).split(".")[0] for match in statements} - {""}
        around = self._around(path, project)
        lost = [name for name in names if twins and not any(self._roots.has(folder, name) for folder in around)]
        return any(self._roots.has(twin.parent, name) for twin in twins for name in lost)

    def _around(self, path: Path, project: Path) -> list[Path]:
        """The folders from which a file of a project may import, its own first."""
        return [f for f in path.parents if f == project or project in f.parents]

    def _is_in_vain(self, statement: re.Match[str], path: Path, project: Path) -> bool:
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
            bases = [b for b in self._around(path, project) if self._is_own(b / names[0], project)]
            # From a package's own folder nothing is imported by a plain name, unless a module of it is run.
            if all(self._roots.files.is_file(b / "__init__.py") for b in bases):
                return False
        places = [base.joinpath(*names) for base in bases]
        there = [p for p in places if self._roots.files.is_folder(p) or self._roots.files.is_file(f"{p}.py")]
        if places and not there:
            if self._builds(project):
                return False
            # Elsewhere it may be on a path that somebody sets.
            return bool(level) or not any(_is_called(f, names) for f in self._names.listed(project))
        asked = imported_names(statement["names"], original=True) if statement["names"] else set()
        return bool(there) and any(not any(self._may_have(p, name) for p in there) for name in asked - {"*"})

    def _builds(self, project: Path) -> bool:
        """Whether a project makes modules of code in other languages."""
        if project not in self._built:
            set_up = (f for f in self._names.listed(project) if f.name == "setup.py")
            self._built[project] = any(_EXTENSIONS.search(self._names.text(f)) for f in set_up)
        return self._built[project]

    def _is_own(self, place: Path, project: Path) -> bool:
        """Whether a module, or a folder that holds code, of the project is there, and no library's name is on it."""
        files = self._roots.files
        if place.name in _LIBRARIES:
            return False
        if files.is_file(f"{place}.py"):
            return True
        if not files.is_folder(place):
            return False
        if files.is_file(place / "__init__.py"):
            return True
        return any(f.suffix == ".py" and f.parent == place for f in self._names.listed(project))

    def _may_have(self, module: Path, name: str) -> bool:
        """Whether a name may be had from a module, or from a package: by its text, or as a module of it."""
        files = self._roots.files
        if files.is_folder(module / name) or files.is_file(module / f"{name}.py") or _BUILT.search(name):
            return True
        texts = [t for t in (module.parent / f"{module.name}.py", module / "__init__.py") if files.is_file(t)]
        raws = [files.read_quietly(text) for text in texts]
        # A folder without a file of its own has nothing but modules.
        return any(may_bind(raw, name.encode()) or _DYNAMIC.search(raw) is not None for raw in raws)

    def acts(self, path: Path) -> bool:
        """Whether a module does something at its top level, or takes options."""
        return _DOING.search(self._names.text(path)) is not None


def _is_called(file: Path, names: list[str]) -> bool:
    """Whether a file's path ends like the name of a module: `nets/all.py`, `nets/all/__init__.py`."""
    parts = file.parent.parts if file.stem == "__init__" else file.with_suffix("").parts
    return parts[-len(names) :] == tuple(names)


def _leads_to(before: str, folder: Path, file: Path, project: Path) -> bool:
    """Whether what a text has before a folder's name leads to this one: that around it, or nothing where it is in reach."""
    around = [part for part in re.split(r"[./]+", before) if part]
    if around:
        return around[-1] == folder.parent.name
    return folder.parent == project or folder.parent in file.parents


def _loads(text: str) -> bool:
    # Looked for as plain text first, which is a hundred times as fast.
    return ("import_module" in text or "__import__" in text) and _LOADING.search(text) is not None
