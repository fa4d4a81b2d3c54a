"""Files linted by the workers of a Dask cluster, which see the same files under the same paths.

What travels there is paths and settings, and back, findings and what was asked of other files. A worker that ends is no
loss: its files go to another one, and those that end one worker after the other are told as such.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from devlint.batch import Plan, Worker, run_chunk
from devlint.cache.identity import identity_of
from devlint.cache.seen import Seen
from devlint.failure import Failure
from devlint.files import Target
from devlint.regexes import regex
from devlint.reports import FileResult
from devlint.rule import Registry, load_registry
from devlint.shards import chunks

_ADDRESS = regex(r"dask://(?P<at>[^/\s]+:\d+)")
# How long a scheduler and its workers are waited for, in seconds.
_PATIENCE = 15


@dataclass(frozen=True)
class _Job:
    """One run, as a worker knows it."""

    name: str
    plan: Plan
    # Paths are told from there.
    folder: str
    identity: str


class AnotherDevlintError(Exception):
    """A worker's devlint, rules or Python aren't those of the run."""


class Cluster:
    """The workers of a cluster, for one run. Raises Failure where there are none."""

    def __init__(self, address: str, registry: Registry) -> None:
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise Failure(f"--executor {address}: isn't dask://HOST:PORT, the address of a scheduler")
        try:
            import distributed
        except ImportError:
            raise Failure("--executor needs Dask, which isn't installed here: pip install 'devlint[dask]'") from None
        self._registry = registry
        try:
            connect: Any = distributed.Client
            self._client = connect(f"tcp://{match['at']}", timeout=_PATIENCE, set_as_default=False)
            self._client.wait_for_workers(1, timeout=_PATIENCE)
        except (OSError, TimeoutError) as error:
            said = str(error).split("\n", 1)[0] or "no worker came"
            raise Failure(f"--executor {address}: can't be reached: {said}") from None

    def run(self, targets: Sequence[Target], plan: Plan, seen: Seen) -> Iterator[FileResult]:
        """The result of each target, in their order; what was seen of other files goes to `seen`."""
        identity, _ = identity_of(self._registry, lambda _: None)
        job = _Job(f"{os.getpid()} {time.time_ns()}", plan, os.getcwd(), identity)  # noqa: PTH109
        parts = chunks(targets, max(sum(self._client.ncores().values()), 1))
        executor = self._client.get_executor(pure=False)
        try:
            futures = [executor.submit(_lint, job, list(part)) for part in parts]
            for part, future in zip(parts, futures, strict=True):
                try:
                    results, more = future.result()
                    seen.take_in(more)
                except AnotherDevlintError as error:
                    raise Failure(f"--executor: {error}") from None
                except Exception as error:
                    # What it saw isn't kept: nor are the results, then.
                    results = [self._lost(target, error) for target in part]
                yield from results
        finally:
            executor.shutdown(wait=False)
            self._client.close(timeout=_PATIENCE)

    def _lost(self, target: Target, error: Exception) -> FileResult:
        said = str(error).split("\n", 1)[0]
        reason = f"wasn't linted, since the workers that had it ended: {type(error).__name__}: {said}"
        return Worker(Plan(), self._registry).failed(target.display, reason)


# A worker lints one chunk after the other: what it knows of a project isn't for two threads.
_turn = threading.Lock()
_at_work: tuple[str, Worker] | None = None


def _lint(job: _Job, targets: Sequence[Target]) -> tuple[list[FileResult], Seen]:
    """What a worker does with some files."""
    global _at_work
    with _turn:
        if _at_work is None or _at_work[0] != job.name:
            registry = load_registry()
            if identity_of(registry, lambda _: None)[0] != job.identity:
                raise AnotherDevlintError(
                    "a worker has another devlint, other rules or another Python; install the same"
                )
            _at_work = job.name, Worker(job.plan, registry)
        before = os.getcwd()  # noqa: PTH109
        os.chdir(job.folder)
        try:
            return run_chunk(_at_work[1], targets)
        finally:
            os.chdir(before)
