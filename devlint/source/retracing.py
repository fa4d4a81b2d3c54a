"""Whether an answer about a project's texts is the same after an edit, going by what it was found by.

That is kept as text: files by their place in the list of all, words with where they stood, searches with what they found. Only the
files that were changed are looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from devlint.source.filesystem import FileSystem
from devlint.source.standing import MAX_KEPT, Names, defines, is_word
from devlint.source.traces import Kind, Look, Search, Statements, Text, Word


class Retracing:
    """Follows traces again, in one run."""

    def __init__(self, names: Names, files: FileSystem) -> None:
        self._names = names
        self._files = files
        # By project: the basis of what was known of its files in the last run, and the places of those that were changed since.
        self._changes: dict[Path, tuple[str, list[int]]] = {}

    def spelt(self, path: Path, looks: Iterable[Look]) -> str:
        """What an answer about a file was found by, as text; nothing where that was outside of the file's project too."""
        project, looks = self._names.project_of(path.resolve()), sorted(looks, key=repr)
        if project is None or any(isinstance(look, Word) and look.among != project for look in looks):
            return ""
        places = {file: place for place, file in enumerate(self._names.listed(project))}
        missing = {file for look in looks if (file := _file_of(look)) is not None and file not in places}
        if any(map(self._files.is_file, missing)):
            return ""
        # One that isn't there is listed when it comes.
        looks = [look for look in looks if _file_of(look) not in missing]
        texts = [places[look.file] for look in looks if isinstance(look, Text)]
        statements = [places[look.file] for look in looks if isinstance(look, Statements)]
        standing = {look.name: self._names.standing(look.name, project) for look in looks if isinstance(look, Word)}
        kinds = [[places[k.file], k.holds, k.kind, *k.about] for k in looks if isinstance(k, Kind)]
        searches = [
            [look.kind, *look.about, -1 if look.found is None else places[look.found]]
            for look in looks
            if isinstance(look, Search)
        ]
        words = {name: [[places[file] for file in files] for files in found] for name, found in standing.items()}
        trace = {
            "texts": sorted(texts),
            "statements": sorted(statements),
            "words": words,
            "kinds": kinds,
            "searches": searches,
        }
        return json.dumps(trace, separators=(",", ":"))

    def leads_on(self, path: Path, basis: str, trace: str) -> bool:
        """Whether what an answer about a file was found by is as it was, where that is `spelt` and was given under a basis."""
        project = self._names.project_of(path.resolve())
        if project is None or not trace:
            return False
        listed = self._names.listed(project)
        if project not in self._changes:
            known, now = self._files.known_digest, self._files.digest
            changed = [place for place, file in enumerate(listed) if known(file) != now(file)]
            self._changes[project] = self._names.basis_of(project, known), changed
        before, changed = self._changes[project]
        if before != basis:
            return False
        files, said = list(listed), json.loads(trace)
        return all(self._is_untouched(files[place], place, said) for place in changed)

    def _is_untouched(self, file: Path, place: int, trace: dict[str, Any]) -> bool:
        """Whether a file that was changed is to an answer what it was, going by what that was found by."""
        if place in trace["texts"]:
            return False
        if place in trace["statements"] and self._files.known_statements(file) != self._files.import_statements(file):
            return False
        kinds = self._names.kinds
        if not all(kinds[kind](file, *about) == holds for at, holds, kind, *about in trace["kinds"] if at == place):
            return False
        raw = self._files.read_quietly(file)
        return all(_is_as_before(word, file, raw, place, *where) for word, where in trace["words"].items()) and all(
            found not in (-1, place) or kinds[kind](file, *about) == (found == place)
            for kind, *about, found in trace["searches"]
        )


def _file_of(look: Look) -> Path | None:
    """The file that was looked at, or found."""
    match look:
        case Text(file=file) | Statements(file=file) | Kind(file=file) | Search(found=file):
            return file
    return None


def _is_as_before(name: str, file: Path, raw: bytes, place: int, standing: list[int], defining: list[int]) -> bool:
    """Whether a name stands in a file, and is defined there, as it was when these files had it."""
    word = name.encode()
    if not is_word(word):
        return True
    stands = word in raw and re.search(rb"\b%s\b" % word, raw) is not None
    if (stands and defines(file, raw, word)) != (place in defining) and not _is_behind(place, defining):
        return False
    # Of a name that nothing defines, none was listed.
    return not defining or stands == (place in standing) or _is_behind(place, standing)


def _is_behind(place: int, listed: list[int]) -> bool:
    """Whether a file comes behind those that were listed, where these are as many as are kept: more may have it there."""
    return len(listed) > MAX_KEPT and place > listed[-1]
