"""Functions that only host code calls: what would break for tensors on an accelerator never meets one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Protocol

from devlint.placement.values import HOST, Value
from devlint.signatures.answers.silence import is_host_code
from devlint.source.modules import FunctionModel, FunctionNode, SourceModule


class File(Protocol):
    """What is asked of the model of a file, and of those of the files that call it."""

    @property
    def source(self) -> SourceModule: ...
    def calls_in_sight(self, function: FunctionNode) -> Sequence[tuple[File, ast.Call]]: ...
    def enclosing_scope(self, node: ast.AST) -> ast.AST: ...
    def value(self, node: ast.AST) -> Value: ...


def is_called_by_host(model: File, function: FunctionModel) -> bool:
    """Whether each call of a function that is in sight stands in code for the host, or gives it only tensors that are there."""
    calls = model.calls_in_sight(function.node)
    return bool(calls) and all(_stands_on_host(file, call) or _gives_host_alone(file, call) for file, call in calls)


def _stands_on_host(file: File, call: ast.Call) -> bool:
    """A dataset's `__getitem__`, `collate`, ..."""
    scope = file.enclosing_scope(call)
    return isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_host_code(file.source.function_at(scope))


def _gives_host_alone(file: File, call: ast.Call) -> bool:
    """Whether a call gives some tensor, and none that may be elsewhere."""
    given = [file.value(g) for g in (*call.args, *(k.value for k in call.keywords))]
    tensors = [option for value in given for _, option in value.alternatives() if option.is_tensor]
    return bool(tensors) and all(tensor.place == HOST for tensor in tensors)
