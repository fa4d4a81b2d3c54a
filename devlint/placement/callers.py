"""Functions that only host code calls: what would break for tensors on an accelerator never meets one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Protocol

from devlint.placement.mixing import is_input
from devlint.placement.values import HOST, Place, Value
from devlint.regexes import regex
from devlint.signatures.answers.callees import Callee
from devlint.signatures.answers.silence import is_host_code
from devlint.source.kinds import Kind
from devlint.source.modules import FunctionModel, FunctionNode, SourceModule

# So many functions that hand something on lie between who made it and where it meets another.
_MAX_HANDED_ON = 3
_ROOT = regex(r"\w{1,80}")


class File(Protocol):
    """What is asked of the model of a file, and of those of the files that call it."""

    @property
    def source(self) -> SourceModule: ...
    def calls_in_sight(self, function: FunctionNode) -> Sequence[tuple[File, ast.Call]]: ...
    def enclosing_scope(self, node: ast.AST) -> ast.AST: ...
    def value(self, node: ast.AST) -> Value: ...


def is_called_by_host(model: File, function: FunctionModel, met: Place | None, depth: int = _MAX_HANDED_ON) -> bool:
    """Whether each call of a function that is in sight stands in code for the host, or gives it only tensors that are there.

    `met`: the place of what meets something on the host; where it is that of a parameter, that one alone counts.
    """
    calls = model.calls_in_sight(function.node)
    called = Callee(function, function.cls is not None)
    name = _parameter(called, met)
    return bool(calls) and all(
        _stands_on_host(file, call)
        or _gives_host_alone(file, call)
        or (name is not None and _gives_host(file, call, called.given(call).get(name), depth))
        for file, call in calls
    )


def _parameter(called: Callee, met: Place | None) -> str | None:
    """The name of the parameter that a value is a part of."""
    root = _ROOT.match(met.name) if met is not None and is_input(met) else None
    names = [p.arg for p in called.function.parameters[1 if called.bound else 0 :]]
    return root[0] if root is not None and root[0] in names else None


def _stands_on_host(file: File, call: ast.Call) -> bool:
    """A dataset's `__getitem__`, `collate`, ..."""
    scope = file.enclosing_scope(call)
    return isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_host_code(file.source.function_at(scope))


def _gives_host_alone(file: File, call: ast.Call) -> bool:
    """Whether a call gives some tensor, and none that may be elsewhere."""
    given = [file.value(g) for g in (*call.args, *(k.value for k in call.keywords))]
    tensors = [option for value in given for _, option in value.alternatives() if option.is_tensor]
    return bool(tensors) and all(tensor.place == HOST for tensor in tensors)


def _gives_host(file: File, call: ast.Call, given: ast.expr | None, depth: int) -> bool:
    """Whether what a call gives for a parameter is on the host, or comes from where only such is given."""
    if any(isinstance(a, ast.Starred) for a in call.args):
        return False
    options = [option for _, option in file.value(given).alternatives()] if given is not None else []
    if not options or any(o.place.off_host for o in options):
        return False
    if any(_is_on_host(o) for o in options) and not any(is_input(o.place) for o in options):
        return True
    scope = file.enclosing_scope(call)
    inputs = [o for o in options if is_input(o.place)]
    if not inputs or not depth or not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    caller = file.source.function_at(scope)
    handing = Callee(caller, caller.cls is not None)
    return all(
        _parameter(handing, o.place) is not None and is_called_by_host(file, caller, o.place, depth - 1) for o in inputs
    )


def _is_on_host(value: Value) -> bool:
    return value.kind is Kind.NDARRAY or (value.place == HOST and (value.is_tensor or value.kind in _THINGS))


# What was copied to the host is there, whatever it is.
_THINGS = frozenset({Kind.BATCH, Kind.MODULE, Kind.WRAPPER, Kind.UNKNOWN})
