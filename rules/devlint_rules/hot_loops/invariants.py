"""What stays the same over the passes of a loop, told from what the loop binds, changes and hands on."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import Kind, access_path, is_under, own_nodes
from devlint.knowledge import canonical, torch_knowledge
from devlint.knowledge.ecosystem import CONSTRUCTORS

if TYPE_CHECKING:
    from devlint.facts import Facts

# Calls whose result depends on their arguments alone; tensor methods are added from what is known of torch.
_PURE = frozenset(
    f"builtins.{name}"
    for name in ("len", "range", "list", "tuple", "float", "int", "min", "max", "abs", "round", "bool")
) | {"numpy.array", "numpy.asarray", "torch.device", "numpy.arange", "numpy.linspace", "numpy.zeros", "numpy.ones"}
_RANDOM = ("rand", "normal", "bernoulli", "multinomial", "empty", "poisson", "dropout", "from_file")


class Changes:
    """What the passes of a loop (or the calls of a function) may each find different."""

    def __init__(self, around: ast.AST, facts: Facts) -> None:
        self._facts = facts
        self._paths: set[str] = set()
        self._called_on_self: set[str] = set()
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._paths |= {a.arg for a in ast.walk(around.args) if isinstance(a, ast.arg)}
        if isinstance(around, (ast.For, ast.AsyncFor)):
            self._stored(around.target)
        for node in own_nodes(around):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                self._paths.add(name)
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                self._stored(node)
            case ast.Call(func=ast.Attribute(value=receiver, attr=name)):
                if not (name in torch_knowledge().tensor_methods and not name.endswith("_")):
                    self._handed_on(receiver, name)
                self._arguments(node)
            case ast.Call():
                self._arguments(node)
            case ast.alias(name=name, asname=asname):
                self._paths.add(asname or name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                self._paths.add(name)

    def _stored(self, target: ast.expr) -> None:
        for node in ast.walk(target):
            path = access_path(node) if isinstance(node, ast.expr) else None
            if isinstance(node, ast.Subscript) and path is None:
                path = access_path(node.value)
            if path is not None and path != "self":
                self._paths.add(path)

    def _handed_on(self, receiver: ast.expr, name: str) -> None:
        """A method may change its object; of a module, and of what has no state, only calls are known not to."""
        path = access_path(receiver)
        kinds = {v.kind for _, v in self._facts.model.value(receiver).alternatives()}
        if path == "self":
            self._called_on_self.add(name)
        elif (path is not None and not kinds & {Kind.REFERENCE, Kind.CLASS, Kind.TENSOR, Kind.PARAMETER}) or (
            path is not None and name.endswith("_") and kinds & {Kind.TENSOR, Kind.PARAMETER}
        ):
            self._paths.add(path)

    def _arguments(self, call: ast.Call) -> None:
        """A list that is handed to some function may be another afterwards."""
        value = self._facts.model.value(call.func)
        if value.kind is Kind.REFERENCE and value.name.split(".")[0] in ("torch", "builtins", "numpy", "math"):
            return
        for argument in [*call.args, *(k.value for k in call.keywords)]:
            path = access_path(argument)
            given = self._facts.model.value(argument)
            if path is not None and not given.is_tensor and given.kind not in (Kind.CONSTANT, Kind.SCALAR, Kind.DEVICE):
                self._paths.add(path)

    def touch(self, path: str) -> bool:
        """Whether what a path names may be another, or hold something else, on the next pass."""
        if any(p == path or is_under(path, p) or is_under(p, path) for p in self._paths):
            return True
        if path.startswith("self.") and self._called_on_self:
            attribute = path.split(".")[1].split("[")[0]
            cls = self._facts.model.class_around(self._facts.statement)
            return cls is None or any(f.name not in CONSTRUCTORS for f in cls.writers(attribute))
        return False

    def leave(self, node: ast.expr) -> bool:
        """Whether an expression gives the same on each pass."""
        path = access_path(node)
        if path is not None:
            return not self.touch(path)
        match node:
            case ast.Constant():
                return True
            case ast.Call():
                return self._is_pure(node)
            case ast.Lambda() | ast.Await() | ast.Yield() | ast.YieldFrom() | ast.NamedExpr():
                return False
        children = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
        return not isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)) and all(
            self.leave(c) for c in children
        )

    def _is_pure(self, call: ast.Call) -> bool:
        value = self._facts.model.value(call.func)
        arguments = [*call.args, *(k.value for k in call.keywords if k.arg != "device")]
        if value.kind is Kind.REFERENCE:
            name = canonical(value.name)
            known = name in _PURE or name in torch_knowledge().functions or name in torch_knowledge().factories
            same = known and not any(word in name for word in _RANDOM)
        else:
            func = call.func
            same = (
                isinstance(func, ast.Attribute)
                and func.attr in torch_knowledge().tensor_methods | {"to": "", "cuda": ""}
                and not func.attr.endswith("_")
                and not any(word in func.attr for word in _RANDOM)
                and self.leave(func.value)
            )
            if same and isinstance(func, ast.Attribute) and func.attr in ("to", "cuda"):
                # Where it goes is the device's affair.
                return True
        return same and not any(k.arg is None for k in call.keywords) and all(self.leave(a) for a in arguments)
