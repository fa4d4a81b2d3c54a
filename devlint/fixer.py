"""Applies fixes: in passes, without overlaps, and only where the result checks.

A pass takes as many fixes as don't overlap and have no cause in common, applies them together, and lints the result.
When that result isn't safe (devlint/safeguards.py), or holds findings that weren't there, mixed devices even where
nobody asked for their rules, or still holds what was to be fixed, the first fix is tried alone; if its result doesn't
check either, it is withheld and reported as DEV003. A fix may reveal the next bug: a module that moves at last meets a
tensor that doesn't. Where that one's fix may be applied too, the two go together; a warning that nobody gave as long as
another wait stood beside it is no reason to withhold anything. Nothing outside an edit changes.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from devlint.causes import caused, leading, merged
from devlint.engine import Linter, apply_edits
from devlint.files import Source
from devlint.findings import Edit, Finding, Fix, Safety, Span
from devlint.layout import gets_too_long
from devlint.records import record
from devlint.rule import UnusedSuppression, WithheldFix
from devlint.safeguards import fault
from devlint.textmap import TextMap

# Fixes that wait for their neighbours get their turn in a later pass; this many passes settle any real file.
MAX_PASSES = 50
# How many times a fix may reveal something that is fixed along with it.
MAX_REVEALED = 3

# What fails wherever a fix brings a tensor to another that isn't there, whichever rules were asked for.
_MIXING = ("DEV2",)

# How a finding is known again after an edit elsewhere has shifted it: its code and the text of its line.
_Identity = tuple[str, str]


@record
class FixOutcome:
    """What fixing a source came to. `remaining` are the findings of the new source, DEV003 ones included."""

    source: Source
    applied: list[Finding]
    remaining: list[Finding]


def fix(source: Source, linter: Linter, *, safety: Safety) -> FixOutcome:
    """Applies the fixes of a source's findings that are as safe as asked: those for display are in tests of them alone."""
    findings, guard = linter.every_finding(source), _guard(source, linter)
    applied: list[Finding] = []
    withheld: Counter[_Identity] = Counter()
    reasons: dict[_Identity, str] = {}
    retried = 0
    for _ in range(MAX_PASSES):
        elsewhere = {id(f) for f in caused(findings)}
        waiting = [
            f for f in _waiting(source, findings, withheld) if _allowed(f, source, safety) and id(f) not in elsewhere
        ]
        # What the remedy of another one takes in waits for that.
        chosen = _of_different_causes(_without_overlap(leading(waiting)))
        if not chosen:
            if not withheld or retried == len(applied):
                break
            # Others were applied since: what stood in the way may be gone.
            retried = len(applied)
            withheld.clear()
            continue
        attempt = _attempt(source, findings, chosen, linter, guard)
        if isinstance(attempt, str):
            # One of them spoils the others: the first alone, so that the rest can go on.
            chosen = chosen[:1]
            attempt = _attempt(source, findings, chosen, linter, guard, revealed=MAX_REVEALED)
        if isinstance(attempt, str):
            key = _identity(source, chosen[0])
            withheld[key] += 1
            reasons[key] = attempt
            continue
        source, findings = attempt.source, attempt.remaining
        applied += attempt.applied
    return FixOutcome(source, applied, _with_withheld(source, findings, withheld, reasons, linter))


def fix_one(source: Source, finding: Finding, linter: Linter) -> Source | str:
    """The source with the fix of one of its findings applied; what is wrong with the result where it doesn't check."""
    findings = linter.every_finding(source)
    same = [f for f in findings if f.fix is not None and (f.code, f.span) == (finding.code, finding.span)]
    if not same or not _allowed(same[0], source, "display"):
        return "it isn't there any more" if not same else "it would cross the cells of the notebook"
    attempt = _attempt(source, findings, same[:1], linter, _guard(source, linter), revealed=MAX_REVEALED)
    return attempt if isinstance(attempt, str) else attempt.source


def _allowed(finding: Finding, source: Source, safety: Safety) -> bool:
    if finding.fix is None or not finding.fix.goes_with(safety):
        return False
    # An edit across a notebook's cells can't be written back.
    return source.notebook is None or all(source.notebook.can_edit(edit.span) for edit in finding.fix.edits)


def _identity(source: Source, finding: Finding) -> _Identity:
    """A finding by its code and the line that it is on, which edits elsewhere don't change."""
    return finding.code, source.lines[finding.span.line - 1].strip() if finding.span.line <= len(source.lines) else ""


def _waiting(source: Source, findings: Iterable[Finding], withheld: Counter[_Identity]) -> list[Finding]:
    """The findings whose fix wasn't withheld."""
    passed = Counter(withheld)
    waiting = []
    for finding in findings:
        key = _identity(source, finding)
        if passed[key] and finding.fix is not None:
            passed[key] -= 1
        else:
            waiting.append(finding)
    return waiting


def _without_overlap(findings: list[Finding]) -> list[Finding]:
    """As many of the findings as have edits apart from each other, in reading order.

    The last ones come first: of two lines that are added at one place in turn, the earlier finding's then ends up above.
    """
    taken: list[Edit] = []
    chosen = []
    for finding in reversed(findings):
        assert finding.fix is not None
        if not any(_overlap(edit, other) for edit in finding.fix.edits for other in taken):
            taken += finding.fix.edits
            chosen.append(finding)
    return chosen[::-1]


def _of_different_causes(findings: list[Finding]) -> list[Finding]:
    """The findings without those of other rules that may be gone once an earlier one is fixed: they speak of one place."""
    chosen: list[Finding] = []
    claimed: dict[tuple[str, int], str] = {}
    for finding in findings:
        spoken_of = {(note.path, note.line) for note in finding.notes} | {(finding.path, finding.span.line)}
        if all(claimed.get(place, finding.code) == finding.code for place in spoken_of):
            chosen.append(finding)
            claimed.update(dict.fromkeys(spoken_of, finding.code))
    return chosen


def _overlap(a: Edit, b: Edit) -> bool:
    """Whether two edits touch; two at one point do, but for lines that are added there: those follow each other."""
    if a.span == b.span and _adds_lines(a) and _adds_lines(b):
        return a.text == b.text
    if not a.text and not b.text and a.span != b.span:
        # Lines that go one after the other.
        low, high = sorted((a.span, b.span))
        return (low.end_line, low.end_column) > (high.line, high.column)
    first, second = a.span, b.span
    return (first.line, first.column) <= (second.end_line, second.end_column) and (second.line, second.column) <= (
        first.end_line,
        first.end_column,
    )


def _adds_lines(edit: Edit) -> bool:
    is_empty = (edit.span.line, edit.span.column) == (edit.span.end_line, edit.span.end_column)
    return is_empty and (edit.text[:1] in ("\n", "\r") or edit.text.rstrip(" \t")[-1:] == "\n")


def _attempt(
    source: Source,
    findings: list[Finding],
    chosen: list[Finding],
    linter: Linter,
    guard: Linter | None,
    *,
    revealed: int = 0,
) -> FixOutcome | str:
    """The source with the chosen fixes applied; what is wrong with the result where it doesn't check.

    `guard` knows the rules that it is to pass though nobody asked for them. What the result reveals is fixed too, where
    that is no less safe, as many times in turn as `revealed` says.
    """
    fixes = [f.fix for f in chosen if f.fix is not None]
    imports = [i for fix in fixes for i in fix.imports]
    edited = apply_edits(source.text, fixes)
    takes_markers = any(f.code == UnusedSuppression.code for f in chosen)
    edits = [edit for fix in fixes for edit in fix.edits]
    if edited == source.text:
        return "it would change nothing"
    # One alone is laid out; what several make of a line is laid out when one of them is there.
    shared = _on_shared_lines(fixes)
    if shared and gets_too_long(TextMap(source.text), shared, lambda: linter.width_of(source)):
        return "a line would get too long"
    wrong = fault(source.text, edited, edits, imports, takes_markers=takes_markers)
    if wrong:
        return wrong
    text = _with_imports(edited, imports)
    changed = source.with_text(text)
    after = linter.every_finding(changed)
    had, has = Counter(f.code for f in findings), Counter(f.code for f in after)
    gone = Counter(f.code for f in chosen)
    # Nothing new, and each of the fixed findings is gone.
    more = [code for code in has if has[code] > had[code] - gone[code]]
    if not more:
        return _mixed(source, changed, guard) or FixOutcome(changed, chosen, after)
    new = _new(source, findings, changed, after)
    lines = set(source.lines)
    elsewhere = bool(new) and all(changed.lines[f.span.line - 1] in lines for f in new)
    if elsewhere and all(f.severity == "warning" for f in new):
        # What cost nothing beside what is gone: it was there before, and breaks nothing.
        return FixOutcome(changed, chosen, after)
    if not elsewhere and (still := next((code for code in more if gone[code]), None)):
        return f"{still} would still be there"
    safety = next(each for each in get_args(Safety) if all(fix.goes_with(each) for fix in fixes))
    if revealed and new and all(_allowed(finding, changed, safety) for finding in new):
        further = _attempt(changed, after, _without_overlap(new), linter, guard, revealed=revealed - 1)
        if isinstance(further, FixOutcome) and not Counter(f.code for f in further.remaining) - had:
            return FixOutcome(further.source, [*chosen, *further.applied], further.remaining)
    # What stands where nothing was changed was there before, and couldn't come to it.
    return f"it would {'uncover' if elsewhere else 'bring'} {_brought(more[0], new, changed)}"


def _guard(source: Source, linter: Linter) -> Linter | None:
    """What lints a source for mixed devices, one for all attempts; None where the settings ask for all of that anyway."""
    path = source.path or linter.settings.root / source.display
    guard = linter.beside(_MIXING)
    asked, guarded = (each.settings.codes_for(path, linter.registry) for each in (linter, guard))
    return None if guarded <= asked else guard


def _mixed(source: Source, changed: Source, guard: Linter | None) -> str:
    """What a guard finds in the changed source that the source hadn't; "" for nothing."""
    if guard is None:
        return ""
    new = _new(source, guard.every_finding(source), changed, guard.every_finding(changed))
    return f"it would uncover {_brought(new[0].code, new, changed)}" if new else ""


def _on_shared_lines(fixes: list[Fix]) -> list[Edit]:
    """The edits of lines that several fixes change."""
    changed = Counter(line for fix in fixes for line in {line for edit in fix.edits for line in _lines_of(edit)})
    return [edit for fix in fixes for edit in fix.edits if any(changed[line] > 1 for line in _lines_of(edit))]


def _lines_of(edit: Edit) -> range:
    return range(edit.span.line, edit.span.end_line + 1)


def _brought(code: str, new: list[Finding], changed: Source) -> str:
    """A code that a fix brings, with what it would say: the reader has to mend that too."""
    finding = next((finding for finding in new if finding.code == code), None)
    if finding is None:
        return code
    line = "" if changed.notebook else f"line {finding.span.line}: "
    return f"{code} ({line}{finding.message})"


def _new(source: Source, findings: list[Finding], changed: Source, after: list[Finding]) -> list[Finding]:
    """The findings of the changed source that the source hadn't."""
    had = Counter(_identity(source, finding) for finding in findings)
    new = []
    for finding in after:
        key = _identity(changed, finding)
        if had[key]:
            had[key] -= 1
        else:
            new.append(finding)
    return new


def _with_withheld(
    source: Source,
    findings: list[Finding],
    withheld: Counter[_Identity],
    reasons: dict[_Identity, str],
    linter: Linter,
) -> list[Finding]:
    """The findings, those whose fix didn't check without it and with DEV003 beside them."""
    enabled = linter.settings.codes_for(source.path or linter.settings.root / source.display, linter.registry)
    left = Counter(withheld)
    shown = []
    for finding in findings:
        key = _identity(source, finding)
        if not (left[key] and finding.fix is not None):
            shown.append(finding)
            continue
        left[key] -= 1
        shown.append(replace(finding, fix=None))
        if WithheldFix.code in enabled:
            message = f"the fix for {finding.code} was withheld, since {reasons[key]}; {_remedy(reasons[key])}"
            told = Finding(WithheldFix.code, WithheldFix.name, message, finding.path, finding.span)
            shown.append(linter.as_set(told))
    return merged(sorted(shown, key=lambda f: f.sort_key), source.text)


def _remedy(reason: str) -> str:
    return "mend that as well, by hand" if reason.startswith("it would uncover") else "mend this one by hand"


def _with_imports(text: str, imports: Iterable[str]) -> str:
    """The text with import statements added where isort would put them, those that it has left out."""
    for statement in dict.fromkeys(imports):
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return text
        wanted = ast.dump(ast.parse(statement).body[0])
        if any(ast.dump(node) == wanted for node in tree.body):
            continue
        text = apply_edits(text, [Fix("", "safe", (_import_edit(text, tree, statement),))])
    return text


def _import_edit(text: str, tree: ast.Module, statement: str) -> Edit:
    """Where a new import goes: before the first of the top-level imports that sorts after it, else after the last."""
    lines = TextMap(text)
    block = _import_block(tree)
    for node in block:
        if not _is_future(node) and _sort_key(ast.unparse(node)) > _sort_key(statement):
            return Edit(Span(node.lineno, 1, node.lineno, 1), f"{statement}{lines.newline}")
    if block:
        line = block[-1].end_lineno or block[-1].lineno
        return Edit(
            Span(line, len(lines.line(line)) + 1, line, len(lines.line(line)) + 1), f"{lines.newline}{statement}"
        )
    # No imports: after the docstring, or before everything but the comments at the top.
    first = tree.body[0] if tree.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        line = first.end_lineno or 1
        return Edit(
            Span(line, len(lines.line(line)) + 1, line, len(lines.line(line)) + 1),
            f"{lines.newline}{lines.newline}{statement}",
        )
    line = first.lineno if first is not None else 1
    return Edit(Span(line, 1, line, 1), f"{statement}{lines.newline}{lines.newline}")


def _import_block(tree: ast.Module) -> list[ast.stmt]:
    """The imports at the top of a module."""
    found: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif found:
            break
    return found


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _sort_key(statement: str) -> tuple[bool, str]:
    """isort's order within a section: `import x` before `from x import y`, then by name."""
    words = statement.split()
    return words[0] == "from", words[1].lower()
