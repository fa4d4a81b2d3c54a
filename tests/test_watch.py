"""`devlint --watch`: a real process over real files."""

from __future__ import annotations

import os
import pty
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from repositories import ENVIRONMENT, write
from test_cli import devlint

BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'
GOOD = BAD.replace("x.to", "x = x.to")
OPS = "import torch\n\n\ndef weigh(x):\n    return x * torch.tensor([1.0, 2.0, 3.0])\n"
TRAIN = 'import torch\n\nfrom ops import weigh\n\nprint(weigh(torch.ones(3, device="cuda")))\n'
READY = "Watching for changes; Ctrl-C ends.\n"

ENVIRONMENT = {name: value for name, value in ENVIRONMENT.items() if name != "DEVLINT_NO_CACHE"}


class Watching:
    """A process that watches a folder, and what it says after each run."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-P", "-m", "devlint", "--watch", *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=ENVIRONMENT | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def shown(self) -> str:
        """What the next run says."""
        lines: list[str] = []
        while (line := self._lines.get(timeout=60)) != READY:
            lines.append(line)
        return "".join(lines)

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """The exit code after a signal, and what is still said."""
        os.killpg(self.process.pid, number)
        code = self.process.wait(60)
        rest = []
        while not self._lines.empty():
            rest.append(self._lines.get())
        return code, "".join(rest)


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[list[Watching]]:
    running: list[Watching] = []
    yield running
    for each in running:
        each.process.kill()
        each.process.wait()


def test_each_change_is_linted(tmp_path: Path, watching: list[Watching]) -> None:
    write(tmp_path, {"a.py": BAD, "devlint.toml": "", "notes.txt": "1"})
    watched = Watching(tmp_path, "--output-format", "concise")
    watching.append(watched)
    assert "a.py:4:1: DEV101" in watched.shown()
    # As editors save: a new file in the place of the old one.
    write(tmp_path, {"notes.txt": "2", "a.py.tmp": GOOD})
    (tmp_path / "a.py.tmp").replace(tmp_path / "a.py")
    assert watched.shown() == "All checks passed!\n"
    # A file in a folder that wasn't there.
    write(tmp_path, {"sub/deep/b.py": BAD})
    while "sub/deep/b.py:4:1: DEV101" not in (said := watched.shown()):
        assert said in ("All checks passed!\n", "")
    # Settings, first such as can't be used.
    write(tmp_path, {"devlint.toml": "select = 3"})
    assert "devlint.toml: select" in watched.shown()
    write(tmp_path, {"devlint.toml": 'ignore = ["DEV101"]'})
    assert watched.shown() == "All checks passed!\n"
    (tmp_path / "sub" / "deep" / "b.py").unlink()
    assert watched.shown() == "All checks passed!\n"
    assert watched.end() == (130, "")


def test_a_file_that_the_named_one_imports(tmp_path: Path, watching: list[Watching]) -> None:
    write(tmp_path, {"pyproject.toml": "[tool.devlint]\n", "src/ops.py": OPS, "run/train.py": TRAIN})
    watched = Watching(tmp_path, "run/train.py", "--output-format", "concise", "--verbose")
    watching.append(watched)
    assert "run/train.py:5:" in watched.shown()
    write(tmp_path, {"src/ops.py": OPS.replace("3.0]", "3.0], device=x.device")})
    assert "All checks passed!" in watched.shown()
    # What doesn't hang on a change is kept from run to run.
    write(tmp_path, {"src/other.py": GOOD})
    assert "1 of them as in an earlier run" in watched.shown()
    # Whoever ends it by another signal is told so.
    assert watched.end(signal.SIGTERM) == (143, "terminated\n")


def test_the_screen_is_cleared_on_a_terminal(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": BAD})
    own, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "devlint", "--watch"],
        cwd=tmp_path,
        env=ENVIRONMENT | {"TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    while b"Ctrl-C ends." not in seen:
        seen += os.read(own, 65536)
    assert seen.startswith(b"\x1b[2J\x1b[1;1H")
    assert b"DEV101" in seen
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    os.close(own)


@pytest.mark.parametrize("also", ["-", "--staged", "--add-noqa", "--update-baseline", "--show-files"])
def test_what_watching_is_not_for(also: str) -> None:
    done = devlint("--watch", also, stdin="")
    assert (done.returncode, "--watch lints files as they change" in done.stderr) == (2, True)
