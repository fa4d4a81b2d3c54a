"""One source to its findings: screen, model, rules, suppressions."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from devlint.causes import merged
from devlint.files import Source
from devlint.findings import INTERNAL_ERROR, Cost, Finding, Fix, Note, Span, Untold
from devlint.regexes import regex
from devlint.rule import Registry, Rule, UnknownCode, UnreadableFile, UnusedSuppression
from devlint.screen import Screen, lets_through, lines_of_names, pattern_of, trigger_lines
from devlint.settings import Settings
from devlint.source.looks import Looks
from devlint.source.widths import keeps, longest, shown_width
from devlint.suppressions import read_suppressions

if TYPE_CHECKING:
    from devlint.facts import Facts, Surroundings
    from devlint.pieces import Piece
    from devlint.placement.model import PlacementModel
    from devlint.placement.waiting import HotStall
    from devlint.rule import Report
    from devlint.source.filesystem import FileSystem
    from devlint.source.modules import FunctionModel, SourceModule
    from devlint.source.project import Project
    from devlint.source.units import Unit
    from devlint.textmap import TextMap


# Events of what may have been made in a module that the file imports.
FOLLOWING_IMPORTS = ("missing-attribute", "pinned-device")
# Events of what the files that import this one may hand to it.
FOLLOWING_CALLERS = ("mixing", "missing-attribute")
# Events of tensors that meet others elsewhere.
ABOUT_MIXING = ("mixing", "unplaced-factory")
# What is told of suppressions themselves.
_OF_SUPPRESSIONS = frozenset({UnusedSuppression.code, UnknownCode.code})
# A LibCST tree takes 6 kB for each item of a list: a statement with more commas than these is a table, and no rule's matter.
_MAX_COMMAS = 20_000
# So long a line everybody bears who hasn't said otherwise.
_LONG_ENOUGH = 100


class Withheld(NamedTuple):
    """A finding that isn't told: the options that would have it told, and why they are needed."""

    finding: Finding
    options: str
    why: str


class Linter:
    """Lints sources under one set of settings; what it reads of the project it keeps for the next source."""

    # Whether what is understood of a source serves the files that import it, once it was linted.
    shares = True
    # Where somebody asks what isn't told: those findings, each with the options that would have it told.
    withheld: list[Withheld] | None = None
    # How much wasn't told of the source that was linted last.
    untold = Untold()
    # Whether all of that was valid Python.
    is_python = True

    def __init__(
        self, settings: Settings, registry: Registry, files: FileSystem | None = None, looks: Looks | None = None
    ) -> None:
        self.settings = settings
        self._files = files
        self.registry = registry
        self.looks = looks if looks is not None else Looks()
        self._project: Project | None = None
        self._screens: dict[Path, Screen] = {}
        self._words = {
            r.code: (settings.severity_of(r), settings.fixes(r), settings.safety_of(r)) for r in registry.outlines()
        }

    def check(self, source: Source, within: range | None = None) -> list[Finding]:
        """The findings of a source after selection, suppressions and confidence, each cause once, in reading order.

        A source that isn't valid Python has one finding, DEV000. `within` asks for a first look, at some of its lines:
        what the program does when it is run is left aside, and what is found there is right in most cases.
        """
        return merged(self.every_finding(source, within), source.text)

    def every_finding(self, source: Source, within: range | None = None) -> list[Finding]:
        """The same, but for causes: those that another finding speaks for are among them."""
        path = source.path or self.settings.root / source.display
        enabled = self.settings.codes_for(path, self.registry)
        self.untold, self.is_python = Untold(), True
        spoken = "" if self.settings.ignore_noqa else source.text
        suppressions = read_suppressions(spoken, self.settings.extra_suppressions)
        if suppressions.skip_file:
            return []
        rules = [rule for rule in self.registry.outlines() if rule.code in enabled]
        try:
            found = [f for f in self._findings(source, path, rules, within) if f.code in enabled]
        except _InvalidSourceError as error:
            told = _with_version(error.finding, self.settings.target_version)
            rest = source.without_part(told.span.line)
            # The other cells of a notebook are looked at as if the one that is half written were empty.
            others = self.every_finding(rest, within) if rest is not None else []
            self.is_python = False
            return [told] * (UnreadableFile.code in enabled) + [replace(finding, fix=None) for finding in others]
        suppressed = len(found)
        found = suppressions.apply(found, path=source.display, enabled=enabled, registry=self.registry)
        suppressed -= sum(1 for f in found if f.code not in _OF_SUPPRESSIONS)
        if within is not None:
            found = [f for f in found if f.span.line in within]
        likely = len(found)
        if self.settings.confidence == "certain":
            found = [f for f in found if f.confidence == "certain"]
        self.untold |= Untold(suppressed=suppressed, likely=likely - len(found))
        return sorted((_as_editable(self.as_set(f), source) for f in found), key=lambda f: f.sort_key)

    def as_set(self, finding: Finding) -> Finding:
        """A finding with what the settings say of its rule: its severity, whether it may be fixed, and how safely."""
        severity, fixed, safety = self._words[finding.code]
        fix = finding.fix if fixed else None
        if fix is not None and safety is not None:
            fix = replace(fix, safety=safety)
        return replace(finding, severity=severity, fix=fix)

    def project(self) -> Project:
        """The project that imports are followed in."""
        if self._project is None:
            self._project = self.new_project()
        return self._project

    @property
    def kept_bytes(self) -> int:
        """How much is kept of what was read of the project."""
        return self._project.kept_bytes if self._project is not None else 0

    def make_room(self) -> None:
        """Lets go of what was read of the project, which may be asked for again."""
        if self._project is not None:
            self._project.make_room()

    def told_width(self, source: Source) -> int | None:
        """How long lines of a source may get, as its project tells its formatter or linter.

        None where it tells none, or the source keeps to nothing of the kind.
        """
        told = self.project().width(source.path or self.settings.root / source.display, self.settings.root)
        return told if told is not None and keeps(source.text, told) else None

    def width_of(self, source: Source) -> int:
        """How long lines of a source may get: what its project tells, else what it keeps itself."""
        told = self.told_width(source)
        return told if told is not None else shown_width(source.text)

    def form_of(self, source: Source) -> str:
        """How lines of a source are broken where its project tells yapf, and the source keeps to that, or by its own habit; "" else."""
        if self.told_width(source) is None:
            from devlint.layout import habit_of

            return habit_of(source.text)
        return self.project().form(source.path or self.settings.root / source.display, self.settings.root)

    def new_project(self) -> Project:
        """A project of which nothing was read so far."""
        from devlint.source.project import Project

        return Project(self.settings.src, self.looks, self._files)

    def _findings(self, source: Source, path: Path, rules: list[type[Rule]], within: range | None) -> Iterator[Finding]:
        # Files without a trigger aren't modelled, and those that aren't about torch aren't even parsed unless they are named:
        # that is most of a clean run's time, and other tools tell of syntax.
        spelt = self.settings.hints.spelt_out(source.text)
        screen = self.screen_of("\n".join([source.text, *spelt.values()]), path, within)
        triggered = {rule: frozenset[str]() for rule in rules if lets_through(rule, [screen])}
        for rule in rules:
            if (
                rule.event in FOLLOWING_IMPORTS
                and rule not in triggered
                and (names := self._imported(source, path, rule))
            ):
                triggered[rule] = names
        triggered |= {rule: frozenset() for rule in self._by_callers(screen, path, set(rules) - triggered.keys())}
        hearing = [rule for rule in rules if self._hears(rule, screen)]
        triggered = {rule: names for rule, names in triggered.items() if not rule.hears_only()}
        if not (triggered or hearing):
            if screen.is_about_torch or source.is_named:
                # Nothing to look at, if it is Python at all.
                _parse(source)
            else:
                self.untold = Untold(passed=1)
        if triggered or hearing:
            if within is None:
                self.project().forget_if_full()
            portable = any(rule.for_any_accelerator for rule in rules)
            module = self._module(source, path, within)
            inspection = Inspection(
                self, source, path, module, triggered, spelt, hearing=hearing, portable=portable, within=within
            )
            try:
                yield from inspection.findings()
                self.untold = Untold(tuple(Counter(code for code, _ in inspection.minor).items()))
            finally:
                self.leave(inspection)

    def _module(self, source: Source, path: Path, within: range | None) -> SourceModule:
        """The module of a source: the one that others import, where it is the whole of what the disk has."""
        project = self.project()
        shares = self.shares and within is None and source.notebook is None and project.has_text(path, source.digest)
        known = project.shared(path, source.text) if shares else None
        if known is not None:
            return known
        tree = _parse(source)
        if within is not None:
            from devlint.source.slices import leave_out
            from devlint.source.trees import without_runs

            tree = without_runs(tree, within)
            leave_out(tree, source.text, within)
        module = project.module(path, source.text, tree)
        if shares:
            project.share(path, module)
        return module

    def screen_of(self, text: str, path: Path, within: range | None) -> Screen:
        """The screen of a text that is linted."""
        return Screen(text.encode("utf-8", "surrogatepass"))

    def pause(self) -> None:
        """Called between two pieces of work; an error other than an Exception that it raises ends the whole."""

    def leave(self, inspection: Inspection) -> None:
        """Does what is to be done once a source was inspected: lets go of it."""
        inspection.close()
        self.project().passed(inspection.path, inspection.source.text)

    def _hears(self, rule: type[Rule], screen: Screen) -> bool:
        """Whether a file may hold waits in code that is hot by its role that a rule tells of."""
        told = self.settings.previews or rule.hears_only() or self.withheld is not None
        wanted = bool(rule.senses) and told
        return wanted and screen.is_about_torch and screen.holds(rule.trigger)

    def _imported(self, source: Source, path: Path, rule: type[Rule]) -> frozenset[str]:
        """Names that the source imports from modules that bear the trigger of an event rule."""
        return frozenset(self.project().names_from(path, source.text, pattern_of(rule)))

    def _by_callers(self, screen: Screen, path: Path, rules: set[type[Rule]]) -> list[type[Rule]]:
        """The rules that a file is suspected of together with those that import it: they may call it in a loop, mix, or hand over wrappers."""
        open_to = [
            rule for rule in rules if rule.event in FOLLOWING_CALLERS or (rule.only_hot and screen.holds(rule.trigger))
        ]
        if not open_to:
            return []
        importers = self.project().importers_of(path)
        screens = [screen, *(self._screen_of(importer, path) for importer in importers)]
        return [rule for rule in open_to if lets_through(rule, screens)]

    def _screen_of(self, importer: Path, asking: Path) -> Screen:
        """The screen of a file that others ask about, kept for them."""
        project = self.project()
        if importer not in self._screens:
            self._screens[importer] = Screen(project.read_quietly(importer, asking))
        project.note_text(importer, asking)
        return self._screens[importer]


def _as_editable(finding: Finding, source: Source) -> Finding:
    """A finding without a fix that can't be put back into the cells or blocks that the source was taken out of."""
    container = source.notebook
    if container is None or finding.fix is None or all(container.can_edit(edit.span) for edit in finding.fix.edits):
        return finding
    return replace(finding, fix=None)


# Syntax of Python 3.12: `type X = int`, `def f[T](x: T)`, `class A[T]`.
_NEWER = regex(r"type\s+\w+\s*[=\[]|(?:(?:async\s+)?def|class)\s+\w+\s*\[")

# Words of comments that switch findings off.
_MAY_SWITCH_OFF = regex(r"#[^#\n]{0,400}\b(?:noqa|devlint)\b")

# What only Python 2 reads: `print "done"`.
_PYTHON_2 = r"(?m)^[ \t]{0,40}print[ \t]{1,9}['\"]"


class _InvalidSourceError(Exception):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def _why_minor(rule: Rule, report: Report, facts: Facts, project: Project, stall: HotStall | None = None) -> str:
    """Why hardly anybody would act on a report, of a `stall` that it is about, in words; "" where somebody may.

    So it is with what is likely to mix in a function that nobody uses, or only code for the host, with what costs in a loop that trains nothing, or in
    a program that measures or tests, with a wait at the end of a step for which there is no fix, and with what a warning
    says of code that somebody else keeps, that nobody uses or goes on with, or by which a module of a package tests itself.
    """
    from devlint.signatures.answers.hot import is_unused
    from devlint.signatures.answers.roles import (
        is_aside,
        is_generated,
        is_of_others,
        is_of_tool,
        is_retired,
        is_said_to_be_copied,
    )

    if report.minor or (stall is not None and stall.minor):
        return "few act on it"
    if facts.model.never_runs(facts.statement):
        return "it never runs"
    fails_elsewhere = rule.effect is not None and rule.effect.without_accelerator
    costs = rule.severity == "warning" or fails_elsewhere
    is_mixing = rule.event in ABOUT_MIXING and report.confidence == "likely"
    source = facts.model.source
    if is_generated(source):
        return "the file is generated, and what it is made of is to be mended"
    if (rule.severity == "warning" and (is_of_others(source.path) or is_said_to_be_copied(source))) or (
        (costs or is_mixing) and project.is_copied_in(Path(source.path))
    ):
        return "somebody else keeps this code"
    if costs and is_retired(facts.path):
        return "nobody goes on with what a folder of that name holds"
    if report.confidence == "likely" and project.uses(_PYTHON_2, Path(facts.model.source.path)):
        return "the project is written for Python 2, and releases of PyTorch that do otherwise"
    scope = facts.scope
    if scope is not None and (is_mixing or rule.severity == "warning") and is_unused(project, scope):
        return f"nothing in the project leads to `{scope.name}`"
    if is_mixing and scope is not None:
        by_host = facts.model.is_called_by_host(scope, facts.node(report.node))
        return f"code for the host calls `{scope.name}`" if by_host else ""
    if rule.severity == "warning" and _tests_itself(report, facts, project):
        return "so a module of a package tries itself"
    by_role = stall is not None and stall.by_role
    hot = facts.hot_loop(report.node) if rule.only_training and not by_role else None
    if hot is None:
        return ""
    if hot.is_minor or is_of_tool(facts.model.source.path) or is_aside(facts.model.source.path):
        costs_little = rule.only_amid_step or report.change is None
        return "nothing is trained here, or it is tried or measured" if costs_little else ""
    ends = stall is None and rule.only_amid_step and report.change is None and facts.ends_step(report.node)
    return "it stands at the end of a step, and there is no fix" if ends else ""


def _tests_itself(report: Report, facts: Facts, project: Project) -> bool:
    """Whether a report is about what a module runs if it is a program, and it is one that others of its package import."""
    path = Path(facts.model.source.path)
    node = facts.node(report.node)
    around = facts.model.ancestors(node) if node is not None else ()
    return (
        any(isinstance(p, ast.If) and ast.unparse(p.test).startswith("__name__") for p in around)
        and "." in project.name_of(path)[1]
        and bool(project.importers_of(path))
    )


def _parse(source: Source) -> ast.Module:
    from devlint.source.project import parse

    try:
        return parse(source.text)
    except SyntaxError as error:
        line, column = error.lineno or 1, max(error.offset or 1, 1)
        newer = sys.version_info < (3, 12) and _NEWER.match((error.text or "").lstrip())
        hint = f"devlint runs on Python {'.'.join(map(str, sys.version_info[:2]))}; for newer syntax run it with that Python"
        message = f"isn't valid Python: {error.msg}{f' ({hint})' if newer else ''}"
    except ValueError as error:
        line, column, message = 1, 1, f"isn't valid Python: {error}"
    except (RecursionError, MemoryError):
        line, column, message = 1, 1, "is nested too deeply for Python's parser"
    raise _InvalidSourceError(
        Finding(UnreadableFile.code, UnreadableFile.name, message, source.display, Span(line, column, line, column))
    )


def _with_version(finding: Finding, target: tuple[int, int] | None) -> Finding:
    """A finding that a text isn't Python, with what is to be said where it is written for a newer one than devlint runs on."""
    if target is None or target <= sys.version_info[:2]:
        return finding
    ours, theirs = (".".join(map(str, version)) for version in (sys.version_info[:2], target))
    why = f"isn't valid Python {ours}, on which devlint runs, while the code is for {theirs} (target-version); run devlint with that"
    return replace(finding, message=finding.message.replace("isn't valid Python", why, 1))


def _surroundings(settings: Settings, path: Path, *, portable: bool) -> Surroundings:
    """What the settings say of one file; `portable` says that rules are on that ask for code for any accelerator."""
    from devlint.facts import Surroundings

    about_cuda = settings.portable.is_cuda_only(settings.root, path)
    return Surroundings(settings.torch_version, settings.portable, about_cuda, portable)


class Inspection:
    """One file under the rules whose triggers it bears."""

    def __init__(
        self,
        linter: Linter,
        source: Source,
        path: Path,
        module: SourceModule,
        rules: dict[type[Rule], frozenset[str]],
        spelt: dict[str, str],
        *,
        hearing: Iterable[type[Rule]],
        portable: bool,
        within: range | None = None,
    ) -> None:
        from devlint.textmap import TextMap

        self._registry = linter.registry
        self._display = source.display
        # What was inspected.
        self.source = source
        self.path = path
        # The rules, in their order, each with the imported names that it is about where the file itself bears no trigger.
        self._rules = {rule.loaded(): rules[rule] for rule in sorted(rules, key=lambda rule: rule.code)}
        # The rules that tell of waits in code that is hot by its role.
        self._hearing = [rule.loaded() for rule in hearing]
        # Those that are selected by their code: what is minor is told as well.
        self._named = {rule for rule in (*self._rules, *self._hearing) if linter.settings.names(rule)}
        self._previews, self._withheld = linter.settings.previews, linter.withheld
        # Names that the settings explain, and what they stand for.
        self._spelt = spelt
        self._surroundings = _surroundings(linter.settings, path, portable=portable)
        self._text: TextMap = TextMap(source.text)
        self.within = within
        self._pause = linter.pause
        self._width = cache(partial(linter.width_of, source))
        self._told_width = partial(linter.told_width, source)
        self._form = partial(linter.form_of, source)
        self._project, self._hints = linter.project(), linter.settings.hints
        self._module = module
        self._pieces: dict[Unit, Piece | None] = {}
        # What is told only where its rule is selected by its code: the code, and where it stands.
        self.minor: set[tuple[str, Span]] = set()
        # Of those, what is mended along with what is told in the same function.
        self._beside: list[tuple[FunctionModel | None, Finding]] = []
        # What is mended along with what is told and like it, and the nodes of all that a rule would mend.
        self._asides: list[Callable[[], Finding]] = []
        self._mended: dict[Span, ast.expr | ast.stmt] = {}
        # The functions in which something that would be mended can't be laid out: there nothing is.
        self._unlaid: set[FunctionModel | None] = set()

    @cached_property
    def model(self) -> PlacementModel:
        """The model of the file, for what the cheap questions leave over."""
        from devlint.placement.model import PlacementModel

        return PlacementModel(self._module, self._project, self._hints, within=self.within, pause=self._pause)

    @cached_property
    def _is_for_old_releases(self) -> bool:
        """Whether a project is written for releases of PyTorch before 0.4, unless the settings name the oldest one."""
        if self._surroundings.oldest_torch is not None:
            return False
        from devlint.knowledge.releases import BEFORE_0_4, SAYS_BEFORE_0_4

        if re.search(BEFORE_0_4, self._text.text) is not None or self._project.uses(BEFORE_0_4, self.path):
            return True
        return any(re.search(SAYS_BEFORE_0_4, paper) is not None for paper in self._project.papers(self.path))

    def findings(self) -> Iterator[Finding]:
        """What each rule finds; an error in one of them costs what that one would have found, and is told."""
        broken: dict[tuple[str, str], list[str]] = {}
        told: set[tuple[str, Span]] = set()
        said: set[tuple[str, Span, str]] = set()
        works = [(rule, partial(self._found_by, rule, names)) for rule, names in self._rules.items()]
        works += [(rule, partial(self._heard_by, rule)) for rule in self._hearing]
        for rule, work in works:
            try:
                for finding in work():
                    # What stands in a hot loop isn't told once more by the role of its function.
                    heard_twice = rule in self._hearing and (finding.code, finding.span) in told
                    # Several pieces may have one cause, which stands elsewhere.
                    if not heard_twice and (finding.code, finding.span, finding.message) not in said:
                        told.add((finding.code, finding.span))
                        said.add((finding.code, finding.span, finding.message))
                        yield finding
            except Exception as error:
                if os.environ.get("DEVLINT_DEBUG"):
                    raise
                problem = f"{type(error).__name__}: {error}".split("\n", 1)[0]
                broken.setdefault((self._registry.pack_of(rule), problem), []).append(rule.code)
        yield from (self._broken(codes, pack, problem) for (pack, problem), codes in broken.items())

    def _broken(self, codes: list[str], pack: str, said: str) -> Finding:
        """What is told of rules that met one error: most often, one that they share."""
        message = (
            f"{INTERNAL_ERROR} in {', '.join(codes)} of {pack}, please report it: {said}; "
            "the other rules were run; DEVLINT_DEBUG=1 --jobs 1 shows where"
        )
        return Finding(UnreadableFile.code, UnreadableFile.name, message, self._display, Span(1, 1, 1, 1))

    def _found_by(self, rule: type[Rule], names: frozenset[str]) -> Iterator[Finding]:
        from devlint.source.units import units_at

        judge = rule()
        if rule.event:
            if not judge.may_bring(self.model):
                return
            if rule.event in FOLLOWING_IMPORTS:
                self._model_events(names)
            lines = sorted({node.lineno for node in self.model.events(rule.event)})
        else:
            lines = trigger_lines(self._text.text, rule, self._text.starts, self._spelt, self.within)
        if self.within is not None:
            lines = [line for line in lines if line in self.within]
        told: list[tuple[FunctionModel | None, Finding]] = []
        # A rule that met an error may have left something.
        self._beside, self._unlaid, self._asides, self._mended = [], set(), [], {}
        for unit in units_at(self._module, lines):
            self._pause()
            # The cheap questions first: what they leave over is modelled, and what that leaves over parsed by LibCST.
            if (
                isinstance(unit.statement, rule.statement)
                and judge.concerns(unit)
                and not (rule.only_hot and not self.model.may_be_hot(unit))
                and judge.may_hold(unit, self.model)
            ):
                found = self._judge(judge, unit)
                if rule.mends_minor:
                    told += ((unit.scope, finding) for finding in found)
                else:
                    yield from found
        yield from self._with_minor(self._undivided(judge, told))

    def _undivided(
        self, rule: Rule, told: list[tuple[FunctionModel | None, Finding]]
    ) -> list[tuple[FunctionModel | None, Finding]]:
        """What a rule tells, each fix with the edits of what is like it, or without any: a reader wants all mended, or none."""
        if not any(finding.fix is not None for _, finding in told):
            return told
        asides = {finding.span: finding for finding in (made() for made in self._asides)}
        open_to = asides | {finding.span: finding for _, finding in (*self._beside, *told)}
        fixes = {span: finding.fix for span, finding in open_to.items() if finding.fix is not None}
        like = {
            span: [self._text.span_of(n) for n in rule.like(node, self.model)]
            for span, node in self._mended.items()
            if span in fixes
        }
        while left := [s for s in fixes if not all(_is_mended(other, fixes) for other in like.get(s, ()))]:
            for span in left:
                del fixes[span]
        done = {finding.span for _, finding in told}
        found = []
        for scope, finding in told:
            fix = fixes.get(finding.span)
            if fix is not None:
                along = [s for s in like.get(finding.span, ()) if s in fixes and s not in done]
                done.update(along)
                fix = self._joined(fix, (open_to[span] for span in along))
            found.append((scope, replace(finding, fix=fix)))
        self._beside = [(s, f) for s, f in self._beside if f.span in fixes and f.span not in done]
        return found

    def _with_minor(self, told: list[tuple[FunctionModel | None, Finding]]) -> Iterator[Finding]:
        """What a rule tells, the first fix in a function with the edits of what is minor there."""
        mended: set[FunctionModel | None] = set()
        for scope, finding in told:
            if scope in self._unlaid:
                finding = replace(finding, fix=None)
            elif finding.fix is not None and scope not in mended:
                mended.add(scope)
                finding = replace(finding, fix=self._joined(finding.fix, (f for s, f in self._beside if s is scope)))
            yield finding

    def _joined(self, fix: Fix, others: Iterable[Finding]) -> Fix:
        """A fix with the edits of others that are no less safe, and stand on lines of their own."""
        for other in others:
            lines = {edit.span.line for edit in fix.edits}
            switched_off = _MAY_SWITCH_OFF.search(self._text.line(other.span.line)) is not None
            if other.fix is None or switched_off or not other.fix.goes_with(fix.safety):
                continue
            if not any(edit.span.line in lines for edit in other.fix.edits if edit.span.line == other.span.line):
                fix = replace(fix, edits=tuple(sorted((*fix.edits, *other.fix.edits), key=lambda edit: edit.span)))
        return fix

    def _heard_by(self, rule: type[Rule]) -> Iterator[Finding]:
        """What a rule tells of waits in code that is hot by its role."""
        from devlint.facts import Facts
        from devlint.source.units import units_at

        judge = rule()
        for stall in self.model.stalls:
            if stall.sense not in rule.senses or (self.within is not None and stall.node.lineno not in self.within):
                continue
            if self._withheld is None and self._is_held_back(stall, rule):
                continue
            for unit in units_at(self._module, [stall.node.lineno]):
                piece = self._piece(unit)
                node = piece.node_at(stall.node, self._text) if piece is not None else None
                if piece is not None and node is not None:
                    facts = Facts(self.model, piece, self._text, self._display, self._surroundings)
                    for report in judge.judge_stall(node, stall, facts):
                        yield from self._told_of(stall, judge, report, piece, facts)
                    break

    def _is_held_back(self, stall: HotStall, rule: type[Rule]) -> bool:
        """Whether options would have to be given for a wait to be told, whatever is reported on it."""
        if not (self._previews or rule.hears_only()):
            return True
        if stall.minor and rule not in self._named:
            self.minor.add((rule.code, self._text.span_of(stall.node)))
            return True
        return False

    def _told_of(self, stall: HotStall, rule: Rule, report: Report, piece: Piece, facts: Facts) -> Iterator[Finding]:
        """What a rule reports on a wait, unless options would have to be given."""
        in_preview = not (self._previews or rule.hears_only())
        options = ["--preview"] if in_preview else []
        why = "waits in code that is hot by its role are in preview" if in_preview else ""
        if type(rule) not in self._named and (few := _why_minor(rule, report, facts, self._project, stall)):
            if not in_preview:
                self.minor.add((rule.code, self._text.span_of(stall.node)))
            options.append(f"--extend-select {rule.code}")
            why = why or few
        if not options or self._withheld is not None:
            found = self._finding(rule, report, piece, facts)
            yield from self._told(replace(found, cost=Cost(rule.costs(), stall.loops)), options, why)

    def _model_events(self, names: frozenset[str]) -> None:
        """Models what may bring events: every scope, or those that use the given names."""
        from devlint.source.units import units_at

        if not names:
            self.model.ensure_all()
            return
        lines = lines_of_names(self._text.text, names, self._text.starts)
        # A first look asks about its own lines alone.
        asked = [line for line in lines if self.within is None or line in self.within]
        for unit in units_at(self._module, asked):
            self.model.ensure(unit.scope)

    def release(self) -> None:
        """Lets go of what only its own work needed."""
        self._pieces.clear()

    def close(self) -> None:
        """Lets go of everything."""
        self.release()
        if "model" in vars(self):
            self.model.close()
        if self._project.is_shared(self._module):
            self._module.rest()
        else:
            self._module.close()

    def _piece(self, unit: Unit) -> Piece | None:
        """The unit parsed by LibCST, once for all rules; None for tables, and where LibCST can't (newer syntax than it knows)."""
        if unit not in self._pieces and self._text.slice(self._text.span_of(unit.node)).count(",") > _MAX_COMMAS:
            self._pieces[unit] = None
        if unit not in self._pieces:
            from libcst import ParserSyntaxError

            from devlint.pieces import Piece

            try:
                self._pieces[unit] = Piece(unit, self._text)
            except (ParserSyntaxError, RecursionError):
                # A text of a thousand parts is as many nodes deep for LibCST, which walks them one in the other.
                self._pieces[unit] = None
        return self._pieces[unit]

    def _judge(self, rule: Rule, unit: Unit) -> Iterator[Finding]:
        from devlint.facts import Facts
        from devlint.matching import among

        piece = self._piece(unit)
        if piece is None:
            return
        matches = among(piece.nodes, rule.shape(), piece.module)
        if matches:
            self.model.ensure(unit.scope)
        facts = Facts(self.model, piece, self._text, self._display, self._surroundings)
        for node in matches:
            for report in rule.judge(node, facts):
                mended = piece.ast_of(report.node) if rule.mends_minor and report.change is not None else None
                if mended is not None:
                    self._mended[piece.span_of(report.node)] = mended
                if report.aside:
                    self._asides.append(partial(self._finding, rule, report, piece, facts))
                    continue
                why = _why_minor(rule, report, facts, self._project) if type(rule) not in self._named else ""
                if why:
                    self.minor.add((rule.code, piece.span_of(report.node)))
                is_mended = rule.mends_minor and report.change is not None
                if why and not is_mended and self._withheld is None:
                    continue
                finding = self._finding(rule, report, piece, facts)
                if is_mended and finding.fix is None:
                    self._unlaid.add(unit.scope)
                elif is_mended and why:
                    self._beside.append((unit.scope, finding))
                yield from self._told(finding, [f"--extend-select {rule.code}"] if why else [], why)

    def _told(self, finding: Finding, options: list[str], why: str) -> Iterator[Finding]:
        """A finding, unless options would have to be given: then it is kept for who asks for those."""
        if not options:
            yield finding
        elif self._withheld is not None:
            self._withheld.append(Withheld(finding, " ".join(options), why))

    def _finding(self, rule: Rule, report: Report, piece: Piece, facts: Facts) -> Finding:
        return Finding(
            rule.code,
            rule.name,
            report.message,
            self._display,
            piece.span_of(report.node) if report.at is None else self._text.span_of(report.at),
            report.confidence,
            tuple(self._shown(note) for note in report.notes),
            report.hint,
            self._fix(report, piece, facts),
            cost=self._cost(rule, report, piece),
        )

    def _cost(self, rule: Rule, report: Report, piece: Piece) -> Cost:
        effect = rule.costs()
        node = piece.ast_of(report.node) or piece.unit.node
        return Cost(effect, self.model.loops_to(node) if effect == "slow" else 0)

    def _shown(self, note: Note) -> Note:
        """A note with its path as the user would write it."""
        if note.path == str(self.path):
            return Note(note.message, self._display, note.line, note.column)
        shown = Path(note.path)
        if shown.is_relative_to(Path.cwd()):
            shown = shown.relative_to(Path.cwd())
        return Note(note.message, shown.as_posix(), note.line, note.column)

    def _fix(self, report: Report, piece: Piece, facts: Facts) -> Fix | None:
        from devlint.findings import Edit
        from devlint.knowledge.releases import SINCE_0_4
        from devlint.layout import (
            aligned,
            gets_too_long,
            in_quotes_of,
            is_broken_aside,
            is_put_in_brackets,
            kept_within,
            was_long_before,
        )
        from devlint.signatures.answers.roles import is_generated
        from devlint.textmap import minimal_edit

        change = None if is_generated(facts.model.source) else report.change
        if change is None or self.model.imports_in_vain:
            return None
        edits = list(change.edits)
        if change.replacements:
            start, end, code = minimal_edit(piece.code, piece.rendered(change.replacements))
            base = self._text.offset(piece.span.line, piece.span.column)
            edits.append(Edit(Span(*self._text.position(base + start), *self._text.position(base + end)), code))
        if any(re.search(SINCE_0_4, edit.text) for edit in edits) and self._is_for_old_releases:
            # It would run on none of the releases that the project is for.
            return None
        # The same in all that a function gets: its own lines say it, or the file.
        near = [self._text.slice(self._text.span_of(facts.scope.node))] if facts.scope is not None else []
        edits = [
            replace(e, text=in_quotes_of(self._text.text, e.text, [self._text.around(e.span, 0), *near])) for e in edits
        ]
        fix = aligned(Fix(change.title, change.safety, tuple(sorted(edits)), change.imports), self._text)
        laid_out = kept_within(fix, self._text, self._width, facts.step, self._form)
        if self._told_width() is not None:
            return laid_out
        if was_long_before(self._text, fix.edits):
            return fix
        # Where nobody says how long a line may be, one that can't be broken may be as long as others are, or as most allow.
        if laid_out is None or is_broken_aside(self._text, fix, laid_out):
            instead = None
        elif is_put_in_brackets(self._text, laid_out):
            instead = laid_out
        else:
            return laid_out
        most = max(self._width(), longest(self._text.text), _LONG_ENOUGH)
        return instead if gets_too_long(self._text, fix.edits, lambda: most) else fix


def _is_mended(span: Span, fixes: Mapping[Span, Fix]) -> bool:
    """Whether one of several fixes, each by the place of its finding, is that of a place, or changes something there."""
    start, end = (span.line, span.column), (span.end_line, span.end_column)
    return span in fixes or any(
        start <= (edit.span.line, edit.span.column) <= end for fix in fixes.values() for edit in fix.edits
    )


def apply_edits(text: str, fixes: Iterable[Fix]) -> str:
    """A text with the edits of fixes that don't overlap; what is added at one place comes in the order of the fixes."""
    from devlint.textmap import TextMap

    lines = TextMap(text)
    edits = sorted((e for fix in fixes for e in fix.edits), key=lambda e: e.span)
    for edit in reversed(edits):
        start, end = (
            lines.offset(edit.span.line, edit.span.column),
            lines.offset(edit.span.end_line, edit.span.end_column),
        )
        text = text[:start] + edit.text + text[end:]
    return text
