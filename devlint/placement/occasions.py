"""Tests and blocks in a loop that come by a few passes only, told from how they are spelt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from devlint.regexes import regex
from devlint.source.modules import last_name
from devlint.source.trees import walk

_ABNORMAL_CALLS = frozenset({"isnan", "isinf", "isfinite", "is_nonzero"})
_COUNTERS = frozenset(
    {"i", "j", "idx", "index", "step", "it", "iteration", "batch_idx", "batch_i", "global_step", "n_iter", "iter", "counter",
     "count", "batch_index", "step_idx", "itr", "bi", "ii", "n", "num_steps", "steps", "global_steps", "iterations",
     "current_step", "cur_step", "train_step", "nb_iter"}
)  # fmt: skip
# Names that end like those of counters, or begin so.
COUNTED = regex(
    r"^(?:i|it|n)_(?:batch|step|iter)|(?:^|_)(?:steps?|iters?|iterations?|batch_(?:i|id|idx|no|num))$", re.IGNORECASE
)
# Flags that say that this is over.
WARM = regex(r"_?(?:is_|has_)?(?:warmed(?:_?up)?|warm_?up_(?:done|over|finished|completed?))", re.IGNORECASE)
WARM_UP = regex(r"warm", re.IGNORECASE)


def is_warm_up(loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """`for _ in range(n_warmup):` gets the machine ready; nobody counts its time."""
    return not isinstance(loop, ast.While) and bool(WARM_UP.search(ast.unparse(loop.iter)))


def is_for_old_releases(test: ast.expr, *, body: bool) -> bool:
    """Whether a branch is for releases before one that is told: the `else` of `if version >= "0.4":`."""
    asked = [n for n in ast.walk(test) if isinstance(n, ast.Compare) and "version" in ast.unparse(n.left).lower()]
    older, newer = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)
    return bool(asked) and all(isinstance(n.ops[0], older if body else newer) for n in asked)


def never_holds(test: ast.expr) -> bool:
    """`x.device == torch.device("cuda")`: a tensor's device has an index."""
    match test:
        case ast.Compare(
            left=ast.Attribute(attr="device"),
            ops=[ast.Eq()],
            comparators=[ast.Call(func=func, args=[ast.Constant(value="cuda" | "xpu" | "npu")], keywords=[])],
        ):
            return last_name(func) == "device"
    return False


def steps_optimizer(block: list[ast.stmt]) -> bool:
    """The optimizer's own step, made once gradients of several batches are there: `if (i + 1) % accumulate == 0:`."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == "step"
        and ("optim" in (owner := called_last(n.func.value).lower()) or "scaler" in owner)
        for statement in block
        for n in ast.walk(statement)
    )


def is_false(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and not value.value)


def flat(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, and of the `with` and `if` blocks in it."""
    for statement in block:
        yield statement
        if isinstance(statement, (ast.With, ast.AsyncWith, ast.If)):
            yield from flat(statement.body)


def runs_once(test: ast.expr, body: Iterable[ast.stmt]) -> bool:
    """`if first: ...; first = False` and `if state is None: state = ...` run on one pass; `body` has all that is run."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=subject):
            after: tuple[object, ...] = (True,)
        case ast.Compare(left=subject, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            after = ()
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="len"), args=[subject]), ops=[ast.Eq()], comparators=[ast.Constant(value=0)]
        ):
            after = ()
        case ast.Name() | ast.Attribute():
            subject, after = test, (False, None)
        case _:
            return False
    # A property gives what is kept under a name of its own: `step_index` gives `_step_index`.
    name = ast.unparse(subject)
    names = {name, re.sub(r"\.(?=\w+$)", "._", name)}
    for statement in body:
        if isinstance(statement, ast.Assign) and any(ast.unparse(t) in names for t in statement.targets):
            return not after or (isinstance(statement.value, ast.Constant) and statement.value.value in after)
    return False


def starts_held(test: ast.expr, block: list[ast.stmt], *, held: bool) -> bool:
    """`if "step" not in state: state["step"] = ...`: what is begun once, and kept; `held` asks of the other branch of `if "step" in state:`."""
    match test:
        case ast.Compare(
            left=ast.Constant(value=str() as key), ops=[ast.In() | ast.NotIn() as asked], comparators=[kept]
        ):
            if isinstance(asked, ast.In) is not held:
                return False
            wanted = f"{ast.unparse(kept)}[{key!r}]"
        case _:
            return False
    stores = (t for statement in flat(block) if isinstance(statement, ast.Assign) for t in statement.targets)
    return any(ast.unparse(target) == wanted for target in stores)


def is_position(left: ast.expr, right: ast.expr) -> bool:
    """`i == len(loader) - 1`, `i == 0`."""
    if isinstance(left, ast.BinOp) and isinstance(left.right, ast.Constant):
        # Counted from one: `i + 1 == len(loader)`.
        left = left.left
    if not isinstance(left, (ast.Name, ast.Attribute)):
        return False
    text = ast.unparse(right)
    return (
        is_counter(left)
        or COUNTED.search(last_name(left)) is not None
        or (isinstance(left, ast.Name) and ("len(" in text or "num_" in text))
    )


def is_end(test: ast.expr) -> bool:
    """`done`, `self.finished`."""
    return isinstance(test, (ast.Name, ast.Attribute)) and _END.fullmatch(last_name(test)) is not None


def is_each(test: ast.expr) -> bool:
    """`args.log_interval == 1`: who asks for each step has it."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=1)]):
            return _EVERY.search(last_name(left)) is not None
    return False


_EVERY = regex(r"(?:^|_)(?:interval|every|freq|frequency|period)(?:_|$)")
_END = regex(r"_?(?:is_)?(?:done|finished|stop|stopped|should_stop|abort|exit|end)")


def is_warm(test: ast.expr) -> bool:
    """`self.warmed_up`: so it is on nearly all steps."""
    match test:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return WARM.fullmatch(name) is not None
    return False


# What sums up a tensor.
_EXTREMES = frozenset({"min", "max", "amin", "amax", "norm", "abs", "any", "all", "sum", "mean", "isnan", "isinf"})


def warns_of(test: ast.expr, body: list[ast.stmt]) -> bool:
    """`if torch.max(y) > 1: print(torch.max(y))`: a message about values that hardly occur."""
    asked = any(isinstance(n, ast.Call) and called_last(n) in _EXTREMES for n in walk(test))
    return asked and all(map(says, body))


def says(statement: ast.stmt) -> bool:
    """`print(...)`, `warnings.warn(...)`, `logger.info(...)`: a message for what hardly happens."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in ("print", "warn", "warning", "info", "error", "debug", "warning_once")
    return False


def is_abnormal(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) and called_last(n) in _ABNORMAL_CALLS for n in walk(test))


def counts_passes(loop: ast.For | ast.AsyncFor, name: str) -> bool:
    over = loop.iter
    while isinstance(over, ast.Call) and last_name(over.func) in ("tqdm", "track") and over.args:
        over = over.args[0]
    called = last_name(over.func) if isinstance(over, ast.Call) else ""
    match loop.target:
        case ast.Name(id=counter):
            return counter == name and called in ("range", "trange")
        case ast.Tuple(elts=[ast.Name(id=counter), *_]):
            return counter == name and called == "enumerate"
    return False


def counts(test: ast.expr) -> bool:
    """A remainder in a condition: `step % n == 0`, `divmod(step, n)[1] == 0`, `step & 63 == 0`."""
    return any(is_remainder(n) for n in walk(test))


def is_remainder(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(left=ast.Constant(value=str())):
            # Text that is formatted.
            return False
        case ast.BinOp(op=ast.Mod()) | ast.Call(func=ast.Name(id="divmod")):
            return True
        case ast.BinOp(left=left, op=ast.BitAnd()):
            return is_counter(left)
    return False


def is_counter(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            # `if _ == 0:` asks for the first pass as well.
            return name == "_" or name.lower().lstrip("_") in _COUNTERS
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant()):
            return is_counter(left)
    return False


def called_last(node: ast.expr) -> str:
    """`perf_counter` of `time.perf_counter()`."""
    return last_name(node.func if isinstance(node, ast.Call) else node)


def waits_for_a_key(block: list[ast.stmt]) -> bool:
    """Each pass ends when somebody presses a key: `cv2.waitKey(0)`."""
    nodes = (n for s in block if isinstance(s, (ast.Expr, ast.Assign, ast.If)) for n in walk(s))
    calls = (n for n in nodes if isinstance(n, ast.Call) and last_name(n.func) == "waitKey" and not n.keywords)
    return any([ast.unparse(argument) for argument in call.args] in ([], ["0"], ["-1"]) for call in calls)


def leaves_loop(block: list[ast.stmt]) -> bool:
    """The loop's own body always leaves it: there is one pass."""
    return isinstance(block[-1], (ast.Break, ast.Return))
