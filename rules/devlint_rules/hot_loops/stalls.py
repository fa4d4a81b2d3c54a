"""What the rules about stalls in hot loops share: how a finding is told, and how a value is collected instead."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from devlint.facts import Sort, Value, access_path, kept_on_node, leaves, own_nodes, walk
from devlint.findings import Note
from devlint.knowledge import torch_knowledge
from devlint.lazy import cst

if TYPE_CHECKING:
    from devlint.facts import Facts, HotLoop, PlacementModel, Unit


# Text that a file about accelerators (or what a trainer puts there), and one about steps, has somewhere.
NEEDS = (
    r"cuda|device|xpu|mps|npu|[aA]ccelerat|Lightning|Trainer\b",
    r"[lL]oader|backward\(|optimizer\.step|training_step|_batch_(?:start|end)\b|compute_loss|no_grad\(\):|inference_mode|\.eval\(|[mM]odel\(|net\(|coder\(|policy\(|_dl\b|_iter\b",
)
# What DEV501 and DEV505 advise alike, whether the loop adds up numbers or tensors.
ACCUMULATE_DETACHED = "accumulate the detached tensor, read it after the loop"
LOG_SOMETIMES = "write it on some steps only (`if step % 100 == 0:`), or once after the loop"
# Methods whose result may be the tensor itself, or a view of it.
SHARING = frozenset(
    {
        *(
            "detach",
            "view",
            "view_as",
            "reshape",
            "squeeze",
            "unsqueeze",
            "flatten",
            "ravel",
            "t",
            "transpose",
            "permute",
        ),
        *(
            "select",
            "narrow",
            "expand",
            "diagonal",
            "contiguous",
            "to",
            "type",
            "float",
            "double",
            "half",
            "cuda",
            "get",
        ),
    }
)
KEEP_DETACHED = "keep a detached tensor and read it once after the loop, or only on steps that log"


def reads_accelerator(unit: Unit, model: PlacementModel) -> bool:
    """Whether an expression of a unit may be, or hold, what is on an accelerator or where the program is told."""
    model.ensure(unit.scope)
    places = (leaf.place for node in walk(unit.node) for leaf in leaves(model.value(node)))
    return any(place.off_host or place.sort is Sort.SAME for place in places)


def loop_notes(hot: HotLoop, value: Value, facts: Facts) -> tuple[Note, ...]:
    """The trail of the value, then what makes the code hot."""
    return (*facts.notes(value.trail), *hot_notes(hot, facts))


def hot_notes(hot: HotLoop, facts: Facts) -> tuple[Note, ...]:
    """The loop that makes the code hot and the calls that lead from it."""
    loop = facts.note_at(f"hot: {hot.reason}", hot.file, hot.line, hot.column)
    return (loop, *facts.notes(hot.path))


def place_of(value: Value) -> str:
    """What to call the accelerator in a message: `cuda`, or `the accelerator`."""
    return str(value.place) if value.place.off_host and value.place.name else "the accelerator"


def is_no_tensor(node: ast.expr, facts: Facts) -> bool:
    """Whether a thing is asked for what no tensor has, there or elsewhere in its scope: a model, a pipeline, a batch object."""
    path = access_path(node)
    knowledge = torch_knowledge()
    asked = {
        n.attr
        for n in own_nodes(facts.model.enclosing_scope(node))
        if isinstance(n, ast.Attribute) and path is not None and access_path(n.value) == path
    }
    call = next((p for p in facts.model.ancestors(node) if isinstance(p, ast.Call)), None)
    moved = next(facts.model.ancestors(call), None) if call is not None else None
    if isinstance(moved, ast.Attribute):
        asked.add(moved.attr)
    return not asked <= knowledge.tensor_methods.keys() | knowledge.tensor_attributes.keys()


def decides_to_leave(read: ast.expr, hot: HotLoop, facts: Facts) -> bool:
    """Whether a loop goes on or ends by what is read: then the host has to know it. A loop over a loader ends by itself."""
    if hot.node is None or hot.kind == "batch":
        return False
    match facts.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is read:
            pass
        case _:
            name = ""
    return any(
        isinstance(n, ast.If)
        and isinstance(n.body[-1], (ast.Break, ast.Return))
        and any(part is read or (isinstance(part, ast.Name) and part.id == name) for part in ast.walk(n.test))
        for n in ast.walk(hot.node)
    )


def statement_loop(hot: HotLoop) -> ast.For | ast.AsyncFor | ast.While | None:
    """The loop, where it is a statement that something can be added after."""
    return None if hot.node is None or isinstance(hot.node, ast.comprehension) else hot.node


def initialised_before(loop: ast.stmt, name: str, facts: Facts) -> ast.expr | None:
    """The expression that a statement before a loop, in its own block or before the `with` around it, gives a name.

    None where the statement says of what type the name is: that is to stay so.
    """
    found = None
    inner: ast.AST = loop
    for parent in facts.model.ancestors(loop):
        for statement in facts.model.source.before(inner):
            if name in _stored_in(statement):
                found = statement
        if found is not None or not isinstance(parent, (ast.With, ast.AsyncWith)):
            break
        inner = parent
    match found:
        case ast.Assign(targets=targets, value=value) if all(isinstance(t, ast.Name) for t in targets):
            return value
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            return next(
                (v for n, v in zip(names, values, strict=True) if isinstance(n, ast.Name) and n.id == name), None
            )
    return None


@kept_on_node
def _stored_in(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement, or what stands in it, binds."""
    return frozenset(n.id for n in walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def uses_in(loop: ast.AST, name: str) -> int:
    """How often a name stands in a loop, where it is bound included."""
    return _names_in(loop)[name]


@kept_on_node
def _names_in(loop: ast.AST) -> Counter[str]:
    return Counter(n.id for n in own_nodes(loop) if isinstance(n, ast.Name))


def under_no_grad(node: ast.AST, model: PlacementModel) -> bool:
    """Whether no graph is built around a node: `with torch.no_grad():`, `@torch.inference_mode()`."""
    for parent in model.ancestors(node):
        contexts = [i.context_expr for i in parent.items] if isinstance(parent, (ast.With, ast.AsyncWith)) else []
        contexts += parent.decorator_list if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
        if any("no_grad" in (text := ast.unparse(c)) or "inference_mode" in text for c in contexts):
            return True
    return False


def detached(tensor: cst.BaseExpression, node: ast.AST, facts: Facts) -> cst.BaseExpression:
    """The tensor without its graph, where it may have one."""
    found = facts.node(tensor)
    graphless = under_no_grad(node, facts.model) or _is_detached(tensor) or _is_made_without_graph(tensor, facts)
    graphless = graphless or (found is not None and (is_count(found) or _is_drawn(found, facts)))
    return tensor if graphless else without_graph(tensor)


# Comparisons, whose results are true or false and have no graph.
_COMPARISONS = frozenset(
    {"eq", "ne", "lt", "le", "gt", "ge", "isclose", "isnan", "isfinite", "logical_and", "logical_or"}
)


# Methods and functions whose results are numbers of things, or drawn, and have no graph.
_GRAPHLESS = frozenset({"sample", "multinomial", "argmax", "argmin", "nonzero", "bincount"})


def _is_drawn(tensor: ast.expr, facts: Facts) -> bool:
    """`x`, where the last statement before that set it is `x = policy.sample()`."""
    if not isinstance(tensor, ast.Name):
        return False
    statement = facts.model.source.statement_of(tensor)
    for earlier in reversed(facts.model.source.before(statement)):
        if any(
            isinstance(n, ast.Name) and n.id == tensor.id and isinstance(n.ctx, ast.Store) for n in ast.walk(earlier)
        ):
            match earlier:
                case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Attribute(attr=name))):
                    return name in _GRAPHLESS
            return False
    return False


def is_count(node: ast.expr) -> bool:
    """How often something holds: the sum of a comparison, which is a whole number."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum" | "count_nonzero"), args=[inner]):
            return _is_comparison(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="sum" | "count_nonzero")):
            return _is_comparison(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="item" | "cpu" | "detach")):
            return is_count(inner)
    return False


def _is_comparison(node: ast.expr) -> bool:
    match node:
        case ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if name in _COMPARISONS:
            return True
        # As another type it is a count all the same, unless it says that it isn't a whole number.
        case ast.Call(func=ast.Attribute(value=inner, attr="long" | "int" | "view" | "reshape" | "view_as")):
            return _is_comparison(inner)
    return False


def _is_made_without_graph(tensor: cst.BaseExpression, facts: Facts) -> bool:
    """A part of a variable that only gets its value where no graph is built."""
    found = facts.node(tensor)
    while isinstance(found, ast.Subscript):
        found = found.value
    if not isinstance(found, ast.Name):
        return False
    scope = facts.model.enclosing_scope(found)
    set_at = [
        n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id == found.id and isinstance(n.ctx, ast.Store)
    ]
    return bool(set_at) and all(under_no_grad(n, facts.model) for n in set_at)


def kept(tensor: cst.BaseExpression, node: ast.AST, loop: ast.stmt, facts: Facts) -> cst.BaseExpression:
    """The same to be read after a loop: a copy, where later passes may write into the tensor itself."""
    alone = detached(tensor, node, facts)
    found = facts.node(tensor)
    if isinstance(found, ast.expr) and _is_made_in(found, loop):
        return alone
    return cst.Call(cst.Attribute(alone, cst.Name("clone")))


def _is_made_in(tensor: ast.expr, loop: ast.stmt) -> bool:
    """Whether an expression gives a new tensor in each pass of a loop, which nothing there writes into."""
    match tensor:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in SHARING:
            return _is_made_in(inner, loop)
        case ast.Subscript(value=inner) | ast.Attribute(value=inner, attr="data" | "T" | "mT" | "real"):
            return _is_made_in(inner, loop)
        case ast.Call(func=ast.Attribute(attr=name)):
            return not name.endswith("_")
        case ast.Name(id=name):
            made = [n for n in own_nodes(loop) if isinstance(n, (ast.Assign, ast.AnnAssign)) and name in _targets(n)]
            return (
                bool(made)
                and all(n.value is not None and _is_made_anew(n, name, loop) for n in made)
                and not any(_writes_into(n, name) and not _is_through(n, tensor, made, loop) for n in own_nodes(loop))
            )
        case ast.Attribute():
            return False
    return True


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _is_made_anew(node: ast.Assign | ast.AnnAssign, name: str, loop: ast.stmt) -> bool:
    value = node.value
    if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)):
        # Another name of the same tensor, as far as it isn't unpacked.
        return not (isinstance(value, ast.Name) and value.id == name) and _is_made_in(value, loop)
    return value is not None and _is_made_in(value, loop)


def _is_through(write: ast.AST, kept: ast.expr, made: list[ast.Assign | ast.AnnAssign], loop: ast.stmt) -> bool:
    """Whether a pass of a loop makes a tensor, writes into it and is through with that before it is kept: `loss += penalty`."""
    body = getattr(loop, "body", [])
    if not all(statement in body for statement in (write, *made)) or not isinstance(write, ast.stmt):
        return False
    return all(m.lineno < write.lineno for m in made) and (write.end_lineno or write.lineno) < kept.lineno


def _writes_into(node: ast.AST, name: str) -> bool:
    match node:
        case ast.AugAssign(target=target):
            return access_path(target) == name or (
                isinstance(target, ast.Subscript) and access_path(target.value) == name
            )
        case ast.Assign(targets=targets):
            return any(isinstance(t, ast.Subscript) and access_path(t.value) == name for t in targets)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method)):
            return owner == name and method.endswith("_") and not method.endswith("__")
    return False


def without_graph(tensor: cst.BaseExpression) -> cst.BaseExpression:
    """The same tensor, detached."""
    if isinstance(tensor, cst.Attribute) and tensor.attr.value == "data":
        # The way of old to say the same.
        tensor = tensor.value
    if isinstance(tensor, (cst.UnaryOperation, cst.BinaryOperation)) and not tensor.lpar:
        tensor = tensor.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.Call(cst.Attribute(tensor, cst.Name("detach")))


def _is_detached(tensor: cst.BaseExpression) -> bool:
    """`.detach()` stands somewhere in the chain of calls."""
    while isinstance(tensor, (cst.Call, cst.Attribute)):
        if isinstance(tensor, cst.Call):
            tensor = tensor.func
        elif tensor.attr.value == "detach":
            return True
        else:
            tensor = tensor.value
    return False


def end_of(loop: ast.stmt, facts: Facts) -> ast.stmt:
    """The statement after which a line comes once the loop is over: the `with` around it, where it ends that."""
    last = loop
    for parent in facts.model.ancestors(loop):
        if not isinstance(parent, (ast.With, ast.AsyncWith)) or parent.body[-1] is not last:
            break
        last = parent
    return last
