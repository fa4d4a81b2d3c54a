"""DEV603: an accelerator that is taken for granted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, blocks_of, is_device_name, kept_on_node
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.arguments import has_no_parameters, takers

if TYPE_CHECKING:
    from devlint.facts import Facts


class HardCodedDevice(Rule):
    """An accelerator used without asking whether there is one.

    ## What it does
    Flags `.cuda()`, and `"cuda"`, `"xpu"`, `"mps"` where torch takes a device, if the code doesn't check first whether it is
    available: by a condition, an early exit, an `assert`, or a mark on the test. Also flags such defaults of parameters that
    are called a device, and `torch.cuda.synchronize()`, `current_device()` and others that need CUDA to be there. Programs that need GPUs
    anyway, because they use NCCL, are left alone.

    This rule is opt-in, because much code is meant for one machine.

    ## Why is this bad
    On a machine without that accelerator, the program stops there: `Torch not compiled with CUDA enabled`, `No CUDA
    GPUs are available`. On one with another accelerator it could run, and doesn't.

    ## Example
    ```python
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weight = torch.ones(3, device=device)
    x = torch.ones(3).cuda()
    ```

    ## Use instead
    ```python
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weight = torch.ones(3, device=device)
    x = torch.ones(3).to(device)
    ```

    ## Fix safety
    Unsafe: the variable `device` is used, if there is one in scope. The program then also runs on machines where it failed before.

    ## References
    - [torch.accelerator](https://docs.pytorch.org/docs/stable/accelerator.html)
    - [Device-agnostic code](https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code)
    """

    code = "DEV603"
    name = "hard-coded-device"
    severity = "warning"
    trigger = r"\.\s*(?:cuda|xpu|synchronize|current_device|current_stream|Stream|set_device)\s*\(|[\"'](?:cuda|xpu|mps)(?::\d+)?[\"']"
    default = False
    # A wheel without CUDA, one without a driver to speak to, and one without a device differ in what they say.
    effect = Effect(
        raises="AssertionError|RuntimeError",
        words="Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available",
        without_accelerator=True,
    )
    fix = "U"

    def shape(self) -> m.BaseMatcherNode:
        moves = m.Call(func=m.Attribute(attr=m.OneOf(*(m.Name(n) for n in ("cuda", "xpu", *_OF_BACKENDS)))))
        return moves | m.SimpleString(m.MatchRegex(r"[\"'](?:cuda|xpu|mps)(?::\d+)?[\"']"))

    def judge(self, node: cst.Call | cst.SimpleString, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        if found is None or not _is_taken(found, facts) or _is_cared_for(found, facts):
            return
        name = _backend(node)
        variable = facts.model.is_bound_before("device", found)
        yield Report(
            node,
            f"`{facts.name_of(node)}` fails on a machine without `{name}`: nothing asks whether it is there",
            "likely",
            hint=None if variable else _hint(name, facts),
            change=_by_variable(node) if variable and not _is_of_backend(node) else None,
        )


# Functions of `torch.cuda` and `torch.xpu` that fail without a device; those that do nothing then are left out.
_OF_BACKENDS = ("synchronize", "current_device", "current_stream", "Stream", "set_device")


def _is_of_backend(node: cst.Call | cst.SimpleString) -> bool:
    return isinstance(node, cst.Call) and cst.ensure_type(node.func, cst.Attribute).attr.value in _OF_BACKENDS


def _backend(node: cst.Call | cst.SimpleString) -> str:
    if _is_of_backend(node):
        owner = cst.ensure_type(cst.ensure_type(node, cst.Call).func, cst.Attribute).value
        return owner.attr.value if isinstance(owner, cst.Attribute) else "cuda"
    if isinstance(node, cst.Call):
        return cst.ensure_type(node.func, cst.Attribute).attr.value
    return str(node.evaluated_value).split(":")[0]


def _hint(name: str, facts: Facts) -> str:
    if facts.surroundings.prefers_accelerator:
        return 'choose once: `device = torch.accelerator.current_accelerator() or torch.device("cpu")`'
    module = "torch.backends.mps" if name == "mps" else f"torch.{name}"
    return f'choose once: `device = torch.device("{name}" if {module}.is_available() else "cpu")`'


def _is_taken(found: ast.expr, facts: Facts) -> bool:
    """Whether it is a move, or a string that torch takes for a device and that isn't a parameter's default."""
    if isinstance(found, ast.Call):
        assert isinstance(found.func, ast.Attribute)
        if found.func.attr in _OF_BACKENDS:
            return (facts.model.qualified(found.func) or "").startswith(("torch.cuda.", "torch.xpu."))
        owner = facts.model.value(found.func.value)
        if has_no_parameters(owner):
            return False
        return owner.kind in (Kind.TENSOR, Kind.PARAMETER, Kind.MODULE, Kind.WRAPPER, Kind.BATCH)
    parents = list(facts.model.ancestors(found))
    # What is compared is asked about.
    if any(isinstance(parent, ast.Compare) for parent in parents):
        return False
    if any(isinstance(parent, ast.arguments) for parent in parents):
        return _is_default_device(found, parents[0])
    return any(t.name not in _ASKS_FOR_NOTHING and not _moves_nothing(t.call, facts) for t in takers(found, facts))


def _is_default_device(found: ast.expr, arguments: ast.AST) -> bool:
    """`device="cuda"` of a parameter, right as it stands."""
    if not isinstance(arguments, ast.arguments):
        return False
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return any(default is found and is_device_name(ast.Name(argument.arg)) for argument, default in pairs)


# Naming an accelerator here only chooses what happens on it.
_ASKS_FOR_NOTHING = frozenset({"torch.autocast", "torch.amp.autocast", "torch.get_device_module"})


def _moves_nothing(call: ast.Call, facts: Facts) -> bool:
    return isinstance(call.func, ast.Attribute) and has_no_parameters(facts.model.value(call.func.value))


# A condition that speaks of devices, however it does.
_ASKS = regex(r"is_available|device_count|cuda|gpu|xpu|mps|device|accelerator|backend", re.IGNORECASE)
_FOR_GPUS = regex(r"cuda|gpu|accelerator|xpu|mps|multi_device|largeCUDA", re.IGNORECASE)


def _is_cared_for(found: ast.expr, facts: Facts) -> bool:
    """Whether something around or before it cares for machines without the accelerator."""
    if "nccl" in facts.text.text:
        return True
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if child is not test:
                if _ASKS.search(ast.unparse(test)):
                    return True
            case ast.BoolOp(values=values) if any(v is not child and _ASKS.search(ast.unparse(v)) for v in values):
                return True
            case ast.Try(body=body) if child in body:
                return True
            case (
                ast.FunctionDef(decorator_list=marks)
                | ast.AsyncFunctionDef(decorator_list=marks)
                | ast.ClassDef(decorator_list=marks)
            ):
                if any(_FOR_GPUS.search(ast.unparse(mark)) for mark in marks) or _FOR_GPUS.search(parent.name):
                    return True
        if _is_ruled_out_before(parent, child):
            return True
        child = parent
    return _is_marked(facts.model.source.tree)


def _is_ruled_out_before(parent: ast.AST, child: ast.AST) -> bool:
    """An assertion or an early exit that asks for the accelerator stands before, in a block around."""
    line = getattr(child, "lineno", 0)
    return any(guard.end_lineno < line <= last for guard, last in _guards(parent) if guard.end_lineno is not None)


@kept_on_node
def _guards(parent: ast.AST) -> list[tuple[ast.stmt, int]]:
    """The first such statement of each block of a statement, with the last line of that block."""
    blocks = blocks_of(parent) if isinstance(parent, ast.stmt) else [getattr(parent, "body", [])]
    found = []
    for block in blocks:
        guard = next(filter(_rules_out, block), None) if isinstance(block, list) else None
        if guard is not None:
            found.append((guard, block[-1].end_lineno or block[-1].lineno))
    return found


def _rules_out(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assert(test=test):
            return _ASKS.search(ast.unparse(test)) is not None
        case ast.If(test=test, body=[*_, last]):
            return _ASKS.search(ast.unparse(test)) is not None and _ends(last)
        case ast.Expr(value=ast.Call(func=func)):
            return "skip" in ast.unparse(func).lower()
    return False


def _ends(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
        return True
    return isinstance(statement, ast.Expr) and bool(re.search(r"exit|skip|fail", ast.unparse(statement)))


@kept_on_node
def _is_marked(tree: ast.Module) -> bool:
    """`pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), ...)`."""
    return any(
        isinstance(s, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in s.targets)
        and _FOR_GPUS.search(ast.unparse(s.value))
        for s in tree.body
    )


def _by_variable(node: cst.Call | cst.SimpleString) -> Change:
    title = "use the variable `device`"
    if isinstance(node, cst.SimpleString):
        return Change(title, "unsafe", ((node, cst.Name("device")),))
    func = cst.ensure_type(node.func, cst.Attribute)
    kept = [a for a in node.args if a.keyword is not None and a.keyword.value != "device"]
    moved = node.with_changes(func=func.with_changes(attr=cst.Name("to")), args=[cst.Arg(cst.Name("device")), *kept])
    return Change(title, "unsafe", ((node, moved),))
