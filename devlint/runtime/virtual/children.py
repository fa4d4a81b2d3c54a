"""Processes that start while virtual CUDA is on are virtual too: an environment variable tells them.

Forked ones have everything already. A Python that starts anew imports `devlint/runtime/start/sitecustomize.py`, which
stands first on PYTHONPATH; it calls `enter` once torch is imported. `python -I`, `-E` and `-S` don't look there.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devlint.runtime.places import accelerator
from devlint.runtime.virtual.state import VISIBLE_DEVICES, machine

if TYPE_CHECKING:
    from devlint.runtime.watch.report import Report

_VARIABLE, _PATH = "DEVLINT_CHILDREN", "PYTHONPATH"
_START = str(Path(__file__).parent.parent / "start")

_asked: dict[str, Any] = {}  # what children do besides: "watch"
_before: dict[str, str | None] = {}


def announce(count: int, memory: int | None) -> None:
    """Tells processes that start from now on of `count` devices; 0 for none, as before."""
    if not count:
        for name, value in _before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _before.clear()
        return
    if not _before:
        _before.update({name: os.environ.get(name) for name in (_VARIABLE, _PATH)})
    message = {"kind": accelerator.kind, "count": count, "memory": memory, "visible": machine.environment} | _asked
    os.environ[_VARIABLE] = json.dumps(message)
    rest = [entry for entry in (_before[_PATH] or "").split(os.pathsep) if entry and entry != _START]
    os.environ[_PATH] = os.pathsep.join([_START, *rest])


def watched(folder: Path | None) -> None:
    """Has children watched too: their errors are explained, and each leaves a report in `folder`. None ends that."""
    _asked["watch"] = None if folder is None else str(folder)
    if machine.count and _before:
        announce(machine.count, json.loads(os.environ[_VARIABLE])["memory"])


def reports(folder: Path) -> Iterator[Report]:
    """What children that have ended left there."""
    from devlint.runtime.watch.report import from_dict

    for file in sorted(folder.glob("*.json")):
        yield from_dict(json.loads(file.read_text(encoding="utf-8")))


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


def enter() -> None:
    """In a child: switches on what its parent had, for as long as the process lives."""
    message = json.loads(os.environ[_VARIABLE])
    from devlint.runtime.virtual.context import virtual_device

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
        watched(folder)
        _leave_a_report(watch_devices().__enter__().report, folder)
