"""The pytest plugin: options, marks, fixtures and the section at the end of the run.

It is loaded by every pytest run in an environment that has devlint, so it imports torch (and the companion) only once
an option, a mark or a fixture of its own is used.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from devlint.runtime.watch.report import Report
    from devlint.runtime.watch.watcher import watch_devices

_MARKS = (
    "devices(*names): run the test once for each device, given by the `device` fixture; "
    '"cuda" is the real GPU where there is one, else a virtual one',
    "max_syncs(n): fail if the test makes the host wait for a device more than n times",
    "max_transfer_bytes(n): fail if the test copies more than n bytes from device to device",
    "virtual_cuda(n=1): run the test with n virtual CUDA devices",
)
_WATCHED_MARKS = ("max_syncs", "max_transfer_bytes")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("devlint", "device placement (devlint)")
    group.addoption("--devlint", action="store_true", help="watch devices; a summary follows the run")
    group.addoption(
        "--devlint-virtual-cuda",
        type=int,
        metavar="N",
        default=0,
        help="run with N virtual CUDA devices and the default device on the first; implies --devlint",
    )
    group.addoption(
        "--devlint-report", metavar="FILE", default=None, help="write what was seen as JSON; implies --devlint"
    )
    group.addoption(
        "--devlint-real-only", action="store_true", help='skip "cuda" tests on machines without a GPU; nothing virtual'
    )


class Session:
    """What a whole run shares: the virtual machine, if one was asked for, and the merged report."""

    def __init__(self, config: pytest.Config) -> None:
        option = config.option
        self.count: int = option.devlint_virtual_cuda
        self.report_file: str | None = option.devlint_report
        self.real_only: bool = option.devlint_real_only
        self.on = bool(option.devlint or self.count or self.report_file)
        self.is_worker = hasattr(config, "workerinput")
        self.reports: list[Report] = []
        self.stack = ExitStack()
        if self.count < 0:
            raise pytest.UsageError("--devlint-virtual-cuda: the number of devices can't be negative")
        if self.on and importlib.util.find_spec("torch") is None:
            raise pytest.UsageError("--devlint: PyTorch is not installed here")

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


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marks."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    config.stash[_SESSION] = Session(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Enters virtual CUDA before test modules are imported, so that what they make at import is on it too."""
    shared = session.config.stash[_SESSION]
    # With xdist the controller runs no tests.
    if not shared.count or (not shared.is_worker and getattr(session.config.option, "dist", "no") != "no"):
        return
    import torch

    from devlint.runtime import virtual_cuda

    shared.stack.enter_context(virtual_cuda(shared.count))
    torch.set_default_device("cuda")
    shared.stack.callback(torch.set_default_device, None)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leaves virtual CUDA; hands the report to xdist's controller, or writes it."""
    shared = session.config.stash[_SESSION]
    shared.stack.close()
    if shared.is_worker:
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

    with ExitStack() as stack:
        if count is not None:
            stack.enter_context(virtual_cuda(count))
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
    limits = {name: mark for name in _WATCHED_MARKS if (mark := item.get_closest_marker(name)) is not None}
    watch = item.stash.get(_WATCH, None)
    if not limits or watch is None:
        return (yield)
    before = watch.report()
    result = yield
    after = watch.report()
    if "max_syncs" in limits:
        _limit(limits["max_syncs"], "sync", before, after)
    if "max_transfer_bytes" in limits:
        _limit(limits["max_transfer_bytes"], "transfer", before, after)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """What pytest prints of tensors is not the test's doing."""
    watch = item.stash.get(_WATCH, None)
    if watch is None:
        return (yield)
    with watch.recorder.muted():
        return (yield)


def _limit(mark: pytest.Mark, kind: Any, before: Report, after: Report) -> None:
    from devlint.runtime.watch.report import size_text

    if len(mark.args) != 1 or not isinstance(mark.args[0], int):
        raise pytest.UsageError(f"{mark.name} takes one whole number")
    allowed = mark.args[0]

    def key(event: Any) -> tuple[Any, ...]:
        return (event.path, event.line, event.operation, event.source, event.target, event.blocking)

    earlier = {key(event): event for event in before.of(kind)}
    rows, total = [], 0
    for event in after.of(kind):
        seen = earlier.get(key(event))
        count = event.count - (seen.count if seen else 0)
        size = event.bytes - (seen.bytes if seen else 0)
        if count:
            total += count if kind == "sync" else size
            moved = f" {event.source} -> {event.target}, {size_text(size)}" if kind == "transfer" else ""
            rows.append(f"  {count} x {event.operation}{moved} at {event.where}")
    if total > allowed:
        found = f"the host waited {total} times" if kind == "sync" else f"{total} bytes were copied"
        pytest.fail("\n".join([f"{mark.name}({allowed}): {found}:", *rows]), pytrace=False)


# --- fixtures -------------------------------------------------------------------------------------------------------


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The device of this run of the test: each of `@pytest.mark.devices(...)` in turn, "cpu" and "cuda" without it."""
    import torch

    from devlint.runtime import compat
    from devlint.runtime.virtual.context import is_virtual, virtual_cuda

    wanted = torch.device(request.param)
    if wanted.type == "cuda" and wanted.index is None:
        wanted = torch.device("cuda", 0)
    if wanted.type != "cuda":
        if wanted.type not in ("cpu", "meta") and not compat.has_device(wanted.type):
            pytest.skip(f"no {wanted.type} device here")
        yield wanted
    elif is_virtual() or torch.cuda.device_count() > wanted.index:
        yield wanted
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
    for line in text.getvalue().rstrip().splitlines():
        terminalreporter.write_line(line.rstrip())
    if shared.report_file is not None:
        terminalreporter.write_line(f"written to {shared.report_file}")
