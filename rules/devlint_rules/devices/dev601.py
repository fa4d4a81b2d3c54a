"""DEV601: visible devices that are set after CUDA was used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from devlint.facts import Kind, Unit, blocks_of, calls_in, dotted, last_name, own_nodes, units_at
from devlint.knowledge.cuda import asking
from devlint.lazy import cst, m
from devlint.rule import Effect, Report, Rule
from devlint_rules.devices.environment import VARIABLES, access_by

if TYPE_CHECKING:
    from devlint.facts import Facts, FunctionModel, SourceModule


class LateVisibleDevices(Rule):
    """`CUDA_VISIBLE_DEVICES`, or its like, set after CUDA was used.

    ## What it does
    Flags `os.environ["CUDA_VISIBLE_DEVICES"] = ...`, and the same for other vendors' variables, where the process has
    used CUDA before: by a move or a factory, `torch.cuda.is_available()`, `torch.cuda.set_device` and others, in the
    same function, in what it calls, before the call that leads to it, or at the top level of a module that is imported. Setting it for a
    child process is left alone, and so is restoring a saved value. `"0"`, which is the GPU that is used anyway, is reported only if you
    select the rule by its code.

    ## Why is this bad
    The driver reads the variable once, when the process first asks it for anything, and `torch.cuda.is_available()`
    does ask. Setting it later changes nothing and raises no error: the program runs on GPU 0, whoever else uses that.

    ## Example
    ```python
    import os

    import torch

    x = torch.ones(3, device="cuda")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    y = torch.ones(3, device="cuda")
    ```

    ## Use instead
    ```python
    import os

    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import torch

    x = torch.ones(3)
    y = torch.ones(3)
    ```

    ## References
    - [pytorch/pytorch 40618](https://github.com/pytorch/pytorch/issues/40618)
    - [torch.cuda.is_available](https://docs.pytorch.org/docs/stable/generated/torch.cuda.is_available.html)
    """

    code = "DEV601"
    name = "late-visible-devices"
    trigger = r"[\"'](?:(?:CUDA|HIP|ROCR|ASCEND_RT|MUSA|MLU)_VISIBLE_DEVICES|ZE_AFFINITY_MASK)[\"']"
    effect = Effect(holds="y.is_cuda", in_fresh_process=True)

    def shape(self) -> m.BaseMatcherNode:
        return m.SimpleString()

    def judge(self, node: cst.SimpleString, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        access = access_by(found, facts) if found is not None else None
        if access is None or access.value is None or access.key.value not in VARIABLES:
            return
        if _is_put_back(access.value, facts) or _is_for_child(access.node, facts):
            return
        use = _use_before(facts.statement, facts, set())
        if use is None:
            return
        yield Report(
            node,
            f"`{access.key.value}` is set after `{ast.unparse(use.call.func)}` used the accelerator: it changes nothing in this process",
            "likely" if use.likely else "certain",
            notes=(facts.note("used here", use.call, use.path),),
            hint="set it before torch is imported, or choose by `torch.cuda.set_device` or a device with an index",
            minor=isinstance(access.value, ast.Constant) and str(access.value.value) == "0",
        )


class _Use(NamedTuple):
    call: ast.Call
    likely: bool
    # Of the file that it stands in, where that is another one.
    path: str = ""


_CHILDREN = frozenset(
    {"Popen", "Process", "run", "call", "check_call", "check_output", "system", "spawn", "execv", "execvp", "execve", "launch",
     "start_processes", "ProcessPoolExecutor", "Pool"}
)  # fmt: skip
_MAX_CHAIN = 3


def _use_before(statement: ast.stmt, facts: Facts, seen: set[ast.AST]) -> _Use | None:
    """A use of the accelerator that surely ran before a statement: earlier in its blocks, or before its function's call."""
    scope: ast.AST | None = None
    child: Any = statement
    for parent in facts.model.ancestors(statement):
        for block in blocks_of(parent) if isinstance(parent, ast.stmt) else [getattr(parent, "body", [])]:
            if isinstance(block, list) and isinstance(child, ast.stmt) and child in block:
                if isinstance(parent, ast.ClassDef):
                    continue
                for earlier in reversed(block[: block.index(child)]):
                    use = _use_in(earlier, facts, 2)
                    if use is not None:
                        return use
        if isinstance(parent, (ast.If, ast.While)) and child is not parent.test:
            use = _first_use(parent.test, facts)
            if use is not None:
                return use
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope = parent
            break
        child = parent
    if scope is None or scope in seen or len(seen) >= _MAX_CHAIN:
        return None
    seen.add(scope)
    return _use_before_calls(statement, facts, seen)


def _use_before_calls(statement: ast.stmt, facts: Facts, seen: set[ast.AST]) -> _Use | None:
    unit = next(iter(units_at(facts.model.source, [statement.lineno])), None)
    if unit is None or unit.scope is None:
        return None
    uses = [_use_before(caller.statement, facts, set(seen)) for caller in _calls_of(unit.scope, facts)]
    # Every call that can be seen comes too late.
    found = [u for u in uses if u is not None]
    return found[0]._replace(likely=True) if found and len(found) == len(uses) else None


def _calls_of(scope: FunctionModel, facts: Facts) -> list[Unit]:
    """The units that call a function; one that only names it may hand it to a process."""
    return [
        unit
        for unit in facts.model.calling_units(scope)
        if any(last_name(call.func) == scope.name for call in calls_in(unit.node))
    ]


def _use_in(statement: ast.stmt, facts: Facts, depth: int) -> _Use | None:
    """The first call in a statement that uses the accelerator, the functions of this file that it calls looked into."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return None
    if _leaves(statement):
        return None
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        modules = facts.model.imported_modules(statement)
        return next((use for module in modules if (use := _use_by_import(module)) is not None), None)
    use = _first_use(statement, facts)
    if use is not None:
        return use._replace(likely=use.likely or _is_conditional(use.call, statement))
    for call in _calls_in(statement):
        callee = facts.model.value(call.func)
        function = callee.function
        if callee.kind is Kind.FUNCTION and function is not None and depth and function.source is facts.model.source:
            for inner in function.node.body:
                use = _use_in(inner, facts, depth - 1)
                if use is not None:
                    return use._replace(likely=True)
    return None


def _first_use(node: ast.stmt | ast.expr, facts: Facts) -> _Use | None:
    """The first call in a piece of code that uses the accelerator itself."""
    for call in _calls_in(node):
        facts.model.ensure_around(call)
        likely = _uses(call, facts)
        if likely is not None:
            return _Use(call, likely)
    return None


def _use_by_import(module: SourceModule) -> _Use | None:
    """A use of the accelerator at the top level of another module, which says so by its names alone."""
    for statement in module.tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)):
            for call in _calls_in(statement):
                if _says_use(call, module):
                    return _Use(call, True, module.path)
    return None


def _says_use(call: ast.Call, module: SourceModule) -> bool:
    name = dotted(call.func) or ""
    if "torch" not in module.bindings:
        return False
    if name.startswith("torch."):
        devices = [k.value for k in call.keywords if k.arg == "device"] if name.count(".") == 1 else []
        return (name.startswith("torch.cuda.") and name.removeprefix("torch.cuda.") in asking()) or any(
            isinstance(d, ast.Constant) and str(d.value).startswith("cuda") for d in devices
        )
    match call:
        case ast.Call(func=ast.Attribute(attr="cuda"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value=str() as device)]):
            return device.startswith("cuda")
    return False


def _calls_in(node: ast.stmt | ast.expr) -> list[ast.Call]:
    calls = [n for n in (node, *own_nodes(node)) if isinstance(n, ast.Call)]
    return sorted(calls, key=lambda n: (n.lineno, n.col_offset))


def _leaves(statement: ast.stmt) -> bool:
    """`if ...: use(); return`: what follows runs where it wasn't used."""
    return isinstance(statement, ast.If) and isinstance(
        statement.body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break)
    )


def _is_conditional(call: ast.Call, statement: ast.stmt) -> bool:
    blocks = blocks_of(statement)
    return any(any(n is call for n in ast.walk(inner)) for block in blocks for inner in block)


def _uses(call: ast.Call, facts: Facts) -> bool | None:
    """Whether a call only likely uses an accelerator; None where it doesn't."""
    module, _, function = (facts.model.value(call.func).name or "").rpartition(".")
    if module in ("torch.cuda", "torch.xpu"):
        return False if function in asking() else None
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "cuda"
        and facts.model.value(call.func.value).kind in _MOVED
    ):
        return False
    value = facts.model.value(call)
    if value.kind in _MOVED and value.place.off_host and not value.place.name.startswith(("mps", "meta")):
        moved_by = ast.unparse(call.func).rsplit(".", 1)[-1]
        if moved_by == "to" or any(k.arg == "device" for k in call.keywords):
            return value.likely
    return None


_MOVED = (Kind.TENSOR, Kind.PARAMETER, Kind.MODULE, Kind.WRAPPER)


def _is_put_back(value: ast.expr, facts: Facts) -> bool:
    """What was saved from the environment before is put back."""
    names = [n for n in ast.walk(value) if isinstance(n, ast.Name)]
    sources = [value, *(v for n in names for v in facts.model.assigned_values(n))]
    return any("environ" in ast.unparse(s) or "getenv" in ast.unparse(s) for s in sources)


def _is_for_child(node: ast.expr, facts: Facts) -> bool:
    """A process is started after it, or it is set for the length of a block."""
    scope = facts.model.enclosing_scope(node)
    for later in own_nodes(scope):
        if isinstance(later, ast.Yield):
            return True
        if not isinstance(later, ast.Call) or later.lineno <= node.lineno:
            continue
        if last_name(later.func) in _CHILDREN:
            return True
    return False
