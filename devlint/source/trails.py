"""What an answer about a project's texts was found by, so that an edit which touches none of that needn't be asked about again.

Whoever looks at a file, or for a word, notes it; an answer that is kept brings what it was found by to the answers that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar


class Text(NamedTuple):
    """All that a file says."""

    file: Path


class Statements(NamedTuple):
    """The import statements of a file."""

    of: Path


class Word(NamedTuple):
    """Where a name stands in a project, and is defined."""

    name: str
    among: Path


class Search(NamedTuple):
    """A search for a file of a kind, which ended with the first one found."""

    kind: str
    about: tuple[str, ...]
    found: Path | None


Look = Text | Statements | Word | Search
Trail = frozenset[Look]


class Trails:
    """The answers of some analyses of one project's texts, with what each was found by."""

    def __init__(self) -> None:
        # Of the answers that are being found, the last one's is at the end.
        self._open: list[set[Look]] = []
        self.kept: dict[Hashable, tuple[Any, Trail]] = {}

    def note(self, look: Look) -> None:
        if self._open:
            self._open[-1].add(look)

    @contextmanager
    def gathered(self) -> Iterator[set[Look]]:
        """What is looked at meanwhile; the answer that is being found doesn't hang on it."""
        self._open.append(set())
        try:
            yield self._open[-1]
        finally:
            self._open.pop()

    def follow(self, trail: Trail) -> None:
        """Takes what a kept answer was found by for the one that is being found."""
        if self._open:
            self._open[-1] |= trail


class Trailing(Protocol):
    """What keeps its answers in trails."""

    trails: Trails


Analysis = TypeVar("Analysis", bound=Trailing)
Asked = ParamSpec("Asked")
Value = TypeVar("Value")


def trailed(
    method: Callable[Concatenate[Analysis, Asked], Value],
) -> Callable[Concatenate[Analysis, Asked], Value]:
    """A method whose answers are kept, each with what it was found by: they hang on its arguments and on what it looks at."""

    @wraps(method)
    def kept(self: Analysis, /, *args: Asked.args, **kwargs: Asked.kwargs) -> Value:
        return answered(self, method, *args, **kwargs)[0]

    return kept


def answered(
    analysis: Analysis,
    method: Callable[Concatenate[Analysis, Asked], Value],
    *args: Asked.args,
    **kwargs: Asked.kwargs,
) -> tuple[Value, Trail]:
    """What a method answers, and what that was found by."""
    key = (method.__qualname__, args, tuple(kwargs.items()))
    trails = analysis.trails
    if key not in trails.kept:
        with trails.gathered() as looks:
            value = method(analysis, *args, **kwargs)
        trails.kept[key] = value, frozenset(looks)
    found, trail = trails.kept[key]
    trails.follow(trail)
    return found, trail
