"""Where in the user's code something happens: the frame that called into torch, with library frames folded away."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import torch


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A line of source."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        try:
            path = os.path.relpath(self.path)
        except ValueError:  # another drive
            path = self.path
        shown = path if not path.startswith("..") else self.path
        return f"{shown}:{self.line}" + ("" if self.function == "<module>" else f" in {self.function}")


UNKNOWN = Site("<unknown>", 0, "<module>")

# What stands for a site while the program runs: line numbers are worked out when somebody asks.
Mark = tuple[CodeType, int]

_HERE = str(Path(__file__).parent.parent) + os.sep
_paths = sysconfig.get_paths()
_LIBRARIES = tuple(
    {
        str(Path(torch.__file__).parent) + os.sep,
        _HERE,
        *(path + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib") if (path := _paths.get(key))),
    }
)
_is_user: dict[str, bool] = {}


def is_user_file(filename: str) -> bool:
    """Whether a file is the user's: not torch's, not the standard library's, not installed, not devlint's."""
    if filename.startswith("<") and not filename.startswith(("<stdin>", "<ipython", "<devlint")):
        return False
    inside = filename.startswith(_LIBRARIES) or "site-packages" in filename or "dist-packages" in filename
    return not inside


def mark() -> Mark | None:
    """The innermost frame of user code above the caller; the outermost frame where there is none."""
    frame: Any = sys._getframe(1)
    while True:
        filename = frame.f_code.co_filename
        found = _is_user.get(filename)
        if found is None:
            found = _is_user[filename] = is_user_file(filename)
        if found or frame.f_back is None:
            return frame.f_code, frame.f_lasti
        frame = frame.f_back


def site(marked: Mark | None) -> Site:
    """The line that a mark stands for."""
    if marked is None:
        return UNKNOWN
    code, offset = marked
    line = code.co_firstlineno
    for start, end, found in code.co_lines():
        if start <= offset < end and found is not None:
            line = found
            break
    filename = code.co_filename
    return Site(filename if filename.startswith("<") else str(Path(filename).absolute()), line, code.co_qualname)
