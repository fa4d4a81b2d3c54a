"""Where the modules of a class are made and moved, and whether they hold anything that moves."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import dotted, last_name, own_nodes

if TYPE_CHECKING:
    from devlint.facts import ClassInfo, FunctionModel, PlacementModel

# Modules that were saved as a whole and are loaded for another device, or that get replicas on others.
_ELSEWHERE = r"torch\.load\([^\n]{0,200}\)\.(?:to|cuda)\(|\bDataParallel\("


def is_moved_to_the_same(constructor: FunctionModel, model: PlacementModel) -> bool:
    """Whether each call in sight that makes a module, and there are some, has it moved to the very device that it is given."""
    parameters = [a.arg for a in constructor.parameters]
    name = next((p for p in parameters if p.endswith("device")), "")
    if constructor.name != "__init__" or not name or model.texts_match(_ELSEWHERE):
        return False
    calls = model.calls_in_sight(constructor.node)
    position = parameters.index(name) - 1
    return bool(calls) and all(_is_moved(file, call, _given(call, name, position)) for file, call in calls)


def _given(call: ast.Call, name: str, position: int) -> str:
    """What a call gives for a parameter, as text; "" where it leaves it, or that can't be told."""
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return ""
    given = [k.value for k in call.keywords if k.arg == name] or call.args[position : position + 1]
    return ast.unparse(given[0]) if given else ""


def _is_moved(file: PlacementModel, call: ast.Call, device: str) -> bool:
    if not device:
        return False
    names: set[str] = set()
    child: ast.AST = call
    for parent in file.ancestors(call):
        if isinstance(parent, ast.Call) and _moves_to(parent, device) and parent.func is child:
            return True
        if isinstance(parent, ast.Assign):
            names = {name for t in parent.targets if (name := dotted(t))}
        if isinstance(parent, ast.stmt) or not isinstance(parent, (ast.Attribute, ast.Call)):
            break
        child = parent
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and dotted(n.func.value) in names
        and _moves_to(n, device)
        for n in own_nodes(file.enclosing_scope(call))
    )


def _moves_to(call: ast.Call, device: str) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "to"
        and len(call.args) == 1
        and ast.unparse(call.args[0]) == device
    )


# Modules without parameters and buffers, as losses are.
_EMPTY = frozenset(
    {"Softmax", "LogSoftmax", "ReLU", "Sigmoid", "Tanh", "Dropout", "GELU", "Flatten", "Identity", "CosineSimilarity", "LeakyReLU", "Softplus", "super", "__init__", "to"}
)  # fmt: skip


def holds_nothing(cls: ClassInfo | None) -> bool:
    """Whether a module holds no parameter, buffer or part with such: nobody moves a loss."""
    constructor = cls.method("__init__") if cls is not None else None
    if cls is None or constructor is None or len(list(cls.lineage())) > 1:
        return False
    if any(word in cls.text for word in ("register_", "Parameter(", "add_module", "setattr(", "torch.load(")):
        return False
    made = [last_name(n.func) for n in constructor.nodes if isinstance(n, ast.Call)]
    return all(name in _EMPTY or name.endswith("Loss") for name in made)
