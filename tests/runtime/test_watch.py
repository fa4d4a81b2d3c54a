"""watch_devices and the assertions: what they count, and what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.real_cuda import told_waits
from devlint.runtime import (
    assert_device_agnostic,
    assert_moves_with_module,
    assert_no_sync,
    assert_on,
    assert_same_device,
    run_program,
    watch_devices,
)
from devlint.runtime.watch.report import from_dict, merge


def here(event):
    return Path(event.path).name == Path(__file__).name


def test_trails_of_a_mismatch(gpus):
    with watch_devices() as watch:
        x = torch.randn(4, 3)
        y = x.to("cuda")
        with pytest.raises(RuntimeError) as caught:
            y + x
    (note,) = caught.value.__notes__
    lines = [line.strip() for line in note.splitlines()]
    first = test_trails_of_a_mismatch.__code__.co_firstlineno
    name = f"{Path(__file__).relative_to(Path.cwd())}"
    where = "in test_trails_of_a_mismatch"
    assert lines == [
        f"devlint: add at {name}:{first + 5} {where}",
        "float32[4, 3] on cuda:0",
        f"created on cpu by randn at {name}:{first + 2} {where}",
        f"moved to cuda:0 by to at {name}:{first + 3} {where}",
        "float32[4, 3] on cpu",
        f"created on cpu by randn at {name}:{first + 2} {where}",
    ]
    (event,) = watch.report().mismatches
    assert event.line == first + 5
    assert [operand.place for operand in event.operands] == ["cuda:0", "cpu"]


def test_trails_stay_short(gpus):
    with watch_devices():
        x, y = torch.ones(3), torch.zeros(3, device="cuda")
        for _ in range(50):
            x = x.cuda().cpu()
        with pytest.raises(RuntimeError) as caught:
            x + y
    note = caught.value.__notes__[0]
    assert note.count("created on cpu by ones") == 1
    assert 4 <= note.count("moved to") <= 8


def test_library_frames_are_folded(gpus):
    with watch_devices() as watch, pytest.raises(RuntimeError) as caught:
        nn.Sequential(nn.Linear(3, 3)).cuda()(torch.ones(1, 3))
    assert here(watch.report().mismatches[0])
    assert "site-packages" not in caught.value.__notes__[0]


SYNCS = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "bool": lambda x: bool(x[0] > 0),
    "if": lambda x: 1 if x.sum() > 0 else 2,
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to cpu": lambda x: x.to("cpu"),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "equal": lambda x: torch.equal(x, x.clone()),
    "to cuda": lambda x: torch.ones(3).cuda(),
    "made from data": lambda x: torch.tensor([1.0], device="cuda"),
    "host index": lambda x: x[torch.tensor([0])],
    "copy_": lambda x: torch.ones(3).copy_(x),
    "where": lambda x: torch.where(x > 0),
    "argwhere": lambda x: torch.argwhere(x),
    "one_hot": lambda x: nn.functional.one_hot(x.long()),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
    "index by a number": lambda x: x[x.argmax()],
    "slice by a number": lambda x: x[: x.argmax()],
    "index by a list": lambda x: x[[0, 1]],
    "an element": lambda x: x.clone().__setitem__(0, 1.0),
    "elements": lambda x: x.clone().__setitem__(torch.zeros(1, dtype=torch.long, device="cuda"), 1.0),
    "a mask and a value there": lambda x: x.clone().__setitem__(x > 0, x[0]),
    "a number in masked_fill": lambda x: x.masked_fill(x > 0, x[0]),
    "a number in where": lambda x: torch.where(x > 0, x, torch.tensor(1.0)),
    "a size": lambda x: torch.zeros(x.argmax(), device="cuda"),
    "covariance": lambda x: torch.cov(x),
    "range of values": lambda x: torch.histc(x, 4),
    "new_tensor": lambda x: x.new_tensor([1.0]),
    "values through a mask": lambda x: x.clone().__setitem__(x > 0, x[1:]),
}
QUIET = {
    "arithmetic": lambda x: (x * 2 + 1).sum(),
    "made there": lambda x: torch.zeros(3, device="cuda"),
    "asynchronous": lambda x: torch.ones(3).pin_memory().cuda(non_blocking=True),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "masked assignment": lambda x: x.clone().__setitem__(x > 0, 0.0),
    "classes told": lambda x: nn.functional.one_hot(x.long(), 4) + nn.functional.one_hot(x.long(), num_classes=4),
    "size told": lambda x: x.repeat_interleave(x.long(), output_size=3),
    "a row": lambda x: torch.ones(3, 3, device="cuda").__setitem__(0, 1.0),
    "a slice filled": lambda x: x.clone().__setitem__(slice(0, 2), 1.0),
    "host mask": lambda x: x[torch.tensor([True, False, True])],
    "a number of the host": lambda x: x[torch.tensor(1)],
    "the same tensor": lambda x: torch.equal(x, x),
    "range told": lambda x: torch.histc(x, 4, 0, 3),
    "to, asynchronous by position": lambda x: x.to("cpu", torch.float32, True),
    "three-way where": lambda x: torch.where(x > 0, x, 0.0),
    "shape": lambda x: x.shape[0] + x.dim() + len(x),
    "slice": lambda x: x[1:],
    "number": lambda x: x * torch.tensor(2.0),
    "device index": lambda x: x[torch.zeros(1, dtype=torch.long, device="cuda")],
    "module": lambda x: nn.ReLU()(x),
    "same place": lambda x: x.to("cuda"),
    "host read": lambda x: torch.ones(1).item(),
}


@pytest.mark.parametrize("name", [*SYNCS, *QUIET])
def test_counts_syncs(name, gpus):
    call = SYNCS.get(name) or QUIET[name]
    x = torch.arange(3.0, device="cuda")
    with watch_devices() as watch:
        call(x)
    report = watch.report()
    assert report.sync_count == (1 if name in SYNCS else 0)
    assert all(here(event) for event in report.events)
    if gpus == "real":
        # A call that waits several times within is counted once.
        assert bool(told_waits(lambda: call(x))) == bool(report.sync_count)


def test_counts_bytes_and_directions(two_gpus):
    with watch_devices() as watch:
        for _ in range(3):
            x = torch.ones(8).cuda()
        back = x.to("cpu")
        x.to("cuda:1")
        back.cuda()
    seen = {(e.source, e.target, e.count, e.bytes) for e in watch.report().transfers}
    assert seen == {
        ("cpu", "cuda:0", 3, 96),
        ("cpu", "cuda:0", 1, 32),
        ("cuda:0", "cpu", 1, 32),
        ("cuda:0", "cuda:1", 1, 32),
    }
    (trip,) = watch.report().round_trips
    assert (trip.count, trip.bytes) == (1, 32)
    assert watch.report().transfer_bytes == 192


def test_printing_is_one_sync_and_flushes_count(gpus, capsys):
    x = torch.ones(3, device="cuda")
    with watch_devices() as watch:
        print(x)
        f"{x.sum():.2f}"
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    report = watch.report()
    assert [(event.operation, event.count) for event in report.syncs] == [("print", 1), ("item", 1)]
    assert {event.operation for event in report.flushes} == {"synchronize", "empty_cache"}


def test_report_forms(gpus):
    with watch_devices() as watch:
        x = torch.ones(3, device="cuda")
        x.sum().item()
        with pytest.raises(RuntimeError):
            x + torch.ones(3)
    report = watch.report()
    data = json.loads(json.dumps(report.to_dict()))
    assert data["schema"] == 1
    assert from_dict(data) == report
    double = merge([report, report])
    assert double.sync_count == 2
    assert double.mismatches[0].count == 2
    with pytest.raises(ValueError, match="not a devlint report"):
        from_dict({})
    with pytest.raises(ValueError, match="schema 99"):
        from_dict({**data, "schema": 99})


def test_watch_on_the_plain_cpu_sees_nothing():
    with watch_devices() as watch:
        x = torch.ones(3)
        x.sum().item()
        x.numpy()
        nn.Linear(3, 3)(x).sum().backward()
    assert watch.report().events == ()


def test_watch_as_decorator_and_in_threads(gpus):
    import threading

    watch = watch_devices()

    @watch
    def work():
        thread = threading.Thread(target=lambda: torch.ones(2, device="cuda").sum().item())
        thread.start()
        thread.join()

    work()
    work()
    assert watch.report().sync_count == 2


# --- assertions ---


class Forgetful(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.scale = torch.ones(2)
        self.more = [nn.Linear(2, 2)]

    def forward(self, x):
        return self.linear(x) * self.scale


def test_assert_on(gpus):
    model = nn.Linear(2, 2).cuda()
    assert_on(model, "cuda")
    assert_on({"a": [torch.ones(1, device="cuda")]}, "cuda:0")
    with pytest.raises(AssertionError, match=r"1 of 2 tensors is not:\n  it\[1\] \[3\] is on cpu"):
        assert_on([torch.ones(1, device="cuda"), torch.ones(3)], "cuda")
    with pytest.raises(AssertionError, match="found no tensor"):
        assert_on([], "cuda")


def test_assert_same_device(gpus):
    x = torch.ones(1, device="cuda")
    assert_same_device(x, nn.Linear(1, 1).cuda(), {"k": x})
    with pytest.raises(AssertionError, match="found 2:"):
        assert_same_device(x, torch.ones(1))


def test_assert_moves_with_module():
    assert_moves_with_module(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    with pytest.raises(AssertionError, match=r"3 tensors of Forgetful do not follow") as caught:
        assert_moves_with_module(Forgetful())
    assert "Forgetful.scale" in str(caught.value)
    assert "Forgetful.more[0].weight" in str(caught.value)


def test_assert_device_agnostic():
    assert_device_agnostic(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), torch.ones(3, 2))
    assert_device_agnostic(lambda x: {"mean": x.mean(), "n": x.shape[0]}, torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="two devices") as caught:
        assert_device_agnostic(lambda x: x + torch.ones(2), torch.ones(3, 2))
    assert any("all inputs on cuda:0" in note for note in caught.value.__notes__)
    with pytest.raises(AssertionError, match="inputs were on cuda:0, but"):
        assert_device_agnostic(lambda x: torch.zeros(x.shape[0]), torch.ones(3, 2))
    with pytest.raises(AssertionError, match="differs from the CPU's"):
        assert_device_agnostic(lambda x: x * (2 if x.is_cuda else 1), torch.ones(2))


def test_assert_no_sync(gpus):
    x = torch.ones(2, device="cuda")
    assert assert_no_sync(lambda: x * 2).tolist() == [2.0, 2.0]
    with pytest.raises(AssertionError, match=r"waited 1 times:\n  1 x item at"):
        assert_no_sync(lambda: x.sum().item())


# --- running programs ---

PROGRAM = """
import sys
import torch

def step(x):
    return x.sum().item()

x = torch.ones(4).cuda()
for _ in range(3):
    step(x)
if "fail" in sys.argv:
    x + torch.ones(4)
sys.exit(int(sys.argv[1]))
"""


def test_run_program(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    report = tmp_path / "report.json"
    assert run_program([str(script), "7"], module=False, virtual_cuda=1, report=report) == 7
    assert "item" in capsys.readouterr().err
    seen = from_dict(json.loads(report.read_text()))
    counts = {(event.kind, event.operation, event.line): event.count for event in seen.events}
    assert counts == {("sync", "item", 6): 3, ("sync", "cuda", 8): 1, ("transfer", "cuda", 8): 1}
    assert run_program([str(script), "0", "fail"], module=False, virtual_cuda=1, report=None) == 1
    shown = capsys.readouterr().err
    assert "at least two devices" in shown
    assert "devlint: add at" in shown
    assert str(Path(__file__).parents[2] / "devlint") not in shown
    with pytest.raises(FileNotFoundError, match="no such script"):
        run_program([str(tmp_path / "none.py")], module=False, virtual_cuda=0, report=None)


def test_run_module(tmp_path, monkeypatch, capfd):
    (tmp_path / "job.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    assert run_program(["job", "0"], module=True, virtual_cuda=2, report=None) == 0
    assert "Syncs" in capfd.readouterr().err


def test_import_is_light():
    code = "import sys, devlint.runtime, devlint.runtime.pytest_plugin; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_lazy_modules_are_watched_too(gpus):
    with watch_devices() as watch:
        model = torch.nn.LazyLinear(2).cuda()
        assert model(torch.ones(1, 3, device="cuda")).is_cuda
    assert watch.report().mismatches == ()
