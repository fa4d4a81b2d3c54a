"""Guards: tests that keep code from running each time that its function is called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Protocol

from devlint.placement.choices import Choices, tests_around
from devlint.placement.cold import ColdCode, File
from devlint.placement.occasions import flat, says
from devlint.regexes import regex
from devlint.source.modules import SourceModule, bound_names, last_name
from devlint.source.trees import kept_on_node, walk

# Tests that keep code from running while somebody waits for it: kernels are compiled, graphs captured, caches filled.
_APART = regex(
    r"is_(?:current_stream_)?capturing|is_(?:torchdynamo_)?compiling|_cache\b|cached|\bcache\b|is_profil\w*|is_dummy|first_(?:run|call|time)|hasattr\(self"
)


class Asked(File, Protocol):
    """What is asked of the model of a file."""

    @property
    def source(self) -> SourceModule: ...
    def project_gives(self, name: str) -> bool: ...
    def texts_match(self, pattern: str, *, elsewhere: bool = ...) -> bool: ...
    @property
    def choices(self) -> Choices: ...


class Guards:
    """What keeps a node from running on each call of its function."""

    def __init__(self, model: Asked) -> None:
        self._model = model
        self._cold = ColdCode(model)

    def is_cold(self, node: ast.AST) -> bool:
        """Whether a node runs on some calls only: under a step guard, for a cache, on an error path, in evaluation."""
        child = node
        checks: list[str] = []
        for parent in self._model.ancestors(node):
            if self._cold.is_cold(parent, child) or _is_apart(parent, child) or self._grows(parent, child):
                return True
            checks += _checks(parent, child)
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return _are_off(parent, checks) or self.is_off(node) or self._model.choices.is_never_made(node)
            child = parent
        return False

    def is_rare(self, node: ast.AST) -> bool:
        """Whether a node runs now and then: each so many steps, for somebody who looks, on an error path."""
        child = node
        for parent in self._model.ancestors(node):
            if self._cold.is_cold(parent, child):
                return True
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return False
            child = parent
        return False

    def is_off(self, node: ast.AST) -> bool:
        """Whether a node runs only where somebody gives a flag, and nobody does, or where the program says itself that it is off."""
        child = node
        flags: list[ast.expr] = []
        for parent in self._model.ancestors(node):
            flags += _flags(parent, child)
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return any(self._stays_off(flag, parent) for flag in flags) or self._is_set_off(node)
            child = parent
        return self._is_set_off(node)

    def _is_set_off(self, node: ast.AST) -> bool:
        """Whether a node runs only where a name is on that its scope, or the file, sets once, and to what is off.

        `checkpoint = None`, which whoever needs one changes.
        """
        child, asked = node, list[tuple[str, bool]]()
        scope: ast.FunctionDef | ast.AsyncFunctionDef | None = None
        for parent in self._model.ancestors(node):
            asked += (pair for test, holds in tests_around(parent, child) if holds for pair in _names_on(test))
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                scope = parent
                break
            child = parent
        return any(self._is_off_name(name, scope, is_there=is_there) for name, is_there in asked)

    def _is_off_name(self, name: str, scope: ast.FunctionDef | ast.AsyncFunctionDef | None, *, is_there: bool) -> bool:
        """Whether a name of a scope, or of the file, is bound once alone, to None, or where it isn't asked whether it `is_there`, to False."""
        source = self._model.source
        is_own = scope is not None and name in source.function_at(scope).local_names
        match [n for n in walk(scope if scope is not None and is_own else source.tree) if _may_bind(n, name)]:
            case [ast.Assign(targets=[ast.Name()], value=ast.Constant(value=value))]:
                is_off = value is None or (not is_there and (value is False or value == ""))
            case _:
                return False
        if not is_off or is_own:
            return is_off
        # What is run in the file, or another module, may set it.
        return not _SETTING.search(source.text) and not self._model.texts_match(rf"\.{name}\s?=(?!=)")

    def _stays_off(self, flag: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether nobody in the project gives a flag, a parameter of a function or of the constructor, that is off by default."""
        match flag:
            case ast.Name(id=name):
                return name in _optional(function) and not self._model.project_gives(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                cls = self._model.source.class_of(function)
                return cls is not None and self._is_left_off(name, cls)
        asked = _asked_for(flag)
        return bool(asked) and not self._model.project_gives(asked)

    def _is_left_off(self, attribute: str, cls: ast.ClassDef) -> bool:
        """Whether a class gives an attribute nothing but such a parameter of the method that does."""
        match _given_by_methods(cls).get(attribute):
            case [(method, ast.Name(id=name))]:
                may_be_off = name in _optional(method) or (name in _switches(method) and not self._is_placed(cls))
                return may_be_off and not any(map(self._model.project_gives, (name, attribute)))
            case [(_, value)] if asked := _asked_for(value):
                return not any(map(self._model.project_gives, {asked, attribute}))
        return False

    def _is_placed(self, cls: ast.ClassDef) -> bool:
        """Whether something in the project gives a constructor more than one thing by its place: `Norm(8, True)`."""
        several = rf"\b{re.escape(cls.name)}\((?:[^()=,]|\([^()]{{0,80}}\)){{1,80}},(?![ \t\n]*\w+[ \t]?=|[ \t\n]*\))"
        return self._model.texts_match(several)

    def _grows(self, parent: ast.AST, child: ast.AST) -> bool:
        """`if length > self.longest: ...; self.longest = length`: for what is kept, and made anew when it doesn't suffice."""
        if not isinstance(parent, ast.If) or child not in parent.body:
            return False
        kept = {
            side.attr
            for test in ast.walk(parent.test)
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.NotEq))
            for part in (test.left, *test.comparators)
            for side in ast.walk(part)
            if isinstance(side, ast.Attribute) and isinstance(side.value, ast.Name) and side.value.id == "self"
        }
        return bool(kept) and any(
            isinstance(target, ast.Attribute) and target.attr in kept and isinstance(target.ctx, ast.Store)
            for statement in (*flat(parent.body), *self._cold.run_by(parent.body))
            if isinstance(statement, ast.Assign)
            for whole in statement.targets
            for target in ast.walk(whole)
        )


# Names of flags that ask for a check, to wait, or to keep on the host what there is no room for.
_CHECKING = regex(
    r"_?(?:check|validate|verify|sanity|assert)\w{0,60}|\w{0,60}offload\w{0,60}|(?:\w{0,60}_)?sync(?:hroni[sz]e)?(?:_\w{1,60})?"
)


def _checks(parent: ast.AST, child: ast.AST) -> Iterator[str]:
    """The flags under which a node runs: those that ask for a check, as in `if check_nan: ...`, and `flag and x.any()`."""
    match parent:
        case ast.If(test=test, body=body) if child in body:
            tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
            yield from (t.id for t in tests if isinstance(t, ast.Name) and _CHECKING.fullmatch(t.id))
        case ast.IfExp(test=ast.Name(id=name), body=body) if child is body:
            yield name
        case ast.BoolOp(op=ast.And(), values=values):
            before = values[: next(at for at, value in enumerate(values) if value is child)]
            yield from (t.id for t in before if isinstance(t, ast.Name))


def _flags(parent: ast.AST, child: ast.AST) -> Iterator[ast.expr]:
    """The names and attributes that have to be on for a node to run: `if flag:`, `if flag is not None:`, `flag and x.any()`."""
    for test, holds in tests_around(parent, child):
        if holds:
            yield from _on_in(test)


def _on_in(test: ast.expr) -> Iterator[ast.expr]:
    match test:
        case ast.Name() | ast.Attribute() | ast.Call():
            yield test
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            yield left
        case ast.BoolOp(op=ast.And(), values=values):
            for value in values:
                yield from _on_in(value)


# What may set a name of a file without saying it.
_SETTING = regex(r"\bexec\(|\bglobals\(\)|\bsetattr\(")


def _names_on(test: ast.expr) -> Iterator[tuple[str, bool]]:
    """The names that have to be on for a test to hold, each with whether it is asked only if it isn't None."""
    match test:
        case ast.Name(id=name):
            yield name, False
        case ast.Compare(left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            yield name, True
        case ast.BoolOp(op=ast.And(), values=values):
            for value in values:
                yield from _names_on(value)


def _may_bind(node: ast.AST, name: str) -> bool:
    """Whether a statement, or a part of one, gives a name a value, or lets others give it one."""
    match node:
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return name in names
        case ast.NamedExpr(target=ast.Name(id=bound)) | ast.arg(arg=bound) | ast.ExceptHandler(name=bound):
            return bound == name
        case ast.MatchAs(name=bound) | ast.MatchStar(name=bound) | ast.MatchMapping(rest=bound):
            return bound == name
        case ast.stmt():
            return name in bound_names(node)
    return False


def _asked_for(value: ast.expr) -> str:
    """`name` of `getattr(config, "name", False)` and `config.get("name", False)`; "" for anything else."""
    match value:
        case ast.Call(
            func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), ast.Constant(value=False | None)]
        ):
            return name
        case ast.Call(
            func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), ast.Constant(value=False | None)]
        ):
            return name
    return ""


@kept_on_node
def _given_by_methods(cls: ast.ClassDef) -> dict[str, list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.expr]]]:
    """What the methods of a class give each attribute of `self`, with the method that does."""
    found: dict[str, list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.expr]]] = {}
    for method in cls.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in walk(method):
                if isinstance(node, ast.Assign):
                    for name in {name for target in node.targets for name in _own_in(target)}:
                        found.setdefault(name, []).append((method, node.value))
    return found


def _own_in(part: ast.AST) -> Iterator[str]:
    """The attributes of `self` that a statement, or a target of an assignment, sets."""
    for node in walk(part):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def _switches(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """The parameters that are False by default, but for the first one that is given."""
    named = function.args.args[2:]
    defaults = function.args.defaults[-len(named) :] if named else []
    pairs = zip(named[len(named) - len(defaults) :], defaults, strict=True)
    return frozenset(a.arg for a, value in pairs if isinstance(value, ast.Constant) and value.value is False)


# Parameters before this one may be given by their place.
_BY_PLACE = 3


def _optional(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """The parameters that are off by default, and hardly given but by their names."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    skipped = _BY_PLACE + (bool(named) and named[0].arg in ("self", "cls"))
    pairs: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(named[len(named) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    early = {a.arg for a in named[:skipped]}
    return frozenset(
        a.arg
        for a, value in pairs
        if isinstance(value, ast.Constant) and (value.value is None or value.value is False) and a.arg not in early
    )


def _are_off(function: ast.FunctionDef | ast.AsyncFunctionDef, flags: list[str]) -> bool:
    """Whether one of some flags is a parameter that is off unless somebody asks for it."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(named[len(named) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    off = {a.arg for a, value in pairs if isinstance(value, ast.Constant) and value.value is False}
    return any(flag in off for flag in flags)


def _is_apart(parent: ast.AST, child: ast.AST) -> bool:
    match parent:
        case ast.Raise():
            return True
        case ast.If(test=test, body=body, orelse=orelse):
            if child in body:
                return (
                    _is_miss(test)
                    or _is_rare(test)
                    or _is_training(test) is False
                    or _empty_when(test) is True
                    or all(map(says, body))
                    or _fills_missing(test, body)
                )
            return child in orelse and (
                _holds_in_training(test) or _empty_when(test) is False or _keeps_missing(test, orelse)
            )
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
            before = body[: next((at for at, statement in enumerate(body) if statement is child), 0)]
            return any(_returns_if_done(s) or _returns_if_kept(s, body) for s in before)
        case ast.IfExp(test=test, body=body):
            if child is body:
                return _is_miss(test) or _empty_when(test) is True
            return child is not test and _empty_when(test) is False
        case ast.Assert(msg=msg):
            return child is msg
    return False


def _is_miss(test: ast.expr) -> bool:
    """`key not in self._cache`, `self._table is None`, `not hasattr(self, "x")`, `x.shape != self._shape`."""
    match test:
        case ast.BoolOp(values=values):
            return any(_is_miss(v) for v in values)
        case ast.Compare(left=ast.Constant(), ops=[ast.NotIn()]):
            return "cache" in ast.unparse(test)
        case ast.Compare(ops=[ast.NotIn()]):
            return "cache" in ast.unparse(test) or "self." in ast.unparse(test.comparators[0])
        case ast.Compare(left=ast.Attribute(value=ast.Name(id="self"), attr=attr), ops=[ast.Is()]):
            return attr.startswith("_") or "cache" in attr
        case ast.Compare(left=ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="self"), *_]), ops=[ast.Is()]):
            return True
        case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr=attr)) if _DONE.search(attr):
            return True
        case ast.UnaryOp(op=ast.Not()) | ast.Call() | ast.Compare(ops=[ast.Is() | ast.NotEq()]):
            return _APART.search(ast.unparse(test)) is not None
    return False


def _fills_missing(test: ast.expr, body: list[ast.stmt]) -> bool:
    """`if key not in table: ...; table[key] = ...`, `if self.kernel is None: self.kernel = ...`"""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_fills_missing(v, body) for v in values)
        case ast.Compare(
            left=ast.Attribute(value=ast.Name(id="self"), attr=attr),
            ops=[ast.Is() | ast.Eq()],
            comparators=[ast.Constant(value=None)],
        ):
            return any(attr in _own_in(statement) for statement in body)
        case ast.Compare(ops=[ast.NotIn()], comparators=[table]):
            name = ast.unparse(table).removesuffix(".keys()")
            return any(
                isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == name
                for statement in body
                for n in ast.walk(statement)
            )
    return False


def _is_rare(test: ast.expr) -> bool:
    """`if __name__ == "__main__":` in a function that tests itself, `if random.random() < 0.01:`, a way that hardly anybody sets."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__")):
            return True
        case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In()], comparators=[ast.Attribute(attr=attr)]):
            # `"dynamic" in self.rope_type`: one of several ways that a setting names.
            return re.search(r"type|mode|impl|method|variant|strategy", attr) is not None
        case ast.Compare(
            left=ast.Call(func=func, args=[]), ops=[ast.Lt()], comparators=[ast.Constant(value=float() as share)]
        ):
            return last_name(func) == "random" and share < 0.5
    return False


def _keeps_missing(test: ast.expr, orelse: list[ast.stmt]) -> bool:
    """`if hasattr(model, "table"): ... else: ...; model.table = ...`: what is made is kept."""
    kept = {
        n.args[1].value
        for n in ast.walk(test)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Name)
        and n.func.id == "hasattr"
        and len(n.args) == 2
        and isinstance(n.args[1], ast.Constant)
    }
    return any(
        isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and n.attr in kept
        for statement in orelse
        for n in ast.walk(statement)
    )


def _empty_when(test: ast.expr) -> bool | None:
    """How a test comes out where something is empty, which is hardly ever: True of `x.numel() == 0`, False of `len(xs) > 0`."""
    match test:
        case ast.Compare(left=left, ops=[operator], comparators=[ast.Constant(value=int(bound))]):
            if re.search(r"numel\(|len\(|shape\[|size\(", ast.unparse(left)) is not None:
                return _OF_NOTHING.get((type(operator), bound))
    return None


# How a size of nothing compares, where other sizes compare otherwise.
_OF_NOTHING: dict[tuple[type[ast.cmpop], int], bool] = {
    (ast.Eq, 0): True,
    (ast.Lt, 1): True,
    (ast.LtE, 0): True,
    (ast.NotEq, 0): False,
    (ast.Gt, 0): False,
    (ast.GtE, 1): False,
}


def _returns_if_done(statement: ast.stmt) -> bool:
    """`if self.inited: return`: what follows runs once."""
    match statement:
        case ast.If(test=ast.Name(id=name) | ast.Attribute(attr=name), body=[ast.Return(), *_], orelse=[]):
            return _DONE.search(name) is not None
    return False


def _returns_if_kept(statement: ast.stmt, body: list[ast.stmt]) -> bool:
    """`if self.table is not None and self.table.size(0) >= n: return`, where what follows makes the table that is kept.

    It is kept by an object, or by a class for all of them.
    """
    if not isinstance(statement, ast.If) or not any(isinstance(n, ast.Return) for n in ast.walk(statement)):
        return False
    tested = {
        side.attr
        for test in (n.test for n in ast.walk(statement) if isinstance(n, ast.If))
        for side in ast.walk(test)
        if isinstance(side, ast.Attribute) and isinstance(side.value, ast.Name) and _keeps(side.value.id)
    }
    later = [n for s in body[body.index(statement) + 1 :] for n in ast.walk(s)]
    return any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and n.attr in tested for n in later)


def _keeps(name: str) -> bool:
    """Whether a name is that of an object itself, or of its class."""
    return name in ("self", "cls") or name[:1].isupper()


_DONE = regex(r"(?i)init|done|ready|built|loaded|computed|cached|set_up|verified|validated")


def _holds_in_training(test: ast.expr) -> bool:
    """`self.training or scorer is None`: what runs otherwise evaluates."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(_is_training(value) is True for value in test.values)
    return _is_training(test) is True


def _is_training(test: ast.expr) -> bool | None:
    """Whether a test says that the model trains (True), or that it doesn't (False)."""
    match test:
        case ast.Attribute(attr="training"):
            return True
        case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr="training")):
            return False
        case ast.BoolOp(op=ast.And(), values=values):
            told = {_is_training(v) for v in values}
            return False if False in told else None
    return None


# Options of those whose accelerators have little room.
_OF_ROOM = regex(
    r"(?i)offload|low_?(?:gpu_|cuda_)?(?:v?ram|mem)|sav\w{0,8}_(?:v?ram|mem)|(?:v?ram|memory)_sav"
    r"|(?:empty|free|release|clear)_\w{1,20}_(?:v?ram|mem|cache)"
    # In quotes it is what `hasattr` asks for.
    r"|(?<!['\"])(?:empty|free|release|clear)_(?:v?ram|mem|cache)"
)


def saves_memory(model: File, node: ast.AST) -> bool:
    """Whether a node runs for somebody who asked to do with little memory: `if args.low_vram:`."""
    child = node
    for parent in model.ancestors(node):
        if isinstance(parent, ast.If) and child in parent.body and _OF_ROOM.search(ast.unparse(parent.test)):
            return True
        child = parent
    return False
