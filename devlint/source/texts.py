"""What a project's files say, told from their text alone.

A rule asks only where a finding hangs on it: files that nothing imports may hold the other half of a story, such as the
script that strips the keys of a checkpoint which another one wrote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from devlint.disk import digest_of
from devlint.needed import words_for
from devlint.patterns import USUAL_EXCLUDES
from devlint.source.looks import Answer, Answered, Question
from devlint.source.roots import ImportRoots
from devlint.words import spaced

# A project with more than these files, or folders, is too large to look through for one finding.
MAX_FILES = 8_000
TOO_MANY = "too many"
# So many bytes are kept at hand: a tree of the same text takes fifteen times as much.
MAX_KEPT_TEXT = 40_000_000
# The files in which a word stands are kept for the next run up to so much text.
MAX_LISTED = 200_000


class TooManyError(Exception):
    """A project with more files than are looked through."""


class _Search:
    """A search through files, as far as somebody wanted it: most often, the first that matches is enough."""

    def __init__(self, files: Iterable[Path], matches: Callable[[bytes], bool]) -> None:
        self.found: list[Path] = []
        self._left = iter(files)
        self._matches = matches

    def goes_on(self, text_of: Callable[[Path], bytes]) -> bool:
        """Looks for the next file that matches; whether there is one."""
        for path in self._left:
            if self._matches(text_of(path)):
                self.found.append(path)
                return True
        return False


class Texts:
    """The texts around a file: what stands under its import root and under the settings' roots."""

    def __init__(self, roots: ImportRoots) -> None:
        self._roots = roots
        self._files: dict[tuple[Path, int], list[Path] | None] = {}
        self._searches: dict[tuple[Path, str], _Search] = {}
        self._listings: dict[tuple[Path, ...], str] = {}
        self._bases: dict[Path, str] = {}
        # Texts that are looked into again and again for a word.
        self._kept: dict[Path, bytes] = {}
        self._kept_bytes = 0
        # What stands for what some files held in the last run (False), and hold now, by the kind of question and where it is of.
        self._spelt: dict[tuple[str, str, bool], str] = {}
        # What was answered in earlier runs, where results of those are looked at.
        self.earlier: Answered | None = None

    def first_match(self, asking: Path, pattern: str, counts: Callable[[Path], bool]) -> Path | None:
        """A file, other than `asking`, that counts and matches; None where none does. Raises TooManyError."""
        for folder in self.folders_around(asking):
            for path in self.each_match(folder, pattern):
                if path != asking and counts(path):
                    return path
        return None

    def each_match(self, folder: Path, pattern: str) -> Iterator[Path]:
        """The files of a folder that match, each searched when it is asked for; raises TooManyError."""
        key = (folder, pattern)
        search = self._searches.get(key)
        if search is None:
            files = self._files_of(folder, MAX_FILES)
            if files is None:
                raise TooManyError
            search = self._searches[key] = _Search(files, _searching(pattern))
        at = 0
        while at < len(search.found) or search.goes_on(self.kept):
            yield search.found[at]
            at += 1

    def searched(self, asking: Path) -> list[Path]:
        """The files that are looked through for a match."""
        return [path for folder in self.folders_around(asking) for path in self._files_of(folder, MAX_FILES) or ()]

    def kept(self, path: Path) -> bytes:
        """What a file holds, b"" where it can't be read; kept for whoever asks next."""
        if path not in self._kept:
            raw = self._roots.files.read_quietly(path)
            if self._kept_bytes + len(raw) > MAX_KEPT_TEXT:
                self._kept.clear()
                self._kept_bytes = 0
            self._kept[path] = raw
            self._kept_bytes += len(raw)
        return self._kept[path]

    def keeps(self, paths: Iterable[Path]) -> bool:
        """Whether what some files hold is at hand."""
        return all(path in self._kept for path in paths)

    def spelt_matches(self, folder: Path, pattern: str) -> str:
        """The files of a folder that match, as text."""
        try:
            return "\0".join(map(str, self.each_match(folder, pattern)))
        except TooManyError:
            return TOO_MANY

    def matching_since(self, question: Question, before: Answer, pattern: str, folder: Path) -> str | None:
        """The files of a folder that match, as text; None where it isn't known what changed since that was asked before."""
        files = self._files_of(folder, MAX_FILES)
        found = None if files is None else self._found_since(question, before, files, _searching(pattern))
        return None if found is None else "\0".join(map(str, found))

    def standing(self, word: bytes, where: Path, files: Collection[Path]) -> list[Path] | None:
        """The files of a project in which a word stands, where that was asked before; None where it wasn't."""
        question, whole = ("standing", word.decode(), str(where)), re.compile(rb"\b%s\b" % word)
        return self._found_since(question, None, files, lambda raw: word in raw and whole.search(raw) is not None)

    def note_standing(self, word: bytes, where: Path, files: Collection[Path], found: Iterable[Path]) -> None:
        """Takes in where a word stands, for the next run."""
        if self.earlier is not None:
            text = "\0".join(map(str, found))
            if len(text) < MAX_LISTED:
                key = ("standing", str(where), True)
                basis = self._spelt.get(key) or self._spelt.setdefault(
                    key, spelt_basis(files, self._roots.files.digest)
                )
                self.earlier.put(("standing", word.decode(), str(where)), Answer(text, basis))

    def _found_since(
        self, question: Question, before: Answer | None, files: Collection[Path], matches: Callable[[bytes], bool]
    ) -> list[Path] | None:
        """The files that match, told from those that did in an earlier run: what is as it was then isn't searched.

        None where it isn't known what changed since.
        """
        known, now = self._roots.files.known_digest, self._roots.files.digest
        # Many questions are of the same files.
        key = (question[0], question[-1], False)
        basis = self._spelt.get(key) or self._spelt.setdefault(key, spelt_basis(files, known))
        answers = (before, self.earlier.get(question) if self.earlier is not None else None)
        last = next((answer for answer in answers if answer is not None and answer.basis == basis), None)
        if last is None or last.text == TOO_MANY:
            return None
        held = frozenset(last.text.split("\0"))
        return [f for f in files if (str(f) in held if known(f) == now(f) else matches(self.kept(f)))]

    def matches_in(self, folder: Path, pattern: str) -> list[Path]:
        """The files of a folder that match; none where it has too many to look through."""
        try:
            return list(self.each_match(folder, pattern))
        except TooManyError:
            return []

    def basis(self, folder: Path) -> str:
        """What stands for what the files of a folder hold: while that is the same, so are those that match."""
        if folder not in self._bases:
            files = self._files_of(folder, MAX_FILES)
            self._bases[folder] = spelt_basis(files, self._roots.files.digest)
        return self._bases[folder]

    def listing(self, asking: Path) -> str:
        """What stands for which files are looked through for a match."""
        folders = self.folders_around(asking)
        key = tuple(folders)
        if key not in self._listings:
            files = [self._files_of(folder, MAX_FILES) for folder in folders]
            spelt = "\0".join(TOO_MANY if found is None else "\0".join(map(str, found)) for found in files)
            self._listings[key] = digest_of(spelt.encode("utf-8", "surrogateescape"))
        return self._listings[key]

    def files_around(self, asking: Path, limit: int) -> list[Path]:
        """The project's files; none where there are more than `limit`."""
        files: list[Path] = []
        for folder in self.folders_around(asking):
            found = self._files_of(folder, limit)
            if found is None:
                return []
            files += found
        return files

    def folders_around(self, asking: Path) -> list[Path]:
        """The folders whose files are looked through for a match."""
        return _outermost([self._roots.top_of(asking), *self._roots.folders])

    def _files_of(self, folder: Path, limit: int) -> list[Path] | None:
        """The Python files of a folder; None where there are more than so many, of files or of folders."""
        if (folder, limit) not in self._files:
            files: list[Path] = []
            self._files[folder, limit] = files
            for seen, found in enumerate(_python_files(folder)):
                if seen > limit or len(files) + len(found) > limit:
                    self._files[folder, limit] = None
                    break
                files += found
        return self._files[folder, limit]


def spelt_basis(files: Collection[Path] | None, digest: Callable[[Path], str], *beside: str) -> str:
    """What stands for what some files hold, going by what stands for each; `beside` counts as well."""
    spelt = [TOO_MANY] if files is None else [f"{file}\0{digest(file)}" for file in files]
    return digest_of("\0".join((*spelt, *beside)).encode("utf-8", "surrogateescape"))


def _searching(pattern: str) -> Callable[[bytes], bool]:
    """Whether an expression matches in a text, which is searched where it has one of the words that it takes."""
    compiled, needed = re.compile(pattern.encode()), words_for(pattern)
    if needed is None:
        return lambda raw: compiled.search(raw) is not None
    words = [word.encode() for word in needed]

    def matches(raw: bytes) -> bool:
        said = spaced(raw)
        return any(word in said for word in words) and compiled.search(raw) is not None

    return matches


def _outermost(folders: list[Path]) -> list[Path]:
    """Each folder once, those inside others left out."""
    return [
        f
        for f in dict.fromkeys(folders)
        if f.is_dir() and not any(f != other and f.is_relative_to(other) for other in folders)
    ]


def _python_files(folder: Path) -> Iterator[list[Path]]:
    """The Python files of each folder in a folder."""
    for where, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f not in USUAL_EXCLUDES]
        yield [Path(where, name) for name in names if name.endswith((".py", ".ipynb"))]


# Before what is bound stands none of these, and behind it none of those, but for `class Net(Base):` and `def run(x):`.
_NEVER_BEFORE, _NEVER_BEHIND = b".`\"'", b".([`\"'"


def may_bind(raw: bytes, word: bytes) -> bool:
    """Whether a source text may bind a name, going by how it is written: no attribute, call, string or example of a docstring."""
    at = raw.find(word)
    while at >= 0:
        end = at + len(word)
        before, behind = raw[at - 1 : at], raw[end : end + 1]
        line = raw[raw.rfind(b"\n", 0, at) + 1 : at].lstrip()
        whole = not (before.isalnum() or before == b"_" or behind.isalnum() or behind == b"_")
        if whole and (
            line.endswith((b"class ", b"def "))
            or not (
                (before and before in _NEVER_BEFORE)
                or (behind and behind in _NEVER_BEHIND)
                or line.startswith((b">>>", b"..."))
            )
        ):
            return True
        at = raw.find(word, end)
    return False


def is_test(path: Path) -> bool:
    """Whether a file is a test, going by its name as pytest does."""
    return path.name.startswith("test_") or path.stem.endswith("_test") or path.name == "conftest.py"


def shows_off(path: Path, asking: Path) -> bool:
    """Whether a file stands in a folder for examples and the like, and another one doesn't."""
    return not _SHOWING.isdisjoint(set(path.parts[:-1]) - set(asking.parts[:-1]))


_SHOWING = frozenset(
    {"example", "examples", "tutorial", "tutorials", "benchmark", "benchmarks", "doc", "docs", "test", "tests"}
)


def is_test_file(path: Path) -> bool:
    """Whether a file is a test, or stands among tests."""
    return is_test(path) or path.parent.name in ("test", "tests", "test_utils", "testing")
