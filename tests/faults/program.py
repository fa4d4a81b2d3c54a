"""Runs the program as a user does, on whatever is wrong with the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# What a run needs to find its own code, for users who may not read the folder it stands in.
BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'
FIXED = BAD.replace("x.to(", "x = x.to(")
CLEAN = "import torch\n\nx = torch.ones(3)\n"

# Seconds after which a run is told to hang, also on a machine with much else to do: it takes one or two.
HANGS = 300
COMMAND = (sys.executable, "-m", "devlint")


def devlint(*arguments: str | bytes, **more: object) -> subprocess.CompletedProcess[str]:
    """A run in the current folder; a run that hangs fails the test."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
    environment = {**os.environ, "NO_COLOR": "1", **options.pop("env", {})}
    environment.pop("DEVLINT_DEBUG", None)
    done = subprocess.run([*COMMAND, *arguments], env=environment, timeout=HANGS, check=False, **options)
    for stream in ("stdout", "stderr"):
        said = getattr(done, stream)
        setattr(done, stream, "" if said is None else said.decode(errors="surrogateescape"))
    assert "Traceback" not in done.stderr, done.stderr
    assert "internal error" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of the standard error."""
    return done.stderr.splitlines()


def write(name: str, text: str = BAD) -> Path:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, newline="")
    return file
