"""Signals end all processes of a run, and close what they hold open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from faults.program import HANGS, write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness relies on fork")

# Each process says that it is busy, and stays so.
BUSY = r"""
import os, time
import devlint.batch as batch
from devlint.cli import main

class Busy(batch.Linter):
    def check(self, source):
        os.write(2, b"BUSY\n")
        {how}
        return []

batch.Linter = Busy
main()
"""
SLEEPS = "time.sleep(600)"
# One instruction of Python's that hears no signal.
DEAF = "sum(range(10**11))"


def busy(how: str, jobs: str) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", BUSY.format(how=how), "--jobs", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert started.stderr is not None
    for _ in range(int(jobs)):
        assert started.stderr.readline() == "BUSY\n"
    return started


def all_gone(group: int, within: float = 60) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    return False


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "terminated"),
        (signal.SIGINT, 130, "interrupted"),
    ],
)
def test_a_signal_to_the_first_process_ends_all(project, number, code, said, jobs):
    for name in range(20):
        write(f"m{name}.py")
    started = busy(SLEEPS, jobs)
    started.send_signal(number)
    # That both pipes end says that no process holds them open.
    _, errors = started.communicate(timeout=HANGS)
    assert started.returncode == code
    assert [line for line in errors.splitlines() if line not in ("BUSY", "")] == [said]
    assert all_gone(started.pid)


def test_processes_that_hear_nothing_are_ended_too(project):
    for name in range(20):
        write(f"m{name}.py")
    started = busy(DEAF, "2")
    started.terminate()
    started.communicate(timeout=HANGS)
    assert started.returncode == 143
    assert all_gone(started.pid)


def test_a_parent_that_is_killed_takes_its_processes_along(project):
    for name in range(20):
        write(f"m{name}.py")
    started = busy(SLEEPS, "2")
    started.kill()
    started.communicate(timeout=HANGS)
    assert all_gone(started.pid)


def test_what_is_ignored_stays_ignored(project):
    """As `nohup` has it."""
    write("bad.py")
    script = f"import signal, os; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({sys.executable!r}, [{sys.executable!r}, '-c', {BUSY.format(how='time.sleep(1)')!r}])"
    started = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stderr is not None
    assert started.stderr.readline() == "BUSY\n"
    started.send_signal(signal.SIGHUP)
    said, _ = started.communicate(timeout=HANGS)
    assert (started.returncode, said) == (0, "All checks passed!\n")
