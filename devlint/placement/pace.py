"""Where in its step a wait stands: in the midst of it, or at its end, once it has learned or where the next step waits anyway.

What is read when nothing of a step is left to queue costs little. A copy from pageable memory to an accelerator, or one that isn't asked to run beside the host, waits for all that was queued
before. A step that begins with one can't be queued ahead of the last: what is read at the end of a step is there when the
next one waits for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from devlint.placement.values import Step
from devlint.regexes import regex
from devlint.source.devices import names_a_move
from devlint.source.modules import FunctionNode, SourceModule, last_name
from devlint.source.trees import walk

_STEPPING = regex(r"optim|scaler|engine|(?:^|_)opt(?:_|$)|accelerator", re.IGNORECASE)
# Calls are followed backwards this far.
_MAX_CALLERS = 2


class File(Protocol):
    """What is asked of the model of a file."""

    @property
    def source(self) -> SourceModule: ...
    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]: ...
    def callers(self, function: FunctionNode) -> Sequence[tuple[File, Step, ast.Call]]: ...


def ends_step(model: File, node: ast.AST, depth: int = 0, *, over: bool = False) -> bool:
    """Whether a step has learned when it comes by a node and learns no more, or goes on with the copy of the next batch, which waits.

    `over` says so of a function that the step calls.
    """
    child = node
    for parent in model.ancestors(node):
        if any(map(_learns, model.source.after(child))):
            # Gradients are computed after it, or weights changed.
            return False
        over = over or any(map(_learns, model.source.before(child)))
        match parent:
            case ast.For(body=body) | ast.AsyncFor(body=body) | ast.While(body=body) if child in body:
                if over or _moves_batch(body, model.source.text):
                    return True
            case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
                if depth == _MAX_CALLERS:
                    return False
                over = over or _moves_batch(body, model.source.text)
                calls = [(file, call) for file, _, call in model.callers(parent)]
                return bool(calls) and all(ends_step(file, call, depth + 1, over=over) for file, call in calls)
        child = parent
    return False


def begins_by_waiting(model: File, loop: ast.AST) -> bool:
    """Whether each pass of a loop moves its batch to an accelerator, and waits for that, before it learns anything."""
    return isinstance(loop, (ast.For, ast.AsyncFor, ast.While)) and _moves_batch(loop.body, model.source.text)


def _learns(statement: ast.AST) -> bool:
    """`loss.backward()`, `optimizer.step()`."""
    return any(
        isinstance(n, ast.Call)
        and (
            "backward" in (name := last_name(n.func))
            or (name == "step" and isinstance(n.func, ast.Attribute) and _STEPPING.search(ast.unparse(n.func.value)))
        )
        for n in walk(statement)
    )


def _moves_batch(body: Sequence[ast.stmt], text: str) -> bool:
    """Whether the statements of a step move something to the accelerator before they go backward, and wait for that.

    `text` is that of the file.
    """
    # Whoever asks not to be waited for has mostly pinned what another file loads.
    is_pinned = "pin_memory" in text or "DataLoader(" not in text
    for statement in body:
        if any(isinstance(n, ast.Call) and _moves_and_waits(n, is_pinned=is_pinned) for n in walk(statement)):
            return True
        if _learns(statement):
            return False
    return False


# What is given to `.to` that is no place.
_TYPES = regex(r"float|half|double|dtype|int|long|bool")


def _moves_and_waits(call: ast.Call, *, is_pinned: bool) -> bool:
    """`x.cuda()`, `x.to(device)`; with `non_blocking=True` from memory that isn't pinned."""
    if is_pinned and any(
        k.arg == "non_blocking" and isinstance(k.value, ast.Constant) and k.value.value for k in call.keywords
    ):
        return False
    match call.func:
        case ast.Attribute(attr="cuda"):
            return True
        case ast.Attribute(attr="to"):
            given = [*call.args, *(k.value for k in call.keywords if k.arg == "device")]
            return bool(given) and not _TYPES.search(ast.unparse(given[0]))
        case ast.Attribute(attr="type") if call.args:
            # `images.type(Tensor)`, of a name for `torch.cuda.FloatTensor`.
            return last_name(call.args[0]).endswith("Tensor")
    return names_a_move(last_name(call.func))
