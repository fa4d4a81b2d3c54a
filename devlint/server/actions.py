"""What the editor offers to do about findings: fix one, say that it is meant, fix all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from devlint.files import Source
from devlint.findings import Finding, Safety
from devlint.server.desk import Desk, Outcome
from devlint.server.diagnostics import SOURCE, range_of
from devlint.server.documents import Edits

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.{SOURCE}"
KINDS = (types.CodeActionKind.QuickFix.value, FIX_ALL)

# About comments themselves, or about the run: no comment says that they are meant.
_NOT_SUPPRESSED = frozenset({"DEV000", "DEV001", "DEV002", "DEV003"})


class WithheldError(Exception):
    """A change that isn't made; the text says why, in one line."""


@dataclass(frozen=True)
class Asked:
    """What the editor asks actions for: a range of one text, and the kinds that it wants, if it says so."""

    uri: str
    range: types.Range
    diagnostics: Sequence[types.Diagnostic] = ()
    only: Sequence[str] | None = None

    def wants(self, kind: str) -> bool:
        """Whether an action of a kind is asked for."""
        return self.only is None or any(kind == one or kind.startswith(f"{one}.") for one in self.only)

    @property
    def wants_fix_all_alone(self) -> bool:
        """Whether it is asked for what is done on saving."""
        return self.only is not None and all(str(one).startswith("source.fixAll") for one in self.only)


def actions(key: str, outcome: Outcome, asked: Asked, *, fix_all: bool, safety: Safety) -> Iterator[types.CodeAction]:
    """The actions for a range of a document, without their edits: `edits_of` makes those, when one is chosen."""
    quick = types.CodeActionKind.QuickFix
    for number, finding in enumerate(outcome.findings):
        uri, range = range_of(finding, outcome.snapshot)
        about = [d for d in asked.diagnostics if d.code == finding.code and d.range == range]
        # What the editor names is meant, wherever on its line the cursor is.
        is_meant = bool(about) or _touch(range, asked.range)
        if not asked.wants(quick.value) or uri != asked.uri or not is_meant:
            continue
        if finding.fix is not None and outcome.snapshot.can_edit(finding.fix.edits):
            title = f"{SOURCE}: {finding.fix.title}{finding.fix.mark}"
            yield _action(
                title, quick, about, _data(key, outcome, "fix", number), preferred=finding.fix.safety == "safe"
            )
        if finding.code not in _NOT_SUPPRESSED:
            title = f"{SOURCE}: suppress {finding.code} here, with `# noqa: {finding.code}`"
            yield _action(title, quick, about, _data(key, outcome, "noqa", number))
    if fix_all and asked.wants(FIX_ALL) and any(_is_fixable(f, safety) for f in outcome.findings):
        which = "safe fixes" if safety == "safe" else "fixes"
        yield _action(f"{SOURCE}: apply all {which}", FIX_ALL, [], _data(key, outcome, "all", -1))


def _is_fixable(finding: Finding, safety: Safety) -> bool:
    return finding.fix is not None and finding.fix.goes_with(safety)


def _touch(a: types.Range, b: types.Range) -> bool:
    return _before(a.start, b.end) and _before(b.start, a.end)


def _before(a: types.Position, b: types.Position) -> bool:
    return (a.line, a.character) <= (b.line, b.character)


def _action(
    title: str,
    kind: types.CodeActionKind | str,
    about: list[types.Diagnostic],
    data: dict[str, object],
    *,
    preferred: bool = False,
) -> types.CodeAction:
    return types.CodeAction(title, kind, about or None, is_preferred=preferred or None, data=data)


def _data(key: str, outcome: Outcome, what: str, number: int) -> dict[str, object]:
    return {"document": key, "version": outcome.snapshot.version, "do": what, "finding": number}


def edits_of(desk: Desk, data: Any, *, safety: Safety) -> Edits:
    """The edits of an action, told by its data; raises WithheldError where they aren't to be made."""
    outcome = desk.outcomes.get(str(data["document"])) if isinstance(data, dict) else None
    if outcome is None or data.get("version") != outcome.snapshot.version:
        raise WithheldError("the text has changed since; ask again")
    linter = desk.linter_of(outcome.snapshot)
    source: Source = outcome.snapshot.source
    if data["do"] == "all":
        from devlint.fixer import fix

        return outcome.snapshot.edits_to(fix(source, linter, safety=safety).source)
    finding = outcome.findings[int(data["finding"])]
    if data["do"] == "noqa":
        from devlint.adoption.noqa import with_noqa

        # The comment speaks of all that the rule finds on its line.
        meant = [f for f in outcome.findings if f.code == finding.code and f.span.line == finding.span.line]
        changed, admitted = with_noqa(source, meant, "", linter.every_finding)
        if not admitted:
            raise WithheldError(f"{finding.code} can't be suppressed by a comment there; see `# devlint: off`")
        return outcome.snapshot.edits_to(changed)
    from devlint.fixer import fix_one

    fixed = fix_one(source, finding, linter)
    if isinstance(fixed, str):
        raise WithheldError(f"the fix for {finding.code} was withheld, since {fixed}; mend this one by hand")
    return outcome.snapshot.edits_to(fixed)
