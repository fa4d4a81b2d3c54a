"""Hot loops: which code runs once per batch or step, and what makes code inside them cold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from devlint.knowledge import ecosystem
from devlint.placement.sources import own_nodes
from devlint.placement.values import Kind, Step, Value

if TYPE_CHECKING:
    from devlint.placement.model import PlacementModel

Loop = ast.For | ast.AsyncFor | ast.While | ast.comprehension

# Blocks under such a condition are for people to look at, not for each step.
_OCCASIONAL = re.compile(
    r"(^|_|\b)(debug|verbose|profil\w*|visuali[sz]e\w*|plot\w*|log|logging|should_\w+|do_log\w*|print\w*|is_last\w*|last|first|warm\w*)(_|\b|$)",
    re.IGNORECASE,
)
_ABNORMAL_CALLS = frozenset({"isnan", "isinf", "isfinite", "is_nonzero"})
# Functions that a framework calls each step.
STEP_FUNCTIONS = ("training_step", "validation_step", "test_step", "predict_step")
# Calls are followed backwards this far.
MAX_CALLERS = 3


@dataclass(frozen=True)
class HotLoop:
    """Why code runs each step: the loop, or the function that a loop or a framework calls."""

    line: int
    column: int
    reason: str
    likely: bool
    # Calls that lead from the loop to the code, outermost first.
    path: tuple[Step, ...] = ()
    # The loop itself, where the code stands in it.
    node: Loop | None = None


class Loops:
    """Answers for one file whether a node is hot."""

    def __init__(self, model: PlacementModel, hot_functions: tuple[str, ...] = ()) -> None:
        self._model = model
        self._hot_functions = (*STEP_FUNCTIONS, *hot_functions)
        self._judged: dict[ast.AST, HotLoop | None] = {}
        self._called_in_loop: dict[tuple[ast.AST, int], bool] = {}
        self._asked: set[str] = set()

    def around(self, node: ast.AST, depth: int = 0) -> HotLoop | None:
        """The hot loop that runs a node each pass; None where there is none, or where a guard makes it cold."""
        child = node
        function: ast.AST | None = None
        for parent in self._model.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                function = parent
                break
            if isinstance(parent, ast.Lambda):
                return None
            if self._is_cold(parent, child):
                return None
            loop = self._entered(parent, child)
            if loop is not None:
                hot = self.judge(loop)
                if hot is not None:
                    return hot
            child = parent
        return self._through_callers(function, depth) if function is not None else None

    def possible(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether a node stands in or holds some loop, or a loop may call its function, going by names alone."""
        if any(isinstance(n, ast.comprehension) for n in ast.walk(node)):
            return True
        child = node
        for parent in self._model.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return self._may_be_called_in_loop(parent, depth)
            if self._entered(parent, child) is not None:
                return True
            child = parent
        return False

    def _may_be_called_in_loop(self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> bool:
        if self._is_step_function(function):
            return True
        if depth >= MAX_CALLERS or function.name == "__init__":
            return False
        known = self._called_in_loop.get((function, depth))
        if known is None:
            units = self._model.calling_units(self._model.source.function(function))
            known = any(self.possible(u.node, depth + 1) for u in units)
            self._called_in_loop[function, depth] = known
        return known

    def _is_step_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        return any(fnmatchcase(function.name, pattern) for pattern in self._hot_functions)

    # -- loops -----------------------------------------------------------------------------------------------------

    def _entered(self, parent: ast.AST, child: ast.AST) -> Loop | None:
        """The loop that `child` runs in by standing in `parent`."""
        match parent:
            case ast.For(body=body) | ast.AsyncFor(body=body):
                return parent if child in body else None
            case ast.While(orelse=orelse):
                return parent if child not in orelse else None
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                first = parent.generators[0]
                return first if child is not first else None
        return None

    def judge(self, loop: Loop) -> HotLoop | None:
        """Whether a loop is hot, and why."""
        if loop not in self._judged:
            self._judged[loop] = None
            self._judged[loop] = self._judge(loop)
        return self._judged[loop]

    def _judge(self, loop: Loop) -> HotLoop | None:
        if not isinstance(loop, ast.While):
            over = self._over_loader(loop.iter)
            if over is not None:
                return self._hot(loop, f"iterates `{_short(loop.iter)}`", likely=over)
        if isinstance(loop, ast.comprehension):
            return None
        if any(isinstance(n, (ast.For, ast.While)) and self._steps_by_loader(n) for n in _nested(loop)):
            return None
        if isinstance(loop, ast.For) and isinstance(loop.iter, (ast.Tuple, ast.List)):
            # A handful of things spelt out.
            return None
        reason = self._step_in(loop)
        return self._hot(loop, reason, likely=True) if reason else None

    def _steps_by_loader(self, loop: ast.For | ast.While) -> bool:
        hot = self.judge(loop)
        return hot is not None

    def _hot(self, loop: Loop, reason: str, *, likely: bool) -> HotLoop:
        where = loop.iter if isinstance(loop, ast.comprehension) else loop
        return HotLoop(where.lineno, where.col_offset, reason, likely, node=loop)

    def _over_loader(self, iterated: ast.expr) -> bool | None:
        """False: surely a loader; True: likely one; None: no."""
        value = self._model.value(iterated)
        for _, option in value.alternatives():
            if option.kind is Kind.LOADER:
                return option.likely
            if option.name == "<over a loader>":
                return False
        if value.kind in (Kind.UNKNOWN, Kind.SEQUENCE) and self._named_like_loader(iterated):
            return True
        return None

    def _named_like_loader(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(
                func=ast.Name(id="enumerate" | "tqdm" | "zip" | "islice" | "iter" | "track"), args=[first, *_]
            ):
                return self._named_like_loader(first)
            case ast.Call(
                func=ast.Attribute(attr="tqdm" | "islice" | "track" | "log_every" | "trange"), args=[first, *_]
            ):
                return self._named_like_loader(first)
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name.lower().endswith(("loaders", "loader", "_dls"))
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return any(fnmatchcase(name, pattern) for pattern in self._model.loader_names)
        return False

    def _step_in(self, loop: ast.For | ast.AsyncFor | ast.While) -> str | None:
        """What in the loop's own body makes each pass a step."""
        targets = (
            {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
            if not isinstance(loop, ast.While)
            else set()
        )
        is_epoch = any(t.lower() in ("epoch", "ep", "e", "round", "fold", "trial") for t in targets)
        called = None
        for node in _own_level(loop):
            if not isinstance(node, ast.Call):
                continue
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr == "backward":
                return "calls `.backward()`"
            if isinstance(func, ast.Attribute) and func.attr == "step" and self._is_optimizer(func.value):
                return f"calls `{_short(func)}()`"
            if called is None and self._calls_module(func, targets):
                called = f"calls `{_short(func)}`"
        # An epoch's own model calls are evaluations now and then; a step trains.
        return None if is_epoch else called

    def _is_optimizer(self, node: ast.expr) -> bool:
        value = self._model.value(node)
        if any(v.kind is Kind.OPTIMIZER for _, v in value.alternatives()):
            return True
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return value.kind is Kind.UNKNOWN and "optim" in name.lower()

    def _calls_module(self, func: ast.expr, targets: set[str]) -> bool:
        if isinstance(func, ast.Name) and func.id in targets:
            # `for layer in layers: x = layer(x)` goes through the depth of one model.
            return False
        value = self._model.value(func)
        return any(_is_model(v) for _, v in value.alternatives())

    # -- cold code -------------------------------------------------------------------------------------------------

    def _is_cold(self, parent: ast.AST, child: ast.AST) -> bool:
        match parent:
            case ast.ExceptHandler():
                return True
            case ast.If(test=test, body=body, orelse=orelse):
                if child in body and (self.is_step_guard(test) or _ends(body)):
                    return True
                if child in orelse and _ends(orelse) and isinstance(orelse[-1], (ast.Break, ast.Return, ast.Raise)):
                    return True
            case ast.IfExp(test=test, body=body):
                return child is body and self.is_step_guard(test)
            case ast.BoolOp(op=ast.And(), values=values):
                position = next((i for i, v in enumerate(values) if v is child), 0)
                return any(self.is_step_guard(v) for v in values[:position])
            case ast.For(body=block) | ast.While(body=block) | ast.AsyncFor(body=block):
                if child in block:
                    return self._after_skip(block, child) or _leaves(block)
        return False

    def _after_skip(self, block: list[ast.stmt], child: ast.AST) -> bool:
        """`if step % n: continue` before it: the rest runs now and then."""
        for statement in block:
            if statement is child:
                return False
            if (
                isinstance(statement, ast.If)
                and len(statement.body) == 1
                and isinstance(statement.body[0], ast.Continue)
                and not statement.orelse
                and _counts(statement.test)
            ):
                return True
        return False

    def is_step_guard(self, test: ast.expr) -> bool:
        """Whether a condition holds on some steps only."""
        match test:
            case ast.BoolOp(op=ast.And(), values=values):
                return any(self.is_step_guard(v) for v in values)
            case ast.BoolOp(op=ast.Or(), values=values):
                return all(self.is_step_guard(v) for v in values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _counts(operand) or self._is_flag(operand) or self._is_abnormal(operand)
            case ast.Compare(ops=[ast.NotEq()]) if _counts(test):
                # `step % n != 0` holds on nearly all of them.
                return False
            case ast.Compare() if _counts(test) or self._is_abnormal(test):
                return True
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.In()], comparators=[ast.Tuple() | ast.List() | ast.Set()]
            ):
                return _is_counter(name)
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                return self._is_position(left, right) or self._is_position(right, left)
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Lt() | ast.LtE()],
                comparators=[ast.Constant() | ast.Name() | ast.Attribute()],
            ):
                # The first few passes.
                return _is_counter(name)
            case ast.Call():
                return self._is_abnormal(test) or bool(_OCCASIONAL.search(ast.unparse(test.func)))
            case ast.BinOp(op=ast.Mod()):
                return False
        return self._is_flag(test)

    def _is_position(self, left: ast.expr, right: ast.expr) -> bool:
        """`i == len(loader) - 1`, `i == 0`."""
        if isinstance(left, ast.BinOp) and isinstance(left.right, ast.Constant):
            # Counted from one: `i + 1 == len(loader)`.
            left = left.left
        if not isinstance(left, ast.Name):
            return False
        return _is_counter(left.id) or "len(" in ast.unparse(right) or "num_" in ast.unparse(right)

    def _is_abnormal(self, test: ast.expr) -> bool:
        return any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _ABNORMAL_CALLS
            for n in ast.walk(test)
        )

    def _is_flag(self, test: ast.expr) -> bool:
        """A flag that was computed from a step count, or is named like one for looking at things."""
        match test:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                if _OCCASIONAL.search(name):
                    return True
        if isinstance(test, ast.Name) and test.id not in self._asked:
            # A flag may be computed from itself.
            self._asked.add(test.id)
            try:
                return any(self.is_step_guard(v) or _counts(v) for v in self._model.assigned_values(test))
            finally:
                self._asked.discard(test.id)
        return False

    # -- callers ---------------------------------------------------------------------------------------------------

    def _through_callers(self, function: ast.AST, depth: int) -> HotLoop | None:
        """Hot because a hot loop of this file calls the function, or a framework does."""
        assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        if self._is_step_function(function):
            return HotLoop(function.lineno, function.col_offset, f"`{function.name}` is called each step", likely=True)
        if depth >= MAX_CALLERS:
            return None
        for step, node in self._model.callers(function):
            hot = self.around(node, depth + 1)
            if hot is not None:
                return HotLoop(hot.line, hot.column, hot.reason, True, (*hot.path, step))
        return None


def _is_model(value: Value) -> bool:
    """A module that computes: loss functions and containers of layers count, activations by themselves don't."""
    return value.is_module and value.name not in ecosystem.CHEAP_MODULES


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 50 else f"{text[:47]}..."


def _own_level(loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[ast.AST]:
    """The nodes of a loop's body, without those of loops and definitions inside."""
    stack: list[ast.AST] = list(loop.body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(
            node, (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
        ):
            stack.extend(ast.iter_child_nodes(node))


def _nested(loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[ast.AST]:
    for statement in loop.body:
        yield statement
        yield from own_nodes(statement)


def _counts(test: ast.expr) -> bool:
    """A remainder in a condition: `step % n == 0`, `divmod(step, n)[1] == 0`, `step & 63 == 0`."""
    return any(_is_remainder(n) for n in ast.walk(test))


def _is_remainder(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(left=ast.Constant(value=str())):
            # Text that is formatted.
            return False
        case ast.BinOp(op=ast.Mod()) | ast.Call(func=ast.Name(id="divmod")):
            return True
        case ast.BinOp(left=ast.Name(id=name), op=ast.BitAnd()):
            return _is_counter(name)
    return False


def _is_counter(name: str) -> bool:
    return name.lower() in {
        "i",
        "j",
        "idx",
        "index",
        "step",
        "it",
        "iteration",
        "batch_idx",
        "batch_i",
        "global_step",
        "n_iter",
        "iter",
        "counter",
        "count",
        "batch_index",
        "step_idx",
        "itr",
        "bi",
        "ii",
    }


def _ends(block: list[ast.stmt]) -> bool:
    """A block after which the loop is left: it runs once."""
    return isinstance(block[-1], (ast.Break, ast.Return, ast.Raise))


def _leaves(block: list[ast.stmt]) -> bool:
    """The loop's own body always leaves it: there is one pass."""
    return isinstance(block[-1], (ast.Break, ast.Return))
