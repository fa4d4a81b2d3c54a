"""Where the operands of operations are, and what is moved by a statement of its own: what findings about them go by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.values import METHOD, Path, Value
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


def spelt(frame: Frame, path: Path) -> Path:
    """A path, what an unknown call gave being called by the name that holds it here or at the top level."""
    if not str(path[0]).startswith("#"):
        return path
    module = frame.reader.so_far_of(frame.source)
    for env in (frame.env, module.env if module is not None else frame.env):
        for name, held in env.items():
            if isinstance(name, str) and held.path == path[:1]:
                return (name, *path[1:])
    return path


def _values(frame: Frame, source: SourceModule) -> Iterator[tuple[ast.expr, Value]]:
    for need in frame.needs:
        if need.source is source:
            yield from need.operands
    for call, method in frame.drops.items():
        if method.kind is METHOD and isinstance(call.func, ast.Attribute):
            yield call.func.value, method.parts[0]
