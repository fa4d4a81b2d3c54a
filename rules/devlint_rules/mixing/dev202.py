"""DEV202: a module called with an input that isn't where its parameters are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import Mixing, Sense
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.mixing.apart import (
    MAKES_TENSORS,
    at_call,
    device_moved_to,
    dropped_move,
    is_likely,
    made_by_caller,
    moved,
    place_text,
    text_of,
    trails,
)

if TYPE_CHECKING:
    from devlint.facts import Facts


class CrossDeviceCall(Rule):
    """A module called with an input on another device.

    ## What it does
    Flags calls of a module whose parameters are on one device with an input that is on another: the batch that was
    never moved, or the model that wasn't, or a metric of torchmetrics that was left on the host. Only modules count that certainly
    have parameters and don't move their inputs themselves. `DataParallel` and its like, and objects that a framework prepared, are left alone.

    ## Why is this bad
    `RuntimeError: Expected all tensors to be on the same device`, at the first step, on a machine with a GPU.

    ## Example
    ```python
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = DataLoader(torch.ones(8, 4), batch_size=4)
    for batch in loader:
        output = model(batch)
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = DataLoader(torch.ones(8, 4), batch_size=4)
    for batch in loader:
        output = model(batch.to(device))
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: the input is moved in the call, to the device that the module was moved to. If you use
    it elsewhere as well, move it once before the call instead.

    ## References
    - [torch.nn.Module.to](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to)
    - [mrdbourke/pytorch-deep-learning 909](https://github.com/mrdbourke/pytorch-deep-learning/issues/909)
    """

    code = "DEV202"
    name = "cross-device-call"
    trigger = MAKES_TENSORS
    event = "mixing"
    seen_as = ("mismatch",)
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device")
    fix = "D"

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        mixing = facts.mixing(node)
        if mixing is None or mixing.sense is not Sense.CALL or mixing.kept or dropped_move(mixing.host, facts):
            return
        module, given = mixing.other, mixing.host
        if not module.value.is_module:
            module, given = given, module
        if not module.value.is_module:
            return
        subject = text_of(module, facts)
        yield Report(
            node,
            f"`{text_of(given, facts)}` is {place_text(given.value.place, given.node, facts)}, but `{subject}`, which computes from it, "
            f"is {place_text(module.value.place, module.node, facts)}{at_call(mixing, facts)}",
            "likely" if is_likely(mixing) else "certain",
            minor=mixing.weak or _may_move_what_it_is_given(module.node, facts),
            notes=trails(mixing, facts),
            hint=made_by_caller(mixing, facts) if given is mixing.host else f"move `{subject}` once, after it is made",
            change=_moved_to_module(mixing, facts) if given is mixing.host else None,
        )


# A module of the project that moves what it is given: `def forward(self, x): x = x.to(self.device)`.
_MOVES_INPUTS = r"def forward\((?:[^()]|\([^()]*\)){0,400}\)[^:\n]{0,80}:\n(?:[^\n]*\n){0,20}?[ \t]*\w+(?:, ?\w+)* = \w+\.(?:to\((?!torch\.|dtype)|cuda\()"


def _may_move_what_it_is_given(module: ast.expr, facts: Facts) -> bool:
    """Whether nobody knows of which class a module is, in a project that has modules which move their inputs."""
    known = [v for _, v in facts.model.value(module).alternatives() if v.is_module]
    if not known or any(v.cls is not None or v.name not in ("", "torch.nn.Module") for v in known):
        return False
    return facts.model.texts_match(_MOVES_INPUTS)


def _moved_to_module(mixing: Mixing, facts: Facts) -> Change | None:
    device = device_moved_to(mixing.other, mixing.host.node, facts)
    edit = moved(mixing.host, device, facts) if device else None
    return (
        Change(f"move `{text_of(mixing.host, facts)}`: `.to({device})`", "display", edits=(edit,))
        if edit is not None
        else None
    )
