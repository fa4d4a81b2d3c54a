"""The pytest plugin: options, marks, fixtures and the section at the end of the run.

It is loaded by every pytest run in an environment that has devlint, so it imports torch (and the companion) only once
an option, a mark or a fixture of its own is used.
"""

from __future__ import annotations

import importlib.util
import io
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from devlint.runtime.watch.report import Report
    from devlint.runtime.watch.watcher import watch_devices

_MARKS = (
    "devices(*names): run the test once for each device, given by the `device` fixture; "
    '"cuda" is the real GPU where there is one, else a virtual one',
    "max_syncs(n): fail if the test makes the host wait for a device more than n times, `--devlint-max-syncs` or not",
    "max_transfer_bytes(n): fail if the test copies more than n bytes from device to device",
    "virtual_cuda(n=1): run the test with n virtual CUDA devices",
)
_WATCHED_MARKS = ("max_syncs", "max_transfer_bytes")
_REFUSALS = ("skip", "xfail", "fail")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("devlint", "device placement (devlint)")
    group.addoption("--devlint", action="store_true", help="watch devices; a summary follows the run")
    group.addoption(
        "--devlint-virtual-cuda",
        type=int,
        nargs="?",
        const=1,
        metavar="N",
        default=0,
        help="run with N virtual CUDA devices [1], there before any conftest or test module is imported; implies --devlint",
    )
    group.addoption(
        "--devlint-virtual-device",
        metavar="TYPE[:N]",
        default=None,
        help='the same with devices of another type: "mps", "xpu" or "xpu:2"',
    )
    group.addoption(
        "--devlint-virtual-memory",
        metavar="SIZE",
        default=None,
        help='what each virtual device has, such as "4GiB"; one that is full raises torch.cuda.OutOfMemoryError',
    )
    group.addoption(
        "--devlint-default-device",
        metavar="DEVICE",
        default=None,
        help='the default device of the whole run, such as "cuda"; without it, the default stays the CPU',
    )
    group.addoption(
        "--devlint-refused",
        choices=_REFUSALS,
        default="skip",
        help="what a test counts as that asked for something which virtual CUDA refuses (default: skip)",
    )
    group.addoption(
        "--devlint-report", metavar="FILE", default=None, help="write what was seen as JSON; implies --devlint"
    )
    group.addoption(
        "--devlint-max-syncs",
        type=int,
        metavar="N",
        default=None,
        help="fail each test that makes the host wait for a device more than N times, where its mark says no number",
    )
    group.addoption(
        "--devlint-real-only", action="store_true", help='skip "cuda" tests on machines without a GPU; nothing virtual'
    )


def _machine(count: int, device: str | None) -> tuple[str, int]:
    """The type and number of the virtual devices that the options ask for; 0 for none."""
    if count < 0:
        raise pytest.UsageError("--devlint-virtual-cuda: the number of devices can't be negative")
    if device is None:
        return "cuda", count
    if count:
        raise pytest.UsageError(
            "--devlint-virtual-device: --devlint-virtual-cuda is given as well; one type is at a time"
        )
    kind, colon, number = device.partition(":")
    if colon and not (number.isdecimal() and int(number)):
        raise pytest.UsageError(f"--devlint-virtual-device={device}: write a type, or a type and a number: xpu:2")
    return kind, int(number or 1)


class Session:
    """What a whole run shares: the virtual machine, if one was asked for, and the merged report."""

    def __init__(self, option: Any) -> None:
        self.kind, self.count = _machine(option.devlint_virtual_cuda, option.devlint_virtual_device)
        self.memory: str | None = option.devlint_virtual_memory
        self.default_device: str | None = option.devlint_default_device
        self.refused: str = option.devlint_refused
        self.max_syncs: int | None = option.devlint_max_syncs
        self.report_file: str | None = option.devlint_report
        self.real_only: bool = option.devlint_real_only
        self.on = bool(option.devlint or self.count or self.report_file or self.max_syncs is not None)
        self.reports: list[Report] = []
        self.outcomes: Counter[tuple[str, str]] = Counter()  # (what virtual CUDA did for a test, its outcome)
        self.stack = ExitStack()
        if self.max_syncs is not None and self.max_syncs < 0:
            raise pytest.UsageError("--devlint-max-syncs: the number of waits can't be negative")
        if (self.on or self.default_device) and importlib.util.find_spec("torch") is None:
            raise pytest.UsageError("--devlint: PyTorch is not installed here")

    def enter(self) -> None:
        """Switches on what the options ask for."""
        if not (self.count or self.default_device):
            return
        import torch

        from devlint.runtime import virtual_device

        if self.count:
            try:
                self.stack.enter_context(virtual_device(self.kind, self.count, self.memory))
            except ValueError as error:
                function, _, told = str(error).partition(": ")
                option = "memory" if function == "virtual_cuda" else "device"
                raise pytest.UsageError(f"--devlint-virtual-{option}: {told}") from None
        if self.default_device:
            try:
                torch.empty(0, device=self.default_device)
            except (RuntimeError, AssertionError) as error:
                self.stack.close()
                raise pytest.UsageError(f"--devlint-default-device={self.default_device}: {error}") from None
            torch.set_default_device(self.default_device)
            self.stack.callback(torch.set_default_device, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts tests by what virtual CUDA did for them, once each."""
        told = getattr(report, "devlint", None)
        ended = report.when == "call" or (report.when == "setup" and not report.passed)
        if told == "refused" or (told == "used" and ended):
            self.outcomes[told, report.outcome] += 1

    def add(self, report: Report) -> None:
        """Takes up what a test or a worker saw."""
        self.reports.append(report)
        if len(self.reports) > 100:  # now and then, so that a large suite keeps little
            self.reports = [self.merged()]

    def merged(self) -> Report:
        """Everything seen so far."""
        from devlint.runtime.watch.report import merge

        return merge(self.reports)


_SESSION = pytest.StashKey[Session]()
_WATCH: pytest.StashKey[watch_devices] = pytest.StashKey()
_USES: pytest.StashKey[int] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Enters virtual CUDA before anybody asks: conftests and test modules look for devices when they are imported."""
    _start(early_config, early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marks."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    if _SESSION not in config.stash:  # the plugin came later: `pytest_plugins`, or `-p` in a worker of xdist
        _start(config, config.option)


def _start(config: pytest.Config, option: Any) -> None:
    shared = config.stash[_SESSION] = Session(option)
    config.add_cleanup(shared.stack.close)
    config.pluginmanager.register(shared, "devlint-session")
    shared.enter()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands the report to xdist's controller, or writes it."""
    shared = session.config.stash[_SESSION]
    if hasattr(session.config, "workerinput"):
        if shared.reports:
            session.config.workeroutput["devlint"] = shared.merged().to_dict()  # type: ignore[attr-defined]
    elif shared.report_file is not None:
        shared.merged().write(Path(shared.report_file))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """xdist: a worker is done."""
    data = getattr(node, "workeroutput", {}).get("devlint")
    if data is not None:
        from devlint.runtime.watch.report import from_dict

        node.config.stash[_SESSION].add(from_dict(data))


def _device_count(item: pytest.Item) -> int | None:
    mark = item.get_closest_marker("virtual_cuda")
    if mark is None:
        return None
    count = mark.args[0] if mark.args else mark.kwargs.get("n", 1)
    if not isinstance(count, int) or count < 1:
        raise pytest.UsageError(f"{item.nodeid}: virtual_cuda needs a number of devices from 1 up, not {count!r}")
    return count


def _is_watched(item: pytest.Item, shared: Session) -> bool:
    asked = "device_watch" in getattr(item, "fixturenames", ())
    return shared.on or asked or any(item.get_closest_marker(name) for name in _WATCHED_MARKS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Each test with its own watch, and its virtual devices, around setup, call and teardown."""
    shared = item.config.stash[_SESSION]
    count, watched = _device_count(item), _is_watched(item, shared)
    if count is None and not watched:
        return (yield)
    from devlint.runtime import virtual_cuda, watch_devices
    from devlint.runtime.virtual.state import machine

    with ExitStack() as stack:
        if count is not None:
            stack.enter_context(virtual_cuda(count))
        item.stash[_USES] = machine.uses
        watch = stack.enter_context(watch_devices()) if watched else None
        if watch is not None:
            item.stash[_WATCH] = watch
        result = yield
    if watch is not None and shared.on:
        shared.add(watch.report())
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Checks `max_syncs` and `max_transfer_bytes` over the call (fixtures don't count)."""
    limits = {name: _limit_of(mark) for name in _WATCHED_MARKS if (mark := item.get_closest_marker(name)) is not None}
    for_all = item.config.stash[_SESSION].max_syncs
    if for_all is not None:
        limits.setdefault("max_syncs", for_all)
    watch = item.stash.get(_WATCH, None)
    if not limits or watch is None:
        return (yield)
    before = watch.report()
    result = yield
    after = watch.report()
    for name, limit in limits.items():
        _hold(name, limit, before, after)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Says what virtual CUDA had to do with the outcome. What pytest prints of tensors is not the test's doing."""
    watch = item.stash.get(_WATCH, None)
    with watch.recorder.muted() if watch is not None else nullcontext():
        report: pytest.TestReport = yield
    if _USES not in item.stash:
        return report
    from devlint.runtime.virtual.state import machine

    refusal = _refusal(call.excinfo) if report.failed else None
    if refusal is not None:
        report.devlint = "refused"  # type: ignore[attr-defined]
        _count_as(item.config.stash[_SESSION].refused, report, refusal)
    elif machine.uses > item.stash[_USES]:
        report.devlint = "used"  # type: ignore[attr-defined]
    return report


_REFUSED_IN_A_CHILD = re.compile(r"VirtualCudaUnsupportedError: (.+)")
_PART_IMPORTED = re.compile(r"(cannot import name '_(?:cuda|mps|xpu)_\w+' from 'torch\._C')")


def _refusal(raised: pytest.ExceptionInfo[BaseException] | None) -> str | None:
    """The text of virtual CUDA's refusal, where that is what ended a test: itself, behind another error, in a child."""
    from devlint.runtime.virtual.errors import VirtualCudaUnsupportedError

    error = raised.value if raised is not None else None
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, VirtualCudaUnsupportedError):
            return str(error)
        for told in (_REFUSED_IN_A_CHILD.search(str(error)), _PART_IMPORTED.search(str(error))):
            if told is not None:
                return told[1]
        error = error.__cause__ or error.__context__
    return None


def _count_as(outcome: str, report: pytest.TestReport | pytest.CollectReport, reason: str) -> None:
    if outcome == "fail":
        return
    path, line, _ = getattr(report, "location", (report.nodeid, 0, ""))
    report.outcome = "skipped"
    if outcome == "xfail":
        report.wasxfail = reason  # type: ignore[union-attr]
    else:
        report.longrepr = (path, (line or 0) + 1, f"Skipped: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """A module that asks for what is refused while it is imported counts as its tests would."""
    report: pytest.CollectReport = yield
    call = getattr(report, "call", None)
    if report.failed and call is not None and "devlint.runtime.virtual.errors" in sys.modules:
        refusal = _refusal(call.excinfo)
        if refusal is not None:
            _count_as(collector.config.stash[_SESSION].refused.replace("xfail", "skip"), report, refusal)
    return report


def _limit_of(mark: pytest.Mark) -> int:
    if len(mark.args) != 1 or not isinstance(mark.args[0], int):
        raise pytest.UsageError(f"{mark.name} takes one whole number")
    return mark.args[0]


def _hold(name: str, limit: int, before: Report, after: Report) -> None:
    """Fails where more waits (or bytes) came between two reports than a limit allows."""
    from devlint.runtime.watch.report import size_text

    def key(event: Any) -> tuple[Any, ...]:
        return (event.kind, event.path, event.line, event.operation, event.source, event.target, event.blocking)

    counts_bytes = name == "max_transfer_bytes"
    earlier = {key(event): event for event in before.events}
    rows, total = [], 0
    for event in after.transfers if counts_bytes else after.waits:
        seen = earlier.get(key(event))
        count = event.count - (seen.count if seen else 0)
        size = event.bytes - (seen.bytes if seen else 0)
        if count:
            total += size if counts_bytes else count
            moved = f" {event.source} -> {event.target}, {size_text(size)}" if counts_bytes else ""
            silent = " (staged: its memory isn't pinned)" if event.kind == "staged" else ""
            rows.append(f"  {count} x {event.operation}{moved}{silent} at {event.where}")
    if total > limit:
        found = f"{total} bytes were copied" if counts_bytes else f"the host waited {total} times"
        pytest.fail("\n".join([f"{name}({limit}): {found}:", *rows]), pytrace=False)


# --- fixtures -------------------------------------------------------------------------------------------------------


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The device of this run of the test: each of `@pytest.mark.devices(...)` in turn, "cpu" and "cuda" without it."""
    import torch

    from devlint.runtime import compat
    from devlint.runtime.virtual.context import is_virtual, virtual_cuda
    from devlint.runtime.virtual.state import machine

    wanted = torch.device(request.param)
    if wanted.type == "cuda" and wanted.index is None:
        wanted = torch.device("cuda", 0)
    if wanted.type != "cuda":
        if wanted.type not in ("cpu", "meta") and not compat.has_device(wanted.type):
            pytest.skip(f"no {wanted.type} device here")
        yield wanted
    elif is_virtual() or torch.cuda.device_count() > wanted.index:
        yield wanted
    elif machine.count:
        pytest.skip("no cuda device here: virtual ones of another type are on")
    elif request.config.stash[_SESSION].real_only:
        pytest.skip("no real CUDA device here (--devlint-real-only)")
    else:
        with virtual_cuda(wanted.index + 1):
            yield wanted


@pytest.fixture
def virtual_cuda(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Virtual CUDA for this test: one device, or as many as the mark `virtual_cuda(n)` says."""
    from devlint.runtime.virtual import context

    with context.virtual_cuda(_device_count(request.node) or 1) as machine:
        yield machine


@pytest.fixture
def device_watch(request: pytest.FixtureRequest) -> Any:
    """The watch of this test; `device_watch.report()` is what it has seen."""
    return request.node.stash[_WATCH]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run for each device."""
    if "device" not in metafunc.fixturenames:
        return
    definitions = metafunc._arg2fixturedefs.get("device")
    if not definitions or getattr(definitions[-1].func, "__module__", None) != __name__:
        return  # the project has a `device` of its own
    if any("device" in str(mark.args[0]).split(",") for mark in metafunc.definition.iter_markers("parametrize")):
        return
    mark = metafunc.definition.get_closest_marker("devices")
    metafunc.parametrize("device", mark.args if mark is not None and mark.args else ("cpu", "cuda"), indirect=True)


# --- summary --------------------------------------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The section at the end: mismatches with trails, busiest syncs and transfers."""
    shared = config.stash[_SESSION]
    if not shared.on:
        return
    from rich.console import Console

    text = io.StringIO()
    width = terminalreporter._tw.fullwidth
    Console(file=text, width=max(width, 100), highlight=False, color_system=None).print(shared.merged().table())
    terminalreporter.section("devlint")
    if shared.count:
        terminalreporter.write_line(_told(shared))
    for line in text.getvalue().rstrip().splitlines():
        terminalreporter.write_line(line.rstrip())
    if shared.report_file is not None:
        terminalreporter.write_line(f"written to {shared.report_file}")


def _told(shared: Session) -> str:
    """What a run owes to virtual CUDA, in one line."""
    used = {outcome: n for (told, outcome), n in shared.outcomes.items() if told == "used"}
    refused = sum(n for (told, _), n in shared.outcomes.items() if told == "refused")
    split = ", ".join(f"{n} {outcome}" for outcome, n in sorted(used.items()))
    ran = f"{sum(used.values())} tests ran only because of it" + (f" ({split})" if used else "")
    devices = f"virtual {shared.kind.upper()}, {shared.count} device{'s' * (shared.count != 1)}"
    return f"{devices}: {ran}; {refused} were refused something"
