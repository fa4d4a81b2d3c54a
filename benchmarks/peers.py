"""How long devlint takes beside its peers, and how much memory: files, projects, and what changed in one.

Needs Python >= 3.11 on Linux or macOS, and a network for the first run. Each tool is installed into a virtual
environment of its own under the cache folder, because TorchFix pins an older LibCST than a user of devlint gets.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
PROGRAM = "devlint"

# What pip installs for each tool; the one that is measured comes first, the others are its peers.
PACKAGES = {
    PROGRAM: str(REPOSITORY),
    "ruff": "ruff==0.17.5",
    "hotpath": "hotpath-ai==0.1.0",
    "torchfix": "torchfix==0.7.0",
    "fixit": "fixit==2.1.0",
    "pylint": "pylint==4.1.4",
}
PEERS = tuple(PACKAGES)[1:]

# How each tool lints a path: as its user would, without a cache and without settings that happen to lie about.
LINT = {
    PROGRAM: ("check", "--isolated", "--no-cache"),
    "ruff": ("check", "--no-cache", "--isolated"),
    "hotpath": ("analyze",),
    "torchfix": (),
    "fixit": ("lint",),
    "pylint": ("--rcfile=", "--jobs=0", "--score=n"),
}
# The same with what it keeps from run to run, under the cache folder.
WARM = {
    PROGRAM: ("check", "--isolated", "--cache-dir", "../kept/devlint"),
    "ruff": ("check", "--isolated", "--cache-dir", "../kept/ruff"),
}
# pylint tells by single bits of its exit code what it found.
FOUND = {"pylint": frozenset(range(32))}

# Where the projects come from: the wheel, and the folder in it.
TIMM, SMALL, LARGE = "timm", "denoising_diffusion_pytorch", "transformers"
WHEELS = {TIMM: "timm==1.0.31", SMALL: "denoising-diffusion-pytorch==2.3.4", LARGE: "transformers==5.23.0"}


class Workload(NamedTuple):
    """What is linted."""

    path: str
    # The exit code of devlint that shows that it is what its name says (None: either).
    code: int | None = None
    # What each tool keeps from run to run is used; tools that keep nothing are left out.
    warm: bool = False
    # A file that gets one more line before each run.
    edited: str = ""
    large: bool = False


WORKLOADS = {
    "one clean file": Workload("examples/data.py", 0),
    "one file with findings": Workload("examples/train.py", 1),
    "a small project": Workload(SMALL),
    "all of timm": Workload(TIMM),
    "timm, nothing changed": Workload(TIMM, warm=True),
    "timm, one model file edited": Workload(TIMM, warm=True, edited=f"{TIMM}/models/nest.py"),
    "all of transformers": Workload(LARGE, large=True),
}
START_UP = "`--version`"
FLOOR = "`python -c pass`"


class BenchmarkError(Exception):
    """The run can't go on; the text is one line that says what failed and why."""


class Cost(NamedTuple):
    """What one run took: seconds on the clock, seconds of processor time in all its processes, and megabytes in the largest."""

    wall: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Task:
    """One command to time: its row and column in the table, and the exit codes that mean that it did its work."""

    row: str
    tool: str
    command: tuple[str, ...]
    expected: frozenset[int]
    # A file that gets one more line before each run, from the folder of the run.
    edited: str = ""
    # Its first run fills what is kept, and never counts.
    warm: bool = False

    def run(self, folder: Path, limit: float) -> Cost | None:
        """What one run in `folder` costs; None where it takes more than `limit` seconds, and is ended.

        Raises BenchmarkError when the command fails.
        """
        if self.edited:
            with (folder / self.edited).open("a") as file:
                file.write(f"# {time.time_ns()}\n")
        with tempfile.TemporaryFile() as said:
            started = time.perf_counter()
            process = subprocess.Popen(
                self.command, cwd=folder, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
            # With all processes that it started.
            end = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
            end.start()
            _, status, usage = os.wait4(process.pid, 0)
            end.cancel()
            wall = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            errors = said.read().decode(errors="replace")
        if wall >= limit:
            return None
        # A Python program that crashes exits with 1, as one that found something does.
        if process.returncode not in self.expected or "Traceback (most recent call last)" in errors:
            raise _failed(self.command, process.returncode, errors)
        kilobytes = usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
        return Cost(wall, usage.ru_utime + usage.ru_stime, kilobytes / 1000)


# The cost of each run by row and tool, the rows in the order of the table; no runs where it took too long.
Costs = dict[str, dict[str, list[Cost]]]


def tasks(cache: Path, *, large: bool) -> list[Task]:
    """All commands to time, in the order in which one round runs them."""
    version = [
        Task(START_UP, tool, (_program(cache, tool), "--version"), frozenset({0})) for tool in PACKAGES if tool in _TELL
    ]
    python = _program(cache, PROGRAM, "python")
    found = [Task(FLOOR, PROGRAM, (python, "-c", "pass"), frozenset({0})), *version]
    for row, work in WORKLOADS.items():
        for tool, arguments in (WARM if work.warm else LINT).items():
            if large or not work.large:
                expected = {0, 1} if work.code is None or tool != PROGRAM else {work.code}
                command = (_program(cache, tool), *arguments, work.path)
                found.append(Task(row, tool, command, FOUND.get(tool, frozenset(expected)), work.edited, work.warm))
    return found


# The tools that know their version.
_TELL = frozenset(PACKAGES) - {"hotpath"}


def measure(todo: Sequence[Task], folder: Path, repeat: int, slow: float, limit: float) -> Costs:
    """Runs every task `repeat` times in `folder`, after a first run that isn't counted.

    A round runs each task once, so that a busy spell of the machine falls on all tools alike. A task that takes more
    than `slow` seconds isn't run again, and its first run counts; one that takes more than `limit` is ended.
    Raises BenchmarkError.
    """
    costs: Costs = {}
    left = list(todo)
    for turn in range(repeat + 1):
        for task in tuple(left):
            _say(f"round {turn} of {repeat}: {task.tool}, {task.row}")
            cost = task.run(folder, limit)
            if cost is None:
                left.remove(task)
                costs.setdefault(task.row, {})[task.tool] = []
                continue
            is_slow = cost.wall > slow and (turn or not task.warm)
            if is_slow:
                left.remove(task)
            if turn or is_slow:
                costs.setdefault(task.row, {}).setdefault(task.tool, []).append(cost)
    _say("")
    return {row: costs[row] for row in dict.fromkeys(task.row for task in todo)}


def prepare(cache: Path, *, large: bool) -> Path:
    """Makes what is missing under `cache`, and installs devlint as it stands now; returns the folder to lint in.

    Raises BenchmarkError when pip fails.
    """
    for tool, package in PACKAGES.items():
        _say(f"installing {tool}")
        if not Path(_program(cache, tool, "python")).exists():
            _run(sys.executable, "-m", "venv", str(cache / tool))
        # What is there already stays, but for a folder, which pip installs anew each time.
        _run(_program(cache, tool, "python"), "-m", "pip", "install", "--quiet", package)
    corpus = cache / "corpus"
    shutil.copytree(REPOSITORY / "examples", corpus / "examples", dirs_exist_ok=True)
    for name, package in WHEELS.items():
        if large or name != LARGE:
            _unpack(cache, corpus, name, package)
    return corpus


def _unpack(cache: Path, corpus: Path, name: str, package: str) -> None:
    """Fetches a wheel that isn't there, and unpacks it as it is: runs before may have edited it."""
    wheel = corpus / f"{name}-{package.partition('==')[2]}-py3-none-any.whl"
    if not wheel.exists():
        _say(f"fetching {name}")
        pip = (_program(cache, PROGRAM, "python"), "-m", "pip")
        _run(*pip, "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(corpus), package)
    shutil.rmtree(corpus / name, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(corpus)


def versions(cache: Path) -> dict[str, str]:
    """The version of each tool as it gives it itself, of the code that it lints, and of Python."""
    said = {
        tool: _run(_program(cache, tool), "--version").split()[-1] if tool == PROGRAM else package.partition("==")[2]
        for tool, package in PACKAGES.items()
    }
    with contextlib.suppress(BenchmarkError, OSError):
        said[PROGRAM] += f" ({_run('git', '-C', str(REPOSITORY), 'describe', '--always', '--dirty')})"
    projects = {name: package.partition("==")[2] for name, package in WHEELS.items()}
    return {**said, **projects, "Python": platform.python_version()}


def table(costs: Costs, title: str, kind: Literal["wall", "cpu", "memory"]) -> str:
    """One kind of cost as a Markdown table: the least and the median of each tool, and ratios of the least."""
    header = [title, *PACKAGES, *(f"{PROGRAM} / {peer}" for peer in PEERS)]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    for row, by_tool in costs.items():
        seconds = {tool: [getattr(cost, kind) for cost in runs] for tool, runs in by_tool.items()}
        spell = _megabytes if kind == "memory" else _cell
        cells = [spell(seconds[tool]) if tool in seconds else "" for tool in PACKAGES]
        ratios = [_ratio(seconds[PROGRAM], seconds[peer]) if peer in seconds else "" for peer in PEERS]
        lines.append([row, *cells, *ratios])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    return f"{min(ours) / min(theirs):.2f}" if ours and theirs else ""


_ENDED = "at the limit"


def _cell(seconds: Sequence[float]) -> str:
    """The least and the median of some times, in milliseconds."""
    if not seconds:
        return _ENDED
    least, middle = (f"{1000 * value:,.0f}" for value in (min(seconds), median(seconds)))
    return f"{least} ({middle})" if len(seconds) > 1 else f"{least} (one run)"


def _megabytes(runs: Sequence[float]) -> str:
    return f"{max(runs):,.0f}" if runs else _ENDED


def _program(cache: Path, tool: str, name: str | None = None) -> str:
    """The path of a program in a tool's virtual environment: the tool itself unless `name` says another."""
    return str(cache / tool / "bin" / (name or tool))


def _run(*command: str) -> str:
    """The standard output of a command that must succeed; raises BenchmarkError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise _failed(command, done.returncode, done.stderr)
    return done.stdout.strip()


def _failed(command: Sequence[str], code: int, said: str) -> BenchmarkError:
    """The error of a command that ended as it shouldn't have; `said` is its standard error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it gave no reason"]
    return BenchmarkError(f"`{' '.join(command)}` ended with exit code {code}: {lines[-1]}")


def _say(line: str) -> None:
    """Shows progress on a terminal, in one line that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    default = Path(tempfile.gettempdir()) / "devlint-peers"
    add("--env", type=Path, default=default, metavar="DIR", help="the cache folder [%(default)s]")
    add("--repeat", type=int, default=5, metavar="N", help="counted runs of each command [%(default)s]")
    add("--slow", type=float, default=60, metavar="S", help="run once what takes more than S seconds [%(default)s]")
    add("--limit", type=float, default=300, metavar="S", help="end what takes more than S seconds [%(default)s]")
    add("--large", action="store_true", help="lint transformers as well")
    add("--json", type=Path, metavar="FILE", help="write the cost of every run there, in seconds")
    arguments = parser.parse_args()
    if arguments.repeat < 1:
        parser.error("--repeat must be at least 1")
    return arguments


def main() -> int:
    """Runs the benchmark; returns the exit code."""
    arguments = _arguments()
    cache: Path = arguments.env.absolute()
    try:
        folder = prepare(cache, large=arguments.large)
        known = versions(cache)
        before = os.getloadavg()[0]
        costs = measure(tasks(cache, large=arguments.large), folder, arguments.repeat, arguments.slow, arguments.limit)
        facts = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "cores": os.cpu_count(),
            "load": [round(load, 1) for load in (before, os.getloadavg()[0])],
            "repeat": arguments.repeat,
            "limit": arguments.limit,
            "versions": known,
        }
        if arguments.json:
            plain = {row: {t: [c._asdict() for c in runs] for t, runs in by.items()} for row, by in costs.items()}
            arguments.json.write_text(json.dumps({**facts, "seconds": plain}, indent=2) + "\n", encoding="utf-8")
    except (BenchmarkError, OSError) as error:
        _say("")
        print(f"error: {error}", file=sys.stderr)
        return 2
    kinds = (("wall time, ms", "wall"), ("processor time, ms", "cpu"), ("memory of a process, MB", "memory"))
    print(*(table(costs, title, kind) for title, kind in kinds), sep="\n\n")
    print(f"\nLeast (median) of {arguments.repeat} runs, taken in turn; ratios are of the least times.", end=" ")
    print(f"What took more than {arguments.limit:.0f} s was ended: it is {_ENDED}.")
    print(", ".join(f"{name} {version}" for name, version in known.items()), end="; ")
    print("{cores} cores, load {load[0]} before and {load[1]} after; {date}.".format(**facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
