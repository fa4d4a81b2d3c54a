"""DEV505: keeping each step's graph alive."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, access_path, last_name, own_nodes, walk
from devlint.lazy import cst, m, regex
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.hot_loops import stalls
from devlint_rules.hot_loops.graphs import Binding, Graph, Region, added_up, gradients_are_on, only_read

if TYPE_CHECKING:
    from devlint.facts import Facts, FunctionModel, HotLoop, PlacementModel, Unit
    from devlint.findings import Note


class Kept(NamedTuple):
    """What a statement keeps beyond its step: where it puts it, and the expression."""

    target: ast.expr
    value: ast.expr
    # It is added up, not put into a list.
    summed: bool


class GraphKeptAlive(Rule):
    """A tensor kept from step to step together with its autograd graph.

    ## What it does
    Flags `total += loss`, `total = total + loss`, `losses.append(loss)`, `losses.extend([loss])`, `by_step[i] = loss` and
    `meter.update(loss)` (where the project's own `update` adds up what it is given) in a hot loop, when `loss` carries a
    graph: `backward` runs on it in the loop, a LightningModule's `training_step` returns it, or a module computes it while
    gradients are on. Left alone: detached tensors and numbers, sums under `no_grad`, sums that start anew every few steps or go over the parts of one batch, and
    sums that `backward` runs on afterwards, or may run on because they are returned or handed on. Told where it is selected by its code: what `backward` has run on
    at each step, for little of its graph is left, unless the file uses a library of large models (`transformers`, `timm`, `diffusers`, ...).

    ## Why is this bad
    The sum remembers how each of its terms was made. The graph of every step, and the memory that it holds, stays alive
    until the sum is gone: memory grows with each step, until it runs out. After `backward` the tensors that a graph held
    are freed, but its nodes stay, on the host: some hundred kilobytes a step for a model of a dozen layers.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    total = 0.0
    for batch in loader:
        loss = model(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
    average = total / len(loader)
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2)
    total = 0.0
    for batch in loader:
        loss = model(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    average = total / len(loader)
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: the values stay the same, and nothing runs `backward` on what is kept; where the
    step reads numbers anyway, `.item()` may say it better.

    ## References
    - [FAQ: Don't accumulate history across your training loop](https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory)
    - [dmlc/dgl 5302](https://github.com/dmlc/dgl/issues/5302)
    """

    code = "DEV505"
    name = "graph-kept-alive"
    severity = "warning"
    trigger = r"\+=(?!\s*(?:[\d.]+|len\(.*|.*\.(?:item|detach)\(\).*|.*\bfloat\(.*)\s*(?:#|$|\n))|=\s*\w+\s*\+\s|\.\s*(?:append|extend|update|add|push|record|store|collect|accumulate|track)\s*\(|\]\s*=\s*\w*loss"
    needs = (r"\bbackward\b|\bcriterion\b|[lL]oss",)
    only_hot = True
    effect = Effect(holds="total.grad_fn is not None")
    fix = "D"

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        model.ensure(unit.scope)
        return _kept(unit.statement, model) is not None and model.hot_loop(unit.statement) is not None

    def shape(self) -> m.BaseMatcherNode:
        return m.OneOf(
            m.AugAssign(operator=m.AddAssign()),
            m.Assign(targets=[m.AssignTarget()], value=m.BinaryOperation(operator=m.Add())),
            m.Assign(targets=[m.AssignTarget(target=m.Subscript())]),
            m.Expr(value=m.Call(func=m.Attribute())),
        )

    def judge(self, node: cst.AugAssign | cst.Assign | cst.Expr, facts: Facts) -> Iterator[Report]:
        kept = _kept(facts.statement, facts.model)
        expression = node.value
        hot = facts.hot_loop(expression)
        if kept is None or hot is None:
            return
        region = Region(hot.node or facts.model.enclosing_scope(facts.statement), facts)
        if _starts_anew(kept.target, region, facts):
            return
        carriers = region.carriers(kept.value, facts.statement.lineno)
        if not carriers or not _keeps(kept, [g for _, g in carriers], hot, facts):
            return
        if _ends_with_batch(kept.target, facts) or _ends_with_step(kept.target, hot, facts):
            return
        tensor, graph = next((c for c in carriers if c[1].spent), carriers[0])
        read_beside = _is_read_beside(region, facts)
        # What a step returns may be a dict with the loss in it.
        is_told = all(isinstance(g.call, ast.Call) or facts.model.value(c).is_tensor for c, g in carriers)
        left_open = read_beside or not is_told or _is_backward(expression) or _is_held_untold(carriers, region, facts)
        change = None if left_open else _detached([c for c, _ in carriers], expression, facts)
        yield Report(
            node,
            f"`{facts.code_of(kept.target)}` keeps {_NODES if graph.spent else _ALL}: `{facts.code_of(tensor)}` isn't detached",
            "certain" if graph.spent and isinstance(graph.call, ast.Call) else "likely",
            notes=(_origin(graph, facts), *stalls.hot_notes(hot, facts)),
            hint=None if change else _AS_BESIDE if read_beside else stalls.KEEP_DETACHED,
            change=change,
            minor=graph.spent and _LARGE.isdisjoint(facts.model.source.imported_packages),
        )


# What of each graph outlives its step: what `backward` leaves, which frees the tensors that it has used, or all of it.
_NODES = "the nodes of every step's graph, in the host's memory"
_ALL = "the graph of every step, and the memory that it holds"
# Libraries of models with dozens of layers, each of which leaves nodes: 440 kB a step for a `TransformerEncoder` of twelve (PyTorch 2.13).
_LARGE = frozenset({"transformers", "timm", "diffusers", "peft", "fairseq", "open_clip"})


def _kept(statement: ast.stmt, model: PlacementModel) -> Kept | None:
    match statement:
        case ast.AugAssign(target=target, op=ast.Add(), value=value):
            return Kept(target, value, not isinstance(value, (ast.List, ast.Tuple)))
        case ast.Assign(targets=[target], value=ast.BinOp(left=left, op=ast.Add(), right=right)):
            path = access_path(target)
            if path is not None and path in (access_path(left), access_path(right)):
                return Kept(target, right if access_path(left) == path else left, True)
        case ast.Assign(targets=[ast.Subscript(value=table, slice=key)], value=value):
            if model.value(table).kind is Kind.MAPPING and _changes_each_pass(key, statement, model):
                return Kept(table, value, False)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver, attr=name), args=args) as call):
            known = model.value(receiver)
            if name in _COLLECTING and len(args) == 1 and known.cls is None:
                return Kept(receiver, args[0], False)
            method = known.cls.method(name) if known.cls is not None else None
            if method is not None and (added := _given_for(_parameters_kept(method), method, call)):
                return Kept(receiver, ast.Tuple(added), False)
    return None


# Methods by which a list takes more.
_COLLECTING = frozenset({"append", "extend"})


def _is_backward(expression: cst.BaseExpression) -> bool:
    """What a `backward()` of somebody's own gives: it is there that the graph should end."""
    return m.matches(expression, m.Call(func=m.Attribute(attr=m.Name("backward"))))


def _is_held_untold(carriers: list[tuple[ast.expr, Graph]], region: Region, facts: Facts) -> bool:
    """Whether another statement keeps the same graph, by a name that was joined with the tensor's, and nothing tells of it: it lives on there."""
    names = _joined({path for c, _ in carriers if (path := access_path(c)) is not None}, region)
    return any(
        isinstance(statement, ast.stmt)
        and statement is not facts.statement
        and (kept := _kept(statement, facts.model)) is not None
        and names & {access_path(part) for part in added_up(kept.value)}
        and not _starts_anew(kept.target, region, facts)
        and not region.carriers(kept.value, statement.lineno)
        for statement in own_nodes(region.node)
    )


def _joined(names: set[str], region: Region) -> set[str]:
    """Some names with all that are other names of the same tensors in a region, or of what these are added to in place."""
    pairs: list[set[str]] = []
    for node in own_nodes(region.node):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)):
                pairs.append({name, other})
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                pairs += ({name, path} for part in added_up(value) if (path := access_path(part)) is not None)
    found: set[str] = set()
    while found != names:
        found = names
        names = names.union(*(pair for pair in pairs if pair & names))
    return names


_AS_BESIDE = "keep `.item()` of it as is done beside, or `.detach()`, which doesn't wait"


def _is_read_beside(region: Region, facts: Facts) -> bool:
    """Whether the loop keeps numbers in the same way: `meters.update(loss_a.item())` beside `meters.update(loss_b)`.

    Then a tensor among them is an oversight, and whoever mends it chooses one way for all.
    """
    statement = facts.statement
    way = _way(statement)
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == "item"
        and access_path(n.func.value) is not None
        and (other := facts.model.source.statement_of(n)) is not statement
        and _way(other) == way
        for n in own_nodes(region.node)
    )


def _way(statement: ast.AST) -> tuple[type[ast.AST], str]:
    """How a statement keeps something: what it is, and which method it calls."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return type(statement), last_name(call.func) if isinstance(call, ast.Call) else ""


def _changes_each_pass(key: ast.expr, statement: ast.stmt, model: PlacementModel) -> bool:
    """Whether a key is another one at each pass of the hot loop: what is put under the same one goes at the next."""
    hot = model.hot_loop(statement)
    loop = hot.node if hot is not None else None
    if not isinstance(loop, ast.For):
        return False
    counted = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and _is_counted(loop.iter) else loop.target
    return any(isinstance(n, ast.Name) and isinstance(counted, ast.Name) and n.id == counted.id for n in ast.walk(key))


def _is_counted(iterated: ast.expr) -> bool:
    """Whether a loop is over `enumerate(...)`."""
    return (
        isinstance(iterated, ast.Call)
        and last_name(iterated.func) in ("enumerate", "tqdm")
        and any(isinstance(n, ast.Name) and n.id == "enumerate" for n in ast.walk(iterated))
    )


def _parameters_kept(method: FunctionModel) -> set[str]:
    """The parameters that a method adds to a total or a list of its object, as they are."""
    names = {a.arg for a in method.parameters}
    kept: set[str] = set()
    for node in method.nodes:
        match node:
            case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self")), op=ast.Add(), value=value):
                kept |= {n.id for n in added_up(value) if isinstance(n, ast.Name)}
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr="append" | "extend"),
                args=[ast.Name(id=name)],
            ):
                kept.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                # Made into something else first, a number maybe.
                names.discard(name)
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), _]):
                # Kept as it is where it is no tensor, most likely.
                names.discard(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="item" | "detach")):
                names.discard(name)
            case ast.Call(func=ast.Attribute(attr="is_tensor"), args=[ast.Name(id=name)]):
                names.discard(name)
    return kept & names


def _given_for(parameters: set[str], method: FunctionModel, call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that go to some parameters of a method."""
    order = [a.arg for a in method.parameters][0 if method.is_static else 1 :]
    pairs = [*zip(order, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
    return [value for name, value in pairs if name in parameters and not isinstance(value, ast.Starred)]


_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def _starts_anew(target: ast.expr, region: Region, facts: Facts) -> bool:
    """The target is made on each pass, or every few: what it holds ends with the step, or soon after."""
    path = access_path(target)
    if path is None:
        return False
    # `if total is None: total = loss`, and otherwise `total += loss`.
    tests = {p for p in facts.model.ancestors(facts.statement) if isinstance(p, ast.If)}
    return any(
        path in (b.path, b.path.split(".")[0].split("[")[0] if isinstance(b.statement, ast.For) else b.path)
        and (
            facts.model.hot_loop(b.value) is not None
            or (isinstance(region.node, _LOOPS) and tests.isdisjoint(facts.model.ancestors(b.value)))
        )
        for b in region.bindings
        if not _adds_to_itself(b.statement, path)
    )


def _ends_with_batch(target: ast.expr, facts: Facts) -> bool:
    """Whether a loop over batches around makes the target anew: `total = 0.0`, and some passes over one batch add to it."""
    around = set(facts.model.ancestors(facts.statement))
    made = (facts.model.hot_loop(bound.value) for bound in _beginnings(target, facts))
    return any(hot is not None and hot.kind == "batch" and hot.node in around for hot in made)


def _ends_with_step(target: ast.expr, hot: HotLoop, facts: Facts) -> bool:
    """Whether a function begins a sum, and the loop that adds to it goes through parts of one batch: nothing in there makes a step, nor loads one."""
    loop = hot.node
    if not isinstance(loop, ast.For) or _OF_BATCHES.search(ast.unparse(loop.iter)) is not None:
        return False
    if any(isinstance(n, ast.Attribute) and n.attr in ("step", "zero_grad") for n in walk(loop)):
        return False
    begun = [bound.line for bound in _beginnings(target, facts)]
    in_function = not isinstance(facts.model.enclosing_scope(facts.statement), ast.Module)
    return in_function and bool(begun) and max(begun) < loop.lineno


def _beginnings(target: ast.expr, facts: Facts) -> list[Binding]:
    """Where the scope of a statement binds what that adds to, without adding to it: `total = 0.0`."""
    path = access_path(target)
    bindings = Region(facts.model.enclosing_scope(facts.statement), facts).bindings
    return [b for b in bindings if b.path == path and not _adds_to_itself(b.statement, b.path)]


# What a loop over batches, or over steps, goes through.
_OF_BATCHES = regex(
    r"(?i)load|batch|data|iter|epoch|step|range\(|sampler|corpus|queue|enumerate\((?:self\.)?\w*(?:train|val|test)"
)


def _adds_to_itself(statement: ast.AST, path: str) -> bool:
    if isinstance(statement, ast.AugAssign):
        return True
    return isinstance(statement, ast.Assign) and any(
        isinstance(n, ast.expr) and access_path(n) == path for n in walk(statement.value)
    )


def _keeps(kept: Kept, graphs: list[Graph], hot: HotLoop, facts: Facts) -> bool:
    """Whether the graphs outlive the step for nothing."""
    statement = facts.statement
    if kept.summed and stalls.under_no_grad(statement, facts.model):
        return False
    path = access_path(kept.target)
    if path is None:
        return False
    scope = facts.model.enclosing_scope(statement)
    backwards = Region(scope, facts).backwards
    if any(differentiated == path for differentiated, _ in backwards):
        return False
    if any(graph.spent for graph in graphs):
        return True
    # Nothing ran `backward` on these: it may be wanted on the sum, or run on what else is made of them. That is ruled out
    # in an evaluation alone, which goes through a loader and only reads what it has added up.
    if hot.kind != "batch" or backwards or not gradients_are_on(statement, facts):
        return False
    return isinstance(kept.target, ast.Name) and only_read(path, scope, statement, facts)


def _origin(graph: Graph, facts: Facts) -> Note:
    if isinstance(graph.call, ast.Return):
        said = "Lightning runs `backward` on what is returned here"
    else:
        said = "`backward` runs here" if graph.spent else f"its graph begins in `{facts.code_of(graph.call.func)}(...)`"
    return facts.note(said, graph.call)


def _detached(carriers: list[ast.expr], expression: cst.BaseExpression, facts: Facts) -> Change | None:
    """`.detach()` where the graph comes in."""
    spans = {facts.text.span_of(c) for c in carriers}
    replacements = []
    for node in m.findall(expression, m.OneOf(m.Name(), m.Attribute(), m.Subscript(), m.Call(), m.UnaryOperation())):
        found = facts.node(node)
        if found is not None and found in carriers and isinstance(node, cst.BaseExpression):
            replacements.append((node, stalls.without_graph(node)))
    if len(replacements) != len(spans):
        return None
    return Change(stalls.ACCUMULATE_DETACHED, "display", tuple(replacements))
