"""One cause, one finding: what a reader would mend at one go is told once, and the rest as notes.

- A statement that waits for the accelerator several times has one finding of the rules about waits, and a value that was
  read before, and is the same still, none.
- Of two rules on one expression, the one whose remedy takes in the other's speaks, or the one that says more of the same.
- Where a tensor that was left behind meets others, the finding stands where it was left behind; what one expression made
  on the host, and meets others twice on a line, is told once.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from devlint.findings import Finding, Note, Span
from devlint.textmap import TextMap

# Rules about waits: what each of them flags makes the host wait.
WAITS = frozenset({"DEV501", "DEV502", "DEV503", "DEV504"})
# On one expression, the first speaks for the second: its remedy is the greater one.
SPEAKS_FOR = {"DEV508": frozenset({"DEV105"})}
# The same, and nothing is left to say of the second.
SAYS_MORE_THAN = {"DEV702": frozenset({"DEV603"}), "DEV703": frozenset({"DEV701"})}
# Rules that tell where a tensor stays behind or is made in the wrong place, and those that tell where it meets others.
LEFT_BEHIND = frozenset({"DEV103", "DEV203"})
MEETINGS = frozenset({"DEV201", "DEV202", "DEV203", "DEV205"})
# Methods and functions that give the value of a tensor, or the tensor without its graph.
_READS = frozenset({"item", "tolist", "cpu", "numpy", "detach", "float", "int", "bool", "print", "str"})


def merged(findings: Iterable[Finding], text: str) -> list[Finding]:
    """The findings of a text, each cause once."""
    found = list(findings)
    for merge in (_at_meetings, _on_one_expression, _in_one_statement):
        if len(found) > 1:
            found = merge(found, text)
    return found


def _noting(finding: Finding, others: Iterable[Finding]) -> Finding:
    """A finding with notes that name others of the same cause."""
    notes = tuple(Note(f"{o.code}: {o.message}", o.path, o.span.line, o.span.column) for o in others)
    return replace(finding, notes=(*finding.notes, *notes))


def _at_meetings(findings: list[Finding], _text: str) -> list[Finding]:
    told = _met(findings)
    gone = {id(f) for others in told.values() for f in others}
    return _of_one_making([_noting(f, told[f]) if f in told else f for f in findings if id(f) not in gone])


def _of_one_making(findings: list[Finding]) -> list[Finding]:
    """Of meetings on one line with what one expression made on the host, such as `row[mask], col[mask]`, the first."""
    first: dict[object, Finding] = {}
    others: dict[Finding, list[Finding]] = defaultdict(list)
    for finding in findings:
        made = tuple((n.path, n.line, n.column) for n in finding.notes if "created on cpu" in n.message)
        if finding.code in MEETINGS and made:
            leader = first.setdefault((finding.code, finding.path, finding.span.line, made), finding)
            if leader is not finding:
                others[leader].append(finding)
    gone = {id(f) for told in others.values() for f in told}
    return [_noting(f, others[f]) if f in others else f for f in findings if id(f) not in gone]


def _met(findings: Iterable[Finding]) -> dict[Finding, list[Finding]]:
    """The findings about meetings, by those that tell where the tensor was left behind."""
    found = list(findings)
    causes = _Causes(found)
    told: dict[Finding, list[Finding]] = defaultdict(list)
    for finding in found:
        if finding.code in MEETINGS:
            cause = next((c for c in causes.near(finding) if c is not finding and _is_caused_by(finding, c)), None)
            if cause is not None:
                told[cause].append(finding)
    return told


def caused(findings: Iterable[Finding]) -> list[Finding]:
    """The findings about meetings of tensors of which others tell where they were left behind: that is where to mend them."""
    return [finding for others in _met(findings).values() for finding in others]


class _Causes:
    """The findings that tell where a tensor was left behind, by the lines that they stand on or name."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._causes = [f for f in findings if f.code in LEFT_BEHIND]
        self._on: dict[int, list[int]] = defaultdict(list)
        for number, cause in enumerate(self._causes):
            for line in {*_lines(cause), *(note.line for note in cause.notes)}:
                self._on[line].append(number)

    def near(self, finding: Finding) -> Iterator[Finding]:
        """Those that may be the cause of a finding, in their order."""
        lines = {*_lines(finding), *(note.line for note in finding.notes)}
        yield from (self._causes[number] for number in sorted({n for line in lines for n in self._on.get(line, ())}))


def _lines(finding: Finding) -> range:
    return range(finding.span.line, finding.span.end_line + 1)


def _is_caused_by(finding: Finding, cause: Finding) -> bool:
    """Whether a meeting is the one that a cause tells of, or of the tensor that a cause tells of."""
    if finding.code == "DEV203":
        return cause.code != "DEV203" and any(_stands_at(note, finding) for note in cause.notes)
    made = [n for n in finding.notes if "created on cpu" in n.message] if cause.code == "DEV203" else []
    return any(_stands_at(note, finding) for note in cause.notes) or any(_stands_at(n, cause) for n in made)


def _stands_at(note: Note, finding: Finding) -> bool:
    span = finding.span
    return note.path == finding.path and (span.line, span.column) <= (note.line, note.column) < (
        span.end_line,
        span.end_column,
    )


def leading(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without those on whose expression another one speaks for them."""
    found = list(findings)
    at = _by_span(found)
    return [
        f
        for f in found
        if not any(f.code in said.get(o.code, ()) for o in at[f.span] for said in (SPEAKS_FOR, SAYS_MORE_THAN))
    ]


def _by_span(findings: Iterable[Finding]) -> dict[Span, list[Finding]]:
    at: dict[Span, list[Finding]] = defaultdict(list)
    for finding in findings:
        at[finding.span].append(finding)
    return at


def _on_one_expression(findings: list[Finding], _text: str) -> list[Finding]:
    at = _by_span(findings)
    shown = []
    for finding in leading(findings):
        spoken_for = [other for other in at[finding.span] if other.code in SPEAKS_FOR.get(finding.code, ())]
        shown.append(_noting(finding, spoken_for) if spoken_for else finding)
    return shown


def _in_one_statement(findings: list[Finding], text: str) -> list[Finding]:
    waits = [f for f in findings if f.code in WAITS]
    if len(waits) < 2:
        return findings
    try:
        statements = _Statements(ast.parse(text), TextMap(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return findings
    groups: dict[ast.AST, list[Finding]] = defaultdict(list)
    for finding in waits:
        groups[statements.around(finding.span)].append(finding)
    told: dict[int, list[Finding]] = defaultdict(list)
    readings: _Readings = defaultdict(list)
    for group in groups.values():
        # What is certain is told before what is likely.
        first = min(group, key=lambda f: (f.confidence != "certain", f.sort_key))
        subjects = [statements.subject(f.span) for f in group]
        known = [statements.read_before(subject, first, readings) for subject in subjects]
        speaker = known[0]
        if speaker is not None and None not in known:
            told[id(speaker)] += group
            continue
        for subject in filter(None, subjects):
            readings[statements.block_of(statements.around(first.span)), subject].append(first)
        told[id(first)] += [f for f in group if f is not first]
    gone = {id(f) for others in told.values() for f in others}
    return [_noting(f, told[id(f)]) if told.get(id(f)) else f for f in findings if id(f) not in gone]


# A list of statements: the node that holds it, and the name of its field there.
_Block = tuple[int, str]


# What was read under a name in a block: only what stands in the blocks around another reading is looked at again.
_Readings = dict[tuple[_Block, str], list[Finding]]


class _Statements:
    """The statements of a text, and the heads of those that hold others."""

    def __init__(self, tree: ast.Module, lines: TextMap) -> None:
        self._lines = lines
        self._parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._by_line: dict[int, list[ast.AST]] = defaultdict(list)
        self._tree = tree
        self._found: dict[Span, ast.AST] = {}
        # The block of each statement.
        self._blocks: dict[ast.AST, _Block] = {}
        for node in ast.walk(tree):
            if isinstance(node, (ast.stmt, ast.expr)):
                self._by_line[node.lineno].append(node)
            for field, value in ast.iter_fields(node):
                if isinstance(value, list):
                    self._blocks |= dict.fromkeys((v for v in value if isinstance(v, ast.stmt)), (id(node), field))

    def around(self, span: Span) -> ast.AST:
        """The statement that a span stands in, or the header of one: the expression right below it."""
        node = self._at(span)
        while node in self._parents and not isinstance(node, ast.stmt):
            parent = self._parents[node]
            if isinstance(parent, ast.stmt) and hasattr(parent, "body"):
                return node
            node = parent
        return node

    def _at(self, span: Span) -> ast.AST:
        """The smallest node that begins where a span does and reaches as far."""
        if span not in self._found:
            self._found[span] = self._looked_for(span)
        return self._found[span]

    def _looked_for(self, span: Span) -> ast.AST:
        found: ast.AST = self._tree
        for node in self._by_line[span.line]:
            assert isinstance(node, (ast.stmt, ast.expr))
            here = self._lines.span_of(node)
            if (here.line, here.column) == (span.line, span.column) and (here.end_line, here.end_column) >= (
                span.end_line,
                span.end_column,
            ):
                found = node
        return found

    def subject(self, span: Span) -> str:
        """The name or attribute whose value is read at a span; "" for anything else."""
        node = self._at(span)
        while True:
            match node:
                case ast.Expr(value=inner):
                    node = inner
                case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _READS:
                    node = inner
                case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _READS:
                    node = inner
                case ast.Name() | ast.Attribute():
                    return _path(node)
                case _:
                    return ""

    def read_before(self, subject: str, finding: Finding, readings: _Readings) -> Finding | None:
        """The finding for an earlier reading of the same value, on the way to this one."""
        if not subject:
            return None
        blocks = dict.fromkeys(self._blocks_around(self.around(finding.span)))
        before = [told for block in blocks for told in readings.get((block, subject), ())]
        before.sort(key=lambda told: told.sort_key)
        return next((told for told in before if self._is_same_still(subject, told.span, finding.span)), None)

    def _is_same_still(self, subject: str, before: Span, after: Span) -> bool:
        """Whether nothing was bound between one place and another behind it where the same is read."""
        if before >= after:
            return False
        root = subject.split(".")[0]
        between = (n for line in range(before.line, after.end_line + 1) for n in self._by_line[line])
        return not any(root in _changes(node) for node in between)

    def block_of(self, node: ast.AST) -> _Block:
        """The block that a statement, or the statement of a header, stands in."""
        while not isinstance(node, ast.stmt) and node in self._parents:
            node = self._parents[node]
        return self._blocks.get(node, (id(self._parents.get(node, self._tree)), ""))

    def _blocks_around(self, node: ast.AST) -> Iterator[_Block]:
        while node in self._parents:
            if isinstance(node, ast.stmt):
                yield self.block_of(node)
            node = self._parents[node]


def _path(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            owner = _path(value)
            return f"{owner}.{attr}" if owner else ""
    return ""


def _changes(node: ast.AST) -> set[str]:
    """The names whose value a node binds anew, or may change in place."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            inner: ast.AST = node
            while isinstance(inner, (ast.Attribute, ast.Subscript)):
                inner = inner.value
            return {inner.id} if isinstance(inner, ast.Name) else set()
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name.endswith("_") or name in ("step", "update"):
            return {_path(owner).split(".")[0]}
    return set()
