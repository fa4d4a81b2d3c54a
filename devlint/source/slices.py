"""What some lines of a long function hang on: its other statements are left out where only those lines are asked about."""

from __future__ import annotations

import ast
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from devlint.source.modules import blocks_of, bound_names
from devlint.source.trees import touches, walk

# A function of no more lines than these is read as it is.
LONG = 60
# So many of its statements are kept for what they bind, before the rest is taken for unknown.
ROOM = 16
# Of a class of more lines, the methods that aren't used are hidden.
LONG_CLASS = 200
# So many functions that call one another are looked through.
MOST_CALLERS = 4

# Calls that make each pass of a loop a step, whichever names they are about.
_STEPS = frozenset({"backward", "step", "zero_grad"})
# What tells something and changes nothing.
_TELLING = frozenset({"print", "log", "logger", "logging", "_logger", "warnings", "tqdm"})
# What a test may say of the machine.
_MACHINE = frozenset({"torch", "device", "cuda"})

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Block = list[ast.stmt]


@dataclass
class _Statement:
    """A statement of a function, with those that it stands in, outermost first."""

    node: ast.stmt
    around: tuple[ast.stmt, ...]


@dataclass
class _Slice:
    """The statements that matter, found backwards from those that are asked about."""

    room: int
    kept: set[ast.stmt] = field(default_factory=set)
    # What stands in the place of statements for which there is no room: their names are bound, to nobody knows what.
    instead: dict[ast.stmt, ast.stmt] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _waiting: deque[str] = field(default_factory=deque)
    _changing: defaultdict[str, list[_Statement]] = field(default_factory=lambda: defaultdict(list))

    def offer(self, statement: _Statement) -> None:
        """Takes in a statement that matters once one of the names that it binds or changes does."""
        for name in _changed_by(statement):
            self._changing[name].append(statement)

    def keep(self, statement: _Statement) -> None:
        """Keeps a statement, and those around it: what they read matters."""
        for node in (*statement.around, statement.node):
            if node not in self.kept:
                self.kept.add(node)
                self.ask(_read_by(node))

    def ask(self, names: Iterable[str]) -> None:
        """Takes in names that matter."""
        for name in names:
            if name not in self._names:
                self._names.add(name)
                self._waiting.append(name)

    def close(self) -> None:
        """Keeps what the kept statements hang on, the nearest first, as far as there is room."""
        while self._waiting:
            group = [s for s in self._changing.pop(self._waiting.popleft(), ()) if s.node not in self.kept]
            has_room = len(group) <= self.room
            self.room -= len(group) if has_room else 0
            for statement in group:
                if has_room:
                    self.keep(statement)
                elif names := [*_bound_by(statement.node)]:
                    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
                    self.instead[statement.node] = _unknown(targets, statement.node)


def leave_out(tree: ast.Module, text: str, within: range) -> None:
    """Takes out of a file what some lines of a function don't hang on. The tree is changed.

    Of that function, and of those that call it, what the lines hang on stays; of their class what those use. What is left
    out leaves its names behind, bound to what nobody knows.
    """
    places = _around(tree, within)
    if len(places) != 1:
        return
    [asked] = places
    thinned: set[ast.stmt] = set()
    waiting = [(asked, within)]
    while waiting:
        place, lines = waiting.pop()
        if place.function not in thinned:
            thinned.add(place.function)
            _leave_out_of(place.function, lines)
            if len(thinned) <= MOST_CALLERS:
                calls = (range(line, line + 1) for line in _calls_of(place.function, text))
                waiting += [(caller, line) for line in calls for caller in _around(tree, line)]
    if asked.cls is not None and _end(asked.cls) - asked.cls.lineno >= LONG_CLASS:
        _hide_methods(asked.cls, asked.function, thinned)
        for method in asked.cls.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__" and method not in thinned:
                others = (other for other in asked.cls.body if other is not method)
                used = {n.attr for other in others for n in walk(other) if isinstance(n, ast.Attribute)}
                _leave_out_of_constructor(method, used)


def _hide_methods(cls: ast.ClassDef, function: _Function, kept: set[ast.stmt]) -> None:
    """Hides what the methods of a class do that one of them doesn't call by itself."""
    methods = [s for s in cls.body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef))]
    used = {n.attr for n in walk(function) if isinstance(n, ast.Attribute)}
    for method in methods:
        if method not in kept and method.name not in used and not method.name.startswith("__"):
            _hide(method)


def _hide(method: _Function) -> None:
    """Leaves of a method what it sets or changes, and that it gives something."""
    if not method.args.args:
        return
    first = method.body[0]
    method.body = [*_unknown_of(method, _set_by(method)), _located(ast.Return(_nobody_knows()), first)]


def _set_by(method: _Function) -> set[str]:
    """The attributes of its object that a method sets or changes."""
    me = f"{method.args.args[0].arg}."
    changed = (name for s in _statements(method.body, ()) for name in _changed_by(s))
    return {name.removeprefix(me) for name in changed if name.startswith(me)}


def _unknown_of(method: _Function, names: Iterable[str]) -> list[ast.stmt]:
    """A statement that sets attributes of a method's object to what nobody knows, if there are any."""
    me = ast.Name(method.args.args[0].arg, ast.Load())
    targets: list[ast.expr] = [ast.Attribute(me, name, ast.Store()) for name in sorted(names)]
    return [_unknown(targets, method.body[0])] if targets else []


def _leave_out_of(function: _Function, within: range) -> None:
    """Takes out of one function what some of its lines don't hang on."""
    if (function.end_lineno or 0) - function.lineno < LONG:
        return
    found = _Slice(ROOM)
    for statement in _statements(function.body, ()):
        if statement.node.lineno >= within.stop and not _again(statement, within):
            continue
        if touches(statement.node, within) or _stays(statement, within):
            found.keep(statement)
        else:
            found.offer(statement)
    found.close()
    _thin(function, found)


def _leave_out_of_constructor(method: ast.FunctionDef, used: set[str]) -> None:
    """Takes out of a constructor what doesn't set the attributes that are used, nor what those hang on."""
    if not method.args.args or _end(method) - method.lineno < LONG:
        return
    me = method.args.args[0].arg
    found = _Slice(ROOM)
    for statement in _statements(method.body, ()):
        if isinstance(statement.node, (ast.Import, ast.ImportFrom)) or _is_super(statement.node):
            found.keep(statement)
        else:
            found.offer(statement)
    found.ask(f"{me}.{name}" for name in sorted(used))
    found.close()
    known = _set_by(method)
    _thin(method, found)
    method.body = [*_unknown_of(method, known - _set_by(method)), *method.body]


def _is_super(node: ast.stmt) -> bool:
    """Whether a statement calls the class's base."""
    return isinstance(node, ast.Expr) and any(isinstance(n, ast.Name) and n.id == "super" for n in walk(node))


def _calls_of(function: _Function, text: str) -> list[int]:
    """The lines of other functions that seem to call a function."""
    # With a name to begin with, it is found fast.
    starts = [match.start() for match in re.finditer(rf"{function.name}\s*\(", text)]
    is_whole = (start == 0 or not (text[start - 1].isalnum() or text[start - 1] == "_") for start in starts)
    lines = [text.count("\n", 0, start) + 1 for start, whole in zip(starts, is_whole, strict=True) if whole]
    return [line for line in lines if not function.lineno <= line <= _end(function)]


@dataclass
class _Place:
    """An outermost function, and the class that it is a method of."""

    function: _Function
    cls: ast.ClassDef | None


def _around(tree: ast.Module, within: range) -> list[_Place]:
    """The outermost functions that stand on some lines."""
    found: list[_Place] = []
    waiting: list[tuple[ast.stmt, ast.ClassDef | None]] = [(s, None) for s in tree.body]
    while waiting:
        statement, cls = waiting.pop()
        if touches(statement, within):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(_Place(statement, cls))
                continue
            cls = statement if isinstance(statement, ast.ClassDef) else cls
            waiting += [(inner, cls) for block in blocks_of(statement) for inner in block]
    return found


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _statements(block: _Block, around: tuple[ast.stmt, ...]) -> Iterator[_Statement]:
    for node in block:
        yield _Statement(node, around)
        for inner in blocks_of(node):
            yield from _statements(inner, (*around, node))


def _stays(statement: _Statement, within: range) -> bool:
    """Whether a statement matters whatever is asked about: names of modules, and what makes a loop around one of steps."""
    match statement.node:
        case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name in _STEPS:
            loops = [n for n in statement.around if isinstance(n, (ast.For, ast.AsyncFor, ast.While))]
            return any(touches(loop, within) for loop in loops)
    return False


def _again(statement: _Statement, within: range) -> bool:
    """Whether a statement may run before lines that stand above it: in a loop around both."""
    loops = [n for n in statement.around if isinstance(n, (ast.For, ast.AsyncFor, ast.While))]
    return any(touches(loop, within) for loop in loops)


def _changed_by(statement: _Statement) -> Iterator[str]:
    """The names that a statement binds, changes what they stand for, or says something of by leaving."""
    match statement.node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from _roots(target)
        case (
            ast.AugAssign(target=target)
            | ast.AnnAssign(target=target)
            | ast.For(target=target)
            | ast.AsyncFor(target=target)
        ):
            yield from _roots(target)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from _roots(item.optional_vars)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Expr(value=ast.Await(value=ast.Call() as call)) | ast.Expr(value=ast.Call() as call):
            yield from _changed_in(call)
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            for parent in statement.around[-1:]:
                if isinstance(parent, ast.If):
                    yield from _read_in(parent.test)
        case ast.Assert(test=test):
            yield from _read_in(test)


def _changed_in(call: ast.Call) -> Iterator[str]:
    """The names of what a call may change: what it is a method of, and what it is given."""
    match call.func:
        case ast.Attribute(value=owner):
            if not _TELLING.isdisjoint(_roots(owner)):
                return
            yield from _roots(owner)
        case ast.Name(id=name) if name in _TELLING:
            return
    for given in (*call.args, *(k.value for k in call.keywords)):
        if isinstance(given, (ast.Name, ast.Attribute, ast.Starred)):
            yield from _roots(given)


def _roots(node: ast.expr) -> Iterator[str]:
    """The name that an expression begins with, `self.model` being one."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _roots(part)
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            yield f"{name}.{attr}"
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value) | ast.Call(func=value):
            yield from _roots(value)


def _read_by(node: ast.stmt) -> Iterable[str]:
    """The names that a statement speaks of; of a compound one what stands before its blocks."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return _read_in(node)
    match node:
        case ast.If(test=test) | ast.While(test=test):
            return _read_in(test)
        case ast.For(iter=header) | ast.AsyncFor(iter=header):
            return _read_in(header)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return {name for item in items for name in _read_in(item.context_expr)}
        case ast.Try() | ast.TryStar():
            return ()
        case ast.Match(subject=subject):
            return _read_in(subject)
    return _read_in(node)


def _read_in(node: ast.AST) -> set[str]:
    found = set()
    for part in walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            found.add(f"{part.value.id}.{part.attr}")
    return found - {"self"}


def _bound_by(node: ast.stmt) -> Iterator[str]:
    """The plain names that a statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    yield from bound_names(node)


def _unknown(targets: list[ast.expr], at: ast.stmt) -> ast.stmt:
    """A statement that binds something to what nobody knows."""
    return _located(ast.Assign(targets, _nobody_knows()), at)


def _nobody_knows() -> ast.expr:
    return ast.Call(ast.Name("eval", ast.Load()), [], [])


def _located(made: ast.stmt, at: ast.stmt) -> ast.stmt:
    for node in walk(made):
        ast.copy_location(node, at)
    return made


def _thin(function: _Function, found: _Slice) -> None:
    """Leaves in the blocks of a function what was found; nested definitions stay whole."""
    waiting: list[ast.AST] = [function]
    while waiting:
        node = waiting.pop()
        for name in ("body", "orelse", "finalbody"):
            block: _Block = getattr(node, name, [])
            if block:
                left = [s if s in found.kept else found.instead.get(s) for s in block]
                some = [s for s in left if s is not None]
                setattr(node, name, some or ([ast.copy_location(ast.Pass(), block[0])] if name == "body" else []))
                waiting += [s for s in some if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
        waiting += [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]
