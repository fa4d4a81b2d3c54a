"""The project around a file: finds and parses what it imports, on demand, without running any of it."""

from __future__ import annotations

import ast
import gc
import io
import os
import re
import tokenize
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.filesystem import NO_TEXT, FileSystem, digest_of, import_pattern
from devlint.looks import Answer, Looks, Question
from devlint.placement.importers import Importers
from devlint.placement.texts import Texts

if TYPE_CHECKING:
    from devlint.placement.memory import Memory
    from devlint.placement.sources import SourceModule

# Source text of which trees are kept per process; a tree takes some fifty times the memory of its text.
MAX_KEPT_BYTES = 8_000_000
# As much is kept for one file that imports all of it.
MAX_BYTES_OF_ONE_FILE = 20_000_000
# Larger modules are generated tables; what they define is left unknown.
MAX_MODULE_BYTES = 1_500_000


def parse(text: str) -> ast.Module:
    """The tree of a source text, without the warnings that Python gives on old escapes.

    Raises SyntaxError (ValueError for null bytes, RecursionError or MemoryError for absurd nesting).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    finally:
        if was_enabled:
            gc.enable()


class Project:
    """Resolves dotted names to parsed modules under the import roots.

    All that is read, or looked for, beside the file at hand goes through here, for a file that asks, and is noted in
    `looks`; `holds` says whether it would be answered the same now.
    """

    def __init__(self, roots: Iterable[Path] = (), looks: Looks | None = None, files: FileSystem | None = None) -> None:
        self.roots = [Path(os.path.realpath(r)) for r in roots]
        self.looks = looks if looks is not None else Looks()
        self.files = files or FileSystem()
        self._modules: dict[Path, SourceModule | None] = {}
        self._places: dict[tuple[str, str], Path | None] = {}
        self._packages: dict[Path, tuple[Path, str]] = {}
        self._matching: dict[tuple[Path, str], bool] = {}
        self._kept_bytes = 0
        self._texts = Texts(self)
        self._importers = Importers(self)
        # What analyses of the project's modules have worked out so far.
        self.memory: Memory = {}

    # -- questions ---------------------------------------------------------------------------------------------------

    def holds(self, question: Question, before: Answer) -> bool:
        """Whether a question that was asked in an earlier run is answered the same now."""
        kind, *words = question
        if before.basis and before.basis == _BASES[kind](self, *words):
            return True
        return before.text == _ANSWERS[kind](self, *words)

    def _note(self, asking: Path, question: Question) -> None:
        """Remembers that a file's findings may hang on a question."""
        spelt = str(asking)
        if not self.looks.has(spelt, question):
            known = self.looks.answers.get(question)
            if known is None:
                kind, *words = question
                basis = _BASES[kind](self, *words) if kind in _BASES else ""
                known = Answer(_ANSWERS[kind](self, *words), basis)
            self.looks.note(spelt, question, known)

    # -- names -------------------------------------------------------------------------------------------------------

    def name_of(self, path: Path) -> tuple[Path, str]:
        """(import root, dotted name) of a file, by the packages that it stands in."""
        folder = path.parent
        self._note(path, ("package", str(folder)))
        root, package = self._package(folder)
        if not package:
            # Namespace packages: the nearest settings root above tells the name.
            for base in self.roots:
                if folder != base and folder.is_relative_to(base):
                    package, root = ".".join(folder.relative_to(base).parts), base
                    break
        if path.stem == "__init__":
            return root, package
        return root, f"{package}.{path.stem}" if package else path.stem

    def _package(self, folder: Path) -> tuple[Path, str]:
        """(import root, dotted name) of the package that a folder is; the folder and "" where it is none."""
        known = self._packages.get(folder)
        if known is None:
            parts: list[str] = []
            root = folder
            while self.files.is_file(root / "__init__.py") and root.parent != root:
                parts.append(root.name)
                root = root.parent
            known = self._packages[folder] = (root, ".".join(reversed(parts)))
        return known

    def find(self, name: str, asking: Path) -> SourceModule | None:
        """The parsed module of that dotted name as `asking` would import it, or None outside the project."""
        location = self.locate(name, asking)
        return self.load(location, asking) if location else None

    def locate(self, name: str, asking: Path) -> Path | None:
        """The file of that dotted name, or None."""
        self._note(asking, ("place", name, str(asking.parent)))
        return self._place(name, asking.parent)

    def _place(self, name: str, folder: Path) -> Path | None:
        # Folders without packages may each have a module of that name.
        key = (name, str(folder))
        if key not in self._places:
            root, package = self._package(folder)
            root = root if package else self._base(folder)
            self._places[key] = self._search(name, [root, folder, *self.roots])
        return self._places[key]

    def base_of(self, path: Path) -> Path:
        """The import root of a file."""
        root, package = self._package(path.parent)
        return root if package else self._base(path.parent)

    def _base(self, folder: Path) -> Path:
        """The settings' root that the files of a folder without a package are named from, else the folder."""
        return next((base for base in self.roots if folder != base and folder.is_relative_to(base)), folder)

    def _search(self, name: str, roots: Iterable[Path]) -> Path | None:
        relative = name.replace(".", "/")
        first = name.split(".", 1)[0]
        for root in dict.fromkeys(roots):
            if not self._has(root, first):
                continue
            for candidate in (root / f"{relative}.py", root / relative / "__init__.py"):
                if self.files.is_file(candidate):
                    return candidate
        return None

    def _has(self, root: Path, first: str) -> bool:
        """Whether a folder has a folder or a module of that name."""
        return self.files.is_folder(f"{root}/{first}") or self.files.is_file(f"{root}/{first}.py")

    def is_outside(self, first: str, asking: Path) -> bool:
        """Whether no name that begins so leads into the project from a file."""
        self._note(asking, ("outside", first, str(asking.parent)))
        return self._is_outside(first, asking.parent)

    def _is_outside(self, first: str, folder: Path) -> bool:
        root, _ = self._package(folder)
        return not any(self._has(base, first) for base in (root, self._base(folder), folder, *self.roots))

    # -- modules -----------------------------------------------------------------------------------------------------

    def load(self, path: Path, asking: Path) -> SourceModule | None:
        """The parsed module at a path, for a file that asks; None when it can't be read or parsed."""
        self.looks.note_read(str(asking), str(path))
        if path in self._modules:
            return self._modules[path]
        if self._kept_bytes > MAX_BYTES_OF_ONE_FILE:
            self.forget()
        module = self._modules[path] = self._read(path)
        self._kept_bytes += len(module.text) if module is not None else 0
        return module

    def forget_if_full(self) -> None:
        """Makes room before the next file, where much is kept of the last ones."""
        if self._kept_bytes > MAX_KEPT_BYTES:
            self.forget()

    def forget(self) -> None:
        """Drops all modules at once, for what was worked out of one refers to others."""
        for module in self._modules.values():
            if module is not None:
                # What refers to itself in circles waits for the collector, and that looks at everything there is.
                module.close()
        self._modules.clear()
        self.memory.clear()
        self.memory = {}
        self._kept_bytes = 0
        gc.collect()

    def _read(self, path: Path) -> SourceModule | None:
        try:
            raw = self.read(path, path)
            if len(raw) > MAX_MODULE_BYTES:
                return None
            encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
            text = raw.decode(encoding)
            return self.module(path, text, parse(text))
        except (OSError, SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
            return None

    def read(self, path: Path, asking: Path) -> bytes:
        """The bytes of a file, for a file that asks; raises OSError."""
        digest = NO_TEXT
        try:
            raw = self.files.read(path)
            digest = digest_of(raw)
        finally:
            self.looks.note(str(asking), ("text", str(path)), Answer(digest))
        return raw

    def note_text(self, path: Path, asking: Path) -> None:
        """Remembers that what a file holds was looked at, now or before, for a file that asks."""
        self._note(asking, ("text", str(path)))

    def module(self, path: Path, text: str, tree: ast.Module) -> SourceModule:
        """The model of a text that was read and parsed elsewhere."""
        from devlint.placement.sources import SourceModule

        _, name = self.name_of(path)
        return SourceModule(str(path), text, tree, name, path.stem == "__init__")

    def names_from(self, path: Path, text: str, pattern: re.Pattern[bytes]) -> set[str]:
        """The names that a file imports from project modules whose text matches a pattern; told without parsing."""
        names: set[str] = set()
        for match in import_pattern().finditer(text):
            module = match["module"] or match["plain"]
            location = self.locate(self._absolute(module, path), path)
            if location is not None and location != path and self.matches(location, pattern, path):
                names |= _imported(match["names"]) if match["names"] else {match["alias"] or module.split(".")[0]}
        return names

    def imports_of(self, path: Path) -> set[Path]:
        """The project's files that a file imports, told without parsing it."""
        found: set[Path] = set()
        for match in import_pattern().finditer(self.files.import_statements(path)):
            module = self._absolute(match["module"] or match["plain"], path)
            # `from package import module` names a module as well.
            names = [f"{module}.{name}" for name in _imported(match["names"], original=True)] if match["names"] else []
            located = (self._place(name, path.parent) for name in [module, *names] if name)
            found.update(location.resolve() for location in located if location is not None)
        return found

    def importers_of(self, path: Path) -> list[Path]:
        """The few files that import a file."""
        self._note(path, ("importers", str(path)))
        return self._importers.of(path)

    def files_around(self, path: Path, limit: int) -> list[Path]:
        """The project's files; none where there are more than `limit`."""
        return self._texts.files_around(path, limit)

    def texts_match(self, pattern: str, asking: Path) -> bool:
        """Whether another file of the project than `asking` matches, or the project is too large to tell."""
        self._note(asking, ("texts", pattern, str(asking)))
        return self._texts.match(asking, pattern)

    def _absolute(self, module: str, path: Path) -> str:
        stripped = module.lstrip(".")
        level = len(module) - len(stripped)
        if not level:
            return module
        _, name = self.name_of(path)
        package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        base = package[: len(package) - level + 1] if level > 1 else package
        return ".".join([*base, *([stripped] if stripped else [])])

    def matches(self, path: Path, pattern: re.Pattern[bytes], asking: Path) -> bool:
        """Whether a file's text matches a pattern, for a file that asks."""
        self._note(asking, ("matches", str(path), pattern.pattern.decode()))
        return self._matches(path, pattern.pattern.decode())

    def _matches(self, path: Path, pattern: str) -> bool:
        key = (path, pattern)
        if key not in self._matching:
            try:
                self._matching[key] = re.search(pattern.encode(), self.files.read(path)) is not None
            except OSError:
                self._matching[key] = False
        return self._matching[key]


# How each kind of question is answered, from its words.
_ANSWERS: dict[str, Callable[..., str]] = {
    "package": lambda project, folder: "\0".join(map(str, project._package(Path(folder)))),
    "place": lambda project, name, folder: str(project._place(name, Path(folder)) or ""),
    "outside": lambda project, first, folder: str(project._is_outside(first, Path(folder))),
    "text": lambda project, path: project.files.digest(Path(path)),
    "matches": lambda project, path, pattern: str(project._matches(Path(path), pattern)),
    "importers": lambda project, path: "\0".join(map(str, project._importers.of(Path(path)))),
    "texts": lambda project, pattern, path: str(project._texts.match(Path(path), pattern)),
}
# What is quickly told, and while it is the same, the answer is.
_BASES: dict[str, Callable[..., str]] = {
    "matches": lambda project, path, pattern: project.files.digest(Path(path)),
    "importers": lambda project, path: project._importers.basis(Path(path)),
    "texts": lambda project, pattern, path: project._texts.basis(Path(path)),
}


def _imported(names: str, *, original: bool = False) -> set[str]:
    """The names that the part of a statement after `import` binds, or those that it asks for."""
    without_comments = re.sub(r"#[^\n]*", "", names)
    parts = (part.split() for part in without_comments.strip("() \n").replace("\\", "").split(","))
    return {words[0 if original else -1] for words in parts if words and words[-1].isidentifier()}
