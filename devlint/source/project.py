"""The project around a file: finds and parses what it imports, on demand, without running any of it."""

from __future__ import annotations

import ast
import gc
import io
import tokenize
import warnings
from collections.abc import Hashable, Iterable
from pathlib import Path

from devlint.disk import read_bytes
from devlint.source.importers import Importers
from devlint.source.modules import SourceModule
from devlint.source.roots import ImportRoots
from devlint.source.texts import Texts

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
        self.roots = ImportRoots(roots)
        self.texts = Texts(self.roots)
        self.importers = Importers(self.roots, self.texts)
        self._modules: dict[Path, SourceModule | None] = {}
        self._kept_bytes = 0
        # What analyses of the project's modules have worked out so far.
        self.memory: dict[Hashable, object] = {}

    def find(self, name: str, asking: Path) -> SourceModule | None:
        """The parsed module of that dotted name as `asking` would import it, or None outside the project."""
        location = self.roots.locate(name, asking)
        return self.load(location) if location else None

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
            encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
            text = raw.decode(encoding)
            return self.module(path, text, parse(text))
        except (OSError, SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
            return None

    def module(self, path: Path, text: str, tree: ast.Module) -> SourceModule:
        """The model of a text that was read and parsed elsewhere."""
        _, name = self.roots.name_of(path)
        return SourceModule(str(path), text, tree, name, path.stem == "__init__")
