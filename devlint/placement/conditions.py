"""Tests that say that the program has no accelerator."""

from __future__ import annotations

import ast

from devlint.regexes import regex
from devlint.source.paths import unparsed


def is_for_the_host(parent: ast.AST, child: ast.AST) -> bool:
    """Whether `child` runs, by standing in `parent`, only where there is no accelerator."""
    match parent:
        case ast.If(test=test, body=body) if child is not test:
            holds = child in body
        case ast.IfExp(test=test, body=then) if child is not test:
            holds = child is then
        case _:
            return False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    positive = _positive(test)
    return _says_none(unparsed(positive or test), holds is (positive is None))


def _positive(test: ast.expr) -> ast.expr | None:
    """The opposite of a test with a negative operator: `!=`, `is not`, `not in`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        return ast.Compare(test.left, [_OPPOSITE[type(test.ops[0])]()], test.comparators)
    return None


_OPPOSITE: dict[type, type[ast.cmpop]] = {ast.IsNot: ast.Is, ast.NotEq: ast.Eq, ast.NotIn: ast.In}


def _says_none(condition: str, outcome: bool) -> bool:
    """Whether the outcome of a test says that the program runs on the host alone: `device.type == "cpu"`, and no `n_gpu > 0`."""
    if condition.endswith(" is None"):
        return _says_none(condition.removesuffix(" is None"), not outcome)
    return _WITHOUT[outcome].fullmatch(condition) is not None and _SEVERAL.search(condition) is None


# Conditions, by their outcome, under which a program has no accelerator.
_WITHOUT = {
    True: regex(r"""(?:.*\.)?(?:no_cuda|no_gpu|no_accel|use_cpu|cpu_only|is_cpu)|.* == ['"]cpu['"]"""),
    False: regex(
        r"""(?:.*\.)?(?:use_cuda|use_gpu|use_accel|cuda|gpu|is_cuda)|.* == ['"]cuda['"]|torch\.(?:cuda|accelerator)\.is_available\(\)"""
        r"""|(?:.*\.)?(?:n_?gpus?|num_gpus?|device_count\(\))(?: > 0| >= 1)?"""
    ),
}
_SEVERAL = regex(r" (?:and|or) ")
