"""Many files: each is read, linted or fixed, and written, in several processes when that pays."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from devlint.engine import Linter
from devlint.files import FileError, Source, Target, read_source, write_source
from devlint.findings import Finding, Span
from devlint.reports import FileResult
from devlint.rule import Registry, load_registry
from devlint.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

# Starting a process costs about as much as linting this many files.
_FILES_PER_JOB = 40
_CHUNK = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with each file."""

    fix: bool = False
    unsafe_fixes: bool = False
    # Show what --fix would change, and write nothing.
    diff: bool = False


@dataclass
class Worker:
    """Does the plan for one file after another."""

    plan: Plan
    registry: Registry
    _linters: dict[Settings, Linter] = field(default_factory=dict)

    def linter(self, settings: Settings) -> Linter:
        """The linter for files under `settings`, made once."""
        if settings not in self._linters:
            self._linters[settings] = Linter(settings, self.registry)
        return self._linters[settings]

    def run(self, target: Target) -> FileResult:
        """Does the plan for a file; whatever goes wrong becomes a DEV000 finding."""
        try:
            source = read_source(target.path, target.display)
        except FileError as error:
            return self.failed(target.display, str(error))
        result, fixed = self.run_source(source, target.settings)
        if self.plan.fix and not self.plan.diff and fixed is not source:
            try:
                write_source(fixed)
            except FileError as error:
                failed = self.failed(target.display, str(error))
                findings = (*failed.findings, *self.linter(target.settings).check(source))
                return FileResult(target.display, findings, source)
        return result

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
            return FileResult(source.display, findings, source if findings else None), source
        # Imported here because it brings LibCST.
        from devlint.fixer import fix

        outcome = fix(source, linter, unsafe=self.plan.unsafe_fixes)
        findings, fixed = tuple(outcome.remaining), outcome.source if outcome.applied else source
        diff = unified_diff(source, fixed) if self.plan.diff and fixed is not source else ""
        return FileResult(source.display, findings, fixed if findings else None, len(outcome.applied), diff), fixed

    def failed(self, display: str, reason: str) -> FileResult:
        """The result of a file that couldn't be linted."""
        rule = self.registry.find("DEV000")
        name = rule.name if rule else "failed"
        return FileResult(display, (Finding("DEV000", name, reason, display, Span(1, 1, 1, 1)),))


def _internal(said: str) -> str:
    return f"internal error, please report it: {said}; DEVLINT_DEBUG=1 --jobs 1 shows where"


def unified_diff(before: Source, after: Source) -> str:
    """The change of a file as a unified diff, of the file's real text (a notebook's is JSON)."""
    import difflib

    old, new = (_real_lines(source) for source in (before, after))
    pieces = []
    for line in difflib.unified_diff(old, new, before.display, after.display):
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
) -> Iterator[FileResult]:
    """The result of each target, in their order. `jobs` of None: as many processes as pay."""
    jobs = jobs or min(_processors(), max(len(targets) // _FILES_PER_JOB, 1))
    if jobs == 1 or len(targets) < 2:
        yield from _run_here(targets, Worker(plan, registry), progress)
    else:
        yield from _run_in_processes(targets, plan, registry, min(jobs, len(targets)), progress)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_here(targets: Sequence[Target], worker: Worker, progress: Callable[[], None]) -> Iterator[FileResult]:
    # Trees are large: the collector would walk them again and again while they grow.
    gc.disable()
    try:
        for target in targets:
            yield worker.run(target)
            _collect_young()
            progress()
    finally:
        gc.enable()


def _collect_young() -> None:
    """Frees what the last file left behind; what older files left is looked at when the project's modules go."""
    gc.collect(0)


_worker: Worker | None = None


def _start_process(plan: Plan, registry: Registry | None) -> None:
    """Makes a process's worker. The parent alone answers Ctrl-C."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    gc.freeze()
    global _worker
    _worker = Worker(plan, registry or load_registry())


def _run_chunk(targets: Sequence[Target]) -> list[FileResult]:
    assert _worker is not None
    results = []
    for target in targets:
        results.append(_worker.run(target))
        _collect_young()
    return results


def _run_in_processes(
    targets: Sequence[Target], plan: Plan, registry: Registry, jobs: int, progress: Callable[[], None]
) -> Iterator[FileResult]:
    """Runs chunks of targets side by side. A file that ends its process is tried again alone, then given up."""
    from concurrent.futures.process import BrokenProcessPool

    chunks = [targets[at : at + _CHUNK] for at in range(0, len(targets), _CHUNK)]
    pool = _make_pool(plan, registry, jobs)
    try:
        futures: list[Future[list[FileResult]]] = [pool.submit(_run_chunk, chunk) for chunk in chunks]
        for chunk, future in zip(chunks, futures, strict=True):
            try:
                results = future.result()
            except BrokenProcessPool:
                results = [_run_alone(target, plan, registry) for target in chunk]
            for result in results:
                yield result
                progress()
    except BaseException:
        _end(pool)
        raise
    pool.shutdown()


def _run_alone(target: Target, plan: Plan, registry: Registry) -> FileResult:
    from concurrent.futures.process import BrokenProcessPool

    with _make_pool(plan, registry, 1) as pool:
        try:
            return pool.submit(_run_chunk, [target]).result()[0]
        except BrokenProcessPool:
            return Worker(plan, registry).failed(target.display, _internal("the process ended"))


def _make_pool(plan: Plan, registry: Registry, jobs: int) -> ProcessPoolExecutor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fork has everything imported already; elsewhere it isn't there, or isn't safe.
    forks = sys.platform == "linux"
    context = multiprocessing.get_context("fork" if forks else "spawn")
    return ProcessPoolExecutor(jobs, context, _start_process, (plan, registry if forks else None))


def _end(pool: ProcessPoolExecutor) -> None:
    """Ends a pool at once, with what it is doing."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
