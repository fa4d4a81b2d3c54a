"""Runs a program under watch: the engine of `devlint run`."""

from __future__ import annotations

import runpy
import sys
import tempfile
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from devlint.runtime.watch.watcher import watch_devices


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


_FOLDED = (str(Path(__file__).parent), "<frozen runpy>")


def _print_traceback(error: BaseException) -> None:
    """The program's own traceback: without the frames of the runner and of the companion."""
    shown = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = shown
    while link is not None:
        link.stack[:] = [frame for frame in link.stack if not frame.filename.startswith(_FOLDED)]
        link = link.__cause__ or link.__context__
    print("".join(shown.format()), end="", file=sys.stderr)


def run_program(
    argv: list[str], *, module: bool, virtual_cuda: int, report: Path | None, max_syncs: int | None = None
) -> int:
    """Runs `argv[0]` (a script's path, or a module's name if `module`) with the rest of `argv` as its arguments.

    `virtual_cuda` is the number of virtual devices, 0 for the machine as it is. Prints the summary to stderr, writes
    the JSON form to `report`, and returns the program's exit code: 1, after its traceback, where it raised, and where the
    host waited more than `max_syncs` times (None for any number) in a program that came through. Raises
    ValueError for an empty `argv`, FileNotFoundError for a script that isn't there, OSError where the report can't be
    written.
    """
    if not argv:
        raise ValueError("devlint run: name a script, or -m and a module")
    if not module and not Path(argv[0]).is_file():
        raise FileNotFoundError(f"devlint run: no such script: {argv[0]}")

    from devlint.runtime.virtual import children
    from devlint.runtime.watch.report import merge
    from devlint.runtime.watch.watcher import watch_devices

    watch = watch_devices()
    with tempfile.TemporaryDirectory(prefix="devlint-", ignore_cleanup_errors=True) as folder:
        code = _run_watched(argv, module, virtual_cuda, watch, Path(folder))
        others = list(children.reports(Path(folder)))
    seen = merge([watch.report(), *others])
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.rule("devlint")
    if others:
        console.print(f"of this process and {len(others)} that it started")
    seen.print(console)
    if report is not None:
        seen.write(report)
    waits = sum(event.count for event in seen.waits)
    if max_syncs is not None and waits > max_syncs:
        console.print(f"the host waited {waits} times, {max_syncs} are allowed")
        return code or 1
    return code


def _run_watched(argv: list[str], module: bool, virtual_cuda: int, watch: watch_devices, folder: Path) -> int:
    """Runs the program; returns its exit code. Processes that it starts leave their reports in `folder`."""
    from devlint.runtime.virtual import children
    from devlint.runtime.virtual.context import virtual_cuda as virtual

    saved_argv, saved_path = sys.argv, list(sys.path)
    sys.argv = list(argv)
    # What Python does for a script, and for -m.
    sys.path.insert(0, str(Path.cwd()) if module else str(Path(argv[0]).resolve().parent))
    try:
        with ExitStack() as stack:
            if virtual_cuda:
                stack.enter_context(virtual(virtual_cuda))
                children.watched(folder)
                stack.callback(children.watched, None)
            stack.enter_context(watch)
            if module:
                runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as error:
        return _exit_code(error.code)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        _print_traceback(error)
        return 1
    finally:
        sys.argv, sys.path[:] = saved_argv, saved_path
    return 0
