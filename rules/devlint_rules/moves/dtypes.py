"""The type of a tensor's numbers, where what makes it says so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import last_name
from devlint_rules.moves.factories import SHAPING, makes_float32

if TYPE_CHECKING:
    from devlint.facts import Facts

# Names of types, and the methods that change to them, by the one word that is used here.
_NAMES = {
    "float": "float32", "float32": "float32", "double": "float64", "float64": "float64", "half": "float16",
    "float16": "float16", "bfloat16": "bfloat16", "long": "int64", "int64": "int64", "int": "int32", "int32": "int32",
    "bool": "bool", "byte": "uint8", "uint8": "uint8",
}  # fmt: skip
# What they make is of the default type, unless they are told another.
_OF_DEFAULT_TYPE = frozenset({"zeros", "ones", "eye", "empty", "rand", "randn", "linspace"})
# What they give is numbers of elements.
_OF_INDICES = frozenset({"argmax", "argmin", "argsort", "randint", "randperm", "nonzero", "bincount"})
# Types by those of the values that `torch.tensor` is given.
_OF_VALUES = {bool: "bool", int: "int64", float: "float32"}
_MAX_DEPTH = 6


def casts_to_own_type(call: ast.expr | None, facts: Facts) -> bool:
    """Whether `x.to(torch.float32)` asks for the type that `x` has on all ways."""
    match call:
        case ast.Call(func=ast.Attribute(value=moved, attr="to"), args=[asked], keywords=[]):
            pass
        case ast.Call(
            func=ast.Attribute(value=moved, attr="to"), args=[], keywords=[ast.keyword(arg="dtype", value=asked)]
        ):
            pass
        case _:
            return False
    wanted = _named(asked, facts)
    return bool(wanted) and wanted == _type_of(moved, facts)


def _named(asked: ast.expr, facts: Facts) -> str:
    """`float32` of `torch.float`, `np.float32`; "" of what is no name of a type."""
    package, _, name = (facts.model.qualified(asked) or "").rpartition(".")
    return _NAMES.get(name, "") if package in ("torch", "numpy") else ""


def _type_of(value: ast.expr, facts: Facts, depth: int = 0) -> str:
    """The type of a tensor's numbers; "" where nothing says it."""
    if depth > _MAX_DEPTH:
        return ""
    match value:
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq() | ast.NotEq()]):
            return "bool"
        case ast.Name() if not _is_given(value, facts):
            types = {_type_of(v, facts, depth + 1) for v in facts.model.assigned_values(value)}
            return types.pop() if len(types) == 1 else ""
        case ast.Call(keywords=given) if told := [k.value for k in given if k.arg == "dtype"]:
            return _named(told[0], facts)
        case ast.Call(func=func, args=args) if (facts.model.qualified(func) or "").startswith("torch."):
            return _made_by(last_name(func), args, facts)
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=args):
            if attr in ("to", "type", "astype"):
                return (_named(args[0], facts) if args else "") or _type_of(owner, facts, depth + 1)
            if attr in SHAPING:
                return _type_of(owner, facts, depth + 1)
            return "int64" if attr in _OF_INDICES else _NAMES.get(attr, "") if not args else ""
    return ""


def _is_given(name: ast.Name, facts: Facts) -> bool:
    """Whether a function is given what a name holds: that may be of any type."""
    scope = facts.model.enclosing_scope(name)
    return not isinstance(scope, ast.Module) and any(
        a.arg == name.id for a in facts.model.source.function_at(scope).parameters
    )


def _made_by(function: str, args: list[ast.expr], facts: Facts) -> str:
    """The type that a function of torch makes without being told."""
    match function, args:
        case "tensor", [data, *_]:
            types = {type(n.value) for n in ast.walk(data) if isinstance(n, ast.Constant)}
            others = (n for n in ast.walk(data) if not isinstance(n, (ast.List, ast.Tuple, ast.Constant, ast.Load)))
            return _OF_VALUES.get(types.pop(), "") if len(types) == 1 and not any(True for _ in others) else ""
        case "from_numpy", [ast.Call(func=ast.Attribute(attr="astype"), args=[asked, *_])]:
            return _named(asked, facts)
    if function in _OF_INDICES:
        return "int64"
    return "float32" if function in _OF_DEFAULT_TYPE and makes_float32(facts) else ""
