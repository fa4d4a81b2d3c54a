"""DEV608: an accelerator used in the worker processes of a loader."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import MOVES, Kind, Value, calls_in, dotted, own_nodes, parse_device
from devlint.lazy import cst, m
from devlint.rule import Effect, Report, Rule

if TYPE_CHECKING:
    from devlint.facts import Facts, FunctionModel, PlacementModel, Unit


class CudaInWorker(Rule):
    """An accelerator used in the worker processes of a `DataLoader`.

    ## What it does
    Flags code that moves tensors to an accelerator, or makes them there, in a dataset's `__getitem__`, a `collate_fn` or a
    transform of a `DataLoader` with workers. If that code is in another file, the finding is at the loader. Loaders without workers, with
    `multiprocessing_context="spawn"`, and programs that set another start method are left alone.

    ## Why is this bad
    On Linux the workers are forked (up to Python 3.13; later ones start them by a fork server), and CUDA doesn't survive
    that: once the program has used it, the first batch raises `RuntimeError: Cannot re-initialize CUDA in forked
    subprocess`. If workers are started in another way, each of them takes some hundred megabytes of the GPU's memory, and has to keep
    alive what it sends.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader, Dataset


    class Squares(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return torch.tensor(index**2).to("cuda")


    weight = torch.ones(1, device="cuda")
    for batch in DataLoader(Squares(), num_workers=1):
        print(batch * weight)
    ```

    ## Use instead
    ```python
    import torch
    from torch.utils.data import DataLoader, Dataset


    class Squares(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return torch.tensor(index**2)


    weight = torch.ones(1, device="cuda")
    for batch in DataLoader(Squares(), num_workers=1):
        print(batch.to("cuda") * weight)
    ```

    ## References
    - [CUDA in multiprocessing](https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing)
    - [torch.utils.data: multi-process data loading](https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading)
    """

    code = "DEV608"
    name = "cuda-in-worker"
    trigger = r"\bnum_workers\b"
    effect = Effect(raises="RuntimeError", words="Cannot re-initialize CUDA in forked subprocess")

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        model.ensure(unit.scope)
        calls = calls_in(unit.node)
        return any(model.value(call).kind is Kind.LOADER for call in calls)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(args=[m.ZeroOrMore(), m.Arg(keyword=m.Name("num_workers")), m.ZeroOrMore()])

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        call = facts.node(node)
        if not isinstance(call, ast.Call) or facts.value(node).kind is not Kind.LOADER or not _forks(call, facts):
            return
        for found in _run_by_workers(call, facts):
            use = _use_in(found.node, facts, 1)
            if use is None:
                continue
            yield _told(node, call, found, use, facts)


class _Run(NamedTuple):
    """A function that workers run."""

    name: str
    node: ast.AST
    path: str


def _told(node: cst.Call, loader: ast.Call, run: _Run, use: ast.Call, facts: Facts) -> Report:
    """At the use, with the loader as a note; the other way round where the use stands in another file."""
    hint = "return host tensors, and move the batch in the loop"
    if _is_here(use, facts):
        message = (
            f"`{facts.shown(use)}` in `{run.name}` runs in the worker processes of a loader: RuntimeError in a "
            "process that was forked after CUDA was used"
        )
        return Report(node.func, message, "likely", (facts.note("the loader has workers", loader),), hint, at=use)
    message = (
        f"the workers of this loader run `{run.name}`, which uses the accelerator: RuntimeError in a process that was "
        "forked after CUDA was used"
    )
    note = facts.note(f"`{ast.unparse(use)}` here", use, run.path)
    return Report(node.func, message, "likely", (note,), hint)


def _forks(call: ast.Call, facts: Facts) -> bool:
    """Whether the loader has workers, and they may be forked."""
    if "set_start_method" in facts.text.text:
        return False
    given = {k.arg: k.value for k in call.keywords}
    context = given.get("multiprocessing_context")
    if context is not None and not (isinstance(context, ast.Constant) and context.value in ("fork", None)):
        return False
    workers = [v for _, v in facts.model.value(given["num_workers"]).alternatives()]
    return not all(v.kind is Kind.CONSTANT and not v.constant for v in workers)


def _run_by_workers(call: ast.Call, facts: Facts) -> Iterator[_Run]:
    given = {k.arg: k.value for k in call.keywords}
    dataset = call.args[0] if call.args else given.get("dataset")
    if dataset is not None:
        yield from _of_dataset(dataset, facts)
    collate = given.get("collate_fn")
    if collate is not None:
        yield from _callables(collate, facts)


def _of_dataset(dataset: ast.expr, facts: Facts) -> Iterator[_Run]:
    for _, value in facts.model.value(dataset).alternatives():
        for name in ("__getitem__", "__getitems__", "__iter__"):
            method = value.cls.method(name) if value.cls is not None and value.kind is Kind.OBJECT else None
            if method is not None:
                yield _of_function(method)
    makers = [dataset] if isinstance(dataset, ast.Call) else []
    if isinstance(dataset, ast.Name):
        makers = [v for v in facts.model.assigned_values(dataset) if isinstance(v, ast.Call)]
    for maker in makers:
        for name, given in _arguments(maker, facts):
            if "transform" in name:
                yield from _callables(given, facts)


def _arguments(maker: ast.Call, facts: Facts) -> Iterator[tuple[str, ast.expr]]:
    """What a dataset is made with, each by its parameter's name; of a class outside the project, functions are transforms."""
    made = facts.model.value(maker)
    constructor = made.cls.method("__init__") if made.cls is not None else None
    names = [a.arg for a in constructor.parameters[1:]] if constructor is not None else ["transform"] * len(maker.args)
    yield from zip(names, maker.args, strict=False)
    yield from ((k.arg, k.value) for k in maker.keywords if k.arg is not None)


def _callables(node: ast.expr, facts: Facts) -> Iterator[_Run]:
    """The functions that an expression hands on: itself, an object's `__call__`, the parts of a `Compose([...])`."""
    match node:
        case ast.Lambda():
            yield _Run("a lambda", node, facts.model.source.path)
            return
        case ast.Call(func=ast.Name(id="Compose") | ast.Attribute(attr="Compose"), args=[ast.List(elts=parts)]):
            for part in parts:
                yield from _callables(part, facts)
            return
    value: Value = facts.model.value(node)
    if value.kind is Kind.FUNCTION and value.function is not None:
        yield _of_function(value.function)
    elif value.kind is Kind.OBJECT and value.cls is not None:
        method = value.cls.method("__call__")
        if method is not None:
            yield _of_function(method)


def _of_function(function: FunctionModel) -> _Run:
    name = f"{function.cls.name}.{function.name}" if function.cls is not None else function.name
    return _Run(name, function.node, function.source.path)


def _use_in(function: ast.AST, facts: Facts, depth: int) -> ast.Call | None:
    """The first call in a function that puts something on an accelerator."""
    nodes = (
        [function.body, *own_nodes(function.body)] if isinstance(function, ast.Lambda) else list(own_nodes(function))
    )
    calls = sorted((n for n in nodes if isinstance(n, ast.Call)), key=lambda n: (n.lineno, n.col_offset))
    if any("get_worker_info" in ast.unparse(c.func) for c in calls):
        return None
    for call in calls:
        if _is_here(call, facts):
            facts.model.ensure_around(call)
        if _is_use(call, facts):
            return call
        callee = facts.model.value(call.func)
        if depth and callee.kind is Kind.FUNCTION and callee.function is not None:
            inner = _use_in(callee.function.node, facts, depth - 1)
            if inner is not None:
                return inner
    return None


def _is_use(call: ast.Call, facts: Facts) -> bool:
    """Whether a call moves to an accelerator or makes a tensor there. The code of another file is read as it stands."""
    devices = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
    named = [parse_device(d.value) for d in devices if isinstance(d, ast.Constant) and isinstance(d.value, str)]
    if isinstance(call.func, ast.Attribute) and call.func.attr in MOVES:
        if call.func.attr != "to":
            # The host isn't an accelerator, and `torch.cuda`'s own functions aren't moves.
            return (
                call.func.attr != "cpu" and len(call.args) <= 1 and not (dotted(call.func) or "").startswith("torch.")
            )
        return any(p is not None and p.off_host for p in named) or _is_placed(call, facts)
    return any(k.arg == "device" for k in call.keywords) and (
        any(p is not None and p.off_host for p in named) or _is_placed(call, facts)
    )


def _is_placed(call: ast.Call, facts: Facts) -> bool:
    value = facts.model.value(call)
    return value.place.off_host and value.place.name != "meta"


def _is_here(node: ast.AST, facts: Facts) -> bool:
    """Whether a node stands in the file at hand: of other files' functions no values are kept."""
    return any(parent is facts.model.source.tree for parent in facts.model.ancestors(node))
