"""Tensors that a function of the project makes on the host, and whoever calls it moves at once."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devlint.signatures.answers.callees import callee
from devlint.signatures.reading.reader import Reader
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.objects import KEPT
from devlint.signatures.state.outcome import Wait
from devlint.signatures.state.waits import MADE, STAGED
from devlint.signatures.values.values import HOST, TENSOR, Step, Value, steps_to
from devlint.source.devices import MOVES
from devlint.source.modules import FunctionModel, SourceModule
from devlint.source.trees import kept_on_node, own_nodes

# Factories that make the same on a device as on the host, or all but the last bit: what is made of data or at random isn't theirs.
_FACTORIES = frozenset(
    {"zeros", "ones", "full", "empty", "eye", "arange", "linspace", "logspace", "tril_indices", "triu_indices",
     "hann_window", "hamming_window", "bartlett_window", "blackman_window", "kaiser_window"}
)  # fmt: skip


@dataclass(frozen=True)
class Upload:
    """A move of what a function has just made on the host: the call that moves, the function, and the factory's line in it."""

    call: ast.Call
    maker: FunctionModel
    made: Step


def uploads(reader: Reader, source: SourceModule) -> dict[ast.Call, Upload]:
    """The uploads of a file whose scopes were read."""
    found: dict[ast.Call, Upload] = {}
    for frame in reader.frames_in(source):
        for wait in frame.waits:
            if wait.sense in (MADE, STAGED) and wait.name in MOVES and isinstance(wait.node, ast.Call):
                told = _judged(reader, frame, wait, wait.node)
                if told is not None:
                    found[wait.node] = told
    return found


def _judged(reader: Reader, frame: Frame, wait: Wait, move: ast.Call) -> Upload | None:
    if wait.supposed or frame.atoms.with_host(wait.path) or not _may_lead_away(wait.target):
        return None
    made = [_factory(option) for _, option in wait.value.options()]
    root = _maker(_scope(frame), wait.asked, move)
    if not made or None in made or root is None:
        return None
    cls = frame.function.cls if frame.function is not None else None
    called = callee(reader, frame.source, cls, root)
    if called is None or called.makes is not None or not _makes_at_once(called.function):
        return None
    inside = next((step for step in made if step is not None and _is_in(step, called.function)), None)
    return Upload(move, called.function, inside) if inside is not None else None


def _makes_at_once(function: FunctionModel) -> bool:
    """Whether a function makes its result each time, and not piece by piece: that is quicker on the host."""
    kept = any("cache" in name for name in function.decorators)
    return not kept and not any(isinstance(n, (ast.For, ast.While)) for n in function.nodes)


def _may_lead_away(target: Value | None) -> bool:
    """Whether a move's target is a device that may well be an accelerator."""
    options = [o for _, o in target.options()] if target is not None else []
    return bool(options) and all(o.place != HOST and (o.place.off_host or o.place.is_open) for o in options)


def _factory(value: Value) -> Step | None:
    """The step at which a factory made a tensor on the host that nobody keeps."""
    first = next(iter(steps_to(value.step)), None)
    if value.kind is not TENSOR or value.place != HOST or KEPT in value.tags or first is None:
        return None
    message, _, name = first.message.rstrip("`").partition("`")
    made_here = message.startswith("created on cpu by")
    return first if made_here and name.rsplit(".", 1)[-1] in _FACTORIES else None


def _scope(frame: Frame) -> ast.AST:
    return frame.function.node if frame.function is not None else frame.source.tree


def _is_in(step: Step, function: FunctionModel) -> bool:
    end = function.node.end_lineno or function.node.lineno
    return step.path == function.source.path and function.node.lineno <= step.line <= end


def _maker(scope: ast.AST, asked: ast.expr, move: ast.Call) -> ast.Call | None:
    """The call that made what is moved, where nothing else is done with that before: `f(n).to(d)`, `x = f(n); x = x.to(d)`."""
    if not isinstance(asked, ast.Name):
        return _root(asked)
    bound = _assigned(scope).get(asked.id, [])
    before = [n for n in bound if _position(n) < _position(move) and not _holds(n, move)]
    if not before:
        return None
    last = max(before, key=_position)
    loads = [n for n in _loads(scope).get(asked.id, []) if n is not asked]
    rebound = any(_holds(n, move) for n in bound)
    later = min((_position(n) for n in bound if _position(n) > _position(move)), default=None)
    used = [n for n in loads if _position(n) > _position(last) and (later is None or _position(n) < later)]
    if any(not rebound or _position(n) < _position(move) for n in used):
        return None
    assert isinstance(last, (ast.Assign, ast.AnnAssign))
    return _root(last.value)


@kept_on_node
def _assigned(scope: ast.AST) -> dict[str, list[ast.AST]]:
    """The plain assignments of a scope that bind each name."""
    found: dict[str, list[ast.AST]] = {}
    for node in own_nodes(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                found.setdefault(name, []).append(node)
    return found


@kept_on_node
def _loads(scope: ast.AST) -> dict[str, list[ast.Name]]:
    """Where a scope reads each name."""
    found: dict[str, list[ast.Name]] = {}
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(node)
    return found


def _root(node: ast.expr | None) -> ast.Call | None:
    """The first call of a chain of methods: `f(n)` of `f(n).view(2, 2)[None]`."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call() | ast.Subscript() as owner)):
                node = owner
            case ast.Subscript(value=ast.Call() | ast.Subscript() as owner):
                node = owner
            case ast.Call():
                return node
            case _:
                return None


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _holds(node: ast.AST, inner: ast.AST) -> bool:
    """Whether an expression stands in a statement, both of one file."""
    return _position(node) <= _position(inner) and _end(inner) <= _end(node)


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
