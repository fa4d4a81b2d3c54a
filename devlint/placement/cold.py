"""Cold code: what inside a hot loop runs on a few passes only, or only while somebody looks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Protocol

from devlint.knowledge.ecosystem import CLOCKS
from devlint.placement.occasions import (
    COUNTED,
    WARM,
    WARM_UP,
    called_last,
    counts,
    counts_passes,
    flat,
    is_abnormal,
    is_counter,
    is_each,
    is_end,
    is_false,
    is_for_old_releases,
    is_position,
    is_remainder,
    is_warm,
    leaves_loop,
    never_holds,
    runs_once,
    starts_held,
    steps_optimizer,
    waits_for_a_key,
    warns_of,
)
from devlint.regexes import regex
from devlint.source.modules import FunctionNode
from devlint.source.trees import own_nodes, walk

# What is done for people to look at, under a flag of such a name or in a function called so.
_LOOKING = r"debug|verbose|profil\w*|visuali[sz]\w*|plot\w*|warm\w*"
_OCCASIONAL = regex(
    rf"(^|_|\b)({_LOOKING}|log|logging|isenabledfor|should_\w+|do_log\w*|print\w*|is_last\w*|last|first)(_|\b|$)",
    re.IGNORECASE,
)
_FOR_LOOKING = regex(rf"(^|_|\b)({_LOOKING}|sanity)(_|\b|$)", re.IGNORECASE)
# Flags by which somebody calls a run off.
_CALLED_OFF = regex(
    r"_?(?:is_|was_|has_been_|should_)?(?:abort(?:ed|ing)?|cancel(?:l?ed|l?ing)?|interrupt(?:ed)?|terminat(?:e|ed|ing)|shut_?down)(?:_requested|_event)?",
    re.IGNORECASE,
)
# Functions that show something, or record what runs later.
_MAKING_READY = regex(r"_{0,3}(?:capture|demo|show)(?:_\w{1,60})?")
_RECORD = regex(r"(^|_|\b)best(_|\b|$)", re.IGNORECASE)
# Contexts, and decorators, that say that waiting is meant: devlint's own, or a copy of it.
ALLOWING = frozenset({"sync_allowed"})
# Contexts that are entered to measure or to debug.
_MEASURING = frozenset({"profile", "emit_nvtx", "detect_anomaly", "FlopCounterMode"})
_LEAVING_CALLS = frozenset({"exit", "_exit", "quit"})


class File(Protocol):
    """What is asked of the model of a file."""

    @property
    def allow_sync(self) -> tuple[str, ...]: ...
    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]: ...
    def assigned_values(self, name: ast.Name) -> list[ast.expr]: ...
    def function_called(self, call: ast.Call) -> FunctionNode | None: ...


class ColdCode:
    """Answers for one file whether a part of a loop's body is cold."""

    def __init__(self, model: File) -> None:
        self._model = model
        self._asked: set[str] = set()
        # Contexts in which it is meant that code waits.
        self._meant = _MEASURING | ALLOWING | {name.rpartition(".")[2] for name in model.allow_sync}
        # The position of the first statement of a block after which the rest of it runs now and then.
        self._first_skips: dict[tuple[int, type[ast.stmt]], int] = {}

    def is_cold(self, parent: ast.AST, child: ast.AST) -> bool:
        """Whether standing in `parent` keeps `child` from running on each pass of the loop around them."""
        match parent:
            case ast.ExceptHandler():
                return True
            case ast.If(test=test, body=body, orelse=orelse):
                if is_for_old_releases(test, body=child in body) or (child in body and never_holds(test)):
                    return True
                if child in body:
                    if isinstance(test, (ast.Name, ast.Attribute)) and _CALLED_OFF.fullmatch(called_last(test)):
                        return True
                    guarded = self.is_step_guard(test) and (
                        not steps_optimizer(body) or self._is_stepped_beside(parent)
                    )
                    if guarded or self._ends(body) or warns_of(test, body):
                        return True
                    return runs_once(test, [*flat(body), *self.run_by(body)]) or starts_held(test, body, held=False)
                return child in orelse and (
                    self._ends(orelse) or self._is_usual(test) or starts_held(test, orelse, held=True)
                )
            case ast.IfExp(test=test, body=body, orelse=other):
                return (child is body and self.is_step_guard(test)) or (child is other and self._is_usual(test))
            case ast.BoolOp(op=ast.And(), values=values):
                position = next((i for i, v in enumerate(values) if v is child), 0)
                return any(self.is_step_guard(v) or self._latches(v, parent, False) for v in values[:position])
            case ast.BoolOp(op=ast.Or(), values=values):
                position = next((i for i, v in enumerate(values) if v is child), 0)
                return any(self._latches(v, parent, True) for v in values[:position])
            case ast.For(body=block) | ast.While(body=block) | ast.AsyncFor(body=block):
                if child in block:
                    return self._after_skip(block, child, ast.Continue) or leaves_loop(block) or waits_for_a_key(block)
            case ast.FunctionDef(body=block) | ast.AsyncFunctionDef(body=block):
                if child in block and self._after_skip(block, child, ast.Return):
                    return True
        return self.is_for_looking(parent, child)

    def _latches(self, flag: ast.expr, test: ast.BoolOp, on: bool) -> bool:
        """`if seen or x.any(): seen = True`, `if not seen and x.any(): seen = True`: asked until it came out true once."""
        if not on:
            if not (isinstance(flag, ast.UnaryOp) and isinstance(flag.op, ast.Not)):
                return False
            flag = flag.operand
        around = next(self._model.ancestors(test), None)
        if not (isinstance(around, ast.If) and around.test is test and isinstance(flag, (ast.Name, ast.Attribute))):
            return False
        name = ast.unparse(flag)
        return any(
            isinstance(s, ast.Assign)
            and isinstance(s.value, ast.Constant)
            and s.value.value is True
            and any(ast.unparse(t) == name for t in s.targets)
            for s in around.body
        )

    def _ends(self, block: list[ast.stmt]) -> bool:
        """A block after which the loop, or the program, is left: it runs once."""
        match block[-1]:
            case ast.Break() | ast.Raise():
                return True
            case ast.Return():
                # Of a function that is called each step, it leaves no more than this call.
                return self._is_in_own_loop(block[-1])
            case ast.Continue() as leaving:
                return self._gives_up_step(leaving)
            case ast.Expr(value=ast.Call() as called):
                return called_last(called) in _LEAVING_CALLS
        return False

    def _gives_up_step(self, leaving: ast.Continue) -> bool:
        """Whether a pass that is left hasn't been trained with, and would be behind: `if loss.isnan(): continue`."""
        loop = next(p for p in self._model.ancestors(leaving) if isinstance(p, (ast.For, ast.AsyncFor, ast.While)))
        trained = [n.lineno for n in walk(loop) if isinstance(n, ast.Attribute) and n.attr == "backward"]
        return bool(trained) and leaving.lineno < min(trained)

    def _is_in_own_loop(self, node: ast.AST) -> bool:
        for parent in self._model.ancestors(node):
            if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
                return True
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return False
        return False

    def is_for_looking(self, parent: ast.AST, child: ast.AST) -> bool:
        """Whether all of `parent`, loops in it included, is there to debug, to measure or to show something."""
        match parent:
            case ast.With(items=items) | ast.AsyncWith(items=items):
                return any(called_last(i.context_expr) in self._meant for i in items)
            case ast.If(test=ast.Name(id=name) | ast.Attribute(attr=name), body=body):
                return child in body and bool(_FOR_LOOKING.search(name)) and not WARM.fullmatch(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                return bool(_FOR_LOOKING.search(name) or _MAKING_READY.fullmatch(name)) or any(
                    called_last(d) in self._meant for d in parent.decorator_list
                )
        return False

    def _after_skip(self, block: list[ast.stmt], child: ast.AST, leaving: type[ast.stmt]) -> bool:
        """`if step % n: continue` (in a function: `return`) before it: the rest runs now and then."""
        key = (id(block), leaving)
        if key not in self._first_skips:
            self._first_skips[key] = next((at for at, s in enumerate(block) if self._skips(s, leaving)), len(block))
        first = self._first_skips[key]
        return first < len(block) and child not in block[: first + 1]

    def _skips(self, statement: ast.stmt, leaving: type[ast.stmt]) -> bool:
        """`if step % n: continue`."""
        return (
            isinstance(statement, ast.If)
            and isinstance(statement.body[-1], leaving)
            and not statement.orelse
            and self._is_usual(statement.test)
        )

    def _is_usual(self, test: ast.expr) -> bool:
        """Whether a condition fails on some steps only: the opposite of a step guard."""
        match test:
            case ast.BoolOp(op=ast.Or(), values=values):
                return any(self._is_usual(v) for v in values)
            case ast.BoolOp(op=ast.And(), values=values):
                # But at the end, and the first time.
                return any(self._is_since_last(v, ast.Lt, ast.LtE) for v in values)
            case ast.Compare() if self._is_since_last(test, ast.Lt, ast.LtE):
                return True
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.is_step_guard(operand)
            case ast.BinOp():
                return is_remainder(test)
            case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]):
                return counts(test) or is_position(left, right) or is_position(right, left)
        return is_warm(test)

    def _is_since_last(self, test: ast.expr, *ops: type[ast.cmpop]) -> bool:
        """`step < last + every`, `step - last >= every`, of what is set to it now and then: `last = step`."""
        match test:
            case ast.Compare(left=now, ops=[op], comparators=[ast.BinOp(left=last, op=ast.Add())]):
                pass
            case ast.Compare(left=ast.BinOp(left=now, op=ast.Sub(), right=last), ops=[op]):
                pass
            case _:
                return False
        given = self._model.assigned_values(last) if isinstance(last, ast.Name) and isinstance(op, ops) else ()
        return any(ast.dump(value) == ast.dump(now) for value in given)

    def _is_stepped_beside(self, guard: ast.If) -> bool:
        """Whether each pass of the loop around a guard changes weights all the same: a generator's turn comes every few of the critic's."""
        child: ast.AST = guard
        for parent in self._model.ancestors(guard):
            block = getattr(parent, "body", None)
            if isinstance(block, list) and steps_optimizer(
                [s for s in block if s is not child and isinstance(s, ast.stmt)]
            ):
                return True
            if isinstance(parent, (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)):
                return False
            child = parent
        return False

    def is_step_guard(self, test: ast.expr) -> bool:
        """Whether a condition holds on some steps only."""
        match test:
            case ast.BoolOp(op=ast.And(), values=values):
                return any(self.is_step_guard(v) for v in values)
            case ast.BoolOp(op=ast.Or(), values=values):
                # At the end it is done as well.
                return all(self.is_step_guard(v) or is_end(v) or is_each(v) for v in values) and not all(
                    is_end(v) or is_each(v) for v in values
                )
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return counts(operand) or self._is_flag(operand) or is_abnormal(operand) or is_warm(operand)
            case ast.Compare():
                return self._is_occasional(test)
            case ast.Call():
                return (
                    is_abnormal(test)
                    or bool(_OCCASIONAL.search(ast.unparse(test.func)))
                    or self._answers_now_and_then(test)
                )
            case ast.BinOp(op=ast.Mod()):
                return False
        return self._is_flag(test)

    def _is_occasional(self, test: ast.Compare) -> bool:
        """A comparison that comes out true on few steps."""
        match test:
            case ast.Compare(ops=[ast.NotEq()]) if counts(test):
                # `step % n != 0` holds on nearly all of them.
                return False
            case ast.Compare(ops=[ast.IsNot() | ast.NotIn()]):
                return False
            case ast.Compare() if counts(test) or is_abnormal(test) or self._looks_at_clock(test):
                return True
            case ast.Compare() if self._is_since_last(test, ast.Gt, ast.GtE):
                return True
            case ast.Compare(left=left, ops=[ast.In()]):
                # `step in self.log_steps`, `check_idx in (1, 2, 4)`.
                return is_counter(left) or called_last(left).endswith(("_idx", "_step", "_iter"))
            case ast.Compare(left=ast.Name() as left, ops=[ast.Eq()], comparators=[ast.Constant()]) if self._is_turn(
                left
            ):
                return True
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                return is_position(left, right) or is_position(right, left)
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()], comparators=[right]) if is_counter(left):
                # The first few passes.
                return isinstance(right, (ast.Constant, ast.Name, ast.Attribute))
            case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE()], comparators=[right]) if "len(" in ast.unparse(
                right
            ):
                # The last few.
                return is_counter(left) or COUNTED.search(called_last(left)) is not None
        sides = [ast.unparse(side) for side in (test.left, *test.comparators)]
        return any(WARM_UP.search(side) or _RECORD.search(side) for side in sides)

    def _is_turn(self, name: ast.Name) -> bool:
        """Whether the loop that trains counts its passes by a name: `for t in range(n)`, `for t, x in enumerate(loader)`."""
        child: ast.AST = name
        counting: ast.For | ast.AsyncFor | None = None
        for parent in self._model.ancestors(name):
            if counting is not None and isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
                # One within a step comes to its first pass at each step.
                if steps_optimizer([s for s in parent.body if s is not child]):
                    return False
            elif isinstance(parent, (ast.For, ast.AsyncFor)) and counts_passes(parent, name.id):
                counting = parent
            child = parent
        return counting is not None and steps_optimizer(counting.body)

    def _looks_at_clock(self, test: ast.AST) -> bool:
        """`time.time() - last > 10`, also by way of a name."""
        seen, pending = set[str](), [test]
        while pending:
            for node in walk(pending.pop()):
                if isinstance(node, ast.Call) and called_last(node) in CLOCKS:
                    return True
                if isinstance(node, ast.Name) and node.id not in seen:
                    seen.add(node.id)
                    pending += self._model.assigned_values(node)
        return False

    def _is_flag(self, test: ast.expr) -> bool:
        """A flag that was computed from a step count, or is named like one for looking at things."""
        match test:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                if _OCCASIONAL.search(name) and not WARM.fullmatch(name):
                    return True
        if isinstance(test, ast.Name) and test.id not in self._asked:
            # A flag may be computed from itself.
            with _Asking(self._asked, test.id):
                return any(self.is_step_guard(v) or counts(v) for v in self._model.assigned_values(test))
        return False

    def _answers_now_and_then(self, call: ast.Call) -> bool:
        """Whether a function of this file tells the steps: `def due(self, step): return step % self.every == 0`."""
        function = self._model.function_called(call)
        key = f"{function.name}()" if function is not None else ""
        if function is None or key in self._asked:
            return False
        with _Asking(self._asked, key):
            answers = [n for n in own_nodes(function) if isinstance(n, ast.Return) and not is_false(n.value)]
            return bool(answers) and all(self._is_occasional_answer(answer) for answer in answers)

    def _is_occasional_answer(self, answer: ast.Return) -> bool:
        """`return step % 10 == 0`, or `if step % 10 == 0: return True`."""
        if answer.value is not None and self.is_step_guard(answer.value):
            return True
        child: ast.AST = answer
        for parent in self._model.ancestors(answer):
            if isinstance(parent, ast.If) and child in parent.body and self.is_step_guard(parent.test):
                return True
            child = parent
        return False

    def run_by(self, body: list[ast.stmt]) -> Iterator[ast.stmt]:
        """The statements of the object's own methods that a block calls: `self.save_sample(batch)`."""
        called = set[str]()
        for statement in body:
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name))):
                    called.add(name)
        around = self._model.ancestors(body[0]) if called else ()
        for method in next((parent.body for parent in around if isinstance(parent, ast.ClassDef)), ()):
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name in called:
                yield from flat(method.body)


class _Asking:
    """Holds a name in a set while it is looked into."""

    def __init__(self, asked: set[str], name: str) -> None:
        self._asked, self._name = asked, name

    def __enter__(self) -> None:
        self._asked.add(self._name)

    def __exit__(self, *_: object) -> None:
        self._asked.discard(self._name)
