"""Hot loops: which code runs once per batch or step. What makes code inside them cold stands in cold.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from devlint.knowledge import ecosystem
from devlint.placement.cold import ColdCode, File
from devlint.placement.conditions import is_for_the_host
from devlint.placement.evaluations import evaluates, is_evaluation, trains
from devlint.placement.occasions import is_warm_up
from devlint.placement.values import OVER_LOADER, Step, Value
from devlint.records import record
from devlint.regexes import regex
from devlint.source.kinds import Kind
from devlint.source.modules import FunctionModel, FunctionNode, SourceModule, last_name
from devlint.source.texts import is_test
from devlint.source.trees import children, own_nodes, walk
from devlint.source.units import Unit

Loop = ast.For | ast.AsyncFor | ast.While | ast.comprehension
Pass = Literal["batch", "step", "epoch", "call", "element"]

# Functions whose loops go through a model's depth, or build something: they aren't loops over steps.
ONE_PASS_FUNCTIONS = regex(r"forward|__init__$|__getitem__$|reset_parameters$|_*init_weights$|_*load_\w+$|extra_repr$")
# Calls are followed backwards this far.
MAX_CALLERS = 3


# Calls that iterate what they are given, whatever they add to it.
_HANDS_ON = regex(
    r"^(enumerate|tqdm|trange|zip|islice|iter|chain|cycle|track|log_every|take|batched|skip_first_batches)$"
    r"|prefetch|progress|background|infinite|forever|(^|_)bar$",
    re.IGNORECASE,
)


# Functions that write down where a training stands: now and then, whatever their callers go by to tell when.
# Functions that go through all data once.
_OF_EPOCH = regex(r"(?:^|_)epoch(?:_|$)")
_SAVING = regex(r"_*(?:save(?:_\w{1,60})?|(?:\w{1,60}_)?(?:checkpoint|ckpt)(?:_\w{1,60})?)")

_STEP_METHOD_NAMES = frozenset(name for known in ecosystem.STEP_METHODS for name in known.methods)
_PLAIN_METHODS = frozenset(
    {
        "items",
        "keys",
        "values",
        "split",
        "parameters",
        "named_parameters",
        "modules",
        "named_modules",
        "children",
        "buffers",
    }
)


@record(frozen=True)
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
    # What a pass is: a batch of a loader, a step of training, one that goes over all data at once, some call of a module, which
    # may be a model's depth, or an element of a tensor.
    kind: Pass = "call"
    # The file that it stands in.
    file: str = ""
    # Whether it evaluates or predicts, nothing being trained.
    evaluates: bool = False
    # Whether something is trained in it, or in a loop around it.
    trains: bool = False
    # Whether the program runs it once, going by all calls in sight.
    once: bool = False

    @property
    def is_minor(self) -> bool:
        """Whether hardly anybody minds a wait in it: it evaluates, or answers requests, or goes over files, one by one, or runs once.

        So it is with one in an epoch as well, and with one over the elements of a tensor, which hardly any training has.
        """
        return (
            self.evaluates
            or self.once
            or self.kind in ("epoch", "element")
            or (self.kind == "call" and not self.trains)
        )


class Program(File, Protocol):
    """What is asked of the model of a file, and of those of the files that call it."""

    @property
    def source(self) -> SourceModule: ...
    @property
    def loader_names(self) -> tuple[str, ...]: ...
    def value(self, node: ast.AST) -> Value: ...
    def gives_batches(self, value: Value) -> bool: ...
    def is_step_method(self, function: FunctionNode) -> bool: ...
    def callers(self, function: FunctionNode) -> Sequence[tuple[Program, Step, ast.Call]]: ...
    def calling_units(self, scope: FunctionModel) -> list[Unit]: ...
    def units_elsewhere(self, function: FunctionNode) -> Sequence[tuple[Program, Unit]]: ...
    def hot_loop(self, node: ast.AST, depth: int = 0) -> HotLoop | None: ...
    def loops_to(self, node: ast.AST, depth: int = 0) -> int: ...
    def may_be_hot(self, unit: Unit, depth: int = 0) -> bool: ...


class Loops:
    """Answers for one file whether a node is hot."""

    def __init__(self, model: Program, hot_functions: tuple[str, ...] = ()) -> None:
        self._model = model
        self._hot_functions = (*ecosystem.STEP_FUNCTIONS, *hot_functions)
        self._judged: dict[ast.AST, HotLoop | None] = {}
        self._called_in_loop: dict[tuple[ast.AST, int], bool] = {}
        self._depths: dict[tuple[ast.AST, int], int] = {}
        self._callers: dict[tuple[ast.AST, int], HotLoop | None] = {}
        self._cold = ColdCode(model)
        # A test reads what it checks; nobody waits for it.
        self._in_test = is_test(model.source.file)

    def around(self, node: ast.AST, depth: int = 0) -> HotLoop | None:
        """The hot loop that runs a node each pass; None where there is none, or where a guard makes it cold."""
        child = node
        hot: HotLoop | None = None
        for parent in self._model.ancestors(node):
            if isinstance(parent, ast.Lambda) or is_for_the_host(parent, child):
                return None
            # Around the hot loop only what is there to look at things as a whole still makes it cold.
            cold = self._cold.is_for_looking if hot is not None else self._cold.is_cold
            if cold(parent, child):
                return None
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if hot is not None and hot.kind == "element":
                    return replace(hot, once=self._runs_once(parent, depth))
                return hot or self._through_callers(parent, depth)
            loop = self._entered(parent, child)
            if loop is not None:
                hot = self._within(loop, hot)
            child = parent
        # What goes over the elements of a tensor by itself, outside of all functions.
        return replace(hot, once=True) if hot is not None and hot.kind == "element" else hot

    def _runs_once(self, function: FunctionNode, depth: int) -> bool:
        """Whether all calls of a function, and there are some, stand where a program runs them once: in no function and no loop."""
        calls = list(self._model.callers(function)) if depth < MAX_CALLERS else []
        return bool(calls) and all(_is_on_top(model, node) for model, _, node in calls)

    def _within(self, loop: Loop, inner: HotLoop | None) -> HotLoop | None:
        """The hot loop of what stands in a loop, where `inner` is the hot one in that, if there is any."""
        if inner is None:
            return self.judge(loop)
        # What runs in each step of a training belongs to it.
        outer = self.judge(loop) if inner.evaluates else None
        return replace(inner, evaluates=False) if outer is not None and not outer.evaluates else inner

    def depth(self, node: ast.AST, calls: int = 0) -> int:
        """How many loops run a node from the outermost hot loop on, by way of callers too; 0 where it isn't hot.

        Loops over epochs don't count: a program runs as many steps whether they stand in the same function or not.
        """
        if self.around(node, calls) is None:
            return 0
        loops = hot = 0
        child = node
        for parent in self._model.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                outside = self._depth_of_callers(parent, calls)
                return outside + loops if outside else hot
            loop = self._entered(parent, child)
            if loop is not None:
                loops += 1
                hot = loops if self.judge(loop) is not None else hot
            child = parent
        return hot

    def _depth_of_callers(self, function: FunctionNode, calls: int) -> int:
        if self._is_step_function(function):
            return 1
        if calls >= MAX_CALLERS:
            return 0
        if (function, calls) not in self._depths:
            # A function that calls itself adds no loop.
            self._depths[function, calls] = 0
            depths = (model.loops_to(node, calls + 1) for model, _, node in self._model.callers(function))
            self._depths[function, calls] = max(depths, default=0)
        return self._depths[function, calls]

    def possible(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether a node stands in or holds some loop, or a loop may call its function, going by names alone."""
        if self._in_test:
            return False
        if any(isinstance(n, ast.comprehension) and not _is_plain(n.iter) for n in walk(node)):
            return True
        child, looped = node, False
        for parent in self._model.ancestors(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if ONE_PASS_FUNCTIONS.match(parent.name):
                    return False
                return looped or self._may_be_called_in_loop(parent, depth)
            looped = looped or self._entered(parent, child) is not None
            child = parent
        return looped

    def _may_be_called_in_loop(self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> bool:
        if self._is_step_function(function) or function.name in _STEP_METHOD_NAMES:
            return True
        if depth >= MAX_CALLERS or function.name == "__init__":
            return False
        known = self._called_in_loop.get((function, depth))
        if known is None:
            units = self._model.calling_units(self._model.source.function_at(function))
            known = any(self.possible(u.node, depth + 1) for u in units) or any(
                other.may_be_hot(u, depth + 1) for other, u in self._model.units_elsewhere(function)
            )
            self._called_in_loop[function, depth] = known
        return known

    def _is_step_function(self, function: FunctionNode) -> bool:
        """Whether a framework calls a function each step, or the user says that something does."""
        if any(fnmatchcase(function.name, pattern) for pattern in self._hot_functions):
            return True
        cls = self._model.source.function_at(function).cls
        if cls is not None and any(
            fnmatchcase(f"{cls.name}.{function.name}", p) for p in self._hot_functions if "." in p
        ):
            return True
        return function.name in _STEP_METHOD_NAMES and self._model.is_step_method(function)

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
                return self._hot(loop, f"iterates `{_short(loop.iter)}`", likely=over, kind="batch")
            if self._over_tensor(loop.iter):
                return self._hot(loop, f"takes one element of `{_short(loop.iter)}`", likely=True, kind="element")
        if isinstance(loop, ast.comprehension):
            return None
        if any(isinstance(n, (ast.For, ast.While)) and self._steps_by_loader(n) for n in _nested(loop)):
            return None
        if isinstance(loop, ast.For) and (isinstance(loop.iter, (ast.Tuple, ast.List)) or _is_one_pass(loop.iter)):
            # A handful of things spelt out.
            return None
        if is_warm_up(loop):
            return None
        found = self._step_in(loop)
        return self._hot(loop, found[0], likely=True, kind=found[1]) if found else None

    def _steps_by_loader(self, loop: ast.For | ast.While) -> bool:
        hot = self.judge(loop)
        return hot is not None

    def _hot(self, loop: Loop, reason: str, *, likely: bool, kind: Pass) -> HotLoop:
        where = loop.iter if isinstance(loop, ast.comprehension) else loop
        return HotLoop(
            where.lineno,
            where.col_offset,
            f"each pass {reason}",
            likely,
            node=loop,
            kind=kind,
            file=self._model.source.path,
            evaluates=evaluates(loop, self._model.ancestors(loop)),
            trains=any(isinstance(n, (ast.For, ast.While)) and trains(n) for n in (loop, *self._model.ancestors(loop))),
        )

    def _over_loader(self, iterated: ast.expr) -> bool | None:
        """False: surely a loader; True: likely one; None: no."""
        value = self._model.value(iterated)
        for _, option in value.alternatives():
            if option.kind is Kind.LOADER:
                return option.likely
            if option.name == OVER_LOADER:
                return option.likely
            if option.kind is Kind.OBJECT and self._model.gives_batches(option):
                return True
        if value.kind in (Kind.UNKNOWN, Kind.SEQUENCE) and self._named_like_loader(iterated):
            return True
        return None

    def _over_tensor(self, iterated: ast.expr) -> bool:
        """Whether a loop goes through a tensor on an accelerator: what its passes read, they read one by one."""
        match iterated:
            case ast.Call(func=ast.Name(id="enumerate" | "zip" | "tqdm" | "reversed"), args=args):
                return any(self._over_tensor(a) for a in args)
        return any(v.is_tensor and v.place.off_host for _, v in self._model.value(iterated).alternatives())

    def _named_like_loader(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if _HANDS_ON.search(name):
                return any(self._named_like_loader(a) for a in args)
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name.lower().endswith(("loaders", "loader", "_dls"))
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return any(fnmatchcase(name, pattern) for pattern in self._model.loader_names)
        return False

    def _step_in(self, loop: ast.For | ast.AsyncFor | ast.While) -> tuple[str, Pass] | None:
        """What in the loop's own body makes each pass a step, and what kind of pass it is."""
        targets = (
            {n.id for n in walk(loop.target) if isinstance(n, ast.Name)} if not isinstance(loop, ast.While) else set()
        )
        is_epoch = any(t.lower() in ("epoch", "ep", "e", "round", "fold", "trial") for t in targets)
        step: Pass = "epoch" if is_epoch else "step"
        called = None
        for node in _own_level(loop):
            if not isinstance(node, ast.Call):
                continue
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr == "backward":
                return "calls `.backward()`", step
            if isinstance(func, ast.Attribute) and func.attr == "step" and self._is_optimizer(func.value):
                return f"calls `{_short(func)}()`", step
            if self._takes_next(node):
                return f"takes a batch by `{_short(node)}`", "batch"
            if called is None and self._calls_module(func, targets):
                called = f"calls `{_short(func)}`"
        # An epoch's own model calls are evaluations now and then; a step trains.
        return (called, "call") if called is not None and not is_epoch else None

    def _takes_next(self, call: ast.Call) -> bool:
        """`next(batches)` of an iterator over a loader that was made before the loop, `prefetcher.next()`."""
        match call:
            case ast.Call(func=ast.Name(id="next"), args=[ast.Name() | ast.Attribute() as iterator, *_]):
                return self._over_loader(iterator) is not None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr="next"), args=[]):
                return "prefetch" in name.lower()
        return False

    def _is_optimizer(self, node: ast.expr) -> bool:
        value = self._model.value(node)
        if any(v.kind is Kind.OPTIMIZER for _, v in value.alternatives()):
            return True
        return value.kind is Kind.UNKNOWN and "optim" in last_name(node).lower()

    def _calls_module(self, func: ast.expr, targets: set[str]) -> bool:
        if isinstance(func, ast.Name) and func.id in targets:
            # `for layer in layers: x = layer(x)` goes through the depth of one model.
            return False
        value = self._model.value(func)
        return any(_is_model(v) for _, v in value.alternatives())

    # -- callers ---------------------------------------------------------------------------------------------------

    def _through_callers(self, function: FunctionNode, depth: int) -> HotLoop | None:
        """Hot because a hot loop calls the function, here or in a file that imports this one, or a framework does."""
        if self._is_step_function(function):
            reason, file = f"`{function.name}` is called each step", self._model.source.path
            line, column, quiet = function.lineno, function.col_offset, is_evaluation(function.name)
            return HotLoop(line, column, reason, likely=True, kind="step", file=file, evaluates=quiet)
        if depth >= MAX_CALLERS or _SAVING.fullmatch(function.name) or _OF_EPOCH.search(function.name):
            return None
        if (function, depth) not in self._callers:
            self._callers[function, depth] = self._of_callers(function, depth)
        return self._callers[function, depth]

    def _of_callers(self, function: FunctionNode, depth: int) -> HotLoop | None:
        for model, step, node in self._model.callers(function):
            hot = model.hot_loop(node, depth + 1)
            if hot is not None:
                quiet = hot.evaluates or is_evaluation(function.name)
                return replace(hot, likely=True, path=(*hot.path, step), node=None, evaluates=quiet)
        return None


def _is_one_pass(iterated: ast.expr) -> bool:
    """`range(1)`."""
    match iterated:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=1)]):
            return True
    return False


def _is_plain(iterated: ast.expr) -> bool:
    """What surely is no loader: numbers, something spelt out, the parts of a dictionary, a string or a module."""
    match iterated:
        case ast.Call(func=ast.Name(id="range" | "sorted" | "set" | "dir")) | ast.Tuple() | ast.List() | ast.Constant():
            return True
        case ast.Call(func=ast.Name(id="enumerate" | "zip" | "reversed"), args=args):
            return all(_is_plain(a) for a in args)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _PLAIN_METHODS
        case ast.Attribute(attr="shape") | ast.Subscript(slice=ast.Constant(value=str())):
            return True
    return False


def _is_on_top(model: Program, call: ast.Call) -> bool:
    """Whether a call stands in the code of a script itself, or of its `main`, and in no loop."""
    for parent in model.ancestors(call):
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While, ast.Lambda, ast.ClassDef)):
            return False
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return parent.name == "main"
    return True


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
            stack += children(node)


def _nested(loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[ast.AST]:
    for statement in loop.body:
        yield statement
        yield from own_nodes(statement)
