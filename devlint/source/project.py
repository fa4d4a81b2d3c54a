"""The project around a file: finds and parses what it imports, on demand, without running any of it."""

from __future__ import annotations

import ast
import gc
import io
import sys
import tokenize
import warnings
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from devlint.source.filesystem import FileSystem
from devlint.source.looks import Looks
from devlint.source.questions import Questions
from devlint.source.shallow import make_shallow

if TYPE_CHECKING:
    from devlint.source.modules import SourceModule

# Source text of which is kept per process what was read and understood: some hundred times the memory of the text. Beyond it goes
# what was linted and no other file has asked for.
MAX_KEPT_BYTES = 2_500_000
# But not before that makes so much of it: where others are shared, all else would be a file or two each time.
_WORTHWHILE = 0.04
# Beyond this goes all. What a library's files have in common is some megabytes: read again for each of them, it takes most of the time.
MAX_SHARED_BYTES = 6_000_000
# As much is kept for one file that imports all of it.
MAX_BYTES_OF_ONE_FILE = 20_000_000
# Larger modules are generated tables; what they define is left unknown.
MAX_MODULE_BYTES = 1_500_000
# So many objects more than usual that nobody freed may be what still refers to itself in circles.
_MANY_OBJECTS = 300_000


def parse(text: str) -> ast.Module:
    """The tree of a source text, nowhere too deep to be read; without the warnings that Python gives on old escapes.

    Raises SyntaxError (ValueError for null bytes, RecursionError or MemoryError for absurd nesting).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_shallow(ast.parse(text), text)
    finally:
        if was_enabled:
            gc.enable()


@runtime_checkable
class Closing(Protocol):
    """What refers to itself in circles, until it is closed."""

    def close(self) -> None: ...


@runtime_checkable
class Forgetting(Protocol):
    """What can let go of some files alone."""

    def forget(self, *sources: SourceModule) -> None: ...


class Project(Questions):
    """Resolves dotted names to parsed modules under the import roots, and answers questions about the texts around them."""

    # So many objects are left in the process when all of one is dropped, the fewest by now: code, and what is kept anyway.
    _usual_count: ClassVar[int] = sys.maxsize

    def __init__(self, roots: Iterable[Path] = (), looks: Looks | None = None, files: FileSystem | None = None) -> None:
        super().__init__(roots, looks, files)
        self._modules: dict[Path, SourceModule | None] = {}
        # The files that were linted, and those that another one has asked for.
        self._passed: set[Path] = set()
        self._asked_for: set[Path] = set()
        # The module that is linted, if others import it.
        self._linted: SourceModule | None = None
        self.kept_bytes = 0
        # Whether that was too much for the file at hand, and all was dropped once.
        self._made_room = False
        # What analyses of the project's modules have worked out so far.
        self.memory: dict[Hashable, object] = {}

    def find(self, name: str, asking: Path, user: Path | None = None) -> SourceModule | None:
        """The parsed module of that dotted name as `asking` would import it, or None outside the project.

        `user` is the file whose findings hang on it, where that is another one.
        """
        location = self.locate(name, asking, user)
        return self.load(location, user or asking) if location else None

    def may_bring(self, name: str, word: str, asking: Path, user: Path) -> bool:
        """Whether the module of a dotted name may bind a word, or bring it by a star: told from its text, without parsing it."""
        location = self.locate(name, asking, user)
        return location is not None and self.brings(location, word, user)

    @property
    def loaded(self) -> frozenset[Path]:
        """The files that were read by now."""
        return frozenset(self._modules)

    def load(self, path: Path, asking: Path) -> SourceModule | None:
        """The parsed module at a path, for a file that asks; None when it can't be read or parsed."""
        self.looks.note_read(str(asking), str(path))
        if path != asking:
            self._asked_for.add(path)
        if path in self._modules:
            return self._modules[path]
        if self.kept_bytes > MAX_BYTES_OF_ONE_FILE:
            if self._made_room:
                # Read again and again, what comes next would take the place of what came before, without end.
                return None
            self.forget()
            self._made_room = True
        module = self._modules[path] = self._read(path)
        self.kept_bytes += len(module.text) if module is not None else 0
        return module

    def shared(self, path: Path, text: str) -> SourceModule | None:
        """The module of a file that is linted, where that was read for others by now; None where it held another text."""
        known = self._modules.get(path)
        # How a file was read that was linted already isn't kept.
        is_new = known is not None and known.text == text and path not in self._passed
        self._linted = known if is_new else None
        return self._linted

    def share(self, path: Path, module: SourceModule) -> None:
        """Takes the module of a file that is linted for those that import it."""
        if len(module.text) <= MAX_MODULE_BYTES:
            self._linted = self._modules[path] = module

    def has_text(self, path: Path, digest: str) -> bool:
        """Whether a file holds what has that digest."""
        return bool(digest) and self._files.digest(path) == digest

    def is_shared(self, module: SourceModule) -> bool:
        """Whether that is the module which others import."""
        return self._modules.get(module.file) is module

    def drop(self, path: Path) -> None:
        """Forgets the module of a file, which holds something else by now, and what was worked out of it for others."""
        if path in self._asked_for:
            self.make_room()
        self._modules.pop(path, None)

    def forget_if_full(self) -> None:
        """Makes room before the next file, where much is kept of the last ones, or not all was read that the last one asks for."""
        if self.kept_bytes > MAX_KEPT_BYTES:
            self._forget_unasked()
        if self._made_room or self.kept_bytes > MAX_SHARED_BYTES:
            self.make_room()

    def _forget_unasked(self) -> None:
        """Lets go of the files that were linted and that no other one has asked for: what is kept of the others stays."""
        self._linted = None
        unasked = {
            path: self._modules[path] for path in sorted(self._passed - self._asked_for) if path in self._modules
        }
        gone = [module for module in unasked.values() if module is not None]
        if sum(len(module.text) for module in gone) <= MAX_KEPT_BYTES * _WORTHWHILE:
            # All that is kept is gone through for it.
            return
        for path in unasked:
            del self._modules[path]
        for known in self.memory.values():
            if isinstance(known, Forgetting):
                known.forget(*gone)
        for module in gone:
            module.close()
            self.kept_bytes -= len(module.text)

    def make_room(self) -> None:
        """Lets go of what was read, where no file is at work."""
        self._linted = None
        self.forget()
        self._made_room = False

    def passed(self, path: Path, text: str) -> None:
        """A file was linted: what was worked out of others for it stays, in proportion to its text."""
        self._passed.add(path)
        self.kept_bytes += len(text)

    def forget(self) -> None:
        """Drops all modules at once, for what was worked out of one refers to others."""
        # What refers to itself in circles waits for the collector, and that looks at everything there is.
        for known in (*self.memory.values(), *self._modules.values()):
            if isinstance(known, Closing) and known is not self._linted:
                known.close()
        self._modules.clear()
        self._passed.clear()
        self._asked_for.clear()
        self.memory.clear()
        self.memory = {}
        self.kept_bytes = 0
        count = gc.get_count()[0]
        Project._usual_count = min(count, Project._usual_count)
        if count - Project._usual_count > _MANY_OBJECTS:
            gc.collect()
            Project._usual_count = gc.get_count()[0]

    def _read(self, path: Path) -> SourceModule | None:
        try:
            raw = self.read(path, path)
            if len(raw) > MAX_MODULE_BYTES:
                return None
            return self.module(path, *self.parsed(path, raw))
        except (OSError, SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
            return None

    def parsed(self, path: Path, raw: bytes) -> tuple[str, ast.Module]:
        """The text and the tree of a file that holds `raw`, of a notebook those of its cells; raises what decoding and `parse` raise."""
        if path.suffix == ".ipynb":
            from devlint.disk import FileError
            from devlint.notebooks import read_notebook

            try:
                text = read_notebook(raw.decode("utf-8"))[1]
            except FileError as error:
                raise ValueError(str(error)) from None
            return text, parse(text)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        text = raw.decode(encoding)
        return text, parse(text)

    def module(self, path: Path, text: str, tree: ast.Module) -> SourceModule:
        """The model of a text that was read and parsed elsewhere."""
        from devlint.source.modules import SourceModule
        from devlint.source.slim import slimmed

        _, name = self.name_of(path)
        return SourceModule(str(path), text, slimmed(tree), name, path.stem == "__init__")
