"""The files around those that are linted, as one run sees them: a folder is listed once, a text is hashed once.

What was known of a file in an earlier run still holds where the disk says the same of it (times, size, inode).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from devlint.disk import digest_of, read_bytes
from devlint.records import record

# A file that was written this shortly before it was read may be written again without the disk telling it apart.
_UNSURE_NS = 2_000_000_000
TOO_NEW = ""
# What is said of a file that can't be read.
NO_TEXT = ""

_IMPORT = (
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]*(?P<names>\([^()]*\)|[^\s#;(][^\n#;]*)|"
    r"import[ \t]+(?P<plain>[\w.]+)(?:[ \t]+as[ \t]+(?P<alias>\w+))?)"
)


@record(frozen=True, slots=True)
class FileFacts:
    """What is kept of a file from run to run."""

    # How it looks to the disk.
    state: str
    digest: str
    # Its import statements, where somebody asked for them.
    imports: str | None = None


class FileSystem:
    """What is there, and what it holds. Answers stay the same for as long as the object lives."""

    def __init__(self, known: Mapping[str, FileFacts] | None = None) -> None:
        self._known = known or {}
        # What was found out, or found to be as it was, in this run.
        self.facts: dict[str, FileFacts] = {}
        self._new: set[str] = set()
        self._listings: dict[str, dict[str, bool] | None] = {}
        self._real_folders: dict[Path, str] = {}
        self._real: dict[Path, Path] = {}

    def new_facts(self) -> dict[str, FileFacts]:
        """What was found out since this was asked last."""
        new = {path: self.facts[path] for path in self._new}
        self._new.clear()
        return new

    def real(self, path: Path) -> Path:
        """Where a file really is, links followed."""
        if path not in self._real:
            folder = path.parent
            if folder not in self._real_folders:
                self._real_folders[folder] = os.path.realpath(folder)
            # Most files are no links, and those of a folder are all where it is.
            there = Path(self._real_folders[folder], path.name)
            self._real[path] = Path(os.path.realpath(there)) if os.path.islink(there) else there  # noqa: PTH114
        return self._real[path]

    def is_file(self, path: str | Path) -> bool:
        return self._entry(str(path)) is False

    def is_folder(self, path: str | Path) -> bool:
        return self._entry(str(path)) is True

    def _entry(self, path: str) -> bool | None:
        """True for a folder, False for a regular file, None for anything else, or nothing."""
        folder, name = os.path.split(path)
        listing = self._listing(folder)
        if listing is None or not name or name in (".", ".."):
            # A folder may be entered without being readable.
            return True if os.path.isdir(path) else False if os.path.isfile(path) else None  # noqa: PTH112, PTH113
        return listing.get(name)

    def _listing(self, folder: str) -> dict[str, bool] | None:
        if folder not in self._listings:
            self._listings[folder] = _listed(folder)
        return self._listings[folder]

    def read(self, path: Path) -> bytes:
        """The bytes of a file; raises OSError."""
        state = _state(path)
        raw = read_bytes(path)
        digest = digest_of(raw)
        before = self.facts.get(str(path)) or self._known.get(str(path))
        imports = before.imports if before is not None and before.digest == digest else None
        self._remember(str(path), FileFacts(state, digest, imports))
        return raw

    def read_quietly(self, path: Path) -> bytes:
        """The bytes of a file, none where it can't be read."""
        try:
            return self.read(path)
        except OSError:
            return b""

    def _remember(self, path: str, facts: FileFacts) -> FileFacts:
        if self.facts.get(path) != facts:
            self.facts[path] = facts
            self._new.add(path)
        return facts

    def digest(self, path: Path) -> str:
        """What stands for a file's bytes; NO_TEXT where it can't be read."""
        facts = self._facts_of(path)
        return facts.digest if facts is not None else NO_TEXT

    def known_digest(self, path: Path) -> str:
        """What stood for a file's bytes in the last run that met it; NO_TEXT where none did."""
        known = self._known.get(str(path))
        return known.digest if known is not None else NO_TEXT

    def known_statements(self, path: Path) -> str | None:
        """The import statements that a file had in the last run that met it; None where nobody asked for them then."""
        known = self._known.get(str(path))
        return known.imports if known is not None else None

    def _facts_of(self, path: Path) -> FileFacts | None:
        """What is known of a file; None where it can't be read."""
        try:
            if (facts := self._at_hand(path)) is not None:
                return facts
            self.read(path)
        except OSError:
            return None
        return self.facts[str(path)]

    def _at_hand(self, path: Path) -> FileFacts | None:
        """What is known of a file without reading it; raises OSError."""
        spelt = str(path)
        if spelt in self.facts:
            return self.facts[spelt]
        known = self._known.get(spelt)
        if known is not None and known.state != TOO_NEW and known.state == _state(path):
            return self._remember(spelt, known)
        return None

    def import_statements(self, path: Path) -> str:
        """The import statements of a file, a line each, told without parsing it; none where it can't be read."""
        try:
            facts = self._at_hand(path)
            if facts is None or facts.imports is None:
                raw = self.read(path)
                facts = self.facts[str(path)]
                if facts.imports is None:
                    facts = self._remember(str(path), replace(facts, imports=imports_in(raw)))
        except OSError:
            return ""
        return facts.imports or ""


def _state(path: Path) -> str:
    return state_of(os.stat(path))  # noqa: PTH116


@cache
def import_pattern() -> re.Pattern[str]:
    """An import statement as it stands in a text: `module` and `names`, or `plain` and `alias`."""
    return re.compile(_IMPORT, re.MULTILINE)


def imports_in(raw: bytes) -> str:
    """The import statements of a text, a line each: what `import_pattern` finds, looked for where the word stands."""
    text = raw.decode("utf-8", "replace")
    found: list[str] = []
    matched, end = import_pattern().match, 0
    at = text.find("import")
    while at >= 0:
        start = text.rfind("\n", 0, at) + 1
        match = matched(text, start) if start >= end else None
        if match is not None:
            found.append(match[0])
            end = match.end()
        at = text.find("import", max(end, at + 1))
    return "\n".join(found)


def state_of(found: os.stat_result) -> str:
    """How a file looks to the disk; TOO_NEW where it was changed too lately to go by that."""
    if max(found.st_mtime_ns, found.st_ctime_ns) > time.time_ns() - _UNSURE_NS:
        return TOO_NEW
    return f"{found.st_mtime_ns} {found.st_ctime_ns} {found.st_size} {found.st_ino}"


def _listed(folder: str) -> dict[str, bool] | None:
    """The files (False) and folders (True) in a folder; none where it isn't there, None where it can't be listed."""
    try:
        with os.scandir(folder or ".") as entries:
            return dict(_kinds(entries))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError:
        return None


def _kinds(entries: Iterator[os.DirEntry[str]]) -> Iterator[tuple[str, bool]]:
    for entry in entries:
        try:
            if entry.is_dir():
                yield entry.name, True
            elif entry.is_file():
                yield entry.name, False
        except OSError:
            continue
