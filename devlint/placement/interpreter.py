"""Walks the statements of one scope and keeps the environment along them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from devlint.placement import calls, narrowing  # noqa: F401 - calls add themselves to the expressions
from devlint.placement.batches import taken_by
from devlint.placement.conditions import condition_of
from devlint.placement.environment import Environment, merge
from devlint.placement.expressions import evaluate
from devlint.placement.scope import Analysing
from devlint.placement.values import (
    BUFFER,
    EMPTY,
    NO_GUARDS,
    UNKNOWN,
    Guards,
    Happening,
    Sort,
    Value,
    either,
    element_of,
    reference,
    replace,
    sequence_of,
)
from devlint.source.kinds import Kind
from devlint.source.modules import FunctionModel, FunctionNode, SourceModule
from devlint.source.paths import access_path
from devlint.source.trees import is_too_deep, kept_on_node, names_in

if TYPE_CHECKING:
    from devlint.placement.classes import ClassModel

# Loops settle in two or three passes; more would only widen what is unknown already.
MAX_PASSES = 3


@dataclass
class Frame:
    """One run over a scope: a module's top level or a function's body, with given arguments."""

    analysis: Analysing
    source: SourceModule
    function: FunctionModel | None = None
    cls: ClassModel | None = None
    closure: Frame | None = None
    env: Environment = field(default_factory=Environment)
    depth: int = 0
    # The class whose body is being walked.
    class_node: ast.ClassDef | None = None
    # This is the run over the module's own top level.
    top_level: bool = False
    # Values by expression, for the scopes that rules ask about.
    record: dict[ast.expr, Value] | None = None
    # A rule's "what if": what happens here says nothing of the program to anyone else.
    supposed: bool = False
    returns: list[tuple[Guards, Value]] = field(default_factory=list)
    yields: list[tuple[Guards, Value]] = field(default_factory=list)
    # What was done on the way to objects of known identity, in the functions that were called too.
    happenings: dict[Happening, None] = field(default_factory=dict)
    final: Environment | None = None
    # The states at the returns.
    _ended: list[Environment] = field(default_factory=list)
    _breaks: list[list[Environment]] = field(default_factory=list)
    _continues: list[list[Environment]] = field(default_factory=list)

    def beside(self, function: FunctionModel) -> Frame:
        """A run over another function that hasn't begun: for what names mean there."""
        return Frame(self.analysis, function.source, function)

    @property
    def tells(self) -> bool:
        """Whether what is seen here is remembered for others: calls, and attributes that are missing."""
        return self.record is not None and not self.supposed

    # -- names ---------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value:
        """The value of a plain name, as Python's scopes resolve it."""
        value = self.env.values.get(name)
        if value is not None:
            return self.env.open(value)
        if self.function is None or name not in self.function.local_names:
            outer = self.closure
            while outer is not None:
                found = (outer.final or outer.env).get(name)
                if found is not None:
                    return found
                outer = outer.closure
            if not self.top_level or (self.record is not None and self.source.star_imports):
                return self.analysis.global_value(self.source, name)
        return reference(f"builtins.{name}") if name in BUILTINS else UNKNOWN

    def bind(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """Assigns a value to a target."""
        match target:
            case ast.Name(id=name):
                if value.kind is Kind.UNKNOWN:
                    value = self.analysis.by_evidence(self, name, value)
                self.env.bind(name, value, target.lineno)
                if self.record is not None:
                    self.record[target] = value
            case ast.Attribute() | ast.Subscript():
                evaluate(self, target.value)
                path = access_path(target)
                if path is not None:
                    self.env.bind(path, self._kept_as_buffer(path, value), target.lineno)
                elif isinstance(target, ast.Subscript):
                    evaluate(self, target.slice)
                    self._widen(target.value, value)
                    if self.record is not None:
                        self.record[target] = value
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                self._unpack(elts, value, node)
            case ast.Starred(value=inner):
                self.bind(inner, value, node)

    def _kept_as_buffer(self, path: str, value: Value) -> Value:
        """What is assigned to a registered buffer becomes the buffer: it moves with its module."""
        known = self.env.get(path)
        if known is None or known.kind is not Kind.PARAMETER or known.name != BUFFER:
            return value
        return replace(value, kind=Kind.PARAMETER, name=BUFFER) if value.kind is Kind.TENSOR else value

    def _widen(self, container: ast.expr, value: Value) -> None:
        """`d[k] = v` with a key that isn't known: any element may be `v` now."""
        path = access_path(container)
        known = self.env.get(path) if path else None
        if (
            path
            and known is not None
            and (known.kind is Kind.BATCH or (known.kind is Kind.UNKNOWN and known.place.sort is not Sort.UNKNOWN))
            and value.kind in (Kind.BATCH, Kind.TENSOR, Kind.UNKNOWN)
        ):
            # `for k in batch: batch[k] = batch[k].to(device)` moves the batch, part by part.
            self.env.put(path, replace(known, place=value.place, trail=value.trail, likely=True))
        if path and known is not None and known.kind in (Kind.MAPPING, Kind.SEQUENCE):
            joined = (
                either([(NO_GUARDS, element_of(known)), (NO_GUARDS, value)])
                if element_of(known) is not EMPTY
                else value
            )
            nests = joined.depth < 5
            self.env.put(
                path,
                Value(known.kind, each=joined, depth=joined.depth + 1) if nests else Value(known.kind, each=UNKNOWN),
            )

    def _unpack(self, targets: list[ast.expr], value: Value, node: ast.AST) -> None:
        starred = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
        for target, part in zip(targets, self._parts(value, len(targets), starred), strict=True):
            self.bind(target, part, node)

    def _parts(self, value: Value, count: int, starred: int | None) -> list[Value]:
        """What unpacking a value gives so many names, the rest to the one that is starred."""
        if value.kind is Kind.EITHER and starred is None:
            rows = [[(guards, part) for part in self._parts(option, count, None)] for guards, option in value.options]
            return [either(column) for column in zip(*rows, strict=True)]
        if value.kind is Kind.SEQUENCE and value.elements is not None:
            elements = list(value.elements)
            if starred is not None:
                end = len(elements) - (count - starred - 1)
                rest = element_of(Value(Kind.SEQUENCE, elements=tuple(elements[starred:end])))
                elements[starred:end] = [sequence_of(rest)]
            if len(elements) == count:
                return elements
        each = self.analysis.iterate(value)
        return [sequence_of(each) if i == starred else each for i in range(count)]

    def value_of(self, node: ast.expr) -> Value:
        """The value of an expression at this point."""
        return evaluate(self, node)

    def look_at(self, test: ast.expr) -> None:
        """Evaluates a condition, where somebody may ask what its parts are, or where that changes anything."""
        if self.record is not None or condition_of(test).does_something:
            evaluate(self, test)

    # -- statements ----------------------------------------------------------------------------------------------

    def run(self, body: list[ast.stmt]) -> None:
        """Walks a scope from its first statement, and keeps the state at its end."""
        self.block(body)
        ends = self._ended if self.env.dead else [self.env, *self._ended]
        state = self.env
        for end in ends:
            state = merge(state, end)
        self.final = state

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self.env.dead:
                return
            self.analysis.spend()
            handler = STATEMENTS.get(type(statement))
            if handler is not None:
                if is_too_deep(statement):
                    self._pass_over(statement)
                else:
                    handler(self, statement)

    def _pass_over(self, statement: ast.stmt) -> None:
        """Goes on behind a statement that isn't read: what it binds, and the parts of what it speaks of, are unknown."""
        bound, read = names_in(statement)
        for name in read.intersection(self.env.values):
            self.env.bind(name, self.env.values[name], statement.lineno)
        for name in bound:
            self.env.bind(name, UNKNOWN, statement.lineno)

    def branch(self, env: Environment, body: list[ast.stmt]) -> Environment:
        """The state after a block that starts in `env`."""
        self.env = env
        if not env.dead:
            self.block(body)
        return self.env

    def _expr(self, node: ast.Expr) -> None:
        evaluate(self, node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = evaluate(self, node.value)
        for target in node.targets:
            self.bind(target, value, node)

    def _ann_assign(self, node: ast.AnnAssign) -> None:
        declared = self.analysis.annotations.annotated(self, node.annotation)
        if node.value is None:
            if declared.kind is not Kind.UNKNOWN:
                self.bind(node.target, declared, node)
            return
        value = evaluate(self, node.value)
        self.bind(
            node.target, declared if value.kind is Kind.UNKNOWN and declared.kind is not Kind.UNKNOWN else value, node
        )

    def _aug_assign(self, node: ast.AugAssign) -> None:
        self.bind(node.target, evaluate(self, _sum_of(node)), node)

    def _if(self, node: ast.If) -> None:
        self.look_at(node.test)
        before = self.env
        taken, skipped = before.copy(), before.copy()
        narrowing.assume(self, taken, node.test, True)
        narrowing.assume(self, skipped, node.test, False)
        taken = self.branch(taken, node.body)
        skipped = self.branch(skipped, node.orelse)
        self.env = merge(taken, skipped)
        if condition_of(node.test).asks_for_type and not taken.dead:
            # `if isinstance(v, Tensor): batch[k] = v.to(device)` moves whatever can be moved.
            self.env.values.update({p: v for p, v in taken.values.items() if _is_moved(skipped.values.get(p), v)})

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterable = evaluate(self, node.iter)
        self._loop(node, taken_by(node, self.analysis.iterate(iterable), self.source), None)

    def _while(self, node: ast.While) -> None:
        self._loop(node, None, node.test)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, element: Value | None, test: ast.expr | None) -> None:
        state = self.env
        breaks: list[Environment] = []
        iterated = _iterated(node)
        whole: Value | None = None
        for _ in range(MAX_PASSES):
            self._breaks.append([])
            self._continues.append([])
            env = state.copy()
            self.env = env
            if test is not None:
                self.look_at(test)
                narrowing.assume(self, env, test, True)
            if element is not None and not isinstance(node, ast.While):
                self.bind(node.target, element, node)
            after = self.branch(self.env, node.body)
            for other in self._continues.pop():
                after = merge(after, other)
            breaks = self._breaks.pop()
            joined = merge(state, after)
            if iterated in after.values and iterated in state.values and not after.dead:
                # A loop over a container's parts sees each as it was before: what it does to it holds for the whole after.
                joined.values[iterated], whole = state.values[iterated], after.values[iterated]
            if joined.values == state.values:
                break
            state = joined
        self.env = state
        if whole is not None:
            self.env.values[iterated] = whole
        if test is not None and not breaks:
            narrowing.assume(self, self.env, test, False)
        # `while True` ends by `break` alone.
        if isinstance(test, ast.Constant) and test.value:
            self.env.dead = True
        if node.orelse and not self.env.dead:
            self.branch(self.env, node.orelse)
        for other in breaks:
            self.env = merge(self.env, other)

    def _try(self, node: ast.Try) -> None:
        before = self.env.copy()
        after = self.branch(self.env, node.body)
        ends = []
        entry = merge(before, after.copy()) if not after.dead else before
        for handler in node.handlers:
            env = entry.copy()
            env.dead = False
            if handler.name:
                env.bind(handler.name, UNKNOWN, handler.lineno)
            ends.append(self.branch(env, handler.body))
        state = self.branch(after, node.orelse) if node.orelse else after
        for end in ends:
            state = merge(state, end)
        self.env = state
        if node.finalbody:
            was_dead = self.env.dead
            self.env.dead = False
            self.block(node.finalbody)
            self.env.dead = self.env.dead or was_dead

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = evaluate(self, item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, self.analysis.entered(value), node)
        self.block(node.body)

    def _match(self, node: ast.Match) -> None:
        evaluate(self, node.subject)
        before = self.env
        ends = []
        for case in node.cases:
            env = before.copy()
            for name in _captured(case.pattern):
                env.bind(name, UNKNOWN, node.lineno)
            self.env = env
            self._bind_pattern(case.pattern, access_path(node.subject), node)
            if case.guard is not None:
                self.env = env
                self.look_at(case.guard)
            ends.append(self.branch(env, case.body))
        state = before
        for end in ends:
            state = merge(state, end)
        self.env = state

    def _bind_pattern(self, pattern: ast.pattern, subject: str | None, node: ast.Match) -> None:
        """What a pattern that matched says of what it matched: `case torch.Tensor() as first`."""
        match pattern:
            case ast.MatchAs(pattern=ast.pattern() as inner, name=name):
                self._bind_pattern(inner, name or subject, node)
            case ast.MatchClass(cls=cls) if subject is not None:
                matched = self.analysis.annotations.annotated(self, cls)
                if matched.kind is not Kind.UNKNOWN:
                    self.env.bind(subject, matched, node.lineno)
            case ast.MatchSequence(patterns=patterns):
                for part in patterns:
                    self._bind_pattern(part, None, node)

    def _return(self, node: ast.Return) -> None:
        value = evaluate(self, node.value) if node.value is not None else UNKNOWN
        self.returns.append((self.env.guards, value))
        self._ended.append(self.env.copy())
        self.env.dead = True

    def _end(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Raise) and node.exc is not None and self.record is not None:
            evaluate(self, node.exc)
        waiting = {ast.Break: self._breaks, ast.Continue: self._continues}.get(type(node))
        if waiting:
            waiting[-1].append(self.env.copy())
        self.env.dead = True

    def _assert(self, node: ast.Assert) -> None:
        self.look_at(node.test)
        narrowing.assume(self, self.env, node.test, True)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            path = access_path(target)
            if path:
                self.env.forget(path)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.env.bind(name, reference(alias.name if alias.asname else name), node.lineno)

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = self.source.absolute(node)
        for alias in node.names:
            if alias.name != "*":
                self.env.bind(alias.asname or alias.name, reference(f"{module}.{alias.name}"), node.lineno)

    def _function(self, node: FunctionNode) -> None:
        for default in [
            *node.args.defaults,
            *(d for d in node.args.kw_defaults if d is not None),
            *node.decorator_list,
        ]:
            evaluate(self, default)
        model = self.source.function(node, self.class_node, self.function)
        if not self.supposed:
            self.analysis.closures[model] = self
        self.env.bind(node.name, Value(Kind.FUNCTION, function=model), node.lineno)

    def _class(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            evaluate(self, base)
        # The body runs here and now, with names of its own.
        outer, outer_class = self.env, self.class_node
        self.env, self.class_node = outer.copy(), node
        self.block(node.body)
        self.env, self.class_node = outer, outer_class
        self.env.bind(node.name, self.analysis.objects.class_value(self.source, node), node.lineno)

    def _global(self, node: ast.stmt) -> None:
        pass


def _is_moved(before: Value | None, after: Value) -> bool:
    """Whether the parts of a batch, or of something that holds what was computed, were put elsewhere."""
    if before is None or before.kind is not after.kind or before.kind not in (Kind.BATCH, Kind.UNKNOWN):
        return False
    return before.place != after.place and before.place.sort is not Sort.UNKNOWN


def _iterated(node: ast.For | ast.AsyncFor | ast.While) -> str:
    """The access path of the container whose parts a loop goes through: `d` in `for k, v in d.items():`."""
    if isinstance(node, ast.While):
        return ""
    parts = node.iter
    while isinstance(parts, ast.Call) and (parts.args or isinstance(parts.func, ast.Attribute)):
        parts = parts.args[0] if parts.args else parts.func.value  # type: ignore[attr-defined]
    return access_path(parts) or ""


@kept_on_node
def _sum_of(node: ast.AugAssign) -> ast.BinOp:
    """`x + y` of `x += y`. Rules ask about the statement: the sum is in nobody's tree, and names it."""
    combined = ast.copy_location(ast.BinOp(_as_load(node.target), node.op, node.value), node)
    setattr(combined, "devlint_statement", node)  # noqa: B010 - ast.BinOp declares no such field
    return combined


def _as_load(target: ast.expr) -> ast.expr:
    """The same target, read instead of written."""
    match target:
        case ast.Name(id=name):
            node: ast.expr = ast.Name(name, ast.Load())
        case ast.Attribute(value=value, attr=attr):
            node = ast.Attribute(value, attr, ast.Load())
        case ast.Subscript(value=value, slice=index):
            node = ast.Subscript(value, index, ast.Load())
        case _:
            return target
    return ast.copy_location(node, target)


def _captured(pattern: ast.pattern) -> list[str]:
    found = []
    for node in ast.walk(pattern):
        if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            found.append(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.append(node.rest)
    return found


STATEMENTS: dict[type[ast.stmt], Callable[[Frame, Any], None]] = {
    ast.Expr: Frame._expr,
    ast.Assign: Frame._assign,
    ast.AnnAssign: Frame._ann_assign,
    ast.AugAssign: Frame._aug_assign,
    ast.If: Frame._if,
    ast.For: Frame._for,
    ast.AsyncFor: Frame._for,
    ast.While: Frame._while,
    ast.Try: Frame._try,
    ast.TryStar: Frame._try,
    ast.With: Frame._with,
    ast.AsyncWith: Frame._with,
    ast.Match: Frame._match,
    ast.Return: Frame._return,
    ast.Raise: Frame._end,
    ast.Break: Frame._end,
    ast.Continue: Frame._end,
    ast.Assert: Frame._assert,
    ast.Delete: Frame._delete,
    ast.Import: Frame._import,
    ast.ImportFrom: Frame._import_from,
    ast.FunctionDef: Frame._function,
    ast.AsyncFunctionDef: Frame._function,
    ast.ClassDef: Frame._class,
}

BUILTINS = frozenset(dir(__import__("builtins")))
