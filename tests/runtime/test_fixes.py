"""Fixes, run: the programs of the literate cases before and after, on virtual CUDA.

What is fixed never fails where the program didn't, prints what it printed, and leaves the same values behind. A case whose
program needs what isn't there (a file, a library, a name that it leaves out) shows nothing, and is counted apart.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import signal
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from devlint.runtime import virtual_cuda
from devlint.testing import Case, read_cases

DOCUMENTS = sorted((Path(__file__).parent.parent / "cases").glob("dev*.md"))
CASES = [
    case
    for document in DOCUMENTS
    for case in read_cases(document)
    if any(file.mended not in (None, file.text) for file in case.files) and not case.pending
]
# What a program needs and hasn't got here.
LACKS = (NameError, ModuleNotFoundError, FileNotFoundError, TimeoutError, ImportError)
SECONDS = 20


@dataclass
class Ran:
    """What a program came to."""

    error: BaseException | None
    printed: str = ""
    values: dict[str, object] = field(default_factory=dict)


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(case: Case, folder: Path, *, fixed: bool, devices: int) -> Ran:
    """Runs the first file of a case, with the others beside it."""
    folder.mkdir()
    for file in case.files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.mended if fixed and file.mended is not None else file.text, encoding="utf-8")
    here, path, modules, environment = Path.cwd(), list(sys.path), set(sys.modules), dict(os.environ)
    printed = io.StringIO()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    torch.manual_seed(0)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(contextlib.redirect_stdout(printed))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            if devices:
                stack.enter_context(virtual_cuda(devices))
            stack.enter_context(within(SECONDS))
            names = runpy.run_path(str(folder / case.files[-1 if len(case.files) == 1 else 0].name))
            values = {name: seen(value) for name, value in names.items() if not name.startswith("__")}
            return Ran(None, printed.getvalue(), values)
    except (Exception, SystemExit) as error:
        return Ran(error, printed.getvalue())
    finally:
        os.chdir(here)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if getattr(sys.modules[name], "__file__", None) and str(folder) in str(sys.modules[name].__file__):
                del sys.modules[name]
        os.environ.clear()
        os.environ.update(environment)


def seen(value: object) -> object:
    """What can be compared of a value: numbers and text, tensors and modules as lists; None for anything else."""
    if isinstance(value, torch.Tensor):
        return (
            "tensor",
            tuple(value.shape),
            value.dtype,
            value.detach().cpu().tolist() if value.numel() < 10_000 else 0,
        )
    if isinstance(value, torch.nn.Module):
        return ("module", [(name, seen(p)) for name, p in value.named_parameters()])
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [seen(item) for item in value]
    if isinstance(value, dict):
        return {str(key): seen(item) for key, item in value.items()}
    return None


def alike(a: object, b: object) -> bool:
    """Whether two values are equal but for rounding, and for a number being one of a tensor's."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, float) and isinstance(b, (int, float)):
        return a == pytest.approx(b, rel=1e-4, abs=1e-6, nan_ok=True)
    return a == b


# Rules whose bug is the value itself, or whose fix says that the values are others.
OTHER_VALUES = {
    "DEV105": "other random numbers",
    "DEV107": "other random numbers",
    "DEV302": "the keys lose their prefix",
    "DEV405": "the wrapper is gone",
    "DEV509": "other times",
    "DEV609": "the answer, where the method was",
}
# Cases whose fixed program shows what the bug hid.
SHOWN_BY_THE_FIX = {
    "A chain of moves starts from one tensor": "a cast takes effect",
    "Arguments over several lines keep their layout": "a cast takes effect",
    "A device of its own, and a string": "the branch for MPS is entered, and there is none here",
    "The usual choice of a device": "a device's name loses its index",
}
# Where a tensor is, as its text tells.
_UNSEEN = re.compile(r", device='[\w:]+'")


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="programs are stopped by an alarm")
@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_fix_changes_nothing_but_the_bug(case: Case, tmp_path: Path) -> None:
    before = run(case, tmp_path / "before", fixed=False, devices=2)
    after = run(case, tmp_path / "after", fixed=True, devices=2)
    rule = case.document.removesuffix(".md").upper()
    if isinstance(before.error, LACKS) and rule != "DEV605":
        pytest.skip(f"can't be run: {type(before.error).__name__}: {before.error}")
    if case.title in SHOWN_BY_THE_FIX:
        return
    if before.error is not None:
        # The bug itself, most often: what is fixed gets further.
        if str(before.error) == str(after.error):
            pytest.skip(f"fails for another reason: {before.error}")
        return
    if isinstance(after.error, ModuleNotFoundError) and case.document in ("dev701.md", "dev702.md"):
        pytest.skip("the project's own layer isn't part of the case: tests/test_portable.py runs one")
    if not hasattr(torch, "accelerator") and "has no attribute 'accelerator'" in str(after.error):
        pytest.skip("this release of PyTorch has no torch.accelerator, which the fix is written with")
    assert after.error is None, after.error
    if rule not in OTHER_VALUES:
        assert _UNSEEN.sub("", after.printed) == _UNSEEN.sub("", before.printed)
        common = before.values.keys() & after.values.keys()
        assert {n for n in common if not alike(before.values[n], after.values[n])} == set()
