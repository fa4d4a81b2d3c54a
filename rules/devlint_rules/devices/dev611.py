"""DEV611: a legacy constructor asked for another device than its type's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import HOST, UNKNOWN, Kind, calls_in, place_of_device
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.dev604 import DTYPES

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit


class LegacyConstructorDevice(Rule):
    """A legacy constructor given another device than that of its type.

    ## What it does
    Flags `torch.LongTensor(..., device=...)`, `torch.Tensor(..., device=...)` and the other legacy constructors if the device
    is an accelerator, or that of another tensor. If the device can only be the host, nothing is reported.

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    Each of these types belongs to the host, and takes no other device: `RuntimeError: legacy constructor expects
    device type: cpu but device type: cuda was passed`. With the tensors on the host it works, and so it passes tests there.

    ## Example
    ```python
    import torch

    x = torch.ones(2, 3, device="cuda")
    lengths = torch.LongTensor([x.size(1)], device=x.device)
    ```

    ## Use instead
    ```python
    import torch

    x = torch.ones(2, 3, device="cuda")
    lengths = torch.tensor([x.size(1)], dtype=torch.long, device=x.device)
    ```

    ## Fix safety
    Safe, and offered if the new form means exactly the same: for a literal list or tuple, and for sizes that are numbers.

    ## References
    - [torch.tensor](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html)
    - [torch.Tensor](https://docs.pytorch.org/docs/stable/tensors.html)
    """

    code = "DEV611"
    name = "legacy-constructor-device"
    trigger = r"\b(?:Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)?Tensor\s*\("
    needs = (r"\bdevice\s*=",)
    default = False
    effect = Effect(raises="RuntimeError", words="legacy constructor expects device type")
    fix = "S"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return any(k.arg == "device" for call in calls_in(unit.node) for k in call.keywords)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        if not isinstance(call, ast.Call):
            return
        kind = (facts.qualified(node.func) or "").removeprefix("torch.")
        given = next((k.value for k in call.keywords if k.arg == "device"), None)
        if given is None or kind not in ("Tensor", *DTYPES):
            return
        value = facts.model.value(given)
        place = place_of_device(value, given)
        if place is None and isinstance(given, ast.Attribute) and given.attr == "device":
            # Where something is of which nothing is known.
            place = (UNKNOWN.place, True)
        if place is None or place[0] == HOST:
            return
        literal = value.kind is Kind.CONSTANT
        yield Report(
            node,
            f"`{facts.name_of(node.func)}` makes tensors on cpu alone, and raises RuntimeError for `device={facts.code_of(given)}`"
            f"{'' if literal else ' unless that is cpu'}",
            "certain" if literal and not place[1] else "likely",
            change=_modern(call, kind, facts),
        )


def _modern(call: ast.Call, kind: str, facts: Facts) -> Change | None:
    """`torch.tensor(data, dtype=..., device=...)`, or `torch.empty(sizes, ...)`."""
    func = facts.code_of(call.func)
    if not func.endswith(f"torch.{kind}") or any(k.arg != "device" for k in call.keywords):
        return None
    if len(call.args) == 1 and isinstance(call.args[0], (ast.List, ast.Tuple, ast.ListComp)):
        factory = "tensor"
    elif call.args and all(isinstance(a, ast.Constant) and isinstance(a.value, int) for a in call.args):
        factory = "empty"
    else:
        return None
    dtype = DTYPES.get(kind, "")
    # `torch.Tensor` is of the default type, which `torch.tensor` takes for fractions only.
    typed = f"dtype=torch.{dtype}" if dtype else "dtype=torch.get_default_dtype()" if factory == "tensor" else ""
    arguments = [*(facts.code_of(a) for a in call.args), typed, f"device={facts.code_of(call.keywords[0].value)}"]
    code = f"{func.removesuffix(kind)}{factory}({', '.join(filter(None, arguments))})"
    return Change(f"use `torch.{factory}`", "safe", edits=(facts.replaced(call, code),))
