"""What a user's settings add to what the model knows by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from devlint.records import record


@record(frozen=True)
class Hints:
    """Names that the settings add to the built-in ones."""

    # fnmatch patterns: names of loaders, and of functions that run once per batch.
    loader_names: tuple[str, ...] = ()
    hot_functions: tuple[str, ...] = ()
    # Contexts and decorators of the project's own in which waiting is meant, by their qualified names.
    allow_sync: tuple[str, ...] = ()
    # Qualified name -> the name, known to devlint, of what it behaves like.
    behaves_like: Mapping[str, str] = field(default_factory=dict)

    def spelt_out(self, text: str) -> dict[str, str]:
        """The last part of each name in a text that behaves like another -> that one, called."""
        spelt = ((name.rpartition(".")[2], alike) for name, alike in self.behaves_like.items())
        return {name: f"{alike}(" for name, alike in spelt if name in text}
