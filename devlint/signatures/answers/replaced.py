"""Methods that a decorator of their class puts something else in the place of."""

from __future__ import annotations

import ast

from devlint.signatures.reading.reader import Reader
from devlint.signatures.values.values import FUNCTION
from devlint.source.modules import FunctionModel


def is_replaced(reader: Reader, function: FunctionModel) -> bool:
    """Whether a decorator of the project gives a class another method of that name, one that doesn't call this one by itself."""
    if function.cls is None:
        return False
    for decorator in function.cls.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        value = reader.static_value(function.source, named)
        if value.kind is FUNCTION and _puts_another(value.data[0].node, function.name):
            return True
    return False


def _puts_another(decorator: ast.AST, name: str) -> bool:
    """Whether a decorator does `cls.forward = forward`, its `forward` not being a wrapper that calls the first one."""
    defined: dict[str, ast.AST] = {}
    kept: set[str] = set()
    put: set[str] = set()
    for node in ast.walk(decorator):
        match node:
            case ast.FunctionDef():
                defined[node.name] = node
            case ast.Assign(targets=[ast.Name(id=first)], value=ast.Attribute(value=ast.Name(), attr=attr)):
                kept |= {first} if attr == name else set()
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(), attr=attr)], value=ast.Name(id=other)):
                put |= {other} if attr == name else set()
    return any(other in defined and not _calls(defined[other], kept, name) for other in put)


def _calls(function: ast.AST, names: set[str], method: str) -> bool:
    """Whether a function calls one of some names, or a method."""
    return any(
        isinstance(n, ast.Call)
        and (
            (isinstance(n.func, ast.Name) and n.func.id in names)
            or (isinstance(n.func, ast.Attribute) and n.func.attr == method)
        )
        for n in ast.walk(function)
    )
