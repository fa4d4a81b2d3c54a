"""Findings that a change brings: on the lines that it touches, and elsewhere where they weren't before.

The change is linted together with the files that depend on it, and what they come to is compared with the same files of
the revision before, linted under the same settings.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from devlint.adoption.git import Change, Repository
from devlint.adoption.marks import mark_of, sift
from devlint.disk import FileError
from devlint.files import Source, Target, read_source
from devlint.findings import Finding
from devlint.reports import FileResult
from devlint.settings import Settings
from devlint.source.roots import ImportRoots

Lint = Callable[[Sequence[Target]], list[FileResult]]


@dataclass(frozen=True)
class Changed:
    """A change, from `revision` to the files under `top`."""

    repository: Repository
    revision: str
    # By the real path of each file that is there now.
    files: dict[Path, Change]
    # The repository's top, or the folder that what would be committed was written to.
    top: Path

    @staticmethod
    def read(repository: Repository, revision: str, top: Path, *, staged: bool) -> Changed:
        """The change up to now; raises GitError."""
        changes = repository.changes(revision, staged=staged)
        return Changed(repository, revision, {top / c.path: c for c in changes if c.path is not None}, top)

    def concerned(self, targets: Sequence[Target]) -> list[Target]:
        """The targets that the change touches, those that depend on it, and those that it calls: it may call them anew."""
        wanted = _depending(targets, set(self.files))
        # Who changes a file speaks of it.
        return [
            replace(target, is_named=target.is_named or _real(target.path) in self.files)
            for target in targets
            if _real(target.path) in wanted
        ]

    def brought(self, results: Sequence[FileResult], targets: Sequence[Target], lint: Lint) -> set[int]:
        """The ids of the findings that the change brings, among those of the targets that it concerns."""
        by_display = {target.display: target for target in targets}
        brought: set[int] = set()
        elsewhere: list[tuple[Target, FileResult]] = []
        for result in results:
            target = by_display[result.display]
            touched = self._touched(target, result.source)
            here = [f for f in result.findings if touched is None or _is_on(f, touched)]
            brought |= {id(finding) for finding in here}
            if len(here) < len(result.findings):
                elsewhere.append((target, result))
        return brought | self._caused(elsewhere, lint)

    def _caused(self, elsewhere: Sequence[tuple[Target, FileResult]], lint: Lint) -> set[int]:
        """The ids of the findings that weren't there before."""
        if not elsewhere:
            return set()
        with tempfile.TemporaryDirectory(prefix="devlint-") as folder:
            past = Path(os.path.realpath(folder))
            self.repository.export(self.revision, past)
            then = [self._then(target, past) for target, _ in elsewhere]
            before = {result.display: result for result in lint([t for t in then if t.path.is_file()])}
        new: set[int] = set()
        for target, result in elsewhere:
            was = before.get(target.display)
            old = [mark_of(f, was.source, target.display) for f in was.findings] if was is not None else []
            now = [(mark_of(f, result.source, target.display), f) for f in result.findings]
            marks = {id(mark) for mark in sift([mark for mark, _ in now], old, lambda _: False).new}
            new |= {id(finding) for mark, finding in now if id(mark) in marks}
        return new

    def _then(self, target: Target, past: Path) -> Target:
        """A target as it was, in the folder that the past was written to, under the settings of now."""
        path = _real(target.path)
        change = self.files.get(path)
        name = change.old if change is not None and change.old is not None else self._inside(path)
        return Target(past / name, target.display, self._moved(target.settings, past), is_named=target.is_named)

    def _moved(self, settings: Settings, past: Path) -> Settings:
        def moved(path: Path) -> Path:
            inside = self._inside(path)
            return path if inside.startswith("..") else past / inside

        return replace(settings, root=moved(settings.root), src=tuple(moved(folder) for folder in settings.src))

    def _inside(self, path: Path) -> str:
        return os.path.relpath(_real(path), self.top)

    def _touched(self, target: Target, source: Source | None) -> frozenset[int] | None:
        """The lines of a target that the change touches; None for all of them."""
        change = self.files.get(_real(target.path))
        if change is None:
            return frozenset()
        if change.old is None or source is None or source.notebook is None or not target.display.endswith(".ipynb"):
            return change.lines
        return self._touched_code(target, change.old, source)

    def _touched_code(self, target: Target, old: str, now: Source) -> frozenset[int] | None:
        """The touched lines of a notebook's code, where git knows those of its JSON."""
        with tempfile.TemporaryDirectory(prefix="devlint-") as folder:
            self.repository.export(self.revision, Path(folder))
            try:
                then = read_source(Path(folder, old), target.display)
            except FileError:
                return None
        blocks = difflib.SequenceMatcher(None, then.lines, now.lines, autojunk=False).get_opcodes()
        return frozenset(n for tag, _, _, start, end in blocks if tag != "equal" for n in range(start + 1, end + 1))


def _is_on(finding: Finding, lines: frozenset[int]) -> bool:
    return not lines.isdisjoint(range(finding.span.line, finding.span.end_line + 1))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _depending(targets: Iterable[Target], changed: set[Path]) -> set[Path]:
    """The changed files, those that import one, by way of others too, and those that a changed one imports."""
    known: dict[tuple[Path, ...], ImportRoots] = {}
    importers: dict[Path, set[Path]] = defaultdict(set)
    imports: dict[Path, set[Path]] = {}
    for target in targets:
        roots = target.settings.src
        if roots not in known:
            known[roots] = ImportRoots(roots)
        path = _real(target.path)
        imports[path] = known[roots].imports_of(path)
        for imported in imports[path]:
            importers[imported].add(path)
    wanted = set(changed)
    waiting = list(changed)
    while waiting:
        found = importers[waiting.pop()] - wanted
        wanted |= found
        waiting += found
    called = {callee for path in changed for callee in imports.get(path, ())}
    # What a package re-exports is called by way of it.
    called |= {callee for path in called if path.stem == "__init__" for callee in imports.get(path, ())}
    return wanted | called
