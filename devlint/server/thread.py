"""The one thread on which everything is worked out: a piece of work after the other, what is waited for most first."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

# What comes first: diagnostics of what is typed, then what the user asks for, then what merely decorates.
TYPING, ASKED, BESIDE = 0, 1, 2
# Deeply nested code is parsed by recursion, and threads get little room for that on some systems.
_STACK_BYTES = 64 * 1024 * 1024


class WorkThread:
    """A thread that does pieces of work in the order of their urgency, and of their coming."""

    def __init__(self) -> None:
        self._waiting: queue.PriorityQueue[tuple[int, int, Any]] = queue.PriorityQueue()
        self._count = itertools.count()
        before = threading.stack_size(_STACK_BYTES)
        thread = threading.Thread(target=self._run, daemon=True, name="devlint")
        thread.start()
        threading.stack_size(before)

    async def do(self, work: Callable[[], Result], urgency: int) -> Result:
        """What a piece of work gives; raises what it raises. Work that is cancelled before its turn isn't done."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.put((urgency, next(self._count), (work, loop, future)))
        return await future

    def _run(self) -> None:
        while True:
            _, _, (work, loop, future) = self._waiting.get()
            if future.cancelled():
                continue
            result: Any = None
            error: BaseException | None = None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:
                # The server has ended.
                return


def _settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
