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
from devlint.source.called import kept_as, may_be_called
from devlint.source.filesystem import import_pattern
from devlint.source.givens import Givens
from devlint.source.imports import Imports
from devlint.source.loads import Loads
from devlint.source.retracing import Retracing
from devlint.source.roots import ImportRoots
from devlint.source.said import Part, Unit, split, words_of
from devlint.source.standing import MAX_KEPT, RELEASING, Names
from devlint.source.texts import Texts, is_test_file
from devlint.source.traces import Text, traced

# So many functions are followed back; behind more of them, one is taken to be used.
MAX_FOLLOWED = 80
# So many words are more than a module says that only tries what it defines.
_MUCH = 60
# How a project says that it installs more than packages.
_INSTALLED = regex(r"\bpy[_-]modules\b|\bfind_namespace|\bfind-namespace|\bnamespaces\b")
_CODE = regex(r"```.{0,20000}?```|`[^`\n]{1,300}`", re.DOTALL)
_USED = regex(r"\w+(?=\s?[(.])|(?<=[.`])\w+|(?<=import )[\w, ]+")
# What a module lists for who takes all that it has: nobody uses it for that.
_LISTED = regex(r"(?m)^__all__[ \t]*\+?=[ \t]*[\[(][^\])]{0,20000}[\])]")
# An option, which may be called like what it is for.
_OPTION = regex(r"['\"]--?\w[\w-]{0,80}['\"]")
# What documents something may speak of others, and uses none.
_DOCSTRING = regex(
    r"(?<![^\n])([ \t]{0,80}+)[rRuU]?(?:\"{3}(?:[^\"]|\"(?!\"\")){0,40000}+\"{3}|'{3}(?:[^']|'(?!'')){0,40000}+'{3})"
)
# What it is for, said in words.
_HELP = regex(r"\bhelp[ \t]*=[ \t]*(?:'[^'\n]{0,400}'|\"[^\"\n]{0,400}\")")
# Decorators that hand on what they are given, and tell nobody of it.
_PLAIN = regex(
    r"(?:abc\.|functools\.|typing\.|contextlib\.|dataclasses\.|torch\.|triton\.|tl\.)?(?:\w+\.)?(?:staticmethod|classmethod|property|cached_property|abstractmethod|override|overload|final|"
    r"dataclass|wraps|lru_cache|cache|contextmanager|no_grad|inference_mode|enable_grad|set_grad_enabled|compile|script|disable|jit|autocast|custom_fwd|custom_bwd)"
)
# What takes a thing by a name that is told as a text.
_BY_TEXT = regex(
    r"\bgetattr\([ \t\n]{0,40}(?!self\b|args\b|opt\b|cfg\b|config\b)[\w.]{1,80}[ \t\n]{0,9},[ \t\n]{0,40}(?!['\"])|\b(?:globals|locals|vars)\(\)"
    r"|(?<![.\w])eval\([ \t\n]{0,9}[^)\s]|\bimport_module\(|__import__\(|\b__dict__\b|\blocate\(|\binstantiate\("
)
_LIGHTNING = frozenset({"pl", "L", "lightning", "pytorch_lightning", "LightningModule"})
# Bases that call none of the methods that their classes define, but those of `_CALLED`, and Lightning's those of `_HOOKS`.
_PLAIN_BASES = _LIGHTNING | frozenset(
    {"object", "ABC", "nn", "torch", "Module", "Generic", "Protocol", "Enum", "typing", "abc", "ABCMeta", "metaclass", "T"}
)  # fmt: skip
_CALLED = regex(r"__\w+__|forward|extra_repr|train|eval|to|_apply|_load_from_state_dict|_save_to_state_dict")
# The hooks of a LightningModule (https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#hooks), and what whoever has one calls.
_HOOKS = regex(
    r"(?:on|configure|training|validation|test|predict|optimizer|lr_scheduler|transfer_batch|tbptt|amp|get|init|manual|clip|toggle)_\w+"
    r"|\w+_dataloaders?|lr_schedulers|untoggle_optimizer|grad_norm|(?:load_)?state_dict|cuda|cpu|predict|prepare_data|setup|teardown|backward"
    r"|freeze|unfreeze|all_gather|summarize|print|log\w*"
)
# Hooks of loops that Lightning leaves out where a module has no step for them (`Trainer.fit`, `is_overridden("validation_step", ...)`).
_STAGE = regex(r"(?:on_)?(validation|test)_(?!step$)\w+")


# Names that say, where they are quoted, in which mode something runs.
_MODES = frozenset(
    {"train", "training", "test", "testing", "val", "valid", "validate", "eval", "evaluate", "predict", "infer"}
)


class Mentions:
    """What leads to the functions, classes and flags of a project."""

    def __init__(self, roots: ImportRoots, texts: Texts) -> None:
        self._roots = roots
        self._names = Names(roots, texts)
        self._imports = Imports(roots, self._names)
        self._loads = Loads(roots, self._names)
        self.traces = self._names.traces
        self.retracing = Retracing(self._names, roots.files)
        self._givens: dict[Path, Givens] = {}
        self._split = lru_cache(maxsize=2_000)(self._parts_of)
        self._names.kinds |= {
            "names": self._names_file,
            "asks": self._asks,
            "takes by a text": self._takes_by_text,
            "quotes": self._quotes,
        }

    def basis(self, path: Path) -> str:
        """What stands for all texts that an answer hangs on."""
        return self._names.basis(path)

    def is_unused(self, path: Path, cls: str, name: str, *, but_by_tests: bool = False) -> bool:
        """Whether nothing leads to a function of a file, or to a method of a class; False where that can't be told.

        `but_by_tests` asks whether nothing but tests does.
        """
        return self._is_unused(Unit(path.resolve(), cls, name), but_by_tests)

    @traced
    def _is_unused(self, unit: Unit, but_by_tests: bool) -> bool:
        path = unit.path
        project = self._names.project_of(path)
        if project is None or path not in self._names.listed(project) or unit not in self.parts(path):
            return False
        if self._is_left_over(unit.owner, project):
            return True
        if not self._shows_users(path, project):
            return False
        if self._is_on_top(path, project):
            return self._is_left_behind(unit.owner, project)
        if not self._is_reached(unit.owner, project, but_by_tests) or self._is_overridden(unit, project):
            return True
        if unit == unit.owner:
            return False
        if self._is_rare(unit, project) and not self._is_reached(unit, project, but_by_tests):
            return True
        return self._is_never_asked(unit, project)

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

    def place_of(self, path: Path) -> str:
        """The path of a file below the folder of its project, or the settings' one: what is around that says nothing of it."""
        path = path.resolve()
        project = self._names.project_of(path)
        above = (project,) if project is not None else self._roots.folders
        return next((path.relative_to(f).as_posix() for f in above if f in path.parents), path.name)

    def is_loose(self, path: Path) -> bool:
        """Whether a file stands in no package, so that programs have it from beside them, and nobody installs it.

        A project may say that its modules are installed one by one, or folders without an `__init__.py`.
        """
        project = self._names.project_of(path.resolve())
        if project is None:
            return "." not in self._roots.name_of(path)[1] and path.stem != "__init__"
        inner = [folder for folder in path.resolve().parents if project in folder.parents]
        if path.stem == "__init__" or any(self._names.has_one(folder, ("__init__.py",)) for folder in inner):
            return False
        return not any(_INSTALLED.search(self._names.text(project / name)) for name in RELEASING)

    def is_broken(self, path: Path) -> bool:
        """Whether a file surely fails as it begins, by what it imports."""
        return self._imports.is_broken(path.resolve())

    @traced
    def is_called(self, path: Path, cls: str, methods: tuple[str, ...]) -> bool:
        """Whether somebody may call an object of a class of a file; `methods` are its own that do. True where that can't be told."""
        texts = self._texts_about(path, cls)
        return texts is None or may_be_called(cls, methods, *texts)

    @traced
    def kept_as(self, path: Path, cls: str) -> frozenset[str] | None:
        """The names under which a project keeps the objects of a class of a file; None where they may be anywhere else too."""
        texts = self._texts_about(path, cls)
        return kept_as(cls, *texts) if texts is not None else None

    def _texts_about(self, path: Path, cls: str) -> tuple[Iterator[str], Iterator[str]] | None:
        """The code that names a class of a file, and all texts of its project, tests apart; None where others are called so, too many name it, or the texts are too large to be read for each class."""
        project = self._names.project_of(path.resolve())
        if (
            project is None
            or path.resolve() not in self._names.listed(project)
            or len(self._names.defining(cls, project)) > 1
        ):
            return None
        naming = self._names.mentioning(cls, project)
        if naming is None or self._names.is_large(project):
            return None
        texts = [f for f in self._names.listed(project) if f.suffix != ".md" and not is_test_file(f)]
        code = [f for f in naming if f.suffix in (".py", ".ipynb") and not is_test_file(f)]
        return map(self._names.text, code), map(self._names.text, texts)

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
        return self._shows_users_of(project if self._names.is_marked(project) else path.parent, project)

    @traced
    def _shows_users_of(self, folder: Path, project: Path) -> bool:
        neighbours = (
            f
            for f in self._names.listed(project)
            if f.suffix == ".py" and not is_test_file(f) and folder in (project, f.parent)
        )
        return any(self._has_user(file, project) for file in neighbours)

    @traced
    def _is_on_top(self, path: Path, project: Path) -> bool:
        """Whether a file is a part of no package, and none beside it imports it: what it has is for those who come with it."""
        is_inner = "." in self._roots.name_of(path)[1] or (path.parent != project and self._names.is_marked(project))
        beside = (f for f in self._names.listed(project) if f.parent == path.parent and f != path)
        return not is_inner and not any(self._imports.imports(f, path) for f in beside if f.suffix == ".py")

    def _is_left_behind(self, unit: Unit, project: Path) -> bool:
        """Whether what another file beside it defines under the same name is imported, and nothing names this file: the other came after."""
        path = unit.path
        beside = [f for f in self._names.listed(project) if f.suffix == ".py" and f.parent == path.parent and f != path]
        after = [f for f in self._names.defining(unit.called, project) if f in beside]
        if not any(unit._replace(path=f) in self.parts(f) and self._is_imported_by(f, beside) for f in after):
            return False
        if self._loads.runs(path):
            return False
        return not self._names.any_of_kind("names", str(path), among=self._names.listed(project))

    def _names_file(self, file: Path, other: str) -> bool:
        """Whether a file says the name of another one."""
        path = Path(other)
        return file != path and re.search(rf"\b{re.escape(path.stem)}\b", self._names.text(file)) is not None

    def _is_left_over(self, unit: Unit, project: Path) -> bool:
        """Whether nothing that a program runs leads to a unit of it, and nothing imports the program: what it was made of had that."""
        return unit in self._left_over_in(unit.path, project)

    @traced
    def _left_over_in(self, path: Path, project: Path) -> frozenset[Unit]:
        parts = self.parts(path)
        outside = Unit(path, "", "")
        runs = self._loads.runs(path) or self._loads.acts(path)
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
        return any(f != path and self._imports.imports(f, path) for f in others)

    def _has_user(self, path: Path, project: Path) -> bool:
        """Whether a file registers something that it defines, or another one imports it and names that."""
        units = [unit for unit in self.parts(path) if unit.called and unit.owner == unit]
        if any(map(self._is_registered, units)):
            return True
        names = {unit.called for unit in units}
        others = (f for f in self._names.listed(project) if names and f != path and self._imports.imports(f, path))
        return any(not names.isdisjoint(words_of(self._names.text(f))) for f in others)

    def _is_registered(self, unit: Unit) -> bool:
        part = self.parts(unit.path).get(unit)
        return part is not None and any(not _PLAIN.fullmatch(d) for d in part.decorators)

    def _makes_registered(self, unit: Unit) -> bool:
        """Whether a class method belongs to a class that is registered: who has it there may make its objects by it."""
        part = self.parts(unit.path).get(unit)
        return part is not None and "classmethod" in part.decorators and self._is_registered(unit.owner)

    @traced
    def _is_reached(self, unit: Unit, project: Path, but_by_tests: bool) -> bool:
        """Whether something, or something that is no test, leads to a unit, by way of others too."""
        seen = {unit}
        waiting = deque(seen)
        while waiting:
            here = waiting.popleft()
            if but_by_tests and here != unit and is_test_file(here.path):
                continue
            if self._is_entry(here, project) or len(seen) > MAX_FOLLOWED:
                return True
            # In one order, so that the same is looked at in each run.
            new = dict.fromkeys(self._users(here, project))
            waiting += [user for user in new if user not in seen]
            seen |= new.keys()
        return False

    def _is_entry(self, unit: Unit, project: Path) -> bool:
        """Whether something that isn't in sight may use a unit, or the project runs it by itself."""
        if unit.path.suffix == ".md":
            # What came with a part of another project tells of that.
            return unit.path.parent == project or "docs" in unit.path.parts
        if unit.path.suffix != ".py" or is_test_file(unit.path):
            return True
        if not unit.called:
            if unit.path.stem == "__init__":
                return self._loads.is_outer(unit.path) and self._names.may_be_installed(project)
            loads = self._loads
            return not (
                loads.is_in_package_alone(unit.path) or loads.is_alone(unit.path) or loads.only_tries(unit.path)
            )
        if unit not in self.parts(unit.path) or self._is_registered(unit):
            return True
        if unit == unit.owner and self._loads.may_be_loaded_by_name(unit.path.parent, project):
            return True
        if unit != unit.owner and (not self._is_rare(unit, project) or self._makes_registered(unit)):
            # Who calls a method of such a name isn't told: whoever makes an object of the class.
            return self._is_entry(unit.owner, project)
        return self._users_files(unit, project) is None or (
            self._names.may_be_installed(project) and self._is_exported(unit)
        )

    def _users_files(self, unit: Unit, project: Path) -> list[Path] | None:
        """The files in which a name may be that of a unit; None where these are many."""
        if unit != unit.owner:
            return self._names.mentioning(unit.called, project)
        if len(self._names.defining(unit.called, project)) == 1:
            found = self._names.mentioning(unit.called, project)
            return (
                None
                if found is None
                else [f for f in found if f == unit.path or not self._means_other(f, unit, project)]
            )
        # Of several that are called so, it is the one that is imported.
        found = self._names.mentioning(unit.called, project, MAX_KEPT)
        return None if found is None else [f for f in found if f == unit.path or self._may_mean(f, unit)]

    def _means_other(self, path: Path, unit: Unit, project: Path) -> bool:
        """Whether what has the name of a unit in a file is imported there by it: from a library, or as another one of the unit's file."""
        if self._imports.has_from_library(path, unit, project):
            return True
        renamed = re.compile(rf"\bas[ \t]+{re.escape(unit.called)}\b")
        return (
            path.suffix == ".py"
            and self._imports.takes_others(path, unit)
            and renamed.search(self._names.text(path)) is not None
        )

    def _may_mean(self, path: Path, unit: Unit) -> bool:
        """Whether a name in a file may be that of a unit of another one: it is imported, or quoted."""
        if self._imports.imports(path, unit.path):
            return not self._imports.takes_others(path, unit)
        if unit.name in _MODES:
            return False
        if self._imports.takes_all_of_own(path):
            return True
        if path.suffix != ".py":
            return True
        return self._takes_quoted(path) and self._names.is_of_kind("quotes", path, unit.called)

    def _quotes(self, file: Path, name: str) -> bool:
        return any(name in part.quoted for part in self.parts(file).values())

    def _takes_quoted(self, path: Path) -> bool:
        """Whether code of a file's project takes what has a name that is told as a text: `getattr(models, name)`."""
        project = self._names.project_of(path)
        return project is None or self._any_takes_quoted(project)

    @traced
    def _any_takes_quoted(self, project: Path) -> bool:
        return self._names.any_of_kind("takes by a text", among=self._names.listed(project))

    def _takes_by_text(self, file: Path) -> bool:
        return file.suffix in (".py", ".ipynb") and _BY_TEXT.search(self._names.text(file)) is not None

    def _is_rare(self, unit: Unit, project: Path) -> bool:
        """Whether the name of a method tells who calls it."""
        if self._is_called_by_base(unit, project) or self._names.mentioning(unit.name, project) is None:
            return False
        return not self._has_unknown_base(unit.owner, project, {})

    def _is_never_asked(self, unit: Unit, project: Path) -> bool:
        """Whether a method has a name that many have, and none of the things that the project keeps objects of its class as is asked for it."""
        if self._is_called_by_base(unit, project) or self._is_registered(unit) or self._names.may_be_installed(project):
            return False
        parts = self.parts(unit.path)
        by_itself = any(u.cls == unit.cls and u != unit and unit.name in part.words for u, part in parts.items())
        if (
            by_itself
            or self._has_unknown_base(unit.owner, project, {})
            or not (kept := self.kept_as(unit.path, unit.cls))
        ):
            return False
        # The classes of the project that it is derived from may ask their own objects.
        owners = {*kept, unit.cls, "self"} if parts[unit.owner].bases - _PLAIN_BASES else {*kept, unit.cls}
        asked = rf"\b(?:{'|'.join(sorted(owners))})\.{unit.name}\b"
        return not self._names.any_of_kind("asks", asked, among=self._names.listed(project))

    def _asks(self, file: Path, pattern: str) -> bool:
        return not is_test_file(file) and re.search(pattern, self._names.text(file)) is not None

    def _is_called_by_base(self, unit: Unit, project: Path) -> bool:
        """Whether what a class is derived from calls a method of that name."""
        if _CALLED.fullmatch(unit.name):
            return True
        if not _HOOKS.fullmatch(unit.name):
            return False
        lineage = self._lineage(unit.owner, project)
        parts = (self.parts(u.path).get(u) for u in lineage)
        if not any(part is not None and part.bases & _LIGHTNING for part in parts):
            return False
        stage = _STAGE.fullmatch(unit.name)
        step = stage and f"{stage[1]}_step"
        return not step or any(u._replace(name=step) in self.parts(u.path) for u in lineage)

    def _has_unknown_base(self, cls: Unit, project: Path, known: dict[Unit, bool]) -> bool:
        """Whether a class is derived from one that isn't the project's and may call its methods; `known` are the answers so far."""
        if cls not in known:
            # What leads back to itself is another class of the same name, which isn't seen.
            known[cls] = True
            part = self.parts(cls.path).get(cls)
            found = [self._meant_by(base, cls, project) for base in (_unknown(part) if part else ())]
            known[cls] = any(
                not bases or any(self._has_unknown_base(b, project, known) for b in bases) for bases in found
            )
        return known[cls]

    def _meant_by(self, base: str, cls: Unit, project: Path) -> list[Unit]:
        """The classes of the project that the name of a base of one may mean."""
        return [
            Unit(p, base, "")
            for p in self._names.defining(base, project)
            if Unit(p, base, "") in self.parts(p)
            and (p == cls.path or self._imports.imports(cls.path, p) or self._imports.takes_all(cls.path))
        ]

    def _is_overridden(self, unit: Unit, project: Path) -> bool:
        """Whether a class is only there to be derived from, and all that are have another method in the place of one."""
        if unit == unit.owner or self._is_called_by_base(unit, project):
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
            stars.search(self._names.statements(f))
            for f in inits
            if self._roots.files.is_file(f) and self._loads.is_outer(f)
        )

    def _users(self, unit: Unit, project: Path) -> Iterator[Unit]:
        """The units in which the name of one stands."""
        rare = unit == unit.owner or self._is_rare(unit, project)
        wanted = unit if rare else unit.owner
        lineage = {u.cls for u in self._lineage(wanted.owner, project)} if wanted.cls else set()
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

    def _lineage(self, cls: Unit, project: Path) -> list[Unit]:
        """A class and those of the project that it is derived from, going by their names."""
        seen, lineage = {cls}, [cls]
        for here in lineage:
            part = self.parts(here.path).get(here)
            bases = _unknown(part) if part is not None else ()
            found = (Unit(place, base, "") for base in bases for place in self._names.defining(base, project))
            new = [unit for unit in dict.fromkeys(found) if unit not in seen]
            seen.update(new)
            lineage += new
        return lineage

    # -- one file ------------------------------------------------------------------------------------------------------

    def parts(self, path: Path) -> dict[Unit, Part]:
        """The units of a file, with what their texts say."""
        self.traces.note(Text(path))
        return self._split(path)

    def _parts_of(self, path: Path) -> dict[Unit, Part]:
        text = self._roots.files.read_quietly(path).decode("utf-8", "replace")
        if path.suffix == ".md":
            # What a document speaks of needn't be a name.
            text = "\n".join(name for code in _CODE.findall(text) for name in _USED.findall(code))
        if path.suffix != ".py":
            return {Unit(path, "", ""): Part(words_of(text))}
        is_package = path.stem == "__init__"
        text = _DOCSTRING.sub(r'\1""', text) if '"""' in text or "'''" in text else text
        text = _HELP.sub("", text) if "help" in text else text
        text = _OPTION.sub("", text) if "-" in text else text
        if (
            "__all__" in text
            and (project := self._names.project_of(path))
            and not self._names.may_be_installed(project)
        ):
            text = _LISTED.sub("", text)
        return dict(split(path, text if is_package else import_pattern().sub(_renaming, text)))


def _unknown(part: Part) -> list[str]:
    """The names of the bases of a class that may be the project's, in one order, so that the same is looked at in each run."""
    return sorted(part.bases - _PLAIN_BASES)


def _renaming(statement: re.Match[str]) -> str:
    """What an import alone doesn't use is left out, unless it is used by another name."""
    return statement[0] if " as " in statement[0] else ""
