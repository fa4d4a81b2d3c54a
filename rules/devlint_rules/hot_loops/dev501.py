"""DEV501: reading one number from the accelerator at each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from devlint.facts import Kind, Value, calls_in, last_name, own_nodes, walk
from devlint.findings import Edit
from devlint.knowledge import torch_knowledge
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.hot_loops import by_role, stalls
from devlint_rules.hot_loops.gains import ends_before_copy, is_said
from devlint_rules.hot_loops.needed import is_needed, is_written
from devlint_rules.hot_loops.other_waits import waits_anyway

if TYPE_CHECKING:
    from devlint.facts import Facts, HotLoop, HotStall, PlacementModel, Unit

READERS = ("item", "tolist")
CONVERSIONS = {"builtins.float": "float", "builtins.int": "int"}


class ItemInHotLoop(Rule):
    """A tensor's value read by the host at each step, such as `loss.item()`.

    ## What it does
    Flags `.item()`, `.tolist()`, `float(t)` and `int(t)` on an accelerator tensor at each pass of a hot loop: one that
    iterates a loader, or calls a module, `.backward()` or `optimizer.step()`. Reads under a step guard
    (`if step % 100 == 0:`), on the last pass, in an exception handler or after the loop are left alone, and so is what
    decides whether a loop that isn't over a loader goes on.

    By default it tells of what it has a fix for, as `total += loss.item()`: what a step only adds up or keeps, while nothing else makes
    the step wait. Where the rule is selected by its code, as in `--select DEV501`, it tells of the rest too: a number that goes to a
    meter, or that tensors can't stand for, loops that train nothing, guards, and readings beside other waits. What has a fix is told by the code
    alone where another line of each step prints or shows the same, also by way of a running total or a meter
    (`bar.set_description(f"{meter.avg}")`), unless an option turns that off; and at the end of a step, where the next one waits for the copy of its batch
    (`x.cuda()`, without `non_blocking=True` from pinned memory), unless `--fix` applies it and no workers of a `DataLoader` have the next batch ready.

    In code that is hot by its role (in preview) it tells of what each step comes by; of what stands where an option leads,
    runs once a request, reads again what the function has read, or stands right after another wait, or right before one that
    stays, where it is selected by its code as well.

    ## Why is this bad
    The host runs ahead of the accelerator and queues its work. To read a value it must wait until all of that is
    done, and the accelerator then waits for the host to queue more: one stall at each step.

    ## Example
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    total = 0.0
    for batch in loader:
        loss = model(batch.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total / len(loader))
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    total = 0.0
    for batch in loader:
        loss = model(batch.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    total = float(total)
    print(total / len(loader))
    ```

    ## Fix safety
    Unsafe: the running total, or the list, holds tensors until the loop is over, and the sum is made in the tensor's
    precision. Offered where the value is added to a number, or appended to a list, that starts right before the loop and
    is read after it, and where nothing else makes each step wait: another reading, text, a branch, a gradient scaler, a
    function that scores, or a copy in the same statement. Not offered where the sum would be made in a type of few digits, and in
    loops that read the clock. Where the loop calls functions of the project, or computes with what nobody has read, any `model(x)`,
    or with a model whose file may wait too, or imports others of the project, it is a suggestion, which `--fix` leaves to you.

    ## References
    - [Performance Tuning Guide: avoid unnecessary CPU-GPU synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [dmlc/dgl 5302](https://github.com/dmlc/dgl/issues/5302)
    """

    code = "DEV501"
    name = "item-in-hot-loop"
    severity = "warning"
    trigger = r"\.\s*(?:item|tolist)\s*\(|\b(?:float|int)\s*\("
    only_hot = True
    only_training = True
    only_amid_step = True
    effect = Effect(syncs=4, words="item")
    mends_minor = True
    seen_as = ("sync",)
    fix = "U/D"

    senses = frozenset({"read"})
    # `range(n)`, `x[:n]`, `names[n]`
    hears = r"\brange\s*\(|\w\["

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return stalls.reads_accelerator(unit, model)

    def judge_stall(self, node: cst.CSTNode, stall: HotStall, facts: Facts) -> Iterator[Report]:
        text = facts.shown(stall.node)
        if stall.name in ("item", "tolist", "int", "float"):
            message = f"`{text}` makes the host wait for the accelerator {stall.often}"
        else:
            asked = facts.shown(stall.asked)
            message = f"`{asked}` is read on the host for `{text}`, which waits for the accelerator {stall.often}"
        yield by_role.report(node, stall, facts, message, _INSTEAD.get(stall.name, _COMPUTE_ON))

    def shape(self) -> m.BaseMatcherNode:
        return m.OneOf(
            m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(n) for n in READERS))), args=[]),
            m.Call(func=m.OneOf(m.Name("float"), m.Name("int")), args=[m.Arg(star="", keyword=None)]),
        )

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        tensor = _tensor_read(node, facts)
        known = facts.on_accelerator(tensor) if tensor is not None else None
        hot = facts.hot_loop(node)
        if tensor is None or known is None or hot is None:
            return
        value, likely = known
        if isinstance(node.func, cst.Name) and not value.is_tensor:
            return
        read = facts.node(node)
        if read is None or is_needed(read, hot, facts) or (_is_list(read) and is_written(read, facts)):
            return
        change = _collected(node, tensor, hot, facts)
        yield Report(
            node,
            f"`{facts.name_of(node)}` makes the host wait for {stalls.place_of(value)} at each step",
            "likely" if likely or hot.likely else "certain",
            notes=stalls.loop_notes(hot, value, facts),
            hint=None if change else _hint(node, facts),
            change=change,
            minor=change is not None and (is_said(read, facts) or ends_before_copy(change, node, hot, facts)),
        )


_COMPUTE_ON = (
    "compute on with the tensor on the device, or take the number from what the host knows (a shape, a length)"
)
_INSTEAD = {
    "tolist": "read once, where the host has the numbers already, or keep a copy of them on the host beside the tensor",
    "[:]": "mask on the device instead of slicing, or keep the bound as a number beside the tensor",
    "range": "one `.tolist()` of all that the loop needs waits once",
}


def _is_list(read: ast.expr) -> bool:
    """`x.tolist()`, which brings all of a tensor at once."""
    return isinstance(read, ast.Call) and isinstance(read.func, ast.Attribute) and read.func.attr == "tolist"


def _hint(node: cst.Call, facts: Facts) -> str:
    """Several reads in one statement can wait together."""
    found = facts.node(node)
    reads = [n for n in calls_in(facts.statement) if _is_item(n, facts)]
    if len(reads) > 1 and found in reads:
        return f"{stalls.KEEP_DETACHED}; `torch.stack([...]).tolist()` reads the {len(reads)} in one wait"
    return stalls.KEEP_DETACHED


def _is_item(call: ast.Call, facts: Facts) -> bool:
    """`.item()` on what may be a tensor on an accelerator."""
    match call:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
            return any(v.place.off_host for _, v in facts.model.value(tensor).alternatives())
    return False


def _tensor_read(node: cst.Call, facts: Facts) -> cst.BaseExpression | None:
    if isinstance(node.func, cst.Attribute):
        return node.func.value
    return node.args[0].value if facts.qualified(node.func) in CONVERSIONS else None


def _collected(node: cst.Call, tensor: cst.BaseExpression, hot: HotLoop, facts: Facts) -> Change | None:
    """The value accumulated as a tensor, and read after the loop."""
    found, loop = facts.node(node), stalls.statement_loop(hot)
    if found is None or loop is None or not isinstance(node.func, (cst.Attribute, cst.Name)):
        return None
    reading = _read_after(found, facts.statement, loop, facts)
    if facts.statement.lineno != facts.statement.end_lineno or _goes_back(facts.statement, loop, facts):
        # What was broken over lines wants them laid out anew; what is put together on the device again wants no reading.
        return None
    if reading is None or not _is_wanted(facts.statement, loop, facts) or _loses_digits(found, facts):
        return None
    if any(_is_added_up_untold(node, loop, facts) for node in own_nodes(loop)):
        return None
    if _TIMES.search(facts.code_of(loop)) or _copies_inside(facts.statement, facts):
        # What is measured in the loop would be measured before it is done; what is copied in the same breath waits as well.
        return None
    if _is_read_elsewhere(facts.statement, loop, facts) or waits_anyway(
        found, loop, facts, lambda call: _is_collected(call, loop, facts)
    ):
        return None
    return Change(
        stalls.ACCUMULATE_DETACHED,
        "display" if _calls_unknown(loop, facts) else "unsafe",
        ((node, _collectable(tensor, found, loop, facts)),),
        (reading,),
    )


# A loop that reads the clock.
_TIMES = regex(r"\btime\(\)|\bperf_counter\w{0,3}\(\)|\bmonotonic\(\)|\belapsed_time\(")


def _copies_inside(statement: ast.AST, facts: Facts) -> bool:
    """Whether a statement waits for a copy behind what it computes: `(net(x) == y.to(device)).sum().item()`."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("to", "cuda")
        and not any(k.arg == "non_blocking" for k in n.keywords)
        and any(not v.place.off_host for _, v in facts.model.value(n.func.value).alternatives())
        and not _is_input(n, facts)
        for n in ast.walk(statement)
    )


def _calls_unknown(loop: ast.stmt, facts: Facts) -> bool:
    """Whether a loop calls functions of the project, or something that nobody has read, `model(x)` of any model, or that may wait or copy by itself."""
    calls = [n for n in own_nodes(loop) if isinstance(n, ast.Call)]
    return any(
        facts.model.callee(n) is not None
        or (
            bool(n.args)
            and any(_may_wait(v, facts) for v in _called(n, facts))
            and not isinstance(next(facts.model.ancestors(n), None), ast.Expr)
        )
        for n in calls
    )


def _called(call: ast.Call, facts: Facts) -> Iterator[Value]:
    """What a call calls: a function or a module, or what the method is of, unless it may be a tensor's."""
    match call.func:
        case ast.Attribute(value=owner, attr=name) if ast.unparse(owner) != "self":
            options = [v for _, v in facts.model.value(owner).alternatives()]
            may_be_tensors = name in torch_knowledge().tensor_methods
            yield from (v for v in options if v.is_module or (v.kind is Kind.UNKNOWN and not may_be_tensors))
        case called:
            yield from (v for _, v in facts.model.value(called).alternatives())


# What may make the host wait, or be made there and moved, in the file of a model.
_WAITS_THERE = regex(
    r"\.(?:item|tolist|numpy|cpu|cuda|to|type|nonzero|any|all|new_tensor)\(|\b(?:float|int|bool|print)\("
    r"|\btorch\.(?:tensor|as_tensor|from_numpy|rand\w{0,10}|zeros|ones|full|eye|arange|linspace|where|unique\w{0,20}|\w{0,10}Tensor)\("
)


def _may_wait(value: Value, facts: Facts) -> bool:
    """Whether what is called may wait by itself: nobody has read it, or its file imports others of the project, or has words for that."""
    if value.kind is Kind.UNKNOWN:
        return not value.name
    if value.cls is None:
        return False
    for cls in value.cls.project_lineage():
        file = facts.model.file_of(cls.source)
        if file is None or _WAITS_THERE.search(cls.source.without_comments):
            return True
        if any(isinstance(n, (ast.Import, ast.ImportFrom)) and file.imported_modules(n) for n in walk(cls.source.tree)):
            return True
    return False


def _is_input(node: ast.expr, facts: Facts) -> bool:
    """Whether a module is given an expression, and so computes after it."""
    return any(
        isinstance(parent, ast.Call) and any(v.is_module for _, v in facts.model.value(parent.func).alternatives())
        for parent in facts.model.ancestors(node)
    )


def _is_added_up_untold(node: ast.AST, loop: ast.stmt, facts: Facts) -> bool:
    """Whether a statement adds up what it reads of something of which nobody knows where it is: `total += float(loss)`, which stays."""
    match node:
        case ast.AugAssign(op=ast.Add(), value=ast.Call(func=ast.Name(id="float" | "int"), args=[read]) as call):
            options = [v for _, v in facts.model.value(read).alternatives()]
            is_open = any(v.is_tensor or v.kind is Kind.UNKNOWN for v in options)
            return is_open and not _is_collected(call, loop, facts) and facts.model.hot_loop(node) is not None
    return False


def _is_wanted(statement: ast.AST, loop: ast.stmt, facts: Facts) -> bool:
    """Whether anything reads what a statement collects once the loop is over: else the statement is better left out."""
    return _collecting(statement) in _read_around(loop, facts.model.enclosing_scope(loop))


# Each reading of a loop asks that, of the others too.
@lru_cache(maxsize=2)
def _read_around(loop: ast.stmt, scope: ast.AST) -> frozenset[str]:
    """The names that a scope reads outside of a loop."""
    inside = {id(n) for n in walk(loop)}
    return frozenset(
        n.id for n in walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in inside
    )


def _goes_back(statement: ast.AST, loop: ast.stmt, facts: Facts) -> bool:
    """Whether what is collected becomes a tensor again behind the loop: `torch.tensor(losses, device=device)`."""
    name = _collecting(statement)
    return any(
        isinstance(n, ast.Call)
        and last_name(n.func) in ("tensor", "as_tensor", "FloatTensor", "Tensor")
        and any(isinstance(a, ast.Name) and a.id == name for a in n.args)
        for n in own_nodes(facts.model.enclosing_scope(loop))
    )


# Types that a sum of many numbers is too large, or too fine, for.
_FEW_DIGITS = regex(r"\.(?:half|bfloat16)\(\)|\bb?float16\b")
_FEW_VALUES = regex(r"\.(?:byte|char|short)\(\)|\bu?int(?:8|16)\b")
_AUTOCAST = regex(r"\bautocast\([^()\n]*\)")


@lru_cache(maxsize=2)
def _has_few_digits(text: str) -> bool:
    return _FEW_DIGITS.search(_AUTOCAST.sub("", text)) is not None


def _loses_digits(read: ast.expr, facts: Facts) -> bool:
    """Whether the sum may be made in a type of few digits, where it is a number of Python's now; `autocast` leaves losses as they are."""
    if not isinstance(facts.statement, ast.AugAssign):
        return False
    return _has_few_digits(facts.text.text) or _FEW_VALUES.search(ast.unparse(read)) is not None


def _is_read_elsewhere(statement: ast.AST, loop: ast.stmt, facts: Facts) -> bool:
    """Whether a function may read what a loop collects while it runs: one in the same scope, or any of a global name."""
    name = _collecting(statement)
    scope = facts.model.enclosing_scope(loop)
    return any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Global, ast.Nonlocal))
        and node is not scope
        and _names(node, name)
        for node in ast.walk(scope)
    )


def _names(node: ast.AST, name: str) -> bool:
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return name in node.names
    loads = [n.ctx for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name]
    is_own = any(isinstance(c, ast.Store) for c in loads) or any(
        isinstance(n, ast.arg) and n.arg == name for n in ast.walk(node)
    )
    return bool(loads) and not is_own


def _collecting(statement: ast.AST) -> str:
    """The name that a statement adds to, or appends to; "" for other statements."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=name)):
            return name
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name
    return ""


def _collectable(tensor: cst.BaseExpression, read: ast.expr, loop: ast.stmt, facts: Facts) -> cst.BaseExpression:
    """What is added up, or appended, in the place of a number."""
    if isinstance(facts.statement, ast.AugAssign):
        # A sum is a tensor of its own.
        return stalls.detached(tensor, read, facts)
    return stalls.kept(tensor, read, loop, facts)


def _is_collected(call: ast.Call, loop: ast.stmt, facts: Facts) -> bool:
    """Whether another reading is told, and mended, too."""
    if isinstance(call.func, ast.Attribute) and call.func.attr not in READERS:
        return False
    tensor = call.func.value if isinstance(call.func, ast.Attribute) else call.args[0] if call.args else None
    known = facts.accelerated(facts.model.value(tensor)) if tensor is not None else None
    if known is None or (isinstance(call.func, ast.Name) and not known[0].is_tensor):
        return False
    statement = facts.model.source.statement_of(call)
    return _read_after(call, statement, loop, facts) is not None and _is_wanted(statement, loop, facts)


def _read_after(read: ast.expr, statement: ast.AST, loop: ast.stmt, facts: Facts) -> Edit | None:
    """The line after the loop that turns into numbers what a statement in it collects."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if _is_computed_of(value, read):
            start = stalls.initialised_before(loop, name, facts)
            if (
                isinstance(start, ast.Constant)
                and isinstance(start.value, (int, float))
                and stalls.uses_in(loop, name) == 1
            ):
                return facts.inserted_after(
                    stalls.end_of(loop, facts),
                    f"{name} = {type(start.value).__name__ if _is_whole(read) else 'float'}({name})",
                )
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[ast.expr() as appended])
        ) if appended is read:
            start = stalls.initialised_before(loop, name, facts)
            if isinstance(start, ast.List) and not start.elts and stalls.uses_in(loop, name) == 1:
                element = _singular(name)
                convert = (
                    f"{element}.tolist()"
                    if isinstance(read, ast.Call)
                    and isinstance(read.func, ast.Attribute)
                    and read.func.attr == "tolist"
                    else f"{element}.item()"
                )
                return facts.inserted_after(stalls.end_of(loop, facts), f"{name} = [{convert} for {element} in {name}]")
    return None


def _is_computed_of(value: ast.expr, read: ast.expr) -> bool:
    """Whether what is added is the number, or computed of it and of other numbers by operators that tensors have as well."""
    match value:
        case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            parts = (left, right)
            return any(_is_computed_of(part, read) for part in parts) and all(
                _is_computed_of(part, read) or _is_number(part) for part in parts
            )
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_computed_of(operand, read)
    return value is read


def _is_number(node: ast.expr) -> bool:
    """What is a number most likely, and no array: a constant, a name, a length, another reading."""
    match node:
        case ast.Constant() | ast.Name() | ast.Attribute():
            return True
        case (
            ast.Call(func=ast.Name(id="len" | "float" | "int"))
            | ast.Call(func=ast.Attribute(attr="size" | "numel" | "item"))
        ):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
    return False


def _singular(name: str) -> str:
    """What to call one of `losses`, `errors`; `value` for one of what isn't a plural."""
    if name.endswith("_ls"):
        # Of a list.
        return "value"
    if name.endswith("sses"):
        return name.removesuffix("es")
    if name.endswith("ies"):
        return f"{name.removesuffix('ies')}y"
    return name.removesuffix("s") if name.endswith("s") and not name.endswith("ss") else "value"


def _is_whole(read: ast.expr) -> bool:
    """`int(t)`, or a count that starts from a whole number: `correct += (a == b).sum().item()`."""
    return ast.unparse(read).startswith("int(") or stalls.is_count(read)
