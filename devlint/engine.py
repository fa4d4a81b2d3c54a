"""One source to its findings: screen, model, rules, suppressions."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.causes import merged
from devlint.files import Source
from devlint.findings import Finding, Fix, Span, Untold
from devlint.inspection import FOLLOWING_IMPORTS, Inspection, Withheld
from devlint.regexes import regex
from devlint.rule import Registry, Rule, UnknownCode, UnreadableFile, UnusedSuppression
from devlint.screen import Screen, lets_through, pattern_of
from devlint.settings import Selection, Settings
from devlint.source.looks import Looks
from devlint.source.widths import keeps, shown_width
from devlint.suppressions import read_suppressions

if TYPE_CHECKING:
    from devlint.source.filesystem import FileSystem
    from devlint.source.modules import SourceModule
    from devlint.source.project import Project


# Events of what the files that import this one may hand to it.
FOLLOWING_CALLERS = ("mixing", "missing-attribute")
# What is told of suppressions themselves.
_OF_SUPPRESSIONS = frozenset({UnusedSuppression.code, UnknownCode.code})


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
            told, rest = _without_invalid(source, error.finding)
            # The other cells of a notebook are looked at as if those that are half written were empty.
            others = self.every_finding(rest, within) if rest is not None else []
            self.is_python = False
            told = [_with_version(f, self.settings.target_version) for f in told if f.code in enabled]
            return told + [replace(finding, fix=None) for finding in others]
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

    def beside(self, codes: tuple[str, ...]) -> Linter:
        """A linter of the same files for some rules, or families of rules, whatever the settings say of these."""
        settings = replace(
            self.settings, overrides=Selection(select=codes), per_file_ignores=(), confidence="likely", ignore_noqa=True
        )
        return Linter(settings, self.registry, self._files)

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
        """Lets go of the project, which may be asked for again: the texts around its files take as much as what was read of them."""
        if self._project is not None:
            self._project.make_room()
            self._project = None

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
            from devlint.habits import habit_of

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
        return wanted and screen.is_about_torch and any(map(screen.holds, filter(None, (rule.trigger, rule.hears))))

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


class _InvalidSourceError(Exception):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


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


def _without_invalid(source: Source, invalid: Finding) -> tuple[list[Finding], Source | None]:
    """What is told of the parts of a source that aren't valid Python, of which one is known, and what is left without them; None where nothing is.

    A part that ends amid a statement is found out by itself: the parser tells of the line behind it.
    """
    told: list[Finding] = []
    for first, text in source.parts:
        try:
            _parse(replace(source, text=text))
        except _InvalidSourceError as error:
            at = error.finding.span
            told.append(
                replace(error.finding, span=Span(at.line + first - 1, at.column, at.line + first - 1, at.column))
            )
    told = told or [invalid]
    left: Source | None = source
    for finding in told:
        left = left and left.without_part(finding.span.line)
    return told, left


def _with_version(finding: Finding, target: tuple[int, int] | None) -> Finding:
    """A finding that a text isn't Python, with what is to be said where it is written for a newer one than devlint runs on."""
    if target is None or target <= sys.version_info[:2]:
        return finding
    ours, theirs = (".".join(map(str, version)) for version in (sys.version_info[:2], target))
    why = f"isn't valid Python {ours}, on which devlint runs, while the code is for {theirs} (target-version); run devlint with that"
    return replace(finding, message=finding.message.replace("isn't valid Python", why, 1))


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
