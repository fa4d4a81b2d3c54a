"""Plain lists of modules beside their registration: replicas of DataParallel get copies of what is registered, and the same list."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import FunctionModel, access_path, walk
from devlint_rules.moves.attributes import Kept

if TYPE_CHECKING:
    from devlint.facts import PlacementModel

# What makes replicas of a module in one process; DistributedDataParallel doesn't.
_REPLICATES = r"\bDataParallel\s*\(|\breplicate\s*\("


def beside_registration(found: Kept, constructor: FunctionModel, model: PlacementModel) -> ast.Call | None:
    """Where a constructor registers what it also puts into a list that other methods read, in a project that makes replicas."""
    listed = {name for node in constructor.nodes if (name := _appended(node, found.name))}
    if not listed or not _is_read(found.name, constructor) or constructor.cls is None:
        return None
    for node in constructor.nodes:
        if isinstance(node, ast.Call) and _registered(node) in listed:
            return node if model.project_uses(_REPLICATES) else None
    return None


def _appended(node: ast.AST, attribute: str) -> str:
    """`layer` of `self.layers.append(layer)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[ast.Name(id=name)]) if (
            access_path(owner) == f"self.{attribute}"
        ):
            return name
    return ""


def _registered(call: ast.Call) -> str:
    """`layer` of `self.add_module("a", layer)` or `setattr(self, "a", layer)`."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="self"), attr="add_module" | "register_module"),
            args=[_, ast.Name(id=name)],
        ):
            return name
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id="self"), _, ast.Name(id=name)]):
            return name
    return ""


def _is_read(attribute: str, constructor: FunctionModel) -> bool:
    """Whether a method other than the constructor takes modules out of the list."""
    methods = constructor.cls.body if constructor.cls is not None else []
    return any(
        (isinstance(node, (ast.For, ast.comprehension)) and access_path(_iterated(node.iter)) == f"self.{attribute}")
        or (isinstance(node, ast.Subscript) and access_path(node.value) == f"self.{attribute}")
        for method in methods
        if isinstance(method, ast.FunctionDef) and method is not constructor.node
        for node in walk(method)
    )


def _iterated(node: ast.expr) -> ast.expr:
    """`x` of `enumerate(x)`, `zip(x, y)`, `reversed(x)`."""
    match node:
        case ast.Call(func=ast.Name(id="enumerate" | "zip" | "reversed"), args=[first, *_]):
            return first
    return node
