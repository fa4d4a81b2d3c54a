"""DEV403: one device for all replicas."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.wrappers.unwrapping import wrap_notes

if TYPE_CHECKING:
    from devlint.facts import Facts, Pinned


class DevicePinnedReplica(Rule):
    """A device with a fixed number (`cuda:0`) in code that runs on every GPU.

    ## What it does
    Flags devices with a number (`"cuda:0"`, `.cuda(0)`, an attribute that holds one) in the `forward` of a module that is
    wrapped in `DataParallel`, in the methods that it calls, and in the modules that it is made of. `x.device` and devices
    without a number (`.cuda()`, `"cuda"`: each replica's own) are left alone. Where the class stands in another file,
    the finding is at the wrap, and a note leads to the line.

    ## Why is this bad
    `DataParallel` runs a replica of the module on each GPU, with the parameters and its part of the batch there. What
    `forward` sends to `cuda:0` is on `cuda:0` in all of them: `RuntimeError: Caught RuntimeError in replica 1 on device 1`.

    ## Example
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            noise = torch.rand(2, device="cuda:0")
            return self.fc(x) + noise


    model = nn.DataParallel(Net().cuda())
    out = model(torch.zeros(4, 2).cuda())
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            noise = torch.rand(2, device=x.device)
            return self.fc(x) + noise


    model = nn.DataParallel(Net().cuda())
    out = model(torch.zeros(4, 2).cuda())
    ```

    ## Fix safety
    Unsafe: the first argument's device is taken, which must be a tensor that the wrapper scatters.

    ## References
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    """

    code = "DEV403"
    name = "device-pinned-replica"
    trigger = r"DataParallel\s*\(|DataParallel\s+as\b"
    event = "pinned-device"
    effect = Effect(raises="RuntimeError", words="in replica 1 on device 1", devices=2)
    fix = "U"

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        pinned = facts.model.pinned.get(found) if isinstance(found, ast.Call) else None
        if pinned is None or _is_sent_on(pinned):
            return
        device = ast.unparse(pinned.argument)
        says = f"`{device}`" if device.strip("'\"") == pinned.device else f"`{device}` is {pinned.device}, which"
        if pinned.call is found:
            yield Report(
                node,
                f"{says} is one device for all replicas of the DataParallel around this module: RuntimeError in replica 1",
                "likely" if isinstance(pinned.argument, (ast.Name, ast.Attribute)) else "certain",
                notes=wrap_notes(pinned.wrapper, facts),
                change=_follows_input(node, pinned),
            )
            return
        at = facts.note("the device is named here", pinned.call, pinned.function.source.path)
        yield Report(
            node,
            f"each replica runs `{pinned.function.name}`, where {says} is one device for all of them: RuntimeError in replica 1",
            "likely",
            notes=(at,),
        )


# Methods whose result is where the replica is, or on the host.
_SENT_ON = frozenset({"to", "type_as", "cpu", "item", "tolist"})


def _is_sent_on(pinned: Pinned) -> bool:
    """`torch.zeros(2, device="cuda:0").to(x)`: it goes on to the replica's device, or to the host, at once."""
    child: ast.AST = pinned.call
    for parent in pinned.function.source.ancestors(pinned.call):
        match parent:
            case ast.Attribute(attr=name) if name in _SENT_ON:
                return True
            case ast.Attribute():
                pass
            case ast.Call(func=func) if func is child:
                pass
            case _:
                return False
        child = parent
    return False


def _follows_input(node: cst.Call, pinned: Pinned) -> Change | None:
    """The device of the function's first argument in the device's place."""
    parameters = pinned.function.parameters[1:]
    receiver = pinned.call.func.value if isinstance(pinned.call.func, ast.Attribute) else None
    if not parameters or (isinstance(receiver, ast.Name) and receiver.id == parameters[0].arg):
        return None
    device = cst.Attribute(cst.Name(parameters[0].arg), cst.Name("device"))
    given = next((a for a in node.args if a.keyword is not None and a.keyword.value == "device"), None) or node.args[0]
    changed = node.deep_replace(given, given.with_changes(value=device))
    assert isinstance(changed, cst.Call)
    if isinstance(changed.func, cst.Attribute) and changed.func.attr.value == "cuda":
        changed = changed.with_changes(func=changed.func.with_changes(attr=cst.Name("to")))
    return Change("use the device of the input", "unsafe", ((node, changed),))
