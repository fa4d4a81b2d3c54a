"""Whether a tensor that is made on the host is so small that nobody gains by making it in its place."""

from __future__ import annotations

import ast
from math import prod
from typing import TYPE_CHECKING

from devlint.facts import HOST, Kind, own_nodes
from devlint.lazy import regex
from devlint_rules.hot_loops.other_waits import waits_beside, waits_in_forward
from devlint_rules.moves import factories

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.lazy import cst

# So many numbers are nothing.
HANDFUL = 16
# How many there are in a batch.
_OF_BATCH = regex(r"len\(\w+\)|\w+\.(?:size\(0\)|size\(\)\[0\]|shape\[0\])|(?:\w+\.)?(?:batch_size|bsz?|batch|n_batch)")
# They give one row of numbers, whatever they are told.
_ROWS = frozenset({"torch.arange", "torch.randperm", "torch.range"})
# Methods that make many numbers of few.
_REPEATING = frozenset({"expand", "repeat"})
# A tensor's sizes but for the last one, which counts features: `x.size()[:-1]`, `x.shape[:2]`.
_WITHOUT_FEATURES = regex(r"[\w.]{1,60}(?:\.size\(\)|\.shape)\[:(?:-1|2)\]")


def is_small(node: cst.Call, made: cst.Call, name: str, between: frozenset[str], facts: Facts) -> bool:
    """Whether `made` by a factory of that name, with methods `between` it and its move `node`, is too small to matter.

    It is a handful of numbers, one for each of a batch, or the order of one; the host has just waited to know its size; or it is a row that is moved
    where the same function waits for the accelerator all the same.
    """
    making, moving = facts.node(made), facts.node(node)
    if not isinstance(making, ast.Call) or not isinstance(moving, ast.Call):
        return False
    if is_handful(name, making):
        return True
    if name == "torch.randperm" and _is_of_batch(making):
        # Others would be drawn by the device's own generator.
        return True
    if _is_sized_by_read(making, facts):
        return True
    if between & _REPEATING:
        return False
    if not (_is_row(name, making) or _is_of_scores(making, moving, facts)):
        return False
    if 1 in factories.told_sizes(name, making):
        # One number for each of a batch.
        return True
    return any(waits(moving, facts) for waits in (_uploads_beside, waits_beside, waits_in_forward))


def is_handful(name: str, making: ast.Call) -> bool:
    """`torch.eye(3)`, `torch.zeros(1, 1)`: a few numbers, by sizes that are written down."""
    sizes = factories.told_sizes(name, making)
    if name == "torch.eye":
        sizes = sizes * 2 if len(sizes) == 1 else sizes
    return bool(sizes) and None not in sizes and prod(size for size in sizes if size is not None) <= HANDFUL


def _is_of_batch(making: ast.Call) -> bool:
    return bool(making.args) and _OF_BATCH.fullmatch(ast.unparse(making.args[0])) is not None


def _is_row(name: str, making: ast.Call) -> bool:
    """Whether there is one number, or a handful, for each of something: `torch.arange(n)`, `torch.zeros(n, 1)`, `torch.ones(x.size()[:-1])`."""
    if name in _ROWS:
        return True
    if making.args and _WITHOUT_FEATURES.fullmatch(ast.unparse(making.args[0])):
        return True
    sizes = factories.told_sizes(name, making)
    return sizes.count(None) == 1 and prod(s for s in sizes if s is not None) <= HANDFUL and not _is_whole(making)


def _is_of_scores(making: ast.Call, moving: ast.Call, facts: Facts) -> bool:
    """Whether there is a number for each of a batch: `torch.rand(lengths.size())`, or `grad_outputs=torch.ones(scores.size())` of a penalty."""
    if not _is_whole(making):
        return False
    around = next(facts.model.ancestors(moving), None)
    if isinstance(around, ast.keyword) and around.arg == "grad_outputs":
        return True
    return any(isinstance(n, ast.Name) and _OF_LENGTHS.search(n.id) for n in ast.walk(making.args[0]))


_OF_LENGTHS = regex(r"(?:^|_)(?:len|lens|lengths?)$")


# What asks a tensor for a number.
_ASKED = regex(r"\.item\(\)|\.tolist\(\)|\bint\([^()\n]{0,60}\.(?:max|sum)\(\)|^[\w.]{1,60}\.(?:max|min|sum)\(\)$")


def _is_sized_by_read(making: ast.Call, facts: Facts) -> bool:
    """Whether the host has just waited for a size: `n = int(lengths.max())`, `torch.arange(n)`."""
    names = [n for a in making.args for n in ast.walk(a) if isinstance(n, ast.Name)]
    said = [*making.args, *(value for name in names for value in facts.model.assigned_values(name))]
    return any(_ASKED.search(ast.unparse(node)) for node in said)


def _is_whole(making: ast.Call) -> bool:
    """Whether the one size is all sizes of another tensor: `torch.zeros(x.shape)`, `torch.zeros(*shape)`."""
    match making.args:
        case [ast.Starred(), *_] | [ast.Attribute(attr="shape")] | [ast.Call(func=ast.Attribute(attr="size"), args=[])]:
            return True
        case [ast.Name(id=name)]:
            return "shape" in name or "size" in name
    return False


def _uploads_beside(moving: ast.Call, facts: Facts) -> bool:
    """Whether the same function copies something else from the host at each call, and nobody can tell it to be made elsewhere: `tokenizer(text).to(device)`."""
    return any(
        _is_upload(node, facts) and not facts.model.is_guarded(node)
        for node in own_nodes(facts.model.enclosing_scope(moving))
        if node is not moving
    )


def _is_upload(node: ast.AST, facts: Facts) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call() as source, attr="to" | "cuda"), keywords=keywords) if not any(
            k.arg == "non_blocking" for k in keywords
        ):
            pass
        case _:
            return False
    name = facts.model.qualified(source.func)
    if name in factories.ALL:
        return name in factories.OF_DATA or is_handful(name, source) or 1 in factories.told_sizes(name, source)
    options = [v for _, v in facts.model.value(source).alternatives()]
    return bool(options) and all(v.kind is Kind.UNKNOWN or v.place == HOST for v in options)
