"""`sync_allowed`: a stretch of code in which waiting for the accelerator is meant.

It needs nothing but the standard library, so that production code can use it, or carry a copy of this file.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

# How many watches run; without one, entering a stretch does nothing.
watching = 0
# Why waiting is allowed right now, in this thread and task; the innermost last.
reasons: ContextVar[tuple[str, ...]] = ContextVar("reasons", default=())


class sync_allowed:  # noqa: N801 - reads as the function it stands for
    """Waits inside are meant: `with sync_allowed("the scheduler needs the lengths"):`, or a decorator.

    The linter tells no waits there, and a watch doesn't count them. Costs next to nothing while nothing watches.
    """

    __slots__ = ("_tokens", "reason")

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self._tokens: list[Token[tuple[str, ...]] | None] = []

    def __enter__(self) -> sync_allowed:
        self._tokens.append(reasons.set((*reasons.get(), self.reason)) if watching else None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        token = self._tokens.pop()
        if token is not None:
            reasons.reset(token)

    def __call__(self, function: F) -> F:
        """Decorates a function, a coroutine function too: each call is such a stretch."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waited(*args: Any, **kwargs: Any) -> Any:
                with sync_allowed(self.reason):
                    return await function(*args, **kwargs)

            return waited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with sync_allowed(self.reason):
                return function(*args, **kwargs)

        return called  # type: ignore[return-value]
