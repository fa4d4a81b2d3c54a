"""Rule pages that prove themselves: a rule's examples are linted and run, and must show what the rule states."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devlint.engine import Linter
from devlint.files import read_source
from devlint.fixer import fix
from devlint.rule import META_RULES, Effect, Registry, Rule
from devlint.settings import Settings

# Enough for every example: two of everything.
DEVICES = 2


@dataclass(frozen=True)
class Outcome:
    """What one example of a page came to."""

    title: str
    told: str
    as_stated: bool


@dataclass(frozen=True)
class Ran:
    """What running a piece of code came to."""

    error: BaseException | None
    # Whether the effect's expression was true at the end, devices still there.
    held: bool = False
    # How often the host waited, flushed or copied in the operations that the effect names.
    syncs: int = 0
    # Whether the warning that the effect names was given.
    warned: bool = False


def run_page(rule: type[Rule], *, real: bool = False) -> list[Outcome]:
    """Lints and runs a rule's bad and good example, and the bad one with its fix applied.

    `real` runs them on the machine's own GPU instead of virtual CUDA. Raises ValueError for a rule without an effect
    or without examples, and ModuleNotFoundError where a library that the examples import is missing.
    """
    if rule.effect is None:
        raise ValueError(f"{rule.code} states no effect")
    bad, good = rule.example("Example"), rule.example("Use instead")
    outcomes = [
        _outcome("bad example", rule, rule.effect, bad, wanted=True, real=real),
        _outcome("good example", rule, rule.effect, good, wanted=False, real=real),
    ]
    fixed = _fixed(rule, bad)
    if fixed != bad:
        outcomes.append(_outcome("fixed example", rule, rule.effect, fixed, wanted=False, real=real))
    elif rule.fix != "-":
        outcomes.append(Outcome("fixed example", "no fix was offered", as_stated=False))
    return outcomes


def _linter(rule: type[Rule]) -> Linter:
    # By its code: it may be opt-in.
    return Linter(Settings(root=Path.cwd(), select=(rule.code,)), Registry([*META_RULES, rule]))


def _fixed(rule: type[Rule], code: str) -> str:
    with _in_folder() as folder:
        path = folder / "example.py"
        path.write_text(code, encoding="utf-8")
        return fix(read_source(path, path.name), _linter(rule), safety="display").source.text


def _outcome(title: str, rule: type[Rule], effect: Effect, code: str, *, wanted: bool, real: bool) -> Outcome:
    """What linting and running a piece of code showed, against what it should show."""
    with _in_folder() as folder:
        path = folder / "example.py"
        path.write_text(code, encoding="utf-8")
        codes = [f.code for f in _linter(rule).check(read_source(path, path.name))]
        ran = _run(path, effect, real=real)
    shown = _shows(effect, ran)
    flagged = f"flagged {', '.join(codes)}" if codes else "not flagged"
    clean = ran.error is None or shown
    told = f"{flagged}; {_told(effect, ran)}"
    return Outcome(title, told, clean and shown is wanted and bool(codes) is wanted and set(codes) <= {rule.code})


def _run(path: Path, effect: Effect, *, real: bool) -> Ran:
    if effect.before:
        before = path.with_name("before.py")
        before.write_text(effect.before, encoding="utf-8")
        ran = _run_file(before, Effect(), real=real)
        if ran.error is not None:
            raise ran.error
    if effect.without_accelerator or (effect.in_fresh_process and real):
        return _run_apart(path, effect)
    return _run_file(path, effect, real=real)


def _run_file(path: Path, effect: Effect, *, real: bool) -> Ran:
    from devlint.runtime.clocks import EarlyReadings
    from devlint.runtime.virtual.context import virtual_cuda
    from devlint.runtime.watch.watcher import watch_devices

    watch, clocks = watch_devices(), EarlyReadings(real=real)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(_own_environment())
        warned = stack.enter_context(_all_warnings()) if effect.warns else []
        if not real:
            stack.enter_context(virtual_cuda(DEVICES))
        try:
            with watch, clocks if effect.counts == "early reading" else contextlib.nullcontext():
                names = runpy.run_path(str(path))
        except ModuleNotFoundError:
            # That says nothing of the rule: a library that the example is about isn't there.
            raise
        except Exception as error:
            return Ran(error)
        held = bool(eval(effect.holds, names)) if effect.holds else False
    counted = (event for event in watch.report().events if event.kind == effect.counts)
    syncs = sum(event.count for event in counted if effect.words in event.operation)
    syncs += clocks.count if effect.counts == "early reading" else 0
    return Ran(None, held, syncs, any(effect.warns in str(w.message) for w in warned))


@contextlib.contextmanager
def _all_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings that code gives, those that torch gives once in a process each time."""
    import torch

    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            yield given
    finally:
        torch.set_warn_always(always)


def _run_apart(path: Path, effect: Effect) -> Ran:
    """Runs a file in a process of its own, one that sees no accelerator where the effect asks for that."""
    hidden = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"), "")
    env = {**os.environ, **(hidden if effect.without_accelerator else {})}
    command = [sys.executable, "-c", _APART, str(path), effect.holds or "False"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    if ran.returncode in (0, _HELD):
        return Ran(None, ran.returncode == _HELD)
    raised = _RAISED.search(ran.stderr.rpartition("Traceback (most recent call last):")[2])
    name, text = raised.groups() if raised else ("SystemExit", ran.stderr)
    return Ran(type(name.rpartition(".")[2], (Exception,), {})(text.strip()))


# The exit status that says that the effect's expression is true.
_HELD = 3
_APART = f"import runpy, sys; sys.exit({_HELD} if eval(sys.argv[2], runpy.run_path(sys.argv[1])) else 0)"
# The first line of a traceback that isn't indented tells what was raised.
_RAISED = re.compile(r"^(\w[\w.]*)(?:: (.*))?\Z", re.MULTILINE | re.DOTALL)


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    """What code sets in the environment ends with it."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _in_folder() -> Iterator[Path]:
    """A folder of its own as the current one: examples may write files."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(here)


def _shows(effect: Effect, ran: Ran) -> bool:
    if effect.raises:
        known = type(ran.error).__name__ in effect.raises.split("|")
        return known and any(words in str(ran.error) for words in effect.words.split("|"))
    if ran.error is not None:
        return False
    if effect.warns:
        return ran.warned
    return ran.held if effect.holds else ran.syncs >= effect.syncs


def _told(effect: Effect, ran: Ran) -> str:
    if ran.error is not None:
        first = (str(ran.error).splitlines() or [""])[0]
        return f"raises {type(ran.error).__name__}: {first}"
    if effect.warns:
        return f"runs, and {'warns' if ran.warned else 'does not warn'} that `{effect.warns}`"
    if effect.holds:
        return f"`{effect.holds}` is {ran.held}"
    if not effect.syncs:
        return "runs"
    what = {
        "sync": "the host waits",
        "flush": "it flushes",
        "transfer": "it copies between devices",
        "early reading": "it reads the clock, while the accelerator still works,",
    }[effect.counts]
    return f"runs, and {what} {ran.syncs} times" + (f" in `{effect.words}`" if effect.words else "")
