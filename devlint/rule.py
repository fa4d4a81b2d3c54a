"""What a rule is, and the registry of those that are installed.

A rule is a class in a module of a rule pack. It names the text that must appear for it to have anything to say
(`trigger`), the LibCST shape that it looks at, and judges each match with the facts of the placement model. Its
docstring is its documentation.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from devlint.addresses import rule_page
from devlint.findings import Confidence, Edit, Note, Safety, Severity
from devlint.installed import EntryPoint, entry_points
from devlint.outlines import outlines_of
from devlint.records import record
from devlint.words import NOWHERE

if TYPE_CHECKING:
    import libcst as cst
    import libcst.matchers as m

    from devlint.facts import Facts
    from devlint.placement.model import PlacementModel
    from devlint.placement.waiting import HotStall
    from devlint.source.units import Unit

ENTRY_POINTS = "devlint.rules"
_OWN_PACK = "devlint_rules"
# What codes and names look like.
CODE = r"[A-Z]+[0-9]{3,4}"
NAME = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"


@record(frozen=True)
class Change:
    """A rule's proposal: LibCST nodes of the matched piece replaced, and further edits elsewhere in the file."""

    title: str
    safety: Safety
    replacements: tuple[tuple[cst.CSTNode, cst.CSTNode], ...] = ()
    edits: tuple[Edit, ...] = ()
    imports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _one_of("safety", self.safety, get_args(Safety))


@record(frozen=True)
class Report:
    """What a rule says of one node.

    `at` is where it is told instead, where what causes it stands elsewhere in the file. What is `minor` is told where the
    rule is selected by its code.
    """

    node: cst.CSTNode
    message: str
    confidence: Confidence = "certain"
    notes: tuple[Note, ...] = ()
    hint: str | None = None
    change: Change | None = None
    at: ast.expr | ast.stmt | None = None
    minor: bool = False
    # It isn't told at all: its fix goes with that of something told which is like it (`Rule.like`).
    aside: bool = False

    def __post_init__(self) -> None:
        _one_of("confidence", self.confidence, get_args(Confidence))


def _one_of(what: str, said: str, words: tuple[str, ...]) -> None:
    if said not in words:
        raise ValueError(f"{what} {said!r} isn't one of {', '.join(words)}")


@record(frozen=True)
class Effect:
    """What a rule's bad example does when it is run, on virtual CUDA and on a real GPU, and its good one doesn't.

    One of: it raises an error of the type `raises` whose text has `words` (of several, `|` between them, one is enough); `holds`, a Python expression, is true of its
    names when it ends; it gives a warning with the words `warns`; it does what `counts` names (waits for the accelerator,
    flushes, copies between devices) at least `syncs` times in operations whose name has `words`.
    """

    raises: str = ""
    words: str = ""
    holds: str = ""
    warns: str = ""
    syncs: int = 0
    # "early reading": the clock is read while the accelerator still works.
    counts: Literal["sync", "flush", "transfer", "early reading"] = "sync"
    # Code that is run before.
    before: str = ""
    # The example itself is run on a machine without an accelerator, or, on a real one, in a process that hasn't used it.
    without_accelerator: bool = False
    in_fresh_process: bool = False
    # How many devices it takes to see it, on a real machine; 0 where that would need an accelerator other than CUDA.
    devices: int = 1


class Rule:
    """Base of all rules. A subclass sets the class attributes, and overrides `shape` and `judge`.

    `trigger` is a regular expression: where it matches nothing in a file, the file is never parsed for this rule, and
    only the statements on lines that it matches are looked at. `event` names what the placement model reports by
    itself: then the whole file is modelled when the trigger matches it. What a wrapper lacks, and a device that its
    replicas share, are also looked for where a file uses a module that the trigger matches.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    trigger: ClassVar[str]
    event: ClassVar[Literal["", "missing-attribute", "pinned-device", "mixing", "unplaced-factory"]] = ""
    # Expressions that must each match somewhere in the file too: without them the rule has nothing to say there.
    needs: ClassVar[tuple[str, ...]] = ()
    # Names that this expression captures are triggers too: other names for what the rule is about.
    alias: ClassVar[str] = ""
    # The kind of statement that it looks at, where it looks at one only.
    statement: ClassVar[type[ast.stmt]] = ast.stmt
    # The rule has nothing to say outside of hot loops.
    only_hot: ClassVar[bool] = False
    # In a loop that trains nothing, it tells by default of what it has a fix for; of the rest where it is selected by its
    # code.
    only_training: ClassVar[bool] = False
    # It tells by default of what each step of a training meets, with a fix or not, unless the step ends there, and the next
    # one waits anyway for its batch.
    only_amid_step: ClassVar[bool] = False
    # What waits that it tells of in code that is hot by its role: "read", "copy", "text", "decide", "size", "solved",
    # "made", "staged", "race", "flush", as docs/reference/facts.md explains. A rule that finds other things too tells of them in preview only.
    senses: ClassVar[frozenset[str]] = frozenset()
    # What a file has to hold, beside the trigger's words, for those waits to be looked for: a regular expression.
    hears: ClassVar[str] = ""
    # What a finding is unless the settings say otherwise; `warning` where code waits, costs or isn't portable.
    severity: ClassVar[Severity] = "error"
    # On unless the user says otherwise; opt-in rules are selected by code, by name or by ALL.
    default: ClassVar[bool] = True
    # What running the bad example shows; None where it can't be shown, and the page says why.
    effect: ClassVar[Effect | None] = None
    # The kinds of event in a report of the runtime companion that show a finding happening.
    seen_as: ClassVar[tuple[str, ...]] = ()
    # Where it is on, the advice of other rules names no accelerator either, but `torch.accelerator`.
    for_any_accelerator: ClassVar[bool] = False
    # What it tells of meets other tensors where the function is called: where nothing leads there, or only code for the host, hardly anybody would act on it.
    meets_elsewhere: ClassVar[bool] = False
    # Where one function has what is told and what is minor, both are mended together: a reader sees them side by side.
    mends_minor: ClassVar[bool] = False
    # What its fixes are: "S" safe, "U" unsafe, "D" displayed for a person to apply, several of them with a "/" between, "-" none.
    fix: ClassVar[str] = "-"
    # Where its page is published; rules whose codes begin with DEV have theirs among devlint's.
    url: ClassVar[str] = ""

    def concerns(self, unit: Unit) -> bool:
        """Whether a unit may be worth a look, told from its `ast` alone: what this turns down is never parsed again."""
        return True

    def may_bring(self, model: PlacementModel) -> bool:
        """Whether a file may bring the rule's event; told before all its scopes are run."""
        return True

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        """Whether what the model says of a unit that it concerns leaves anything to judge; otherwise it isn't parsed.

        A rule that asks for values sees to it that their scope is run: `model.ensure(unit.scope)`.
        """
        return True

    def shape(self) -> m.BaseMatcherNode:
        """The LibCST matcher for the nodes to judge."""
        raise NotImplementedError

    def judge(self, node: Any, facts: Facts) -> Iterator[Report]:
        """Reports on a node that has the shape; `node` is of the shape's type."""
        raise NotImplementedError

    def like(self, node: ast.AST, model: PlacementModel) -> Iterator[ast.expr | ast.stmt]:
        """What a reader wants mended with a node that is mended, or neither of them; for rules that mend what is minor."""
        return iter(())

    def judge_stall(self, node: cst.CSTNode, stall: HotStall, facts: Facts) -> Iterator[Report]:
        """Reports on a wait of one of its senses, which stands at a node."""
        raise NotImplementedError

    @classmethod
    def loaded(cls) -> type[Rule]:
        """The rule itself; another class only where this one is an `Outline`."""
        return cls

    @classmethod
    def hears_only(cls) -> bool:
        """Whether waits in code that is hot by its role are all that it tells of."""
        return cls.shape is Rule.shape

    @classmethod
    def costs(cls) -> Literal["error", "slow", "other"]:
        """What running code with such a finding comes to: an error or a wrong result, time and memory, or neither."""
        if cls.severity == "error":
            return "error"
        return "slow" if cls.only_hot or cls.senses or (cls.effect is not None and cls.effect.syncs) else "other"

    @classmethod
    def address(cls) -> str:
        """Where its page is published; "" where that isn't known."""
        return cls.url or (rule_page(cls.code) if cls.code.startswith("DEV") else "")

    @classmethod
    def summary(cls) -> str:
        """The first line of the documentation."""
        return inspect.cleandoc(cls.__doc__ or "").split("\n", 1)[0]

    @classmethod
    def page(cls) -> str:
        """The documentation as Markdown."""
        return f"# {cls.name} ({cls.code})\n\nSeverity: {cls.severity}.\n\n{inspect.cleandoc(cls.__doc__ or '')}\n"

    @classmethod
    def example(cls, heading: str) -> str:
        """The code below a heading of the page. Raises ValueError where there is none."""
        match = re.search(rf"^## {heading}\n.*?^```python\n(.*?)^```$", cls.page(), re.MULTILINE | re.DOTALL)
        if match is None:
            raise ValueError(f"{cls.code}: no code under '{heading}'")
        return match[1]


class MetaRule(Rule):
    """A code about the run itself; the engine reports it, not a matcher."""

    trigger = NOWHERE


class UnreadableFile(MetaRule):
    """A file that can't be read or parsed.

    ## What it does
    Reports a file that doesn't exist, can't be decoded, or isn't valid Python, and an error inside a rule, which costs
    what that rule would have found there. Everything else is still linted, and the exit code is 2.

    A file that nowhere says `torch` is parsed where it is named, comes from the standard input, or stands in the change that
    `--since` or `--staged` asks about. In a folder it isn't: that would be most of a run's time.

    ## Why is this bad
    Nothing in such a file is checked.
    """

    code = "DEV000"
    name = "unreadable-file"


class UnusedSuppression(MetaRule):
    """A suppression comment that suppresses nothing.

    ## What it does
    Reports `# noqa: DEV...` and `# devlint: ignore[DEV...]` comments where no such finding is. A bare `# noqa` may be
    there for other tools and is left alone.

    ## Why is this bad
    It would hide the next bug on that line.

    ## Fix safety
    Safe: only the comment, or the one code in it, is removed.
    """

    code = "DEV001"
    name = "unused-suppression"
    severity = "warning"
    fix = "S"


class UnknownCode(MetaRule):
    """A suppression comment that names an unknown code, or is misspelt.

    ## What it does
    Reports a code in a suppression comment that no installed rule has, and a comment that was meant for a suppression and is
    none (`# devlint: disable=DEV101`, `# devlint: skip_file`, `# noqa DEV101`), and names the nearest one that exists.

    ## Why is this bad
    The comment does nothing, and whoever wrote it thinks that it does.
    """

    code = "DEV002"
    name = "unknown-code"
    severity = "warning"


class WithheldFix(MetaRule):
    """A fix that was withheld because its result failed a check.

    ## What it does
    With `--fix`, each changed file is checked and linted again. A fix whose result doesn't parse, leaves a name unbound,
    loses a comment, would need an accelerator where there may be none, still holds the finding or brings a new one is
    taken back, and reported here.

    ## Why is this bad
    The bug is still there, and needs a person.
    """

    code = "DEV003"
    name = "withheld-fix"
    severity = "warning"


class Outline(Rule):
    """Stands for a rule whose module isn't loaded yet, by what `devlint/outlines.py` knows of it."""

    _hears_only: ClassVar[bool]

    @classmethod
    def loaded(cls) -> type[Rule]:
        rule: type[Rule] = getattr(import_module(cls.__module__), cls.__name__)
        return rule

    @classmethod
    def hears_only(cls) -> bool:
        return cls._hears_only


META_RULES: tuple[type[Rule], ...] = (UnreadableFile, UnusedSuppression, UnknownCode, WithheldFix)


class Registry:
    """The rules at hand, by code. `packs` says which pack each comes from, by its code.

    What is only needed once a file is suspected of something may be left to a rule's module, which is loaded then:
    `outlines` has all that is asked before.
    """

    def __init__(
        self,
        rules: Iterable[type[Rule]],
        packs: Mapping[str, Callable[[], str]] | None = None,
        left_out: Iterable[str] = (),
    ) -> None:
        self._rules = {rule.code: rule for rule in sorted(rules, key=lambda r: r.code)}
        self._by_name = {rule.name: rule for rule in self._rules.values()}
        self._packs = dict(packs or {})
        # What of the packs can't be used, each with its reason, in a line.
        self.left_out: tuple[str, ...] = tuple(left_out)

    def rules(self) -> list[type[Rule]]:
        """All rules, each with its page and all that it does."""
        return [rule.loaded() for rule in self._rules.values()]

    def outlines(self) -> list[type[Rule]]:
        """What stands for each rule: its class attributes, but for the documentation and what running its examples shows."""
        return list(self._rules.values())

    @cached_property
    def opt_in_prefixes(self) -> frozenset[str]:
        """The beginnings of codes that no rule has which is on by default."""
        rules = self.outlines()
        taken = {rule.code[:end] for rule in rules if rule.default for end in range(1, len(rule.code) + 1)}
        return frozenset(r.code[:end] for r in rules for end in range(1, len(r.code) + 1)) - taken

    def find(self, code_or_name: str) -> type[Rule] | None:
        """A rule by its code (any case) or its name."""
        found = self.outline(code_or_name)
        return found.loaded() if found is not None else None

    def outline(self, code_or_name: str) -> type[Rule] | None:
        """What stands for such a rule."""
        return self._rules.get(code_or_name.upper()) or self._by_name.get(code_or_name.lower())

    def pack_of(self, rule: type[Rule]) -> str:
        """The pack that a rule comes from, with its version; the name of its module where no pack is known."""
        told = self._packs.get(rule.code)
        return told() if told is not None else rule.__module__


class PackError(Exception):
    """A rule pack that can't be used; the text is one line that names the pack, what is wrong, and what to do."""


@cache
def load_registry() -> Registry:
    """The meta codes and the rules of every pack that is installed under the entry-point group `devlint.rules`.

    What can't be used of them is left out, and told by `left_out`: somebody may be writing that rule just now.
    """
    found: dict[str, type[Rule]] = {rule.code: rule for rule in META_RULES}
    packs: dict[str, Callable[[], str]] = dict.fromkeys(found, lambda: "devlint itself")
    names = {rule.name: rule.code for rule in META_RULES}
    left_out: list[str] = []
    # The same order on each machine.
    for entry in sorted(entry_points(ENTRY_POINTS), key=lambda e: (e.name != "devlint", e.name, e.value)):
        # Who asks for its name waits for its description to be read.
        pack = partial(_pack_name, entry)
        try:
            rules = list(_offered_by(entry.load()))
        except Exception as error:
            said = f"{type(error).__name__}: {error}".split("\n", 1)[0]
            left_out.append(f"{pack()} can't be loaded: {said}; mend or uninstall it")
            continue
        for rule in rules:
            # What is wrong with our own rules is found by the tests.
            fault = next(_faults(rule), None) if entry.value != _OWN_PACK else None
            if fault is not None:
                left_out.append(f"{pack()}: {rule.__module__}.{rule.__name__}: {fault}; mend or uninstall it")
                continue
            taken = next(filter(None, (rule.code if rule.code in found else "", names.get(rule.name, ""))), "")
            if taken and found[taken] is not rule:
                left_out.append(
                    f"{pack()}: {rule.__module__}.{rule.__name__} ({rule.code}, {rule.name}) takes the code or name of "
                    f"{found[taken].code} ({found[taken].name}) of {packs[taken]()}; rename it, or uninstall one of them"
                )
                continue
            found[rule.code], packs[rule.code], names[rule.name] = rule, pack, rule.code
    return Registry(found.values(), packs, left_out)


def _pack_name(entry: EntryPoint) -> str:
    """`the rule pack mypack 1.2`, by the distribution that it was installed with."""
    distribution = entry.distribution()
    return f"the rule pack {distribution.name} {distribution.version}"


def rules_in(pack: ModuleType) -> Iterator[type[Rule]]:
    """The rules that a pack defines, in whichever of its modules; raises PackError for one that can't be used."""
    for rule in _defined_in(pack):
        for fault in _faults(rule):
            raise PackError(f"{rule.__module__}.{rule.__name__}: {fault}")
        yield rule


def _offered_by(pack: ModuleType) -> Iterable[type[Rule]]:
    """The rules of a pack, or what stands for them."""
    told = outlines_of(pack) if pack.__name__ == _OWN_PACK else None
    if told is None:
        return _defined_in(pack)
    return [type(each["__qualname__"], (Outline,), each) for each in told]


def _defined_in(pack: ModuleType) -> Iterator[type[Rule]]:
    import pkgutil

    modules = [pack]
    for info in pkgutil.walk_packages(getattr(pack, "__path__", ()), f"{pack.__name__}."):
        modules.append(import_module(info.name))
    for module in modules:
        for value in vars(module).values():
            if (
                inspect.isclass(value)
                and issubclass(value, Rule)
                and value.__module__ == module.__name__
                and ("code" in vars(value) or _is_meant(value))
            ):
                yield value


def _is_meant(value: type[Rule]) -> bool:
    """Whether a class without a code is a rule all the same, whose code was forgotten: it judges, and is nobody's base."""
    return not hasattr(value, "code") and "judge" in vars(value) and not value.__subclasses__()


def _faults(rule: type[Rule]) -> Iterator[str]:
    """What a rule lacks, or has wrong, that would show only when it is used."""
    for needed in ("code", "name", "trigger"):
        if not hasattr(rule, needed):
            yield f"it has no `{needed}`"
    if not isinstance(rule.code, str) or not re.fullmatch(CODE, rule.code):
        yield f"code {rule.code!r} isn't letters and three or four digits"
    name = rule.name
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        yield f"name {name!r} isn't words in lower case with hyphens between"
    # With -OO, nothing has any documentation.
    for section in _SECTIONS if sys.flags.optimize < 2 else ():
        if f"\n    {section}\n" not in (rule.__doc__ or "") and f"\n{section}\n" not in (rule.__doc__ or ""):
            yield f"its docstring has no section '{section}'"
    if rule.severity not in get_args(Severity):
        yield f"severity {rule.severity!r} isn't one of {', '.join(get_args(Severity))}"
    if rule.fix not in _FIXES:
        yield f"fix {rule.fix!r} isn't one of {', '.join(_FIXES)}"
    if rule.event not in _EVENTS:
        yield f"event {rule.event!r} isn't one of {', '.join(filter(None, _EVENTS))}"
    patterns: list[tuple[str, Any]] = [("trigger", getattr(rule, "trigger", None)), ("alias", rule.alias)]
    for field, pattern in (*patterns, *(("needs", need) for need in rule.needs)):
        try:
            re.compile(pattern)
            pattern.encode("ascii")
        except (re.error, TypeError, AttributeError, UnicodeEncodeError, RecursionError) as error:
            yield f"{field} {pattern!r} isn't a regular expression of ASCII characters: {error}"
    for method in ("judge_stall",) if rule.senses and rule.hears_only() else ("shape", "judge"):
        if getattr(rule, method) is getattr(Rule, method):
            yield f"it has no `{method}`"


_SECTIONS = ("## What it does", "## Why is this bad")
_FIXES = ("S", "U", "D", "S/U", "S/D", "U/D", "S/U/D", "-")
_EVENTS = ("", "missing-attribute", "pinned-device", "mixing", "unplaced-factory")
