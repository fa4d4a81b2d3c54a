"""Where operands meet that are at different places, as the signatures tell, in the words of the rules."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from devlint.placement import values as old
from devlint.placement.mixing import Mixing, Operand, Sense, is_input
from devlint.signatures.answers.contradictions import Contradiction, contradictions
from devlint.signatures.answers.excuses import is_kept_elsewhere
from devlint.signatures.reading.reader import Reader
from devlint.signatures.values import values as new
from devlint.source.kinds import Kind
from devlint.source.modules import SourceModule
from devlint.source.trees import kept_on_node


def mixings(reader: Reader, source: SourceModule) -> list[Mixing]:
    """The mixings of a file, the surest first."""
    return [_mixing(found) for found in contradictions(reader, source)]


def _mixing(found: Contradiction) -> Mixing:
    foreign = bool(found.via) and found.function is None
    other_text = ast.unparse(found.other.node)
    return Mixing(
        Sense(found.sense),
        found.node,
        found.name,
        Operand(found.host.node, _value(found.host.value), foreign, found.host.inside),
        Operand(found.other.node, _value(found.other.value, other_text), foreign, found.other.inside),
        found.sometimes,
        found.certain,
        found.by_itself,
        tuple(
            old.Step(f"called from here with {_words(call)}", source.path, call.lineno, call.col_offset)
            for source, call in found.via
            if found.node not in (call, call.func)
        ),
        _operation(found),
        any(f is not None and f.cls is not None for f in (found.function, found.scope))
        and is_kept_elsewhere(found.scope, found.host.value),
        found.weak,
    )


def _operation(found: Contradiction) -> old.Step | None:
    if found.operation is None:
        return None
    function, node = found.operation
    return old.Step(function.name, function.source.path, node.lineno, node.col_offset)


def _words(call: ast.Call) -> str:
    given = ", ".join(ast.unparse(a) for a in [*call.args, *(k.value for k in call.keywords)])
    return f"`{given}`" if 0 < len(given) <= 40 else "these arguments"


_KINDS = {new.TENSOR: Kind.TENSOR, new.BATCH: Kind.BATCH, new.MODULE: Kind.MODULE}


def _value(value: new.Value, text: str = "") -> old.Value:
    steps = tuple(old.Step(s.message, s.path, s.line, s.column, s.of_module) for s in new.steps_to(value.step))
    return old.Value(
        _KINDS.get(value.kind, Kind.TENSOR),
        _place(value.place, text),
        likely=value.likely or value.kind is new.UNKNOWN,
        ranked=value.rank == new.RANKED,
        trail=steps[-old.MAX_TRAIL :],
        name=value.data if isinstance(value.data, str) else "",
    )


def _place(place: new.Place, text: str) -> old.Place:
    match place.sort:
        case "host":
            return old.HOST
        case "accelerator":
            return old.accelerator(place.name)
        case "input" | "told":
            # What an unknown call gave has no name but the one that stands here.
            unnamed = str(place.name[0]).startswith("#")
            return old.same_as(text if unnamed else new.text_of(place.name).replace("\N{PRIME}", ""))
    return old.NOWHERE


def unplaced(found: Mapping[ast.expr | ast.AugAssign, Mixing], source: SourceModule) -> dict[ast.Call, Mixing]:
    """The factory calls that should have been told a device, each with where its result meets what a function is given."""
    result: dict[ast.Call, Mixing] = {}
    wanted = {
        (made.line, made.column): mixing
        for mixing in reversed(list(found.values()))
        if mixing.sense in (Sense.OPERATION, Sense.CALL)
        and not mixing.kept
        and mixing.host.value.kind is not Kind.MODULE
        and (made := next(iter(mixing.host.value.trail), None)) is not None
        and made.path == source.path
        and made.message.startswith("created on cpu")
        and _is_given(mixing, made, source)
    }
    if wanted:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and (node.lineno, node.col_offset) in wanted and _is_innermost(node):
                result[node] = wanted[node.lineno, node.col_offset]
    return result


def _is_innermost(node: ast.Call) -> bool:
    """Whether a call is the first of a chain: all of `torch.zeros(3).view(1, 3)` begins at one place."""
    inner = node.func
    while isinstance(inner, (ast.Attribute, ast.Subscript)):
        inner = inner.value
    return not isinstance(inner, ast.Call)


def _is_given(mixing: Mixing, made: old.Step, source: SourceModule) -> bool:
    """Whether what it meets came into the factory's function from outside."""
    scope = _function_at(source, made.line)
    if scope is None:
        return False
    end = scope.end_lineno or scope.lineno
    meets_here = scope.lineno <= mixing.node.lineno <= end
    if is_input(mixing.other.value.place):
        return meets_here or not _takes_numbers_alone(scope)
    if not meets_here:
        return False
    return not any(s.path == source.path and scope.lineno <= s.line <= end for s in mixing.other.value.trail)


def _takes_numbers_alone(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function says that it is given plain numbers: nothing there could tell a device."""
    arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
    named = {ast.unparse(a.annotation) if a.annotation is not None else "" for a in arguments}
    return bool(named) and named <= {"int", "float", "bool"}


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _function_at(source: SourceModule, line: int) -> _Function | None:
    """The innermost function around a line."""
    return _functions_by_line(source.tree).get(line)


@kept_on_node
def _functions_by_line(tree: ast.Module) -> dict[int, _Function]:
    found: dict[int, _Function] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            # Those around it come before it.
            found.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node))
    return found
