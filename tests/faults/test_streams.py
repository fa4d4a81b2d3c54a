"""Standard streams that are closed, full, or read by nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults.program import BAD, CLEAN, COMMAND, FIXED, HANGS, devlint, errors, write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


def shell(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in which `devlint` is a function; the exit code is the whole's."""
    script = f'devlint() {{ "{COMMAND[0]}" -m devlint "$@"; }}\n{command}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *arguments], capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


def test_a_closed_output(project):
    write("bad.py")
    done = shell("devlint >&-")
    assert (done.returncode, errors(done)) == (
        2,
        ["error: the standard output is closed, and there is something to say on it"],
    )
    done = shell("devlint -q -o out.txt >&-")
    assert (done.returncode, done.stderr) == (1, "")
    assert Path("out.txt").read_text().startswith("bad.py:4:1")
    write("bad.py", CLEAN)
    done = shell("devlint -q >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_error_stream_and_all_three_closed(project):
    write("bad.py")
    done = shell("devlint nosuch.py bad.py -v 2>&-")
    assert done.returncode == 2
    assert done.stdout.startswith("bad.py:4:1: DEV101")
    assert shell("devlint --fix <&- >&- 2>&-").returncode == 2
    assert Path("bad.py").read_text() == FIXED


def test_a_closed_input(project):
    done = shell("devlint - <&-")
    assert (done.returncode, errors(done)) == (2, ["error: the standard input, which `-` reads, is closed"])
    write("bad.py")
    assert shell("devlint bad.py <&-").returncode == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_output(project):
    write("bad.py")
    full = "error: the standard output can't be written: No space left on device"
    for command in ("devlint >/dev/full", "devlint --diff >/dev/full", "devlint - --fix < bad.py >/dev/full"):
        done = shell(command)
        assert (done.returncode, [line for line in errors(done) if "error" in line][-1]) == (2, full)
    for command in ("devlint rules >/dev/full", "devlint rule DEV101 >/dev/full", "devlint where bad.py:3 > /dev/full"):
        assert shell(command).returncode == 2
    done = shell("devlint -o /dev/full")
    assert done.returncode == 2
    assert errors(done) == ["error: --output-file /dev/full: can't be written: No space left on device"]
    assert shell("devlint nosuch.py 2>/dev/full").returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("devlint many", 1),
        ("devlint many nosuch.py", 2),
        ("devlint many --exit-zero", 0),
        ("devlint many --output-format json", 1),
        ("devlint many --diff", 1),
        ("devlint rules", 0),
        ("devlint rule DEV101", 0),
    ],
)
def test_a_reader_that_goes_away_changes_no_exit_code(project, command, code):
    """The pipe has room for 64 kB; the reader goes before anything is written."""
    for number in range(300):
        write(f"many/m{number}.py")
    done = shell(f"{command} | true; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == code
    assert [line for line in errors(done) if not line.startswith(("error: nosuch.py", "Would fix"))] == []


def test_a_reader_of_errors_that_goes_away(project):
    write("bad.py")
    read, written = os.pipe()
    os.close(read)
    done = devlint("-v", "nosuch.py", "bad.py", stderr=written)
    os.close(written)
    assert done.returncode == 2
    assert BAD.splitlines()[3] in done.stdout
