"""`devlint where`: what the placement model knows of the values on a line, and why it doesn't know more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devlint.escapes import printable
from devlint.findings import Span
from devlint.knowledge import canonical
from devlint.placement.model import PlacementModel, build
from devlint.placement.values import Guards, Sort, Step, Value
from devlint.reports import place_of
from devlint.signatures.answers.operands import known_operands
from devlint.signatures.values.values import Step as SignatureStep
from devlint.signatures.values.values import steps_to
from devlint.source.devices import is_device_name
from devlint.source.kinds import Kind
from devlint.source.project import Project, parse
from devlint.source.trees import walk
from devlint.source.units import units_at
from devlint.textmap import TextMap

if TYPE_CHECKING:
    from devlint.files import Source
    from devlint.rule import Registry
    from devlint.settings import Settings
    from devlint.source.modules import FunctionModel


class NothingThereError(Exception):
    """What was asked for isn't on the line; the text says what is."""


@dataclass(frozen=True)
class Known:
    """What is known of one expression, on the paths on which `condition` holds.

    `trail` is (message, path, line) for each step, oldest first. `why` says why something is unknown; "" where nothing is.
    """

    line: int
    column: int
    text: str
    kind: str
    place: str
    likely: bool
    condition: str
    trail: tuple[tuple[str, str, int], ...]
    why: str

    @property
    def said(self) -> str:
        """Kind and place in words."""
        when = f", if {self.condition}" if self.condition else ""
        likely = " (likely)" if self.likely else ""
        place = f" on {self.place}" if self.place != "unknown" else ""
        return f"{self.kind}{place}{likely}{when}"

    def as_dict(self) -> dict[str, Any]:
        """The same, for JSON."""
        return asdict(self)


def explain(source: Source, line: int, name: str | None, settings: Settings) -> list[Known]:
    """What is known of the expressions that start on a line (from 1), or of those alone that are spelt `name`.

    Raises NothingThereError where there are none, and SyntaxError for a source that isn't Python.
    """
    path = source.path or settings.root / source.display
    model = build(path, source.text, parse(source.text), Project(settings.src), settings.hints)
    try:
        for unit in units_at(model.source, [line]):
            model.ensure(unit.scope)
        nodes = [n for n in _expressions(model.source.tree, line) if not _is_method_name(n, model)]
        # A line tells nothing of `torch` itself; whoever asks for it by name is answered.
        told = [n for n in nodes if not _is_its_own_name(n, model)] or nodes
        wanted = told if name is None else [n for n in nodes if ast.unparse(n) == name]
        if not wanted:
            spelt = ", ".join(f"`{text}`" for text in dict.fromkeys(ast.unparse(n) for n in nodes))
            raise NothingThereError(f"there is {spelt}" if spelt else "no name, attribute or call starts there")
        return [known for node in wanted for known in _known(node, model)]
    finally:
        model.close()


@dataclass(frozen=True)
class Found:
    """What stands at a place: where, what is known of it, and the function of the project that it names, if it names one."""

    span: Span
    known: list[Known]
    function: FunctionModel | None = None


def known_at(model: PlacementModel, line: int, column: int) -> Found | None:
    """What is known of the innermost expression around a place (both from 1); None where there is none.

    The name of what is called stands for the call, where that tells more; a parameter, or an imported name, for its first use.
    """
    text = TextMap(model.source.text)
    around = [
        (span, node)
        for node in walk(model.source.tree)
        if isinstance(node, (*_ASKED, ast.arg, ast.alias)) and node.lineno <= line <= (node.end_lineno or node.lineno)
        if _holds(span := text.span_of(node), line, column)
    ]
    if not around:
        return None
    span, node = min(around, key=lambda found: len(text.slice(found[0])))
    asked = _first_use(node, model) if isinstance(node, (ast.arg, ast.alias)) else node
    if asked is None:
        return None
    for unit in units_at(model.source, sorted({line, node.lineno, asked.lineno})):
        model.ensure(unit.scope)
    function = model.value(asked).function
    call = next(model.ancestors(asked), None)
    if asked is node and isinstance(call, ast.Call) and call.func is node and model.value(node).kind in _SAYS_LITTLE:
        span, asked = text.span_of(call), call
    known = [k for k in _known(asked, model) if not (isinstance(asked, ast.Call) and k.kind == "constant None")]
    if asked is not node:
        # What it names is told by what it gives; where that isn't known, the function's signature is all there is.
        known = [k for k in known if k.kind != Kind.UNKNOWN.value or k.place != "unknown" or function is None]
    return Found(span, known, function)


# Kinds of what is called that say less than what the call gives.
_SAYS_LITTLE = (Kind.UNKNOWN, Kind.REFERENCE, Kind.FUNCTION)


def _first_use(node: ast.arg | ast.alias, model: PlacementModel) -> ast.Name | None:
    """The first use of a parameter or an imported name, where it is still what it was; None where there is none."""
    name = node.arg if isinstance(node, ast.arg) else node.asname or node.name.partition(".")[0]
    within = next((a for a in model.ancestors(node) if isinstance(a, _FUNCTIONS)), model.source.tree)
    uses = [n for n in walk(within) if isinstance(n, ast.Name) and n.id == name]
    # The value of an assignment comes before its target.
    first = min(uses, key=lambda n: (n.lineno, isinstance(n.ctx, ast.Store), n.col_offset), default=None)
    return first if first is not None and isinstance(first.ctx, ast.Load) else None


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _holds(span: Span, line: int, column: int) -> bool:
    return (span.line, span.column) <= (line, column) <= (span.end_line, span.end_column)


# Expressions that have a kind and a place.
_ASKED = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.BinOp)


def signature_of(source: Source, line: int, settings: Settings) -> list[str]:
    """The signature of the function that is defined on a line, in words, a line each; empty where none is.

    It says what the function needs together or on the host, what it gives, and what it changes, whichever device its
    inputs are on. Raises SyntaxError for a source that isn't Python.
    """
    path = source.path or settings.root / source.display
    model = build(path, source.text, parse(source.text), Project(settings.src), settings.hints)
    try:
        return model.signature_at(line)
    finally:
        model.close()


def _expressions(tree: ast.Module, line: int) -> Iterator[ast.expr]:
    """The names, attributes and calls that start on a line, as they stand, each spelling once."""
    seen: set[str] = set()
    found = [n for n in ast.walk(tree) if isinstance(n, _ASKED) and n.lineno == line]
    for node in sorted(found, key=lambda n: (n.col_offset, n.end_col_offset or 0)):
        text = ast.unparse(node)
        if text not in seen:
            seen.add(text)
            yield node


def _is_method_name(node: ast.expr, model: PlacementModel) -> bool:
    """`x.f` of the call `x.f()`, where the call tells more than the name of the method."""
    parent = next(model.ancestors(node), None)
    is_called = isinstance(node, ast.Attribute) and isinstance(parent, ast.Call) and parent.func is node
    return is_called and model.value(node).kind is Kind.UNKNOWN


def _is_its_own_name(node: ast.expr, model: PlacementModel) -> bool:
    """`torch` and `torch.load`, which mean what they say."""
    value = model.value(node)
    return value.kind is Kind.REFERENCE and value.name == ast.unparse(node)


def _known(node: ast.expr, model: PlacementModel) -> Iterator[Known]:
    """What is known of an expression; once where it is the same on all paths."""
    known = list(_alternatives(node, model))
    if len({replace(one, condition="") for one in known}) == 1:
        known = [replace(known[0], condition="")]
    yield from known


def _alternatives(node: ast.expr, model: PlacementModel) -> Iterator[Known]:
    for guards, value in model.value(node).alternatives():
        told = _told_by_findings(node, model) if value.place.sort is Sort.UNKNOWN and value.kind in _PLACED else None
        trail = told[1] if told else [step for step in value.trail if isinstance(step, Step)]
        yield Known(
            node.lineno,
            model.source.column(node.lineno, node.col_offset),
            ast.unparse(node),
            _kind_of(value),
            told[0] if told else str(value.place),
            value.likely,
            _condition(guards),
            tuple((step.message, step.path, step.line) for step in trail),
            "" if told else _why(node, value, model),
        )


def _told_by_findings(node: ast.expr, model: PlacementModel) -> tuple[str, tuple[SignatureStep, ...]] | None:
    """The place of an operand and the trail to it, as findings about it tell them; None where they say no more."""
    value = known_operands(model.reader, model.source).get(node)
    return (str(value.place.name), steps_to(value.step)) if value is not None else None


def _kind_of(value: Value) -> str:
    """The kind, with the name of the class or the function where one is known."""
    kind = value.kind.value
    if value.cls is not None:
        return f"{kind} {value.cls.name}"
    if value.function is not None:
        return f"{kind} {value.function.name}"
    if value.kind is Kind.CONSTANT:
        return f"{kind} {value.constant!r}"
    named = value.kind in (Kind.REFERENCE, Kind.MODULE, Kind.WRAPPER, Kind.OBJECT, Kind.OPTIMIZER, Kind.LOADER)
    return f"{kind} {value.name}" if named and value.name and not value.name.startswith("<") else kind


def _condition(guards: Guards) -> str:
    """The conditions under which a value is the one, as the reader wrote them."""
    tests = [(text, g.outcome) for g in sorted(guards) if (text := g.condition.rsplit("@", 1)[0])]
    return " and ".join(
        [*(t for t, outcome in tests if outcome), *(f"not ({t})" for t, outcome in tests if not outcome)]
    )


# Kinds that have a place.
_PLACED = (Kind.TENSOR, Kind.PARAMETER, Kind.MODULE, Kind.WRAPPER, Kind.BATCH, Kind.DEVICE, Kind.UNKNOWN)


def _why(node: ast.expr, value: Value, model: PlacementModel) -> str:
    """Why the kind or the place isn't known."""
    if value.kind not in _PLACED or (value.kind is not Kind.UNKNOWN and value.place.sort is not Sort.UNKNOWN):
        return ""
    if value.name.startswith("torch.nn.") and value.name.endswith("Loss"):
        return "it holds no class weights, and so has no place"
    what = "its place" if value.kind is not Kind.UNKNOWN else "what it is"
    reason = _reason(node, model)
    return f"{what} isn't known: {reason}" if reason else f"{what} isn't known"


def _reason(node: ast.expr, model: PlacementModel) -> str:
    match node:
        case ast.Name(id=name):
            return _reason_of_name(node, name, model)
        case ast.Call(func=func):
            callee = model.value(func)
            if callee.kind is Kind.REFERENCE:
                return f"devlint knows nothing of what `{canonical(callee.name)}` returns"
            if callee.kind is Kind.FUNCTION:
                return f"what `{ast.unparse(func)}` returns can't be told from its arguments"
            if isinstance(func, ast.Attribute) and model.value(func.value).kind is Kind.UNKNOWN:
                return f"`{ast.unparse(func.value)}`, whose method it calls, isn't known"
            return f"what `{ast.unparse(func)}` returns isn't known"
        case ast.Attribute(value=owner, attr=attr):
            held = model.value(owner)
            if held.cls is not None:
                return f"no method of `{held.cls.name}` that could be followed sets `{attr}`"
            if held.kind is Kind.EITHER:
                return f"`{ast.unparse(owner)}` is one of several, and of one of them nothing is known of `{attr}`"
            return f"`{ast.unparse(owner)}` is {held.kind.value}, and nothing is known of its `{attr}`"
        case ast.Subscript(value=owner):
            return f"what `{ast.unparse(owner)}` holds isn't known"
    return ""


def _reason_of_name(node: ast.Name, name: str, model: PlacementModel) -> str:
    scope = model.enclosing_scope(node)
    if not isinstance(scope, ast.Module):
        arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        if any(a.arg == name for a in arguments) and not list(model.assigned_values(node)):
            told = " and its annotation says no more" if any(a.arg == name and a.annotation for a in arguments) else ""
            device = "; by its name it is a device" if is_device_name(node) else ""
            return f"it is a parameter of `{scope.name}`, whose callers in this file don't tell{told}{device}"
    sources = [v for v in model.assigned_values(node) if v.lineno <= node.lineno]
    if sources:
        last = sources[-1]
        text = ast.unparse(last)
        return f"it comes from `{text if len(text) <= 60 else text[:57] + '...'}` (line {last.lineno})"
    return ""


@dataclass(frozen=True)
class NotTold:
    """What isn't told of a line, and why: a finding that options would have told, or (no code) what silences a family."""

    why: str
    code: str = ""
    message: str = ""
    options: str = ""

    def __str__(self) -> str:
        if not self.code:
            return self.why
        return f"{self.code} would be told here with `{self.options}` ({self.why}): {self.message}"


def untold_on(source: Source, line: int, settings: Settings, registry: Registry, found: list[Known]) -> list[NotTold]:
    """What isn't told of a line, and why; `found` is what is known of it."""
    from devlint.untold import silences_on, withheld_on

    made = any(known.trail and known.trail[0][0].startswith("created on cpu by") for known in found)
    asks = made or any(known.kind in _TOLD for known in found)
    silent = silences_on(source, line, settings, has_made=made) if asks else ()
    withheld = withheld_on(source, line, settings, registry)
    return [
        *(NotTold(w.why, w.finding.code, w.finding.message, w.options) for w in withheld),
        *(NotTold(why) for why in silent),
    ]


# Kinds that DEV2 is about.
_TOLD = frozenset(kind.value for kind in (Kind.TENSOR, Kind.PARAMETER, Kind.BATCH))


def render(found: list[Known], source: Source, display: str) -> str:
    """The findings as text: the line, then each expression with its trail."""
    number = found[0].line
    text = source.lines[number - 1].rstrip().expandtabs()
    lines = [_line(display, source, number), f"{place_of(source, number, 1).line} | {text}", ""]
    for known in found:
        lines.append(f"{known.text}: {known.said}")
        lines += [f"    {said} ({_step(path, at, source, display)})" for said, path, at in known.trail]
        if known.why:
            lines.append(f"    {known.why}")
    return "\n".join(map(printable, lines))


def _step(path: str, line: int, source: Source, display: str) -> str:
    """The place of a step as terminals and editors follow it: a path from the current folder, and the line."""
    if path == str(source.path):
        return _line(display, source, line)
    shown = Path(path)
    if shown.is_relative_to(Path.cwd()):
        shown = shown.relative_to(Path.cwd())
    return f"{shown.as_posix()}:{line}"


def _line(display: str, source: Source, line: int) -> str:
    place = place_of(source, line, 1)
    return f"{display}:{'' if place.cell is None else f'cell {place.cell}:'}{place.line}"
