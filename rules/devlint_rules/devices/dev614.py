"""DEV614: a device context that is never entered, or that stands for a device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, own_nodes
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.arguments import taker, takers

if TYPE_CHECKING:
    from devlint.facts import Facts


class DeviceContextNotEntered(Rule):
    """A device context that is never entered, or that is used as a device.

    ## What it does
    Flags `torch.cuda.device(1)` as a statement; the same given to `.to`, `device=` and the like, directly or through a variable; and
    `x.get_device()` used as a device, unless it is under a test of `is_cuda` or of devices.

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    `torch.cuda.device` is a context manager. If no `with` enters it, it does nothing, and where torch expects a device, it raises
    `TypeError`. `get_device()` is -1 for a tensor on the host, which is no device either.

    ## Example
    ```python
    import torch

    device = torch.cuda.device(1)
    x = torch.ones(3).to(device)
    ```

    ## Use instead
    ```python
    import torch

    device = torch.device("cuda", 1)
    x = torch.ones(3).to(device)
    ```

    ## Fix safety
    Safe: a device with the same index, `torch.cuda.set_device` for the statement, and the tensor's own `.device`.

    ## References
    - [torch.cuda.device](https://docs.pytorch.org/docs/stable/generated/torch.cuda.device.html)
    - [torch.Tensor.get_device](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.get_device.html)
    """

    code = "DEV614"
    name = "device-context-not-entered"
    trigger = r"cuda\.device\s*\(|\bget_device\s*\(\s*\)"
    default = False
    effect = Effect(raises="TypeError", words="invalid combination of arguments", devices=2)
    fix = "S"

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        if not isinstance(call, ast.Call):
            return
        if facts.qualified(node.func) == "torch.cuda.device":
            yield from _context(node, call, facts)
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "get_device" and not call.args:
            yield from _index(node, call, facts)


def _context(node: cst.Call, call: ast.Call, facts: Facts) -> Iterator[Report]:
    index = facts.code_of(call.args[0]) if len(call.args) == 1 and not call.keywords else ""
    if isinstance(facts.statement, ast.Expr) and facts.statement.value is call:
        change = (
            Change("select it", "safe", edits=(facts.replaced(call.func, "torch.cuda.set_device"),)) if index else None
        )
        yield Report(
            node,
            f"`{facts.name_of(node)}` does nothing by itself: it is a context manager, for `with`",
            change=change if facts.code_of(call.func) == "torch.cuda.device" else None,
        )
        return
    taken = next(takers(call, facts), None)
    if taken is None or taken.name in _TAKES_CONTEXTS:
        return
    change = None
    if index and facts.code_of(call.func) == "torch.cuda.device":
        # A number; a string or a device names the type itself.
        numeric = _is_number(call.args[0], facts)
        code = f'torch.device("cuda", {index})' if numeric else f"torch.device({index})"
        change = Change("make it a device", "safe", edits=(facts.replaced(call, code),))
    yield Report(
        node,
        f"`{facts.name_of(node)}` is a context manager and no device: TypeError when it is used as one",
        "likely" if taken.likely else "certain",
        notes=(facts.note("it is taken for a device here", taken.call),) if taken.call.lineno != call.lineno else (),
        change=change,
    )


# They take whatever has an index.
_TAKES_CONTEXTS = frozenset({"torch.cuda.device"})


def _is_number(node: ast.expr, facts: Facts) -> bool:
    value = facts.model.value(node)
    if value.kind is Kind.CONSTANT:
        return isinstance(value.constant, int)
    return not (isinstance(node, (ast.Name, ast.Attribute)) and "device" in ast.unparse(node).lower())


def _index(node: cst.Call, call: ast.Call, facts: Facts) -> Iterator[Report]:
    assert isinstance(call.func, ast.Attribute)
    taken = taker(call, facts)
    tensor = facts.model.value(call.func.value)
    if taken is None or _is_guarded(call, facts) or tensor.place.off_host:
        return
    if taken.name.startswith("torch.cuda."):
        # What asks CUDA of a device wants a tensor that is there anyway.
        return
    if not tensor.is_tensor and tensor.kind is not Kind.UNKNOWN:
        return
    owner = facts.code_of(call.func.value)
    yield Report(
        node,
        f"`{facts.name_of(node)}` is -1 where `{owner}` is on cpu, which has no index",
        "likely",
        change=Change("use its device", "safe", edits=(facts.replaced(call, f"{owner}.device"),)),
        minor=facts.model.is_unused(call) or _is_for_cuda(call, facts),
    )


# What a project says that may run without CUDA.
_ANY_DEVICE = r"is_available\(\)|torch\.device\(|[\"']cpu[\"']|\.to\((?:\w{1,40}\.){0,3}device\b"


def _is_for_cuda(call: ast.Call, facts: Facts) -> bool:
    """Whether nothing runs without CUDA here: the same function moves something there, or the project never speaks of another device."""
    calls = [n for n in own_nodes(facts.model.enclosing_scope(call)) if isinstance(n, ast.Call)]
    moves = [n for n in calls if isinstance(n.func, ast.Attribute) and n.func.attr == "cuda" and not n.args]
    if any(not _is_guarded(n, facts) for n in moves):
        return True
    return not facts.model.texts_match(_ANY_DEVICE) and facts.model.project_uses(r"\.cuda\(")


def _is_guarded(call: ast.Call, facts: Facts) -> bool:
    """Whether a test of devices stands around."""
    child: ast.AST = call
    for parent in facts.model.ancestors(call):
        match parent:
            case ast.If(test=test) | ast.IfExp(test=test) if child is not test:
                if any(word in ast.unparse(test) for word in ("cuda", "device", "gpu")):
                    return True
        child = parent
    return False
