"""The device that code has at hand where it names CUDA: a parameter, an attribute, what an operand is on."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import Kind, own_nodes

if TYPE_CHECKING:
    from devlint.facts import Facts

# `current_accelerator(check_available=True)` came with 2.7.
CHECKS_SINCE = (2, 7)
_TYPES = ("device_type", "accelerator_type", "accel_type")


class AtHand(NamedTuple):
    """Code that gives the device, and code that gives its type."""

    device: str
    type: str


def at_hand(found: ast.expr, facts: Facts) -> AtHand | None:
    """What gives the device where an expression stands; None where nothing there does."""
    named = _named(found, facts) or _of_self(found, facts) or _of_operand(found, facts)
    return named


def _named(found: ast.expr, facts: Facts) -> AtHand | None:
    """A variable or parameter, also of a function around."""
    for name in ("device", *_TYPES):
        if (
            _is_bound(name, found, facts)
            and not _is_assigned_here(name, found, facts)
            and not _is_none_there(name, found, facts)
        ):
            return AtHand(name, name if name in _TYPES else _typed(name, found, facts))
    return None


def _is_none_there(name: str, found: ast.expr, facts: Facts) -> bool:
    """Whether an expression stands where a test has told that a variable holds nothing: `x if device is not None else ...`."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.If(test=test, body=body) | ast.IfExp(test=test, body=body) if child is not test:
                is_in_body = child in body if isinstance(body, list) else child is body
                if _holds_nothing(test, name) is is_in_body:
                    return True
        child = parent
    return False


def _holds_nothing(test: ast.expr, name: str) -> bool | None:
    """True where a test holds for a variable without a value, False where it holds for one with a value."""
    match test:
        case ast.Name(id=tested) if tested == name:
            return False
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            other = _holds_nothing(operand, name)
            return None if other is None else not other
        case ast.Compare(left=ast.Name(id=tested), ops=[op], comparators=[ast.Constant(value=None)]) if tested == name:
            return isinstance(op, (ast.Is, ast.Eq))
    return None


def _is_bound(name: str, found: ast.expr, facts: Facts) -> bool:
    if facts.model.is_bound_before(name, found):
        return True
    around = outermost(found, facts)
    before = (n for n in own_nodes(around) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store))
    return not isinstance(around, ast.Module) and any(n.lineno < found.lineno for n in before)


def outermost(found: ast.AST, facts: Facts) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Module:
    """The function around that no other is around, but for those of other classes; the module elsewhere."""
    scope = facts.model.enclosing_scope(found)
    for parent in facts.model.ancestors(scope):
        if isinstance(parent, ast.ClassDef):
            break
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope = parent
    return scope


def _typed(name: str, found: ast.expr, facts: Facts) -> str:
    """Code for the type of the device that a variable holds: an object, or a string."""
    for node in _scope_nodes(found, facts):
        match node:
            case ast.arg(arg=argument, annotation=ast.expr() as annotation) if argument == name:
                if re.search(r"\bstr\b", ast.unparse(annotation)):
                    return f"torch.device({name}).type"
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                text = ast.unparse(value)
                if not re.search(r"torch\.device|current_accelerator\([^)\n]{0,80}\)(?!\.type)|\.device\b", text):
                    return f"torch.device({name}).type"
    return f"{name}.type"


def _scope_nodes(found: ast.expr, facts: Facts) -> list[ast.AST]:
    around = dict.fromkeys((facts.model.enclosing_scope(found), outermost(found, facts)))
    scopes = [s for s in around if not isinstance(s, ast.Module)]
    inside = [n for s in scopes for n in (*ast.walk(s.args), *own_nodes(s))]
    return [*inside, *own_nodes(facts.model.source.tree)]


def _is_assigned_here(name: str, found: ast.expr, facts: Facts) -> bool:
    """Whether the variable gets its value from what is looked at."""
    for parent in facts.model.ancestors(found):
        if isinstance(parent, ast.stmt):
            nodes = own_nodes(parent) if isinstance(parent, (ast.Assign, ast.AnnAssign)) else []
            return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in nodes)
    return False


def _of_self(found: ast.expr, facts: Facts) -> AtHand | None:
    """`self.device`, where the class has one."""
    scope = facts.model.enclosing_scope(found)
    cls = facts.model.source.class_of(scope)
    if isinstance(scope, ast.Module) or cls is None or not scope.args.args or scope.args.args[0].arg != "self":
        return None
    text = facts.code_of(cls)
    for name in ("device", *_TYPES):
        if not re.search(rf"\bself\.{name}\s*(?::[^=\n]+)?=[^=]|\bdef {name}\(self", text):
            continue
        if re.search(rf"self\.{name}\b", ast.unparse(facts.model.source.statement_of(found))) or scope.name == name:
            # Being set here.
            continue
        return AtHand(f"self.{name}", f"self.{name}" if name != "device" else "self.device.type")
    return None


def _of_operand(found: ast.expr, facts: Facts) -> AtHand | None:
    """The device of a tensor that the result is computed with."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        if isinstance(parent, ast.BinOp):
            other = parent.right if child is parent.left else parent.left
            if isinstance(other, ast.Name) and facts.model.value(other).kind in (Kind.TENSOR, Kind.PARAMETER):
                return AtHand(f"{other.id}.device", f"{other.id}.device.type")
        if isinstance(parent, ast.stmt):
            return None
        child = parent
    return None
