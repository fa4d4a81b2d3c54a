"""What a program does: the lines that run, and those that raise a device error, under virtual CUDA.

A program is run in this process, in a namespace of its own, within `virtual_cuda(2)`, which the caller enters once for many.
Its flags (`programs.FLAGS`) are set from outside: the arguments of the program and the environment.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch

from tests.random_programs.programs import FLAGS

NAME = "<devlint: random program>"

# Written programs end after some hundred lines; one that was cut may loop for ever.
_STEPS = 5_000

_DEVICE_ERROR = re.compile(r"device|can't convert cuda|on CPU|is on cpu|on cuda", re.IGNORECASE)


class _EndlessError(BaseException):
    """A program doesn't end. Not an `Exception`, which a program might catch."""


@dataclass
class Run:
    """One run."""

    # Lines that ran, each with the code it belongs to (its name and first line): a lambda's line may run without its body.
    ran: set[tuple[str, int, int]] = field(default_factory=set)
    # Lines that a device error went through, caught or not.
    raised: set[int] = field(default_factory=set)
    # The lines of the traceback that ended the run, innermost first; empty where it ran through.
    crash: tuple[int, ...] = ()
    # The error that ended it.
    error: BaseException | None = None

    @property
    def broken(self) -> BaseException | None:
        """The error that ended the run, if it isn't about devices: the writer's fault."""
        return None if self.error is None or is_device_error(self.error) else self.error


def run(text: str, flags: frozenset[str] = frozenset(), *, warned: str = "ignore") -> Run:
    """Runs a program with the named flags set. `warned` is what becomes of warnings (`warnings.simplefilter`)."""
    result = Run()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with _outside(flags, warned), _traced(result):
        try:
            exec(compile(text, NAME, "exec"), namespace)
        except (Exception, _EndlessError) as error:
            result.crash, result.error = _lines_of(error), error
    return result


def is_device_error(error: BaseException) -> bool:
    """Whether an error is about where tensors are."""
    return isinstance(error, RuntimeError | TypeError | NotImplementedError | ValueError) and bool(
        _DEVICE_ERROR.search(str(error))
    )


def assignments() -> Iterator[frozenset[str]]:
    """Each way to set the flags."""
    for size in range(len(FLAGS) + 1):
        yield from map(frozenset, itertools.combinations(FLAGS, size))


def all_code(code: CodeType) -> Iterator[CodeType]:
    """A code object and those within."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from all_code(constant)


def _lines_of(error: BaseException) -> tuple[int, ...]:
    frames = traceback.extract_tb(error.__traceback__)
    return tuple(frame.lineno or 0 for frame in reversed(frames) if frame.filename == NAME)


@contextlib.contextmanager
def _outside(flags: frozenset[str], warned: str) -> Iterator[None]:
    """The arguments, environment, streams and state of torch that a program meets."""
    argv, environ = sys.argv, dict(os.environ)
    sys.argv = ["program.py", *["--fast"] * ("FAST" in flags), *["more"] * (12 if "LARGE" in flags else 0)]
    os.environ["DEBUG"] = "1" if "DEBUG" in flags else "0"
    torch.manual_seed(0)
    try:
        # Without gradients, so that no in-place change is refused for their sake.
        with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter(warned)  # type: ignore[arg-type]
            yield
    finally:
        sys.argv = argv
        os.environ.clear()
        os.environ.update(environ)


@contextlib.contextmanager
def _traced(result: Run) -> Iterator[None]:
    """Notes the lines of the program alone."""

    steps = itertools.count()

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            if next(steps) > _STEPS:
                raise _EndlessError
            result.ran.add((frame.f_code.co_name, frame.f_code.co_firstlineno, frame.f_lineno))
        elif event == "exception" and is_device_error(argument[1]):
            result.raised.add(frame.f_lineno)
        return local

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename == NAME else None

    before = sys.gettrace()
    threading.settrace(entered)
    sys.settrace(entered)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]
