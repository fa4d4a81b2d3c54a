"""What an analysis has worked out already, and what of it holds beyond the file at hand.

Work that is asked for while it is under way (recursion, cyclic imports) is cut short, and so is work that gets too
deep. A result that saw no such cut, or only cuts within its own work, is the same whoever asks: it is kept for the
whole project. The others are kept for this file, so that the findings don't depend on the order of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

Result = TypeVar("Result")
Memory = dict[Hashable, object]

_FREE = 1 << 30
_NOTHING = object()


class _ByDepth(dict[int, object]):
    """Results that were cut short for being too deep, by the depth at which the work began."""


class Workings:
    """The results of one file's analysis, over those that the project's other modules share."""

    def __init__(self, shared: Memory) -> None:
        self._own: Memory = {}
        self._shared = shared
        # What is under way, with its position: outer work first.
        self._stack: dict[Hashable, int] = {}
        # The outermost work under way that something was cut short for.
        self._lowest = _FREE
        self._too_deep = False

    def recall(self, key: Hashable, *, shared: bool) -> object | None:
        """What was worked out for a key before, by work that has no depth; None where nothing was."""
        return (shared and self._shared.get(key)) or self._own.get(key)

    def once(
        self,
        key: Hashable,
        work: Callable[[], Result],
        cut: Result,
        *,
        shared: bool,
        guard: Hashable = None,
        depth: int | None = None,
        keep_cut: bool = True,
    ) -> Result:
        """The result of `work`, done once for a key; `cut` where it is asked for while `guard` is under way.

        `shared` says that the result is about another module than the file at hand. `depth` is where the work begins,
        for work that is cut when it gets too deep; work without one goes equally deep whoever asks. A result that was
        cut short for what its callers do isn't kept unless `keep_cut`.
        """
        store = self._shared if shared else self._own
        for memory in (store, self._own) if shared else (store,):
            known = memory.get(key, _NOTHING)
            if type(known) is _ByDepth:
                known = known.get(depth or 0, _NOTHING)
                if known is not _NOTHING:
                    self._too_deep = True
            if known is not _NOTHING:
                return cast(Result, known)
        guard = guard if guard is not None else key
        if guard in self._stack:
            self._lowest = min(self._lowest, self._stack[guard])
            return cut
        position = self._stack[guard] = len(self._stack)
        outer = self._lowest, self._too_deep
        self._lowest, self._too_deep = _FREE, False
        free = False
        try:
            result = work()
            free = self._lowest >= position
        except RecursionError:
            result = cut
            self._lowest = -1
        finally:
            del self._stack[guard]
            was_deep = self._too_deep and depth is not None
            self._lowest = min(outer[0], _FREE if free else self._lowest)
            self._too_deep = was_deep or outer[1]
        if free or keep_cut:
            memory = store if free else self._own
            if was_deep:
                kept = memory.setdefault(key, _ByDepth())
                assert isinstance(kept, _ByDepth)
                kept[depth or 0] = result
            else:
                memory[key] = result
        return result

    def cut_by_depth(self) -> None:
        """Says that the work under way was cut short for being too deep."""
        self._too_deep = True

    def close(self) -> None:
        """Forgets what holds for this file alone."""
        self._own.clear()
