"""Signals that ask a run to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TerminatedError(BaseException):
    """A signal asked the run to end; what it has opened and started is put away on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


# The last such signal. Libraries may take what its handler raises for Ctrl-C.
_met: list[int] = []


def raise_what_was_met() -> None:
    """Raises TerminatedError where a signal asked the run to end, whatever became of it since."""
    if _met:
        raise TerminatedError(_met[-1])


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A stretch that SIGTERM and SIGHUP end in good order, with all its processes, as Ctrl-C does."""

    def end(number: int, _frame: object) -> None:
        # Whoever is in a hurry gets its way with the second one.
        signal.signal(number, signal.SIG_DFL)
        _met.append(number)
        raise TerminatedError(number)

    ending = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # `nohup` has it ignored: that stays.
    before = {number: signal.signal(number, end) for number in ending if signal.getsignal(number) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
