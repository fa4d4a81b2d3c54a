"""The keys of a dict that a function of the project makes, for calls that take it as `**options`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.signatures.answers.callees import callee
from devlint.signatures.reading.reader import Reader
from devlint.source.modules import SourceModule, assigned_in
from devlint.source.trees import own_nodes


def keys_of(reader: Reader, source: SourceModule, scope: ast.AST, options: ast.expr) -> frozenset[str] | None:
    """The keys of a dict that a scope made itself, or had a function of the project make; None where it may hold more."""
    if not isinstance(options, ast.Name):
        return None
    made = assigned_in(scope).get(options.id, [])
    own = _keys(made[0]) if len(made) == 1 else None
    if own is None and len(made) == 1 and isinstance(made[0], ast.Call):
        called = callee(reader, source, None, made[0])
        own = _keys_given(called.function.node) if called is not None and called.makes is None else None
    return _with_added(own, scope, options.id)


def _keys(node: ast.expr) -> frozenset[str] | None:
    """The keys of `{"a": 1}` and `dict(a=1)`."""
    match node:
        case ast.Dict(keys=keys) if all(isinstance(k, ast.Constant) and isinstance(k.value, str) for k in keys):
            return frozenset(str(k.value) for k in keys if isinstance(k, ast.Constant))
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if all(k.arg for k in keywords):
            return frozenset(k.arg for k in keywords if k.arg)
    return None


def _keys_given(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str] | None:
    """The keys of the one dict that a function fills under a name and returns."""
    names = {
        n.value.id if isinstance(n.value, ast.Name) else "" for n in own_nodes(function) if isinstance(n, ast.Return)
    }
    name = names.pop() if len(names) == 1 else ""
    made = assigned_in(function).get(name, [])
    return _with_added(_keys(made[0]), function, name) if len(made) == 1 else None


def _with_added(keys: frozenset[str] | None, scope: ast.AST, name: str) -> frozenset[str] | None:
    """The keys together with those that a scope adds."""
    added = list(_added(scope, name))
    if keys is None or None in added:
        return None
    return keys | {key for key in added if key is not None}


def _added(scope: ast.AST, name: str) -> Iterator[str | None]:
    """The keys that a scope adds to a dict; None for what can't be told."""
    for node in own_nodes(scope):
        match node:
            case ast.Subscript(value=ast.Name(id=owner), ctx=ast.Store(), slice=key) if owner == name:
                yield key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="update" | "setdefault")) if owner == name:
                yield None
            case ast.AugAssign(target=ast.Name(id=owner)) if owner == name:
                yield None
