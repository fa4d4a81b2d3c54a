"""Function modes belong to a thread; threads that start while one is on get one too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

ModeFactory = Callable[[], AbstractContextManager[Any]]

_factories: list[ModeFactory] = []
_start = threading.Thread.start


def _start_with_modes(thread: threading.Thread) -> None:
    run = thread.run
    # Made here, so that they can see who starts the thread; entered there.
    contexts = [factory() for factory in _factories]

    def run_under_modes() -> None:
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            run()

    thread.run = run_under_modes  # type: ignore[method-assign]
    _start(thread)


def add(factory: ModeFactory) -> None:
    """From now on, new threads enter what `factory` makes, in the order of the calls to `add`."""
    _factories.append(factory)
    threading.Thread.start = _start_with_modes  # type: ignore[method-assign,assignment]


def remove(factory: ModeFactory) -> None:
    """Takes the factory away again."""
    _factories.remove(factory)
    if not _factories:
        threading.Thread.start = _start  # type: ignore[method-assign]
