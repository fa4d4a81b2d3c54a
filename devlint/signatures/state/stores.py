"""What is put into containers: items, slices, and what lists and dicts are given more of."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devlint.signatures.state.containers import (
    EACH,
    ITEMS,
    all_parts,
    any_of,
    contents_of,
    each_of,
    element,
    sequence,
    written,
)
from devlint.signatures.state.frame import ANYTHING, CONTENTS, STORED, Frame, Stored
from devlint.signatures.values.conditions import TRUE
from devlint.signatures.values.values import (
    BATCH,
    CONSTANT,
    DICT,
    EITHER,
    LIST,
    MAX_PARTS,
    MODULES,
    NEVER,
    NOTHING,
    TENSOR,
    TUPLE,
    UNKNOWN,
    Value,
    either,
    mapped,
)


def store_item(frame: Frame, node: ast.Subscript, owner: Value, index: ast.expr, value: Value) -> None:
    """`owner[index] = value`."""
    from_index = frame.reader.evaluate(frame, index)
    for condition, option in owner.options():
        if option.kind is TENSOR:
            # The tensor stays where it is; what is stored is copied there.
            continue
        if option.kind in (UNKNOWN, BATCH):
            if option.path is not None and from_index.kind is CONSTANT:
                frame.put(option, written(from_index), value)
            elif option.path is not None:
                frame.env[option.path, ANYTHING] = frame.env[option.path, STORED] = NOTHING
            continue
        if option.kind not in (LIST, DICT) or option.identity is None:
            continue
        contents = contents_of(frame, option)
        if isinstance(index, ast.Slice):
            new = _with_slice(frame, contents, index, value)
        else:
            new = _stored(frame, option, contents, from_index, node, value)
        if condition != TRUE and contents is not None:
            new = either([(condition, new), (frame.atoms.negated(condition), contents)], frame.atoms)
        frame.env[option.identity, CONTENTS] = new
        if condition == TRUE and isinstance(index, ast.Name):
            frame.last_stores[option.identity] = Stored(index.id, frame.passes, new, value)


def _with_slice(frame: Frame, contents: Value | None, index: ast.Slice, value: Value) -> Value:
    """What a list holds in which `value` takes the place of a part: of all of it, where neither end is told."""
    new = contents_of(frame, value) or Value(EACH, parts=(NOTHING,))
    if index.lower is None and index.upper is None and index.step is None:
        return new
    return each_of([all_parts(part, frame) for part in (contents, new) if part is not None], frame)


def _stored(
    frame: Frame, owner: Value, contents: Value | None, index: Value, node: ast.Subscript, value: Value
) -> Value:
    if contents is None:
        return Value(EACH, parts=(NOTHING,))
    if contents.kind is EITHER:
        return mapped(contents, lambda c: _stored(frame, owner, c, index, node, value), frame.atoms)
    if contents.kind is TUPLE and owner.kind is LIST:
        if (
            index.kind is CONSTANT
            and isinstance(index.data, int)
            and -len(contents.parts) <= index.data < len(contents.parts)
        ):
            parts = list(contents.parts)
            parts[index.data] = value
            return Value(TUPLE, parts=tuple(parts))
        return _each_in_turn(frame, owner, contents, node, value)
    if contents.kind is TUPLE and not contents.parts and owner.kind is DICT:
        contents = Value(ITEMS, data=(), parts=())
    if contents.kind is ITEMS:
        if index.kind is CONSTANT:
            table = dict(zip(contents.data, contents.parts, strict=True)) | {index.data: value}
            if len(table) <= MAX_PARTS:
                return Value(ITEMS, data=tuple(table), parts=tuple(table.values()))
        return _each_in_turn(frame, owner, contents, node, value)
    if contents.kind is EACH:
        return _each_in_turn(frame, owner, contents, node, value)
    return Value(EACH, parts=(NOTHING,))


def _each_in_turn(frame: Frame, owner: Value, contents: Value, node: ast.Subscript, value: Value) -> Value:
    """A store under a key that isn't known: in a loop over the container's own keys it reaches each part in turn."""
    if frame.loop_stores and _is_in_turn(frame, node):
        frame.loop_stores[-1][owner] = value
        return Value(EACH, parts=(value,))
    parts = [p for p in contents.parts if p is not NEVER]
    if not parts:
        return Value(EACH, parts=(value,))
    if all(p == value for p in parts):
        return contents
    return Value(EACH, parts=(any_of([*parts, value], frame),))


def _is_in_turn(frame: Frame, target: ast.Subscript) -> bool:
    """Whether a store's index is the target of a loop over the container's own keys or indices."""
    if not isinstance(target.slice, ast.Name):
        return False
    container = ast.unparse(target.value)
    for parent in frame.source.ancestors(target):
        if isinstance(parent, ast.For):
            first = parent.target
            if isinstance(first, ast.Tuple) and first.elts:
                first = first.elts[0]
            if isinstance(first, ast.Name) and first.id == target.slice.id:
                return container in ast.unparse(parent.iter)
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
    return False


def added(frame: Frame, owner: Value, parts: Sequence[Value], *, spread: bool = False) -> None:
    """`append`, `extend`, `add`: further parts."""
    for condition, option in owner.options():
        if option.kind not in (LIST, DICT) and option.kind not in MODULES:
            continue
        if option.identity is None:
            continue
        contents = contents_of(frame, option)
        if spread and len(parts) == 1:
            more = contents_of(frame, parts[0])
            given = more.parts if more is not None and more.kind is TUPLE else (element(frame, parts[0]),)
        else:
            given = tuple(parts)
        new = _longer(frame, contents, given)
        if condition != TRUE and contents is not None:
            new = either([(condition, new), (frame.atoms.negated(condition), contents)], frame.atoms)
        frame.env[option.identity, CONTENTS] = new


def _longer(frame: Frame, contents: Value | None, given: Sequence[Value]) -> Value:
    if contents is None:
        return Value(EACH, parts=(NOTHING,))
    if contents.kind is EITHER:
        return mapped(contents, lambda c: _longer(frame, c, given), frame.atoms)
    in_loop = bool(frame.breaks)
    if contents.kind is TUPLE and not in_loop:
        return sequence([*contents.parts, *given], frame)
    old = [p for p in contents.parts if isinstance(p, Value) and p is not NEVER]
    return Value(EACH, parts=(any_of([*old, *given], frame),))
