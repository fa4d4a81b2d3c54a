"""The project around a file: finds and parses what it imports, on demand, without running any of it."""

from __future__ import annotations

import ast
import gc
import io
import os
import re
import tokenize
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.disk import read_bytes
from devlint.placement.importers import Importers
from devlint.placement.sources import SourceModule
from devlint.placement.texts import Texts, read

if TYPE_CHECKING:
    from devlint.placement.memory import Memory

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
    """Resolves dotted names to parsed modules under the import roots."""

    def __init__(self, roots: Iterable[Path] = ()) -> None:
        self.roots = [Path(os.path.realpath(r)) for r in roots]
        self._modules: dict[Path, SourceModule | None] = {}
        self._places: dict[tuple[str, str], Path | None] = {}
        self._searched: dict[tuple[Path, bytes], bool] = {}
        self._packages: dict[Path, tuple[Path, str]] = {}
        self._kept_bytes = 0
        self.texts = Texts(self)
        self.importers = Importers(self)
        # What analyses of the project's modules have worked out so far.
        self.memory: Memory = {}

    def name_of(self, path: Path) -> tuple[Path, str]:
        """(import root, dotted name) of a file, by the packages that it stands in."""
        folder = path.parent
        known = self._packages.get(folder)
        if known is None:
            parts: list[str] = []
            root = folder
            while (root / "__init__.py").is_file() and root.parent != root:
                parts.append(root.name)
                root = root.parent
            known = self._packages[folder] = (root, ".".join(reversed(parts)))
        root, package = known
        if not package:
            # Namespace packages: the nearest settings root above tells the name.
            for base in self.roots:
                if folder != base and folder.is_relative_to(base):
                    package, root = ".".join(folder.relative_to(base).parts), base
                    break
        if path.stem == "__init__":
            return root, package
        return root, f"{package}.{path.stem}" if package else path.stem

    def find(self, name: str, asking: Path) -> SourceModule | None:
        """The parsed module of that dotted name as `asking` would import it, or None outside the project."""
        location = self.locate(name, asking)
        return self.load(location) if location else None

    def locate(self, name: str, asking: Path) -> Path | None:
        """The file of that dotted name, or None."""
        # Folders without packages may each have a module of that name.
        key = (name, str(asking.parent))
        if key not in self._places:
            root, _ = self.name_of(asking)
            self._places[key] = self._search(name, [root, asking.parent, *self.roots])
        return self._places[key]

    def _search(self, name: str, roots: Iterable[Path]) -> Path | None:
        relative = name.replace(".", "/")
        for root in dict.fromkeys(roots):
            first = root / name.split(".", 1)[0]
            if not first.is_dir() and not first.with_suffix(".py").is_file():
                continue
            for candidate in (root / f"{relative}.py", root / relative / "__init__.py"):
                if candidate.is_file():
                    return candidate
        return None

    @property
    def loaded(self) -> frozenset[Path]:
        """The files that were read by now."""
        return frozenset(self._modules)

    def load(self, path: Path) -> SourceModule | None:
        """The parsed module at a path; None when it can't be read or parsed."""
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
            raw = read_bytes(path)
            if len(raw) > MAX_MODULE_BYTES:
                return None
            return self.module(path, *self.parsed(path, raw))
        except (OSError, SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
            return None

    def parsed(self, path: Path, raw: bytes) -> tuple[str, ast.Module]:
        """The text and the tree of a file that holds `raw`; raises what decoding and `parse` raise."""
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        text = raw.decode(encoding)
        return text, parse(text)

    def module(self, path: Path, text: str, tree: ast.Module) -> SourceModule:
        """The model of a text that was read and parsed elsewhere."""
        _, name = self.name_of(path)
        return SourceModule(str(path), text, tree, name, path.stem == "__init__")

    def names_from(self, path: Path, text: str, pattern: re.Pattern[bytes]) -> set[str]:
        """The names that a file imports from project modules whose text matches a pattern; told without parsing."""
        names: set[str] = set()
        for match in _IMPORT.finditer(text):
            module = match["module"] or match["plain"]
            location = self.locate(self._absolute(module, path), path)
            if location is not None and location != path and self._matches(location, pattern):
                names |= _imported(match["names"]) if match["names"] else {match["alias"] or module.split(".")[0]}
        return names

    def import_statements(self, path: Path) -> str:
        """The import statements of a file, told without parsing it."""
        text = read(path).decode("utf-8", "replace")
        return "\n".join(match[0] for match in _IMPORT.finditer(text))

    def imports_of(self, path: Path) -> set[Path]:
        """The project's files that a file imports, told without parsing it."""
        found: set[Path] = set()
        for match in _IMPORT.finditer(self.import_statements(path)):
            module = self._absolute(match["module"] or match["plain"], path)
            # `from package import module` names a module as well.
            names = [f"{module}.{name}" for name in _imported(match["names"], original=True)] if match["names"] else []
            located = (self.locate(name, path) for name in [module, *names] if name)
            found.update(location.resolve() for location in located if location is not None)
        return found

    def _absolute(self, module: str, path: Path) -> str:
        stripped = module.lstrip(".")
        level = len(module) - len(stripped)
        if not level:
            return module
        _, name = self.name_of(path)
        package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        base = package[: len(package) - level + 1] if level > 1 else package
        return ".".join([*base, *([stripped] if stripped else [])])

    def _matches(self, path: Path, pattern: re.Pattern[bytes]) -> bool:
        key = (path, pattern.pattern)
        if key not in self._searched:
            try:
                self._searched[key] = pattern.search(read_bytes(path)) is not None
            except OSError:
                self._searched[key] = False
        return self._searched[key]


_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]*(?P<names>\([^()]*\)|[^\s#;(][^\n#;]*)|import[ \t]+(?P<plain>[\w.]+)(?:[ \t]+as[ \t]+(?P<alias>\w+))?)",
    re.MULTILINE,
)


def _imported(names: str, *, original: bool = False) -> set[str]:
    """The names that the part of a statement after `import` binds, or those that it asks for."""
    without_comments = re.sub(r"#[^\n]*", "", names)
    parts = (part.split() for part in without_comments.strip("() \n").replace("\\", "").split(","))
    return {words[0 if original else -1] for words in parts if words and words[-1].isidentifier()}
