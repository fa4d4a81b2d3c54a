"""Who else says that what a function is given comes from an accelerator: its class, or those in the project that call it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from devlint.regexes import regex
from devlint.signatures.answers.callees import Callee
from devlint.signatures.answers.silence import is_host_code, is_host_file
from devlint.signatures.reading.reader import Reader
from devlint.signatures.values.values import Place
from devlint.source.modules import FunctionModel, SourceModule, last_name
from devlint.source.texts import is_test_file
from devlint.source.trees import walk
from devlint.source.units import units_at

# Calls are followed this far.
MAX_CALLS = 4
# So many files that have an object of a class are looked at.
MAX_HOLDERS = 20
# A name that is called on more lines than these is anybody's.
MAX_LINES = 40


def is_of_models(reader: Reader, function: FunctionModel | None, place: Place) -> bool:
    """Whether something says that a function gets from an accelerator what is at a place: it is a module's method, one leads to it,
    or a call gives it what was moved there.

    That it takes tensors from anywhere, its writer may never have meant, even where it asks them for their device.
    """
    name = str(place.name[0]) if place.name else ""
    return function is None or _is_of_models(reader, function, name, MAX_CALLS)


def _is_of_models(reader: Reader, function: FunctionModel, name: str, depth: int) -> bool:
    outer = function.outermost
    if outer.cls is not None:
        # Who has an object of another class, nobody knows.
        info = reader.class_info(outer.source, outer.cls)
        return (info.is_module or info.method("forward") is not None) and not _is_never_moved(
            reader, outer.source, outer.cls
        )
    calls = [call for call in _calls(reader, outer) if not _gives(call, outer, name, _COPIED)]
    if any(_gives(call, outer, name, _MOVED) for call in calls):
        return True
    callers = dict.fromkeys(call.caller for call in calls if not _is_for_host(call.caller))
    return depth > 0 and any(caller is not None and _is_of_models(reader, caller, "", depth - 1) for caller in callers)


def _is_never_moved(reader: Reader, source: SourceModule, cls: ast.ClassDef) -> bool:
    """Whether a program moves none of the objects of a class, all of which are in sight, and no other module has one of them."""
    project, path = reader.project, source.file
    kept = project.kept_as(path, cls.name) if project.is_only_run(path) else None
    if not kept:
        return False
    names = "|".join(sorted(map(re.escape, kept)))
    moved = rf"\b(?:{names})\.(?:to|cuda|half|double|float|_?apply)\("
    if re.search(moved, source.text) is not None or project.texts_match(moved, path):
        return False
    # Another module may have one, and is moved with it.
    held = rf"\bself\.(?:{names})[ \t]*=(?!=)"
    if re.search(held, source.text) is not None:
        return False
    holders = project.matching(held, path, MAX_HOLDERS)
    return not any(b"Module" in project.read_quietly(holder, path) for holder in holders)


def _is_for_host(function: FunctionModel | None) -> bool:
    return function is not None and (is_host_code(function) or is_host_file(function.source.path))


class _Called(NamedTuple):
    """A call of a function, and in which other one it stands; None at a module's top level."""

    node: ast.Call
    caller: FunctionModel | None
    scope: FunctionModel | None


def _gives(call: _Called, function: FunctionModel, name: str, moved: re.Pattern[str]) -> bool:
    """Whether a call gives a parameter what was moved by something: `psnr(x.cpu())`, or `x` after `x = x.cpu()`."""
    given = Callee(function, bound=False).given(call.node).get(name)
    if given is None:
        return False
    bound = call.scope.assigned.get(given.id, []) if call.scope is not None and isinstance(given, ast.Name) else []
    return any(moved.search(ast.unparse(node)) is not None for node in (given, *bound))


_COPIED = regex(r"\.(?:cpu|numpy)\(")
_MOVED = regex(r"\.cuda\(|\.to\([^)\n]{0,60}(?:cuda|device\b|gpu)")


def _calls(reader: Reader, function: FunctionModel) -> Iterator[_Called]:
    """The calls of a function by its name, tests left out."""
    here = function.source.file
    sources = [function.source]
    for path in reader.project.naming(here, function.name):
        source = reader.project.load(path, here)
        if source is not None and source is not function.source and not is_test_file(path):
            sources.append(source)
    for source in sources:
        yield from _calls_in(source, function)


def _calls_in(source: SourceModule, function: FunctionModel) -> Iterator[_Called]:
    lines = source.called_on(function.name)
    if len(lines) > MAX_LINES:
        return
    for unit in units_at(source, lines):
        caller = unit.scope.outermost if unit.scope is not None else None
        if caller is function:
            continue
        for node in walk(unit.node):
            if isinstance(node, ast.Call) and last_name(node.func) == function.name:
                yield _Called(node, caller, unit.scope)
