"""What a rule can ask about the LibCST nodes in front of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.findings import Edit, Note, Span
from devlint.lazy import cst
from devlint.placement.devices import is_device_name
from devlint.placement.sources import dotted
from devlint.placement.trees import walk
from devlint.placement.values import UNKNOWN, Kind, Sort, Step, Value
from devlint.portable import Portable

if TYPE_CHECKING:
    from libcst.metadata import CodeRange

    from devlint.placement.analysis import Missing
    from devlint.placement.loops import HotLoop
    from devlint.placement.mixing import Mixing
    from devlint.placement.model import PlacementModel
    from devlint.placement.sources import FunctionModel
    from devlint.placement.units import Unit
    from devlint.settings import Settings
    from devlint.signatures.answers.drops import Drop
    from devlint.signatures.answers.uploads import Upload
    from devlint.signatures.values.values import Step as SignatureStep
    from devlint.textmap import TextMap


class Piece:
    """A unit, parsed by LibCST, with the way back to the file's lines and to the `ast`."""

    def __init__(self, unit: Unit, text: TextMap) -> None:
        from libcst.metadata import MetadataWrapper, PositionProvider

        self.unit = unit
        self.span = text.span_of(unit.node)
        self.code = text.slice(self.span)
        # A header may run over lines that only its statement's own brackets allow.
        self._wrapped = not unit.is_statement
        code = f"({self.code})" if self._wrapped else self.code
        self.module = cst.parse_module(code)
        self._column = self.span.column - 1 - (1 if self._wrapped else 0)
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        self.positions: dict[cst.CSTNode, CodeRange] = dict(wrapper.resolve(PositionProvider))
        self._nodes: dict[Span, ast.expr] = {}
        self._augmented: dict[Span, ast.AugAssign] = {}
        for node in walk(unit.node):
            if isinstance(node, ast.expr):
                # The outermost: before Python 3.12, the parts of an f-string have the span of the whole.
                self._nodes.setdefault(text.span_of(node), node)
            elif isinstance(node, ast.AugAssign):
                self._augmented[text.span_of(node)] = node

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


class Facts:
    """The model's answers for the nodes of one piece of one file."""

    def __init__(
        self,
        model: PlacementModel,
        piece: Piece,
        text: TextMap,
        path: str,
        settings: Settings | None = None,
        *,
        portable: bool = False,
    ) -> None:
        self.model = model
        self.text = text
        self.path = path
        release = settings.torch_version if settings is not None else None
        # Whether the code is meant for releases that all have `torch.accelerator`, which came with torch 2.6, or, where
        # nothing is said of releases, for any accelerator.
        self.prefers_accelerator = portable if release is None else release >= (2, 6)
        # The oldest release of torch that the code is meant for; None where it isn't said.
        self.oldest_torch = release
        # What the project says of portability, and whether it says of this file that it is about CUDA.
        self.portable = settings.portable if settings is not None else Portable()
        self.is_cuda_only = settings is not None and self.portable.is_cuda_only(settings.root, Path(model.source.path))
        self._piece = piece

    def node(self, node: cst.CSTNode) -> ast.expr | None:
        """The `ast` expression that a LibCST expression is."""
        return self._piece.ast_of(node)

    @property
    def statement(self) -> ast.stmt:
        """The statement that the piece is or belongs to."""
        return self._piece.unit.statement

    @property
    def scope(self) -> FunctionModel | None:
        """The function that the piece runs in; None at the module's top level."""
        return self._piece.unit.scope

    def value(self, node: cst.CSTNode) -> Value:
        """Kind, place and trail of an expression."""
        found = self._piece.ast_of(node)
        return self.model.value(found) if found is not None else UNKNOWN

    def qualified(self, node: cst.CSTNode) -> str | None:
        """The documented name of what an expression refers to, such as `torch.load`; None when it isn't a reference."""
        found = self._piece.ast_of(node)
        return self.model.qualified(found) if found is not None else None

    def hot_loop(self, node: cst.CSTNode) -> HotLoop | None:
        """The hot loop that runs an expression each pass."""
        found = self._piece.ast_of(node)
        return self.model.hot_loop(found) if found is not None else None

    def on_accelerator(self, node: cst.CSTNode) -> tuple[Value, bool] | None:
        """(the value, likely) where an expression may be a tensor on an accelerator; None where it isn't known to be.

        A device that the program is told (`args.device`, a parameter `device`) counts as an accelerator, likely.
        """
        return self.accelerated(self.value(node))

    @staticmethod
    def accelerated(value: Value) -> tuple[Value, bool] | None:
        """The same of a value."""
        for _, option in value.alternatives():
            if option.kind not in (Kind.TENSOR, Kind.PARAMETER, Kind.BATCH, Kind.UNKNOWN):
                continue
            if option.place.off_host:
                return option, option.likely or option.kind is not Kind.TENSOR
            if option.place.sort is Sort.SAME and is_device_name(ast.parse(option.place.name, mode="eval").body):
                return option, True
        return None

    def missing(self, node: cst.CSTNode) -> Missing | None:
        """What the model says of an attribute that a wrapper hasn't got."""
        found = self._piece.ast_of(node)
        return self.model.missing.get(found) if isinstance(found, ast.Attribute) else None

    def drop(self, node: cst.CSTNode) -> Drop | None:
        """What the model says of a tensor's move that stands as a statement of its own."""
        found = self._piece.ast_of(node)
        return self.model.drops.get(found) if isinstance(found, ast.Call) else None

    def upload(self, node: cst.CSTNode) -> Upload | None:
        """What the model says of the move of what a function of the project has just made on the host."""
        found = self._piece.ast_of(node)
        return self.model.uploads.get(found) if isinstance(found, ast.Call) else None

    def mixing(self, node: cst.CSTNode) -> Mixing | None:
        """What the model says of an operation whose operands are at different places."""
        found = self._piece.statement_of(node) if isinstance(node, cst.AugAssign) else self._piece.ast_of(node)
        return self.model.mixings.get(found) if found is not None else None

    def unplaced(self, node: cst.CSTNode) -> Mixing | None:
        """Where the result of a factory that wasn't told a device meets an input."""
        found = self._piece.ast_of(node)
        return self.model.unplaced.get(found) if isinstance(found, ast.Call) else None

    def notes(self, trail: Iterable[Step | SignatureStep]) -> tuple[Note, ...]:
        """A trail as notes."""
        return tuple(Note(s.message, s.path, s.line, s.column + 1) for s in trail)

    def note(self, message: str, node: ast.stmt | ast.expr) -> Note:
        """A note at a node of this file."""
        span = self.text.span_of(node)
        return Note(message, self.model.source.path, span.line, span.column)

    def replaced(self, node: ast.stmt | ast.expr, code: str) -> Edit:
        """An edit that puts other code in a node's place."""
        return Edit(self.text.span_of(node), code)

    def inserted_after(self, statement: ast.stmt, code: str) -> Edit:
        """An edit that adds one line of code after a statement, as deep as the statement stands."""
        line = statement.end_lineno or statement.lineno
        column = len(self.text.line(line)) + 1
        start = self.text.span_of(statement)
        indent = self.text.line(start.line)[: start.column - 1]
        return Edit(Span(line, column, line, column), f"{self.text.newline}{indent}{code}")

    def with_argument(self, call: ast.Call, *arguments: str) -> Edit:
        """An edit that adds arguments to a call, right behind the last one and laid out as that is."""
        given = [*call.args, *(k.value for k in call.keywords)]
        closing = self.text.span_of(call)
        if not given:
            at = Span(closing.end_line, closing.end_column - 1, closing.end_line, closing.end_column - 1)
            return Edit(at, ", ".join(arguments))
        last = max((self.text.span_of(a) for a in given), key=lambda s: (s.end_line, s.end_column))
        end = self._behind_brackets(
            self.text.offset(last.end_line, last.end_column), self.text.offset(closing.end_line, closing.end_column) - 1
        )
        line, column = self.text.position(end)
        rest = self.text.text[end : self.text.offset(closing.end_line, closing.end_column)]
        if rest.lstrip().startswith(",") and line < closing.end_line:
            # One argument a line, each with its comma: lines of their own, below the comment that may stand behind the comma.
            first = self.text.line(last.line)
            indent = first[: len(first) - len(first.lstrip())]
            at = Span(line, len(self.text.line(line)) + 1, line, len(self.text.line(line)) + 1)
            return Edit(at, "".join(f"{self.text.newline}{indent}{argument}," for argument in arguments))
        return Edit(Span(line, column, line, column), "".join(f", {argument}" for argument in arguments))

    def _behind_brackets(self, start: int, stop: int) -> int:
        """The offset behind the brackets that close around an argument that ends at `start`."""
        end = start
        at = start
        while at < stop:
            character = self.text.text[at]
            if character == "#":
                while at < stop and self.text.text[at] not in "\r\n":
                    at += 1
                continue
            if character == ")":
                end = at + 1
            elif not character.isspace() and character != "\\":
                break
            at += 1
        return end

    def without_method(self, call: ast.Call) -> Edit | None:
        """An edit that leaves `owner` of `owner.method(...)`; None where a comment stands in what goes."""
        assert isinstance(call.func, ast.Attribute)
        owner, func, whole = (self.text.span_of(node) for node in (call.func.value, call.func, call))
        after_owner = self.text.offset(owner.end_line, owner.end_column)
        name = self.text.offset(func.end_line, func.end_column) - len(call.func.attr)
        stop = self.text.offset(whole.end_line, whole.end_column)
        if "#" in self.text.text[after_owner:stop]:
            return None
        start = self.text.text.rindex(".", after_owner, name)
        while start > after_owner and self.text.text[start - 1] in " \t\r\n\\":
            start -= 1
        return Edit(Span(*self.text.position(start), *self.text.position(stop)), "")

    def inserted_before(self, statement: ast.stmt, code: str) -> Edit:
        """An edit that adds lines of code before a statement, as deep as the statement stands.

        A statement that others stand before on its line gets them on that line too.
        """
        start = self.text.span_of(statement)
        indent = self.text.line(start.line)[: start.column - 1]
        at = Span(start.line, start.column, start.line, start.column)
        if indent.strip():
            return Edit(at, f"{code}; ")
        return Edit(at, "".join(f"{line}{self.text.newline}{indent}" for line in code.split("\n")))

    def removed(self, statement: ast.stmt) -> Edit:
        """An edit that takes a statement away, with its lines."""
        end = statement.end_lineno or statement.lineno
        return Edit(Span(statement.lineno, 1, end + 1, 1), "")

    def code_of(self, node: ast.AST) -> str:
        """An `ast` node's source text."""
        assert isinstance(node, (ast.expr, ast.stmt))
        return self.text.slice(self.text.span_of(node))

    def name_of(self, node: cst.CSTNode) -> str:
        """A node's source text, for messages: whitespace folded, long ones cut."""
        if isinstance(node, cst.BaseExpression) and not isinstance(node, (cst.Tuple, cst.GeneratorExp)):
            node = node.with_changes(lpar=[], rpar=[])
        text = " ".join(cst.Module([]).code_for_node(node).split())
        return text if len(text) <= 60 else f"{text[:57]}..."


def plain_name(node: ast.expr) -> str | None:
    """`a.b.c` as text, None for anything but names and attributes."""
    return dotted(node)
