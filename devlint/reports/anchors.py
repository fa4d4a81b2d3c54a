"""Where a finding stands for services that know a repository: paths from its top, lines of the file itself.

A notebook's finding is then on the line of its JSON, so that it shows in a diff.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from functools import cache
from hashlib import blake2s
from pathlib import Path

from devlint.adoption.marks import mark_of
from devlint.escapes import printable
from devlint.files import Source
from devlint.findings import Finding, Safety, Span
from devlint.reports import Run, place_of

# What CI services call the folder that they checked the repository out to.
_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")


def top_of(folder: Path) -> Path:
    """The top of the repository that a folder is in: the checkout of a CI job, else what git says; else the folder."""
    named = (Path(os.path.realpath(os.environ[name])) for name in _CHECKOUTS if os.environ.get(name))
    checkout = next((path for path in named if folder.is_relative_to(path)), None)
    marked = (parent for parent in (folder, *folder.parents) if (parent / ".git").exists())
    return checkout or next(marked, folder)


@cache
def _anchored(display: str, folder: Path) -> tuple[Path, bool]:
    path = Path(os.path.normpath(folder / display))
    top = top_of(folder)
    return (path.relative_to(top), True) if path.is_relative_to(top) else (path, False)


def path_from_top(display: str) -> str:
    """A file's path from the repository's top, with forward slashes; outside of it, the whole path."""
    return _anchored(display, Path(os.path.realpath(Path.cwd())))[0].as_posix()


def is_inside(display: str) -> bool:
    """Whether a file lies in the repository."""
    return _anchored(display, Path(os.path.realpath(Path.cwd())))[1]


def in_file(source: Source | None, span: Span) -> Span:
    """A span of a source's text as one of its file; of a notebook, the lines of its JSON from their first column."""
    if source is None or source.notebook is None:
        return span
    start, end = place_of(source, span.line, span.column), place_of(source, span.end_line, span.end_column)
    if start.cell is None:
        return Span(start.line, start.column, end.line, end.column)
    first, last = source.notebook.file_line(span.line), source.notebook.file_line(span.end_line)
    return Span(first, 1, last, 1)


def told(finding: Finding, source: Source | None) -> str:
    """The message, with what the file's lines don't say: the cell of a notebook, and how sure it is."""
    place = place_of(source, finding.span.line, finding.span.column)
    cell = "" if place.cell is None else f"cell {place.cell}, line {place.line}: "
    likely = " (likely)" if finding.confidence == "likely" else ""
    return f"{cell}{printable(finding.message)}{likely}"


def advice(finding: Finding) -> list[str]:
    """What mends a finding, in lines."""
    fix = finding.fix
    lines = [printable(finding.hint)] if finding.hint else []
    return [*lines, f"{printable(fix.title)} ({_OPTIONS[fix.safety]})"] if fix is not None else lines


_OPTIONS: dict[Safety, str] = {
    "safe": "devlint --fix",
    "unsafe": "devlint --fix --unsafe-fixes",
    "display": "a suggestion",
}


def fingerprints(run: Run) -> list[str]:
    """What each finding of a run is known by in the next one: its file, its code, its line's text, and which of alike ones."""
    return list(_fingerprints(run.findings))


def _fingerprints(findings: Iterable[tuple[Finding, Source | None]]) -> Iterable[str]:
    met: Counter[tuple[str, str, str]] = Counter()
    for finding, source in findings:
        kind = mark_of(finding, source, path_from_top(finding.path)).kind
        met[kind] += 1
        said = "\0".join((*kind, str(met[kind])))
        yield blake2s(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
