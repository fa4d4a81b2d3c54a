"""DEV509: reading the clock while the accelerator still works."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, Sort, Value, access_path, is_test_file, own_nodes, walk
from devlint.knowledge import canonical, torch_knowledge
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.beside import is_never_reached
from devlint_rules.hot_loops import stalls
from devlint_rules.hot_loops.other_waits import reads_in_method

if TYPE_CHECKING:
    from devlint.facts import Facts

_NAMES = ("time", "perf_counter", "monotonic", "process_time")
CLOCKS = (
    {f"time.{name}{unit}" for name in _NAMES for unit in ("", "_ns")}
    | {"timeit.default_timer", "datetime.datetime.now", "datetime.now"}
)  # fmt: skip
# Methods that neither wait for the accelerator nor give it anything that takes long.
_HARMLESS = frozenset(
    {"append", "zero_grad", "step", "backward", "update", "train", "eval", "detach", "set_to_none", "to", "cuda", "size", "parameters",
     "mean", "sum", "view", "reshape", "float", "half", "argmax", "softmax", "unsqueeze", "squeeze", "format", "scale"}
)  # fmt: skip


class Measured(NamedTuple):
    """A difference of two clock readings."""

    start: ast.stmt
    # The statement that reads the clock for the second time.
    end: ast.stmt


class UnsynchronisedTiming(Rule):
    """A time measured while the accelerator is still working.

    ## What it does
    Flags a difference of two readings of a wall clock where a model runs on an accelerator in between, and nothing makes
    the host wait before the second reading: no `synchronize()`, no event, no value that is read. Left alone: work on the
    host, loops over a loader (the last step's rest hardly counts), and stretches with calls that may wait themselves.

    ## Why is this bad
    Calls only queue work for the accelerator and return at once. The clock shows how long the queueing took, not the
    work: models look many times faster than they are.

    ## Example
    ```python
    import time

    import torch
    from torch import nn

    model = nn.Linear(1024, 1024).to("cuda")
    batch = torch.ones(1024, 1024, device="cuda")
    start = time.perf_counter()
    for _ in range(10):
        output = model(batch)
    elapsed = time.perf_counter() - start
    ```

    ## Use instead
    ```python
    import time

    import torch
    from torch import nn

    model = nn.Linear(1024, 1024).to("cuda")
    batch = torch.ones(1024, 1024, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        output = model(batch)
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: the program waits where it didn't. `torch.cuda.Event(enable_timing=True)` measures without waiting, and
    `torch.utils.benchmark.Timer` does all of it by itself. In a program that asks whether there is an accelerator, the call
    is asked for too, where nothing that is measured needs one anyway. Not offered where the function takes another time, which
    this one couldn't be compared with, and in what nobody calls.

    ## References
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    - [torch.utils.benchmark](https://docs.pytorch.org/tutorials/recipes/recipes/benchmark.html)
    """

    code = "DEV509"
    name = "unsynchronised-timing"
    trigger = r"[\w)]\s*-\s*[A-Za-z_]"
    needs = (r"\b(?:time|perf_counter|monotonic|default_timer|now)(?:_ns)?\s*\(\s*\)", *stalls.NEEDS[:1])
    effect = Effect(counts="early reading", syncs=1)
    fix = "D"

    def shape(self) -> m.BaseMatcherNode:
        return m.BinaryOperation(operator=m.Subtract())

    def judge(self, node: cst.BinaryOperation, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        measured = _measured(found, facts) if isinstance(found, ast.BinOp) else None
        work = _last_work(measured, facts) if measured is not None else None
        if measured is None or work is None:
            return
        call, value, likely = work
        change = _synchronised(measured, value, facts) if _is_all(node, measured, facts) else None
        yield Report(
            node,
            f"`{facts.name_of(node)}` doesn't count the work of {stalls.place_of(value).removesuffix(',')}: the clock is read while "
            "that is still queued",
            "likely" if likely else "certain",
            notes=(
                facts.note("the clock starts here", measured.start),
                facts.note(f"`{ast.unparse(call.func)}(...)` only queues work", call),
            ),
            hint=None if change else "synchronize before each reading, or use events",
            change=change,
            minor=is_test_file(Path(facts.path)),
        )


def _measured(difference: ast.BinOp, facts: Facts) -> Measured | None:
    """The two readings, where both are seen and the first one stands before the second one."""
    around = facts.model.source.statement_of(difference)
    end = around if isinstance(around, ast.stmt) else None
    if end is not None and not _reads_clock(difference.left, facts):
        # Where an expression in a string stands isn't told by each Python: the statement is.
        end = _reading(difference.left, (end.lineno, end.col_offset), facts)
    start = _reading(difference.right, (end.lineno, end.col_offset), facts) if end is not None else None
    if start is None or end is None or start is end:
        return None
    return Measured(start, end)


def _is_all(node: cst.BinaryOperation, measured: Measured, facts: Facts) -> bool:
    """Whether all times that a file takes without waiting are mended: those that stay as they are couldn't be compared with this one."""
    found = facts.node(node)
    if found is None or not _is_only_one(found, measured, facts):
        return False
    facts.model.ensure_all()
    return all(
        _is_only_one(other, taken, facts)
        for other in walk(facts.model.source.tree)
        if isinstance(other, ast.BinOp)
        and isinstance(other.op, ast.Sub)
        and other is not found
        and (taken := _measured(other, facts)) is not None
        and _last_work(taken, facts) is not None
    )


def _is_only_one(found: ast.expr, measured: Measured, facts: Facts) -> bool:
    """Whether a function that is reached takes no other time than one."""
    if facts.model.is_unused(found) or is_never_reached(measured.start, facts):
        return False
    return not any(
        isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) and n is not found and _is_time(n, facts)
        for n in own_nodes(facts.model.enclosing_scope(found))
    )


def _is_time(difference: ast.BinOp, facts: Facts) -> bool:
    """Whether it is a reading of the clock less another, wherever the two are."""
    sides = (difference.left, difference.right)
    return any(
        _reads_clock(side, facts)
        or any(
            _reads_clock(v, facts) for v in (facts.model.assigned_values(side) if isinstance(side, ast.Name) else ())
        )
        for side in sides
    )


def _reads_clock(node: ast.expr, facts: Facts) -> bool:
    return isinstance(node, ast.Call) and canonical(facts.model.value(node.func).name) in CLOCKS


def _reading(name: ast.expr, before: tuple[int, int], facts: Facts) -> ast.stmt | None:
    """The last statement before a line and a column that binds a name, where it binds a reading of the clock to it."""
    path = access_path(name)
    scope = facts.model.enclosing_scope(name)
    bound = [
        node
        for node in own_nodes(scope)
        if isinstance(node, ast.Assign)
        and (node.lineno, node.col_offset) < before
        and path in [access_path(t) for t in node.targets]
    ]
    last = max(bound, key=lambda node: (node.lineno, node.col_offset), default=None)
    return last if path is not None and last is not None and _reads_clock(last.value, facts) else None


def _last_work(measured: Measured, facts: Facts) -> tuple[ast.Call, Value, bool] | None:
    """(call, what it gives, likely): what still runs on an accelerator when the clock is read for the second time."""
    scope = facts.model.enclosing_scope(measured.end)
    between = [
        node
        for node in own_nodes(scope)
        if isinstance(node, (ast.Call, ast.FormattedValue))
        and _end_of(measured.start) <= (node.lineno, node.col_offset) < (measured.end.lineno, measured.end.col_offset)
    ]
    # As they run: what is given to a call ends before it.
    between.sort(key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
    work: tuple[ast.Call, Value, bool] | None = None
    for node in between:
        known = _works(node, facts) if isinstance(node, ast.Call) else None
        if known is not None and isinstance(node, ast.Call):
            work = (node, *known)
        elif work is not None and _may_wait(node, facts):
            work = None
    if (
        work is None
        or not _leads_to(work[0], measured, between, facts)
        or _is_read_in_old_ways(work[0], measured, scope)
    ):
        return None
    return work


def _is_read_in_old_ways(work: ast.Call, measured: Measured, scope: ast.AST) -> bool:
    """Whether a number is read after the work as before PyTorch 0.4: `loss.data` by index."""
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "data"
        and ast.unparse(node.slice) == "0"
        and work.lineno < node.lineno <= measured.end.lineno
        for node in own_nodes(scope)
    )


def _end_of(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _works(call: ast.Call, facts: Facts) -> tuple[Value, bool] | None:
    """(what it gives, likely) where a call runs a module on an accelerator, one that surely doesn't wait by itself."""
    for _, module in facts.model.value(call.func).alternatives():
        forward = module.cls.method("forward") if module.is_module and module.cls is not None else None
        if not module.is_module or (forward is not None and any(_reads_value(n) for n in forward.nodes)):
            continue
        if forward is not None and reads_in_method(module, "forward", facts):
            continue
        if module.cls is None and not module.name.startswith(("torch.nn.", "torchvision.")):
            continue
        for _, result in facts.model.value(call).alternatives():
            if result.place.off_host:
                return result, module.likely or result.place.sort is not Sort.ACCELERATOR
    return None


def _reads_value(node: ast.AST) -> bool:
    """A call in a `forward` that may wait for a value."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in ("item", "tolist", "cpu", "numpy", "synchronize", "nonzero", "print", "int", "float", "bool")
    return False


def _may_wait(node: ast.Call | ast.FormattedValue, facts: Facts) -> bool:
    """Whether the host may wait for the accelerator in a call: surely not in torch's own functions and a few more."""
    if isinstance(node, ast.FormattedValue):
        return facts.model.value(node.value).kind not in (Kind.SCALAR, Kind.CONSTANT)
    value = facts.model.value(node.func)
    if value.kind is Kind.REFERENCE:
        name = canonical(value.name)
        plain = name in torch_knowledge().functions and torch_knowledge().functions[name] != "scalar"
        return not (
            plain or name in torch_knowledge().factories or name in CLOCKS or name in ("builtins.range", "builtins.len")
        )
    return not (isinstance(node.func, ast.Attribute) and node.func.attr in _HARMLESS and value.cls is None)


def _leads_to(work: ast.Call, measured: Measured, between: list[ast.Call | ast.FormattedValue], facts: Facts) -> bool:
    """Whether the work is done on each way from one reading to the other, and is more than the rest of a last step."""
    # A loop that holds the second reading alone has many steps between the two.
    both = set(facts.model.ancestors(measured.start)) & set(facts.model.ancestors(measured.end))
    for parent in facts.model.ancestors(work):
        if parent in both:
            return True
        if isinstance(parent, (ast.If, ast.ExceptHandler, ast.Lambda, ast.comprehension)):
            return False
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
            hot = facts.model.hot_loop(work)
            inside = set(ast.walk(parent))
            waits = any(
                node in inside and node is not work and not _is_work(node, facts) and _may_wait(node, facts)
                for node in between
            )
            if waits or (hot is not None and hot.kind == "batch") or any(_takes_next(node) for node in inside):
                return False
    return True


def _takes_next(node: ast.AST) -> bool:
    """A batch that is taken by hand."""
    match node:
        case ast.Call(func=ast.Name(id="next") | ast.Attribute(attr="next" | "__next__")):
            return True
    return False


def _is_work(node: ast.AST, facts: Facts) -> bool:
    return isinstance(node, ast.Call) and _works(node, facts) is not None


# Where one asks whether the backend is there, if not in its own module.
_ASKED = {"mps": "torch.backends.mps"}


def _runs_without(backend: str, facts: Facts) -> bool:
    """Whether the program is meant for machines without the accelerator too: it asks for one somewhere, or is about to."""
    return facts.surroundings.for_any_accelerator or (
        re.search(rf"\bis_available\s*\(|\b(?:no|use)_(?:{backend}|gpu)\b|\bdevice_count\s*\(", facts.text.text)
        is not None
    )


def _is_asked_around(measured: Measured, facts: Facts) -> bool:
    """Whether both readings stand in a branch for machines with an accelerator."""
    return any(
        isinstance(parent, ast.If)
        and reading in parent.body
        and re.match(r"(?:torch\.)?\w+(?:\.\w+)*\.is_available\(\)$", ast.unparse(parent.test))
        for reading in (measured.start, measured.end)
        for parent in facts.model.ancestors(reading)
    )


def _needs_one_between(measured: Measured, backend: str, facts: Facts) -> bool:
    """Whether what is measured moves something to the accelerator in any case: `x = x.cuda()`."""
    around = {p for p in facts.model.ancestors(measured.start) if isinstance(p, _ASIDE)}
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == backend
        and measured.start.lineno < node.lineno < measured.end.lineno
        and all(p in around for p in facts.model.ancestors(node) if isinstance(p, _ASIDE))
        for node in own_nodes(facts.model.enclosing_scope(measured.end))
    )


# What stands in these may not run at all.
_ASIDE = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.ExceptHandler, ast.Lambda, ast.BoolOp, ast.comprehension)


def _synchronised(measured: Measured, value: Value, facts: Facts) -> Change | None:
    backend = value.place.name.split(":")[0]
    if value.place.sort is not Sort.ACCELERATOR or backend not in ("cuda", "xpu", "mps"):
        return None
    if "torch" not in facts.model.source.bindings:
        return None
    module = "accelerator" if facts.surroundings.prefers_accelerator else backend
    call = f"torch.{module}.synchronize()"
    if (
        _runs_without(backend, facts)
        and not _is_asked_around(measured, facts)
        and not _needs_one_between(measured, backend, facts)
    ):
        call = f"if {_ASKED.get(module, f'torch.{module}')}.is_available():\n    {call}"
    return Change(
        "synchronize before each reading of the clock",
        "display",
        edits=(facts.inserted_before(measured.start, call), facts.inserted_before(measured.end, call)),
    )
