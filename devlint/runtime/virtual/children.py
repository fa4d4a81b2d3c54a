"""Processes that start while virtual CUDA is on are virtual too: an environment variable tells them.

Forked ones have everything already. A Python that starts anew imports `devlint/runtime/start/sitecustomize.py`, which
stands first on PYTHONPATH; it calls `enter` once torch is imported. `python -I`, `-E` and `-S` don't look there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from devlint.runtime.places import accelerator
from devlint.runtime.virtual.state import VISIBLE_DEVICES, machine

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


def watched(*, on: bool) -> None:
    """Whether children are watched too, so that their errors are explained."""
    _asked["watch"] = on
    if machine.count and _before:
        announce(machine.count, json.loads(os.environ[_VARIABLE])["memory"])


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

        watched(on=True)
        watch_devices().__enter__()
