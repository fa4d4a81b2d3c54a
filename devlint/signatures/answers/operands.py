"""Where the operands of operations are, and what is moved by a statement of its own: what findings about them go by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import METHOD, Value
from devlint.source.modules import SourceModule

_SETTLED = ("host", "accelerator")


def known_operands(reader: Reader, source: SourceModule) -> dict[ast.expr, Value]:
    """The values of those expressions of a file that was read, as far as all calls that are known bring one place."""
    found: dict[ast.expr, Value] = {}
    torn: set[ast.expr] = set()
    for frame in reader.frames_in(source):
        for node, value in _values(frame, source):
            if value.place.sort in _SETTLED and found.setdefault(node, value).place != value.place:
                torn.add(node)
    return {node: value for node, value in found.items() if node not in torn}


def _values(frame: Frame, source: SourceModule) -> Iterator[tuple[ast.expr, Value]]:
    for need in frame.needs:
        if need.source is source:
            yield from need.operands
    for call, method in frame.drops.items():
        if method.kind is METHOD and isinstance(call.func, ast.Attribute):
            yield call.func.value, method.parts[0]
