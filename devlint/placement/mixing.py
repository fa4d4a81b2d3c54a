"""What is told of an operation whose operands are at different places."""

from __future__ import annotations

import ast
from enum import Enum

from devlint.placement.values import Place, Sort, Step, Value
from devlint.records import record
from devlint.source.devices import is_device_name, is_setting


class Sense(Enum):
    """What an operation does with its operands."""

    OPERATION = "operation"
    CALL = "call"
    INDEX = "index"
    HOST = "host"


@record(frozen=True)
class Operand:
    """One operand: the expression, and the value of it that is at odds."""

    node: ast.expr
    value: Value
    # It stands in another file.
    foreign: bool = False
    # The value is a part of what the expression gives: of a list of tensors, which can't be moved as a whole.
    inside: bool = False


@record(frozen=True)
class Mixing:
    """An operation with two operands that are at different places.

    `host` is the operand on the host, where one is; `other` the one that it meets. `name` says what is done. `calls` are
    the calls that lead there from other scopes.
    """

    sense: Sense
    node: ast.expr | ast.AugAssign
    name: str
    host: Operand
    other: Operand
    # On some paths only.
    sometimes: bool
    certain: bool
    # The function that the operation stands in by itself shows it, whatever calls it.
    by_itself: bool
    calls: tuple[Step, ...] = ()
    # Where it is told at a call: the operation, under the name of the function that it stands in.
    operation: Step | None = None
    # A method shows it, and another one has kept the operand on the host.
    in_method: bool = False
    # What speaks for it is wrong more often than right: it is told where the rule is selected by its own code.
    weak: bool = False

    @property
    def kept(self) -> Step | None:
        """Where the operand on the host is kept as a plain attribute of a module."""
        if not self.in_method:
            return None
        last = next((s for s in reversed(self.host.value.trail) if s.message.startswith(KEPT_IN)), None)
        return next((s for s in self.host.value.trail if last is not None and s.message == last.message), None)


KEPT_IN = "kept in"


def is_told(place: Place) -> bool:
    """Whether it is the device that the program is told: `device`, `args.device`."""
    if place.sort is not Sort.SAME:
        return False
    try:
        node = ast.parse(place.name, mode="eval").body
    except SyntaxError:
        return False
    if isinstance(node, ast.Attribute) and node.attr == "device":
        # `x.device` is where some tensor is, which may be the other operand.
        return is_setting(node)
    return is_device_name(node)


def is_input(place: Place) -> bool:
    """Whether it is where an input of the function, or the object itself, is."""
    return place.sort is Sort.SAME and not is_told(place)
