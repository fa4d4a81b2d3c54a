"""Whether a tensor that is made on the host is so small that nobody gains by making it in its place."""

from __future__ import annotations

import ast
from math import prod
from typing import TYPE_CHECKING

from devlint.facts import HOST
from devlint.lazy import regex
from devlint_rules.moves import factories

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.lazy import cst

# So many numbers are nothing.
HANDFUL = 16
# So many are many.
_MANY = 100_000
_OF_INTEGERS = frozenset({"torch.randint", "torch.randperm"})


def is_small(node: cst.Call, made: cst.Call, name: str, between: frozenset[str], facts: Facts) -> bool:
    """Whether `made` by a factory of that name, with methods `between` it and its move `node`, is too small to matter.

    That is what isn't surely many numbers, and isn't made again and again in a step. Random numbers take the host much longer than
    others: those that are as many as in another tensor matter, and a few don't, for others would be drawn by the device's own generator.
    """
    making, moving = facts.node(made), facts.node(node)
    if not isinstance(making, ast.Call) or not isinstance(moving, ast.Call):
        return False
    if is_handful(name, making) or _is_sized_by_read(making, facts):
        return True
    if name in factories.RANDOM or between & factories.FILLING:
        return name in _OF_INTEGERS or not (_is_many(name, making) or _is_as_another(making))
    return not (_is_in_loop(moving, facts) or _is_many(name, making))


def is_handful(name: str, making: ast.Call) -> bool:
    """`torch.eye(3)`, `torch.zeros(1, 1)`: a few numbers, by sizes that are written down."""
    sizes = _sizes(name, making)
    return bool(sizes) and None not in sizes and prod(size for size in sizes if size is not None) <= HANDFUL


def _is_many(name: str, making: ast.Call) -> bool:
    """`torch.eye(512)`, `torch.zeros(len(x), 3, 256, 256)`: many numbers, by the sizes that are written down."""
    return prod(size for size in _sizes(name, making) if size is not None) >= _MANY


def _sizes(name: str, making: ast.Call) -> list[int | None]:
    sizes = factories.told_sizes(name, making)
    return sizes * 2 if name == "torch.eye" and len(sizes) == 1 else sizes


def _is_in_loop(moving: ast.Call, facts: Facts) -> bool:
    """Whether a function that runs at each step makes it again and again."""
    return facts.model.hot_loop(moving) is None and any(
        isinstance(p, (ast.For, ast.While)) for p in facts.model.ancestors(moving)
    )


# What asks a tensor for a number.
_ASKED = regex(r"\.item\(\)|\.tolist\(\)|\bint\([^()\n]{0,60}\.(?:max|sum)\(\)")


def _is_sized_by_read(making: ast.Call, facts: Facts) -> bool:
    """Whether the host has just waited for a size: `n = int(lengths.max())`, `torch.arange(n)`."""
    names = [n for a in making.args for n in ast.walk(a) if isinstance(n, ast.Name)]
    said = [*making.args, *(value for name in names for value in facts.model.assigned_values(name))]
    return any(_ASKED.search(ast.unparse(node)) or _is_longest(node, facts) for node in said)


def _is_longest(node: ast.expr, facts: Facts) -> bool:
    """`lengths.max()` of a tensor elsewhere, which is no number yet."""
    match node:
        case ast.Call(func=ast.Attribute(value=tensor, attr="max" | "min" | "sum"), args=[], keywords=[]):
            return any(v.is_tensor and v.place != HOST for _, v in facts.model.value(tensor).alternatives())
    return False


def _is_as_another(making: ast.Call) -> bool:
    """Whether the one size is all sizes of another tensor: `torch.randn(x.shape)`, `torch.rand(*shape)`; one for each of a batch aren't many."""
    if any(isinstance(n, ast.Name) and _OF_LENGTHS.search(n.id) for size in making.args[:1] for n in ast.walk(size)):
        return False
    match making.args:
        case [ast.Starred(), *_] | [ast.Attribute(attr="shape")] | [ast.Call(func=ast.Attribute(attr="size"), args=[])]:
            return True
        case [ast.Name(id=name)]:
            return "shape" in name or "size" in name
    return False


_OF_LENGTHS = regex(r"(?:^|_)(?:len|lens|lengths?)$")
