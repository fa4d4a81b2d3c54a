"""One file under the rules whose triggers it bears: what they are asked about, and what they tell."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from devlint.files import Source
from devlint.findings import INTERNAL_ERROR, Cost, Finding, Fix, Note, Span
from devlint.minor import why_minor
from devlint.regexes import regex
from devlint.rule import Registry, Rule, UnreadableFile
from devlint.screen import lines_of_names, trigger_lines
from devlint.settings import Settings
from devlint.source.widths import longest

if TYPE_CHECKING:
    from devlint.facts import Facts, Surroundings
    from devlint.pieces import Piece
    from devlint.placement.model import PlacementModel
    from devlint.placement.waiting import HotStall
    from devlint.rule import Report
    from devlint.source.modules import FunctionModel, SourceModule
    from devlint.source.project import Project
    from devlint.source.units import Unit
    from devlint.textmap import TextMap


# Events of what may have been made in a module that the file imports.
FOLLOWING_IMPORTS = ("missing-attribute", "pinned-device")
# A LibCST tree takes 6 kB for each item of a list: a statement with more commas than these is a table, and no rule's matter.
_MAX_COMMAS = 20_000
# So long a line everybody bears who hasn't said otherwise.
_LONG_ENOUGH = 100
# Words of comments that switch findings off.
_MAY_SWITCH_OFF = regex(r"#[^#\n]{0,400}\b(?:noqa|devlint)\b")


class Withheld(NamedTuple):
    """A finding that isn't told: the options that would have it told, and why they are needed."""

    finding: Finding
    options: str
    why: str


class Asked(Protocol):
    """What is asked of the linter: settings, rules, the project, and how long lines may be."""

    settings: Settings
    registry: Registry
    withheld: list[Withheld] | None

    def project(self) -> Project: ...
    def pause(self) -> None: ...
    def width_of(self, source: Source) -> int: ...
    def told_width(self, source: Source) -> int | None: ...
    def form_of(self, source: Source) -> str: ...


def _surroundings(settings: Settings, path: Path, *, portable: bool) -> Surroundings:
    """What the settings say of one file; `portable` says that rules are on that ask for code for any accelerator."""
    from devlint.facts import Surroundings

    about_cuda = settings.portable.is_cuda_only(settings.root, path)
    return Surroundings(settings.torch_version, settings.portable, about_cuda, portable)


class Inspection:
    """One file under the rules whose triggers it bears."""

    def __init__(
        self,
        linter: Asked,
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
        """Whether a file, or its project, is written for releases of PyTorch before 0.4, unless the settings name the oldest one."""
        if self._surroundings.oldest_torch is not None:
            return False
        from devlint.knowledge.releases import BEFORE_0_4, SAYS_BEFORE_0_4, SINCE_0_4

        if re.search(BEFORE_0_4, self._text.text) is not None:
            return True
        if re.search(SINCE_0_4, self._text.text) is not None:
            return False
        if self._project.uses(BEFORE_0_4, self.path):
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
                along = [finding.span]
                for span in along:
                    # What is like one of these is mended with them all.
                    further = dict.fromkeys(s for s in like.get(span, ()) if s in fixes and s not in done)
                    done.update(further)
                    along += further
                fix = self._joined(fix, (open_to[span] for span in along[1:]))
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
        if type(rule) not in self._named and (few := why_minor(rule, report, facts, self._project, stall)):
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
                why = why_minor(rule, report, facts, self._project) if type(rule) not in self._named else ""
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
        from devlint.habits import in_quotes_of
        from devlint.layout import (
            aligned,
            gets_too_long,
            is_broken_aside,
            is_put_in_brackets,
            kept_within,
            longest_before,
            was_long_before,
        )
        from devlint.signatures.answers.roles import is_generated
        from devlint.textmap import minimal_edit

        change = None if is_generated(facts.model.source) else report.change
        if change is None or self.model.imports_in_vain:
            return None
        node = piece.ast_of(report.node)
        if node is not None and self.model.comes_to_nothing(node):
            # Whatever is mended there, the program fails beside it.
            return None
        edits = list(change.edits)
        if change.replacements:
            start, end, code = minimal_edit(piece.code, piece.rendered(change.replacements))
            base = self._text.offset(piece.span.line, piece.span.column)
            edits.append(Edit(Span(*self._text.position(base + start), *self._text.position(base + end)), code))
        if self._is_for_old_releases:
            # Nobody can try there what is mended, and `map_location="cpu"` or a device of a factory would be a TypeError.
            return None
        # The same in all that a function gets: its own lines say it, or the file.
        near = [self._text.slice(self._text.span_of(facts.scope.node))] if facts.scope is not None else []
        edits = [
            replace(e, text=in_quotes_of(self._text.text, e.text, [self._text.around(e.span, 0), *near])) for e in edits
        ]
        fix = aligned(Fix(change.title, change.safety, tuple(sorted(edits)), change.imports), self._text)
        is_told = self._told_width() is not None
        # A part of a line that nobody broke needn't be broken for what comes behind it.
        most_before = 0 if is_told else longest_before(self._text, fix.edits)
        laid_out = kept_within(fix, self._text, lambda: max(self._width(), most_before), facts.step, self._form)
        if is_told:
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
