"""Access paths: a name with constant attributes and keys, such as `model`, `self.net`, `batch['image']`."""

from __future__ import annotations

import ast

from devlint.source.modules import dotted
from devlint.source.trees import kept_on_node


def access_path(node: ast.expr) -> str | None:
    """The access path that an expression spells, or None."""
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, (ast.Attribute, ast.Subscript)):
        return None
    return _path_of(node)


@kept_on_node
def _path_of(node: ast.Attribute | ast.Subscript) -> str | None:
    base = access_path(node.value)
    match node:
        case ast.Attribute(attr=attr) if base:
            return f"{base}.{attr}"
        case ast.Subscript(slice=ast.Constant(value=str() | int() as key)) if base:
            return f"{base}[{key!r}]"
    return None


def unparsed(node: ast.expr) -> str:
    """What an expression says, as `ast.unparse` writes it; kept on the node."""
    if isinstance(node, ast.Name):
        return node.id
    return _spelt(node)


@kept_on_node
def _spelt(node: ast.expr) -> str:
    # Unparsing is slow, and most that is asked about are chains of names.
    return dotted(node) or ast.unparse(node)


def is_under(path: str, base: str) -> bool:
    """Whether `path` names a part of `base`."""
    return path.startswith(base) and path[len(base) : len(base) + 1] in (".", "[")
