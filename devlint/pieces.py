"""A unit of a file, parsed by LibCST, and where its nodes stand in the file."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from devlint.findings import Span
from devlint.lazy import cst
from devlint.matching import preorder
from devlint.source.trees import walk
from devlint.source.units import Unit

if TYPE_CHECKING:
    from libcst.metadata import CodeRange

    from devlint.textmap import TextMap


# So many pieces are kept: fixes, and editors, ask for the same ones again.
@lru_cache(maxsize=256)
def parsed(code: str) -> tuple[cst.Module, dict[cst.CSTNode, CodeRange]]:
    """A piece of code, and where each of its nodes stands in it; raises LibCST's ParserSyntaxError."""
    from libcst.metadata import MetadataWrapper, PositionProvider

    module = cst.parse_module(code)
    return module, dict(MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider))


class Piece:
    """A unit, parsed by LibCST, with the way back to the file's lines and to the `ast`."""

    def __init__(self, unit: Unit, text: TextMap) -> None:
        self.unit = unit
        self.span = text.span_of(unit.node)
        self.code = text.slice(self.span)
        # A header may run over lines that only its statement's own brackets allow.
        self._wrapped = not unit.is_statement
        code = f"({self.code})" if self._wrapped else self.code
        self.module, self.positions = parsed(code)
        self._column = self.span.column - 1 - (1 if self._wrapped else 0)
        self._nodes: dict[Span, ast.expr] = {}
        self._augmented: dict[Span, ast.AugAssign] = {}
        for node in walk(unit.node):
            if isinstance(node, ast.expr):
                # The outermost: before Python 3.12, the parts of an f-string have the span of the whole.
                self._nodes.setdefault(text.span_of(node), node)
            elif isinstance(node, ast.AugAssign):
                self._augmented[text.span_of(node)] = node

    @cached_property
    def nodes(self) -> list[cst.CSTNode]:
        """All nodes, each before what is in it."""
        return preorder(self.module)

    def span_of(self, node: cst.CSTNode) -> Span:
        """Where a LibCST node stands in the file."""
        place = self.positions[node]
        start, end = place.start, place.end
        return Span(
            self.span.line + start.line - 1,
            start.column + 1 + (self._column if start.line == 1 else 0),
            self.span.line + end.line - 1,
            end.column + 1 + (self._column if end.line == 1 else 0),
        )

    def node_at(self, node: ast.expr | ast.stmt, text: TextMap) -> cst.CSTNode | None:
        """The LibCST node that an `ast` node is; the outermost of those that stand there."""
        span = text.span_of(node)
        here = [
            n
            for n in self.positions
            if isinstance(n, (cst.BaseExpression, cst.BaseSmallStatement)) and self.span_of(n) == span
        ]
        return next((n for n in here if isinstance(n, cst.BaseExpression)), here[0] if here else None)

    def ast_of(self, node: cst.CSTNode) -> ast.expr | None:
        """The `ast` expression that a LibCST expression is."""
        if isinstance(node, cst.Arg):
            node = node.value
        if node not in self.positions:
            return None
        span = self.span_of(node)
        if (isinstance(node, cst.Tuple) and node.lpar) or (isinstance(node, cst.GeneratorExp) and not node.lpar):
            # For `ast`, a tuple's parentheses belong to it, and a call's to the generator that is all it is given.
            span = Span(span.line, span.column - 1, span.end_line, span.end_column + 1)
        return self._nodes.get(span)

    def statement_of(self, node: cst.AugAssign) -> ast.AugAssign | None:
        """The `ast` statement that a LibCST augmented assignment is."""
        return self._augmented.get(self.span_of(node))

    def rendered(self, replacements: Iterable[tuple[cst.CSTNode, cst.CSTNode]]) -> str:
        """The piece's code with nodes replaced."""
        tree: cst.CSTNode = self.module
        for old, new in replacements:
            changed = tree.deep_replace(old, self._in_our_brackets(old, new))
            assert isinstance(changed, cst.CSTNode)
            tree = changed
        assert isinstance(tree, cst.Module)
        return tree.code[1:-1] if self._wrapped else tree.code

    def _in_our_brackets(self, old: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
        """A replacement of a whole header: the brackets around it, which LibCST gives to `old`, stay outermost."""
        if not self._wrapped or not isinstance(old, cst.BaseExpression) or not isinstance(new, cst.BaseExpression):
            return new
        if self.span_of(old) != self.span or (new.lpar and new.lpar[0] is old.lpar[0]):
            return new
        inner = old.with_changes(lpar=old.lpar[1:], rpar=old.rpar[:-1])
        changed = new.deep_replace(old, inner)
        assert isinstance(changed, cst.BaseExpression)
        return changed.with_changes(lpar=[old.lpar[0], *changed.lpar], rpar=[*changed.rpar, old.rpar[-1]])
