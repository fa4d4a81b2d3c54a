"""A call as the meanings of outside functions see it: what is called, and what it is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import CONSTANT, UNKNOWN, UNKNOWN_PLACE, Place, Step, Value


class Call:
    """One call with its arguments evaluated."""

    __slots__ = ("frame", "given", "keywords", "node", "open_ended", "positional")

    def __init__(self, frame: Frame, node: ast.Call) -> None:
        self.frame = frame
        self.node = node
        # The expressions and values of the arguments by position, starred ones spread where they are known.
        self.given: list[tuple[ast.expr, Value]] = []
        self.keywords: dict[str, tuple[ast.expr, Value]] = {}
        # There may be more arguments than are listed.
        self.open_ended = False

    @property
    def positional_values(self) -> list[Value]:
        return [value for _, value in self.given]

    def argument(self, position: int, name: str = "") -> Value | None:
        """An argument by its position or its name."""
        found = self.pair(position, name)
        return found[1] if found is not None else None

    def pair(self, position: int, name: str = "") -> tuple[ast.expr, Value] | None:
        """The same with its expression."""
        if name and name in self.keywords:
            return self.keywords[name]
        if 0 <= position < len(self.given):
            return self.given[position]
        return None

    def everything(self) -> Iterator[tuple[ast.expr, Value]]:
        """All arguments."""
        yield from self.given
        yield from self.keywords.values()

    def step(self, message: str, before: Step | None = None) -> Step:
        """A step of a trail at this call."""
        return self.frame.step(message, self.node, before)

    @property
    def text(self) -> str:
        """What is called, as the reader wrote it."""
        text = ast.unparse(self.node.func)
        return text if len(text) <= 40 else f"...{text.rsplit('.', 1)[-1]}"[:40]

    def fresh(self, place: Place = UNKNOWN_PLACE, *, likely: bool = True) -> Value:
        """What an unknown call gives: something of which nothing is known but that it is the same each time it is asked."""
        return Value(UNKNOWN, place, path=(f"#{self.frame.reader.turn()}",), likely=likely)

    def says(self, name: str, value: object) -> bool:
        """Whether a keyword is that constant."""
        found = self.keywords.get(name)
        return found is not None and found[1].kind is CONSTANT and found[1].data == value
