"""What a program surely comes by: a move to CUDA under no condition, in what it calls and makes too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from devlint.facts import FunctionNode, kept_on_node, last_name, own_nodes, walk
from devlint.knowledge.cuda import raising
from devlint.lazy import regex
from devlint_rules.guards import moves_on_each_way

if TYPE_CHECKING:
    from devlint.facts import PlacementModel

# A place that is on an accelerator: `"cuda"`, `"cuda:0"`, `f"cuda:{gpu}"`, `torch.device("cuda")`, and `torch.device(0)`, which fails where there is none.
CUDA = regex(
    r"torch\.device\(\d{1,2}\)|(?:torch\.device\()?(?:['\"]cuda(?::\d+)?['\"]|f['\"]cuda:\{[\w.]{1,60}\}['\"]|['\"]cuda:\{\}['\"]\.format\([\w.]{1,60}\))\)?"
)
# Calls are followed this deep, and into so many functions.
_MAX_DEPTH = 6
_MAX_FUNCTIONS = 200
# What runs when an object of a class is made, and when a module is called, as all are that are made.
_RUN = ("__init__", "forward")

Found = Iterator[tuple["PlacementModel", FunctionNode]]


def comes_by_cuda(model: PlacementModel, node: ast.AST) -> bool:
    """Whether something is moved to an accelerator around a node, or by the object's own methods, whatever there is."""
    scope, owner = model.enclosing_scope(node), model.source.class_of(node)
    methods = [m for m in owner.body if isinstance(m, _FUNCTIONS)] if owner is not None else []
    shared = set(model.ancestors(node))
    if any(_moves_anyway(n, model, method, shared) for method in methods for n in own_nodes(method)):
        return True
    return _Way().leads_there(model, scope, shared)


class _Way:
    """The functions that were looked into, and what came of that."""

    def __init__(self) -> None:
        self._known: dict[ast.AST, bool] = {}

    def leads_there(self, model: PlacementModel, scope: ast.AST, shared: set[ast.AST], depth: int = 0) -> bool:
        """Whether a scope moves something to CUDA under no condition but those `shared` with what is asked about."""
        if scope in self._known or depth > _MAX_DEPTH or len(self._known) > _MAX_FUNCTIONS:
            return self._known.get(scope, False)
        # What calls itself comes by nothing else for that.
        self._known[scope] = False
        nodes = own_nodes(scope)

        def leads(node: ast.AST) -> bool:
            return isinstance(node, ast.Call) and any(
                self.leads_there(file, function, set(), depth + 1) for file, function in _run_by(node, model, scope)
            )

        self._known[scope] = (
            any(_moves_anyway(n, model, scope, shared) for n in nodes)
            or any(isinstance(n, ast.Call) and _is_met_anyway(n, model, scope, shared) and leads(n) for n in nodes)
            or (_first_leaving(scope) == inf and moves_on_each_way(getattr(scope, "body", []), leads))
        )
        return self._known[scope]


def _run_by(call: ast.Call, model: PlacementModel, scope: ast.AST) -> Found:
    """The functions of the project that a call surely runs, going by names: of a class that it makes, the constructor and `forward`."""
    for own in scope.body if isinstance(scope, ast.FunctionDef) else []:
        if isinstance(own, ast.FunctionDef) and isinstance(call.func, ast.Name) and own.name == call.func.id:
            yield model, own
            return
    called = model.callee(call)
    if called is None:
        yield from _run_by_import(call, model, scope)
        return
    # Of a class that is made, the function is its constructor.
    computing = called.makes.method("forward") if called.makes is not None else None
    for function in (called.function, *([computing] if computing is not None else [])):
        if (file := model.file_of(function.source)) is not None:
            yield file, function.node


@kept_on_node
def _imports_in(scope: ast.AST) -> dict[str, list[ast.Import | ast.ImportFrom]]:
    """The imports of a scope by the names that they bind."""
    found: dict[str, list[ast.Import | ast.ImportFrom]] = {}
    for node in own_nodes(scope):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name.partition(".")[0], []).append(node)
    return found


def _run_by_import(call: ast.Call, model: PlacementModel, scope: ast.AST) -> Found:
    """What a name means that the scope itself imports: `from trainers import single_gpu`, and then `single_gpu.Trainer(...)`."""
    root = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    imports = _imports_in(scope).get(root.id, ()) if isinstance(root, ast.Name) else ()
    for source in (s for n in imports for s in model.imported_modules(n)):
        if (file := model.file_of(source)) is None:
            continue
        for defined in source.tree.body:
            if isinstance(defined, _FUNCTIONS) and defined.name == last_name(call.func):
                yield file, defined
            elif isinstance(defined, ast.ClassDef) and defined.name == last_name(call.func):
                yield from ((file, s) for s in defined.body if isinstance(s, _FUNCTIONS) and s.name in _RUN)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _moves_anyway(node: ast.AST, model: PlacementModel, scope: ast.AST, shared: set[ast.AST]) -> bool:
    """`model.cuda()`, `x.to("cuda")`, `x.to(0)` under no condition of a scope but those `shared` with what is asked about.

    So is `x.to(DEVICE)` of a file, a function or a class that says `DEVICE = "cuda"`, and what raises without one:
    `torch.cuda.synchronize()`.
    """
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            pass
        case ast.Call(func=ast.Attribute(attr="to"), args=[place, *_]) if _names_cuda(place, model):
            pass
        case ast.Call(keywords=keywords) if any(k.arg == "device" and _is_on_cuda(k.value, model) for k in keywords):
            # `net = built(settings, device="cuda")`, but not the options of something, nor what is a dictionary of them.
            if not _makes_there(node, model):
                return False
        case ast.Call(args=given) if any(CUDA.fullmatch(ast.unparse(g)) for g in given if isinstance(g, ast.Constant)):
            if not _moves_to_what_it_is_told(node, model):
                return False
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="cuda"), attr=name), args=given) if name in raising():
            # What each process of several has is another matter.
            if name == "set_device" and any("rank" in ast.unparse(index) for index in given):
                return False
        case ast.Call(func=ast.Attribute(attr="initialize") as func) if model.qualified(func) == "apex.amp.initialize":
            # Parameters that aren't on an accelerator are refused (`check_params_fp32`).
            pass
        case ast.Call(keywords=keywords) if any(map(_asks_for_gpu, keywords)):
            # Lightning's raise where there is none (`MisconfigurationException: No supported gpu backend found!`).
            pass
        case ast.Call(func=ast.Attribute(), args=[ast.Constant(value="cuda" | "gpu")]) if isinstance(
            next(model.ancestors(node), None), ast.Expr
        ):
            # `model.intype("gpu")`
            pass
        case _:
            return False
    return _is_met_anyway(node, model, scope, shared)


def _asks_for_gpu(keyword: ast.keyword) -> bool:
    """`accelerator="gpu"`"""
    return (
        keyword.arg == "accelerator"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value in ("gpu", "cuda")
    )


def _makes_there(call: ast.Call, model: PlacementModel) -> bool:
    """Whether what is told a device in a call makes something there: a function of the project, a factory of torch's."""
    called = model.callee(call)
    if called is None:
        return (model.qualified(call.func) or "").startswith("torch.") and last_name(call.func) != "device"
    return called.makes is None or _moves_to_what_it_is_told(call, model)


def _moves_to_what_it_is_told(call: ast.Call, model: PlacementModel) -> bool:
    """`Net(8, "cuda")`, of a class or a function that moves something to what it is given there."""
    called = model.callee(call)
    if called is None:
        return False
    told = {name for name, value in called.given(call).items() if CUDA.fullmatch(ast.unparse(value))}
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == "to"
        and any(isinstance(a, ast.Name) and a.id in told for a in n.args)
        for n in called.function.nodes
    )


def _is_met_anyway(node: ast.AST, model: PlacementModel, scope: ast.AST, shared: set[ast.AST]) -> bool:
    """Whether a node of a scope stands under no condition but those that are shared, and behind none that leaves without an accelerator."""
    if _first_leaving(scope) < getattr(node, "lineno", 0):
        return False
    around = [parent for parent in _up_to(node, scope, model) if parent not in shared]
    counted = {
        n.id for loop in around if isinstance(loop, ast.For) for n in walk(loop.target) if isinstance(n, ast.Name)
    }
    # What a loop asks of its own count holds for some pass.
    return not any(_is_condition(parent) and not _asks_of(parent, counted) for parent in around)


@kept_on_node
def _first_leaving(scope: ast.AST) -> float:
    """The first line of a scope that leaves without an accelerator; infinity where none does."""
    return min((s.lineno for s in own_nodes(scope) if isinstance(s, ast.stmt) and _leaves_for_want(s)), default=inf)


def _leaves_for_want(statement: ast.AST) -> bool:
    """`if not torch.cuda.is_available(): return x`: what stands behind it isn't for everybody."""
    match statement:
        case ast.If(test=test, body=[*_, ast.Return() | ast.Continue()]):
            return _OF_A_PLACE.search(ast.unparse(test)) is not None
    return False


_OF_A_PLACE = regex(r"(?i)cuda|[cg]pu|device")


def _asks_of(condition: ast.AST, names: set[str]) -> bool:
    test = condition.test if isinstance(condition, ast.If) else None
    return test is not None and any(isinstance(n, ast.Name) and n.id in names for n in walk(test))


def _names_cuda(place: ast.expr, model: PlacementModel) -> bool:
    # `model.to(0)`: the first accelerator.
    return (isinstance(place, ast.Constant) and type(place.value) is int) or _is_on_cuda(place, model)


def _is_on_cuda(place: ast.expr, model: PlacementModel) -> bool:
    """Whether an expression is a CUDA device, wherever what it names is set."""
    if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id == "self":
        cls = model.source.class_of(place)
        given = _set_in(cls, place.attr) if cls is not None else []
        return bool(given) and all(CUDA.fullmatch(ast.unparse(value)) for value in given)
    if isinstance(place, ast.Name):
        # `device = the_device` of a file that says `the_device = "cuda:0"`.
        given = [v for g in _given_to(place, model) for v in _given_to(g, model) or [g]]
        return bool(given) and all(CUDA.fullmatch(ast.unparse(value)) for value in given)
    return CUDA.fullmatch(ast.unparse(place)) is not None


def _given_to(name: ast.expr, model: PlacementModel) -> list[ast.expr]:
    """What a name is given at the top of its file and around; nothing where it is no name."""
    if not isinstance(name, ast.Name):
        return []
    on_top = [n.value for n in model.source.bindings.get(name.id, ()) if isinstance(n, ast.Assign)]
    return [*on_top, *model.assigned_values(name)]


def _set_in(cls: ast.ClassDef, name: str) -> list[ast.expr]:
    """What the methods of a class set an attribute of `self` to."""
    return [
        n.value
        for n in walk(cls)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Attribute) and t.attr == name for t in n.targets)
    ]


def _up_to(node: ast.AST, scope: ast.AST, model: PlacementModel) -> Iterator[ast.AST]:
    for parent in model.ancestors(node):
        if parent is scope:
            return
        yield parent


def _is_condition(parent: ast.AST) -> bool:
    if isinstance(parent, ast.If):
        return "__name__" not in ast.unparse(parent.test)
    return isinstance(parent, (ast.IfExp, ast.BoolOp, ast.match_case, ast.Try, ast.FunctionDef, ast.Lambda))
