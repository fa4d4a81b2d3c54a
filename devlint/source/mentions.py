"""Which functions and classes of a project nothing leads to, told from its text alone.

What is exported, registered by a decorator, or named by code that runs, by a document or by a configuration may be used;
a name that stands nowhere else is dead code. Names are followed back through the functions in which they stand.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from devlint.regexes import regex
from devlint.source.called import may_be_called
from devlint.source.filesystem import import_pattern
from devlint.source.givens import Givens
from devlint.source.roots import COPIED, ImportRoots, imported_names
from devlint.source.said import COMMENT, Part, Unit, split, words_of
from devlint.source.standing import MAX_KEPT, Names
from devlint.source.texts import Texts, is_test_file

# What a package that stands no deeper than this has is its interface.
MAX_DEPTH = 2
# So many functions are followed back; behind more of them, one is taken to be used.
MAX_FOLLOWED = 80
# So many words are more than a module says that only tries what it defines.
_MUCH = 60
# Folders that packages stand in.
_SOURCES = (("src",), ("python",), ("lib",))
_CODE = regex(r"```.{0,20000}?```|`[^`\n]{1,300}`", re.DOTALL)
_USED = regex(r"\w+(?=\s?[(.])|(?<=[.`])\w+|(?<=import )[\w, ]+")
# An option, which may be called like what it is for.
_OPTION = regex(r"['\"]--?\w[\w-]{0,80}['\"]")
# What it is for, said in words.
_HELP = regex(r"\bhelp[ \t]*=[ \t]*(?:'[^'\n]{0,400}'|\"[^\"\n]{0,400}\")")
# Decorators that hand on what they are given, and tell nobody of it.
_PLAIN = regex(
    r"(?:abc\.|functools\.|typing\.|contextlib\.|dataclasses\.|torch\.|triton\.|tl\.)?(?:\w+\.)?(?:staticmethod|classmethod|property|cached_property|abstractmethod|override|overload|final|"
    r"dataclass|wraps|lru_cache|cache|contextmanager|no_grad|inference_mode|enable_grad|set_grad_enabled|compile|script|disable|jit|autocast|custom_fwd|custom_bwd)"
)
# What a program does at its top level, or asks for.
_DOING = regex(r"^(?:for|while|with|if __name__|\w{1,80}\()|\bargparse\b|\bsys\.argv\b|\bplt\.show\b", re.MULTILINE)
# What loads a module, or takes what is in one, under a name that is put together: `import_module(f"models.{name}")`.
_LOADING = regex(r"\b(?:import_module|__import__)\([ \t\n]{0,40}(?!['\"][\w.]{1,200}['\"][ \t\n]{0,40}[,)])[^)\s]")
# The module of which all names are taken: its first name, none where it begins with a dot.
_ALL_OF = regex(r"^[ \t]*+from[ \t]++(\w*+)[\w.]*+[ \t]++import[ \t]++\*", re.MULTILINE)
# What takes a thing by a name that is told as a text.
_BY_TEXT = regex(
    r"\bgetattr\([ \t\n]{0,40}(?!self\b|args\b|opt\b|cfg\b|config\b)[\w.]{1,80}[ \t\n]{0,9},[ \t\n]{0,40}(?!['\"])|\b(?:globals|locals|vars)\(\)"
    r"|(?<![.\w])eval\([ \t\n]{0,9}[^)\s]|\bimport_module\(|__import__\(|\b__dict__\b|\blocate\(|\binstantiate\("
)
# Bases that call none of the methods that their classes define, but those of `_CALLED`.
_PLAIN_BASES = frozenset(
    {"object", "ABC", "nn", "torch", "Module", "Generic", "Protocol", "Enum", "typing", "abc", "ABCMeta", "metaclass", "T"}
)  # fmt: skip
_CALLED = regex(r"__\w+__|forward|extra_repr|train|eval|to|_apply|_load_from_state_dict|_save_to_state_dict")


# Names that say, where they are quoted, in which mode something runs.
_MODES = frozenset(
    {"train", "training", "test", "testing", "val", "valid", "validate", "eval", "evaluate", "predict", "infer"}
)


class Mentions:
    """What leads to the functions, classes and flags of a project."""

    def __init__(self, roots: ImportRoots, texts: Texts) -> None:
        self._roots = roots
        self._names = Names(roots, texts)
        self._imports: dict[Path, set[tuple[str, ...]]] = {}
        self._known: dict[tuple[Unit, bool], bool] = {}
        self._givens: dict[Path, Givens] = {}
        self._around: dict[Path, bool] = {}
        self._owned: dict[Path, frozenset[str]] = {}
        self._loaded: dict[Path, bool] = {}
        self._unloaded: dict[Path, bool] = {}
        self._alone: dict[Path, bool] = {}
        self._left_over: dict[Path, frozenset[Unit]] = {}
        self._by_name: dict[Path, bool] = {}
        self._loaders: dict[Path, list[Path]] = {}
        self._by_text: dict[Path, bool] = {}
        self._called: dict[tuple[Path, str, tuple[str, ...]], bool] = {}
        self.parts = lru_cache(maxsize=2_000)(self._parts_of)

    def basis(self, path: Path) -> str:
        """What stands for all texts that an answer hangs on."""
        return self._names.basis(path)

    def is_unused(self, path: Path, cls: str, name: str, *, but_by_tests: bool = False) -> bool:
        """Whether nothing leads to a function of a file, or to a method of a class; False where that can't be told.

        `but_by_tests` asks whether nothing but tests does.
        """
        path = path.resolve()
        project = self._names.project_of(path)
        if project is None or path not in self._names.listed(project):
            return False
        unit = Unit(path, cls, name)
        if unit not in self.parts(path):
            return False
        if self._is_left_over(unit.owner, project):
            return True
        if not self._shows_users(path, project):
            return False
        if self._is_on_top(path, project):
            return self._is_left_behind(unit.owner, project)
        if not self._is_reached(unit.owner, project, but_by_tests) or self._is_overridden(unit, project):
            return True
        return unit != unit.owner and self._is_rare(unit, project) and not self._is_reached(unit, project, but_by_tests)

    def is_given(self, path: Path, name: str) -> bool:
        """Whether something in the project of a file, other than a test, gives a flag; True where that can't be told."""
        project = self._names.project_of(path.resolve())
        if project is None or path.resolve() not in self._names.listed(project):
            return True
        if project not in self._givens:
            self._givens[project] = Givens()
            for file in self._names.listed(project):
                if not is_test_file(file):
                    self._give(file, self._givens[project])
        return self._givens[project].is_given(name)

    def is_only_run(self, path: Path) -> bool:
        """Whether nobody installs the project that a file is a part of; False where that can't be told."""
        project = self._names.project_of(path.resolve())
        return project is not None and not self._names.may_be_installed(project)

    def is_called(self, path: Path, cls: str, methods: tuple[str, ...]) -> bool:
        """Whether somebody may call an object of a class of a file; `methods` are its own that do. True where that can't be told."""
        project = self._names.project_of(path.resolve())
        if (
            project is None
            or path.resolve() not in self._names.listed(project)
            or len(self._names.defining(cls, project)) > 1
        ):
            return True
        asked = (path, cls, methods)
        if asked not in self._called:
            naming = self._names.mentioning(cls, project)
            texts = [f for f in self._names.listed(project) if f.suffix != ".md" and not is_test_file(f)]
            code = [f for f in naming or () if f.suffix in (".py", ".ipynb") and not is_test_file(f)]
            self._called[asked] = naming is None or may_be_called(
                cls, methods, map(self._names.text, code), map(self._names.text, texts)
            )
        return self._called[asked]

    def _give(self, file: Path, givens: Givens) -> None:
        raw = self._roots.files.read_quietly(file)
        if file.suffix == ".md":
            givens.take("\n".join(_CODE.findall(raw.decode("utf-8", "replace"))).encode(), is_code=True)
        else:
            # A shell's words aren't names, but its options are.
            givens.take(raw, is_code=file.suffix in (".py", ".sh"))

    # -- what leads where ----------------------------------------------------------------------------------------------

    def _shows_users(self, path: Path, project: Path) -> bool:
        """Whether those who use a file are in sight: another file uses something that its neighbours define, or registers it.

        In a folder that is marked as a project's, neighbours are all that aren't on top.
        """
        folder = project if self._names.is_marked(project) else path.parent
        if folder not in self._around:
            deep = folder is project
            neighbours = (
                f
                for f in self._names.listed(project)
                if f.suffix == ".py" and not is_test_file(f) and (deep or f.parent == folder)
            )
            self._around[folder] = any(
                self._is_used_elsewhere(unit, project) or self._is_registered(unit)
                for file in neighbours
                for unit in self.parts(file)
                if unit.called and unit.owner == unit
            )
        return self._around[folder]

    def _is_on_top(self, path: Path, project: Path) -> bool:
        """Whether a file is a part of no package, and none beside it imports it: what it has is for those who come with it."""
        if "." in self._roots.name_of(path)[1] or (path.parent != project and self._names.is_marked(project)):
            return False
        beside = (f for f in self._names.listed(project) if f.parent == path.parent and f != path)
        return not any(self._imports_it(f, path) for f in beside if f.suffix == ".py")

    def _is_left_behind(self, unit: Unit, project: Path) -> bool:
        """Whether what another file beside it defines under the same name is imported, and nothing names this file: the other came after."""
        path = unit.path
        beside = [f for f in self._names.listed(project) if f.suffix == ".py" and f.parent == path.parent and f != path]
        after = [f for f in self._names.defining(unit.called, project) if f in beside]
        if not any(unit._replace(path=f) in self.parts(f) and self._is_imported_by(f, beside) for f in after):
            return False
        named = re.compile(rf"\b{re.escape(path.stem)}\b")
        others = (f for f in self._names.listed(project) if f != path)
        return not self._runs(path) and not any(named.search(self._names.text(f)) for f in others)

    def _is_left_over(self, unit: Unit, project: Path) -> bool:
        """Whether nothing that a program runs leads to a unit of it, and nothing imports the program: what it was made of had that."""
        path = unit.path
        if path not in self._left_over:
            self._left_over[path] = self._left_over_in(path, project)
        return unit in self._left_over[path]

    def _left_over_in(self, path: Path, project: Path) -> frozenset[Unit]:
        parts = self.parts(path)
        outside = Unit(path, "", "")
        runs = self._runs(path) or _DOING.search(self._names.text(path)) is not None
        if outside not in parts or not runs or is_test_file(path) or path.suffix != ".py":
            return frozenset()
        own = {unit for unit in parts if unit.owner == unit and unit.called}
        reached, waiting = set[Unit](), [outside]
        while waiting:
            here = waiting.pop()
            said = [part.words for unit, part in parts.items() if here in (unit, unit.owner)]
            new = {u for u in own - reached if any(u.called in words for words in said) or self._is_registered(u)}
            reached |= new
            waiting += new
        does_much = len(parts[outside].words) > _MUCH or 2 * len(reached) > len(own)
        if not reached or not does_much or self._is_imported_by(path, list(self._names.listed(project))):
            return frozenset()
        return frozenset(unit for unit in own - reached if not self._is_named_with_file(unit, project))

    def _is_named_with_file(self, unit: Unit, project: Path) -> bool:
        """Whether anything says a unit's name behind that of its file: `eval:main`."""
        named = re.compile(rf"\b{re.escape(unit.path.stem)}[.:]{re.escape(unit.called)}\b")
        found = self._names.mentioning(unit.called, project, MAX_KEPT)
        return found is None or any(named.search(self._names.text(file)) for file in found)

    def _is_imported_by(self, path: Path, others: list[Path]) -> bool:
        return any(f != path and self._imports_it(f, path) for f in others)

    def _runs(self, path: Path) -> bool:
        return "__name__" in self._names.text(path)

    def _is_used_elsewhere(self, unit: Unit, project: Path) -> bool:
        found = self._names.mentioning(unit.called, project, MAX_KEPT) or ()
        return any(f != unit.path and self._imports_it(f, unit.path) for f in found)

    def _is_registered(self, unit: Unit) -> bool:
        part = self.parts(unit.path).get(unit)
        return part is not None and any(not _PLAIN.fullmatch(d) for d in part.decorators)

    def _makes_registered(self, unit: Unit) -> bool:
        """Whether a class method belongs to a class that is registered: who has it there may make its objects by it."""
        part = self.parts(unit.path).get(unit)
        return part is not None and "classmethod" in part.decorators and self._is_registered(unit.owner)

    def _is_reached(self, unit: Unit, project: Path, but_by_tests: bool) -> bool:
        """Whether something, or something that is no test, leads to a unit, by way of others too."""
        if (unit, but_by_tests) not in self._known:
            seen = {unit}
            waiting = deque(seen)
            reached = False
            while waiting and not reached:
                here = waiting.popleft()
                if but_by_tests and here != unit and is_test_file(here.path):
                    continue
                before = set(self._users(here, project)) if not self._is_entry(here, project) else None
                reached = before is None or len(seen) > MAX_FOLLOWED
                new = (before or set()) - seen
                seen |= new
                waiting += new
            self._known[unit, but_by_tests] = reached
        return self._known[unit, but_by_tests]

    def _is_entry(self, unit: Unit, project: Path) -> bool:
        """Whether something that isn't in sight may use a unit, or the project runs it by itself."""
        if unit.path.suffix == ".md":
            # What came with a part of another project tells of that.
            return unit.path.parent == project or "docs" in unit.path.parts
        if unit.path.suffix != ".py" or is_test_file(unit.path):
            return True
        if not unit.called:
            if unit.path.stem == "__init__":
                return self._is_outer(unit.path) and self._names.may_be_installed(project)
            return not (self._is_in_package_alone(unit.path) or self._is_alone(unit.path))
        if unit not in self.parts(unit.path) or self._is_registered(unit):
            return True
        if unit == unit.owner and self._is_loaded_by_name(unit.path.parent, project):
            return True
        if unit != unit.owner and (not self._is_rare(unit, project) or self._makes_registered(unit)):
            # Who calls a method of such a name isn't told: whoever makes an object of the class.
            return self._is_entry(unit.owner, project)
        return self._users_files(unit, project) is None or (
            self._names.may_be_installed(project) and self._is_exported(unit)
        )

    def _is_loaded_by_name(self, folder: Path, project: Path) -> bool:
        """Whether the modules of a folder may be loaded under names that are put together, of which it is a part."""
        if folder not in self._by_name:
            name = re.escape(folder.name)
            quoted = re.compile(rf"['\"]([\w./]*)\b{name}[./'\"]")
            # Who loads nothing himself may name a module, and elsewhere files of data.
            dotted = re.compile(rf"['\"]((?:\w+\.)*){name}(?:\.\w+)+['\"]|['\"]([\w./]*)\b{name}/[\w/]*\.py['\"]")
            self._by_name[folder] = any(
                _leads_to(match[match.lastindex or 1], folder, file, project)
                for file in self._loading(project)
                for text in [self._names.text(file)]
                for match in (quoted if _loads(text) else dotted).finditer(text)
            )
        return self._by_name[folder]

    def _loading(self, project: Path) -> list[Path]:
        """The code of a project, where any of it loads modules under names that are put together; otherwise none."""
        if project not in self._loaders:
            code = [f for f in self._names.listed(project) if f.suffix == ".py" and not is_test_file(f)]
            self._loaders[project] = code if any(_loads(self._names.text(f)) for f in code) else []
        return self._loaders[project]

    def _is_in_package_alone(self, path: Path) -> bool:
        """Whether a module is no program, and stands in an inner package that nothing outside of it names: it is never loaded."""
        folder, project = path.parent, self._names.project_of(path)
        package = folder / "__init__.py"
        if project is None or not self._roots.files.is_file(package) or self._is_outer(package) or self._runs(path):
            return False
        if folder not in self._alone:
            named = re.compile(rf"\b{re.escape(folder.name)}\b|\bwalk_packages\b|\biter_modules\b")
            outside = (
                f for f in self._names.listed(project) if f.suffix in (".py", ".ipynb") and folder not in f.parents
            )
            self._alone[folder] = not any(named.search(self._names.text(f)) for f in outside)
        return self._alone[folder]

    def _is_alone(self, path: Path) -> bool:
        """Whether a module of an inner folder is no program, and nothing names it, though most of its neighbours are imported: it is never loaded."""
        project, package = self._names.project_of(path), path.parent / "__init__.py"
        if project is None or self._is_outer(package) or _DOING.search(self._names.text(path)):
            return False
        beside = [
            f for f in self._names.listed(project) if f.parent == path.parent and f.suffix == ".py" and f != package
        ]
        if path not in self._unloaded:
            known = [self._is_loaded(f, project) for f in beside if f != path]
            self._unloaded[path] = 2 * sum(known) > len(known) and not self._is_loaded(path, project)
        return self._unloaded[path]

    def _is_loaded(self, path: Path, project: Path) -> bool:
        """Whether an import, or a text, names a module."""
        if path not in self._loaded:
            holding = self._names.holding(path.stem, project)
            self._loaded[path] = any(self._names_stem(f, path) for f in holding if f != path)
        return self._loaded[path]

    def _names_stem(self, file: Path, path: Path) -> bool:
        """Whether a file names a module: in an import, or anywhere else than behind another package's name."""
        whole = re.compile(rf"(?:\b(\w+)\.)?\b{re.escape(path.stem)}\b")
        text = self._names.text(file)
        if file.suffix == ".py":
            text = "\n".join(COMMENT.sub("", line) for line in text.split("\n") if path.stem in line)
        return any(match[1] in (None, path.parent.name) for match in whole.finditer(text))

    def _is_outer(self, package: Path) -> bool:
        """Whether what a package has is the project's interface: that of an inner one is for those who import it."""
        project = self._names.project_of(package)
        parts = package.parent.relative_to(project).parts if project is not None else ()
        inner = parts[1:] if parts[:1] in _SOURCES else parts
        return len(inner) <= MAX_DEPTH and not COPIED.intersection(inner[1:])

    def _users_files(self, unit: Unit, project: Path) -> list[Path] | None:
        """The files in which a name may be that of a unit; None where these are many."""
        if unit != unit.owner:
            return self._names.mentioning(unit.called, project)
        if len(self._names.defining(unit.called, project)) == 1:
            found = self._names.mentioning(unit.called, project)
            return (
                None
                if found is None
                else [f for f in found if f == unit.path or not self._has_from_library(f, unit, project)]
            )
        # Of several that are called so, it is the one that is imported.
        found = self._names.mentioning(unit.called, project, MAX_KEPT)
        return None if found is None else [f for f in found if f == unit.path or self._may_mean(f, unit)]

    def _may_mean(self, path: Path, unit: Unit) -> bool:
        """Whether a name in a file may be that of a unit of another one: it is imported, or quoted."""
        if self._imports_it(path, unit.path):
            return not self._imports_others(path, unit)
        if unit.name in _MODES:
            return False
        if self._takes_all_of_own(path):
            return True
        if path.suffix != ".py":
            return True
        return self._takes_quoted(path) and any(unit.called in part.quoted for part in self.parts(path).values())

    def _takes_quoted(self, path: Path) -> bool:
        """Whether code of a file's project takes what has a name that is told as a text: `getattr(models, name)`."""
        project = self._names.project_of(path)
        if project is None:
            return True
        if project not in self._by_text:
            code = (f for f in self._names.listed(project) if f.suffix in (".py", ".ipynb"))
            self._by_text[project] = any(_BY_TEXT.search(self._names.text(f)) for f in code)
        return self._by_text[project]

    def _imports_others(self, path: Path, unit: Unit) -> bool:
        """Whether a file takes other names out of that of a unit, one by one, and hasn't got the file itself."""
        parts = unit.path.with_suffix("").parts
        taken: set[str] = set()
        for match in import_pattern().finditer(self._roots.files.import_statements(path)):
            module = tuple(name for name in (match["module"] or match["plain"]).strip(".").split(".") if name)
            names = imported_names(match["names"], original=True) if match["names"] else set()
            if not names and parts[-len(module) :] == module:
                return False
            if any(parts[-len(module) - 1 :] == (*module, name) for name in names):
                return False
            taken |= names if module and parts[-len(module) :] == module else set()
        return bool(taken) and unit.called not in taken

    def _has_from_library(self, path: Path, unit: Unit, project: Path) -> bool:
        """Whether what has the name of a unit in a file is imported there from a library, which has one too."""
        statements = self._roots.files.import_statements(path) if path.suffix == ".py" else ""
        if unit.called not in statements:
            return False
        taken = [
            match["module"].partition(".")[0]
            for match in import_pattern().finditer(statements)
            if match["names"] and unit.called in imported_names(match["names"], original=True)
        ]
        return bool(taken) and all(module and module not in self._own_names(project) for module in taken)

    def _own_names(self, project: Path) -> frozenset[str]:
        """What a project's files and folders are called, itself and what is around it included."""
        if project not in self._owned:
            names = {name for file in self._names.listed(project) for name in (file.stem, *file.parent.parts)}
            self._owned[project] = frozenset(names)
        return self._owned[project]

    def _is_rare(self, unit: Unit, project: Path) -> bool:
        """Whether the name of a method tells who calls it."""
        if _CALLED.fullmatch(unit.name) or self._names.mentioning(unit.name, project) is None:
            return False
        return not self._has_unknown_base(unit.owner, project, 6)

    def _has_unknown_base(self, cls: Unit, project: Path, left: int) -> bool:
        """Whether a class is derived from one that isn't the project's and may call its methods."""
        part = self.parts(cls.path).get(cls)
        for base in part.bases - _PLAIN_BASES if part is not None else ():
            places = self._names.defining(base, project)
            known = [
                Unit(p, base, "")
                for p in places
                if Unit(p, base, "") in self.parts(p)
                and (p == cls.path or self._imports_it(cls.path, p) or self._is_star_importer(cls.path))
            ]
            if not known or not left or any(self._has_unknown_base(k, project, left - 1) for k in known):
                return True
        return False

    def _is_overridden(self, unit: Unit, project: Path) -> bool:
        """Whether a class is only there to be derived from, and all that are have another method in the place of one."""
        if unit == unit.owner or _CALLED.fullmatch(unit.name):
            return False
        users = list(self._users(unit.owner, project))
        derived = [u for u in users if u.cls and not u.name and unit.cls in self.parts(u.path)[u].bases]
        own = [self.parts(u.path).get(u._replace(name=unit.name)) for u in derived]
        return len(derived) == len(users) > 0 and all(part is not None and "super" not in part.words for part in own)

    def _is_exported(self, unit: Unit) -> bool:
        """Whether a package has all of a module: `from .layers import *`."""
        if unit.called.startswith("_"):
            return False
        stars = re.compile(rf"^\s*from\s+[\w.]*\b{unit.path.stem}\s+import\s+\*", re.MULTILINE)
        inits = (folder / "__init__.py" for folder in (unit.path.parent, unit.path.parent.parent))
        return any(
            stars.search(self._roots.files.import_statements(f))
            for f in inits
            if self._roots.files.is_file(f) and self._is_outer(f)
        )

    def _users(self, unit: Unit, project: Path) -> Iterator[Unit]:
        """The units in which the name of one stands."""
        rare = unit == unit.owner or self._is_rare(unit, project)
        wanted = unit if rare else unit.owner
        lineage = self._lineage(wanted.owner, project, 6) if wanted.cls else set()
        for path in self._users_files(wanted, project) or ():
            parts = self.parts(path)
            for other, part in parts.items():
                if wanted.called not in part.words or other == wanted or other.owner == wanted:
                    continue
                own = Unit(path, other.cls, wanted.name)
                if wanted.name in part.on_self and own in parts and other.cls not in lineage:
                    # Its own method of that name.
                    continue
                yield other

    def _lineage(self, cls: Unit, project: Path, left: int) -> set[str]:
        """The names of a class and of those of the project that it is derived from."""
        part = self.parts(cls.path).get(cls)
        found = {cls.cls}
        for base in part.bases - _PLAIN_BASES if part is not None and left else ():
            for place in self._names.defining(base, project):
                found |= self._lineage(Unit(place, base, ""), project, left - 1)
        return found

    def _imports_it(self, path: Path, other: Path) -> bool:
        """Whether a file imports another one, by way of the packages around it too, going by how its names end."""
        if self._names_module(path, other):
            return True
        around = [folder / "__init__.py" for folder in (other.parent, other.parent.parent)]
        return any(self._names_module(path, package) and self._names_module(package, other) for package in around)

    def _names_module(self, path: Path, other: Path) -> bool:
        """Whether an import of a file ends like the name of another one."""
        parts = other.parent.parts if other.stem == "__init__" else other.with_suffix("").parts
        return any(parts[-len(name) :] == name for name in self._imported(path))

    def _imported(self, path: Path) -> set[tuple[str, ...]]:
        """The modules that a file may import, each by what the parts of its path are, or end with."""
        if path not in self._imports:
            found: set[tuple[str, ...]] = set()
            for match in import_pattern().finditer(self._roots.files.import_statements(path)):
                names = imported_names(match["names"], original=True) if match["names"] else set()
                for module in self._meant(match["module"] or match["plain"], path):
                    found |= {(*module, name) for name in names}
                    found |= {module} if module else set()
            self._imports[path] = found
        return self._imports[path]

    def _meant(self, module: str, path: Path) -> list[tuple[str, ...]]:
        """What the paths of modules that a file means by a dotted name are, or end with.

        A program in a folder takes what lies beside it, or else what lies around that: another of that name, elsewhere, is meant only
        where none is there.
        """
        names = tuple(name for name in module.split(".") if name)
        level = len(module) - len(module.lstrip("."))
        if level:
            return [(*path.parents[min(level, len(path.parents)) - 1].parts, *names)]
        project = self._names.project_of(path)
        around = [f for f in path.parents if project is not None and (f == project or project in f.parents)]
        near = [(*folder.parts, *names) for folder in around if self._roots.has(folder, names[0])]
        return near or [names]

    def _takes_all_of_own(self, path: Path) -> bool:
        """Whether a file takes all names of some module of its project."""
        if not self._is_star_importer(path):
            return False
        project = self._names.project_of(path)
        taken = _ALL_OF.findall(self._roots.files.import_statements(path))
        return project is None or any(not names or names in self._own_names(project) for names in taken)

    def _is_star_importer(self, path: Path) -> bool:
        return "import *" in self._roots.files.import_statements(path)

    # -- one file ------------------------------------------------------------------------------------------------------

    def _parts_of(self, path: Path) -> dict[Unit, Part]:
        """The units of a file, with what their texts say."""
        text = self._roots.files.read_quietly(path).decode("utf-8", "replace")
        if path.suffix == ".md":
            # What a document speaks of needn't be a name.
            text = "\n".join(name for code in _CODE.findall(text) for name in _USED.findall(code))
        if path.suffix != ".py":
            return {Unit(path, "", ""): Part(words_of(text))}
        is_package = path.stem == "__init__"
        text = _HELP.sub("", text) if "help" in text else text
        text = _OPTION.sub("", text) if "-" in text else text
        return dict(split(path, text if is_package else import_pattern().sub(_renaming, text)))


def _leads_to(before: str, folder: Path, file: Path, project: Path) -> bool:
    """Whether what a text has before a folder's name leads to this one: that around it, or nothing where it is in reach."""
    around = [part for part in re.split(r"[./]+", before) if part]
    if around:
        return around[-1] == folder.parent.name
    return folder.parent == project or folder.parent in file.parents


def _loads(text: str) -> bool:
    # Looked for as plain text first, which is a hundred times as fast.
    return ("import_module" in text or "__import__" in text) and _LOADING.search(text) is not None


def _renaming(statement: re.Match[str]) -> str:
    """What an import alone doesn't use is left out, unless it is used by another name."""
    return statement[0] if " as " in statement[0] else ""
