"""Whether a tensor that is made on the host is so small that nobody gains by making it in its place."""

from __future__ import annotations

import ast
from math import prod
from typing import TYPE_CHECKING

from devlint.facts import HOST, own_nodes
from devlint.lazy import regex
from devlint_rules.moves import factories

if TYPE_CHECKING:
    from devlint.facts import Facts
    from devlint.lazy import cst

# So many numbers are nothing.
HANDFUL = 16
# So many for each of a batch are few.
_FEW = 256
# So many are many.
_MANY = 100_000
_OF_INTEGERS = frozenset({"torch.randint", "torch.randperm"})
# How many there are in a batch.
_OF_BATCH = regex(r"len\(\w+\)|\w+\.(?:size\(0\)|size\(\)\[0\]|shape\[0\])|(?:\w+\.)?(?:batch_size|bsz?|batch|n_batch)")
# They give one row of numbers, whatever they are told.
_ROWS = frozenset({"torch.arange", "torch.linspace", "torch.logspace", "torch.randperm", "torch.range"})
# Methods that make many numbers of few.
_REPEATING = frozenset({"expand", "repeat"})
# A tensor's sizes but for the last one, which counts features: `x.size()[:-1]`, `x.shape[:2]`.
_WITHOUT_FEATURES = regex(r"[\w.]{1,60}(?:\.size\(\)|\.shape)\[:(?:-1|2)\]")


def is_small(node: cst.Call, made: cst.Call, name: str, between: frozenset[str], facts: Facts) -> bool:
    """Whether `made` by a factory of that name, with methods `between` it and its move `node`, is too small to matter.

    It is a handful of numbers, or a few for each of a batch, and isn't made again and again in a step; the host has just waited to know its size; or
    it is filled element by element.
    """
    making, moving = facts.node(made), facts.node(node)
    if not isinstance(making, ast.Call) or not isinstance(moving, ast.Call):
        return False
    if is_handful(name, making):
        return True
    if (name in factories.RANDOM or between & factories.FILLING) and not _is_large(name, making):
        # Others would be drawn by the device's own generator: for a few nobody asks that.
        return True
    if _is_sized_by_read(making, facts):
        return True
    if (between & _REPEATING and name not in _ROWS) or _is_in_loop(moving, facts):
        return False
    if (
        _is_row(name, making)
        or _is_flat(name, making)
        or _is_first_state(making)
        or _is_of_scores(making, moving, facts)
    ):
        return True
    return _is_filled_one_by_one(moving, facts)


def is_handful(name: str, making: ast.Call) -> bool:
    """`torch.eye(3)`, `torch.zeros(1, 1)`: a few numbers, by sizes that are written down."""
    sizes = factories.told_sizes(name, making)
    if name == "torch.eye":
        sizes = sizes * 2 if len(sizes) == 1 else sizes
    return bool(sizes) and None not in sizes and prod(size for size in sizes if size is not None) <= HANDFUL


def _is_large(name: str, making: ast.Call) -> bool:
    """Whether there are many numbers, or as many as in another tensor, and these aren't integers: labels are few."""
    if name in _OF_INTEGERS:
        return False
    sizes = factories.told_sizes(name, making)
    return _is_whole(making) or prod(size for size in sizes if size is not None) >= _MANY


def _is_row(name: str, making: ast.Call) -> bool:
    """Whether there is one number, or a handful, for each of something: `torch.arange(n)`, `torch.zeros(n, 1)`, `torch.ones(x.size()[:-1])`."""
    if name in _ROWS:
        return True
    if making.args and _WITHOUT_FEATURES.fullmatch(ast.unparse(making.args[0])):
        return True
    sizes = factories.told_sizes(name, making)
    return sizes.count(None) == 1 and prod(s for s in sizes if s is not None) <= HANDFUL and not _is_whole(making)


def _is_flat(name: str, making: ast.Call) -> bool:
    """Whether there are a few numbers for each of a batch, or of something else: `torch.zeros(batch_size, classes)`, `torch.zeros(n, 64)`."""
    sizes = factories.told_sizes(name, making)
    written = making.args[0].elts if making.args and isinstance(making.args[0], (ast.Tuple, ast.List)) else making.args
    of_batch = any(_OF_BATCH.fullmatch(ast.unparse(size)) for size in written)
    few = [size for size in sizes if size is not None and size <= _FEW]
    return len(sizes) == 2 and None in sizes and (of_batch or bool(few)) and len(few) == 2 - sizes.count(None)


def _is_first_state(making: ast.Call) -> bool:
    """Whether a recurrent layer begins with it: `torch.zeros(num_layers, batch_size, width)`, `torch.zeros(hidden.size())`."""
    written = " ".join(map(ast.unparse, making.args))
    return _OF_LAYERS.search(written) is not None or (_is_whole(making) and _OF_STATES.match(written) is not None)


# How many layers there are, and what a recurrent one hands on.
_OF_LAYERS = regex(r"\b(?:n(?:um)?|rnn|lstm|gru)_?layers?\b|\bnum_directions\b")
_OF_STATES = regex(r"(?i)(?:self\.)?\w{0,40}(?:hidden|state|h0|c0)\w{0,40}\.(?:size|shape)")


def _is_in_loop(moving: ast.Call, facts: Facts) -> bool:
    """Whether a function that runs at each step makes it again and again."""
    return facts.model.hot_loop(moving) is None and any(
        isinstance(p, (ast.For, ast.While)) for p in facts.model.ancestors(moving)
    )


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


def _is_whole(making: ast.Call) -> bool:
    """Whether the one size is all sizes of another tensor: `torch.zeros(x.shape)`, `torch.zeros(*shape)`."""
    match making.args:
        case [ast.Starred(), *_] | [ast.Attribute(attr="shape")] | [ast.Call(func=ast.Attribute(attr="size"), args=[])]:
            return True
        case [ast.Name(id=name)]:
            return "shape" in name or "size" in name
    return False


def _is_filled_one_by_one(moving: ast.Call, facts: Facts) -> bool:
    """Whether a loop in a loop puts each element of what is made in its place, beside which one copy is nothing."""
    match facts.model.source.statement_of(moving):
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return False
    around = set(facts.model.ancestors(moving))
    return any(
        isinstance(n, ast.Subscript)
        and isinstance(n.ctx, ast.Store)
        and isinstance(n.value, ast.Name)
        and n.value.id == name
        and sum(isinstance(p, ast.For) and p not in around for p in facts.model.ancestors(n)) > 1
        for n in own_nodes(facts.model.enclosing_scope(moving))
    )
