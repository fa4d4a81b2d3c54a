"""DEV201: one operation, two devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Kind, Mixing, Operand, Sense, Value, is_told, last_name, walk
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.mixing.apart import (
    MAKES_TENSORS,
    at_call,
    device_moved_to,
    device_of,
    dropped_move,
    is_left_open,
    is_likely,
    made_by_caller,
    moved,
    named_here,
    place_text,
    root_of,
    text_of,
    trails,
)
from devlint_rules.mixing.proof import is_proven
from devlint_rules.moves import factories

if TYPE_CHECKING:
    from devlint.facts import Facts


class CrossDeviceOp(Rule):
    """An operation whose tensors are on different devices.

    ## What it does
    Flags operators, functions of `torch` and `torch.nn.functional`, losses, tensor methods and `x[index] = y` that need
    their tensors on one device and surely get them from two, and shows how each tensor got to its device. A tensor without
    dimensions may stay on the host, as in PyTorch. Nothing is reported if both are on the host under the same condition.

    ## Why is this bad
    `RuntimeError: Expected all tensors to be on the same device`, at run time and only on a machine with a GPU.

    ## Example
    ```python
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    device = torch.device("cuda")
    model = nn.Linear(4, 3).to(device)
    loader = DataLoader(TensorDataset(torch.ones(8, 4), torch.zeros(8, dtype=torch.long)), batch_size=4)
    for images, labels in loader:
        logits = model(images.to(device))
        loss = nn.functional.cross_entropy(logits, labels)
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    device = torch.device("cuda")
    model = nn.Linear(4, 3).to(device)
    loader = DataLoader(TensorDataset(torch.ones(8, 4), torch.zeros(8, dtype=torch.long)), batch_size=4)
    for images, labels in loader:
        logits = model(images.to(device))
        loss = nn.functional.cross_entropy(logits, labels.to(device))
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: the tensor that is on the host is moved where it meets the other. That works, but it may be better
    to move it earlier: a tensor that is used at each step should be moved once. A tensor that is created right there is given `device=`
    instead. Not offered if only a caller knows where the other tensor is, if a caller makes the tensor on the host, if it is made there on
    only one of several paths, in tests, and if other tensors of the same function are on different devices too.

    ## References
    - [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html)
    - [pytorch/pytorch 122757](https://github.com/pytorch/pytorch/issues/122757)
    """

    code = "DEV201"
    name = "cross-device-op"
    trigger = MAKES_TENSORS
    event = "mixing"
    seen_as = ("mismatch",)
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device")
    fix = "D"

    def shape(self) -> m.BaseMatcherNode:
        # A property is read.
        return m.OneOf(m.BinaryOperation(), m.Comparison(), m.Call(), m.AugAssign(), m.Subscript(), m.Attribute())

    def judge(self, node: cst.CSTNode, facts: Facts) -> Iterator[Report]:
        mixing = facts.mixing(node)
        if mixing is None or mixing.sense is not Sense.OPERATION or mixing.kept:
            return
        if dropped_move(mixing.host, facts) or facts.model.is_unplaced(mixing):
            return
        host, other = text_of(mixing.host, facts), text_of(mixing.other, facts)
        when = ", on some paths," if mixing.sometimes else ""
        made_elsewhere = made_by_caller(mixing, facts)
        change = _moved_to_other(mixing, facts) if made_elsewhere is None else None
        yield Report(
            node,
            f"`{host}` is on {mixing.host.value.place} and `{other}` is{when} {place_text(mixing.other.value.place, mixing.other.node, facts)}: "
            f"{_operation(mixing)} needs both on one device{at_call(mixing, facts)}",
            "likely" if is_likely(mixing) else "certain",
            # What is made on the host there is DEV203's; of the rest, none was right in code that nobody here had seen.
            minor=mixing.weak or is_left_open(mixing),
            notes=trails(mixing, facts),
            hint=made_elsewhere or (None if change else f"move `{host}` to where `{other}` is, or create it there"),
            change=change,
        )


def _operation(mixing: Mixing) -> str:
    return f"`{mixing.name.removeprefix('torch.nn.functional.')}`" if mixing.name else "the operator"


def _is_unexplained(host: Operand, facts: Facts) -> bool:
    """Whether a model gave a tensor, or something of which nothing tells how it came to be on the host: it may be elsewhere."""
    if host.foreign or not isinstance(host.node, ast.Name):
        return False
    calls = [value for value in facts.model.assigned_values(host.node) if isinstance(value, ast.Call)]
    return any(not host.value.trail or _is_model(facts.model.value(call.func)) for call in calls)


def _is_made_of_tensors(host: Operand, facts: Facts) -> bool:
    """Whether a host tensor is made of a list of what calls gave, tensors most likely: `torch.stack` is wanted there."""
    nodes = [host.node, *(facts.model.assigned_values(host.node) if isinstance(host.node, ast.Name) else ())]
    made = [n for n in nodes if isinstance(n, ast.Call) and last_name(n.func) in ("tensor", "Tensor", "FloatTensor")]
    given = [argument for call in made for argument in call.args[:1]]
    given += [v for g in given if isinstance(g, ast.Name) for v in facts.model.assigned_values(g)]
    return any(isinstance(g, (ast.ListComp, ast.List)) and _holds_calls(g) for g in given)


def _holds_calls(display: ast.ListComp | ast.List) -> bool:
    elements = [display.elt] if isinstance(display, ast.ListComp) else display.elts
    return any(
        isinstance(e, ast.Call) and last_name(e.func) not in ("float", "int", "len", "item", "size") for e in elements
    )


def _is_model(called: Value) -> bool:
    """Whether what is called may be a model: no function, class or method that is known."""
    return all(
        option.is_module or (option.kind is Kind.UNKNOWN and not option.name) for _, option in called.alternatives()
    )


def _moved_to_other(mixing: Mixing, facts: Facts) -> Change | None:
    if any(step.of_module for step in mixing.host.value.trail) or _is_unexplained(mixing.host, facts):
        # It is the module that should have been moved.
        return None
    if is_likely(mixing) and mixing.by_itself and not is_told(mixing.other.value.place):
        # Where the other one is, only a caller knows: it may be on the host as well.
        return None
    if isinstance(mixing.host.node, ast.Name) and len(facts.model.assigned_values(mixing.host.node)) > 1 and any(
        step.message.startswith("created on cpu") for step in mixing.host.value.trail[:1]
    ):  # fmt: skip
        # On one path of several it is made on the host: there it wants the device, not wherever it is used.
        return None
    if _is_made_of_tensors(mixing.host, facts) or not is_proven(mixing, facts):
        return None
    device = device_of(mixing.other, facts)
    if device is None and isinstance(mixing.other.node, ast.Call) and not mixing.other.foreign:
        # What a module gives has no name here; the device that the module was moved to has one.
        device = device_moved_to(mixing.other, mixing.host.node, facts)
    if device is None or (isinstance(mixing.node, ast.AugAssign) and mixing.host.node.lineno == mixing.node.lineno
                          and mixing.host.node.col_offset == mixing.node.col_offset):  # fmt: skip
        return None
    device = named_here(device, mixing.host.node, facts)
    made = _factory_of(mixing.host, facts) or _made_above(mixing.host, device, facts)
    if made is not None:
        given = facts.with_argument(made, f"device={device}")
        return Change(f"create it there: `device={device}`", "display", edits=(given,))
    edit = moved(mixing.host, device, facts)
    return (
        Change(f"move `{text_of(mixing.host, facts)}`: `.to({device})`", "display", edits=(edit,))
        if edit is not None
        else None
    )


def _made_above(host: Operand, device: str, facts: Facts) -> ast.Call | None:
    """The factory's call that a name holds which nothing else reads, where the device has a name before it already."""
    if host.foreign or not isinstance(host.node, ast.Name):
        return None
    values = facts.model.assigned_values(host.node)
    scope = facts.model.enclosing_scope(host.node)
    reads = [n for n in walk(scope) if isinstance(n, ast.Name) and n.id == host.node.id]
    if len(values) != 1 or len(reads) != 2 or not facts.model.is_bound_before(root_of(device), values[0]):
        return None
    made = _takes_device(values[0], facts)
    # Other random numbers are drawn on another device.
    return None if made is None or facts.model.qualified(made.func) in factories.RANDOM else made


def _factory_of(host: Operand, facts: Facts) -> ast.Call | None:
    """The call that makes a host tensor right where it is used, where that takes a `device`; None otherwise."""
    return None if host.foreign else _takes_device(host.node, facts)


def _takes_device(made: ast.expr, facts: Facts) -> ast.Call | None:
    """An expression that is a factory's call without a `device`; None for others."""
    if not isinstance(made, ast.Call) or facts.model.qualified(made.func) not in factories.ALL:
        return None
    is_told = any(k.arg in (None, *factories.ON_HOST) for k in made.keywords)
    return None if is_told or any(isinstance(a, ast.Starred) for a in made.args) else made
