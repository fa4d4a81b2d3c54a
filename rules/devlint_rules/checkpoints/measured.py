"""Whether what a checkpoint keeps beside its states, such as the best accuracy, is a number: by all in the project who write it.

A tensor of the accelerator may be kept there as well; once it is loaded to the host, it can't be compared with the next one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import FunctionNode, Kind, access_path, last_name, own_nodes, walk
from devlint.lazy import regex

if TYPE_CHECKING:
    from devlint.facts import PlacementModel

# What comes of a computation, and may be a tensor still; an epoch or the settings never are.
_MEASURED = regex(
    r"(?i)(?:^|_)(?:best[a-z\d]{0,30}|min|max|acc[a-z\d]{0,30}|prec[a-z\d]{0,30}|top1|top5|loss[a-z\d]{0,30}|scores?|metrics?|m?ap|f1|bleu|wer"
    r"|ppl|fitness)$"
)
_BEST = regex(r"(?i)(?:^|_)best_")
# What else the same dict has where it is a checkpoint.
_STATE = regex(r"(?i)state|model|net|optim|encoder|decoder|weights|params")
_MAX_DEPTH = 12


def is_measure(key: str) -> bool:
    """Whether a key is that of a measure, going by its name: `best_acc`, `val_loss`."""
    if _COUNTED.search(key):
        return False
    return _MEASURED.search(key) is not None or (_BEST.search(key) is not None and _STATE.search(key) is None)


def may_be_tensor(key: str, model: PlacementModel) -> bool:
    """Whether a tensor may be kept under a key of a checkpoint: it is called after a measure, and nobody is seen to write a number."""
    if not is_measure(key):
        return False
    pattern = rf"['\"]{re.escape(key)}['\"]\s*[\]:]|\b{re.escape(key)}\s*="
    files = [model, *model.files_matching(pattern)]
    written = [(value, file) for file in files for value in _written(key, file)]
    numbers = _Numbers(key)
    return not written or not all(numbers.holds(value, file) for value, file in written)


# `best_epoch`
_COUNTED = regex(r"(?i)(?:epochs?|iter(?:ation)?s?|steps?|path|name|files?|idx|index)$")


def _written(key: str, model: PlacementModel) -> Iterator[ast.expr]:
    """What a file of code puts under a key of what looks like a checkpoint."""
    for node in walk(model.source.tree):
        match node:
            case ast.Dict(keys=keys, values=values):
                named = {k.value: v for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant)}
            case ast.Call(func=func, keywords=given) if last_name(func) in ("dict", "update"):
                named = {k.arg: k.value for k in given if k.arg is not None}
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=ast.Constant(value=name))], value=value):
                if name == key and _SAVED.search(ast.unparse(owner)):
                    yield value
                continue
            case _:
                continue
        if key in named and any(isinstance(k, str) and k != key and _STATE.search(k) for k in named):
            yield named[key]


_SAVED = regex(r"(?i)state|save|ckpt|check_?point|snapshot")


# What gives numbers of whatever it is asked.
_COUNTING = frozenset(
    {"float", "int", "round", "len", "bool", "str", "item", "tolist", "time", "perf_counter", "size", "numel", "dim"}
)
_OF_NUMBERS = ("numpy.", "math.", "sklearn.", "time.", "statistics.")

_Given = tuple[ast.expr, int | None, "PlacementModel"]


class _Numbers:
    """Whether expressions are numbers, texts or lists of them, as far as their parts can be followed."""

    def __init__(self, key: str) -> None:
        self._key = key
        # What hangs on itself, as in `best = max(best, score)`, is what else it is given.
        self._asked: set[ast.AST] = set()

    def holds(self, value: ast.expr, model: PlacementModel, depth: int = 0) -> bool:
        """Whether an expression of a file of code is one."""
        if value in self._asked:
            return True
        if depth > _MAX_DEPTH:
            return False
        self._asked.add(value)

        def is_so(part: ast.expr) -> bool:
            return self.holds(part, model, depth + 1)

        match value:
            case ast.Constant() | ast.Compare() | ast.JoinedStr():
                return True
            case ast.UnaryOp(operand=part):
                return is_so(part)
            case ast.BinOp(left=one, right=other) | ast.IfExp(body=one, orelse=other):
                return is_so(one) and is_so(other)
            case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                return all(map(is_so, parts))
            case ast.Call(func=func, args=args):
                name = last_name(func)
                if name in _COUNTING or (model.qualified(func) or "").startswith(_OF_NUMBERS):
                    return True
                if name in ("max", "min", "sum", "abs") and isinstance(func, ast.Name):
                    return all(map(is_so, args))
                return self._gives(value, None, model, depth)
            case ast.Subscript(slice=ast.Constant(value=name)) if name == self._key:
                # As it was loaded.
                return True
            case ast.Name() | ast.Attribute():
                given = _given_to(value, model)
                if given:
                    return all(self._is_one(part, index, file, depth) for part, index, file in given)
                if isinstance(value, ast.Attribute) and self._is_fed(value, model, depth):
                    return True
        options = [v for _, v in model.value(value).alternatives()]
        return bool(options) and all(v.kind in (Kind.SCALAR, Kind.CONSTANT) for v in options)

    def _is_one(self, value: ast.expr, index: int | None, model: PlacementModel, depth: int) -> bool:
        """Whether a value, or one part of what a call or a tuple gives, is a number."""
        match value:
            case _ if index is None:
                return self.holds(value, model, depth + 1)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if index < len(parts):
                return self.holds(parts[index], model, depth + 1)
            case ast.Call():
                return depth < _MAX_DEPTH and self._gives(value, index, model, depth)
        return False

    def _gives(self, call: ast.Call, index: int | None, model: PlacementModel, depth: int) -> bool:
        """Whether a function of the project returns a number wherever it returns, at a place of what it returns."""
        function, file = _called(call, model)
        if function is None or file is None:
            return False
        returned = [n.value for n in own_nodes(function) if isinstance(n, ast.Return)]
        return bool(returned) and all(v is not None and self._is_one(v, index, file, depth + 1) for v in returned)

    def _is_fed(self, value: ast.Attribute, model: PlacementModel, depth: int) -> bool:
        """`top1.avg` where each `top1.update(...)` of the scope is given a number."""
        owner = access_path(value.value)
        updates = [
            n.args[0]
            for n in own_nodes(model.enclosing_scope(value))
            if isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and n.func.attr in ("update", "add")
            and n.args
            and access_path(n.func.value) == owner
        ]
        return owner is not None and bool(updates) and all(self.holds(u, model, depth + 1) for u in updates)


def _called(call: ast.Call, model: PlacementModel) -> tuple[FunctionNode | None, PlacementModel | None]:
    """The function that a call calls, and its file of code; of an object that isn't known, the file's only method of that name."""
    called = model.callee(call)
    if called is not None:
        return (
            (None, None) if called.makes is not None else (called.function.node, model.file_of(called.function.source))
        )
    named = [
        n
        for n in walk(model.source.tree)
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == last_name(call.func)
    ]
    return (named[0], model) if len(named) == 1 and isinstance(call.func, ast.Attribute) else (None, None)


def _given_to(target: ast.Name | ast.Attribute, model: PlacementModel) -> list[_Given]:
    """What is put under a name in its scope, or by its callers, or into an attribute of `self` in its class, with its place in a tuple."""
    path = access_path(target)
    scope = model.enclosing_scope(target)
    if isinstance(target, ast.Attribute):
        around = model.source.class_of(target)
        nodes = walk(around) if around is not None and (path or "").startswith("self.") else own_nodes(scope)
    else:
        nodes = own_nodes(scope)
    found: list[_Given] = []
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                for one in targets:
                    parts = one.elts if isinstance(one, (ast.Tuple, ast.List)) else [one]
                    indices = [i for i, part in enumerate(parts) if access_path(part) == path]
                    found += [(value, None if parts == [one] else i, model) for i in indices]
            case ast.AnnAssign(target=one, value=ast.expr() as value) | ast.AugAssign(target=one, value=value):
                found += [(value, None, model)] if access_path(one) == path else []
            case ast.For(target=one) if any(isinstance(n, ast.expr) and access_path(n) == path for n in ast.walk(one)):
                # Whatever it goes over.
                return []
    if isinstance(target, ast.Name) and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        found += _given_by_callers(target.id, scope, model)
        if not found and target.id in model.source.bindings:
            bound = model.source.bindings[target.id]
            found = [(s.value, None, model) for s in bound if isinstance(s, ast.Assign)]
    return found


def _given_by_callers(name: str, function: FunctionNode, model: PlacementModel) -> list[_Given]:
    arguments = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    if name not in arguments:
        return []
    found: list[_Given] = []
    for file, call in model.calls_in_sight(function):
        called = file.callee(call)
        given = called.given(call).get(name) if called is not None else None
        found += [(given, None, file)] if given is not None else []
    return found
