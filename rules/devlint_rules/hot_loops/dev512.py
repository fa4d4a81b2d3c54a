"""DEV512: copies that are asked not to wait, from memory or into memory that isn't pinned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.rule import Report, Rule
from devlint_rules.hot_loops import by_role

if TYPE_CHECKING:
    import libcst as cst

    from devlint.facts import Facts, HotStall


class UnpinnedAsyncCopy(Rule):
    """A copy with `non_blocking=True` from or into memory that isn't pinned, in code that runs at each step.

    ## What it does
    Flags `.to(device, non_blocking=True)`, `.cuda(non_blocking=True)` and `copy_(..., non_blocking=True)` in hot code of
    what the same function made on the host without pinning it (`torch.tensor`, `torch.from_numpy`, `torch.zeros`), and
    copies to the host into such memory. Left alone: pinned memory, and memory of which nothing is known.

    Selected by its code it tells of all that. In preview it is on as well, and tells of what each step comes by: not of what
    stands where an option leads, runs once a request, or follows right on another wait.

    ## Why is this bad
    An accelerator copies by itself from pinned memory alone. Other memory goes through a buffer of the driver's, and the
    host is busy until all of it is in there: the flag promises a copy that runs beside other work, and there is none.
    Its effect can't be shown on a machine without an accelerator: virtual CUDA takes the flag at its word, as CUDA's
    interface does. That pageable memory is staged is what CUDA documents.

    ## Example
    ```python
    import torch
    from torch import nn


    class Offset(nn.Module):
        def forward(self, x, lengths: list[int]):
            return x + torch.tensor(lengths).to(x.device, non_blocking=True)
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Offset(nn.Module):
        def forward(self, x, lengths: list[int]):
            return x + torch.tensor(lengths, pin_memory=True).to(x.device, non_blocking=True)
    ```

    ## References
    - [A guide on good usage of non_blocking and pin_memory](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
    - [CUDA: API synchronization behavior](https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html)
    """

    code = "DEV512"
    name = "unpinned-async-copy"
    trigger = r"\bnon_blocking\b|\bcopy_\s*\("
    severity = "warning"
    default = False
    seen_as = ("staged", "transfer")
    senses = frozenset({"staged"})

    def judge_stall(self, node: cst.CSTNode, stall: HotStall, facts: Facts) -> Iterator[Report]:
        text, asked = facts.shown(stall.node), facts.shown(stall.asked)
        if stall.name == "copy_ to the host":
            message = f"`{text}` copies into memory that isn't pinned: the copy is staged, and isn't overlapped, {stall.often}"
        else:
            message = f"`{asked}` isn't in pinned memory: `{text}` is staged, and isn't overlapped, {stall.often}"
        yield by_role.report(
            node, stall, facts, message, "make it in pinned memory (`pin_memory=True`), once where it can be kept"
        )
