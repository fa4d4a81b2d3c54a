"""Makes a program smaller while something stays true of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Holds = Callable[[str], bool]

# What may stand for the expression around it. A constant for a tensor would be another program.
_PARTS = (ast.BinOp, ast.Call, ast.Subscript, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Name, ast.Attribute)

_MODULES = ("torch", "F", "nn", "np", "sys", "os")


def shrink(text: str, holds: Holds) -> str:
    """A small program for which `holds` is true; it must be true of the text."""
    for cuts in (_statements, _expressions, _statements):
        done = 0
        while done < len(candidates := list(cuts(text))):
            if _compiles(candidates[done]) and holds(candidates[done]):
                text = candidates[done]
            else:
                done += 1
    return text


def _compiles(text: str) -> bool:
    try:
        compile(text, "<candidate>", "exec")
    except SyntaxError:
        return False
    return True


def _statements(text: str) -> Iterator[str]:
    """The text without a statement (the large ones first), or with a block in place of the statement around it."""
    lines = text.splitlines()
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    for node in sorted(nodes, key=lambda node: (_first(node) - (node.end_lineno or 0), -node.lineno)):
        if isinstance(node, ast.Return) and node.value:
            continue  # A function that returns nothing is another program.
        start, end = _first(node) - 1, node.end_lineno or node.lineno
        yield _joined(lines[:start] + lines[end:])
        if end - start > 1 or not isinstance(node, ast.Pass):
            yield _joined([*lines[:start], " " * node.col_offset + "pass", *lines[end:]])
        for block in ("body", "orelse", "finalbody"):
            inner = getattr(node, block, None)
            if inner and not isinstance(node, ast.FunctionDef | ast.ClassDef):
                kept = lines[inner[0].lineno - 1 : inner[-1].end_lineno]
                shift = inner[0].col_offset - node.col_offset
                yield _joined(lines[:start] + [line[shift:] for line in kept] + lines[end:])


def _first(node: ast.stmt) -> int:
    """A statement's first line, with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _expressions(text: str) -> Iterator[str]:
    """The text with a part of an expression in place of the whole."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, _PARTS[:-2]):
            continue
        for part in ast.walk(node):
            if part is not node and isinstance(part, _PARTS) and part.lineno == part.end_lineno == node.lineno:
                line = lines[node.lineno - 1]
                if _fixed(part, line):
                    continue
                smaller = (
                    line[: node.col_offset] + line[part.col_offset : part.end_col_offset] + line[node.end_col_offset :]
                )
                yield _joined([*lines[: node.lineno - 1], smaller, *lines[node.lineno :]])


def _fixed(part: ast.expr, line: str) -> bool:
    """Whether a part can't stand for the whole: something of a module that isn't called, or what tells a flag."""
    root = part
    while isinstance(root, ast.Attribute):
        root = root.value
    return (isinstance(root, ast.Name) and root.id in _MODULES) or "sys." in line or "os." in line


def _joined(lines: list[str]) -> str:
    """A text without blank lines that follow one another."""
    kept = [line for line, before in zip(lines, ["", *lines], strict=False) if line.strip() or before.strip()]
    return "\n".join(kept) + "\n"
