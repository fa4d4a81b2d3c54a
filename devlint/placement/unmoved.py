"""Batches that nobody moves: what a loader gives is on the host, and stays there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.placement.cold import File
from devlint.placement.loops import HotLoop
from devlint.regexes import regex
from devlint.signatures.answers.waits import Stall
from devlint.signatures.values.values import Value

# Loaders that somebody wraps may give what is on an accelerator.
_PREPARED = regex(r"\bprepare\w{0,40}\(|setup_dataloaders|(?i:prefetch|to_device|device_loader)")
# Methods that give what is there where their tensor is.
_MOVES = frozenset({"to", "cuda", "npu", "xpu", "hpu", "type", "pin_memory"})


def is_left_on_host(model: File, stall: Stall, loop: HotLoop) -> bool:
    """Whether what is waited for is a part of a batch, just as the loader gave it."""
    if loop.kind != "batch" or loop.path or not isinstance(loop.node, (ast.For, ast.AsyncFor)):
        return False
    value = stall.value
    if stall.certain or not isinstance(value, Value) or value.place.off_host or _PREPARED.search(stall.function.text):
        return False
    name = _root(stall.asked)
    seen: set[str] = set()
    while name and name not in seen:
        seen.add(name)
        if _is_stored_into(loop.node, name) or _is_moved(loop.node, name):
            return False
        if name in _targets(loop.node.target):
            return True
        name = _source(model, stall, loop.node, name)
    return False


def _source(model: File, stall: Stall, loop: ast.For | ast.AsyncFor, name: str) -> str:
    """The name that a name within a loop is taken from: of a loop over it, or of its one assignment."""
    given = stall.function.assigned.get(name, ())
    if len(given) == 1:
        return _root(given[0])
    around = (p for p in model.ancestors(stall.node) if isinstance(p, (ast.For, ast.AsyncFor)) and p is not loop)
    return next((_root(p.iter) for p in around if name in _targets(p.target)), "") if not given else ""


def _root(node: ast.expr) -> str:
    """The name that something is a part of, or is computed from where that is; empty where it may be moved."""
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr not in _MOVES:
                node = inner
            case ast.Call(func=ast.Name(id="enumerate" | "zip" | "tqdm"), args=[inner, *_]):
                node = inner
            case _:
                return ""


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
