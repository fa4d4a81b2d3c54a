"""ACME001: memory pinned for a tensor that isn't on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts


class PinnedOnAccelerator(Rule):
    """Memory pinned for a tensor that isn't on the host.

    ## What it does
    Flags `.pin_memory()` on a tensor that is on an accelerator.

    ## Why is this bad
    Only memory of the host can be pinned: RuntimeError.

    ## Example
    ```python
    import torch

    x = torch.ones(3, device="cuda")
    x = x.pin_memory()
    ```

    ## Use instead
    ```python
    import torch

    x = torch.ones(3).pin_memory()
    x = x.to("cuda", non_blocking=True)
    ```

    ## Fix safety
    Safe: the call only raises.

    ## References
    - [torch.Tensor.pin_memory](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.pin_memory.html)
    """

    code = "ACME001"
    name = "pinned-on-accelerator"
    trigger = r"\.\s*pin_memory\s*\("
    fix = "S"
    effect = Effect(raises="RuntimeError", words="pin")

    def shape(self) -> m.BaseMatcherNode:
        """A call of the method."""
        return m.Call(func=m.Attribute(attr=m.Name("pin_memory")))

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        """A report where its owner is known to be a tensor that is off the host."""
        assert isinstance(node.func, cst.Attribute)
        tensor = node.func.value
        value = facts.value(tensor)
        if not value.is_tensor or not value.place.off_host:
            return
        yield Report(
            node,
            f"`{facts.name_of(tensor)}` is on {value.place}, and only the host's memory can be pinned",
            notes=facts.notes(value.trail),
            change=Change("leave it out", "safe", replacements=((node, tensor),)),
        )
