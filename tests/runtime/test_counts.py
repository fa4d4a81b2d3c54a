"""Whose waits are counted: those of the thread and task that watch, and of what they start. What is counted besides."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch

from devlint.runtime import assert_no_sync, virtual_cuda, watch_devices


@pytest.fixture
def on_cuda():
    with virtual_cuda(1):
        yield torch.ones(3, device="cuda")


def waits(watch: watch_devices) -> int:
    return sum(event.count for event in watch.report().waits)


def test_tasks_that_take_turns_count_for_themselves(on_cuda):
    async def reads(times: int) -> int:
        with watch_devices() as watch:
            for _ in range(times):
                on_cuda.sum().item()
                await asyncio.sleep(0)
        return waits(watch)

    async def all_at_once() -> list[int]:
        return await asyncio.gather(reads(1), reads(4), reads(2))

    assert asyncio.run(all_at_once()) == [1, 4, 2]
    # Nothing is left behind by tasks that ended in another order than they began in.
    assert torch._C._len_torch_function_stack() == 1, "virtual CUDA's own"


def test_a_task_counts_for_the_one_that_started_it(on_cuda):
    async def read() -> None:
        on_cuda.sum().item()

    async def main() -> int:
        before = asyncio.ensure_future(asyncio.sleep(0))
        with watch_devices() as watch:
            await asyncio.gather(read(), read())
        await before
        return waits(watch)

    assert asyncio.run(main()) == 2


def test_a_thread_counts_for_the_one_that_started_it_and_for_no_other(on_cuda):
    def read() -> None:
        on_cuda.sum().item()

    def read_beside(entered: threading.Event, done: threading.Event) -> None:
        entered.wait()
        read()
        done.set()

    entered, done = threading.Event(), threading.Event()
    beside = threading.Thread(target=read_beside, args=(entered, done))
    beside.start()
    with watch_devices() as watch:
        inside = threading.Thread(target=read)
        inside.start()
        inside.join()
        entered.set()
        done.wait()
    beside.join()
    assert waits(watch) == 1


def test_a_watch_within_a_watch(on_cuda):
    with watch_devices() as outer:
        on_cuda.sum().item()
        with watch_devices() as inner:
            on_cuda.sum().item()
        on_cuda.sum().item()
    assert (waits(outer), waits(inner)) == (3, 1)


def pinned(**options) -> torch.Tensor:
    return torch.ones(4, 6, pin_memory=True, **options)


@pytest.mark.parametrize(
    ("copy", "is_staged"),
    [
        (lambda: torch.ones(4).to("cuda", non_blocking=True), True),
        (lambda: pinned().to("cuda", non_blocking=True), False),
        (lambda: pinned().t().to("cuda", non_blocking=True), False),
        (lambda: pinned()[:, ::2].to("cuda", non_blocking=True), True),
        (lambda: pinned().to("cuda", torch.float16, non_blocking=True), True),
        (lambda: torch.empty(4).copy_(torch.ones(4, device="cuda"), non_blocking=True), True),
        (lambda: pinned().copy_(torch.ones(4, 6, device="cuda"), non_blocking=True), False),
        (lambda: torch.ones(4, device="cuda").to("cpu", non_blocking=True), False),
    ],
    ids=["pageable", "pinned", "pinned, transposed", "pinned, with gaps", "pinned, cast", "into pageable", "into pinned", "back"],
)  # fmt: skip
def test_copies_that_stage_in_silence(copy, is_staged, on_cuda):
    with watch_devices() as watch:
        copy()
    assert [event.count for event in watch.report().staged] == [1] * is_staged
    assert not watch.report().syncs
    assert len(watch.report().transfers) == 1
    if is_staged:
        with pytest.raises(AssertionError, match="waited 1 times"):
            assert_no_sync(copy)


def test_compiled_functions_and_silenced_warnings(on_cuda):
    with warnings.catch_warnings(), watch_devices() as watch:
        warnings.simplefilter("ignore")
        compiled = torch.compile(lambda t: t * 2 if t.sum().item() > 0 else t, backend="eager")
        for _ in range(3):
            compiled(on_cuda)
    assert waits(watch) == 3


@pytest.mark.filterwarnings("ignore:Dynamo does not know")
def test_compiled_functions_on_the_host_still_run():
    with watch_devices():
        compiled = torch.compile(lambda t: t * 2 + 1, backend="eager")
        assert compiled(torch.ones(2)).tolist() == [3, 3]


PROGRAM = """
import torch
from devlint.runtime import sync_allowed
t = torch.ones(3, device="cuda")
with sync_allowed("to begin with"):
    t.sum().item()
for _ in range(int(__import__("sys").argv[1])):
    t.sum().item()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "waited", "code"),
    [
        ((), 2, 0),
        (("--fail-on-sync",), 0, 0),
        (("--fail-on-sync",), 1, 1),
        (("--max-syncs", "2"), 2, 0),
        (("--max-syncs", "2"), 3, 1),
    ],
)
def test_a_program_that_waits_too_often_fails(options, waited, code, tmp_path: Path):
    script = tmp_path / "serve.py"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "devlint", "run", "--virtual-cuda", "1", *options, str(script), str(waited)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("the host waited" in done.stderr.splitlines()[-1]) == bool(code)
