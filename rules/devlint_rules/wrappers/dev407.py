"""DEV407: a collective of NCCL's asked for a tensor on the host."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import HOST, Value, last_name
from devlint.findings import Edit
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.moves import factories

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit


class CollectiveOnHostTensor(Rule):
    """A collective of NCCL called with a tensor on the host.

    ## What it does
    Flags `all_reduce`, `broadcast`, `all_gather` and the like of `torch.distributed` whose tensor is on the host, in a file
    that names NCCL; the same of Accelerate's `gather` and `reduce`; and, in a project that names NCCL, of two collectives of
    one function the one whose tensor was made on the host, where the other's is an input's. Left alone are files that name a backend which takes
    host tensors (`gloo`, `mpi`, `cpu:...`), or none, and tensors that are moved before.

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    NCCL talks between GPUs only: `RuntimeError: No backend type associated with device type cpu`. A run on one GPU never comes
    there.

    ## Example
    ```python
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        total = torch.tensor([3.0, 4.0])
        dist.all_reduce(total)
    finally:
        dist.destroy_process_group()
    ```

    ## Use instead
    ```python
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        total = torch.tensor([3.0, 4.0], device="cuda")
        dist.all_reduce(total)
    finally:
        dist.destroy_process_group()
    ```

    ## Fix safety
    Safe: the tensor is made on the current GPU, where it had to be. Offered where the factory stands in the same function.

    ## References
    - [torch.distributed: backends](https://docs.pytorch.org/docs/stable/distributed.html#backends)
    - [pytorch/examples 1116](https://github.com/pytorch/examples/pull/1116)
    """

    code = "DEV407"
    name = "collective-on-host-tensor"
    trigger = (
        r"\b(?:all_reduce|broadcast|all_gather|all_gather_into_tensor|reduce|reduce_scatter|reduce_scatter_tensor|gather"
        r"|gather_for_metrics|scatter|all_to_all_single|send|recv)\s*\("
    )
    needs = (r"\bnccl\b|\baccelerat(?:e|or)\b|\btorch\.distributed\b",)
    default = False
    effect = Effect(raises="RuntimeError", words="No backend type associated with device type cpu")
    fix = "S"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return not re.search(r"\bgloo\b|[\"']mpi[\"']|[\"']cpu:|\bccl\b", model.source.text)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        if not isinstance(call, ast.Call):
            return
        given = _given(node, call, facts)
        apart = facts.model.collectives_apart.get(call) if given is None else None
        if apart is not None and facts.model.project_uses(r"\bnccl\b"):
            yield Report(
                node,
                f"`{facts.name_of(node.func)}` is asked for `{facts.code_of(apart.asked)}`, which may be on cpu, and beside "
                f"it for `{facts.code_of(apart.other)}`, which is where the input is: NCCL has tensors on GPUs only",
                "likely",
                notes=facts.notes(apart.trail),
            )
        value = facts.model.value(given) if given is not None else None
        if given is None or value is None or not _is_on_host(value) or facts.model.is_for_the_host(call):
            return
        yield Report(
            node,
            f"`{facts.name_of(node.func)}` is asked for `{facts.code_of(given)}`, which is on cpu: NCCL has tensors on GPUs only",
            "likely",
            notes=facts.notes(value.trail),
            change=_made_there(given, facts),
        )


# Those whose tensor is the first argument; of the others it is the second.
_FIRST = frozenset({"all_reduce", "broadcast", "reduce", "send", "recv", "gather"})
_SECOND = frozenset(
    {"all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"}
)  # fmt: skip
_OF_ACCELERATE = frozenset({"gather", "gather_for_metrics", "reduce", "broadcast"})


def _given(node: cst.Call, call: ast.Call, facts: Facts) -> ast.expr | None:
    """The tensor that a collective is asked for."""
    name = facts.qualified(node.func) or ""
    module, _, function = name.rpartition(".")
    if module.startswith("torch.distributed") and "nccl" in facts.text.text:
        position = 0 if function in _FIRST else 1 if function in _SECOND else -1
        named = next((k.value for k in call.keywords if k.arg in ("tensor", "input_tensor", "input")), None)
        return named if named is not None else call.args[position] if 0 <= position < len(call.args) else None
    match call.func:
        case ast.Attribute(value=owner, attr=method) if last_name(owner) == "accelerator" and method in _OF_ACCELERATE:
            return call.args[0] if call.args else None
    return None


def _is_on_host(value: Value) -> bool:
    options = [option for _, option in value.alternatives()]
    return all(option.is_tensor and option.place == HOST for option in options)


def _made_there(given: ast.expr, facts: Facts) -> Change | None:
    """The factory of the tensor with `device=`, where that is all that the function assigns to its name."""
    made = given
    if isinstance(given, ast.Name):
        assigned = facts.model.assigned_values(given)
        if len(assigned) != 1:
            return None
        made = assigned[0]
    if not isinstance(made, ast.Call) or facts.model.qualified(made.func) not in factories.ALL:
        return None
    if any(k.arg in (None, *factories.ON_HOST) for k in made.keywords):
        return None
    edit: Edit = facts.with_argument(made, 'device="cuda"')
    return Change("make it on the current GPU", "safe", edits=(edit,))
