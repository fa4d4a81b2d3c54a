"""Which expressions are given as devices: the arguments of torch that take one, and the names on the way there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, Value, own_nodes
from devlint.knowledge import canonical, torch_knowledge
from devlint.knowledge.cuda import taking_device
from devlint.knowledge.ecosystem import CHEAP_MODULES

if TYPE_CHECKING:
    from devlint.facts import Facts


class Taker(NamedTuple):
    """A call that takes an expression for a device."""

    call: ast.Call
    # What it is called on isn't known.
    likely: bool
    # The function's qualified name, or the method's with a dot before it.
    name: str


# (position, keywords) of the device in functions of torch.
_FUNCTIONS: dict[str, tuple[int, tuple[str, ...]]] = {
    "torch.device": (0, ("device", "type")),
    "torch.load": (1, ("map_location",)),
    "torch.set_default_device": (0, ("device",)),
    "torch.get_device_module": (0, ("device",)),
    "torch.Generator": (0, ("device",)),
    "torch.autocast": (0, ("device_type",)),
    "torch.amp.autocast": (0, ("device_type",)),
    "torch.accelerator.set_device_index": (0, ("device",)),
    "torch.accelerator.synchronize": (0, ("device",)),
}
# Methods of tensors and modules: the position of the device, -1 where it is given by keyword alone.
_METHODS = {"to": 0, "cuda": 0, "xpu": 0, "ipu": 0, "hpu": 0, "npu": 0, "to_empty": -1, "pin_memory": 0}
_MOVED = (Kind.TENSOR, Kind.PARAMETER, Kind.MODULE, Kind.WRAPPER)


def taker(found: ast.expr, facts: Facts) -> Taker | None:
    """The call of torch that takes an expression, or a choice that it is one of, for a device."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.IfExp(test=test) if child is not test:
                child = parent
            case ast.BoolOp() | ast.keyword():
                child = parent
            case ast.Call(args=args, keywords=keywords):
                if child in args and not any(isinstance(a, ast.Starred) for a in args):
                    return _taken(parent, args.index(child), "", facts)
                return (
                    _taken(parent, -1, child.arg or "", facts)
                    if child in keywords and isinstance(child, ast.keyword)
                    else None
                )
            case _:
                return None
    return None


def _taken(call: ast.Call, position: int, keyword: str, facts: Facts) -> Taker | None:
    func = call.func
    # A method keeps the value of what it is called on; functions and classes are references.
    callee = facts.model.value(func)
    if callee.kind is Kind.REFERENCE:
        name = canonical(callee.name)
        return Taker(call, False, name) if _takes(name, position, keyword) else None
    if not isinstance(func, ast.Attribute) or callee.kind in (Kind.CLASS, Kind.FUNCTION):
        return None
    is_move = func.attr in _METHODS and (keyword == "device" or position == _METHODS[func.attr] >= 0)
    if not is_move and not (func.attr.startswith("new_") and keyword == "device"):
        return None
    likely = _is_moved(facts.model.value(func.value), func.attr)
    return None if likely is None else Taker(call, likely, f".{func.attr}")


def _takes(name: str, position: int, keyword: str) -> bool:
    if name in _FUNCTIONS:
        place, keywords = _FUNCTIONS[name]
        return position == place or keyword in keywords
    module, _, function = name.rpartition(".")
    if module in ("torch.cuda", "torch.xpu", "torch.mtia"):
        # Others have what CUDA has, under the same names.
        return function in taking_device() and (position == 0 or keyword == "device")
    knowledge = torch_knowledge()
    return keyword == "device" and (
        name in knowledge.factories or name in knowledge.functions or name in knowledge.modules
    )


def _is_moved(receiver: Value, method: str) -> bool | None:
    """Whether it is only likely a tensor or module of torch; None where it may be something else with such a method."""
    likely = False
    for _, option in receiver.alternatives():
        if option.kind is Kind.UNKNOWN or option.kind is Kind.BATCH:
            likely = True
        elif option.kind not in _MOVED or (option.cls is not None and option.cls.method(method) is not None):
            return None
    return likely


def has_no_parameters(module: Value) -> bool:
    """Modules of torch.nn that hold nothing: a move leaves them as they are, wherever they go."""
    return module.name in CHEAP_MODULES or (module.name.startswith("torch.nn.") and module.name.endswith("Loss"))


def takers(literal: ast.expr, facts: Facts) -> Iterator[Taker]:
    """The calls that an expression comes to as a device: at once, or by the name that it is given."""
    at_once = taker(literal, facts)
    if at_once is not None:
        yield at_once
        return
    for use in uses_by_name(literal, facts):
        facts.model.ensure_around(use)
        found = taker(use, facts)
        if found is not None:
            yield found


def uses_by_name(literal: ast.expr, facts: Facts) -> list[ast.expr]:
    """Where the name is read that an expression is assigned to, or is the default of; none where it is compared or
    worked on in between: it may come out as another."""
    target, scope = _named(literal, facts)
    if target is None or scope is None:
        return []
    text = ast.unparse(target)
    nodes = own_nodes(scope) if isinstance(target, ast.Name) and not isinstance(scope, ast.Module) else ast.walk(scope)
    uses = [
        n
        for n in nodes
        if isinstance(n, type(target)) and isinstance(getattr(n, "ctx", None), ast.Load) and ast.unparse(n) == text
    ]
    if any(_is_worked_on(use, facts) for use in uses):
        return []
    return [use for use in uses if isinstance(use, ast.expr)]


def _named(literal: ast.expr, facts: Facts) -> tuple[ast.expr | None, ast.AST | None]:
    """The name or attribute that holds an expression, and the code in which it does."""
    child: ast.AST = literal
    for parent in facts.model.ancestors(literal):
        match parent:
            case ast.IfExp(test=test) if child is not test:
                child = parent
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                if isinstance(target, ast.Name):
                    return target, facts.model.enclosing_scope(target)
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    around = (p for p in facts.model.ancestors(target) if isinstance(p, ast.ClassDef))
                    return target, next(around, facts.model.source.tree)
                return None, None
            case ast.arguments():
                function = next(facts.model.ancestors(parent))
                name = _parameter(parent, child)
                return (ast.Name(name), function) if name and not isinstance(function, ast.Lambda) else (None, None)
            case _:
                return None, None
    return None, None


def _parameter(arguments: ast.arguments, default: ast.AST) -> str | None:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return next((argument.arg for argument, given in pairs if given is default), None)


def _is_worked_on(use: ast.expr, facts: Facts) -> bool:
    parent = next(facts.model.ancestors(use), None)
    return isinstance(parent, (ast.Compare, ast.Attribute, ast.Subscript, ast.BinOp, ast.AugAssign))
