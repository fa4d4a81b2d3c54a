"""The device that a function was told to use: its parameter `device`, or a local that is worked out from a choice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from devlint.facts import SETTINGS_NAMES, FunctionModel, SourceModule, dotted, is_setting, own_nodes, walk

# Names that hold the one device of a function; `target_device` and the like play parts of their own.
NAMES = ("device", "dev", "torch_device", "_device")


class Chosen(NamedTuple):
    """A device that a scope has at hand.

    `told` says that someone chose it: a caller, an option, a configuration. `falls_back` says that the object's own device
    stands in where nothing was chosen, `alias` what it is another name for.
    """

    name: str
    line: int
    told: bool
    is_parameter: bool = False
    falls_back: bool = False
    alias: str = ""


def chosen_in(scope: FunctionModel | None, source: SourceModule) -> Chosen | None:
    """The device that a function, or a module's top level, has at hand; None where it has none, or several."""
    nodes = scope.nodes if scope is not None else own_nodes(source.tree)
    given = {a.arg for a in scope.parameters} if scope is not None else set()
    for name in NAMES:
        assigned = [n for n in nodes if _is_store(n, name)]
        values = list(_values(nodes, name))
        if name in given:
            assert scope is not None
            if len(values) < len(assigned):
                return None
            alias = next((t for v in values if (t := own_device(v))), "") if _is_always(scope, name) else ""
            return Chosen(name, scope.node.lineno, True, True, any(_asks_self(v) for v in values), alias)
        if not values or len(values) < len(assigned):
            continue
        first = min(values, key=lambda v: v.lineno)
        if any(_is_of_tensor(v) or _is_literal(v) for v in values):
            return None
        return Chosen(
            name,
            first.lineno,
            not all(_is_by_availability(v) for v in values),
            falls_back=any(_asks_self(v) for v in values),
            alias=own_device(first) if len(values) == 1 else "",
        )
    return _setting(nodes)


def _setting(nodes: list[ast.AST]) -> Chosen | None:
    """`args.device`, which needs no name of its own."""
    reads = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr == "device" and is_setting(n)]
    reads = [n for n in reads if isinstance(n.value, ast.Name) and n.value.id != "self"]
    if not reads or any(isinstance(n.ctx, ast.Store) for n in reads):
        return None
    first = min(reads, key=lambda n: n.lineno)
    return Chosen(ast.unparse(first), first.lineno, True)


def _is_always(scope: FunctionModel, name: str) -> bool:
    """Whether a function rebinds its parameter whatever it is given: `device = self.device`, right in its body."""
    return any(isinstance(s, ast.Assign) and any(_is_store(t, name) for t in s.targets) for s in scope.node.body)


def _is_store(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _values(nodes: list[ast.AST], name: str) -> Iterator[ast.expr]:
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value) if any(_is_store(t, name) for t in targets):
                yield value
            case ast.AnnAssign(target=target, value=ast.expr() as value) if _is_store(target, name):
                yield value


def own_device(node: ast.expr) -> str:
    """`self.device` of exactly that, "" of anything else."""
    text = dotted(node) or ""
    return text if text.startswith("self.") and text.count(".") == 1 and text.endswith("device") else ""


def _asks_self(value: ast.expr) -> bool:
    """`device or self.device`, `self._execution_device if device is None else device`."""
    return isinstance(value, (ast.BoolOp, ast.IfExp)) and any(
        isinstance(n, ast.Attribute) and own_device(n) for n in walk(value)
    )


def _is_of_tensor(value: ast.expr) -> bool:
    """`x.device`: where some tensor is, which nobody chose."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            return _is_of_tensor(body) or _is_of_tensor(orelse)
        case ast.BoolOp(values=values):
            return any(_is_of_tensor(v) for v in values)
        case ast.Attribute(value=ast.Name(id=name), attr="device"):
            return name not in SETTINGS_NAMES and name not in ("accelerator", "fabric")
        case ast.Attribute(value=ast.Call() | ast.Subscript(), attr="device"):
            return True
    return False


def _is_literal(value: ast.expr) -> bool:
    """`"cuda"`, `torch.device("cuda", 0)`."""
    match value:
        case ast.Constant():
            return True
        case ast.Call(func=func, args=args, keywords=keywords):
            given = [*args, *(k.value for k in keywords)]
            return (dotted(func) or "").endswith("device") and all(isinstance(a, ast.Constant) for a in given)
    return False


def _is_by_availability(value: ast.expr) -> bool:
    if "current_accelerator" in ast.unparse(value):
        return True
    return "is_available" in ast.unparse(value) and not any(isinstance(n, ast.BoolOp) for n in walk(value))
