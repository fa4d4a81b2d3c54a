"""What a project is asked without a tree of it: from its folders, texts and imports, for a file whose findings hang on the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.disk import digest_of
from devlint.source.copied import is_copied
from devlint.source.filesystem import NO_TEXT, FileSystem
from devlint.source.importers import Importers
from devlint.source.looks import Answer, Answered, Looks, Question
from devlint.source.roots import ImportRoots
from devlint.source.texts import Texts, TooManyError, is_test_file, may_bind, shows_off
from devlint.source.widths import FILES as WIDTH_FILES
from devlint.source.widths import told_form, told_width

if TYPE_CHECKING:
    from devlint.source.mentions import Mentions


# Who calls what a file defines is looked for in so many files that import it, in a project of so many.
MAX_CALLING_FILES = 200
MAX_FILES_WITH_CALLERS = 4_000
# Of the files that name something, so many are read.
MAX_NAMING = 16
# Where a project says which releases of others it needs.
_PAPERS = ("README.md", "README.rst", "README.txt", "README", "requirements.txt", "setup.py", "environment.yml")


class Questions:
    """Answers what is asked about the files around the one at hand.

    All that is read, or looked for, beside that goes through here, for a file that asks, and is noted in `looks`; `holds` says
    whether it would be answered the same now.
    """

    def __init__(self, roots: Iterable[Path] = (), looks: Looks | None = None, files: FileSystem | None = None) -> None:
        self.looks = looks if looks is not None else Looks()
        self._files = files or FileSystem()
        self._roots = ImportRoots(roots, self._files)
        self._texts = Texts(self._roots)
        self._importers = Importers(self._roots, self._texts)
        self._callers = Importers(self._roots, self._texts, MAX_CALLING_FILES, MAX_FILES_WITH_CALLERS)
        self._matching: dict[tuple[str, str], bool] = {}
        self._bringing: dict[tuple[Path, str], bool] = {}
        # Where names led, by the file that asked: that is noted.
        self._located: dict[tuple[str, Path, Path | None], Path | None] = {}

    @cached_property
    def _mentions(self) -> Mentions:
        from devlint.source.mentions import Mentions

        return Mentions(self._roots, self._texts)

    def holds(self, question: Question, before: Answer) -> bool:
        """Whether a question that was asked in an earlier run is answered the same now."""
        kind, *words = question
        basis = _BASES[kind](self, *words) if before.basis else ""
        if not basis:
            return before.text == _ANSWERS[kind](self, *words)
        return _basis_of(before) == basis or before.text == self._answered(question, basis, before).text

    def _answered(self, question: Question, basis: str, before: Answer) -> Answer:
        """The answer to a question now that its basis is another one than before; the next run needn't find it out again."""
        kind, *words = question
        earlier = self._texts.earlier
        last = earlier.get(question) if earlier is not None else None
        if last is not None and _basis_of(last) == basis:
            return last
        answer = None
        if kind == "matching":
            found = self._texts.matching_since(question, before, words[0], _path(words[1]))
            answer = None if found is None else Answer(found, basis)
        elif kind in _TRACED:
            same = (a for a in (before, last) if a is not None and self._leads_on(_path(words[0]), a))
            answer = next((Answer(a.text, _with_trace(basis, _trace_of(a))) for a in same), None)
        if answer is None:
            answer = self._found(question, basis)
        if earlier is not None:
            earlier.put(question, answer)
        return answer

    def goes_by(self, earlier: Answered) -> None:
        """Tells what was answered in earlier runs, and who keeps what is answered now."""
        self._texts.earlier = earlier

    def _note(self, asking: Path, question: Question) -> None:
        """Remembers that a file's findings may hang on a question."""
        spelt = str(asking)
        if not self.looks.has(spelt, question):
            known = self.looks.answers.get(question)
            if known is None:
                kind, *words = question
                known = self._found(question, _BASES[kind](self, *words) if kind in _BASES else "")
            self.looks.note(spelt, question, known)

    def _found(self, question: Question, basis: str) -> Answer:
        """The answer to a question, under a basis."""
        kind, *words = question
        if kind not in _TRACED:
            return Answer(_ANSWERS[kind](self, *words), basis)
        with self._mentions.traces.gathered() as looks:
            text = _ANSWERS[kind](self, *words)
        return Answer(text, _with_trace(basis, self._mentions.retracing.spelt(_path(words[0]), looks)))

    def _leads_on(self, path: Path, before: Answer) -> bool:
        return self._mentions.retracing.leads_on(path, _basis_of(before), _trace_of(before))

    def name_of(self, path: Path) -> tuple[Path, str]:
        """(import root, dotted name) of a file, by the packages that it stands in."""
        self._note(path, ("package", str(path.parent)))
        return self._roots.name_of(path)

    def locate(self, name: str, asking: Path, user: Path | None = None) -> Path | None:
        """The file of that dotted name as `asking` would import it, or None; `user` is the file whose findings hang on that."""
        asked = (name, asking, user)
        if asked not in self._located:
            self._note(user or asking, ("place", name, str(asking.parent)))
            self._located[asked] = self._roots.place(name, asking.parent)
        return self._located[asked]

    def is_outside(self, first: str, asking: Path) -> bool:
        """Whether no name that begins so leads into the project from a file."""
        self._note(asking, ("outside", first, str(asking.parent)))
        return self._roots.is_outside(first, asking.parent)

    def importers_of(self, path: Path) -> list[Path]:
        """The few files that a file is a part of the program of."""
        self._note(path, ("importers", str(path)))
        return self._importers.of(path)

    def naming(self, path: Path, name: str) -> list[Path]:
        """Files that import a file and in which a name of it stands, tests left out; not all of them where they are many."""
        self._note(path, ("calling", str(path)))
        found: list[Path] = []
        for importer in sorted(self._callers.of(path)):
            question = ("matches", str(importer), rf"\b{name}\b")
            if name.encode() not in self._texts.kept(importer):
                # What is found so quickly needn't be searched for.
                self._matching[question[1], question[2]] = False
            self._note(path, question)
            if self._matches(*question[1:]):
                found.append(importer)
                if len(found) == MAX_NAMING:
                    break
        return found

    def is_unused(self, path: Path, cls: str, name: str, *, but_by_tests: bool = False) -> bool:
        """Whether nothing in the project leads to a function of a file (`cls` being empty), or to a method of a class.

        False where that can't be told: in loose files, in a project that is too large, where nobody uses its neighbours.
        `but_by_tests` asks whether nothing but tests does.
        """
        self._note(path, ("tested" if but_by_tests else "unused", str(path), cls, name))
        return self._mentions.is_unused(path, cls, name, but_by_tests=but_by_tests)

    def is_given(self, path: Path, name: str) -> bool:
        """Whether something in the project of a file gives a parameter or an attribute of that name, one that is off by default."""
        self._note(path, ("given", str(path), name))
        return self._mentions.is_given(path, name)

    def is_only_run(self, path: Path) -> bool:
        """Whether a file is a part of a project of programs that nobody installs: what these don't ask for, nobody does."""
        self._note(path, ("run", str(path)))
        return self._mentions.is_only_run(path)

    def place_of(self, path: Path) -> str:
        """The path of a file below the folder of its project, as `/` parts it."""
        self._note(path, ("below", str(path)))
        return self._mentions.place_of(path)

    def is_loose(self, path: Path) -> bool:
        """Whether a file stands in no package, and nobody installs it."""
        self._note(path, ("loose", str(path)))
        return self._mentions.is_loose(path)

    def is_broken(self, path: Path) -> bool:
        """Whether a file surely fails as it begins, by what it imports."""
        self._note(path, ("broken", str(path)))
        return self._mentions.is_broken(path)

    def is_called(self, path: Path, cls: str, methods: tuple[str, ...]) -> bool:
        """Whether something in the project of a file may call an object of a class of it; `methods` are its own that do."""
        self._note(path, ("called", str(path), cls, " ".join(methods)))
        return self._mentions.is_called(path, cls, methods)

    def kept_as(self, path: Path, cls: str) -> frozenset[str] | None:
        """The names under which the project of a file keeps the objects of a class of it; None where they may be anywhere else too."""
        self._note(path, ("kept", str(path), cls))
        return self._mentions.kept_as(path, cls)

    def texts_match(self, pattern: str, asking: Path) -> bool:
        """Whether another file of the project than `asking` matches, or the project is too large to tell."""
        return self._matching_elsewhere(pattern, asking, lambda path: True) is not False

    def matching(self, pattern: str, asking: Path, most: int) -> list[Path]:
        """The other files of the project that match; none where they are more than `most`, or the project is too large to tell."""
        self._note(asking, ("package", str(asking.parent)))
        found: list[Path] = []
        for folder in self._texts.folders_around(asking):
            self._note(asking, ("matching", pattern, str(folder)))
            found += self._texts.matches_in(folder, pattern)
        found = [path for path in found if path != asking]
        return found if len(found) <= most else []

    def never_says(self, pattern: str, asking: Path, least: int) -> bool:
        """Whether a project of that many files and more has none but `asking` that matches."""
        return self.has_files(asking, least) and not self.texts_match(pattern, asking)

    def has_files(self, asking: Path, least: int) -> bool:
        """Whether a file's project has so many files of code that one of them would do what none does."""
        self._note(asking, ("listing", str(asking)))
        return len(self._texts.searched(asking)) >= least

    def package_says(self, pattern: str, asking: Path) -> bool:
        """Whether a file of the outermost package that a file is in matches, or that is too large to tell."""
        root, name = self.name_of(asking)
        folder = root / name.partition(".")[0]
        with suppress(TooManyError):
            found = next(self._texts.each_match(folder, pattern), None)
            if found is not None:
                return self._note_match(asking, found, pattern)
        self._note(asking, ("matching", pattern, str(folder)))
        return self._texts.spelt_matches(folder, pattern) != ""

    def uses(self, pattern: str, asking: Path) -> bool:
        """Whether another file of the project that is no test matches; False where the project is too large to tell."""
        return self._matching_elsewhere(pattern, asking, lambda path: not is_test_file(path)) is True

    def is_tried_by(self, pattern: str, asking: Path) -> bool:
        """Whether a test of the project matches; False where the project is too large to tell."""
        return self._matching_elsewhere(pattern, asking, is_test_file) is True

    def uses_itself(self, pattern: str, asking: Path) -> bool:
        """The same, where what merely shows a package off, its examples and benchmarks, says nothing of the package's own files."""
        return self._matching_elsewhere(pattern, asking, self._beside_shows(asking)) is True

    def is_copied_in(self, asking: Path) -> bool:
        """Whether a file stands in a folder that was copied from elsewhere."""
        return is_copied(asking, self)

    def is_imported_around(self, folder: Path, asking: Path) -> bool:
        """Whether a file outside of a folder imports something of it, or that can't be told."""
        pattern = rf"(?m)^\s*(?:from|import)\s[^\n#]*\b{re.escape(folder.name)}\b"
        return self._matching_elsewhere(pattern, asking, lambda path: folder not in path.parents) is not False

    def file_with(self, pattern: str, asking: Path) -> Path | None:
        """The file that makes `uses_itself` true; None where none does. For people who ask why: no result may hang on it."""
        try:
            return self._texts.first_match(asking, pattern, self._beside_shows(asking))
        except TooManyError:
            return None

    def _beside_shows(self, asking: Path) -> Callable[[Path], bool]:
        """Whether a file says how the program runs that `asking` belongs to: no test, and no example of its package."""
        in_package = "." in self.name_of(asking)[1]
        return lambda path: not is_test_file(path) and not (in_package and shows_off(path, asking))

    def _matching_elsewhere(self, pattern: str, asking: Path, counts: Callable[[Path], bool]) -> bool | None:
        """Whether another file than `asking` that counts matches; None where the project is too large to tell."""
        try:
            found = self._texts.first_match(asking, pattern, counts)
        except TooManyError:
            self._note(asking, ("listing", str(asking)))
            return None
        if found is not None:
            return self._note_match(asking, found, pattern)
        # That none does hangs on all: one question of a folder, whoever asks.
        self._note(asking, ("package", str(asking.parent)))
        for folder in self._texts.folders_around(asking):
            self._note(asking, ("matching", pattern, str(folder)))
        return False

    def _note_match(self, asking: Path, found: Path, pattern: str) -> bool:
        """Remembers for a file that one of a project matches: one is enough."""
        self.looks.note(str(asking), ("matches", str(found), pattern), Answer(str(True), self._files.digest(found)))
        return True

    def names_from(
        self, path: Path, text: str, pattern: re.Pattern[bytes], *, through_packages: bool = False
    ) -> set[str]:
        """The names that a file imports from project modules whose text matches a pattern; told without parsing.

        With `through_packages`, also what an imported package has from such a module.
        """
        found: set[str] = set()
        self.name_of(path)
        for module, names in self._roots.imports_in(text, path):
            location = self.locate(module, path)
            if location is None or location == path:
                continue
            brought = [(location, names)]
            if through_packages and location.stem == "__init__":
                inner = self.read_quietly(location, path).decode("utf-8", "replace")
                for handed_on, its_names in self._roots.imports_in(inner, location):
                    place = self.locate(handed_on, path)
                    if place is not None and names & its_names:
                        brought.append((place, names & its_names))
            for place, its_names in brought:
                question = ("matches", str(place), pattern.pattern.decode())
                self._note(path, question)
                if self._matches(*question[1:]):
                    found |= its_names
        return found

    def _matches(self, path: str, pattern: str) -> bool:
        key = (path, pattern)
        if key not in self._matching:
            self._matching[key] = re.search(pattern.encode(), self._texts.kept(Path(path))) is not None
        return self._matching[key]

    def brings(self, path: Path, word: str, asking: Path) -> bool:
        """Whether a file may bind a word, or bring it by a star."""
        self._note(asking, ("brings", str(path), word))
        return self._may_bring(path, word)

    def _may_bring(self, path: Path, word: str) -> bool:
        if (path, word) not in self._bringing:
            raw = self._texts.kept(path)
            found = may_bind(raw, word.encode()) or re.search(rb"\bimport\s*\*", raw) is not None
            self._bringing[path, word] = found
        return self._bringing[path, word]

    def read(self, path: Path, asking: Path) -> bytes:
        """The bytes of a file, for a file that asks; raises OSError."""
        digest = NO_TEXT
        try:
            raw = self._files.read(path)
            digest = digest_of(raw)
        finally:
            self.looks.note(str(asking), ("text", str(path)), Answer(digest))
        return raw

    def read_quietly(self, path: Path, asking: Path) -> bytes:
        """The bytes of a file, for a file that asks; none where it can't be read."""
        try:
            return self.read(path, asking)
        except OSError:
            return b""

    def papers(self, asking: Path) -> Iterator[str]:
        """What the project around a file says of itself, at the top of its folders: what it needs, and for whom it is."""
        for folder in self._texts.folders_around(asking):
            for name in _PAPERS:
                yield self.read_quietly(folder / name, asking).decode("utf-8", "replace")

    def width(self, asking: Path, top: Path) -> int | None:
        """How long the project lets lines be, by what the nearest folder up to `top` says; None where none says it."""
        return next(
            (width for texts in self._told_of_lines(asking, top) if (width := told_width(texts)) is not None), None
        )

    def form(self, asking: Path, top: Path) -> str:
        """How the project has its lines broken, by what the nearest folder up to `top` says that tells how long they may be."""
        return next(
            (told_form(texts) for texts in self._told_of_lines(asking, top) if told_width(texts) is not None), ""
        )

    def _told_of_lines(self, asking: Path, top: Path) -> Iterator[dict[str, str]]:
        """What the files say that tell of lines, of each folder up to `top`, the nearest first."""
        for folder in asking.parents if asking.is_relative_to(top) else ():
            texts = {name: self.read_quietly(folder / name, asking).decode("utf-8", "replace") for name in WIDTH_FILES}
            yield {name: text for name, text in texts.items() if text}
            if folder == top:
                return

    def note_text(self, path: Path, asking: Path) -> None:
        """Remembers that what a file holds was looked at, now or before, for a file that asks."""
        self._note(asking, ("text", str(path)))


# What was looked at for the answers to these is kept behind their basis.
_TRACED = ("unused", "tested", "broken", "called", "kept")


def _with_trace(basis: str, trace: str) -> str:
    return f"{basis}\0{trace}" if trace else basis


def _basis_of(answer: Answer) -> str:
    return answer.basis.partition("\0")[0]


def _trace_of(answer: Answer) -> str:
    return answer.basis.partition("\0")[2]


# The same few are asked about again and again.
_path = lru_cache(maxsize=1 << 12)(Path)
# How each kind of question is answered, from its words.
_ANSWERS: dict[str, Callable[..., str]] = {
    "package": lambda project, folder: "\0".join(map(str, project._roots.found_in(_path(folder)))),
    "place": lambda project, name, folder: str(project._roots.place(name, _path(folder)) or ""),
    "outside": lambda project, first, folder: str(project._roots.is_outside(first, _path(folder))),
    "text": lambda project, path: project._files.digest(_path(path)),
    "matches": lambda project, path, pattern: str(project._matches(path, pattern)),
    "brings": lambda project, path, word: str(project._may_bring(_path(path), word)),
    "importers": lambda project, path: "\0".join(map(str, project._importers.of(_path(path)))),
    "calling": lambda project, path: "\0".join(map(str, project._callers.of(_path(path)))),
    "unused": lambda project, path, cls, name: str(project._mentions.is_unused(_path(path), cls, name)),
    "tested": lambda project, path, cls, name: str(
        project._mentions.is_unused(_path(path), cls, name, but_by_tests=True)
    ),
    "given": lambda project, path, name: str(project._mentions.is_given(_path(path), name)),
    "broken": lambda project, path: str(project._mentions.is_broken(_path(path))),
    "run": lambda project, path: str(project._mentions.is_only_run(_path(path))),
    "below": lambda project, path: project._mentions.place_of(_path(path)),
    "loose": lambda project, path: str(project._mentions.is_loose(_path(path))),
    "called": lambda project, path, cls, names: str(
        project._mentions.is_called(_path(path), cls, tuple(names.split()))
    ),
    "kept": lambda project, path, cls: " ".join(sorted(project._mentions.kept_as(_path(path), cls) or ("-",))),
    "listing": lambda project, path: project._texts.listing(_path(path)),
    "matching": lambda project, pattern, folder: project._texts.spelt_matches(_path(folder), pattern),
}
# What is quickly told, and while it is the same, the answer is.
_BASES: dict[str, Callable[..., str]] = {
    "matches": lambda project, path, pattern: project._files.digest(_path(path)),
    "brings": lambda project, path, word: project._files.digest(_path(path)),
    "importers": lambda project, path: project._importers.basis(_path(path)),
    "calling": lambda project, path: project._callers.basis(_path(path)),
    "matching": lambda project, pattern, folder: project._texts.basis(_path(folder)),
    "unused": lambda project, path, cls, name: project._mentions.basis(_path(path)),
    "tested": lambda project, path, cls, name: project._mentions.basis(_path(path)),
    "given": lambda project, path, name: project._mentions.basis(_path(path)),
    "broken": lambda project, path: project._mentions.basis(_path(path)),
    "run": lambda project, path: project._mentions.basis(_path(path)),
    "below": lambda project, path: project._mentions.basis(_path(path)),
    "loose": lambda project, path: project._mentions.basis(_path(path)),
    "called": lambda project, path, cls, names: project._mentions.basis(_path(path)),
    "kept": lambda project, path, cls: project._mentions.basis(_path(path)),
}
