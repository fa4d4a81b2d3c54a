"""DEV107: a tensor that is made on the host and moved at once, where that happens once."""

from __future__ import annotations

from devlint.rule import Effect
from devlint_rules.moves.dev105 import CreatedThenMoved


class CreatedThenMovedOnce(CreatedThenMoved):
    """A tensor made on the host and moved at once, outside of code that runs at each step.

    ## What it does
    Flags what DEV105 does, in set-up code, tests, export and wherever else it isn't known to run at each step; and
    `torch.tensor(data).to(device)` anywhere, which costs what `torch.tensor(data, device=device)` does, and is one call more.

    The rule is opt-in: once is cheap. A comment that switches DEV105 off switches it off too.

    ## Why is this bad
    The tensor is allocated and filled on the host, allocated again on the device, and copied over, while the host waits.

    ## Example
    ```python
    import torch

    device = torch.device("cuda")
    mask = torch.ones(8, 8).to(device)
    ```

    ## Use instead
    ```python
    import torch

    device = torch.device("cuda")
    mask = torch.ones(8, 8, device=device)
    ```

    ## Fix safety
    Safe for factories whose result is the same on every device. Unsafe for random ones, which draw from the device's
    own generator then; for those that compute in floating point (`linspace`, `logspace`, windows, `arange` with
    fractions), whose last bit may differ; and with `requires_grad`, where the tensor becomes a leaf.

    ## References
    - [Performance Tuning Guide: create tensors directly on the target device](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [Tensor creation](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
    """

    code = "DEV107"
    name = "created-then-moved-once"
    default = False
    effect = Effect(syncs=1, counts="transfer")
    of_each_step = False
