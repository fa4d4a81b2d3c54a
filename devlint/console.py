"""The standard streams: what is said there, and what becomes of it when one is closed, full, or nobody reads it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import IO, Any

import click


class OutputError(Exception):
    """What was to be written can't be; the text is one line."""


def emit(text: str | bytes, *, err: bool = False, color: bool | None = None) -> None:
    """Writes a text as it stands to the standard output, or to the standard error.

    A reader that has gone away wants no more: that is no error. On the standard error nothing is, for there is nowhere
    left to tell it. Raises OutputError.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        if err or not text:
            return
        raise OutputError("the standard output is closed, and there is something to say on it")
    try:
        if isinstance(text, bytes):
            stream.buffer.write(text)
        else:
            # What the stream's encoding hasn't got is shown as its number.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
            click.echo(text, file=stream, nl=False, color=color)
        stream.flush()
    except BrokenPipeError:
        silence(stream)
    except (OSError, ValueError) as error:
        silence(stream)
        if not err:
            said = getattr(error, "strerror", None) or error
            raise OutputError(f"the standard output can't be written: {said}") from None


def silence(stream: IO[Any] | None) -> None:
    """Leads a stream to nowhere, so that what is still in it raises nothing at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        assert stream is not None
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def occupy_closed_streams() -> None:
    """Opens nothing in the place of standard streams that came closed, so that no file of ours takes their number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether somebody looks at a stream."""
    return stream is not None and not stream.closed and stream.isatty()
