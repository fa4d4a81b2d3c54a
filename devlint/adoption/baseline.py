"""The baseline: the findings that a project had when it adopted devlint, in a file beside its settings.

A run reports what isn't in it. The file names no line numbers, one finding kind stands on a line of its own, and the lines
are sorted: what is edited elsewhere doesn't change it, and two branches that change it can be merged.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from devlint.adoption.marks import NEVER_OLD, Mark, Sifted, mark_of, sift
from devlint.disk import put_bytes, read_bytes, replace_bytes
from devlint.findings import Finding
from devlint.reports import FileResult, counted

FORM = 1
MAX_BYTES = 64_000_000


class BaselineError(Exception):
    """A baseline that can't be used; the text is one line that names the file and says what to do."""


@dataclass
class Baseline:
    """The old findings of the files under one folder, and what a run has seen of them."""

    file: Path
    marks: tuple[Mark, ...] = ()
    # What was looked at: names of files as in the marks, each with the codes that were reported there.
    seen: dict[str, frozenset[str]] = field(default_factory=dict)
    _now: list[tuple[Mark, Finding]] = field(default_factory=list)
    _sifted: Sifted | None = None

    def name_of(self, path: Path) -> str:
        """A file's name in the baseline: its path from the baseline's folder."""
        return Path(os.path.relpath(path, self.file.parent)).as_posix()

    def look_at(self, path: Path, result: FileResult, codes: frozenset[str]) -> None:
        """Takes in what was found in a file, and which codes were reported there."""
        name = self.name_of(path)
        if not any(finding.code == "DEV000" for finding in result.findings):
            self.seen[name] = codes
        for finding in result.findings:
            if finding.code not in NEVER_OLD:
                self._now.append((mark_of(finding, result.source, name), finding))
        self._sifted = None

    @property
    def sifted(self) -> Sifted:
        if self._sifted is None:
            self._sifted = sift([mark for mark, _ in self._now], self.marks, self._is_gone)
        return self._sifted

    @property
    def old(self) -> list[Finding]:
        """The findings of the run that were there before."""
        known = {id(mark) for mark, _ in self.sifted.known}
        return [finding for mark, finding in self._now if id(mark) in known]

    @property
    def gone(self) -> list[Mark]:
        """The old findings that the run looked for, and that aren't there any more."""
        return [m for m in self.sifted.gone if self._is_gone(m.path) or m.code in self.seen.get(m.path, ())]

    def shrunk(self) -> Baseline:
        """The baseline without what is gone; what has moved is known by its new place."""
        gone = {id(mark) for mark in self.gone}
        left = [mark for mark in self.sifted.gone if id(mark) not in gone]
        return Baseline(self.file, (*(mark for mark, _ in self.sifted.known), *left))

    def renewed(self) -> Baseline:
        """The baseline with all that the run found; of files that it didn't look at, what was there stays."""
        return Baseline(self.file, (*self.shrunk().marks, *self.sifted.new))

    def _is_gone(self, name: str) -> bool:
        return not (self.file.parent / name).exists()

    def write(self) -> None:
        """Puts it into its file, whole or not at all. Raises BaselineError."""
        data, real = _text_of(self.marks).encode(), os.path.realpath(self.file)
        try:
            if self.file.exists():
                replace_bytes(real, data, read_bytes(self.file, MAX_BYTES))
            else:
                put_bytes(real, data)
        except OSError as error:
            raise BaselineError(f"{self.file}: can't be written: {error.strerror or error}") from None


def read_baseline(file: Path) -> Baseline:
    """The baseline in a file, an empty one where there is none. Raises BaselineError."""
    advice = "write it anew with `devlint baseline`"
    try:
        raw = read_bytes(file, MAX_BYTES)
    except FileNotFoundError:
        return Baseline(file)
    except OSError as error:
        raise BaselineError(f"{file}: can't be read: {error.strerror or error}") from None
    if b"\n<<<<<<< " in raw:
        raise BaselineError(f"{file}: holds the marks of a merge conflict; keep the lines of both sides, or {advice}")
    try:
        document: Any = json.loads(raw)
        if document["form"] != FORM:
            raise BaselineError(f"{file}: is of form {document['form']}, this devlint reads {FORM}; {advice}")
        return Baseline(file, tuple(mark for entry in document["findings"] for mark in _marks_of(entry)))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BaselineError(f"{file}: isn't a baseline of devlint; {advice}") from None


def _marks_of(entry: dict[str, Any]) -> list[Mark]:
    path, code, text, near = (str(entry[key]) for key in ("path", "code", "text", "near"))
    each = near.split()
    each += [""] * (int(entry["count"]) - len(each))
    return [Mark(path, code, text, one) for one in each[: int(entry["count"])]]


def _text_of(marks: Iterable[Mark]) -> str:
    kinds: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for mark in marks:
        kinds[mark.kind].append(mark.near)
    lines = [
        json.dumps({"path": path, "code": code, "count": len(near), "text": text, "near": " ".join(sorted(near))})
        for (path, code, text), near in sorted(kinds.items())
    ]
    about = "Findings that were there before: `devlint baseline` writes them, `devlint --update-baseline` drops what is gone."
    body = ",\n".join(f"    {line}" for line in lines)
    return f'{{\n  "about": {json.dumps(about)},\n  "form": {FORM},\n  "findings": [\n{body}{chr(10) if body else ""}  ]\n}}\n'


def without_old(path: Path, result: FileResult, file: Path, codes: frozenset[str]) -> FileResult:
    """One file's result without the findings that the baseline in `file` holds. Raises BaselineError."""
    baseline = read_baseline(file)
    baseline.look_at(path, result, codes)
    old = {id(finding) for finding in baseline.old}
    return replace(result, findings=tuple(f for f in result.findings if id(f) not in old))


@dataclass
class Baselines:
    """The baselines of a run: each file has that of its settings, `file_of` says which."""

    # The baseline's file for a linted one, and the codes that are reported there.
    of: Callable[[str], tuple[Path, Path, frozenset[str]] | None]
    by_file: dict[Path, Baseline] = field(default_factory=dict)

    def look_at(self, results: Sequence[FileResult]) -> None:
        """Takes in what a run found. Raises BaselineError."""
        for result in results:
            where = self.of(result.display)
            if where is None:
                continue
            path, file, codes = where
            if file not in self.by_file:
                self.by_file[file] = read_baseline(file)
            self.by_file[file].look_at(path, result, codes)

    @property
    def old(self) -> list[Finding]:
        return [finding for baseline in self.by_file.values() for finding in baseline.old]

    def told(self, *, whole: bool) -> list[str]:
        """What the report says of each: how many findings were left out, and (of a `whole` run) how many are gone."""
        lines = []
        for baseline in self.by_file.values():
            name = shown_name(baseline.file)
            old, gone = len(baseline.old), len(baseline.gone) if whole else 0
            if old:
                lines.append(f"Left out: {counted(old, 'old finding')}, in {name}")
            if gone:
                lines.append(
                    f"Gone: {counted(gone, 'old finding')}; --update-baseline drops {'it' if gone == 1 else 'them'} from {name}"
                )
        return lines


def shown_name(file: Path) -> str:
    """A baseline's name as the user would write it."""
    return file.relative_to(Path.cwd()).as_posix() if file.is_relative_to(Path.cwd()) else str(file)
