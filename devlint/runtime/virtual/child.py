"""A Python that was started by one in which virtual CUDA is on: it enters what its parent had."""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import util
from pathlib import Path

from devlint.runtime.virtual import children
from devlint.runtime.virtual.context import virtual_device
from devlint.runtime.virtual.state import VISIBLE_DEVICES
from devlint.runtime.watch.report import Report


def enter() -> None:
    """In a child: switches on what its parent had, for as long as the process lives."""
    message = json.loads(os.environ[children.VARIABLE])
    chosen = os.environ.pop(VISIBLE_DEVICES, None)
    try:  # what hid real devices from the parent doesn't hide virtual ones here; what the program has set since does
        if message["visible"] is not None:
            os.environ[VISIBLE_DEVICES] = message["visible"]
        virtual_device(message["kind"], message["count"], message["memory"]).__enter__()
    finally:
        os.environ.pop(VISIBLE_DEVICES, None)
        if chosen is not None:
            os.environ[VISIBLE_DEVICES] = chosen
    if message.get("watch"):
        from devlint.runtime.watch.watcher import watch_devices

        folder = Path(message["watch"])
        children.watched(folder)
        _leave_a_report(watch_devices().__enter__().report, folder)


def _leave_a_report(report: Callable[[], Report], folder: Path) -> None:
    """Writes a process's report when it ends, however its Python does: workers of multiprocessing skip `atexit`."""
    file, process = folder / f"{os.getpid()}.json", os.getpid()

    def write() -> None:
        if os.getpid() == process and not file.exists():  # not in what was forked from it
            with suppress(OSError):  # who asked may be gone
                report().write(file.with_suffix(".part"))
                file.with_suffix(".part").rename(file)

    atexit.register(write)
    util.Finalize(None, write, exitpriority=0)
