"""The plugin, in pytest runs of its own."""

from __future__ import annotations

import importlib.metadata
import json

import pytest
import torch
import torch._dynamo

# All of them before any run inside this process: pytester forgets what is imported during a run.
from devlint.runtime import assertions, virtual_cuda, watch_devices  # noqa: F401
from devlint.runtime.watch.report import from_dict

PLUGIN = ("-p", "devlint.runtime.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def run(pytester):
    """Runs pytest on a test module."""
    # Where devlint is installed, its entry point has loaded the plugin already.
    names = {entry.name for entry in importlib.metadata.entry_points(group="pytest11")}
    plugin = PLUGIN[2:] if "devlint" in names else PLUGIN

    def runner(source, *options, fresh=False):
        pytester.makepyfile(source)
        start = pytester.runpytest_subprocess if fresh else pytester.runpytest_inprocess
        return start(*plugin, *options)

    return runner


def test_costs_nothing_when_unused(run):
    result = run(
        "import sys\ndef test_it():\n    assert 'torch' not in sys.modules and 'rich' not in sys.modules", fresh=True
    )
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*= devlint =*")


def test_devices_mark(run):
    result = run(
        """
        import pytest, torch

        @pytest.mark.devices("cpu", "cuda", "cuda:1")
        def test_it(device):
            assert torch.ones(2, device=device).device == device

        def test_default(device):
            assert device.type in ("cpu", "cuda")
        """,
        "-v",
    )
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*test_it[[]cpu[]] PASSED*", "*test_it[[]cuda[]] PASSED*"])


def test_real_only_skips(run):
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    result = run(
        """
        import pytest

        @pytest.mark.devices("cpu", "cuda")
        def test_it(device):
            pass
        """,
        "--devlint-real-only",
    )
    result.assert_outcomes(passed=1, skipped=1)


def test_the_projects_own_device_fixture_wins(run):
    result = run(
        """
        import pytest

        @pytest.fixture
        def device():
            return "mine"

        def test_fixture(device):
            assert device == "mine"

        @pytest.mark.parametrize("device", ["a", "b"])
        def test_parameter(device):
            assert device in "ab"
        """
    )
    result.assert_outcomes(passed=3)


LIMITS = """
    import pytest, torch

    @pytest.fixture
    def ready(virtual_cuda):
        x = torch.ones(4).cuda()
        x.sum().item()
        return x

    @pytest.mark.max_syncs(1)
    def test_one_is_allowed(ready):
        ready.mean().item()

    @pytest.mark.max_syncs(1)
    def test_two_are_not(ready):
        ready.mean().item()
        if ready.sum() > 0:
            pass

    @pytest.mark.max_transfer_bytes(16)
    def test_bytes(ready):
        ready.cpu()

    @pytest.mark.max_transfer_bytes(15)
    def test_too_many_bytes(ready):
        ready.cpu()
"""


def test_limits(run):
    result = run(LIMITS)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "max_syncs(1): the host waited 2 times:",
            "  1 x item at test_limits.py:15 in test_two_are_not",
            "  1 x bool() at test_limits.py:16 in test_two_are_not",
        ]
    )
    result.stdout.fnmatch_lines(
        [
            "max_transfer_bytes(15): 16 bytes were copied:",
            "  1 x cpu cuda:0 -> cpu, 16 B at test_limits.py:* in test_too_many_bytes",
        ]
    )


def test_a_limit_for_all_tests(run):
    result = run(
        """
        import pytest, torch

        def test_none():
            torch.ones(2, device="cuda").sum()

        def test_one():
            torch.ones(2, device="cuda").sum().item()

        @pytest.mark.max_syncs(2)
        def test_its_own_number_counts():
            torch.ones(2, device="cuda").tolist()
            torch.ones(2).to("cuda", non_blocking=True)
        """,
        "--devlint-virtual-cuda=1",
        "--devlint-max-syncs=0",
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["max_syncs(0): the host waited 1 times:", "  1 x item at *in test_one"])


def test_a_limit_that_is_none(run):
    result = run("def test_it(): pass", "--devlint-max-syncs=-1", fresh=True)
    result.stderr.fnmatch_lines(["*--devlint-max-syncs: the number of waits can't be negative*"])


def test_virtual_cuda_mark_and_watch_fixture(run):
    result = run(
        """
        import pytest, torch

        @pytest.mark.virtual_cuda(3)
        def test_count():
            assert torch.cuda.device_count() == 3

        @pytest.mark.virtual_cuda(2)
        def test_both(virtual_cuda, device_watch):
            torch.ones(2, device="cuda:1").cpu()
            assert device_watch.report().transfer_bytes == 8

        def test_none():
            assert torch.cuda.device_count() == 0
        """
    )
    result.assert_outcomes(passed=3)


FORGETFUL = """
    import torch

    def shift(x):
        return x + torch.arange(3.0, device="cpu")

    def test_wrong():
        shift(torch.ones(2, 3))

    def test_right():
        x = torch.ones(2, 3)
        assert (x * 2).sum().item() == 12
        assert torch.nn.Linear(3, 1)(x).shape == (2, 1)
"""


def check_forgetful(result, pytester):
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*at least two devices, cuda:0 and cpu*"])
    result.stdout.fnmatch_lines(
        [
            "*= devlint =*",
            "devlint: add at test_*.py:4 in shift",
            "*on cuda:0",
            "*created on cuda:0 by ones at test_*.py:7 in test_wrong",
            "*on cpu",
            "*created on cpu by arange at test_*.py:4 in shift",
            "Syncs*",
            "*item*test_*.py:11 in test_right",
        ]
    )
    report = from_dict(json.loads((pytester.path / "seen.json").read_text()))
    assert [event.line for event in report.mismatches] == [4]
    assert report.sync_count == 1
    assert report.virtual_devices == 1


def test_a_cpu_suite_under_virtual_cuda(run, pytester):
    options = ("--devlint-virtual-cuda=1", "--devlint-default-device=cuda", "--devlint-report=seen.json")
    check_forgetful(run(FORGETFUL, *options), pytester)


@pytest.mark.slow
def test_with_xdist(run, pytester):
    pytest.importorskip("xdist")
    options = ("--devlint-virtual-cuda=1", "--devlint-default-device=cuda", "--devlint-report=seen.json", "-n2")
    check_forgetful(run(FORGETFUL, *options, fresh=True), pytester)


def test_the_same_suite_passes_on_the_cpu(run):
    run(FORGETFUL, "--devlint").assert_outcomes(passed=2)


def test_bad_options(run):
    result = run("def test_it(): pass", "--devlint-virtual-cuda=-1")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*--devlint-virtual-cuda: the number of devices can't be negative*"])


# --- a suite of somebody's that knows GPUs ---------------------------------------------------------------------------

SWITCHED = """
    import unittest

    import pytest, torch
    from conftest import DEVICES

    needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

    @pytest.mark.parametrize("device", DEVICES)
    def test_on(device):
        assert torch.ones(2, device=device).device.type == device

    @needs_gpu
    def test_gpu():
        assert torch.ones(2).cuda().is_cuda

    @needs_gpu
    def test_wrong():
        torch.ones(2).cuda() + torch.ones(2)

    @needs_gpu
    def test_graph():
        torch.cuda.CUDAGraph()

    @needs_gpu
    def test_behind_another():
        try:
            torch.cuda.CUDAGraph()
        except NotImplementedError as error:
            raise ValueError("no graph") from error

    def test_default():
        assert torch.ones(2).device.type == "cpu"

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    class TestCase(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            cls.x = torch.ones(2).cuda()

        def test_it(self):
            self.assertTrue((self.x + 1).cuda().is_cuda)

    def documented():
        '''
        >>> torch.ones(2, device=DEVICES[-1]).device.type in DEVICES
        True
        '''
"""
ASKS = "import torch\nDEVICES = ['cpu'] + (['cuda'] if torch.cuda.is_available() else [])"


def check_switched(result, **outcomes):
    result.assert_outcomes(**outcomes)
    told = "5 tests ran only because of it (1 failed, 4 passed); 2 were refused something"
    result.stdout.fnmatch_lines([f"virtual CUDA, 2 devices: {told}"])


@pytest.mark.parametrize(
    ("how", "outcomes"), [("skip", {"skipped": 2}), ("xfail", {"xfailed": 2}), ("fail", {"failed": 3})]
)
def test_the_machine_is_there_before_conftest(run, pytester, how, outcomes):
    pytester.makeconftest(ASKS)
    result = run(SWITCHED, "--devlint-virtual-cuda=2", f"--devlint-refused={how}", "--doctest-modules", "-rs")
    check_switched(result, **{"passed": 6, "failed": 1} | outcomes)
    if how == "skip":
        result.stdout.fnmatch_lines(["SKIPPED*virtual CUDA does not support CUDA graphs*"])


def test_without_it_the_suite_skips(run, pytester):
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    pytester.makeconftest(ASKS)
    run(SWITCHED, "--doctest-modules").assert_outcomes(passed=3, skipped=5)


@pytest.mark.slow
def test_counts_are_summed_over_xdist(run, pytester):
    pytest.importorskip("xdist")
    pytester.makeconftest(ASKS)
    result = run(SWITCHED, "--devlint-virtual-cuda=2", "--doctest-modules", "-n2", fresh=True)
    check_switched(result, passed=6, failed=1, skipped=2)


def test_a_module_that_is_refused_at_import(run):
    result = run("import torch\ntorch.cuda.CUDAGraph()", "--devlint-virtual-cuda=1", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*CUDA graphs*"])


def test_the_default_device_must_be_there(run):
    result = run("def test_it(): pass", "--devlint-virtual-cuda=1", "--devlint-default-device=cuda:3")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*--devlint-default-device=cuda:3: *invalid device ordinal*"])


def test_the_machine_is_gone_afterwards(run):
    run("def test_it(): pass", "--devlint-virtual-cuda=1", "--devlint-default-device=cuda").assert_outcomes(passed=1)
    assert torch.ones(1).device.type == "cpu"
    assert "_devlint_place" not in vars(torch.Tensor)


def test_a_limit_of_memory(run):
    source = """
        import pytest, torch

        def test_it():
            with pytest.raises(torch.cuda.OutOfMemoryError):
                torch.ones(1000, 1000, device="cuda")
    """
    run(source, "--devlint-virtual-cuda=1", "--devlint-virtual-memory=1MiB").assert_outcomes(passed=1)
    result = run(source, "--devlint-virtual-cuda=1", "--devlint-virtual-memory=lots")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*--devlint-virtual-memory: memory must be a number of bytes or a text such as*"])


PARAMETRISED = """
    import pytest, torch

    DEVICES = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "xpu": torch.xpu.is_available(),
    }

    @pytest.mark.parametrize("name", [name for name, there in DEVICES.items() if there])
    def test_it(name):
        assert (torch.ones(2, device=name) + 1).device.type == name

    @pytest.mark.devices("cuda", "mps", "xpu:1")
    def test_ours(device):
        torch.ones(2, device=device)
"""


@pytest.mark.parametrize(("asked", "devices", "passed"), [("mps", "MPS, 1 device", 3), ("xpu:2", "XPU, 2 devices", 3)])
def test_devices_of_another_type(run, asked, devices, passed):
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    result = run(PARAMETRISED, f"--devlint-virtual-device={asked}")
    result.assert_outcomes(passed=passed, skipped=2)
    result.stdout.fnmatch_lines(
        [f"virtual {devices}: 2 tests ran only because of it (2 passed); 0 were refused something"]
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--devlint-virtual-device=tpu"], "--devlint-virtual-device: the type must be one of cuda, mps, xpu*"),
        (["--devlint-virtual-device=mps:2"], "--devlint-virtual-device: there is one mps device in a machine*"),
        (["--devlint-virtual-device=xpu:0"], "--devlint-virtual-device=xpu:0: write a type, or a type and a number*"),
        (["--devlint-virtual-device=xpu", "--devlint-virtual-cuda=1"], "*--devlint-virtual-cuda is given as well*"),
    ],
)
def test_bad_devices_of_another_type(run, options, told):
    result = run("def test_it(): pass", *options)
    assert result.ret != 0
    result.stderr.fnmatch_lines([f"*{told}"])


def test_it_can_be_left_out(pytester):
    """`-p no:devlint`, under the name of its entry point."""
    if "devlint" not in {entry.name for entry in importlib.metadata.entry_points(group="pytest11")}:
        pytest.skip("devlint isn't installed")
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest_subprocess("-p", "no:devlint").assert_outcomes(passed=1)
    result = pytester.runpytest_subprocess("-p", "no:devlint", "--devlint-virtual-cuda=1")
    result.stderr.fnmatch_lines(["*unrecognized arguments: --devlint-virtual-cuda=1"])


def test_a_part_that_is_missing_counts_as_refused(run):
    source = """
        import torch

        def test_it():
            from torch._C import _cuda_noSuchThing
    """
    result = run(source, "--devlint-virtual-cuda=1", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*cannot import name '_cuda_noSuchThing' from 'torch._C'*"])
