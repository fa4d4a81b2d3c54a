"""Regular expressions that are compiled when they are first asked something.

There are hundreds, a run asks some dozens of them, and to compile one takes as long as to load a small module.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class Regex:
    """Stands for a regular expression until one of its methods is asked for."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self.__pattern, self.__flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.__pattern, self.__flags), name)
        # From now on it is found without us.
        setattr(self, name, value)
        return value


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, but for the time that it takes; a mistake in the expression shows at its first use."""
    return cast("re.Pattern[AnyStr]", Regex(pattern, flags))
