"""What an answer about a project's texts was found by, so that an edit which touches none of that needn't be asked about again.

Whoever looks at a file, or for a word, notes it; an answer that is kept brings what it was found by to the answers that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from devlint.records import record


@record(frozen=True, slots=True)
class Text:
    """All that a file says."""

    file: Path


@record(frozen=True, slots=True)
class Statements:
    """The import statements of a file."""

    file: Path


@record(frozen=True, slots=True)
class Word:
    """Where a name stands in a project, and is defined."""

    name: str
    among: Path


@record(frozen=True, slots=True)
class Kind:
    """Whether a file is of a kind."""

    kind: str
    about: tuple[str, ...]
    file: Path
    holds: bool


@record(frozen=True, slots=True)
class Search:
    """A search for a file of a kind, which ended with the first one found."""

    kind: str
    about: tuple[str, ...]
    found: Path | None


Look = Text | Statements | Word | Kind | Search
Trace = frozenset[Look]


class Traces:
    """The answers of some analyses of one project's texts, with what each was found by."""

    def __init__(self) -> None:
        # Of the answers that are being found, the last one's is at the end.
        self._open: list[set[Look]] = []
        self.kept: dict[Hashable, tuple[Any, Trace]] = {}

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

    def follow(self, trace: Trace) -> None:
        """Takes what a kept answer was found by for the one that is being found."""
        if self._open:
            self._open[-1] |= trace


class Tracing(Protocol):
    """What keeps its answers in traces."""

    traces: Traces


Analysis = TypeVar("Analysis", bound=Tracing)
Asked = ParamSpec("Asked")
Value = TypeVar("Value")


def traced(
    method: Callable[Concatenate[Analysis, Asked], Value],
) -> Callable[Concatenate[Analysis, Asked], Value]:
    """A method whose answers are kept, each with what it was found by: they hang on its arguments and on what it looks at."""

    @wraps(method)
    def kept(self: Analysis, /, *args: Asked.args, **kwargs: Asked.kwargs) -> Value:
        key = (method.__qualname__, args, tuple(kwargs.items()))
        known = self.traces.kept.get(key)
        if known is None:
            with self.traces.gathered() as looks:
                value = method(self, *args, **kwargs)
            known = self.traces.kept[key] = value, frozenset(looks)
        value, trace = known
        self.traces.follow(trace)
        return value

    return kept
