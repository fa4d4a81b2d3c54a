"""Whether a step of training would be faster with one wait less, so that somebody would take it out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import access_path, calls_in, last_name, own_nodes, walk
from devlint.knowledge.ecosystem import SIZED_BY_VALUES, WITHOUT_CHEAPER_FORM
from devlint.lazy import regex
from devlint_rules.hot_loops.needed import is_needed, is_written
from devlint_rules.hot_loops.other_waits import tensor_read, waiting_beside

if TYPE_CHECKING:
    from devlint.facts import Facts, HotLoop
    from devlint.lazy import cst
    from devlint.rule import Change

# What is asked of a loss before a step goes on.
_FINITE = frozenset({"isfinite", "isnan", "isinf"})
_BEST = regex(r"(?i)(?:^|_|\b)best(?:_|\b|$)")
_STEPPING = regex(r"(?i)optim|scaler|engine|(?:^|_|\.)opt(?:_|$)|accelerator")


def waits_all_the_same(read: ast.expr, hot: HotLoop, facts: Facts) -> bool:
    """Whether something else makes each step wait, in the loop or in the function around a wait, or most likely does: what another rule tells of doesn't count."""

    def is_told(call: ast.Call) -> bool:
        return last_name(call.func) in _READING and not is_needed(call, hot, facts) and not is_written(call, facts)

    loop = hot.node if isinstance(hot.node, ast.stmt) else None
    return any(_runs_with(node, read, facts) for node in waiting_beside(read, loop, facts, is_told))


def costs_nothing_new(read: ast.AST, hot: HotLoop | None, facts: Facts) -> bool:
    """Whether a wait is a guard, asks whether a run has got better, is for what each step prints anyway, or stands beside many steps of a model."""
    if _guards(facts.statement, facts) or _has_waited_inside(read) or _is_timed(facts.statement, facts):
        return True
    if _is_asked_around(read, facts) or _asks_before_picking(read, facts.statement):
        return True
    return is_said(read, facts) or (hot is not None and hot.node is not None and _is_long(read, hot.node))


def waits_for_batch(hot: HotLoop, facts: Facts) -> bool:
    """Whether each step waits for the copy of its batch, so that nothing is queued from one to the next: what one wait more takes is what is left to queue."""
    return hot.node is not None and facts.model.begins_by_waiting(hot.node)


def ends_before_copy(change: Change, node: cst.CSTNode, hot: HotLoop, facts: Facts) -> bool:
    """Whether a reading that could be `change`d stands at the end of a step, and the next one waits for the copy of its batch all the same.

    What the host could do meanwhile is to make that batch, where nobody else makes it; and it could only where nothing in the
    loop that nobody has read may wait as well.
    """
    if not waits_for_batch(hot, facts) or not facts.ends_step(node):
        return False
    return change.safety == "display" or _is_next_ready(facts)


def _is_next_ready(facts: Facts) -> bool:
    """Whether the next batch lies ready when a step ends, made by other processes: so are those of the file's loaders, or of the files that it imports."""
    made = [n for n in calls_in(facts.model.source.tree) if facts.model.qualified(n.func) == _LOADER]
    if not made:
        imports = (n for n in walk(facts.model.source.tree) if isinstance(n, (ast.Import, ast.ImportFrom)))
        modules = (module for n in imports for module in facts.model.imported_modules(n))
        made = [n for module in modules for n in calls_in(module.tree) if last_name(n.func) == "DataLoader"]
    return bool(made) and all(map(_has_workers, made))


_LOADER = "torch.utils.data.DataLoader"


def _has_workers(made: ast.Call) -> bool:
    """`DataLoader(..., num_workers=4)`, or of as many as an option says."""
    return any(k.arg == "num_workers" and ast.unparse(k.value) != "0" for k in made.keywords)


def _is_asked_around(read: ast.AST, facts: Facts) -> bool:
    """Whether the test of a branch that a reading stands in has read the same: `if loss.item() > 3: print(loss.item())`."""
    asked = ast.dump(read)
    tests = (p.test for p, _ in _branches(read, facts) if isinstance(p, (ast.If, ast.IfExp)))
    return any(isinstance(n, ast.expr) and ast.dump(n) == asked for test in tests for n in walk(test))


def _asks_before_picking(read: ast.AST, statement: ast.AST) -> bool:
    """`if mask.any(): loss += f(x[mask])`: whoever picks by a mask waits all the same."""
    match read, statement:
        case ast.Call(func=ast.Attribute(value=mask, attr="any" | "all")), ast.If(body=[first, *_]):
            asked = access_path(mask)
            return asked is not None and any(
                isinstance(n, ast.Subscript) and access_path(n.slice) == asked and isinstance(n.ctx, ast.Load)
                for n in walk(first)
            )
    return False


def _has_waited_inside(read: ast.AST) -> bool:
    """`right.masked_select(mask).sum().item()`: what is read waits by itself."""
    return any(map(_counts, calls_in(read)))


def _counts(call: ast.Call) -> bool:
    sizing = SIZED_BY_VALUES.get(last_name(call.func))
    if sizing is None or sizing.instead not in WITHOUT_CHEAPER_FORM:
        return False
    return not sizing.alone or len(call.args) + len(call.keywords) == 1


# A number that the clock gives, and what is made of two of them: how long a step took.
_CLOCK = regex(r"\b(?:time|perf_counter|monotonic|process_time)(?:_ns)?\(\)")


def _is_timed(statement: ast.AST, facts: Facts) -> bool:
    """Whether each step reads the clock before a statement and after it, for the time between: without a wait, it would measure what was queued.

    `took -= time.time()` and `took += time.time()`; `start = time.time()` and `time.time() - start`.
    """
    starts = {name for earlier in facts.model.source.before(statement) for name in _clock_started(earlier)}
    return any(_reads_clock_since(later, starts) for later in facts.model.source.after(statement)) if starts else False


def _clock_started(statement: ast.AST) -> Iterator[str]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as clock):
            is_clock = _CLOCK.search(ast.unparse(clock)) is not None
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Sub(), value=clock):
            is_clock = _CLOCK.search(ast.unparse(clock)) is not None
        case _:
            return
    if is_clock:
        yield name


def _reads_clock_since(statement: ast.AST, starts: set[str]) -> bool:
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=clock):
            if name in starts and _CLOCK.search(ast.unparse(clock)):
                return True
    return any(
        isinstance(n, ast.BinOp)
        and isinstance(n.op, ast.Sub)
        and isinstance(n.right, ast.Name)
        and n.right.id in starts
        and _CLOCK.search(ast.unparse(n.left)) is not None
        for n in walk(statement)
    )


# -- what each step says -----------------------------------------------------------------------------------------------

# What shows its text at once, at each step.
_PRINTING = frozenset({"print", "info"})
# What keeps a text, or a number, in front of somebody's eyes.
_SHOWING = _PRINTING | {"set_description", "set_description_str", "set_postfix", "set_postfix_str"}
# What takes a number of a tensor, which is then shown; a tensor that becomes text by itself is told as that.
_READING = frozenset({"item", "tolist", "float", "int"})
# Methods that keep what they are given, as a meter or a list does.
_KEEPING = frozenset({"update", "append", "add", "push"})
# What is read is followed through so many statements.
_MAX_STEPS = 3


def is_said(read: ast.AST, facts: Facts) -> bool:
    """Whether each step prints what is read on another line, or shows it, or what is computed of it: a meter's mean, a running total."""
    if not isinstance(read, ast.Call) or last_name(read.func) not in _READING:
        return False
    asked = ast.dump(read)
    shown = [*_shown_each_step(read, facts)]
    within = next((n for n in shown if any(part is read for part in walk(n))), None)
    if within is not None and last_name(within.func) not in _PRINTING:
        return True
    tensor = tensor_read(read)
    if tensor is not None and any(_becomes_text(tensor, n) for n in shown):
        return True
    shown = [n for n in shown if n is not within]
    prints = (n for n in shown if last_name(n.func) in _PRINTING)
    if any(isinstance(part, ast.expr) and ast.dump(part) == asked for n in prints for part in walk(n)):
        return True
    kept = _kept_under(read, facts)
    return any(isinstance(part, ast.expr) and access_path(part) in kept for n in shown for part in walk(n))


def _becomes_text(tensor: ast.expr, shown: ast.AST) -> bool:
    """`bar.set_description(f"{loss:.4f}")`"""
    asked = ast.dump(tensor)
    return any(isinstance(n, ast.FormattedValue) and ast.dump(n.value) == asked for n in walk(shown))


def _shown_each_step(read: ast.AST, facts: Facts) -> Iterator[ast.Call]:
    """The calls that show something in each step around a read, unless an option says that they don't."""
    step = _step_around(read, facts)
    if step is None:
        return
    inner = set(own_nodes(step))
    bound = {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in own_nodes(step):
        if isinstance(node, ast.Call) and last_name(node.func) in _SHOWING:
            tests = [p.test for p, _ in _branches(node, facts) if isinstance(p, (ast.If, ast.IfExp)) and p in inner]
            if all(_is_option(test, bound) for test in tests):
                yield node


def _is_option(test: ast.expr, bound: set[str]) -> bool:
    """`not args.quiet`, `is_main_process()`: a test that comes out alike in each step, in which the names `bound` are set."""
    return not any(
        isinstance(n, (ast.Compare, ast.BinOp)) or (isinstance(n, ast.Name) and n.id in bound) for n in walk(test)
    )


def _step_around(read: ast.AST, facts: Facts) -> ast.AST | None:
    """The loop each pass of which changes weights once, which may gather gradients in a loop of its own; or the innermost one."""
    loops = [*_loops_around(read, facts)]
    for loop in loops:
        steps = (n for n in own_nodes(loop) if isinstance(n, ast.Call) and last_name(n.func) == "step" and _learns(n))
        if any(next(_loops_around(step, facts), None) is loop for step in steps):
            return loop
    return loops[0] if loops else None


def _loops_around(node: ast.AST, facts: Facts) -> Iterator[ast.AST]:
    return (p for p in facts.model.ancestors(node) if isinstance(p, (ast.For, ast.AsyncFor, ast.While)))


def _kept_under(read: ast.Call, facts: Facts) -> set[str]:
    """The access paths of what a pass computes of what is read."""
    kept: set[str] = set()
    scope = facts.model.enclosing_scope(read)
    holding: list[ast.expr] = [read]
    for _ in range(_MAX_STEPS):
        statements = (facts.model.source.statement_of(node) for node in holding)
        found = {path for statement in statements for path in _keeping(statement)} - kept
        kept |= found
        holding = [n for n in own_nodes(scope) if isinstance(n, ast.expr) and access_path(n) in found]
        if not found:
            break
    return kept


def _keeping(statement: ast.AST) -> Iterator[str]:
    """The access paths that a statement binds, or adds to."""
    match statement:
        case ast.Assign(targets=targets):
            parts = [part for t in targets for part in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else (t,))]
        case ast.AugAssign(target=target):
            parts = [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=keeper, attr=name))) if name in _KEEPING:
            parts = [keeper]
        case _:
            parts = []
    yield from (path for part in parts if (path := access_path(part)) is not None)


# What a loop goes over that makes one sample, or one episode, by a model.
_OF_STEPS = regex(r"(?i)time_?steps|(?:sampling|inference|denois\w{1,10}|diffusion|rollout|inner)_?steps")


def _is_long(read: ast.AST, loop: ast.AST) -> bool:
    """Whether each pass goes through many steps of a model in a loop of its own, beside which one wait is nothing."""
    return any(
        isinstance(n, ast.For)
        and n is not loop
        and _OF_STEPS.search(ast.unparse(n.iter)) is not None
        and any(isinstance(inner, ast.Call) for statement in n.body for inner in walk(statement))
        and not any(inner is read for inner in walk(n))
        for n in own_nodes(loop)
    )


# -- guards ------------------------------------------------------------------------------------------------------------


def _guards(statement: ast.AST, facts: Facts) -> bool:
    """Whether a statement reads something to see whether all is well, or better than before, or what is read for that.

    `if not math.isfinite(loss.item()): sys.exit(1)`, `assert (x > 0).all()`, `if loss < best:`.
    """
    match statement:
        case ast.If() | ast.Assert():
            return _is_guard(statement)
        case ast.Assign(targets=[ast.Name(id=name)]):
            return any(_is_guard(later) and _asks_of(name, later) for later in facts.model.source.after(statement))
    return False


def _is_guard(statement: ast.AST) -> bool:
    match statement:
        case ast.Assert():
            return True
        case ast.If(test=test, body=body, orelse=orelse):
            if _BEST.search(ast.unparse(test)) or all(map(_says, body)) or (orelse and all(map(_says, orelse))):
                return True
            return (_asks_whether_finite(test) or _asks_whether_zero(test)) and any(map(_minds, body))
    return False


def _asks_of(name: str, statement: ast.AST) -> bool:
    test = statement.test if isinstance(statement, (ast.If, ast.Assert)) else statement
    return any(isinstance(n, ast.Name) and n.id == name for n in walk(test))


def _asks_whether_finite(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) and last_name(n.func) in _FINITE for n in walk(test))


def _asks_whether_zero(test: ast.expr) -> bool:
    """`if loss == 0: continue`: nothing was found in the batch, and there is nothing to learn from it."""
    match test:
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            return True
    return False


# What a step does, or leaves undone, where a number isn't finite, or is nothing.
_MINDING = frozenset({"exit", "_exit", "quit", "abort", "save", "backward", "step", "zero_grad"})


def _minds(statement: ast.stmt) -> bool:
    """`raise ...`, `continue`, `loss.backward()`, `torch.save(...)`, `print(...)`."""
    if isinstance(statement, (ast.Raise, ast.Continue, ast.Break, ast.Return)) or _says(statement):
        return True
    return any(isinstance(n, ast.Call) and last_name(n.func) in _MINDING for n in walk(statement))


def _says(statement: ast.stmt) -> bool:
    """`print(...)`, `logger.warning(...)`"""
    match statement:
        case ast.Expr(value=ast.Call(func=func)):
            return last_name(func) in ("print", "warn", "warning", "info", "error", "debug")
    return False


def _learns(node: ast.Call) -> bool:
    """`loss.backward()`, `optimizer.step()`."""
    name = last_name(node.func)
    owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    return "backward" in name or (name == "step" and _STEPPING.search(owner) is not None)


def _runs_with(other: ast.AST, read: ast.AST, facts: Facts) -> bool:
    """Whether something runs whenever a read does: no branch is around it that isn't around that too."""
    blocks = set(_branches(read, facts))
    return all(block in blocks for block in _branches(other, facts))


def _branches(node: ast.AST, facts: Facts) -> Iterator[tuple[ast.AST, str]]:
    """The branches that a node stands in, within its function."""
    child = node
    for parent in facts.model.ancestors(node):
        match parent:
            case ast.If() | ast.Try() | ast.IfExp():
                for field in ("body", "orelse", "handlers", "finalbody"):
                    block = getattr(parent, field, None)
                    if child is block or (isinstance(block, list) and child in block):
                        yield parent, field
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return
        child = parent
