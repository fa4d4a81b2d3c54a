"""Dataclasses that cost little to define; a type checker takes them for those of the standard library.

Of a frozen class, `dataclasses` writes and compiles six functions, which takes half a millisecond, and a run has sixty such
classes. Here it writes `__init__` alone, and all classes share the rest. That nothing is set later is left to the type checker.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(
        cls: type | None = None, *, eq: bool = True, order: bool = False, frozen: bool = False, slots: bool = False
    ) -> Any:
        """What `dataclasses.dataclass` makes of a class."""
        if cls is None:
            return lambda cls: record(cls, eq=eq, order=order, frozen=frozen, slots=slots)
        own = vars(cls)
        made = dataclasses.dataclass(repr=False, eq=False, slots=slots)(cls)
        compared = [field.name for field in dataclasses.fields(made) if field.compare]
        made._compared = attrgetter(*compared) if compared else staticmethod(lambda _: ())
        shared = {"__repr__": _spelt} | (_EQUAL if eq else {}) | (_ORDERED if order else {})
        if eq:
            shared["__hash__"] = _hashed if frozen else None
        for name, function in shared.items():
            if name not in own:
                setattr(made, name, function)
        return made


@recursive_repr()
def _spelt(self: Any) -> str:
    told = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({told})"


def _hashed(self: Any) -> int:
    return hash(self._compared(self))


def _comparing(how: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def compare(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return how(self._compared(self), self._compared(other))

    return compare


_EQUAL = {"__eq__": _comparing(operator.eq)}
_ORDERED = {f"__{name}__": _comparing(getattr(operator, name)) for name in ("lt", "le", "gt", "ge")}
