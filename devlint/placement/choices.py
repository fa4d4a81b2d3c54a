"""Choices that no call makes: code under a test that the arguments of all calls in sight decide, or the defaults that they leave."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from devlint.regexes import regex
from devlint.signatures.answers.callees import Callee
from devlint.signatures.state.classes import ClassInfo
from devlint.source.modules import FunctionModel, SourceModule, last_name
from devlint.source.uses import uses_of

# What a parameter is given is followed through so many calls.
MAX_DEPTH = 3
# A function that is called from more places than these is used in every way there is.
MAX_CALLS = 30
# So many files may name a function; where there are more, not all of them are known.
MAX_FILES = 12

# A value that isn't told, and one of which nothing is told but that it is neither a tensor nor None: a number, a tuple.
_OPEN = object()
_THERE = object()
_EITHER = frozenset({True, False})
# Decorators of functions that only their calls run.
_PLAIN = regex(
    r"(?:\w+\.){0,3}(?:staticmethod|classmethod|no_grad|inference_mode|enable_grad|compile|disable|script|autocast|lru_cache|cache|contextmanager)"
)
# Names of so many things that a call of a method says nothing of who is called.
_ANYBODYS = regex(r"__\w+__|forward|step|run|call|apply|get|set|update|add|build|main|train|eval|load|save|init")


class File(Protocol):
    """What is asked of the model of a file, and of those that import it."""

    @property
    def source(self) -> SourceModule: ...
    def files_naming(self, name: str) -> Sequence[File]: ...
    def files_matching(self, pattern: str, most: int) -> Sequence[File]: ...
    def kept_as(self, cls: str) -> frozenset[str] | None: ...
    def texts_match(self, pattern: str, *, elsewhere: bool = ...) -> bool: ...
    def class_info(self, node: ast.ClassDef) -> ClassInfo: ...
    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]: ...
    @property
    def choices(self) -> Choices: ...
    def is_off(self, node: ast.AST, depth: int = ...) -> bool: ...
    def is_unused(self, node: ast.AST) -> bool: ...


class Choices:
    """Answers for one file which of its code no call in sight chooses."""

    def __init__(self, model: File) -> None:
        self._model = model
        self._calls: dict[FunctionModel, list[tuple[File, ast.Call]] | None] = {}

    def is_never_made(self, node: ast.AST) -> bool:
        """Whether each call in sight of a node's function, and there are some, decides a test around the node against it."""
        tests: list[tuple[ast.expr, bool]] = []
        child = node
        for parent in self._model.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                tests += _exits_before(parent, child)
                return bool(tests) and self._excludes(self._model.source.function_at(parent), tests)
            if isinstance(parent, (ast.Lambda, ast.ClassDef)):
                return False
            tests += (*tests_around(parent, child), *_exits_before(parent, child))
            child = parent
        return False

    def _excludes(self, function: FunctionModel, tests: list[tuple[ast.expr, bool]]) -> bool:
        names = _untouched(function)
        tests = [(_spelt_out(test, function), holds) for test, holds in tests]
        kept = self._kept_till(function, tests)
        tests = [
            t
            for t in tests
            if _asked_for_kind(t[0]) in kept or any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(t[0]))
        ]
        names |= kept
        calls = self.calls_of(function) if tests else None
        if not calls:
            return False
        asked = {n.id for test, _ in tests for n in ast.walk(test) if isinstance(n, ast.Name) and n.id in names}
        for file, call in calls:
            known = {name: _given(file, function, call, name) for name in asked}
            # What nothing leads to calls nothing.
            if all(holds in _outcomes(test, known) for test, holds in tests) and not file.is_unused(call):
                return False
        return True

    def _kept_till(self, function: FunctionModel, tests: list[tuple[ast.expr, bool]]) -> frozenset[str]:
        """The parameters that tests ask whether they are there, or tensors, and that are set anew later, or only where they are."""
        asked = {name: test for test, _ in tests if (name := _asked_for_kind(test))}
        stored = [
            n for n in function.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in asked
        ]
        lost = {n.id for n in stored if n.lineno < asked[n.id].lineno and not self._is_for_tensors(n)}
        looped = any(isinstance(p, (ast.For, ast.While)) for t in asked.values() for p in self._model.ancestors(t))
        return frozenset() if looped else frozenset(asked.keys() & {a.arg for a in function.parameters} - lost)

    def _is_for_tensors(self, name: ast.Name) -> bool:
        """Whether a name is set where it holds a tensor already."""
        child: ast.AST = name
        for parent in self._model.ancestors(name):
            if any(holds and _asked_for_tensor(test) == name.id for test, holds in tests_around(parent, child)):
                return True
            child = parent
        return False

    def calls_of(self, function: FunctionModel) -> list[tuple[File, ast.Call]] | None:
        """The calls of a function, each with its file; None where others may call it as well."""
        if function not in self._calls:
            self._calls[function] = self._all_calls(function)
        return self._calls[function]

    def ways_to(self, function: FunctionModel) -> Iterator[list[tuple[File, ast.Call]]]:
        """The calls of a function, where all are in sight, and those that make the objects of its class."""
        made = self._calls_by_name(function.cls.name) if function.cls in self._model.source.tree.body else None
        yield from filter(None, (self.calls_of(function), made))

    def _all_calls(self, function: FunctionModel) -> list[tuple[File, ast.Call]] | None:
        name, model = function.name, self._model
        if name == "forward" and function.cls is not None and model.class_info(function.cls).is_module:
            return self._calls_of_modules(function.cls.name)
        if name == "__init__" and function.cls in model.source.tree.body:
            return self._calls_by_name(function.cls.name)
        if not all(map(_PLAIN.fullmatch, function.decorators)):
            return None
        if function.cls is None:
            if function.parent is not None:
                return self._calls_in(name, [model])
            return self._calls_of_usual(name) if _ANYBODYS.fullmatch(name) else self._calls_by_name(name)
        if _ANYBODYS.fullmatch(name):
            return None
        info = model.class_info(function.cls)
        if (not info.is_module and info.outside_bases) or info.inherited_method(name) is not None:
            # The class that it is derived from may call it.
            return None
        saying = self._files_saying(rf"(?<!def )\b{name}\b")
        return self._calls_in(name, saying) if saying is not None else None

    def _calls_by_name(self, name: str) -> list[tuple[File, ast.Call]] | None:
        """The calls of what stands at the top of this file, here and where it is imported; None where it is handed on."""
        return self._calls_in(name, [self._model, *self._model.files_naming(name)])

    def _calls_of_usual(self, name: str) -> list[tuple[File, ast.Call]] | None:
        """The same of a function of such a name that `net.train()` says nothing of it; None where it has another name, or what starts it may give anything."""
        if self._model.texts_match(
            rf"\b{name}\s+as\s+\w|\bFire\(|\bglobals\(\)|\.{name}\b(?!\()|:{name}\b|\b{self._model.source.file.stem}\.{name}\b"
        ):
            return None
        calls = self._calls_by_name(name)
        return [(file, call) for file, call in calls if isinstance(call.func, ast.Name)] if calls is not None else None

    def _calls_in(self, name: str, files: Sequence[File]) -> list[tuple[File, ast.Call]] | None:
        found: list[tuple[File, ast.Call]] = []
        for file in files:
            uses = uses_of(file.source, name)
            if uses.is_handed_on:
                return None
            found += [(file, call) for call in uses.calls]
        return found if len(found) <= MAX_CALLS and len(files) <= MAX_FILES else None

    def _files_saying(self, pattern: str) -> list[File] | None:
        """This file, and the others that match; None where these are too many."""
        others = self._model.files_matching(pattern, MAX_FILES)
        if not others and self._model.texts_match(pattern, elsewhere=True):
            return None
        return [self._model, *others]

    def _calls_of_modules(self, cls: str) -> list[tuple[File, ast.Call]] | None:
        """The calls of what the project keeps a class's objects as; None where they may be called under other names."""
        names = self._model.kept_as(cls)
        if not names:
            return None
        files = self._files_saying(rf"\b(?:{'|'.join(sorted(names))})\b")
        if files is None:
            return None
        found: list[tuple[File, ast.Call]] = []
        for file in files:
            calls = [call for name in (*names, "self") for call in uses_of(file.source, name).calls]
            calls += [c for c in uses_of(file.source, "forward").calls if last_name(_object_of(c)) in (*names, "self")]
            found += [(file, call) for call in calls]
        return found if len(found) <= MAX_CALLS else None


def _object_of(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def tests_around(parent: ast.AST, child: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """The tests that `child` runs under by standing in `parent`, each with its outcome."""
    match parent:
        case ast.If(test=test, body=body, orelse=orelse):
            if child in body or child in orelse:
                yield test, child in body
        case ast.IfExp(test=test, body=body) if child is not test:
            yield test, child is body
        case ast.BoolOp(op=op, values=values):
            for value in values[: next((at for at, value in enumerate(values) if value is child), 0)]:
                yield value, isinstance(op, ast.And)


def _exits_before(parent: ast.AST, child: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """The tests that `child` runs behind, as the block that both are in is left where they hold: `if eps == 0: return x`."""
    for before in _before(parent, child):
        match before:
            case ast.If(test=test, body=[*_, ast.Return() | ast.Raise() | ast.Continue() | ast.Break()]):
                yield test, False


def never_runs(file: File, statement: ast.stmt) -> bool:
    """Whether a statement is switched off by a literal (`if 0:`, the `else` of `if True:`), or stands behind what leaves its block."""
    child: ast.AST = statement
    for parent in file.ancestors(statement):
        for test, wanted in tests_around(parent, child):
            if isinstance(test, ast.Constant) and bool(test.value) is not wanted:
                return True
        if _is_behind_exit(parent, child):
            return True
        child = parent
    return False


def _is_behind_exit(parent: ast.AST, child: ast.AST) -> bool:
    return any(isinstance(s, (ast.Return, ast.Raise, ast.Break, ast.Continue)) for s in _before(parent, child))


def _before(parent: ast.AST, child: ast.AST) -> Sequence[ast.AST]:
    """The statements of a block of `parent` before one of them."""
    for block in ("body", "orelse", "finalbody"):
        statements = getattr(parent, block, None)
        if isinstance(statements, list) and child in statements:
            return statements[: statements.index(child)]
    return ()


def _spelt_out(test: ast.expr, function: FunctionModel) -> ast.expr:
    """A test, or what its one name is given once in the function: `clamps = number > 0`."""
    match test:
        case ast.Name(id=name) if name not in {a.arg for a in function.parameters}:
            values = function.assigned.get(name, ())
            if len(values) == 1 and isinstance(values[0], (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Name)):
                return values[0]
    return test


def _untouched(function: FunctionModel) -> frozenset[str]:
    """The parameters that hold what they were given all along."""
    return frozenset(a.arg for a in function.parameters) - function.outline.bound - {"self", "cls"}


# The parameters that a value has come by.
_Way = frozenset[tuple[FunctionModel, str]]


def _given(
    file: File, function: FunctionModel, call: ast.Call, name: str, way: _Way = frozenset()
) -> tuple[object, ...]:
    """What a call gives a parameter, as far as that is told."""
    called = Callee(function, function.cls is not None and not function.is_static)
    if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return (_OPEN,)
    given = called.given(call).get(name)
    match given:
        case ast.Name(id=other):
            return _handed_on(file, call, other, way)
        # `at=at[i] if at is not None else None`
        case ast.IfExp(
            test=ast.Compare(left=ast.Name(id=other), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]),
            orelse=left,
        ):
            is_never_given = set(_handed_on(file, call, other, way)) == {None}
            return _values(left if is_never_given else given)
    return _values(function.defaults.get(name) if given is None else given)


def _values(node: ast.expr | None) -> tuple[object, ...]:
    """What an expression may give, where that is spelt out: `True if training else None`, `length > 3`."""
    match node:
        case ast.Constant(value=value):
            return (value,)
        case ast.IfExp(body=body, orelse=other):
            return (*_values(body), *_values(other))
        case ast.UnaryOp(op=ast.Not()):
            return (True, False)
        case (
            ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant() | ast.UnaryOp())
            | ast.Call(func=ast.Attribute(attr="size"), args=[_])
            | ast.Call(func=ast.Name(id="len"))
            | ast.Tuple()
            | ast.List()
            | ast.Dict()
        ):
            return (_THERE,)
    return (_OPEN,)


def _handed_on(file: File, call: ast.Call, name: str, way: _Way) -> tuple[object, ...]:
    """What a parameter of the function that a call stands in may hold: nothing of its own where it hands on what it was given there."""
    around = next((p for p in file.ancestors(call) if isinstance(p, (ast.FunctionDef, ast.AsyncFunctionDef))), None)
    if around is None:
        return (_OPEN,)
    caller = file.source.function_at(around)
    if name in caller.assigned and name not in {p.arg for p in caller.parameters}:
        return tuple(value for given in caller.assigned[name] for value in _values(given))
    if (caller, name) in way:
        return ()
    calls = file.choices.calls_of(caller) if name in _untouched(caller) and len(way) < MAX_DEPTH else None
    if not calls:
        return (_OPEN,)
    way |= {(caller, name)}
    return tuple(value for other, node in calls for value in _given(other, caller, node, name, way))


def _outcomes(test: ast.expr, known: dict[str, tuple[object, ...]]) -> frozenset[bool]:
    """How a test may come out where names hold one of some values."""
    match test:
        case ast.Constant(value=value):
            return frozenset({bool(value)})
        case ast.Name(id=name):
            return _each(known.get(name, (_OPEN,)), bool)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return frozenset(not outcome for outcome in _outcomes(operand, known))
        case ast.BoolOp(op=op, values=values):
            decides = isinstance(op, ast.Or)
            told = [_outcomes(value, known) for value in values]
            found = {decides} if any(decides in outcomes for outcomes in told) else set()
            return frozenset(found | ({not decides} if all((not decides) in outcomes for outcomes in told) else set()))
        case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[right]):
            compared, other = _COMPARED.get(type(op)), _constants(right)
            if other is None and isinstance(op, (ast.Is, ast.IsNot)):
                # No number is None.
                wanted = isinstance(op, ast.Is)
                return _each(known.get(name, (_OPEN,)), lambda value: (value is None) == wanted, of_all=True)
            if compared is not None and other is not _OPEN:
                return _each(known.get(name, (_OPEN,)), lambda value: compared(value, other))
        case ast.Call(func=func, args=[ast.Name(id=name), *rest]) if _asks_for_tensor(func, rest):
            # What is spelt out is none.
            return _each(known.get(name, (_OPEN,)), lambda value: False, of_all=True)
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), _]):
            return _each(known.get(name, (_OPEN,)), lambda value: None if value is not None else False)
    return _EITHER


def _asked_for_kind(test: ast.expr) -> str:
    """The name that a test asks whether it is a tensor, or None, or whether there is anything."""
    match test:
        case ast.Name(id=name):
            return name
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return name
    return _asked_for_tensor(test)


def _asked_for_tensor(test: ast.expr) -> str:
    """The name that a test asks whether it is a tensor."""
    match test:
        case ast.Call(func=func, args=[ast.Name(id=name), *rest]) if _asks_for_tensor(func, rest):
            return name
    return ""


def _asks_for_tensor(function: ast.expr, more: list[ast.expr]) -> bool:
    """`torch.is_tensor(x)`, `isinstance(x, torch.Tensor)`"""
    asked = last_name(function)
    kinds = [last_name(n) for n in more if isinstance(n, (ast.Name, ast.Attribute))]
    return asked == "is_tensor" or (asked == "isinstance" and kinds == ["Tensor"])


def _each(values: Sequence[object], asked: Callable[[object], object], *, of_all: bool = False) -> frozenset[bool]:
    """How a question comes out for each of some values: either way where it can't be told (None).

    `of_all`: it is answered alike for all that are neither tensors nor None.
    """
    found = set[bool]()
    for value in values:
        try:
            told = asked(value) if value is not _OPEN and (value is not _THERE or of_all) else None
        except TypeError:
            told = None
        found |= {told} if isinstance(told, bool) else _EITHER
    return frozenset(found)


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, among: value in among if isinstance(among, tuple) else None,
    ast.NotIn: lambda value, among: value not in among if isinstance(among, tuple) else None,
}


def _constants(node: ast.expr) -> object:
    """A constant, or a tuple of those that are spelt out."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts):
            found = tuple(_constants(part) for part in elts)
            return _OPEN if _OPEN in found else found
    return _OPEN
