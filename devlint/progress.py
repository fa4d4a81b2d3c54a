"""A bar on the standard error, for runs that take a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# A run that takes longer than this many seconds shows its progress on a terminal.
_SILENT_FOR = 1.0


@contextmanager
def progress(total: int, *, enabled: bool) -> Iterator[Callable[[], None]]:
    """Something to call after each file: it draws a bar on the standard error once the run has lasted a while."""
    started = drawn = time.monotonic()
    done = 0
    bar: Any = None

    def step() -> None:
        nonlocal done, drawn, bar
        done += 1
        now = time.monotonic()
        if not enabled or now - started < _SILENT_FOR or now - drawn < 0.1:
            return
        if bar is None:
            from rich.console import Console
            from rich.progress import Progress

            # Without a refresh thread, which a forked process must not inherit.
            bar = Progress(console=Console(stderr=True), auto_refresh=False, transient=True)
            bar.add_task("devlint", total=total)
            bar.start()
        drawn = now
        bar.update(0, completed=done, refresh=True)

    try:
        yield step
    finally:
        if bar is not None:
            bar.stop()
