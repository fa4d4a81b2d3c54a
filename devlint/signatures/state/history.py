"""What a scope held at the points that it came to, for those who ask later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import Path

Told = TypeVar("Told")


class Scope(Protocol):
    """What is asked of a frame here."""

    env: dict[Any, Any]
    path: Condition
    tensors: set[Path]
    found: dict[Any, Any]
    moment: Moment | None

    @property
    def outer(self) -> Scope | None: ...
    @property
    def function(self) -> object: ...
    @property
    def source(self) -> Any: ...
    @property
    def reader(self) -> Any: ...


_set = dict.__setitem__
# What most scopes know of their inputs.
_NO_TENSORS = frozenset[Path]()


class Remembering(dict[Any, Any]):
    """What names and things hold, and what each held before it was set anew."""

    __slots__ = ("log",)

    def __init__(self, known: Any = ()) -> None:
        super().__init__(known)
        # Each key that was set or dropped, with what it held before: None, where that was nothing.
        self.log: list[tuple[Any, Any]] = []

    def __setitem__(self, key: Any, value: Any) -> None:
        before = self.get(key)
        if before is not value:
            self.log.append((key, before))
            _set(self, key, value)

    def __delitem__(self, key: Any) -> None:
        self.log.append((key, self[key]))
        super().__delitem__(key)

    def pop(self, key: Any, *default: Any) -> Any:
        """Drops a key."""
        if key in self:
            self.log.append((key, self[key]))
        return super().pop(key, *default)

    def update(self, more: Any) -> None:  # type: ignore[override]
        """Sets each key that another dict has."""
        for key, value in more.items():
            self[key] = value

    def __ior__(self, more: Any) -> Remembering:  # type: ignore[misc]
        self.update(more)
        return self

    def copy(self) -> Remembering:
        """Another one that starts from here."""
        return Remembering(self)

    def at(self, mark: int) -> dict[Any, Any]:
        """What was held when the log was that long."""
        held = dict(self)
        for key, before in reversed(self.log[mark:]):
            if before is None:
                held.pop(key, None)
            else:
                held[key] = before
        return held


class Moment:
    """A point that a scope has come to, with that of the scope around it."""

    __slots__ = ("around", "env", "frame", "mark", "path", "tensors")

    def __init__(self, frame: Scope, env: Remembering, around: Moment | None, last: Moment | None) -> None:
        self.frame = frame
        self.env = env
        self.mark = len(env.log)
        self.path = frame.path
        # Most often, none came to them since.
        known = last.tensors if last is not None else _NO_TENSORS
        self.tensors: frozenset[Path] = known if len(known) == len(frame.tensors) else frozenset(frame.tensors)
        self.around = around

    def asked(self, ask: Callable[[], Told]) -> Told:
        """What an answer would have been then."""
        moments = [self]
        while moments[-1].around is not None:
            moments.append(moments[-1].around)
        now = [(m.frame, m.frame.env, m.frame.path, m.frame.tensors, m.frame.found) for m in moments]
        for moment in moments:
            frame = moment.frame
            frame.env, frame.path = moment.env.at(moment.mark), moment.path
            frame.tensors, frame.found = set(moment.tensors), {}
        try:
            return ask()
        finally:
            for frame, env, path, tensors, found in now:
                frame.env, frame.path, frame.tensors, frame.found = env, path, tensors, found


def moment_of(frame: Scope) -> Moment | None:
    """The point that a scope has come to; None where it doesn't remember what it held."""
    env = frame.env
    if type(env) is not Remembering:
        return None
    known = frame.moment
    outer = frame.outer
    if outer is None and known is None and frame.function is not None and frame.reader.is_running(frame.source):
        outer = frame.reader.so_far_of(frame.source)
    elif outer is None and known is not None and known.around is not None:
        outer = known.around.frame
    around = moment_of(outer) if outer is not None else None
    if (
        known is None
        or known.env is not env
        or known.mark != len(env.log)
        or known.path is not frame.path
        or len(known.tensors) != len(frame.tensors)
        or known.around is not around
    ):
        known = frame.moment = Moment(frame, env, around, known)
    return known


def forget_moment(frame: Scope) -> None:
    """Lets go of the point that a scope has come to, and of those of the scopes around it."""
    moment = frame.moment
    while moment is not None:
        moment.frame.moment = None
        moment = moment.around
