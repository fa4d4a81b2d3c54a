"""Which modules of a project are loaded, and which never are: those that nothing names, and that are no programs."""

from __future__ import annotations

import re
from pathlib import Path

from devlint.regexes import regex
from devlint.source.roots import COPIED, ImportRoots
from devlint.source.said import COMMENT
from devlint.source.standing import Names
from devlint.source.texts import is_test_file

# What a package that stands no deeper than this has is its interface.
MAX_DEPTH = 2
# Folders that packages stand in.
_SOURCES = (("src",), ("python",), ("lib",))
# What a program does at its top level, or asks for.
_DOING = regex(r"^(?:for|while|with|if __name__|\w{1,80}\()|\bargparse\b|\bsys\.argv\b|\bplt\.show\b", re.MULTILINE)
# What a module does that tries what it defines: it makes something up, and gives nobody options.
_MAKING_UP = regex(
    r"\b(?:torch|np|numpy|random)\.(?:rand|randn|randint|random|zeros|ones|tensor|arange)\(|\btorch\.(?:Float|Long)?Tensor\("
)
_FEW_LINES = 30
_MEANT = regex(r"\bmain\(|\bparse_args\b|\bargparse\b|\bargv\b|\.backward\(|\b(?:open|load|save|imread|savefig)\(")
# What loads a module, or takes what is in one, under a name that is put together: `import_module(f"models.{name}")`.
_LOADING = regex(r"\b(?:import_module|__import__)\([ \t\n]{0,40}(?!['\"][\w.]{1,200}['\"][ \t\n]{0,40}[,)])[^)\s]")


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

    def may_be_loaded_by_name(self, folder: Path, project: Path) -> bool:
        """Whether the modules of a folder may be loaded under names that are put together, of which it is a part."""
        if folder not in self._by_name:
            name = re.escape(folder.name)
            # Looked for as plain text first: most files say none of these.
            plain = tuple(f"{folder.name}{end}" for end in "./'\"")
            quoted = re.compile(rf"['\"]([\w./]*)\b{name}[./'\"]")
            # Who loads nothing himself may name a module, and elsewhere files of data.
            dotted = re.compile(rf"['\"]((?:\w+\.)*){name}(?:\.\w+)+['\"]|['\"]([\w./]*)\b{name}/[\w/]*\.py['\"]")
            self._by_name[folder] = any(
                _leads_to(match[match.lastindex or 1], folder, file, project)
                for file in self._loading(project)
                for text in [self._names.text(file)]
                if any(said in text for said in plain)
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
        """Whether a module asks under which name it is loaded, as programs do."""
        return "__name__" in self._names.text(path)

    def only_tries(self, path: Path) -> bool:
        """Whether all that a module of an inner folder does by itself is to try what it defines, on what it makes up."""
        before, own, block = self._names.text(path).rpartition("\nif __name__ ")
        lines = block.split("\n")[1:]
        if not own or path.parent == self._names.project_of(path) or len(lines) > _FEW_LINES:
            return False
        if _DOING.search(before) is not None or any(line[:1] not in ("", " ", "\t", "#") for line in lines):
            return False
        return _MAKING_UP.search(block) is not None and _MEANT.search(block) is None

    def acts(self, path: Path) -> bool:
        """Whether a module does something at its top level, or takes options."""
        return _DOING.search(self._names.text(path)) is not None

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


def _leads_to(before: str, folder: Path, file: Path, project: Path) -> bool:
    """Whether what a text has before a folder's name leads to this one: that around it, or nothing where it is in reach."""
    around = [part for part in re.split(r"[./]+", before) if part]
    if around:
        return around[-1] == folder.parent.name
    return folder.parent == project or folder.parent in file.parents


def _loads(text: str) -> bool:
    # Looked for as plain text first, which is a hundred times as fast.
    return ("import_module" in text or "__import__" in text) and _LOADING.search(text) is not None
