"""Linting again whenever a file changes: `devlint --watch`.

Folders are watched, not files, since editors put a new file in the place of the old one: those of the linted files, those of
the other files under the same settings, on which findings hang as well, and the folders above them up to the settings' root.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from devlint.console import emit
from devlint.failure import INTERRUPTED, Failure
from devlint.files import SUFFIXES, Target, discover
from devlint.options import Options
from devlint.patterns import USUAL_EXCLUDES
from devlint.session import Session
from devlint.settings import FILE_NAMES, Settings, forget_files
from devlint.settings.model import BASELINE
from devlint.signals import raise_what_was_met

# The files beside the linted ones by which findings are told.
_DECIDING = (*FILE_NAMES, ".gitignore", BASELINE)
# How long a change is waited for at a time, in milliseconds.
_TICK = 100


def watch(options: Options) -> int:
    """Lints now and after each change until Ctrl-C; returns the exit code, which is that of a run that was ended so.

    Raises Failure where nothing can be watched, or the options can't be used to begin with.
    """
    # It goes on for long.
    gc.enable()
    session = Session(options)
    watched = _Watched(_scope(session))
    try:
        while True:
            click.clear()
            _run(session)
            if not options.quiet:
                emit("Watching for changes; Ctrl-C ends.\n", err=True)
            changed = watched.changed()
            forget_files()
            session = _renewed(session)
            if watched.scope.is_outgrown(changed):
                watched = _Watched(_scope(session, _below(changed) | watched.scope.folders))
    except KeyboardInterrupt:
        # watchfiles says so of each signal.
        raise_what_was_met()
        return INTERRUPTED


def _run(session: Session) -> None:
    """One run; what goes wrong may be mended before the next one."""
    try:
        session.run()
    except Failure as failure:
        failure.show()


def _renewed(session: Session) -> Session:
    """The next run, by settings as they are now."""
    try:
        return Session(session.options)
    except Failure as failure:
        failure.show()
        return session


@dataclass(frozen=True)
class _Scope:
    """The folders whose files count, and which of them do."""

    folders: frozenset[str]
    suffixes: tuple[str, ...]
    # Named by the options.
    files: frozenset[str]

    def takes(self, _change: object, path: str) -> bool:
        """Whether a change of a path is one to lint for."""
        name = os.path.basename(path)  # noqa: PTH119
        if name.endswith(self.suffixes) or name in _DECIDING or path in self.files:
            return True
        return self._is_folder(path) and name not in USUAL_EXCLUDES

    def _is_folder(self, path: str) -> bool:
        """Whether a path is a folder, or was one."""
        return path in self.folders or os.path.isdir(path)  # noqa: PTH112

    def is_outgrown(self, changed: Iterable[str]) -> bool:
        """Whether other folders count after these changes."""
        return any(path.endswith(_DECIDING) or self._is_folder(path) for path in changed)


class _Watched:
    """What is watched from now on: nothing that changes later is missed. Raises Failure."""

    def __init__(self, scope: _Scope) -> None:
        self.scope = scope
        try:
            from watchfiles import watch as changes_in
        except ImportError:
            raise Failure(
                "--watch needs watchfiles, which isn't installed here: pip install 'devlint[watch]'"
            ) from None
        self._changes: Iterator[Collection[tuple[object, str]]] = changes_in(
            *sorted(self.scope.folders),
            watch_filter=self.scope.takes,
            recursive=False,
            rust_timeout=_TICK,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        try:
            # It begins with the first look.
            next(self._changes)
        except (OSError, RuntimeError) as error:
            count = len(self.scope.folders)
            raise Failure(f"--watch: {count} folders can't be watched: {error}; name fewer") from None

    def changed(self) -> set[str]:
        """Waits for changes; returns what changed."""
        return {path for _, path in next(filter(None, self._changes))}


def _below(changed: Iterable[str]) -> set[str]:
    """The folders that came, in which there may be nothing yet."""
    found = set()
    for path in changed:
        for folder, inside, _ in os.walk(path):
            inside[:] = [name for name in inside if name not in USUAL_EXCLUDES]
            found.add(folder)
    return found


def _scope(session: Session, also: Iterable[str] = ()) -> _Scope:
    """What a run hangs on, and other folders."""
    options = session.options
    named = [Path(os.path.abspath(path)) for path in options.paths or (".",)]  # noqa: PTH100
    targets = _targets(session, named)
    targets += _targets(session, sorted({t.settings.root for t in targets if _is_project(t.settings)}))
    files = [path.absolute() for path in (session.asked.config, options.baseline, options.evidence) if path is not None]
    folders = {Path.cwd(), *map(Path, also), *(path.parent for path in files)}
    folders |= {path if path.is_dir() else path.parent for path in named}
    for target in targets:
        root = target.settings.root
        inside = target.path.is_relative_to(root)
        folders |= {up for up in target.path.parents if up.is_relative_to(root)} if inside else {target.path.parent}
    there = {str(folder) for folder in folders if folder.is_dir()}
    suffixes = {*SUFFIXES, *(target.path.suffix for target in targets if target.path.suffix)}
    return _Scope(frozenset(there), tuple(suffixes), frozenset(map(str, files)))


def _is_project(settings: Settings) -> bool:
    """Whether somebody says that what lies below the root belongs together: it may be a home."""
    return settings.origin is not None or (settings.root / ".git").exists()


def _targets(session: Session, paths: list[Path]) -> list[Target]:
    found = discover(paths, session.asked.settings_for, force_exclude=session.options.force_exclude)
    return [item for item in found if isinstance(item, Target)]
