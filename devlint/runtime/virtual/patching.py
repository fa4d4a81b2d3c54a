"""Replacing attributes of torch for a while, and putting everything back."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """Attributes replaced since the last `undo`, newest last."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Sets `owner.name`; `undo` restores it, or deletes it where `owner` itself had none."""
        self._saved.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Restores everything, newest first."""
        while self._saved:
            owner, name, value = self._saved.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
