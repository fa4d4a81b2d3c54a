"""What a rule can ask about the LibCST nodes in front of it, and the words in which it is answered.

This module, `devlint.rule`, `devlint.findings` and `devlint.lazy` are the interface of rules, and `devlint.testing` that of their
tests. What `__all__` names here stays as it is within a major version, as do the public methods and attributes of what it
names; everything else of devlint may change with any release.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from devlint.findings import Edit, Note, Span
from devlint.lazy import cst
from devlint.placement.devices import parse_device, place_of_device
from devlint.placement.mixing import Mixing, Operand, Sense, is_told
from devlint.placement.values import (
    BUFFER,
    DEVICE_CLASS,
    GATHERED,
    HOST,
    NONE,
    UNKNOWN,
    Place,
    Sort,
    Step,
    Value,
    leaves,
)
from devlint.portable import Portable
from devlint.records import record
from devlint.regexes import regex
from devlint.signatures.values.values import text_of as text_of_path
from devlint.source.devices import MOVES, SETTINGS_NAMES, is_device_name, is_setting
from devlint.source.kinds import Kind
from devlint.source.masks import is_mask
from devlint.source.modules import FunctionModel, FunctionNode, SourceModule, blocks_of, dotted, last_name
from devlint.source.paths import access_path, is_under
from devlint.source.plain import is_number_name
from devlint.source.texts import is_test, is_test_file
from devlint.source.trees import calls_in, kept_on_node, own_nodes, walk
from devlint.source.units import Unit, units_at
from devlint.source.uses import uses_of

if TYPE_CHECKING:
    from devlint.pieces import Piece
    from devlint.placement.classes import ClassModel
    from devlint.placement.loops import HotLoop
    from devlint.placement.model import PlacementModel
    from devlint.placement.parts import Missing
    from devlint.placement.replicas import Pinned
    from devlint.placement.waiting import HotStall
    from devlint.signatures.answers.drops import Drop
    from devlint.signatures.answers.mixed import Mixed
    from devlint.signatures.answers.uploads import Upload
    from devlint.signatures.state.classes import ClassInfo
    from devlint.signatures.values.values import Step as SignatureStep
    from devlint.textmap import TextMap

__all__ = [
    "BUFFER",
    "DEVICE_CLASS",
    "GATHERED",
    "HOST",
    "MOVES",
    "NONE",
    "SETTINGS_NAMES",
    "UNKNOWN",
    "ClassInfo",
    "ClassModel",
    "Facts",
    "FunctionModel",
    "FunctionNode",
    "HotLoop",
    "HotStall",
    "Kind",
    "Missing",
    "Mixed",
    "Mixing",
    "Operand",
    "Pinned",
    "Place",
    "PlacementModel",
    "Sense",
    "Sort",
    "SourceModule",
    "Step",
    "Surroundings",
    "Unit",
    "Value",
    "access_path",
    "blocks_of",
    "calls_in",
    "dotted",
    "is_device_name",
    "is_mask",
    "is_number_name",
    "is_setting",
    "is_test",
    "is_test_file",
    "is_told",
    "is_under",
    "kept_on_node",
    "last_name",
    "leaves",
    "own_nodes",
    "parse_device",
    "place_of_device",
    "text_of_path",
    "units_at",
    "uses_of",
    "walk",
]


@record(frozen=True)
class Surroundings:
    """What the project's settings say of the code at hand."""

    # The oldest release of torch that it is meant for; None where it isn't said.
    oldest_torch: tuple[int, int] | None = None
    # What the project says of portability, and whether it says of this file that it is about CUDA.
    portable: Portable = field(default_factory=Portable)
    is_cuda_only: bool = False
    # Whether rules are on that ask for code that runs on any accelerator.
    for_any_accelerator: bool = False

    @property
    def prefers_accelerator(self) -> bool:
        """Whether the code is meant for releases that all have `torch.accelerator`, which came with torch 2.6, or, where
        nothing is said of releases, for any accelerator.
        """
        return self.for_any_accelerator if self.oldest_torch is None else self.oldest_torch >= (2, 6)


# A keyword of somebody who writes blanks around its sign.
_SPACED = regex(r"\w+ = ")


class Facts:
    """The model's answers for the nodes of one piece of one file."""

    def __init__(
        self, model: PlacementModel, piece: Piece, text: TextMap, path: str, surroundings: Surroundings | None = None
    ) -> None:
        self.model = model
        self.text = text
        self.path = path
        self.surroundings = surroundings or Surroundings()
        self._piece = piece

    def node(self, node: cst.CSTNode) -> ast.expr | None:
        """The `ast` expression that a LibCST expression is, to be asked by `isinstance` or `match`: its class may be derived from `ast`'s."""
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
        return self.model.hot_loop(found) if found is not None and not self.model.is_dead(found) else None

    def ends_step(self, node: cst.CSTNode) -> bool:
        """Whether a step of training has learned when it comes by an expression, and learns no more."""
        found = self._piece.ast_of(node)
        return found is not None and self.model.ends_step(found)

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
            if option.place.sort is Sort.SAME and _names_device(ast.parse(option.place.name, mode="eval").body):
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
        return tuple(self.note_at(s.message, s.path, s.line, s.column) for s in trail)

    def note(self, message: str, node: ast.stmt | ast.expr, path: str = "") -> Note:
        """A note at a node of this file, or of another one of the project."""
        return self.note_at(message, path or self.model.source.path, node.lineno, node.col_offset)

    def note_at(self, message: str, path: str, line: int, byte_column: int) -> Note:
        """A note at a place as `ast` tells it: a line from 1, and a column from 0, in bytes of UTF-8."""
        return Note(message, path, line, self.model.column_in(path, line, byte_column))

    def replaced(self, node: ast.stmt | ast.expr, code: str) -> Edit:
        """An edit that puts other code in a node's place."""
        return Edit(self.text.span_of(node), code)

    def inserted_after(self, statement: ast.stmt, code: str) -> Edit:
        """An edit that adds one line of code after a statement and the comments that end its block, as deep as it stands."""
        start = self.text.span_of(statement)
        indent = self.text.line(start.line)[: start.column - 1]
        line = self._last_line(statement, len(indent))
        column = len(self.text.line(line)) + 1
        return Edit(Span(line, column, line, column), f"{self.text.newline}{indent}{code}")

    def _last_line(self, statement: ast.stmt, depth: int) -> int:
        """The line on which a statement ends, or the last comment below it that is deeper than it stands."""
        last = line = statement.end_lineno or statement.lineno
        while line < len(self.text.starts):
            line += 1
            text = self.text.line(line)
            said = text.lstrip()
            if said.startswith("#") and len(text) - len(said) > depth:
                last = line
            elif said:
                break
        return last

    def with_argument(self, call: ast.Call, *arguments: str) -> Edit:
        """An edit that adds arguments to a call, right behind the last one and laid out as that is."""
        given = [*call.args, *(k.value for k in call.keywords)]
        if call.keywords and all(_SPACED.match(self.text.slice(self.text.span_of(k))) for k in call.keywords):
            arguments = tuple(argument.replace("=", " = ", 1) for argument in arguments)
        closing = self.text.span_of(call)
        if not given:
            at = Span(closing.end_line, closing.end_column - 1, closing.end_line, closing.end_column - 1)
            return Edit(at, ", ".join(arguments))
        spans = sorted((self.text.span_of(a) for a in given), key=lambda s: (s.end_line, s.end_column))
        last = spans[-1]
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
        starts = {self.text.span_of(a).line for a in given}
        before = self.text.line(last.line)[: last.column - 1]
        is_over_lines = len(starts) > 1 or last.line < last.end_line
        if is_over_lines and len(starts) == len(given) and before.isspace() and "#" not in rest:
            # One argument a line, and the bracket closes behind the last, or, behind one alone, on a line of its own.
            between = f",{self.text.newline}{before}"
            comma = "," if len(given) == 1 and line < closing.end_line else ""
            added = "".join(f"{between}{argument}" for argument in arguments) + comma
            return Edit(Span(line, column, line, column), added)
        begins = min(spans, key=lambda s: (s.line, s.column))
        behind = len(self.text.line(last.end_line)) - len(self.text.line(last.end_line).lstrip())
        if last.line < last.end_line and starts == {begins.line} and behind >= begins.column and "#" not in rest:
            # Its lines are aligned to a bracket: so is what comes behind it.
            between = f",{self.text.newline}{' ' * (begins.column - 1)}"
            return Edit(Span(line, column, line, column), "".join(f"{between}{argument}" for argument in arguments))
        comma = "," if self._is_dense(spans) else ", "
        return Edit(Span(line, column, line, column), "".join(f"{comma}{argument}" for argument in arguments))

    def _is_dense(self, arguments: Sequence[Span]) -> bool:
        """Whether no blank stands behind the commas of a call's arguments: `f(x,y=1)`."""
        # The name of a keyword stands before its value, and is none of the commas'.
        ends = [self.text.offset(span.end_line, span.end_column) for span in arguments[:-1]]
        behind = [self.text.text[self._behind_brackets(end, len(self.text.text)) :][:2] for end in ends]
        return bool(behind) and all(two[:1] == "," and not two[1:].isspace() for two in behind)

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

        A statement that others stand before on its line gets them on that line too, a definition an empty line between.
        """
        start = self.text.span_of(statement)
        marks = getattr(statement, "decorator_list", None)
        line = min([start.line, *(mark.lineno for mark in marks or ())])
        indent = self.text.line(start.line)[: start.column - 1]
        at = Span(line, start.column, line, start.column)
        if indent.strip():
            return Edit(at, f"{code}; ")
        between = "" if marks is None else self.text.newline
        lines = [f"{line.replace('    ', self.step)}{self.text.newline}" for line in code.split("\n")]
        return Edit(at, indent.join([*lines[:-1], f"{lines[-1]}{between}"]) + indent)

    @property
    def step(self) -> str:
        """By how much the file's blocks are deeper than what they stand in: that of the first one, four blanks where there is none."""
        block = _first_block(self.model.source.tree)
        if block is None:
            return "    "
        statement, first = block
        line = self.text.line(first.lineno)
        deeper = line[: len(line) - len(line.lstrip())]
        return deeper[statement.col_offset :] or "    "

    def removed(self, statement: ast.stmt) -> Edit:
        """An edit that takes a statement away, with its lines; what else stands on them stays.

        Where a block holds nothing else, `pass` stands in its place.
        """
        span = self.text.span_of(statement)
        if self._is_alone(statement):
            return Edit(span, "pass")
        before = self.text.line(span.line)[: span.column - 1]
        behind = self.text.line(span.end_line)[span.end_column - 1 :]
        if follows := _NEXT_STATEMENT.match(behind):
            return Edit(replace(span, end_column=span.end_column + follows.end()), "")
        if before.strip():
            return Edit(replace(span, column=len(before.rstrip().removesuffix(";").rstrip()) + 1), "")
        return Edit(Span(span.line, 1, span.end_line + 1, 1), "")

    def _is_alone(self, statement: ast.stmt) -> bool:
        """Whether a statement is all that its block holds."""
        parent = next(self.model.ancestors(statement), None)
        fields = (value for _, value in ast.iter_fields(parent)) if parent is not None else ()
        return not isinstance(parent, ast.Module) and any(value == [statement] for value in fields)

    def code_of(self, node: ast.AST) -> str:
        """An `ast` node's source text."""
        assert isinstance(node, (ast.expr, ast.stmt))
        return self.text.slice(self.text.span_of(node))

    def shown(self, node: ast.AST) -> str:
        """An `ast` node's source text, for messages: on one line, long ones cut."""
        text = " ".join(self.code_of(node).split())
        return text if len(text) <= 60 else f"{text[:57]}..."

    def name_of(self, node: cst.CSTNode) -> str:
        """A node's source text, for messages: whitespace folded, long ones cut."""
        if isinstance(node, cst.BaseExpression) and not isinstance(node, (cst.Tuple, cst.GeneratorExp)):
            node = node.with_changes(lpar=[], rpar=[])
        text = " ".join(cst.Module([]).code_for_node(node).split())
        return text if len(text) <= 60 else f"{text[:57]}..."


# What stands between a statement and the next one on its line.
_NEXT_STATEMENT = regex(r"[ \t]*;[ \t]*(?=[^\s#])")


def _names_device(node: ast.expr) -> bool:
    """Whether an expression is a device that the program is told: `args.device if torch.cuda.is_available() else "cpu"`."""
    if isinstance(node, ast.IfExp):
        return _names_device(node.body) or _names_device(node.orelse)
    return is_device_name(node)


@kept_on_node
def _first_block(tree: ast.Module) -> tuple[ast.stmt, ast.stmt] | None:
    """The first statement of a file that has a block on lines of its own, and the first statement of that."""
    for node in walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
            return node, body[0]
    return None


def plain_name(node: ast.expr) -> str | None:
    """`a.b.c` as text, None for anything but names and attributes."""
    return dotted(node)
