"""Tensors that the code takes out of their graph: a module computed them, so they are where that is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.regexes import regex
from devlint.signatures.answers.attributes import may_be_made_on_host
from devlint.signatures.answers.silence import is_host_code, is_host_file
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.outcome import Need
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import TENSOR, Place, Value
from devlint.source.devices import MOVES


def is_of_a_graph(reader: Reader, frame: Frame, node: ast.expr, value: Value) -> bool:
    """Whether the code takes something out of its graph, which a module computed, in a project that uses accelerators."""
    function, path = frame.function, frame.source.file
    if value.place.sort == "input" and _BATCH.fullmatch(str(value.place.name[0])):
        # No module computed what a loader gives.
        return False
    if value.place.sort == "input" and may_be_made_on_host(frame, value.place.name):
        return False
    if not _is_detached(node) or function is None or is_host_code(function) or is_host_file(frame.source.path):
        return False
    return _SPEAKS.search(function.text) is not None or reader.project.uses(_USES_ACCELERATORS, path)


_BATCH = regex(r"(?:.*_)?(?:batch|sample|data|meta|inputs?|targets?|labels?)s?")
_USES_ACCELERATORS = r"\.cuda\(|\.to\(\s*(?:self\.)?_?device|\baccelerator\b"


def _is_detached(node: ast.expr) -> bool:
    """`x.detach()`, or a part or another shape of it: nothing has copied it to the host, before that or since."""
    found = False
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                if name in MOVES:
                    return False
                found = found or name == "detach"
                node = owner
            case ast.Subscript(value=owner):
                node = owner
            case _:
                return found


def unplaced_results(frame: Frame, node: ast.expr, value: Value, need: Need) -> Iterator[tuple[Condition, Value]]:
    """What is taken out of its graph, of which nothing else is known, where a function speaks of accelerators by itself."""
    if need.via or frame.function is None or not _is_detached(node) or _SPEAKS.search(frame.function.text) is None:
        return
    for condition, option in value.options():
        if option.kind is TENSOR and option.place.sort == "unknown":
            yield condition, option.but(place=Place("input", ("#",)), likely=True)


_SPEAKS = regex(r"(?i)cuda|\bdevice\b|\bgpu\b")
