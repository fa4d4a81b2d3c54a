"""Which results of earlier runs still hold, and what is kept of this one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.cache.identity import identity_of
from devlint.cache.seen import Seen
from devlint.cache.shapes import data_of, finding_of, untold_of
from devlint.cache.store import Entry, Rows, Store, name_of
from devlint.disk import digest_of
from devlint.reports import FileResult
from devlint.source.filesystem import FileSystem
from devlint.source.looks import UNSETTLED, Answer, Looks, Question

if TYPE_CHECKING:
    from devlint.files import Target
    from devlint.rule import Registry
    from devlint.settings import Settings
    from devlint.source.project import Project


class Results:
    """The results that a cache holds, for one run."""

    def __init__(self, database: Path, registry: Registry) -> None:
        self._store = Store(database)
        self._identity, self._sources = identity_of(registry, self._store.identity)
        self.facts = self._store.facts()
        self._files = FileSystem(self.facts)
        self._settings: dict[Settings, str] = {}
        # What was answered anew since the results were kept: before this run, and in it.
        self._latest: dict[int, Answer] | None = None
        self._answered: dict[int, Answer] = {}
        # How many results were known.
        self.held = 0

    def known(self, targets: Sequence[Target]) -> dict[str, FileResult]:
        """The results of earlier runs that still hold, by the path as the user gave it."""
        keys = {self._key(target): target for target in targets}
        rows = self._store.rows([*keys])
        checks: dict[tuple[Path, ...], _Check] = {}
        found: dict[str, FileResult] = {}
        for key, entry in rows.entries.items():
            target = keys[key]
            roots = target.settings.src
            if roots not in checks:
                checks[roots] = _Check(self._project(roots), rows)
            if all(map(checks[roots].record, entry.records)):
                result = self._result(target, entry)
                if result is not None:
                    found[target.display] = result
        self.held = len(found)
        return found

    def _project(self, roots: tuple[Path, ...]) -> Project:
        from devlint.source.project import Project

        project = Project(roots, files=self._files)
        project.goes_by(_Answered(self, roots))
        return project

    def latest(self, name: int) -> Answer | None:
        """What a question was answered last, where that was after the results were kept that hang on it."""
        if self._latest is None:
            self._latest = self._store.latest()
        return self._latest.get(name)

    def answered(self, name: int, answer: Answer) -> None:
        """Takes in what a question was answered in this run, for the next one."""
        self._answered[name] = answer

    def _result(self, target: Target, entry: Entry) -> FileResult | None:
        """The kept result; None where it can't be used after all."""
        from devlint.disk import FileError
        from devlint.files import read_source

        try:
            told, untold = json.loads(entry.findings)
            findings, left = tuple(map(finding_of, told)), untold_of(untold)
            if not findings:
                return FileResult(target.display, untold=left)
            source = read_source(target.path, target.display, target.settings.max_file_size)
        except (ValueError, TypeError, FileError):
            return None
        # It may have been changed since it was found to be as it was.
        held = self._files.digest(target.path)
        return FileResult(target.display, findings, source, untold=left) if source.digest == held else None

    def keep(self, fresh: Iterable[tuple[Target, FileResult]], seen: Seen) -> None:
        """Keeps the results of a run, and what it saw."""
        rows = Rows()
        names: dict[tuple[int, str], int | None] = {}
        for target, result in fresh:
            looks = seen.looks.get(target.settings)
            if looks is None or not looks.has(str(target.path), ("text", str(target.path))):
                continue
            if result.warnings or any(finding.code == "DEV000" for finding in result.findings):
                continue
            records = []
            for path in sorted(looks.behind(str(target.path))):
                if (id(looks), path) not in names:
                    names[id(looks), path] = _record(rows, looks, path)
                records.append(names[id(looks), path])
            if None not in records:
                kept = json.dumps([[data_of(finding) for finding in result.findings], result.untold])
                rows.entries[self._key(target)] = Entry(kept, tuple(r for r in records if r is not None))
            # So that the next run need not read it.
            self._files.digest(target.path)
        facts = {path: f for path, f in (self._files.facts | seen.facts).items() if self.facts.get(path) != f}
        if rows.entries or facts or self._answered:
            self._store.write(rows, facts, self._answered, self._sources, int(time.time()))

    def _key(self, target: Target) -> str:
        """What a result hangs on beside files: how it is named, or met, from where, under which settings, by which devlint."""
        settings = self._settings.get(target.settings)
        if settings is None:
            spelt = "\0".join([repr(target.settings), os.getcwd(), self._identity])  # noqa: PTH109
            settings = self._settings[target.settings] = digest_of(spelt.encode("utf-8", "surrogatepass"))
        spelt = "\0".join([str(target.path), target.display, "named" * target.is_named, settings])
        return digest_of(spelt.encode("utf-8", "surrogatepass"))


class _Answered:
    """The answers of the last runs, and of this one, under some import roots."""

    def __init__(self, results: Results, roots: tuple[Path, ...]) -> None:
        self._results = results
        self._roots = roots

    def get(self, question: Question) -> Answer | None:
        return self._results.latest(name_of(self._roots, question))

    def put(self, question: Question, answer: Answer) -> None:
        self._results.answered(name_of(self._roots, question), answer)


class _Check:
    """Whether questions of earlier runs are answered the same in a project now, each asked once."""

    def __init__(self, project: Project, rows: Rows) -> None:
        self._project = project
        self._rows = rows
        self._records: dict[int, bool] = {}
        self._looks: dict[int, bool] = {}

    def record(self, name: int) -> bool:
        known = self._records.get(name)
        if known is None:
            looks = self._rows.records.get(name)
            known = self._records[name] = looks is not None and all(map(self._look, looks))
        return known

    def _look(self, name: int) -> bool:
        known = self._looks.get(name)
        if known is None:
            look = self._rows.looks.get(name)
            try:
                known = look is not None and self._project.holds(*look)
            except (KeyError, TypeError, ValueError):
                # No question of ours.
                known = False
            self._looks[name] = known
        return known


def _record(rows: Rows, looks: Looks, path: str) -> int | None:
    """Adds all that was asked for a file; None where files changed meanwhile."""
    asked = [(question, looks.answers[question]) for question in looks.asked.get(path, ())]
    return None if any(answer == UNSETTLED for _, answer in asked) else rows.add_record(asked)
