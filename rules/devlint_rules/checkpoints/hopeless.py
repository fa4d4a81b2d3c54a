"""What fails wherever a checkpoint is loaded to: where it is loaded is the least of its troubles, and nobody wants that fixed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devlint.facts import own_nodes
from devlint.knowledge.ecosystem import SCRIPTED_IN_PICKLES
from devlint.lazy import regex
from devlint_rules.checkpoints.uses import uses_of

if TYPE_CHECKING:
    from devlint.facts import Facts


# A part of a checkpoint that no module calls a parameter.
_PART = regex(r"(?i)epoch|state_dict|optimizer|arch|best|args|config")


def is_of_pattern(call: ast.Call) -> bool:
    """Whether a file's name still has its placeholder, which nothing fills in: `torch.load("net_%d.pth")` finds no file anywhere."""
    match call.args[:1]:
        case [ast.Constant(value=str() as name)]:
            return _PLACEHOLDER.search(name) is not None
    return False


_PLACEHOLDER = regex(r"%[ds]|\{\w{0,20}\}")


def loads_what_wraps(call: ast.Call, facts: Facts) -> bool:
    """Whether a load fails wherever it is: `start = x["epoch"]`, and `net.load_state_dict(x)` with that very dict, which holds more than the net's parameters."""
    match next(facts.model.ancestors(call), None):
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return False
    named = [n for n in own_nodes(facts.model.enclosing_scope(call)) if isinstance(n, ast.Name) and n.id == name]
    stores = sorted(n.lineno for n in named if not isinstance(n.ctx, ast.Load) and n.lineno > call.lineno)
    reads = [n for n in named if isinstance(n.ctx, ast.Load) and call.lineno < n.lineno < min(stores, default=10**9)]
    parts = [n for n in reads if _is_part(n, facts)]
    wholes = [n for n in reads if _is_loaded_whole(n, facts)]
    return any(_conditions(part, facts) <= _conditions(whole, facts) for part in parts for whole in wholes)


def is_whole_model(call: ast.Call, facts: Facts) -> bool:
    """Whether a file holds a module itself rather than its state: `torch.load(path).eval()`, `x["model"].state_dict()`."""
    return any(_is_asked_as_module(use, facts) for use in uses_of(call, facts))


def _is_asked_as_module(use: ast.expr, facts: Facts) -> bool:
    child: ast.AST = use
    moved = False
    for parent in facts.model.ancestors(use):
        match parent:
            case ast.Subscript(value=value, slice=ast.Constant()) if value is child:
                pass
            case ast.Attribute(attr=attr):
                if attr in _OF_MODULES:
                    return True
                if attr not in _MOVING:
                    return False
                moved = True
            case ast.Call(func=func) if func is child:
                if not isinstance(child, ast.Attribute):
                    # It is called itself.
                    return True
            case _:
                # A tensor that is moved stays where it was.
                return moved and isinstance(parent, ast.Expr)
        child = parent
    return False


# What only modules are asked for.
_OF_MODULES = frozenset(
    {"eval", "train", "state_dict", "parameters", "named_parameters", "modules", "children", "zero_grad"}
)
_MOVING = frozenset({"to", "cuda", "cpu", "half", "float", "double"})


def may_be_refused(call: ast.Call) -> bool:
    """Whether nothing says that classes may be unpickled: since PyTorch 2.6, `torch.load` refuses these by default."""
    return all(k.arg != "weights_only" for k in call.keywords)


def brings_scripts(facts: Facts) -> bool:
    """Whether a project uses a library whose modules load what they hold in a way of their own, which `map_location` doesn't reach."""
    return any(
        facts.model.texts_match(rf"(?m)^[ \t]*(?:import|from)[ \t]+{name}\b", elsewhere=True)
        for name in SCRIPTED_IN_PICKLES
    )


def _is_part(name: ast.Name, facts: Facts) -> bool:
    match next(facts.model.ancestors(name), None):
        case ast.Subscript(value=value, slice=ast.Constant(value=str() as key), ctx=ast.Load()) if value is name:
            return key.isidentifier() and _PART.search(key) is not None
    return False


def _is_loaded_whole(name: ast.Name, facts: Facts) -> bool:
    match next(facts.model.ancestors(name), None):
        case ast.Call(func=ast.Attribute(attr="load_state_dict"), args=[whole, *_]):
            return whole is name
    return False


def _conditions(node: ast.AST, facts: Facts) -> set[tuple[ast.AST, bool]]:
    """The branches that a node stands in, each with whether it is the first one."""
    found: set[tuple[ast.AST, bool]] = set()
    child = node
    for parent in facts.model.ancestors(node):
        if isinstance(parent, (ast.If, ast.IfExp, ast.Try, ast.For, ast.While, ast.ExceptHandler)):
            first = parent.body
            found.add((parent, child in first if isinstance(first, list) else child is first))
        child = parent
    return found
