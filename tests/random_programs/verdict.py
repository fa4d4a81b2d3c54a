"""What devlint says of a program, beside what the program does.

**Refuted**: a `certain` finding that places can prove wrong (`PROVABLE`), on a line that ran through without a device error,
under every setting of the flags that can't be known. A flag's setting is a path of the program: a finding that tells of the
path where `--fast` is given is right if that run fails there. What the program itself decides (arguments at its own calls,
constants, attributes) isn't free: a finding about a call that is never made is refuted. All code that starts on the line has
to have run, so that a lambda which is never called proves nothing; so have the calls that its notes name ("called from here"),
and a line on which the program ended hasn't. An error that is caught counts as an error. Where the program ended within a loop
around the line, its next passes aren't known: it is run again without the statement that ended it (`later_passes`).

DEV103 and DEV203 stand where a tensor is made: for them the lines of their notes, where it meets another, count as well.

**Confirmed**: such a finding, where a device error goes through its line in some run.

**Found**: the program ends with a device error, under the flags that it was drawn with, and a DEV1 or DEV2 finding of any
confidence names it: it stands on a line of the error's traceback (the operation, or a call that leads to it), or has a note on
the line of the operation, or its fix mends it (the program with that fix alone doesn't fail there any more). **Missed** otherwise.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devlint.engine import Linter, apply_edits
from devlint.files import Source
from devlint.findings import Finding
from devlint.rule import load_registry
from devlint.settings import Settings
from tests.random_programs.shrinking import shrink
from tests.random_programs.truth import NAME, Run, all_code, assignments, run

# What an error at run time proves.
# DEV103 speaks of modules that are moved, and a program may move none.
PROVABLE = frozenset({"DEV201", "DEV202", "DEV203", "DEV204", "DEV205", "DEV206"})
_NOTED = frozenset({"DEV103", "DEV203"})
FILE = "program.py"
# A program that is to run on is mended so often.
_MENDS = 4


@dataclass(frozen=True)
class Verdict:
    """What came out for one program."""

    text: str
    flags: frozenset[str]
    run: Run
    findings: tuple[Finding, ...]
    refuted: tuple[Finding, ...]
    confirmed: tuple[Finding, ...]

    @property
    def crashed(self) -> bool:
        """Whether a device error ended the program."""
        return bool(self.run.crash) and self.run.broken is None

    @functools.cached_property
    def naming(self) -> list[Finding]:
        """The findings that name the error that ended the program."""
        return [f for f in self.findings if self.crashed and (names(f, self.run.crash) or self._mends(f))]

    def _mends(self, finding: Finding) -> bool:
        """Whether a fix keeps the program from failing where it does."""
        if finding.fix is None or not _is_placement(finding):
            return False
        fixed = apply_edits(self.text, [finding.fix])
        failed = self.text.splitlines()[self.run.crash[0] - 1]
        again = run(fixed, self.flags)
        return again.broken is None and (not again.crash or fixed.splitlines()[again.crash[0] - 1] != failed)

    @property
    def missed(self) -> bool:
        return self.crashed and not self.naming


def names(finding: Finding, crash: Sequence[int]) -> bool:
    """Whether a finding names an error with that traceback (innermost line first)."""
    noted = any(note.path == FILE and note.line == crash[0] for note in finding.notes)
    return _is_placement(finding) and (finding.span.line in crash or noted)


def _is_placement(finding: Finding) -> bool:
    return finding.code.startswith(("DEV1", "DEV2"))


@functools.cache
def _linter() -> Linter:
    # A folder without Python files: the program is all there is.
    root = Path(__file__).parent / "nowhere"
    return Linter(Settings(root=root, src=(root,)), load_registry())


def lint(text: str) -> list[Finding]:
    """What devlint says of a program, all rules that are on by default."""
    return _linter().check(Source(None, FILE, text))


def judge(text: str, flags: frozenset[str] = frozenset()) -> Verdict:
    """Runs and lints a program. Must be called within `virtual_cuda(2)`."""
    return measured(text, flags, lint(text))


def measured(text: str, flags: frozenset[str], findings: Sequence[Finding]) -> Verdict:
    """What running a program, with some flags set, tells of findings about it."""
    first = run(text, flags)
    proofs = [f for f in findings if f.code in PROVABLE and f.confidence == "certain"]
    confirmed = [f for f in proofs if lines_of(f) & first.raised]
    doubtful = [f for f in proofs if f not in confirmed and all(ran_through(first, text, n) for n in _passed(f))]
    if doubtful:
        raised = set().union(*(run(text, other).raised for other in assignments() if other != flags))
        confirmed += [f for f in doubtful if lines_of(f) & raised]
        doubtful = [f for f in doubtful if not lines_of(f) & raised]
    later = [(f, passes) for f in doubtful if (passes := later_passes(text, flags, first, f.span.line)) is not None]
    confirmed += [f for f, passes in later if lines_of(f) & passes.raised]
    refuted = [f for f, passes in later if not lines_of(f) & passes.raised]
    return Verdict(text, flags, first, tuple(findings), tuple(refuted), tuple(confirmed))


def later_passes(text: str, flags: frozenset[str], first: Run, line: int) -> Run | None:
    """The run in which the loop around a line isn't cut short by an error on another of its lines; None where that can't be had.

    It is the first run where that ended outside of such a loop.
    """
    last = first
    for _ in range(_MENDS):
        ended = _ended_in_loop(text, last, line)
        if ended is None or line in last.raised:
            return last
        text = _without(text, ended) or ""
        last = run(text, flags) if text else last
        if not text or last.broken is not None:
            return None
    return None


def _ended_in_loop(text: str, last: Run, line: int) -> int | None:
    """The line by which a loop around another line was left with an error."""
    loops = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.For | ast.While) and _holds(n, line)]
    return next((n for n in reversed(last.crash) if any(_holds(loop, n) for loop in loops)), None)


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _without(text: str, line: int) -> str | None:
    """A program without the simple statement on a line, all others on theirs; None where a compound one stands there."""
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt) and _holds(n, line)]
    innermost = max(found, key=lambda n: n.lineno)
    if hasattr(innermost, "body"):
        return None
    lines = text.splitlines(keepends=True)
    lines[innermost.lineno - 1] = f"{' ' * innermost.col_offset}pass\n"
    for number in range(innermost.lineno, innermost.end_lineno or 0):
        lines[number] = "\n"
    return "".join(lines)


def lines_of(finding: Finding) -> set[int]:
    """The lines where an error would confirm a finding."""
    noted = {note.line for note in finding.notes if note.path == FILE} if finding.code in _NOTED else set()
    return {finding.span.line, *noted}


def _passed(finding: Finding) -> set[int]:
    """The lines that have to have run to refute a finding: its own, and the calls that it tells of."""
    calls = {note.line for note in finding.notes if note.path == FILE and note.message.startswith("called from here")}
    return lines_of(finding) | calls


def ran_through(first: Run, text: str, line: int) -> bool:
    """Whether all code that stands on a line ran without a device error."""
    here = [
        (code.co_name, code.co_firstlineno)
        for code in all_code(compile(text, NAME, "exec"))
        if any(line == number for _, _, number in code.co_lines())
        # A function's head belongs to the code around it; a lambda or a comprehension stands on its line.
        and (code.co_firstlineno != line or code.co_name.startswith("<"))
    ]
    return (
        bool(here)
        and line not in first.raised
        and line not in first.crash
        and all((*code, line) in first.ran for code in here)
    )


def small_refutation(text: str, flags: frozenset[str], code: str) -> str:
    """A small program in which a certain finding of that code is refuted, from one in which it is."""

    def holds(candidate: str) -> bool:
        if not any(finding.code == code and finding.confidence == "certain" for finding in lint(candidate)):
            return False
        verdict = judge(candidate, flags)
        return verdict.run.broken is None and any(finding.code == code for finding in verdict.refuted)

    return shrink(text, holds)


def small_miss(text: str, flags: frozenset[str]) -> str:
    """A small program whose crash is missed, from one that is missed; it fails with the same type of error."""
    error = type(run(text, flags).error)

    def holds(candidate: str) -> bool:
        first = run(candidate, flags)
        return first.broken is None and type(first.error) is error and judge(candidate, flags).missed

    return shrink(text, holds)
