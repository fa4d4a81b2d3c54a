"""One module per output format, and what they share: the results of a run and where a finding stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devlint.escapes import printable
from devlint.files import Source
from devlint.findings import Finding, Severity

# How each severity is shown.
COLORS: Mapping[Severity, str] = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    return Place(cell, cell_line, column)


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


def summary(results: Sequence[FileResult], *, unsafe_fixes: bool, failed: bool = False) -> str:
    """The closing line: how much was found, and what mends it; "" where nothing was, but not all was looked at."""
    findings = [finding for result in results for finding in result.findings]
    fixed = [finding for result in results for finding in result.fixed]
    if not findings and not fixed:
        return "" if failed else "All checks passed!"
    files = len({result.display for result in results if result.findings or result.fixed})
    found = f"Found {by_severity([*findings, *fixed])} in {counted(files, 'file')}"
    safe = sum(1 for f in findings if f.fix and (unsafe_fixes or f.fix.safety == "safe"))
    unsafe = sum(1 for f in findings if f.fix) - safe
    parts = []
    if safe:
        parts.append(f"{safe} fixable with --fix{' --unsafe-fixes' * unsafe_fixes}")
    if unsafe:
        parts.append(f"{unsafe} {'more ' if safe else 'fixable '}with --unsafe-fixes")
    if fixed:
        parts.insert(0, f"{len(fixed)} fixed, {len(findings)} remaining")
    return found + (f" ({', '.join(parts)})" if parts else "")
