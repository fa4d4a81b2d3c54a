"""What only a real GPU tells: whether a call makes the host wait, by the clock; and work shared out among processes, so
that a fault of the GPU (an illegal access ends every later call of its process) costs one call.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

# How long the GPU is kept busy while the host is watched: long beside the differences in what a call takes on the host.
_NAP_S = 0.003
# The exit status of a process whose GPU context is broken.
_FAULT = 3

Prepared = Callable[[], Callable[[], Any]]


def nap() -> None:
    """Keeps the current stream busy for `_NAP_S` or somewhat longer, as `torch.cuda._sleep` counts cycles."""
    torch.cuda._sleep(int(_NAP_S * 2e9))


def waits(prepared: Prepared) -> bool:
    """Whether a call makes the host wait, by what PyTorch tells. `prepared` makes the call anew."""
    prepared()()  # what is made ready at a first call waits, too
    return told_waits(prepared()) > 0


def blocks(prepared: Prepared) -> bool:
    """Whether a call waits for what the GPU has to do before it, by the clock: for a process that has the GPU for itself.

    `prepared` makes the call anew, with operands of its own. It is called once before it is measured, for kernels are loaded then.
    """
    prepared()()
    return _blocks_once(prepared) and _blocks_once(prepared)


def _blocks_once(prepared: Prepared) -> bool:
    return _taken(prepared, busy=True) - _taken(prepared, busy=False) > _NAP_S / 2


def _taken(prepared: Prepared, *, busy: bool) -> float:
    """The seconds that a call takes on the host."""
    call = prepared()
    torch.cuda.synchronize()
    if busy:
        nap()
    started = time.perf_counter()
    result = call()
    taken = time.perf_counter() - started
    torch.cuda.synchronize()
    del result
    return taken


@contextmanager
def telling_waits() -> Iterator[None]:
    """CUDA warns of each wait in the block."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def told_waits(call: Callable[[], Any]) -> int:
    """How often CUDA warns of a wait in a call."""
    with warnings.catch_warnings(record=True) as found, telling_waits():
        warnings.simplefilter("always")
        call()
    return sum("synchronizing CUDA operation" in str(warning.message) for warning in found)


def is_healthy() -> bool:
    """Whether the GPU still answers this process."""
    try:
        torch.cuda.synchronize()
        return bool(torch.ones(2, device="cuda").sum().item() == 2)
    except RuntimeError:
        return False


# --- sharing out ----------------------------------------------------------------------------------------------------


def do(jobs: Iterable[tuple[str, Callable[[], Any]]], part: tuple[int, int], lines: Path) -> None:
    """Does every n-th job, and writes a line of JSON for each as it goes; what is written already isn't done again.

    Ends the process with a status of its own where a job breaks the GPU's context: that job's result is None.
    """
    number, of = part
    done = read(lines)
    with lines.open("a", encoding="utf-8") as stream:
        for i, (key, job) in enumerate(jobs):
            if i % of != number or key in done:
                continue
            print(json.dumps([key, "begun"]), file=stream, flush=True)
            failed: Exception | None = None
            try:
                result = job()
            except Exception as error:  # whatever it raises, that job has no result: the others go on
                result, failed = None, error
            healthy = is_healthy()
            if failed is not None and healthy:
                print(f"{key}: {type(failed).__name__}: {failed}", file=sys.stderr)
            print(json.dumps([key, result if healthy else None]), file=stream, flush=True)
            if not healthy:
                sys.exit(_FAULT)


def read(lines: Path) -> dict[str, Any]:
    """The results that a process wrote; one that was begun and killed is None."""
    found: dict[str, Any] = {}
    for line in lines.read_text(encoding="utf-8").splitlines() if lines.exists() else ():
        key, result = json.loads(line)
        found[key] = None if result == "begun" else result
    return found


def share(command: list[str], processes: int, folder: Path, seconds: float) -> dict[str, Any]:
    """Runs a command with `--part I/N --lines FILE` in several processes; gives all results.

    A process that ends before its time is begun again, with the job behind the one that it ended in; one that ends without having begun
    a job isn't. What isn't done after that many seconds is left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + seconds
    files = [folder / f"{i}.jsonl" for i in range(processes)]
    begin = [[sys.executable, *command, "--part", f"{i}/{processes}", "--lines", str(f)] for i, f in enumerate(files)]
    running = {i: subprocess.Popen(begin[i]) for i in range(processes)}
    written = [0] * processes
    while running and time.monotonic() < ends:
        time.sleep(0.2)
        for i, process in list(running.items()):
            status = process.poll()
            if status is None:
                continue
            before, written[i] = written[i], len(read(files[i]))
            if status != 0 and written[i] > before:
                running[i] = subprocess.Popen(begin[i])
            else:
                del running[i]
    for process in running.values():
        process.kill()
    return {key: result for file in files for key, result in read(file).items()}
