"""On which way a node is come by: whether each call of a function comes by it, or an option, a kind or a state decides."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devlint.regexes import regex
from devlint.source.modules import SourceModule, last_name

# Whether a project gives a parameter that is off by default.
Gives = Callable[[str], bool]


# Tests that hold in the process that counts: there is one on each machine.
_OF_RANK = regex(r"\brank\b|_rank\b|is_main|is_local_main|is_first_rank|is_last_rank|is_master")


def is_straight(source: SourceModule, node: ast.AST, gives: Gives) -> bool:
    """Whether each call of a function comes by a node: no option, kind or state decides on the way."""
    child = node
    for parent in source.ancestors(node):
        match parent:
            case ast.If(test=test, body=body) if child in body:
                if not _holds_mostly(test, source, parent, gives):
                    return False
            case ast.If(test=test, orelse=orelse) if child in orelse and (_is_mode(test) or _is_usual(test)):
                return False
            case ast.IfExp(test=test, body=value) if child is value and not _holds_mostly(test, source, parent, gives):
                return False
            case ast.IfExp(test=test, body=value, orelse=orelse) if child is orelse and _is_brought(value, test):
                return False
            case ast.BoolOp(values=[first, *_]) if child is not first:
                return False
            case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
                before = body[: next((at for at, statement in enumerate(body) if statement is child), 0)]
                return not any(
                    _leaves_by_mode(s) or _leaves_off_host(s, parent) or _leaves_unless_asked(s, source) for s in before
                )
            case ast.Lambda():
                return True
        child = parent
    return True


def _is_brought(value: ast.expr, test: ast.expr) -> bool:
    """`longest if longest is not None else lengths.max().item()`: callers may bring what is waited for."""
    asked = {ast.dump(n) for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute))}
    return any(ast.dump(n) in asked for n in ast.walk(value) if isinstance(n, (ast.Name, ast.Attribute)))


def _holds_mostly(test: ast.expr, source: SourceModule, at: ast.AST, gives: Gives) -> bool:
    """Whether a test lets pass on most calls: a parameter that is on by default, or that somebody gives; of one process."""
    match test:
        case ast.Name(id=name):
            return _is_on(name, source, at)
        case ast.Compare(left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return gives(name)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_holds_mostly(value, source, at, gives) for value in values)
        case ast.Call(func=func) if last_name(func) in ("is_tensor", "is_initialized"):
            return True
    return _OF_RANK.search(ast.unparse(test)) is not None


def _is_on(name: str, source: SourceModule, at: ast.AST) -> bool:
    """Whether a name is a parameter that is on by default."""
    function = next((p for p in source.ancestors(at) if isinstance(p, (ast.FunctionDef, ast.AsyncFunctionDef))), None)
    value = _default(function, name) if function is not None else None
    return isinstance(value, ast.Constant) and value.value is True


def _default(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """What a parameter of a function holds where nobody gives it."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    with_defaults = (a.arg for a in named[len(named) - len(arguments.defaults) :])
    defaults = dict(zip(with_defaults, arguments.defaults, strict=True))
    defaults |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
    return defaults.get(name)


def _is_off(option: ast.expr, source: SourceModule, at: ast.AST) -> bool:
    """Whether an option is off by default: a parameter of the function, or one of the constructor that is kept under its name."""
    match option:
        case ast.Name(id=name):
            around = (p for p in source.ancestors(at) if isinstance(p, (ast.FunctionDef, ast.AsyncFunctionDef)))
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            cls = source.class_of(at)
            methods = cls.body if cls is not None else []
            around = (m for m in methods if isinstance(m, ast.FunctionDef) and m.name == "__init__")
        case _:
            return False
    function = next(around, None)
    value = _default(function, name) if function is not None else None
    return isinstance(value, ast.Constant) and not value.value


def _leaves_by_mode(statement: ast.stmt) -> bool:
    """`if self.stage == "decode": ...; return ...`: the rest is for another mode."""
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return) and _is_mode(statement.test)


def _leaves_unless_asked(statement: ast.stmt, source: SourceModule) -> bool:
    """`if not self.debug: return x`: the rest is for those who ask for it."""
    match statement:
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=option), body=[*_, ast.Return()]):
            return _is_off(option, source, statement) or _asks_to_look(option)
    return False


def _asks_to_look(option: ast.expr) -> bool:
    """`if not validation_enabled(): return`: who wants to have something looked at asks for it."""
    named = option.func if isinstance(option, ast.Call) and not option.args and not option.keywords else None
    return named is not None and _LOOKED_AT.search(last_name(named)) is not None


# `is_debug_mode`, `invalid_access_validation_enabled`, `should_sanity_check`
_LOOKED_AT = regex(
    r"(?:^|_)(?:debug(?:ging)?|validat(?:e|ion)|sanity(?:_checks?)?|verif(?:y|ication)|checks?)(?:_(?:is_)?(?:enabled|on|mode))?$"
)


def _leaves_off_host(statement: ast.stmt, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """`keep = str(x.device) == "cpu"`, `if not keep: return`: the rest is for the host, unless somebody asks for it."""
    match statement:
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=flag), body=[*_, ast.Return()]):
            name = ast.unparse(flag)
            return any(
                isinstance(n, ast.Assign) and any(ast.unparse(t) == name for t in n.targets) and _asks_for_host(n.value)
                for n in ast.walk(function)
            )
    return False


def _asks_for_host(test: ast.expr) -> bool:
    """`str(x.device) == "cpu"`."""
    match test:
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value="cpu")]):
            return True
    return False


def _is_mode(test: ast.expr) -> bool:
    """Whether a setting is compared with one of its values."""
    match test:
        case ast.Compare(left=ast.Attribute() | ast.Name(), ops=[ast.Eq() | ast.In()], comparators=[value]):
            return isinstance(value, (ast.Constant, ast.Tuple, ast.List, ast.Set)) and "str" in _types(value)
    return False


# Tests that hold on the machines that code is for: what is made for accelerators is there.
_THERE = regex(r"(?i)\.is_cuda\b|_available\b|\bhas_\w|\b_?(?:use_)?flash_attn|_kernel\b")


def _is_usual(test: ast.expr) -> bool:
    """`if x.is_cuda and FLASH_AVAILABLE:`, whose other branch is for machines that lack something."""
    return not isinstance(test, ast.UnaryOp) and _THERE.search(ast.unparse(test)) is not None


def _types(node: ast.expr) -> set[str]:
    return {type(n.value).__name__ for n in ast.walk(node) if isinstance(n, ast.Constant)}
