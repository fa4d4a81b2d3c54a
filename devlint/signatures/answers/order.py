"""The order of waits: what comes right after one, or right before one that stays, costs nothing of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence

from devlint.knowledge import torch_knowledge
from devlint.regexes import regex
from devlint.source.modules import SourceModule, dotted, last_name

# Names of the project's own modules and functions: much is queued by them.
_BUILTIN = frozenset(
    {"time", "print", "len", "range", "float", "int", "str", "list", "tuple", "dict", "set", "min", "max", "sum", "isinstance",
     "zip", "enumerate", "sorted", "abs", "bool", "any", "all", "getattr", "hasattr", "cast"}
)  # fmt: skip


def follows_wait(
    source: SourceModule,
    node: ast.AST,
    waits: Collection[int],
    waiting: Collection[str],
    is_cold: Callable[[ast.AST], bool] = lambda node: False,
) -> bool:
    """Whether a wait comes right after another one, when all that was queued is done: the two are mended at one go.

    `waits` are the ids of the nodes that wait, `waiting` the names of the functions in which they stand. Only a few operators
    may be queued between; what is cold hardly ever runs.
    """
    if any(id(n) in waits for n in ast.walk(node) if n is not node):
        return True
    right_before = True
    for earlier in _earlier(source, source.statement_of(node)):
        inner = list(ast.walk(earlier))
        if isinstance(earlier, ast.If):
            leaves = isinstance(earlier.body[-1], _LEAVING) and not earlier.orelse
            asked = list(ast.walk(earlier.test))
            if any(id(n) in waits for n in ast.walk(_surely_asked(earlier.test))):
                # `if start < least: return x`: whoever comes by has waited.
                return leaves or not _queue_much(inner)
            runs_rarely = leaves or (not earlier.orelse and is_cold(earlier.body[0]))
            if _queue_much(asked if runs_rarely else inner):
                return False
            right_before = right_before and leaves
            continue
        if isinstance(earlier, (ast.For, ast.While)):
            # Its last pass has waited.
            return any(id(n) in waits for n in inner) and not _queue_much(inner)
        if hasattr(earlier, "body"):
            return False
        if any(id(n) in waits for n in inner):
            return True
        called = [n for n in inner if isinstance(n, ast.Call)]
        # A function that waits may queue more after that: what follows at once is looked over with it.
        if right_before and any(last_name(n.func) in waiting and is_own(n.func) for n in called):
            return True
        if any(map(_solves, called)):
            return True
        if _queue_much(inner):
            return False
    return False


def _earlier(source: SourceModule, statement: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """What runs before a statement, the nearest first: the statements of its block, then the test of the `if` around, and so on."""
    while True:
        yield from reversed(source.before(statement))
        around = next(source.ancestors(statement), None)
        if not isinstance(around, ast.If):
            return
        yield _surely_asked(around.test)
        statement = around


def _surely_asked(test: ast.expr) -> ast.expr:
    """What a test asks each time: the first of `a and b`."""
    while isinstance(test, ast.BoolOp):
        test = test.values[0]
    return test


# Functions of linear algebra that look on the host whether they came to an end.
_SOLVING = frozenset({"svd", "eig", "eigh", "inv", "inverse", "solve", "cholesky"})


def _solves(call: ast.Call) -> bool:
    """`torch.linalg.inv(x)`, `torch.svd(x)`."""
    owner = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else None
    return owner in ("torch", "torch.linalg", "linalg", "LA") and last_name(call.func) in _SOLVING


_LEAVING = (ast.Return, ast.Continue, ast.Break, ast.Raise)


def leads_to_wait(source: SourceModule, node: ast.AST, lasting: Collection[int]) -> bool:
    """Whether a wait comes right before one that stays (`lasting`, by its id): without it, the host waits there as long."""
    statement = source.statement_of(node)
    for later in (statement, *source.after(statement)):
        if hasattr(later, "body"):
            return False
        inner = list(ast.walk(later))
        if any(id(n) in lasting and n is not node for n in inner):
            return True
        if later is not statement and _queue_much(inner):
            return False
    return False


# What pairs what a model found with what is there; the host solves that (scipy.optimize.linear_sum_assignment).
_MATCHING = regex(r"(?:\w{1,40}_)?matcher")
# How many things there are, by which a loss is divided.
_COUNT = regex(
    r"(?:num|n|total)_(?:boxes|masks|targets|objects|instances|gts?|pos(?:itives?)?|fg|queries)|(?:avg|normali[sz]ation)_factor|normali[sz]er"
)


def counts_after_matching(source: SourceModule, node: ast.AST) -> bool:
    """`num_boxes = num_boxes.item()` in a function that has called its matcher: the host has waited, and counted them itself."""
    statement = source.statement_of(node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if _COUNT.fullmatch(name):
            earlier = (n for s in source.before(statement) for n in ast.walk(s))
            return any(isinstance(n, ast.Call) and _MATCHING.fullmatch(last_name(n.func)) for n in earlier)
    return False


def is_check(source: SourceModule, node: ast.AST) -> bool:
    """Whether a wait only looks whether all is well: `assert x.all()`, `if (x < 0).any(): raise ...`."""
    match source.statement_of(node):
        case ast.Assert():
            return True
        case ast.If(test=test, body=[*_, ast.Raise()], orelse=[]):
            return any(n is node for n in ast.walk(test))
    return False


def _queue_much(nodes: Sequence[ast.AST]) -> bool:
    """Whether one of some nodes calls what may be a module, or a function of the project."""
    return any(isinstance(n, ast.Call) and _queues_much(n.func) for n in nodes)


def is_own(function: ast.expr) -> bool:
    """`self.lengths_of(...)`, `lengths_of(...)`: a function of the file or the class."""
    match function:
        case ast.Name() | ast.Attribute(value=ast.Name(id="self" | "cls")):
            return True
    return False


# What processes do together takes as long as the slowest of them.
_COLLECTIVE = regex(r"all_reduce|all_gather\w{0,20}|reduce_scatter\w{0,20}|all_to_all\w{0,20}|broadcast|barrier")


def _queues_much(function: ast.expr) -> bool:
    """Whether what is called may be a module, or a function of the project, or what processes do together."""
    if _COLLECTIVE.fullmatch(last_name(function)):
        return True
    match function:
        case ast.Name(id=name):
            return name not in _BUILTIN
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return True
        case ast.Attribute(value=owner, attr=attr):
            return ast.unparse(owner).startswith(("self.", "cls.")) and attr not in torch_knowledge().tensor_methods
    return True
