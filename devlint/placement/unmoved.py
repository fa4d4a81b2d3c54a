"""Batches that nobody moves: what a loader gives is on the host, and stays there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.placement.loops import HotLoop, Program
from devlint.regexes import regex
from devlint.signatures.answers.callees import Callee
from devlint.signatures.answers.waits import Stall
from devlint.signatures.values.values import Value
from devlint.source.modules import FunctionModel

# Loaders that somebody wraps may give what is on an accelerator.
_PREPARED = regex(r"\bprepare\w{0,40}\(|setup_dataloaders|(?i:prefetch|to_device|device_loader)")
# Methods that give what is there where their tensor is.
_MOVES = frozenset({"to", "cuda", "npu", "xpu", "hpu", "type", "pin_memory"})


def is_left_on_host(model: Program, stall: Stall, loop: HotLoop) -> bool:
    """Whether what is waited for is a part of a batch, just as the loader gave it, and as a function that a loop calls is given it."""
    if loop.kind != "batch" or stall.certain or not isinstance(stall.value, Value) or stall.value.place.off_host:
        return False
    function, name = stall.function, _root(stall.asked)
    if _PREPARED.search(function.text):
        return False
    if not loop.path:
        return _is_of_batch(model, function, stall.node, loop, name)
    parameter = _parameter(function, name)
    calls = model.callers(function.node) if len(loop.path) == 1 and parameter else ()
    return bool(calls) and all(
        other.source is model.source and _is_given_batch(model, function, call, parameter) for other, _, call in calls
    )


def _is_given_batch(model: Program, function: FunctionModel, call: ast.Call, parameter: str) -> bool:
    """Whether a call in a loop over batches gives a parameter a part of one, as it is."""
    loop = model.hot_loop(call)
    around = next((p for p in model.ancestors(call) if isinstance(p, _DEFINITIONS)), None)
    given = Callee(function, function.cls is not None and not function.is_static).given(call).get(parameter)
    if loop is None or loop.path or loop.kind != "batch" or around is None or given is None:
        return False
    caller = model.source.function_at(around)
    return not _PREPARED.search(caller.text) and _is_of_batch(model, caller, call, loop, _root(given))


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _parameter(function: FunctionModel, name: str) -> str:
    """The parameter that a name of a function is computed from, by its one assignment each; empty where it isn't told."""
    names = {p.arg for p in function.parameters}
    for _ in range(_MAX_NAMES):
        given = function.assigned.get(name, ())
        if not given:
            return name if name in names else ""
        name = _root(given[0]) if len(given) == 1 else ""
    return ""


_MAX_NAMES = 4


def _is_of_batch(model: Program, function: FunctionModel, node: ast.AST, loop: HotLoop, name: str) -> bool:
    """Whether what a name holds at a node is a part of what a loop takes, as it is."""
    over = loop.node
    seen: set[str] = set()
    while name and name not in seen and isinstance(over, (ast.For, ast.AsyncFor)):
        seen.add(name)
        if _is_stored_into(over, name) or _is_moved(over, name):
            return False
        if name in _targets(over.target):
            return True
        name = _source(model, function, node, over, name)
    return False


def _source(model: Program, function: FunctionModel, node: ast.AST, loop: ast.For | ast.AsyncFor, name: str) -> str:
    """The name that a name within a loop is taken from: of a loop over it, or of its one assignment."""
    given = function.assigned.get(name, ())
    if len(given) == 1:
        return _root(given[0])
    around = (p for p in model.ancestors(node) if isinstance(p, (ast.For, ast.AsyncFor)) and p is not loop)
    return next((_root(p.iter) for p in around if name in _targets(p.target)), "") if not given else ""


def _root(node: ast.expr) -> str:
    """The name that something is a part of, or is computed from where that is; empty where it may be moved."""
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=attr), args=[inner, *_]):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr not in _MOVES:
                node = inner
            case ast.Call(func=ast.Name(id="enumerate" | "zip" | "tqdm"), args=[inner, *_]):
                node = inner
            case ast.Compare(left=inner, comparators=[other]) | ast.BinOp(left=inner, right=other) if _is_fixed(other):
                node = inner
            case _:
                return ""


def _is_fixed(node: ast.expr) -> bool:
    """`0.5`, `EPSILON`."""
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def _targets(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _is_stored_into(loop: ast.For | ast.AsyncFor, name: str) -> bool:
    """`batch[key] = batch[key].cuda()`"""
    return any(
        isinstance(n, (ast.Subscript, ast.Attribute)) and isinstance(n.ctx, ast.Store) and _root(n) == name
        for n in _within(loop)
    )


def _is_moved(loop: ast.For | ast.AsyncFor, name: str) -> bool:
    """Whether a loop gives a name something else, or moves it, in place too: `batch = move(batch)`, `batch.to(device)`."""
    for node in _within(loop):
        match node:
            case ast.Name(id=other, ctx=ast.Store()) if other == name and name in _targets(loop.target):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=other), attr=attr)) if other == name and attr in _MOVES:
                return True
    return False


def _within(loop: ast.For | ast.AsyncFor) -> Iterator[ast.AST]:
    for statement in loop.body:
        yield from ast.walk(statement)
