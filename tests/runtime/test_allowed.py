"""`sync_allowed`: waits that are meant, known to the watch and free where nothing watches."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
import torch

from devlint.runtime import assert_no_sync, sync_allowed, virtual_cuda, watch_devices
from devlint.runtime.allowed import reasons


@pytest.fixture
def on_cuda():
    with virtual_cuda(1):
        yield torch.ones(3, device="cuda")


def waits(watch: watch_devices) -> int:
    return sum(event.count for event in watch.report().syncs)


def test_waits_inside_are_not_counted_and_those_outside_are(on_cuda):
    with watch_devices() as watch:
        with sync_allowed("for the test"):
            on_cuda.sum().item()
        assert waits(watch) == 0
        on_cuda.sum().item()
        assert waits(watch) == 1


def test_it_ends_with_an_error_too(on_cuda):
    with watch_devices() as watch:
        with pytest.raises(ZeroDivisionError), sync_allowed("for the test"):
            raise ZeroDivisionError
        assert reasons.get() == ()
        on_cuda.tolist()
        assert waits(watch) == 1


def test_it_decorates_functions_and_coroutines(on_cuda):
    @sync_allowed("reads")
    def read(t: torch.Tensor) -> float:
        return t.sum().item()

    @sync_allowed("reads later")
    async def read_later(t: torch.Tensor) -> float:
        await asyncio.sleep(0)
        return t.sum().item()

    assert assert_no_sync(read, on_cuda) == 3
    assert assert_no_sync(lambda: asyncio.run(read_later(on_cuda))) == 3


def test_other_threads_are_not_meant(on_cuda):
    with watch_devices() as watch, sync_allowed("this thread"):
        thread = threading.Thread(target=on_cuda.tolist)
        thread.start()
        thread.join()
    assert waits(watch) == 1


def test_nothing_is_done_where_nothing_watches():
    with sync_allowed("nobody looks"):
        assert reasons.get() == ()


def test_it_needs_no_torch():
    code = "import sys; from devlint.runtime import sync_allowed; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
