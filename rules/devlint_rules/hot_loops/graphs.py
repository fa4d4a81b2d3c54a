"""Which tensors of a loop carry an autograd graph, and whether `backward` may still run on what is made of them.

Three kinds of evidence: `backward` runs on the tensor itself in the same region (a loop's body, or a function that a loop
calls), Lightning runs it on what a training step returns, or the tensor is computed there by a module while gradients are on.
Source for what keeps a graph:
https://docs.pytorch.org/docs/stable/notes/faq.html ("Don't accumulate history across your training loop").
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, access_path, is_under, own_nodes
from devlint.knowledge import canonical, torch_knowledge
from devlint.knowledge.ecosystem import LIGHTNING_MODULES
from devlint.lazy import regex
from devlint_rules.hot_loops.stalls import under_no_grad

if TYPE_CHECKING:
    from devlint.facts import Facts

# Names are followed through this many assignments.
MAX_DEPTH = 6
# Methods and attributes of a tensor whose result has no graph: numbers, host data, indices, masks.
_GRAPHLESS = frozenset(
    {"detach", "detach_", "item", "tolist", "numpy", "argmax", "argmin", "argsort", "size", "dim", "numel", "bool", "int", "long",
     "eq", "ne", "gt", "ge", "lt", "le", "isnan", "isinf", "isfinite", "any", "all", "data", "grad", "shape", "dtype", "device",
     "ndim", "is_cuda", "requires_grad", "nonzero", "equal", "allclose", "sign", "round", "floor", "ceil", "bincount",
     "new_zeros", "new_ones", "new_tensor", "new_full", "new_empty", "zeros_like", "ones_like", "rand_like", "randn_like"}
)  # fmt: skip
# Modules that have no parameters: what they give has the graph of what they are given.
_WITHOUT_PARAMETERS = (
    "Loss",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "Pool1d",
    "Pool2d",
    "Pool3d",
    "Dropout",
    "Flatten",
    "Identity",
)


class Graph(NamedTuple):
    """Why a tensor carries a graph: the call of `backward` that runs on it, or the call that computes it.

    What is returned to who runs `backward` is known by the statement that returns it.
    """

    call: ast.Call | ast.Return
    # `backward` freed what the graph saved: it can't run again on a sum.
    spent: bool


@dataclass(frozen=True)
class Binding:
    """A place where a region binds a name or an attribute."""

    path: str
    value: ast.expr
    statement: ast.AST
    line: int


class Region:
    """The body of a hot loop, or of a function that one calls."""

    def __init__(self, node: ast.AST, facts: Facts) -> None:
        self.node = node
        self._facts = facts
        self._nodes = list(own_nodes(node))

    @cached_property
    def bindings(self) -> list[Binding]:
        """What the region binds, in reading order."""
        found = [b for node in self._nodes for b in _bound_by(node)]
        return sorted(found, key=lambda b: b.line)

    @cached_property
    def backwards(self) -> list[tuple[str, ast.Call | ast.Return]]:
        """(path, call) for each tensor that `backward` runs on, those that it is a sum or a multiple of included."""
        found: list[tuple[str, ast.Call | ast.Return]] = []
        for node in self._nodes:
            if isinstance(node, ast.Call):
                for expression in _differentiated(node):
                    found += [(path, node) for path in self._summed(expression, node.lineno)]
            elif isinstance(node, ast.Return) and node.value is not None and self._is_lightning_step:
                for expression in (node.value, *self._losses(node.value, node.lineno)):
                    found += [(path, node) for path in self._summed(expression, node.lineno)]
        return found

    @cached_property
    def _is_lightning_step(self) -> bool:
        """Whether Lightning runs `backward` on what this returns."""
        if not isinstance(self.node, ast.FunctionDef) or self.node.name != "training_step":
            return False
        cls = self._facts.model.class_around(self.node)
        lightning = cls is not None and not LIGHTNING_MODULES.isdisjoint(cls.outside_bases)
        return lightning and "automatic_optimization" not in self._facts.text.text

    def _losses(self, returned: ast.expr, line: int) -> Iterator[ast.expr]:
        """The loss of a dict that a step returns."""
        binding = self.latest(access_path(returned) or "", line)
        for table in (returned, binding.value if binding is not None else None):
            if isinstance(table, ast.Dict):
                pairs = zip(table.keys, table.values, strict=True)
                yield from (v for k, v in pairs if isinstance(k, ast.Constant) and k.value == "loss")

    def _summed(self, expression: ast.expr, line: int, depth: int = 0) -> Iterator[str]:
        """The paths that an expression is, or adds up, by its own operators and those of what it was bound to."""
        for part in added_up(expression):
            path = access_path(part) or ""
            if depth and not self._is_tensor(part):
                # A part of a sum may be a plain number: a weight, a count.
                continue
            yield path
            binding = self.latest(path, line)
            if binding is not None and depth < MAX_DEPTH:
                yield from self._summed(binding.value, binding.line, depth + 1)

    def _is_tensor(self, node: ast.expr) -> bool:
        options = [v for _, v in self._facts.model.value(node).alternatives()]
        return any(v.is_tensor or v.kind is Kind.BATCH for v in options)

    def latest(self, path: str, line: int) -> Binding | None:
        """The last binding of a path, or of what it is a part of, before a line."""
        before = [b for b in self.bindings if b.line < line and (b.path == path or is_under(path, b.path))]
        return before[-1] if before else None

    def graph(self, node: ast.expr, line: int, depth: int = 0) -> Graph | None:
        """The graph that an expression carries when it is evaluated on a line; None where it has none, or it isn't known."""
        if depth > MAX_DEPTH:
            return None
        path = access_path(node)
        if path is not None:
            return self._graph_at(node, path, line, depth)
        match node:
            case ast.Call():
                return self._graph_of_call(node, line, depth)
            case ast.BinOp(left=left, right=right):
                return self.graph(left, line, depth + 1) or self.graph(right, line, depth + 1)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self.graph(operand, line, depth + 1)
            case ast.Attribute(value=value, attr=attr):
                return None if attr in _GRAPHLESS else self.graph(value, line, depth + 1)
            case ast.Subscript(value=value) | ast.Await(value=value):
                return self.graph(value, line, depth + 1)
        return None

    def _graph_at(self, node: ast.expr, path: str, line: int, depth: int) -> Graph | None:
        if _is_graphless(node):
            return None
        binding = self.latest(path, line)
        if binding is not None and _is_comparison(binding.value):
            # Also where a loss is a multiple of it.
            return None
        since = binding.line if binding is not None else 0
        for differentiated, call in self.backwards:
            if differentiated == path and call.lineno > since:
                return Graph(call, isinstance(call, ast.Return) or not _retains(call))
        if binding is None:
            return None
        return self.graph(binding.value, binding.line, depth + 1)

    def _graph_of_call(self, node: ast.Call, line: int, depth: int) -> Graph | None:
        model = self._facts.model
        func = node.func
        value = model.value(func)
        if any(v.is_module for _, v in value.alternatives()):
            if under_no_grad(node, self._facts.model):
                return None
            if any(v.is_module and v.name.endswith(_WITHOUT_PARAMETERS) for _, v in value.alternatives()):
                return self._graph_of_any(node, line, depth)
            return Graph(node, False)
        name = canonical(model.value(func).name) if value.kind is Kind.REFERENCE else ""
        if name.startswith("torch."):
            plain = torch_knowledge().functions.get(name) in ("tensor", "tensors", "batch")
            return self._graph_of_any(node, line, depth) if plain and name.rsplit(".", 1)[1] not in _GRAPHLESS else None
        if isinstance(func, ast.Attribute) and func.attr in torch_knowledge().tensor_methods:
            return None if func.attr in _GRAPHLESS else self.graph(func.value, line, depth + 1)
        return None

    def _graph_of_any(self, node: ast.Call, line: int, depth: int) -> Graph | None:
        for argument in node.args:
            parts = argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else [argument]
            for part in parts:
                found = self.graph(part, line, depth + 1)
                if found is not None:
                    return found
        return None

    def carriers(self, node: ast.expr, line: int) -> list[tuple[ast.expr, Graph]]:
        """The tensors in an expression that bring a graph into its value: `loss` of `loss * n`, of `{"loss": loss}`."""
        match node:
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return [found for e in elts for found in self.carriers(e, line)]
            case ast.Dict(values=values):
                return [found for v in values for found in self.carriers(v, line)]
            case ast.BinOp(left=left, right=right):
                return [*self.carriers(left, line), *self.carriers(right, line)]
        if self._facts.model.value(node).kind is Kind.SCALAR:
            # A number that a loss is divided by.
            return []
        graph = self.graph(node, line)
        return [(node, graph)] if graph is not None else []


def _is_graphless(node: ast.expr) -> bool:
    """`x.data`, and a part of it: `x.data[0]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr in _GRAPHLESS


def _is_comparison(node: ast.expr) -> bool:
    """`(confidence > limit).float()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return isinstance(node, ast.Compare)


def _bound_by(node: ast.AST) -> Iterator[Binding]:
    match node:
        case ast.Assign(targets=targets, value=value):
            pairs = [(t, value) for t in targets]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            pairs = [(target, value)]
        case ast.AugAssign(target=target, value=value):
            # It is what it was, and what was added.
            pairs = [(target, ast.copy_location(ast.BinOp(_as_load(target), node.op, value), node))]
        case ast.NamedExpr(target=target, value=value):
            pairs = [(target, value)]
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            pairs = [(target, value), *_replaced_in(node)]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            # `with amp.scale_loss(loss, optimizer) as scaled:` gives a multiple of its first argument.
            pairs = [(i.optional_vars, _first_argument(i.context_expr)) for i in items if i.optional_vars is not None]
        case _:
            return
    for target, value in pairs:
        if (
            isinstance(target, (ast.Tuple, ast.List))
            and isinstance(value, (ast.Tuple, ast.List))
            and len(target.elts) == len(value.elts)
        ):
            parts = list(zip(target.elts, value.elts, strict=True))
        else:
            parts = [(t, value) for t in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]
        for part, given in parts:
            path = access_path(part)
            if path is not None:
                yield Binding(path, given, node, node.lineno)


def _replaced_in(loop: ast.For | ast.AsyncFor) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(a table, what each of its parts becomes): `for key, value in losses.items(): losses[key] = value.item()`."""
    match loop.iter:
        case (
            ast.Call(func=ast.Attribute(value=table, attr="items" | "keys"), args=[])
            | ast.Call(
                func=ast.Name(), args=[ast.Call(func=ast.Attribute(value=table, attr="items" | "keys"), args=[])]
            )
            | table
        ):
            pass
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Subscript(value=into, slice=ast.Name(id=key))], value=value) if ast.unparse(
                into
            ) == ast.unparse(table) and any(isinstance(n, ast.Name) and n.id == key for n in ast.walk(loop.target)):
                yield table, value


def _as_load(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body


def _first_argument(context: ast.expr) -> ast.expr:
    return context.args[0] if isinstance(context, ast.Call) and context.args else context


def _differentiated(call: ast.Call) -> list[ast.expr]:
    """What a call runs `backward` on: `loss.backward()`, `accelerator.backward(loss)`, `torch.autograd.backward([a, b])`."""
    match call.func:
        case ast.Attribute(value=receiver, attr="backward" | "manual_backward"):
            given = call.args[:1]
            parts = given[0].elts if given and isinstance(given[0], (ast.List, ast.Tuple)) else given
            # A method of the program's own that is called so runs it on what it is given.
            return parts if isinstance(receiver, ast.Name) and receiver.id == "self" else [receiver, *parts]
    return []


def added_up(node: ast.expr) -> Iterator[ast.expr]:
    """The names and their parts that an expression is a sum, a multiple or a mean of."""
    if access_path(node) is not None:
        yield node
        return
    match node:
        case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            yield from added_up(left)
            yield from added_up(right)
        case ast.UnaryOp(operand=operand):
            yield from added_up(operand)
        case ast.Call(func=ast.Attribute(value=value, attr="mean" | "sum" | "clone" | "float" | "squeeze" | "to")):
            yield from added_up(value)
        case ast.Call(func=ast.Attribute(attr="scale" | "scale_loss"), args=[scaled, *_]):
            yield from added_up(scaled)
        case ast.Call(
            func=ast.Name(id="sum") | ast.Attribute(attr="stack" | "sum"),
            args=[ast.List(elts=elts) | ast.Tuple(elts=elts), *_],
        ):
            for element in elts:
                yield from added_up(element)


def _retains(call: ast.Call) -> bool:
    return any(
        k.arg == "retain_graph" and not (isinstance(k.value, ast.Constant) and not k.value.value) for k in call.keywords
    )


# -- whether backward may still run on a sum ---------------------------------------------------------------------------

# Calls that read a value and keep no graph.
_READERS = frozenset(
    {"float", "int", "print", "str", "repr", "format", "len", "round", "isinstance", "bool", "enumerate"}
)
_READING_METHODS = frozenset(
    {"item", "detach", "tolist", "numpy", "format", "info", "debug", "warning", "write", "add_scalar", "add_scalars",
     "set_postfix", "set_description", "set_postfix_str", "clear", "append", "isnan"}
)  # fmt: skip


def only_read(path: str, scope: ast.AST, apart_from: ast.AST, facts: Facts, depth: int = 0) -> bool:
    """Whether a scope does nothing with a value but read it: then nobody runs `backward` on it."""
    skipped = set(ast.walk(apart_from))
    return all(
        _is_read(node, scope, facts, depth)
        for node in own_nodes(scope)
        if isinstance(node, ast.expr) and node not in skipped and _loads(node) and access_path(node) == path
    )


def _loads(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _is_read(node: ast.expr, scope: ast.AST, facts: Facts, depth: int) -> bool:
    child: ast.AST = node
    for parent in facts.model.ancestors(node):
        match parent:
            case ast.Attribute(attr=attr):
                return attr in _READING_METHODS
            case ast.Call(func=ast.Name(id=name), args=args) if child in args:
                return name in _READERS
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if child is not parent.func:
                return attr in _READING_METHODS or (isinstance(owner, ast.Name) and owner.id in ("np", "numpy", "math"))
            case (
                ast.FormattedValue()
                | ast.JoinedStr()
                | ast.Compare()
                | ast.If()
                | ast.While()
                | ast.Assert()
                | ast.Expr()
            ):
                return True
            case ast.BinOp(left=ast.Constant(value=str())):
                return True
            case ast.Assign(targets=targets):
                names = [t.id if isinstance(t, ast.Name) else None for t in targets]
                return depth < 2 and all(n is not None and only_read(n, scope, parent, facts, depth + 1) for n in names)
            case ast.BinOp() | ast.UnaryOp() | ast.IfExp() | ast.keyword() | ast.Subscript() | ast.Tuple():
                child = parent
            case _:
                return False
    return False


def gradients_are_on(node: ast.AST, facts: Facts) -> bool:
    """Whether nothing in the file hints that gradients are off around a node, or for the model."""
    if under_no_grad(node, facts.model) or _SWITCHES.search(facts.text.text):
        return False
    scope = facts.model.enclosing_scope(node)
    if isinstance(scope, ast.Module):
        return True
    return not any(under_no_grad(call, model) for model, _, call in facts.model.callers(scope))


# Ways to turn gradients off for a stretch of code, or for a model's parameters, that no block shows.
_SWITCHES = regex(r"set_grad_enabled|requires_grad_\(\s*False|requires_grad\s*=\s*False")
