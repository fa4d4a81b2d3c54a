"""Where in its step a wait stands: in the midst of it, or at its end, once it has learned.

What is read at the end of a step is waited for when nothing of that step is left to queue. Mostly the next one begins with the
copy of its batch, which waits as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from devlint.placement.values import Step
from devlint.regexes import regex
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


def ends_step(model: File, node: ast.AST, depth: int = 0, *, learned: bool = False) -> bool:
    """Whether a step has learned when it comes by a node, and nothing of it learns after that.

    `learned` says so of a function that the step calls.
    """
    child = node
    for parent in model.ancestors(node):
        if any(map(_learns, model.source.after(child))):
            # Gradients are computed after it, or weights changed.
            return False
        learned = learned or any(map(_learns, model.source.before(child)))
        match parent:
            case ast.For(body=body) | ast.AsyncFor(body=body) | ast.While(body=body) if child in body:
                if learned:
                    return True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if depth == _MAX_CALLERS:
                    return False
                calls = [(file, call) for file, _, call in model.callers(parent)]
                return bool(calls) and all(ends_step(file, call, depth + 1, learned=learned) for file, call in calls)
        child = parent
    return False


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
