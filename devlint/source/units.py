"""Where the lines that bear a trigger stand: the smallest statements and headers around them."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from devlint.records import record
from devlint.source.modules import FunctionModel, SourceModule, blocks_of


@record(frozen=True)
class Unit:
    """A piece of source that is looked at by itself: a simple statement, or an expression in a compound one's header."""

    node: ast.stmt | ast.expr
    # The statement that it is or belongs to.
    statement: ast.stmt
    # The function that it runs in; None at a module's top level.
    scope: FunctionModel | None

    @property
    def is_statement(self) -> bool:
        return isinstance(self.node, ast.stmt)


def units_at(source: SourceModule, lines: Sequence[int]) -> Iterator[Unit]:
    """The units that touch one of the given lines (sorted)."""
    # Not by recursion: each `elif` is a block in the block before.
    waiting: list[tuple[ast.stmt, FunctionModel | None, ast.ClassDef | None]] = []

    def add(body: list[ast.stmt], scope: FunctionModel | None, cls: ast.ClassDef | None) -> None:
        waiting.extend((statement, scope, cls) for statement in reversed(_near(source, body, lines)))

    add(source.tree.body, None, None)
    while waiting:
        statement, scope, cls = waiting.pop()
        if not _touches(lines, _start_of(statement), statement.end_lineno or statement.lineno):
            continue
        blocks = blocks_of(statement)
        if not blocks:
            yield Unit(statement, statement, scope)
            continue
        for header in _headers(statement):
            if _touches(lines, header.lineno, header.end_lineno or header.lineno):
                yield Unit(header, statement, scope)
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope, cls = source.function(statement, cls, scope), None
        elif isinstance(statement, ast.ClassDef):
            cls = statement
        for block in reversed(blocks):
            add(block, scope, cls)


def _start_of(statement: ast.stmt) -> int:
    """The line on which a statement starts, with its decorators."""
    decorators = getattr(statement, "decorator_list", None)
    return min([statement.lineno, *(d.lineno for d in decorators)]) if decorators else statement.lineno


def all_functions(source: SourceModule) -> list[FunctionModel]:
    """Every function and method of a module, outer ones first."""
    if source.functions is None:
        source.functions = list(_functions_in(source))
    return source.functions


def _functions_in(source: SourceModule) -> Iterator[FunctionModel]:
    # Not by recursion: each `elif` is a block in the block before.
    waiting: list[tuple[ast.stmt, ast.ClassDef | None, FunctionModel | None]] = []

    def add(body: list[ast.stmt], cls: ast.ClassDef | None, parent: FunctionModel | None) -> None:
        waiting.extend((statement, cls, parent) for statement in reversed(body))

    add(source.tree.body, None, None)
    while waiting:
        statement, cls, parent = waiting.pop()
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            model = source.function(statement, cls, parent)
            yield model
            add(statement.body, None, model)
        elif isinstance(statement, ast.ClassDef):
            add(statement.body, statement, parent)
        else:
            for block in reversed(blocks_of(statement)):
                add(block, cls, parent)


def _near(source: SourceModule, body: list[ast.stmt], lines: Sequence[int]) -> list[ast.stmt]:
    """The statements of a block that may touch one of the lines, and others where the block is short."""
    if len(body) <= max(len(lines), _SHORT):
        return body
    # A generated file may have thousands of definitions, and each one's callers are looked for.
    starts = source.starts_of(body)
    touched = {
        position
        for line in lines
        # Those that start on the line, and the one before, which may end on it.
        for position in range(max(bisect_left(starts, line) - 1, 0), bisect_right(starts, line))
    }
    return [body[position] for position in sorted(touched)]


# Looking through a block of so many statements costs less than telling where they start.
_SHORT = 20


def _touches(lines: Sequence[int], start: int, end: int) -> bool:
    position = bisect_left(lines, start)
    return position < len(lines) and lines[position] <= end


def _headers(statement: ast.stmt) -> list[ast.expr]:
    """The expressions of a compound statement outside its blocks."""
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            return [test]
        case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
            return [iterated]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return [i.context_expr for i in items]
        case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
            return [
                *statement.decorator_list,
                *arguments.defaults,
                *(d for d in arguments.kw_defaults if d is not None),
            ]
        case ast.ClassDef(bases=bases, keywords=keywords):
            return [*statement.decorator_list, *bases, *(k.value for k in keywords)]
        case ast.Match(subject=subject, cases=cases):
            return [subject, *(c.guard for c in cases if c.guard is not None)]
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            return [h.type for h in handlers if h.type is not None]
    return []
