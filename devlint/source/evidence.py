"""Evidence by use: what a name must be, going by what a scope does with it."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable

from devlint.knowledge import ecosystem
from devlint.source.kinds import Kind
from devlint.source.slim import kinds


def evidence_in(
    scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef, nodes: Iterable[ast.AST]
) -> dict[str, Kind]:
    """Name -> kind, for names that the scope binds once at most and uses as only one kind of thing can be used."""
    methods: dict[str, set[str]] = defaultdict(set)
    reads: dict[str, set[str]] = defaultdict(set)
    called: set[str] = set()
    stores: Counter[str] = Counter()
    for node in nodes:
        if type(node) not in _TELLING:
            continue
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr), args=args):
                # `accelerator.backward(loss)` is somebody else's backward.
                if not (attr == "backward" and args):
                    methods[name].add(attr)
            case ast.Call(func=ast.Name(id=name)):
                called.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ast.Load()):
                reads[name].add(attr)
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=ast.Name(id=own)))
            ) if own == name:
                # `x = x.to(device)` binds the same thing anew.
                stores[name] -= 1
            case ast.Name(id=name, ctx=ast.Store()):
                stores[name] += 1
    if not isinstance(scope, ast.Module):
        arguments = scope.args
        stores.update(a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
    found = {}
    for name in {*methods, *reads}:
        if stores[name] > 1:
            continue
        kind = _judge(methods[name], reads[name], name in called)
        if kind is not None:
            found[name] = kind
    return found


_TELLING = kinds(ast.Call, ast.Attribute, ast.Assign, ast.Name)


def _judge(methods: set[str], reads: set[str], called: bool) -> Kind | None:
    if methods & ecosystem.MODULE_EVIDENCE or (called and methods & {"train", "eval"}):
        return Kind.MODULE
    if (
        methods & (ecosystem.TENSOR_EVIDENCE | ecosystem.TENSOR_CALL_EVIDENCE)
        or (reads - methods) & ecosystem.TENSOR_READ_EVIDENCE
    ):
        return Kind.TENSOR
    if reads & ecosystem.OPTIMIZER_EVIDENCE or {"step", "zero_grad"} <= methods:
        return Kind.OPTIMIZER
    return None
