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


def linked(text: str, url: str) -> str:
    """A text that leads to an address on terminals that follow links (OSC 8); the text alone where there is none."""
    return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\" if url else text


# What terminals that follow links set in the environment, and those that say so by a name.
_LINKING = ("DOMTERM", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "WT_SESSION", "GHOSTTY_RESOURCES_DIR")
_LINKING_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "zed", "rio")
_LINKING_TERMS = ("xterm-kitty", "alacritty", "foot", "xterm-ghostty", "wezterm")
# VTE, which most terminals of Linux are built on, follows links since 0.50.
_FIRST_VTE = 5000


def follows_links() -> bool:
    """Whether the terminal is one that shows links; FORCE_HYPERLINK says so, or not, in its place."""
    said = os.environ.get("FORCE_HYPERLINK")
    if said:
        return said != "0"
    vte = os.environ.get("VTE_VERSION", "")
    return (
        any(os.environ.get(name) for name in _LINKING)
        or os.environ.get("TERM_PROGRAM") in _LINKING_PROGRAMS
        or os.environ.get("TERM", "").startswith(_LINKING_TERMS)
        or (vte.isdecimal() and int(vte) >= _FIRST_VTE)
    )
