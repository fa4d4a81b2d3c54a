"""Calls as the called function sees them: what each one in its own file gives, and where that is.

Calls of other files aren't kept: which of them were read by now is chance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from devlint.signatures.state.frame import Frame
from devlint.signatures.state.outcome import Need
from devlint.signatures.values.conditions import Atoms
from devlint.signatures.values.values import Place, Value, leaves
from devlint.source.modules import FunctionModel, SourceModule


class Handed(NamedTuple):
    """What a call in a function gives another one, by parameter."""

    caller: FunctionModel | None
    given: dict[str, Value]


class Brought(NamedTuple):
    """The places that a call in a function brought: to what is left open, and with all that it gave."""

    caller: FunctionModel | None
    places: frozenset[Place]
    given: frozenset[Place]


class Callers:
    """What the calls of a project's functions give them."""

    def __init__(self, atoms: Atoms) -> None:
        self._atoms = atoms
        # By file: by function and the places that a need of it leaves open.
        self._brought: defaultdict[SourceModule, dict[tuple[FunctionModel, frozenset[Place]], list[Brought]]]
        self._brought = defaultdict(dict)
        self._handed: defaultdict[SourceModule, dict[FunctionModel, list[Handed]]] = defaultdict(dict)

    def forget(self, gone: frozenset[SourceModule]) -> None:
        """Lets go of the functions of some files."""
        for source in gone:
            self._brought.pop(source, None)
            self._handed.pop(source, None)

    def close(self) -> None:
        """Lets go of everything."""
        self._brought.clear()
        self._handed.clear()

    def forget_calls_in(self, function: FunctionModel) -> None:
        """Lets go of the calls that stand in a function."""
        for brought in self._brought[function.source].values():
            brought[:] = [call for call in brought if not is_within(call.caller, function)]
        for handed in self._handed[function.source].values():
            handed[:] = [call for call in handed if not is_within(call.caller, function)]

    def was_given(self, frame: Frame, function: FunctionModel, given: dict[str, Value]) -> None:
        """Remembers what a call in a scope gives a function, as far as that can be told."""
        if frame.source is function.source:
            self._handed[frame.source].setdefault(function, []).append(Handed(frame.function, given))

    def given_to(self, function: FunctionModel) -> Sequence[Handed]:
        """What each call of a function gives it, by parameter, and in which function it stands."""
        return self._handed[function.source].get(function, ())

    def was_brought(
        self, frame: Frame, function: FunctionModel, need: Need, places: set[Place], given: set[Place]
    ) -> None:
        """Remembers where a call brought what a function leaves open by itself, and where all was that it gave."""
        if frame.source is function.source:
            told = Brought(frame.function, frozenset(places), frozenset(given))
            self._brought[frame.source].setdefault((function, self._left_open(need)), []).append(told)

    def brought_to(self, function: FunctionModel, need: Need) -> Sequence[Brought]:
        """Where each call of a function brings what that leaves open in a need."""
        return self._brought[function.source].get((function, self._left_open(need)), ())

    def brought_along(self, function: FunctionModel, places: frozenset[Place]) -> Sequence[Brought]:
        """Where each call of a function brings what that hands on from these places."""
        left_open = frozenset(p for p in places if p.is_open)
        return self._brought[function.source].get((function, left_open), ())

    def _left_open(self, need: Need) -> frozenset[Place]:
        """The places that a function leaves open in a need."""
        return frozenset(o.place for _, v in need.operands for _, o in leaves(v, self._atoms) if o.place.is_open)


def is_within(function: FunctionModel | None, around: FunctionModel) -> bool:
    """Whether a function is another one, or stands in it."""
    while function is not None and function is not around:
        function = function.parent
    return function is around
