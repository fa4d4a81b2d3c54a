"""Where the names that a project defines stand: its files, and which of them say a word."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from devlint.patterns import USUAL_EXCLUDES
from devlint.regexes import regex
from devlint.source.roots import PAGES, TERMS, ImportRoots
from devlint.source.texts import Texts, spelt_basis
from devlint.source.traces import Kind, Search, Statements, Text, Traces, Word

# A project with more files than these is too large to tell.
MAX_FILES = 8_000
# The name of a method that stands in more files than these tells nobody who calls it; that of a class or a function is
# taken to be used by one of them.
MAX_MENTIONING = 12
# So many files are kept of each name: of several functions of one name, those who import one use it.
MAX_KEPT = 64
# A project's folder is looked for so far above the folder that its packages stand in.
MAX_ABOVE = 8

RELEASING = ("pyproject.toml", "setup.py", "setup.cfg")
_MARKS = (*RELEASING, "requirements.txt")
_TELLING = frozenset({*_MARKS, *PAGES, *TERMS, "README.txt", ".git"})
_TEXTS = (".py", ".ipynb", ".md", ".rst", ".toml", ".cfg", ".ini", ".yaml", ".yml", ".json", ".sh")
# Larger texts than these that are no code hold data.
MAX_DATA_BYTES = 200_000
# Texts of more bytes altogether aren't read for each class that is asked about: it took 120 MB of memory, and as long as linting a file.
MAX_READ_AGAIN = 20_000_000

_WORDS = bytes(c if (chr(c).isalnum() and c < 128) or c == ord("_") else ord(" ") for c in range(256))
# So many names are looked for one by one: an index of all of them takes as long.
_FEW = 32
_WORD = regex(rb"\w+")
_DEFINING = rb"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+%s\b"
_DEFINED = regex(_DEFINING % rb"(\w+)", re.MULTILINE)

# By name, the files.
Standing = dict[bytes, list[Path]]


def is_word(word: bytes) -> bool:
    """Whether something can be a name as they are looked for: others stand nowhere."""
    return _WORD.fullmatch(word) is not None


def defines(path: Path, raw: bytes, word: bytes) -> bool:
    """Whether a file that holds `raw` is code that defines a name."""
    if path.suffix != ".py":
        return False
    pattern, at = re.compile(_DEFINING % word), raw.find(word)
    while at >= 0:
        if pattern.match(raw[raw.rfind(b"\n", 0, at) + 1 : at + len(word) + 1]):
            return True
        at = raw.find(word, at + 1)
    return False


class Names:
    """The files of projects, and where the names stand that they define."""

    def __init__(self, roots: ImportRoots, texts: Texts) -> None:
        self._roots = roots
        self._texts = texts
        # By project folder: its files, and the files in which each name stands that the project defines.
        self._files: dict[Path, dict[Path, None]] = {}
        # What lies in the folders of each project that tells whose projects they are.
        self._telling: dict[Path, list[str]] = {}
        self._projects: dict[tuple[Path, bool], Path | None] = {}
        # Those whose texts were all looked through.
        self._searched: set[Path] = set()
        self._looked_for: dict[Path, dict[bytes, tuple[list[Path], list[Path]]]] = {}
        self._index: dict[Path, tuple[Standing, Standing]] = {}
        self._bases: dict[Path, str] = {}
        self._large: dict[Path, bool] = {}
        self._modules_asked: dict[Path, set[bytes]] = {}
        self.traces = Traces()
        # Whether a file is of a kind that is searched for.
        self.kinds: dict[str, Callable[..., bool]] = {}

    def raw(self, file: Path) -> bytes:
        """What a file holds; nothing where it can't be read."""
        self.traces.note(Text(file))
        return self._roots.files.read_quietly(file)

    def text(self, file: Path) -> str:
        """What a file says; nothing where it can't be read."""
        return self.raw(file).decode("utf-8", "replace")

    def statements(self, file: Path) -> str:
        """The import statements of a file."""
        self.traces.note(Statements(file))
        return self._roots.files.import_statements(file)

    def is_of_kind(self, kind: str, file: Path, *about: str) -> bool:
        """Whether a file is of a kind, which is all that is asked of what it says."""
        with self.traces.gathered():
            holds = self.kinds[kind](file, *about)
        self.traces.note(Kind(kind, about, file, holds))
        return holds

    def any_of_kind(self, kind: str, *about: str, among: Iterable[Path]) -> bool:
        """Whether one of some files is of a kind; all that are in the project must be among these."""
        with self.traces.gathered():
            found = next((file for file in among if self.kinds[kind](file, *about)), None)
        self.traces.note(Search(kind, about, found))
        return found is not None

    def basis(self, path: Path) -> str:
        """What stands for all texts that an answer hangs on; nothing for loose files, which may have any others beside them."""
        project = self.project_of(path.resolve())
        if project is None:
            return ""
        if project not in self._bases:
            self._bases[project] = self.basis_of(project, self._roots.files.digest)
        return self._bases[project]

    def basis_of(self, project: Path, digest: Callable[[Path], str]) -> str:
        """What stands for what the texts of a project hold, going by what stands for each, and for what lies beside them."""
        return spelt_basis(self.listed(project), digest, *self._telling[project])

    def project_of(self, path: Path) -> Path | None:
        """The folder of the project that a file is a part of; None for loose files."""
        # Files of a folder are alike, but for what makes a package of it.
        key = path.parent, path.stem == "__init__"
        if key not in self._projects:
            self._projects[key] = self._find_project(path)
        return self._projects[key]

    def _find_project(self, path: Path) -> Path | None:
        root, (_, package) = self._roots.top_of(path), self._roots.name_of(path)
        repository = next((f for f in path.parents[: MAX_ABOVE + 1] if self._roots.is_repository(f)), None)
        above = [root, *root.parents][: MAX_ABOVE + 1]
        above = above[: above.index(repository) + 1] if repository in above else above
        marked = next((f for f in above if self.has_one(f, _MARKS)), None)
        # A page and terms alone may also lie in what was copied into a project: that in which it stands is meant.
        marked = marked or next((f for f in reversed(above) if self.is_published(f)), None)
        return marked or repository or (root if "." in package else None)

    def around(self, path: Path) -> list[Path]:
        """The folders of its project from which a file may import, its own first; none for loose files."""
        project = self.project_of(path)
        return [f for f in path.parents if project is not None and (f == project or project in f.parents)]

    def listed(self, project: Path) -> dict[Path, None]:
        """The texts of a project; none where there are too many of them."""
        if project not in self._files:
            found: list[Path] = []
            telling: list[str] = []
            for seen, (where, folders, names) in enumerate(os.walk(project)):
                telling += sorted(f"{where}/{name}" for name in _TELLING.intersection((*folders, *names)))
                # What is hidden is for tools, devlint's own baseline among them: a branch called `main` calls no function.
                folders[:] = sorted(f for f in folders if f not in USUAL_EXCLUDES and not f.startswith("."))
                texts = (Path(where, name) for name in sorted(names) if name.endswith(_TEXTS) and name[0] != ".")
                found += [path for path in texts if path.suffix == ".py" or _is_small(path)]
                if len(found) > MAX_FILES or seen > MAX_FILES:
                    found = []
                    break
            self._files[project] = dict.fromkeys(found)
            self._telling[project] = telling
        return self._files[project]

    def is_large(self, project: Path) -> bool:
        """Whether the texts of a project are too large to be read again and again."""
        if project not in self._large:
            self._large[project] = sum(map(_size_of, self.listed(project))) > MAX_READ_AGAIN
        return self._large[project]

    def _indexed(self, project: Path) -> tuple[Standing, Standing]:
        """The files in which each name stands that the project defines, or calls a module, and those that define it."""
        if project not in self._index:
            standing: Standing = {}
            defining: Standing = {}
            for path in self.listed(project):
                raw = self._roots.files.read_quietly(path)
                for word in set(raw.translate(_WORDS).split()):
                    _add(standing, word, path)
                if path.suffix == ".py":
                    for word in set(_DEFINED.findall(raw)):
                        _add(defining, word, path)
            stems = {path.stem.encode() for path in self.listed(project) if path.suffix == ".py"}
            self._index[project] = {w: f for w, f in standing.items() if w in defining or w in stems}, defining
        return self._index[project]

    def holding(self, stem: str, project: Path) -> Iterable[Path]:
        """The files in which the name of a module of a project stands, and maybe others."""
        word = stem.encode()
        asked = self._modules_asked.setdefault(project, set())
        asked.add(word)
        if is_word(word) and (project in self._index or len(asked) > _FEW):
            found = self._indexed(project)[0].get(word, [])
            # Of more of them the index doesn't tell all.
            if len(found) <= MAX_KEPT:
                return found
        return (f for f in self.listed(project) if word in self._texts.kept(f))

    def standing(self, name: str, project: Path) -> tuple[list[Path], list[Path]]:
        """The files in which a name stands, if the project defines it, and those that define it."""
        self.traces.note(Word(name, project))
        word = name.encode()
        known = self._looked_for.setdefault(project, {})
        if word not in known and len(known) < _FEW and project not in self._index and self._is_kept(project):
            known[word] = self._look_for(word, project)
        if word in known:
            return known[word]
        standing, defining = self._indexed(project)
        return (standing.get(word, []) if word in defining else []), defining.get(word, [])

    def _is_kept(self, project: Path) -> bool:
        """Whether a project's texts are at hand once they were searched: a large one's are too many to be kept."""
        return project not in self._searched or self._texts.keeps(self.listed(project))

    def _look_for(self, word: bytes, project: Path) -> tuple[list[Path], list[Path]]:
        """The same, of a name that nothing is known of: what an index of all names would tell."""
        if not is_word(word):
            return [], []
        listed = self.listed(project)
        holding = self._texts.standing(word, project, listed)
        if holding is None:
            self._searched.add(project)
            whole = re.compile(rb"\b%s\b" % word)
            texts = ((path, self._texts.kept(path)) for path in listed)
            holding = [path for path, raw in texts if word in raw and whole.search(raw)]
        self._texts.note_standing(word, project, listed, holding)
        defining = [path for path in holding if defines(path, self._texts.kept(path), word)]
        standing = holding if defining else []
        # An index keeps no more of them.
        return standing[: MAX_KEPT + 1], defining[: MAX_KEPT + 1]

    def mentioning(self, name: str, project: Path, most: int = MAX_MENTIONING) -> list[Path] | None:
        """The files in which a name stands; None where these are many."""
        found, _ = self.standing(name, project)
        return None if len(found) > most else found

    def defining(self, name: str, project: Path) -> list[Path]:
        """The files that define a name."""
        return self.standing(name, project)[1]

    def is_marked(self, folder: Path) -> bool:
        """Whether a folder is the top of a project, by what lies in it."""
        return self.has_one(folder, _MARKS) or self.is_published(folder) or self._roots.is_repository(folder)

    def may_be_installed(self, project: Path) -> bool:
        """Whether others may install a project: nobody imports anything of programs that lie in a repository as they are."""
        return self.has_one(project, RELEASING) or not self.is_marked(project)

    def is_published(self, folder: Path) -> bool:
        """Whether a folder has a page and terms, as repositories have on top."""
        return self.has_one(folder, (*PAGES, "README.txt")) and self.has_one(folder, TERMS)

    def has_one(self, folder: Path, names: tuple[str, ...]) -> bool:
        """Whether one of some files lies in a folder."""
        return any(self._roots.files.is_file(folder / name) for name in names)


def _is_small(path: Path) -> bool:
    """Whether a text can be read, and is small enough to be no data."""
    return 0 <= _size_of(path) <= MAX_DATA_BYTES


def _size_of(path: Path) -> int:
    """The size of a file in bytes; -1 where that can't be told."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _add(table: Standing, word: bytes, path: Path) -> None:
    found = table.setdefault(word, [])
    if len(found) <= MAX_KEPT:
        found.append(path)
