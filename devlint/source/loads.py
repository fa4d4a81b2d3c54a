"""Which modules of a project are loaded, and which never are: those that nothing names, and that are no programs."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from devlint.regexes import regex
from devlint.source.roots import COPIED, ImportRoots
from devlint.source.said import COMMENT
from devlint.source.standing import Names
from devlint.source.texts import is_test_file
from devlint.source.traces import traced

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
        self.traces = names.traces
        names.kinds |= {
            "loads by name": self._loads_by_name,
            "names modules of a folder": self._names_modules,
            "names a package": self._names_package,
            "names a module": self._names_stem,
        }

    @traced
    def may_be_loaded_by_name(self, folder: Path, project: Path) -> bool:
        """Whether the modules of a folder may be loaded under names that are put together, of which it is a part."""
        listed = self._names.listed(project)
        return self._any_loads(project) and self._names.any_of_kind(
            "names modules of a folder", str(folder), str(project), among=listed
        )

    @traced
    def _any_loads(self, project: Path) -> bool:
        return self._names.any_of_kind("loads by name", among=self._names.listed(project))

    def _loads_by_name(self, file: Path) -> bool:
        """Whether code loads modules under names that are put together."""
        return _is_code(file) and _loads(self._names.text(file))

    def _names_modules(self, file: Path, folder: str, project: str) -> bool:
        """Whether code has a text that leads to modules of a folder."""
        if not _is_code(file):
            return False
        text, (plain, quoted, dotted) = self._names.text(file), _naming(Path(folder).name)
        # Looked for as plain text first: most files say none of these.
        if not any(said in text for said in plain):
            return False
        found = (quoted if _loads(text) else dotted).finditer(text)
        return any(_leads_to(match[match.lastindex or 1], Path(folder), file, Path(project)) for match in found)

    def is_in_package_alone(self, path: Path) -> bool:
        """Whether a module is no program, and stands in an inner package that nothing outside of it names: it is never loaded."""
        folder, project = path.parent, self._names.project_of(path)
        package = folder / "__init__.py"
        if project is None or not self._roots.files.is_file(package) or self.is_outer(package) or self.runs(path):
            return False
        return self._is_unnamed(folder, project)

    @traced
    def _is_unnamed(self, folder: Path, project: Path) -> bool:
        """Whether nothing outside of a package names it."""
        return not self._names.any_of_kind("names a package", str(folder), among=self._names.listed(project))

    def _names_package(self, file: Path, folder: str) -> bool:
        """Whether code outside of a package says its name, or looks for packages."""
        if file.suffix not in (".py", ".ipynb") or Path(folder) in file.parents:
            return False
        named = re.compile(rf"\b{re.escape(Path(folder).name)}\b|\bwalk_packages\b|\biter_modules\b")
        return named.search(self._names.text(file)) is not None

    @traced
    def is_alone(self, path: Path) -> bool:
        """Whether a module of an inner folder is no program, and nothing names it, though most of its neighbours are imported: it is never loaded."""
        project, package = self._names.project_of(path), path.parent / "__init__.py"
        if project is None or self.is_outer(package) or self.acts(path):
            return False
        beside = [
            f for f in self._names.listed(project) if f.parent == path.parent and f.suffix == ".py" and f != package
        ]
        known = [self._is_loaded(f, project) for f in beside if f != path]
        return 2 * sum(known) > len(known) and not self._is_loaded(path, project)

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

    @traced
    def _is_loaded(self, path: Path, project: Path) -> bool:
        """Whether an import, or a text, names a module."""
        return self._names.any_of_kind("names a module", str(path), among=self._names.holding(path.stem, project))

    def _names_stem(self, file: Path, module: str) -> bool:
        """Whether another file names a module: in an import, or anywhere else than behind another package's name."""
        path = Path(module)
        if file == path:
            return False
        whole = re.compile(rf"(?:\b(\w+)\.)?\b{re.escape(path.stem)}\b")
        text = self._names.text(file)
        if file.suffix == ".py":
            text = "\n".join(COMMENT.sub("", line) for line in text.split("\n") if path.stem in line)
        return any(match[1] in (None, path.parent.name) for match in whole.finditer(text))


@lru_cache(maxsize=256)
def _naming(folder: str) -> tuple[tuple[str, ...], re.Pattern[str], re.Pattern[str]]:
    """What names modules of a folder: as plain text, where modules are loaded, and elsewhere: there, files of data may be named."""
    name = re.escape(folder)
    quoted = re.compile(rf"['\"]([\w./]*)\b{name}[./'\"]")
    dotted = re.compile(rf"['\"]((?:\w+\.)*){name}(?:\.\w+)+['\"]|['\"]([\w./]*)\b{name}/[\w/]*\.py['\"]")
    return tuple(f"{folder}{end}" for end in "./'\""), quoted, dotted


def _is_code(file: Path) -> bool:
    return file.suffix == ".py" and not is_test_file(file)


def _leads_to(before: str, folder: Path, file: Path, project: Path) -> bool:
    """Whether what a text has before a folder's name leads to this one: that around it, or nothing where it is in reach."""
    around = [part for part in re.split(r"[./]+", before) if part]
    if around:
        return around[-1] == folder.parent.name
    return folder.parent == project or folder.parent in file.parents


def _loads(text: str) -> bool:
    # Looked for as plain text first, which is a hundred times as fast.
    return ("import_module" in text or "__import__" in text) and _LOADING.search(text) is not None
