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
        # By type first: patterns try each case in turn.
        if type(node) not in _TELLING:
            continue
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                stores[node.id] += 1
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
                reads[node.value.id].add(node.attr)
        elif isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Name):
                called.add(func.id)
            elif (
                isinstance(func, ast.Attribute)
                and isinstance(func.value, ast.Name)
                # `accelerator.backward(loss)` is somebody else's backward.
                and not (func.attr == "backward" and node.args)
            ):
                methods[func.value.id].add(func.attr)
        elif (name := _bound_anew(node)) is not None:
            stores[name] -= 1
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


def _bound_anew(node: ast.AST) -> str | None:
    """The name that `x = x.to(device)` binds to the same thing anew."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=ast.Name(id=own)))):
            return str(name) if own == name else None
    return None


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
