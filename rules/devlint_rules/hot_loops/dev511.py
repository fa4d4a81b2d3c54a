"""DEV511: making tensors on an accelerator from what the host has, at each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import last_name, own_nodes
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.beside import is_never_read, reads_beside
from devlint_rules.hot_loops import by_role
from devlint_rules.hot_loops.other_waits import waits_beside

if TYPE_CHECKING:
    import libcst as cst

    from devlint.facts import Facts, HotStall


class HostMadeInHotCode(Rule):
    """A tensor made on an accelerator from the host's data in code that runs at each step.

    ## What it does
    Flags `torch.tensor(list, device=dev)`, `torch.tensor(number, device=dev)`, `x.new_tensor(...)`, `torch.as_tensor` of
    an array, an index that is a Python list, and what is made on the host and then moved, in code that is hot: in
    `forward`, in an optimizer's or a sampler's step and in what those call, and in loops over steps. Left alone: what is
    made once and kept, under a guard for a cache, on an error path, and `x[mask] = number`, which is filled in on the
    device.

    Selected by its code it tells of all that. In preview it is on as well, and tells of what each step comes by: not of what
    stands where an option leads, runs once a request, or follows right on another wait.

    ## Why is this bad
    The data lies in ordinary memory, which an accelerator can't read by itself. CUDA copies it into a buffer of its own
    first, and the host waits until that copy is through: for a single number as for a long list. In front of the copy
    stands all that was queued on the stream. A tensor made of numbers that are tensors on an accelerator (`torch.tensor([a,
    b])`) waits once more for each of them.

    ## Example
    ```python
    import torch
    from torch import nn


    class Scaled(nn.Module):
        def forward(self, x):
            return x * torch.tensor(0.5, device=x.device)


    device = torch.device("cuda")
    model = Scaled().to(device)
    x = torch.ones(4, device=device)
    for _ in range(4):
        x = model(x)
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Scaled(nn.Module):
        def forward(self, x):
            return x * torch.full((), 0.5, device=x.device)


    device = torch.device("cuda")
    model = Scaled().to(device)
    x = torch.ones(4, device=device)
    for _ in range(4):
        x = model(x)
    ```

    ## Fix safety
    Safe for constants and ranges: they are made on the device by a kernel, with the same type and shape. A
    suggestion, which `--fix` leaves to you, where the type of an integer has to be said for that, and
    where the function waits for something else. No fix for lists of other things: make them once and keep them, or put them
    into pinned memory and copy with `non_blocking=True`. None either where the statement reads something else, or nothing reads what
    it makes.

    ## References
    - [A guide on good usage of non_blocking and pin_memory](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    """

    code = "DEV511"
    name = "host-made-in-hot-code"
    trigger = r"\b(?:tensor|as_tensor|asarray|scalar_tensor|new_tensor|from_numpy|to|cuda|npu|xpu|hpu|copy_)\s*\(|\w\[[^\]\n]{0,200}(?:\[|list|ids|ind)"
    severity = "warning"
    default = False
    effect = Effect(syncs=4, words="tensor")
    seen_as = ("sync", "transfer")
    fix = "S/D"
    senses = frozenset({"made"})

    def judge_stall(self, node: cst.CSTNode, stall: HotStall, facts: Facts) -> Iterator[Report]:
        text, asked = facts.shown(stall.node), facts.shown(stall.asked)
        if stall.name == "index":
            message = f"the list `{asked}` that indexes `{text}` is copied to the accelerator, and the host waits, {stall.often}"
            hint = "keep the index as a tensor on the device, or take slices"
        else:
            message = (
                f"`{text}` copies from the host's memory to the accelerator, and the host waits for that, {stall.often}"
            )
            hint = (
                "make it on the device, make it once and keep it, or copy from pinned memory with `non_blocking=True`"
            )
        yield by_role.report(node, stall, facts, message, hint, _made_there(stall, facts))


def _made_there(stall: HotStall, facts: Facts) -> Change | None:
    """The same constant, or range, made by a kernel of the device."""
    call = stall.node
    if not isinstance(call, ast.Call) or stall.name not in ("torch.tensor", "torch.as_tensor") or len(call.args) != 1:
        return None
    module = call.func.value if isinstance(call.func, ast.Attribute) else None
    if module is None:
        return None
    statement = facts.model.source.statement_of(call)
    if is_never_read(statement, facts) or reads_beside(call, statement) or _copies_beside(call, facts):
        return None
    torch = facts.code_of(module)
    match call.args[0]:
        case (
            ast.Constant(value=bool() | int() | float()) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()) as number
        ):
            made = _filled(torch, "()", number, call, facts)
        case ast.List(elts=[first, *others]) if _is_number(first) and all(
            ast.dump(o) == ast.dump(first) for o in others
        ):
            made = _filled(torch, str(1 + len(others)), first, call, facts)
        case ast.Call(func=ast.Name(id="list"), args=[ast.Call(func=ast.Name(id="range"), args=bounds)]) if bounds:
            made = f"arange({', '.join(facts.code_of(b) for b in bounds)}"
        case ast.Call(func=ast.Name(id="range"), args=bounds) if bounds:
            made = f"arange({', '.join(facts.code_of(b) for b in bounds)}"
        case _:
            return None
    # The rest of the call stays as it is laid out.
    name, _, sizes = made.partition("(")
    edits = (facts.replaced(call.func, f"{torch}.{name}"), facts.replaced(call.args[0], sizes))
    # A type that nobody said makes a short call a long one, and beside another wait there is little to gain: the reader
    # may rather keep the tensor.
    is_minor = "dtype=" in sizes or waits_beside(call, facts)
    return Change("made on the device", "display" if is_minor else "safe", edits=edits)


def _copies_beside(call: ast.Call, facts: Facts) -> bool:
    """Whether the function copies data that only the host has as well, which stays: it waits there."""
    return any(
        isinstance(n, ast.Call)
        and n is not call
        and last_name(n.func) in ("tensor", "as_tensor", "new_tensor")
        and any(k.arg == "device" for k in n.keywords)
        and not (n.args and all(isinstance(part, _WRITTEN) for part in ast.walk(n.args[0])))
        for n in own_nodes(facts.model.enclosing_scope(call))
    )


# What is written in the code, and may be made by a kernel.
_WRITTEN = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)


# What `tensor` makes of numbers that aren't floats.
_TYPES = {bool: "bool", int: "long"}


def _filled(torch: str, shape: str, number: ast.expr, call: ast.Call, facts: Facts) -> str:
    """The beginning of a call that makes a tensor of one number: `zeros(2`, `full((2,), 0.5`."""
    said = any(k.arg == "dtype" for k in call.keywords)
    may_say = any(k.arg is None for k in call.keywords)
    if isinstance(number, ast.Constant) and number.value in (0, 1) and (said or not may_say):
        # `zeros` and `ones` make floats of what `tensor` makes integers of, where nobody says the type.
        dtype = "" if said or isinstance(number.value, float) else f", dtype={torch}.{_TYPES[type(number.value)]}"
        return f"{'ones' if number.value else 'zeros'}({shape}{dtype}"
    return f"full({shape if shape == '()' else f'({shape},)'}, {facts.code_of(number)}"


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float))
