"""Many files: each is read, linted or fixed, and written, in several processes when that pays."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

from devlint.cache.seen import Seen
from devlint.disk import FileError, TooLargeFileError
from devlint.engine import Linter
from devlint.escapes import quoted_name
from devlint.files import Source, Target, read_source, write_source
from devlint.findings import INTERNAL_ERROR, Finding, Safety, Span
from devlint.records import record
from devlint.reports import FileResult
from devlint.rule import Registry, load_registry
from devlint.settings import Settings
from devlint.shards import chunks, size_of
from devlint.source.filesystem import FileFacts, FileSystem
from devlint.source.looks import Answer, Looks, Unkept

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

    from devlint.cache.results import Results

# So many new objects are looked through for what nobody needs any more, some 500 MB of them: twice what a project keeps.
_MANY_OBJECTS = 4_000_000
# A process for less than so many bytes costs more than it saves.
_BYTES_PER_JOB = 150_000


@record(frozen=True, slots=True)
class Plan:
    """What to do with each file."""

    fix: bool = False
    # Fixes are applied that are at least as safe.
    safety: Safety = "safe"
    # Show what --fix would change, and write nothing.
    diff: bool = False
    # The paths that the user named, links resolved: what lies elsewhere is written only with `follow_links`.
    named: tuple[str, ...] = ()
    follow_links: bool = False
    # Results are kept for later runs, and with them what they hang on.
    keeps: bool = False


# Gives the result of each target, and says in Seen what was seen of other files.
Runner = Callable[[Sequence[Target], Plan, Seen], Iterator[FileResult]]


@record
class Worker:
    """Does the plan for one file after another."""

    plan: Plan
    registry: Registry
    files: FileSystem = field(default_factory=FileSystem)
    _linters: dict[Settings, Linter] = field(default_factory=dict)
    _told: dict[Settings, Looks] = field(default_factory=dict)
    # The one that was asked for last, and those before it that keep what they read.
    _at_work: list[Linter] = field(default_factory=list)

    def linter(self, settings: Settings) -> Linter:
        """The linter for files under `settings`, made once."""
        if settings not in self._linters:
            looks = Looks() if self.plan.keeps else Unkept()
            self._linters[settings] = Linter(settings, self.registry, self.files, looks)
        linter = self._linters[settings]
        if not self._at_work or linter is not self._at_work[-1]:
            self._at_work = [other for other in self._at_work if other is not linter]
            if self._at_work:
                self._leave_room()
            self._at_work.append(linter)
        return linter

    def _leave_room(self) -> None:
        """Lets go of what was read under other settings, but for what may be kept under one: there may be many."""
        from devlint.source.project import MAX_KEPT_BYTES

        while sum(linter.kept_bytes for linter in self._at_work) > MAX_KEPT_BYTES:
            self._at_work.pop(0).make_room()

    def seen(self) -> Seen:
        """What was seen of other files since this was asked last."""
        looks = {
            settings: linter.looks.since(self._told.setdefault(settings, Looks()))
            for settings, linter in self._linters.items()
        }
        return Seen(looks, self.files.new_facts())

    def run(self, target: Target) -> FileResult:
        """Does the plan for a file; whatever goes wrong becomes a DEV000 finding."""
        try:
            source = read_source(target.path, target.display, target.settings.max_file_size)
        except TooLargeFileError as error:
            return self.passed_over(target.display, str(error))
        except FileError as error:
            return self.failed(target.display, str(error))
        self.linter(target.settings).looks.note(str(target.path), ("text", str(target.path)), Answer(source.digest))
        source.is_named = target.is_named
        result, fixed = self.run_source(source, target.settings)
        if self.plan.fix and not self.plan.diff and fixed is not source:
            return self._written(target, source, fixed, result)
        return result

    def _written(self, target: Target, source: Source, fixed: Source, result: FileResult) -> FileResult:
        """The result once the fixed source is in its file's place; what was found before, where it can't be put there."""
        try:
            real = self.put(target, source, fixed)
        except FileError as error:
            failed = self.failed(target.display, str(error))
            return replace(failed, findings=(*failed.findings, *self._findings(source, target.settings)), source=source)
        if real != str(target.path) and os.path.islink(target.path):  # noqa: PTH114
            return replace(result, warnings=(f"{target.display}: is a link: {real} was changed",))
        return result

    def put(self, target: Target, before: Source, after: Source) -> str:
        """Puts a source in its file's place, and returns where that is; raises FileError where it isn't to be."""
        real = self._place_of(target)
        write_source(after, before)
        self.linter(target.settings).project().drop(target.path)
        return real

    def _findings(self, source: Source, settings: Settings) -> tuple[Finding, ...]:
        return replace(self, plan=Plan()).run_source(source, settings)[0].findings

    def _place_of(self, target: Target) -> str:
        """Where a target's file really is; raises FileError where it isn't ours to write without being told."""
        real = os.path.realpath(target.path)
        if self.plan.follow_links:
            return real
        if not any(real == path or real.startswith(path.rstrip(os.sep) + os.sep) for path in self.plan.named):
            raise FileError(
                f"is a link out of the named paths, to {real}, which is left alone; name it, or --follow-links"
            )
        try:
            names = os.stat(real).st_nlink  # noqa: PTH116
        except OSError as error:
            raise FileError(f"can't be written: {error.strerror or error}") from None
        if names > 1:
            raise FileError(f"has {names} names (hard links), which would all change; --follow-links lets it")
        return real

    def run_source(self, source: Source, settings: Settings) -> tuple[FileResult, Source]:
        """Does the plan for a source without writing it; the second value is the fixed source, or the same one."""
        try:
            return self._run(source, settings)
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            if os.environ.get("DEVLINT_DEBUG"):
                raise
            return self.failed(source.display, _internal(said)), source

    def _run(self, source: Source, settings: Settings) -> tuple[FileResult, Source]:
        linter = self.linter(settings)
        if not (self.plan.fix or self.plan.diff):
            findings = tuple(linter.check(source))
            shown, remarks = source if findings else None, source.remarks
            return FileResult(source.display, findings, shown, warnings=remarks, untold=linter.untold), source
        # Imported here because it brings LibCST.
        from devlint.fixer import fix

        outcome = fix(source, linter, safety=self.plan.safety)
        findings, fixed = tuple(outcome.remaining), outcome.source if outcome.applied else source
        diff = unified_diff(source, fixed) if self.plan.diff and fixed is not source else ""
        return FileResult(
            source.display, findings, fixed if findings else None, tuple(outcome.applied), diff, source.remarks
        ), fixed

    def failed(self, display: str, reason: str) -> FileResult:
        """The result of a file that couldn't be linted."""
        rule = self.registry.outline("DEV000")
        name = rule.name if rule else "failed"
        return FileResult(display, (Finding("DEV000", name, reason, display, Span(1, 1, 1, 1)),))

    def passed_over(self, display: str, reason: str) -> FileResult:
        """The result of a file that nothing is found in because it isn't looked at."""
        return FileResult(display, warnings=(f"{display}: {reason}",))


def _internal(said: str) -> str:
    return f"{INTERNAL_ERROR}, please report it: {said}; DEVLINT_DEBUG=1 --jobs 1 shows where"


def unified_diff(before: Source, after: Source) -> str:
    """The change of a file as a unified diff, of the file's real text (a notebook's is JSON)."""
    import difflib

    old, new = (_real_lines(source) for source in (before, after))
    pieces = []
    for line in difflib.unified_diff(old, new, quoted_name(before.display), quoted_name(after.display)):
        pieces.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(pieces)


def _real_lines(source: Source) -> list[str]:
    """The lines of the file itself as `patch` sees them: only a line feed ends one."""
    text = source.to_bytes().decode(source.encoding) if source.notebook else source.text
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def run_all(
    targets: Sequence[Target],
    plan: Plan,
    registry: Registry,
    *,
    jobs: int | None = None,
    progress: Callable[[], None] = lambda: None,
    cache: Results | None = None,
    elsewhere: Runner | None = None,
) -> Iterator[FileResult]:
    """The result of each target, in their order.

    `jobs` of None: as many processes as pay; `elsewhere` does the work instead of processes of our own.
    """
    plan = replace(plan, keeps=cache is not None)
    known = cache.known(targets) if cache is not None else {}
    if plan.fix or plan.diff:
        # Whoever mends findings needs more than what is told of them.
        known = {display: result for display, result in known.items() if not result.findings}
    left = [target for target in targets if target.display not in known]
    seen = Seen()
    fresh: list[tuple[Target, FileResult]] = []
    if elsewhere is not None and left:
        results = elsewhere(left, plan, seen)
    else:
        results = _run(left, plan, registry, jobs, seen, cache.facts if cache is not None else {})
    for target in targets:
        result = known.get(target.display)
        if result is None:
            result = next(results)
            fresh.append((target, result))
        yield result
        progress()
    # It ends what it began.
    next(results, None)
    if cache is not None:
        cache.keep(() if plan.fix or plan.diff else fresh, seen)


def _run(
    targets: Sequence[Target],
    plan: Plan,
    registry: Registry,
    jobs: int | None,
    seen: Seen,
    facts: Mapping[str, FileFacts],
) -> Iterator[FileResult]:
    """The result of each target; what was seen of other files is in `seen` once all of them are given."""
    jobs = jobs or min(_processors(), max(size_of(targets) // _BYTES_PER_JOB, 1))
    if jobs == 1 or len(targets) < 2:
        yield from _run_here(targets, Worker(plan, registry, FileSystem(facts)), seen)
    else:
        yield from _run_in_processes(targets, plan, registry, min(jobs, len(targets)), seen, facts)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_here(targets: Sequence[Target], worker: Worker, seen: Seen) -> Iterator[FileResult]:
    # Trees are large: the collector would walk them again and again while they grow, and once more when the program ends.
    atexit.register(gc.freeze)
    gc.disable()
    try:
        for number, target in enumerate(targets):
            if number:
                _make_room()
            yield worker.run(target)
        seen.take_in(worker.seen())
    finally:
        # What is left is old from now on: the report isn't to wait until all of it was looked at.
        gc.freeze()
        gc.unfreeze()
        gc.enable()


def _make_room() -> None:
    """Frees what refers to itself in circles, should the last files have left much behind: the project sees to that with its modules."""
    if gc.get_count()[0] > _MANY_OBJECTS:
        gc.collect(0)


_worker: Worker | None = None


def _start_process(plan: Plan, registry: Registry | None, facts: Mapping[str, FileFacts]) -> None:
    """Makes a process's worker. The parent alone answers Ctrl-C, and what ends the parent ends it."""
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.disable()
    gc.freeze()
    global _worker
    _worker = Worker(plan, registry or load_registry(), FileSystem(facts))


def _end_with_parent() -> None:
    """Ends this process when its parent is gone, however that went."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _run_chunk(targets: Sequence[Target]) -> tuple[list[FileResult], Seen]:
    assert _worker is not None
    return run_chunk(_worker, targets)


def run_chunk(worker: Worker, targets: Sequence[Target]) -> tuple[list[FileResult], Seen]:
    """The results of some targets, and what was seen of other files for them."""
    results = []
    for target in targets:
        results.append(worker.run(target))
        _make_room()
    return results, worker.seen()


def _run_in_processes(
    targets: Sequence[Target],
    plan: Plan,
    registry: Registry,
    jobs: int,
    seen: Seen,
    facts: Mapping[str, FileFacts],
) -> Iterator[FileResult]:
    """Runs chunks of targets side by side. A file that ends its process is tried again alone, then given up."""
    from concurrent.futures.process import BrokenProcessPool

    parts = chunks(targets, jobs)
    with _pool(plan, registry, jobs, facts) as pool:
        futures: list[Future[tuple[list[FileResult], Seen]]] = [pool.submit(_run_chunk, chunk) for chunk in parts]
        for chunk, future in zip(parts, futures, strict=True):
            try:
                results, more = future.result()
                seen.take_in(more)
            except BrokenProcessPool:
                results = [_run_alone(target, plan, registry) for target in chunk]
            yield from results


def _run_alone(target: Target, plan: Plan, registry: Registry) -> FileResult:
    from concurrent.futures.process import BrokenProcessPool

    with _pool(plan, registry, 1, {}) as pool:
        try:
            # What it saw isn't kept: nor is its result, then.
            return pool.submit(_run_chunk, [target]).result()[0][0]
        except BrokenProcessPool:
            return Worker(plan, registry).failed(target.display, _internal("the process ended"))


@contextmanager
def _pool(plan: Plan, registry: Registry, jobs: int, facts: Mapping[str, FileFacts]) -> Iterator[ProcessPoolExecutor]:
    """Processes for the time of a block; when it is left by an error or a signal, they are ended with what they do."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fork has everything imported already; elsewhere it isn't there, or isn't safe.
    forks = sys.platform == "linux"
    if not forks:
        # A new interpreter would look for its modules in the working directory first.
        os.environ["PYTHONSAFEPATH"] = "1"
    context = multiprocessing.get_context("fork" if forks else "spawn")
    pool = ProcessPoolExecutor(jobs, context, _start_process, (plan, registry if forks else None, facts))
    try:
        yield pool
    except BaseException:
        _end(pool)
        raise
    pool.shutdown()


# What a process gets to end by itself, in seconds: a file is being written, perhaps.
_GRACE = 2.0


def _end(pool: ProcessPoolExecutor) -> None:
    """Ends a pool at once, with what it is doing."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _GRACE
    for process in processes:
        process.join(max(deadline - time.monotonic(), 0))
        if process.is_alive():
            process.kill()
