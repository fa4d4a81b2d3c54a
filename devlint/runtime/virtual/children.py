"""Processes that start while virtual CUDA is on are virtual too: an environment variable tells them.

Forked ones have everything already. A Python that starts anew imports `devlint/runtime/start/sitecustomize.py`, which
stands first on PYTHONPATH; it calls `child.enter` once torch is imported. `python -I`, `-E` and `-S` don't look there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devlint.runtime.places import accelerator
from devlint.runtime.virtual.state import machine

if TYPE_CHECKING:
    from devlint.runtime.watch.report import Report

VARIABLE, _PATH = "DEVLINT_CHILDREN", "PYTHONPATH"
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
        _before.update({name: os.environ.get(name) for name in (VARIABLE, _PATH)})
    message = {"kind": accelerator.kind, "count": count, "memory": memory, "visible": machine.environment} | _asked
    os.environ[VARIABLE] = json.dumps(message)
    rest = [entry for entry in (_before[_PATH] or "").split(os.pathsep) if entry and entry != _START]
    os.environ[_PATH] = os.pathsep.join([_START, *rest])


def watched(folder: Path | None) -> None:
    """Has children watched too: their errors are explained, and each leaves a report in `folder`. None ends that."""
    _asked["watch"] = None if folder is None else str(folder)
    if machine.count and _before:
        announce(machine.count, json.loads(os.environ[VARIABLE])["memory"])


def reports(folder: Path) -> Iterator[Report]:
    """What children that have ended left there."""
    from devlint.runtime.watch.report import from_dict

    for file in sorted(folder.glob("*.json")):
        yield from_dict(json.loads(file.read_text(encoding="utf-8")))
