"""What is being worked out, and what of it hangs on something that isn't done yet.

Functions that call one another, and attributes that methods set and read, make knots: whatever is read first asks for
the others, and those ask for it in vain. What came out would hang on where the reading began, and with that on the
order of the files. So a knot is always read from the same one of its functions on; and a function that was told
nothing of what it calls is read once more when that is known.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

Item = tuple[Hashable, ...]
_NEVER = 1 << 30


class _Hold(NamedTuple):
    """The outermost item under way that something asked for in vain, and the outermost one that it called so."""

    asked: int = _NEVER
    called: int = _NEVER

    def with_(self, other: _Hold) -> _Hold:
        return _Hold(min(self.asked, other.asked), min(self.called, other.called))


class Knot(NamedTuple):
    """Items that hang on one another: the one that the reading began with last."""

    items: Sequence[Item]
    # Those that called one that wasn't done.
    unsure: Sequence[Item]


class Knots:
    """The items under way, the outermost first, and those that are done as far as may be."""

    def __init__(self) -> None:
        self._under_way: dict[Item, int] = {}
        # For each item under way: what it, or what it asked for, asked for in vain.
        self._holds: list[_Hold] = []
        # For each item under way: those that are done, and hang on it or on one around it; with whether they are unsure.
        self._waiting: list[list[tuple[Item, bool]]] = []
        # On what the waiting ones hang.
        self._hung: dict[Item, _Hold] = {}
        # The items of knots: what they saw of each other isn't all that is known in the end.
        self._tied: set[Item] = set()

    @property
    def are_untied(self) -> bool:
        """Whether nothing is being worked out."""
        return not self._under_way

    def is_under_way(self, item: Item, *, is_call: bool = False) -> bool:
        """Whether an item is asked for, or called, while it is worked out; whoever does so hangs on it then."""
        position = self._under_way.get(item)
        if position is None:
            return False
        self._hang(_Hold(position, position if is_call else _NEVER))
        return True

    def is_of_knot(self, item: Item) -> bool:
        """Whether some of what an item asked for wasn't known yet while it was worked out, or was told by such items."""
        return item in self._tied

    def used(self, item: Item) -> None:
        """Says that what was worked out for an item is made use of."""
        hold = self._hung.get(item)
        if hold is not None:
            self._hang(hold)

    def _hang(self, hold: _Hold) -> None:
        self._holds[-1] = self._holds[-1].with_(hold)

    def begin(self, item: Item) -> None:
        """An item is worked out from now on."""
        self._tied.discard(item)
        self._under_way[item] = len(self._holds)
        self._holds.append(_Hold())
        self._waiting.append([])

    def end(self, item: Item) -> Knot | None:
        """An item is done: the knot that ends with it; None where it hangs on something else, or on nothing."""
        position = self._under_way.pop(item)
        hold, waiting = self._holds.pop(), self._waiting.pop()
        if hold.asked < position:
            self._tied.add(item)
        if hold.asked < position:
            self._hang(hold)
            self._hung[item] = hold
            self._waiting[-1] += [*waiting, (item, hold.called < position)]
            return None
        for member, _ in waiting:
            self._hung.pop(member, None)
        if not waiting:
            return None
        return Knot([*(member for member, _ in waiting), item], [member for member, unsure in waiting if unsure])
