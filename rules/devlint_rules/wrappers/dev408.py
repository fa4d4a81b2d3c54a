"""DEV408: a process of a distributed program that never selects its GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import last_name, own_nodes
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit


class CollectiveBeforeSetDevice(Rule):
    """A process of a distributed program that never selects its GPU.

    ## What it does
    Flags `init_process_group` with NCCL in a file that nowhere selects a GPU for the process: no `torch.cuda.set_device`,
    no `with torch.cuda.device(...)`, no `device_id=`, nothing about `CUDA_VISIBLE_DEVICES`, and no helper imported from the
    project that does; and with any backend, where the same function wraps a model in `DistributedDataParallel(device_ids=[...])`:
    its documentation asks for the selection. Left alone are programs whose framework selects it (Accelerate, DeepSpeed, Lightning, Horovod, Ray),
    and tests.

    This rule is new, and opt-in: select it by its code.

    ## Why is this bad
    The current GPU is the first one in every process. `.cuda()`, `barrier()` and collectives of objects use it: all ranks put
    memory on GPU 0, which runs out of it, and NCCL may hang or report a duplicate GPU.

    ## Example
    ```python
    import os

    import torch
    import torch.distributed as dist

    local_rank = int(os.environ.get("LOCAL_RANK", 1))
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    dist.destroy_process_group()
    ```

    ## Use instead
    ```python
    import os

    import torch
    import torch.distributed as dist

    local_rank = int(os.environ.get("LOCAL_RANK", 1))
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    dist.destroy_process_group()
    ```

    ## Fix safety
    Unsafe: the process then uses another GPU than it did. Offered where a `local_rank` is at hand.

    ## References
    - [torch.distributed.init_process_group](https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group)
    - [pytorch/examples 1110](https://github.com/pytorch/examples/pull/1110)
    """

    code = "DEV408"
    name = "collective-before-set-device"
    trigger = r"\binit_process_group\s*\("
    needs = (r"\bnccl\b|\bdevice_ids\b",)
    default = False
    effect = Effect(holds="x.device.index != local_rank", devices=2)
    fix = "U"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        return not _selects(model)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        if not isinstance(call, ast.Call) or facts.qualified(node.func) != "torch.distributed.init_process_group":
            return
        if any(k.arg in ("device_id", None) for k in call.keywords):
            return
        does = (
            "talks by NCCL" if _with_nccl(call, facts) else "works on a GPU of its own" if _has_gpu(call, facts) else ""
        )
        if not does or _is_selected_by_callers(facts):
            return
        yield Report(
            node,
            f"this process {does} and never selects it: the current GPU is the first, in every process",
            "likely",
            hint="call `torch.cuda.set_device(local_rank)` before",
            change=_selected(call, facts),
        )


_SELECTS = r"set_device\s*\(|set_device_index|cuda\.device\s*\(|CUDA_VISIBLE_DEVICES|device_id\s*=|device_index\("
_FRAMEWORKS = frozenset(
    {"accelerate", "deepspeed", "lightning", "pytorch_lightning", "horovod", "ray", "fairscale", "colossalai"}
)


def _selects(model: PlacementModel) -> bool:
    """Whether a file selects the GPU of its process, by itself or by something that it imports."""
    text = model.source.text
    if (
        re.search(_SELECTS, text)
        or not model.packages.isdisjoint(_FRAMEWORKS)
        or re.search(r"/tests?/|/test_\w+\.py$", model.source.path)
    ):
        return True
    return bool(model.imports_from(re.compile(_SELECTS.encode())))


def _is_selected_by_callers(facts: Facts) -> bool:
    """Whether a file that calls the function selects a GPU itself: that comes before the first tensor, as far as can be told."""
    scope = facts.scope
    if scope is None or scope.cls is not None or scope.parent is not None:
        return False
    return any(re.search(_SELECTS, file.source.text) for file in facts.model.files_naming(scope.name))


def _with_nccl(call: ast.Call, facts: Facts) -> bool:
    """Whether it names NCCL, alone: a name that has it for its default counts."""
    given = next((k.value for k in call.keywords if k.arg == "backend"), call.args[0] if call.args else None)
    if isinstance(given, ast.Constant):
        return given.value == "nccl"
    if given is None or isinstance(given, ast.IfExp):
        return False
    # `args.dist_backend`, whose default stands in the file, and no other.
    return bool(re.search(r"default\s*=\s*[\"']nccl[\"']", facts.text.text)) and "gloo" not in facts.text.text


def _has_gpu(call: ast.Call, facts: Facts) -> bool:
    """Whether the same function wraps a model for one GPU: `DistributedDataParallel(model, device_ids=[gpu])`."""
    scope = facts.model.enclosing_scope(call)
    return any(
        isinstance(n, ast.Call)
        and last_name(n.func) in ("DistributedDataParallel", "DDP")
        and any(k.arg == "device_ids" and isinstance(k.value, ast.List) and len(k.value.elts) == 1 for k in n.keywords)
        for n in own_nodes(scope)
    )


_LOCAL_RANKS = ("local_rank", "args.local_rank", "gpu", "args.gpu")


def _selected(call: ast.Call, facts: Facts) -> Change | None:
    names = [n for n in _LOCAL_RANKS if facts.model.is_bound_before(n.split(".")[0], call)]
    # Of options, those that the file has.
    text = facts.text.text
    name = next((n for n in names if not n.startswith("args.") or n in text or f"--{n[5:]}" in text), "")
    given = next((k.value for k in call.keywords if k.arg == "rank"), None)
    if not name and isinstance(given, ast.Name):
        # As `torch.multiprocessing.spawn` numbers its processes, on one machine or several.
        name = f"{given.id} % torch.cuda.device_count()"
    if not name or not re.search(r"^import torch$", facts.text.text, re.MULTILINE):
        return None
    edit = facts.inserted_before(facts.statement, f"torch.cuda.set_device({name})")
    return Change("select the GPU of the process first", "unsafe", edits=(edit,))
