"""DEV208: reading a copy on the host that may not be there yet."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.rule import Change, Report, Rule

if TYPE_CHECKING:
    import libcst as cst

    from devlint.facts import Facts, HotStall


class RacingHostCopy(Rule):
    """A `non_blocking` copy to the host that is read before anything waited for it.

    ## What it does
    Flags `.to("cpu", non_blocking=True)` and `copy_(..., non_blocking=True)` into pinned memory of the host whose result
    the same function reads (`.numpy()`, `.tolist()`, `.item()`, `int()`, `print()`) without a `synchronize()`, an event's
    `wait()` or anything of that name in between.

    ## Why is this bad
    `non_blocking=True` starts the copy and goes on. When the copy goes to the host, nothing waits for it automatically: the program may
    read the memory as it was before. Most often it doesn't, so that tests pass and training goes wrong now and then. This
    can't be shown by running the example: virtual CUDA copies at once, and on a GPU it depends on how long the queue is.

    ## Example
    ```python
    import torch


    def lengths_of(mask):
        counts = mask.sum(1).to("cpu", non_blocking=True)
        return counts.tolist()
    ```

    ## Use instead
    ```python
    import torch


    def lengths_of(mask):
        counts = mask.sum(1).to("cpu")
        return counts.tolist()
    ```

    ## Fix safety
    Unsafe: without `non_blocking` the host waits where the copy starts, which costs what the flag was meant to save.
    Not offered if a parameter says whether to wait.

    ## References
    - [A guide on good usage of non_blocking and pin_memory](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
    - [torch.Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
    """

    code = "DEV208"
    name = "racing-host-copy"
    trigger = r"\bnon_blocking\b|\bcopy_\s*\("
    default = False
    fix = "U"
    senses = frozenset({"race"})

    def judge_stall(self, node: cst.CSTNode, stall: HotStall, facts: Facts) -> Iterator[Report]:
        if stall.use is None:
            return
        read = " ".join(facts.code_of(stall.use).split())
        yield Report(
            node,
            f"`{read}` reads a copy that may not be there yet: `non_blocking=True` to the host waits for nothing",
            "certain" if stall.certain else "likely",
            notes=(
                *facts.notes(stall.trail),
                facts.note("read here, without anything that waits in between", stall.use),
            ),
            change=_waiting(stall, facts),
        )


def _waiting(stall: HotStall, facts: Facts) -> Change | None:
    """The same copy without `non_blocking`."""
    call = stall.node
    if not isinstance(call, ast.Call) or not any(
        k.arg == "non_blocking" and isinstance(k.value, ast.Constant) for k in call.keywords
    ):
        # What a caller chooses is for the callers to mend, or for the whole function.
        return None
    given = [facts.code_of(a) for a in call.args]
    given += [
        f"{k.arg}={facts.code_of(k.value)}" if k.arg else f"**{facts.code_of(k.value)}"
        for k in call.keywords
        if k.arg != "non_blocking"
    ]
    code = f"{facts.code_of(call.func)}({', '.join(given)})"
    return Change("waits for the copy", "unsafe", edits=(facts.replaced(call, code),))
