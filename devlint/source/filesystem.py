"""The files around those that are linted, as one run sees them: a folder is listed once, a text is hashed once.

What was known of a file in an earlier run still holds where the disk says the same of it (times, size, inode).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from devlint.disk import digest_of, read_bytes

# A file that was written this shortly before it was read may be written again without the disk telling it apart.
_UNSURE_NS = 2_000_000_000
TOO_NEW = ""
# What is said of a file that can't be read.
NO_TEXT = ""

_IMPORT = (
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]*(?P<names>\([^()]*\)|[^\s#;(][^\n#;]*)|"
    r"import[ \t]+(?P<plain>[\w.]+)(?:[ \t]+as[ \t]+(?P<alias>\w+))?)"
)


@dataclass(frozen=True, slots=True)
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

    def new_facts(self) -> dict[str, FileFacts]:
        """What was found out since this was asked last."""
        new = {path: self.facts[path] for path in self._new}
        self._new.clear()
        return new

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

    def _facts_of(self, path: Path) -> FileFacts | None:
        """What is known of a file; None where it can't be read."""
        spelt = str(path)
        if spelt in self.facts:
            return self.facts[spelt]
        known = self._known.get(spelt)
        try:
            if known is not None and known.state != TOO_NEW and known.state == _state(path):
                return self._remember(spelt, known)
            self.read(path)
        except OSError:
            return None
        return self.facts[spelt]

    def import_statements(self, path: Path) -> str:
        """The import statements of a file, a line each, told without parsing it; none where it can't be read."""
        facts = self._facts_of(path)
        if facts is None:
            return ""
        if facts.imports is None:
            try:
                state, raw = _state(path), read_bytes(path)
            except OSError:
                return ""
            found = "\n".join(match[0] for match in import_pattern().finditer(raw.decode("utf-8", "replace")))
            facts = self._remember(str(path), FileFacts(state, digest_of(raw), found))
        return facts.imports or ""


def _state(path: Path) -> str:
    return state_of(os.stat(path))  # noqa: PTH116


@cache
def import_pattern() -> re.Pattern[str]:
    """An import statement as it stands in a text: `module` and `names`, or `plain` and `alias`."""
    return re.compile(_IMPORT, re.MULTILINE)


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
