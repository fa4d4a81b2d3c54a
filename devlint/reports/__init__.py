"""One module per output format, each with `render(run)`, and what they share: a run's results, where a finding stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.disk import FileError
from devlint.escapes import printable
from devlint.files import Source, read_source
from devlint.findings import NOTHING_UNTOLD, Finding, OutputFormat, Safety, Severity, Untold
from devlint.records import record

if TYPE_CHECKING:
    from devlint.rule import Rule

# How each severity is shown.
COLORS: Mapping[Severity, str] = {"error": "red", "warning": "yellow"}


@record(frozen=True, slots=True)
class FileResult:
    """What one file came to.

    `source` is the text that the findings speak of; None when there was nothing to show or it couldn't be read.
    """

    display: str
    findings: tuple[Finding, ...] = ()
    source: Source | None = None
    # The findings that were fixed, or would be with --diff.
    fixed: tuple[Finding, ...] = ()
    diff: str = ""
    # What else the user should know, a line each, that is no finding.
    warnings: tuple[str, ...] = ()
    untold: Untold = NOTHING_UNTOLD


@record(frozen=True)
class Run:
    """What a report tells: the results of a run, and how they are to be told."""

    results: Sequence[FileResult]
    # The rules by code, for reports that explain them.
    rules: Mapping[str, type[Rule]] = field(default_factory=dict)
    # Fixes were, or would be, applied that are at least as safe.
    safety: Safety = "safe"
    # Findings alone, without a summary.
    quiet: bool = False
    # Not all could be looked at.
    failed: bool = False
    # What there is to say behind the findings, in lines; for people, not for programs.
    also: str = ""
    # The findings are those that no baseline holds, or that a change brings.
    only_new: bool = False
    # The reader's terminal follows links.
    links: bool = False
    # Which part of the files was linted, of how many.
    shard: tuple[int, int] | None = None

    @property
    def findings(self) -> Iterator[tuple[Finding, Source | None]]:
        """All findings in their order, each with the text that it speaks of."""
        return ((finding, result.source) for result in self.results for finding in result.findings)

    def page_of(self, finding: Finding) -> str:
        """Where the page of a finding's rule is published; "" where that isn't known."""
        rule = self.rules.get(finding.code)
        return rule.address() if rule is not None else ""


def render(form: OutputFormat, run: Run) -> str:
    """The report of a run in one of the forms, with colours where the form has any."""
    report: str = import_module(f"devlint.reports.{form}").render(run)
    return report


class Sources:
    """The texts that findings and notes point into: those of the run, and other files read when a note names one."""

    def __init__(self, results: Sequence[FileResult]) -> None:
        self._known: dict[str, Source | None] = {r.display: r.source for r in results if r.source is not None}

    def get(self, path: str) -> Source | None:
        if path not in self._known:
            try:
                self._known[path] = read_source(Path(path), path)
            except FileError:
                self._known[path] = None
        return self._known[path]


@record(frozen=True, slots=True)
class Place:
    """A place as the user sees it: in a notebook, the line counts from the cell's start."""

    cell: int | None
    line: int
    column: int


def place_of(source: Source | None, line: int, column: int) -> Place:
    """The place of a line and column of a source's text."""
    if source is None or source.notebook is None:
        return Place(None, line, column)
    cell, cell_line = source.notebook.locate(line)
    return Place(cell, cell_line, column + source.notebook.indent(line))


def spell_place(path: str, place: Place) -> str:
    """`path:line:column`, with the cell of a notebook."""
    cell = "" if place.cell is None else f"cell {place.cell}:"
    return f"{printable(path)}:{cell}{place.line}:{place.column}"


def counted(number: int, thing: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def by_severity(findings: Sequence[Finding]) -> str:
    """`2 errors and 1 warning`."""
    numbers = [(sum(f.severity == severity for f in findings), severity) for severity in COLORS]
    return " and ".join(counted(number, severity) for number, severity in numbers if number)


def summary(results: Sequence[FileResult], *, safety: Safety, failed: bool = False) -> str:
    """The closing line: how much was found, and what mends it; "" where nothing was, but not all was looked at."""
    findings = [finding for result in results for finding in result.findings]
    fixed = [finding for result in results for finding in result.fixed]
    if not findings and not fixed:
        return "" if failed else "All checks passed!"
    files = len({result.display for result in results if result.findings or result.fixed})
    found = f"Found {by_severity([*findings, *fixed])} in {counted(files, 'file')}"
    safe = sum(1 for f in findings if f.fix and f.fix.goes_with(safety))
    unsafe = sum(1 for f in findings if f.fix and f.fix.goes_with("unsafe")) - safe
    parts = []
    if safe:
        parts.append(f"{safe} fixable with --fix{' --unsafe-fixes' * (safety != 'safe')}")
    if unsafe:
        parts.append(f"{unsafe} {'more ' if safe else 'fixable '}with --unsafe-fixes")
    if fixed:
        parts.insert(0, f"{len(fixed)} fixed, {len(findings)} remaining")
    return found + (f" ({', '.join(parts)})" if parts else "")
