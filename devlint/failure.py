"""How a run ends, and what is said where it can't go on."""

from __future__ import annotations

import os
import sys
from typing import IO, Any

import click

from devlint.console import emit, is_terminal
from devlint.escapes import printable

# Exit codes.
CLEAN, FOUND, FAILED, INTERRUPTED = 0, 1, 2, 130


class Failure(click.ClickException):
    """Ends the run with a one-line message and exit code 2."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        said = f"{click.style('error', fg='red', bold=True)}: {printable(self.message)}\n"
        emit(said, err=True, color=wants_color(sys.stderr))


def wants_color(stream: IO[str] | None) -> bool:
    """Whether a stream is shown in colours when nobody says: on a terminal, unless NO_COLOR says no."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"
