"""DEV506: flushing caches and queues at each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import calls_in, last_name, own_nodes
from devlint.knowledge.ecosystem import CLOCKS
from devlint.lazy import cst, m, regex
from devlint.rule import Effect, Report, Rule
from devlint_rules.hot_loops import by_role, stalls
from devlint_rules.hot_loops.gains import waits_for_batch

if TYPE_CHECKING:
    from devlint.facts import Facts, HotStall

_BACKENDS = "cuda|xpu|mps|npu|hpu|mtia|accelerator"
_FLUSH = regex(
    rf"torch\.(?:{_BACKENDS})\.(?:memory\.)?(empty_cache|synchronize|ipc_collect)|torch\.cuda\.memory\.empty_cache"
)

COSTS = {
    "empty_cache": "gives the accelerator's cached memory back at each step, and has to ask for it again",
    "ipc_collect": "walks through shared accelerator memory at each step",
    "synchronize": "makes the host wait for all queued work at each step",
    "collect": "searches all of Python's objects for garbage at each step",
}
_EVENT = regex(r"(?i)event|evt")
ADVICE = {
    "synchronize": "leave it out: PyTorch waits by itself where a value is needed",
    "collect": "leave it out, or collect every few hundred steps",
}


class CacheFlushInHotLoop(Rule):
    """`empty_cache()`, `synchronize()` or `gc.collect()` at each step.

    ## What it does
    Flags `torch.cuda.empty_cache()`, `torch.cuda.synchronize()` (and those of other accelerators) and `gc.collect()` at
    each pass of a hot loop. Left alone: handlers of out-of-memory errors, step guards, `synchronize()` where the loop
    reads a clock, records events, uses streams or copies without blocking, and `gc.collect()` where the file manages
    the collector by hand. Told where it is selected by its code: what a comment on the line above gives a reason for, and an
    `empty_cache()` or a collection in a loop of which it isn't certain that it trains by itself: most people make room there on purpose.

    In loops that train nothing (under `torch.no_grad()`, after `model.eval()`, in functions that are named for it, or that
    only call a model), and of a `synchronize()` with another wait right behind it (`loss.item()`), without which nothing is
    gained, it tells where it is selected by its code, as in `--select DEV506`.

    In code that is hot by its role (in preview) it tells of what each step comes by; of what stands where an option leads,
    runs once a request, or follows right on another wait, where it is selected by its code as well.

    ## Why is this bad
    PyTorch keeps freed memory for the next step, which needs the same amounts again. `empty_cache()` gives it back to
    the driver and waits for the accelerator, and the next step has to allocate anew. It frees nothing that a tensor
    still holds, so that it doesn't prevent running out of memory. `synchronize()` stops the host from running ahead.

    ## Example
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    for batch in loader:
        model(batch.to(device)).mean().backward()
        torch.cuda.empty_cache()
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    device = torch.device("cuda")
    model = nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    for batch in loader:
        model(batch.to(device)).mean().backward()
    ```

    ## References
    - [torch.cuda.memory.empty_cache](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html)
    - [CUDA semantics: memory management](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)
    """

    code = "DEV506"
    name = "cache-flush-in-hot-loop"
    severity = "warning"
    trigger = r"\b(?:empty_cache|synchronize|ipc_collect|collect)\s*\("
    alias = r"\b(?:empty_cache|synchronize|collect)\s+as\s+(\w+)"
    only_hot = True
    only_training = True
    statement = ast.Expr
    effect = Effect(counts="flush", syncs=4, words="empty_cache")
    seen_as = ("flush",)

    senses = frozenset({"flush"})

    def judge_stall(self, node: cst.CSTNode, stall: HotStall, facts: Facts) -> Iterator[Report]:
        last = stall.name.rsplit(".", 1)[-1]
        name = last if last in ("empty_cache", "ipc_collect", "collect") else "synchronize"
        if name != "empty_cache" and any(_reads_clock(n) for n in own_nodes(stall.function.node)):
            return
        text = facts.shown(stall.node)
        queued = "what was queued before an event" if _EVENT.search(stall.name) else "all that was queued"
        doing = f"waits for {queued}" if name == "synchronize" else "gives memory back that is asked for again"
        message = f"`{text}` {doing}, {stall.often}"
        hint = ADVICE.get(name, "leave it out; free memory by dropping the tensors that hold it")
        # Whoever names that accelerator has the memory of a laptop in mind.
        yield by_role.report(node, stall, facts, message, hint, minor="mps" in stall.name)

    def shape(self) -> m.BaseMatcherNode:
        return m.Expr(value=m.Call())

    def judge(self, node: cst.Expr, facts: Facts) -> Iterator[Report]:
        call = cst.ensure_type(node.value, cst.Call)
        name = _flushes(call, facts)
        hot = facts.hot_loop(call) if name is not None else None
        if name is None or hot is None or hot.kind in ("call", "element"):
            # A loop inside a model may well have to make room for its next part.
            return
        around = hot.node or facts.model.enclosing_scope(facts.statement)
        if _is_needed(name, around, facts):
            return
        trains = any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in own_nodes(around))
        is_certain = trains and not hot.likely
        yield Report(
            call,
            f"`{facts.name_of(call)}` {COSTS[name]}",
            "certain" if is_certain else "likely",
            notes=stalls.hot_notes(hot, facts),
            hint=ADVICE.get(name, "leave it out; free memory by dropping the tensors that hold it"),
            # Helpers give memory back for whoever calls them, mostly where something ends.
            # Where each step waits for its batch all the same, a wait at the end of the one before costs next to nothing.
            # Whoever says why, beside it, means it. So does mostly who makes room in a step of which not all is known.
            minor=bool(hot.path)
            or (name != "synchronize" and not is_certain)
            or _COMMENT.match(facts.text.line(facts.statement.lineno - 1)) is not None
            or (
                _waits_behind(facts) or (waits_for_batch(hot, facts) and facts.ends_step(node))
                if name == "synchronize"
                else facts.model.saves_memory(facts.statement)
            ),
        )


# An issue, or a sentence.
_COMMENT = regex(r"\s*#.{0,200}?(?:https?:|#\d|\bissues?\b|(?:\w+\W+){5})")


def _flushes(call: cst.Call, facts: Facts) -> str | None:
    qualified = facts.qualified(call.func)
    if qualified is None:
        return None
    match = _FLUSH.fullmatch(qualified)
    if match is not None:
        return match[1] or "empty_cache"
    return "collect" if qualified == "gc.collect" else None


def _is_needed(name: str, around: ast.AST, facts: Facts) -> bool:
    """Whether the code around has a reason for it."""
    if name == "empty_cache" and "MinkowskiEngine" in facts.text.text:
        # Its own allocations, of another size each step, fill the cache: https://nvidia.github.io/MinkowskiEngine/
        return True
    if name == "collect":
        return any(text in facts.text.text for text in ("gc.disable(", "gc.freeze("))
    if name != "synchronize":
        return False
    return any(_wants_waiting(node) for node in own_nodes(around))


def _waits_behind(facts: Facts) -> bool:
    """Whether the first statement behind it that queues or reads anything reads: `synchronize(); meter.update(loss.item())`."""
    for statement in facts.model.source.after(facts.statement):
        calls = calls_in(statement)
        if any(last_name(c.func) in _READING and not c.args for c in calls):
            return not isinstance(statement, ast.If)
        if not isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)) or not all(map(_queues_nothing, calls)):
            return False
    return False


_READING = frozenset({"item", "tolist", "cpu", "numpy"})
# They wait, count or keep: work that is queued between the two would make the first wait worth something.
_QUEUING_NOTHING = frozenset({"synchronize", "barrier", "update", "append", "tick", "tock"})


def _queues_nothing(call: ast.Call) -> bool:
    return last_name(call.func) in _QUEUING_NOTHING


def _reads_clock(node: ast.AST) -> bool:
    """Whether time is taken around: the clock has to wait."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in CLOCKS or name in ("now", "elapsed_time")
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return "timer" in name.lower() or "profil" in name.lower()
    return False


def _wants_waiting(node: ast.AST) -> bool:
    """Clocks are read, events recorded, streams used or copies made without blocking: somebody has to wait."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), keywords=keywords):
            return (
                name in CLOCKS
                or name in ("now", "record", "elapsed_time", "stream", "Stream", "wait_stream", "replay", "nvtx")
                or "time" in name.lower()
                or any(k.arg == "non_blocking" for k in keywords)
            )
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return "timer" in name.lower() or _TIMED.search(name) is not None
    return False


# Helpers that take the time of a step: `batch_time`, `time_meter`.
_TIMED = regex(r"(?:^|_)time(?:$|_(?!steps?|emb))|^Time(?=[A-Z]|$)(?!Step|Emb)")
