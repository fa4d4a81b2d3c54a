"""LibCST, loaded at its first use: a run that finds nothing suspect never pays for it.

Rule modules write `from devlint.lazy import cst, m` and use both as if imported; `m` is `libcst.matchers`, the most of
which devlint/matching.py does without it. `regex` is `re.compile`, put off until the expression is asked something.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from devlint.regexes import regex

if TYPE_CHECKING:
    import libcst as cst
    import libcst.matchers as m
else:

    class _LazyModule:
        """Stands for a module until one of its names is asked for."""

        def __init__(self, name: str) -> None:
            self.__name = name

        def __getattr__(self, attribute: str) -> Any:
            value = getattr(import_module(self.__name), attribute)
            setattr(self, attribute, value)
            return value

    from devlint.matching import Matchers

    cst = _LazyModule("libcst")
    m = Matchers()

__all__ = ["cst", "m", "regex"]
