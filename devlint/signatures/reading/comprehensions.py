"""Comprehensions: what they take, what they leave out, what they give."""

from __future__ import annotations

import ast
from typing import Any

from devlint.signatures.reading.assumptions import assume
from devlint.signatures.reading.expressions import EXPRESSIONS, evaluate
from devlint.signatures.reading.tests import condition_of
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import DICT, LIST, NEVER, NOTHING, TUPLE, UNKNOWN, Path, Value, constant
from devlint.source.slim import by_kind


def _comprehension(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
    before = dict(frame.env)
    known = _few(frame, node)
    if known is not None:
        found = []
        for part in known:
            frame.reader.bind(frame, node.generators[0].target, part)
            found.append(evaluate(frame, node.elt))
        contents = containers.sequence(found, frame)
    else:
        source = _in_turn(frame, node)
        _generate(frame, node.generators)
        contents = Value(containers.EACH, parts=(evaluate(frame, node.elt),), data=source)
    _restore(frame, before, node.generators)
    return containers.made(frame, LIST, contents, node)


def _few(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> tuple[Value, ...] | None:
    """The parts that a comprehension takes, where it has one loop over parts that are known."""
    if len(node.generators) != 1 or node.generators[0].ifs:
        return None
    contents = containers.contents_of(frame, evaluate(frame, node.generators[0].iter))
    if contents is None or contents.kind is not TUPLE or len(contents.parts) > 8:
        return None
    return contents.parts


def _in_turn(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Path | None:
    """The input that a comprehension has a part for each part of, in their order: a call may know them one by one."""
    if len(node.generators) != 1 or node.generators[0].ifs or isinstance(node, ast.SetComp):
        return None
    iterated = evaluate(frame, node.generators[0].iter)
    return iterated.path if iterated.kind is UNKNOWN else None


def _generate(frame: Frame, generators: list[ast.comprehension]) -> None:
    for generator in generators:
        each = containers.element(frame, evaluate(frame, generator.iter))
        frame.reader.bind(frame, generator.target, NOTHING if each is NEVER else each)
        for test in generator.ifs:
            condition_of(frame, test)
            assume(frame, test, True)


def _restore(frame: Frame, before: dict[Any, Value], generators: list[ast.comprehension]) -> None:
    """What a comprehension binds is its own."""
    for generator in generators:
        for name in ast.walk(generator.target):
            if isinstance(name, ast.Name):
                if name.id in before:
                    frame.env[name.id] = before[name.id]
                else:
                    frame.env.pop(name.id, None)


def _dict_comprehension(frame: Frame, node: ast.DictComp) -> Value:
    before = dict(frame.env)
    keys = _item_keys(frame, node)
    if keys is not None:
        found = {}
        for key, part in keys:
            frame.reader.bind(
                frame,
                node.generators[0].target,
                Value(TUPLE, parts=(constant(key), part)) if part is not None else constant(key),
            )
            found[key] = evaluate(frame, node.value)
        contents = Value(containers.ITEMS, data=tuple(found), parts=tuple(found.values()))
    else:
        _generate(frame, node.generators)
        evaluate(frame, node.key)
        contents = Value(containers.EACH, parts=(evaluate(frame, node.value),))
    _restore(frame, before, node.generators)
    return containers.made(frame, DICT, contents, node)


def _item_keys(frame: Frame, node: ast.DictComp) -> list[tuple[object, Value | None]] | None:
    """The keys of a dict that a comprehension rebuilds under the same keys: `{k: v.to(d) for k, v in x.items()}`."""
    if len(node.generators) != 1 or node.generators[0].ifs or not isinstance(node.key, ast.Name):
        return None
    generator = node.generators[0]
    match generator.iter, generator.target:
        case ast.Call(func=ast.Attribute(value=owner, attr="items"), args=[]), ast.Tuple(elts=[ast.Name(id=name), _]):
            with_values = True
        case owner, ast.Name(id=name):
            with_values = False
        case _:
            return None
    if name != node.key.id:
        return None
    contents = containers.contents_of(frame, evaluate(frame, owner))
    if contents is None or contents.kind is not containers.ITEMS or len(contents.parts) > 12:
        return None
    return [(k, v if with_values else None) for k, v in zip(contents.data, contents.parts, strict=True)]


EXPRESSIONS |= by_kind(
    {
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.DictComp: _dict_comprehension,
    }
)
