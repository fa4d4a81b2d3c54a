"""What one walk over a function's own nodes tells: how long it is, which names it binds, and how it uses them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devlint.source.evidence import evidence_in
from devlint.source.kinds import Kind
from devlint.source.slim import kinds


@dataclass(frozen=True)
class Outline:
    """What a function's nodes say of it, the definitions inside it named but not entered."""

    # The number of statements.
    size: int
    is_generator: bool
    # Names that the body binds, those under `global` and `nonlocal` left out.
    bound: frozenset[str]
    # Names under `global` or `nonlocal`.
    declared_outer: frozenset[str]
    # What the use of names says of them.
    evidence: dict[str, Kind]
    # The names of the attributes of `self` that it sets, in the order of the nodes.
    sets: tuple[str, ...]
    # Those of them of which it only takes something away: `self.blocks = self.blocks[:n]`, `self.norm = nn.Identity()`.
    lessens: frozenset[str]


def outline_of(function: ast.FunctionDef | ast.AsyncFunctionDef, nodes: list[ast.AST]) -> Outline:
    """The outline of a function with these nodes of its own."""
    size = 0
    generates = False
    bound: set[str] = set()
    outer: set[str] = set()
    sets: list[str] = []
    lessened: list[str] = []
    for node in nodes:
        # By type first: most nodes bind nothing, and patterns try each case in turn.
        kind = type(node)
        if kind not in _TELLING:
            size += isinstance(node, ast.stmt)
            continue
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
            continue
        if isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self":
                sets.append(node.attr)
            continue
        if isinstance(node, ast.Call):
            if (name := _registered(node)) is not None:
                sets.append(name)
            continue
        match node:
            case ast.Assign(targets=targets, value=value):
                size += 1
                lessened += [t.attr for t in targets if isinstance(t, ast.Attribute) and _is_less(value, t)]
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                size += 1
                bound |= {(a.asname or a.name).split(".")[0] for a in aliases}
            case ast.Global(names=more) | ast.Nonlocal(names=more):
                size += 1
                outer |= set(more)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                size += 1
                bound.add(name)
            case ast.ExceptHandler(name=str() as name):
                bound.add(name)
            case ast.Yield() | ast.YieldFrom():
                generates = True
    return Outline(
        size,
        generates,
        frozenset(bound - outer),
        frozenset(outer) if outer else _NONE,
        evidence_in(function, nodes),
        tuple(sets),
        frozenset(name for name in lessened if sets.count(name) == lessened.count(name)) if lessened else _NONE,
    )


def _is_less(value: ast.expr, target: ast.Attribute) -> bool:
    """Whether an attribute of `self` is set to some of what it holds, or to a module that does nothing."""
    match value:
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name), slice=ast.Slice()):
            return name == target.attr
        case ast.Call(func=ast.Attribute(attr="Identity"), args=[], keywords=[]):
            return True
    return False


def _registered(call: ast.Call) -> str | None:
    """The attribute of `self` that a call registers: `self.register_buffer("mask", ...)`."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in _REGISTERING:
        match func.value, call.args:
            case ast.Name(id="self"), [ast.Constant(value=str() as name), *_]:
                return name
    return None


_REGISTERING = frozenset({"register_buffer", "register_parameter", "add_module"})
_NONE = frozenset[str]()
_TELLING = kinds(
    *(ast.Name, ast.Attribute, ast.Call, ast.Assign, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.Yield, ast.YieldFrom),
)
