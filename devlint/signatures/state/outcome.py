"""What the reading of a scope finds out: needs, effects, waits, and all of it as a signature."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import NamedTuple

from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import NOTHING, Cell, Path, Value
from devlint.source.modules import FunctionModel, SourceModule


class Need(NamedTuple):
    """Something that an operation asks of its operands: to be together, or on the host.

    `sense` is `operation`, `call`, `index` or `host`. `via` are the calls that lead there from the scope at hand,
    the outermost first.
    """

    sense: str
    node: ast.expr | ast.AugAssign
    source: SourceModule
    name: str
    operands: tuple[tuple[ast.expr, Value], ...]
    path: Condition
    via: tuple[tuple[SourceModule, ast.Call], ...] = ()
    # The function that the operation stands in.
    function: FunctionModel | None = None
    # A test of a function that is called on the way decides whether it is reached.
    guarded: bool = False
    # Tensors without dimensions are no exception.
    any_rank: bool = False
    # The function that it stands in makes one operand on the host itself, and is told for that by itself.
    told_inside: bool = False


class Effect(NamedTuple):
    """Something that a call changes: what `slot` of the thing reached by `path` holds afterwards."""

    path: Path
    slot: str
    value: Value


class Use(NamedTuple):
    """A call of something that a function was given, or of a `method` of it: what it asks hangs on what that is."""

    node: ast.Call
    source: SourceModule
    method: str
    callee: Value
    given: tuple[tuple[ast.expr, Value], ...]
    keywords: tuple[tuple[str, ast.expr, Value], ...]
    path: Condition
    # The calls that lead there from the scope at hand, the outermost first.
    via: tuple[tuple[SourceModule, ast.Call], ...]
    # The function that it stands in.
    function: FunctionModel | None
    # What it gives, as the function has it.
    gives: Value = NOTHING
    # It stands in a function that is handed out, and runs later.
    late: bool = False


class Wait(NamedTuple):
    """One such point. `asked` is the expression that is waited for, or that is uploaded, `value` what it is."""

    sense: str
    node: ast.expr | ast.stmt
    name: str
    asked: ast.expr
    value: Value
    path: Condition
    # Where the other side is: of an upload, the place that it goes to.
    target: Value | None = None
    # It stands in a handler, or is one of several things that may be called.
    supposed: bool = False


class Signature(NamedTuple):
    """What a function needs, gives and changes, in terms of its inputs."""

    function: FunctionModel
    needs: tuple[Need, ...]
    gives: Value
    effects: tuple[Effect, ...]
    # What it makes that changes in place, as its end leaves it.
    cells: dict[Cell, dict[str, Value]]
    # Inputs to which something is done that only tensors take.
    tensors: tuple[Path, ...]
    # Whether it comes to an end at all.
    returns: bool
    # What it found outside of it, which may be otherwise when it is called again.
    found: dict[Hashable, Value | None]
    # The calls of its inputs.
    uses: tuple[Use, ...] = ()
