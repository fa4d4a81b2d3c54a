"""What takes its size from a tensor's values: the host has to wait before it knows how large the result is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from devlint.facts import HOST, Value, is_mask
from devlint.knowledge import ecosystem

if TYPE_CHECKING:
    from devlint.facts import Facts

# What reads its tensor back: the host waits right there, whatever it waited for before.
_READERS = frozenset({"item", "tolist", "cpu", "numpy", "float", "int"})


class Sized(NamedTuple):
    """An expression whose size is asked for: the tensor that decides it, and what to write instead."""

    asked: ast.expr
    value: Value
    instead: str


def sized_by_values(node: ast.expr, facts: Facts) -> Sized | None:
    """What of an accelerator's tensor a call or a subscript waits for, to know how large its result is."""
    if _is_read_at_once(node, facts):
        return None
    match node:
        case ast.Call():
            return _by_function(node, facts)
        case ast.Subscript(value=base, slice=index) if not _fills(node, facts) and not _is_told(node, facts):
            for mask in (part for part in _parts(index) if is_mask(part, facts.model.assigned_values)):
                value = _accelerated(mask, facts) or _accelerated(base, facts)
                if value is not None and not _is_on_host(mask, facts):
                    return Sized(mask, value, _instead_of_mask(node, mask, facts))
    return None


def may_be_sized(node: ast.AST) -> bool:
    """The same told from the `ast` alone."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in ecosystem.SIZED_BY_VALUES
        case ast.Subscript(slice=index):
            return any(
                not isinstance(part, (ast.Constant, ast.Slice, ast.Subscript, ast.Attribute)) for part in _parts(index)
            )
    return False


def _is_read_at_once(node: ast.expr, facts: Facts) -> bool:
    for parent in facts.model.ancestors(node):
        if isinstance(parent, ast.stmt):
            return False
        match parent:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _READERS:
                return True
    return False


def _accelerated(node: ast.expr, facts: Facts) -> Value | None:
    known = facts.accelerated(facts.model.value(node))
    return known[0] if known is not None else None


def _is_on_host(node: ast.expr, facts: Facts) -> bool:
    """Whether the host has the mask itself, and needn't ask."""
    return all(v.is_tensor and v.place == HOST for _, v in facts.model.value(node).alternatives())


# -- functions ---------------------------------------------------------------------------------------------------------


def _by_function(call: ast.Call, facts: Facts) -> Sized | None:
    name = facts.model.value(call.func).name
    arguments = list(call.args)
    if not name.startswith("torch.") and isinstance(call.func, ast.Attribute):
        name, arguments = call.func.attr, [call.func.value, *arguments]
    sizing = ecosystem.SIZED_BY_VALUES.get(name.removeprefix("torch.").removeprefix("nn.functional."))
    if sizing is None or len(arguments) <= sizing.argument:
        return None
    if len(arguments) + len(call.keywords) > 1 and sizing.alone:
        return None
    if any(isinstance(a, ast.Starred) for a in arguments) or any(k.arg in (None, *sizing.told) for k in call.keywords):
        return None
    asked = arguments[sizing.argument]
    value = _accelerated(asked, facts)
    return Sized(asked, value, sizing.instead) if value is not None else None


# -- masks -------------------------------------------------------------------------------------------------------------


def _parts(index: ast.expr) -> list[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _fills(node: ast.Subscript, facts: Facts) -> bool:
    """`x[mask] = 0` is filled in on the device, and `del` is no tensor's: other values are laid out by a count."""
    if isinstance(node.ctx, ast.Load):
        return False
    match facts.statement:
        case ast.Assign(value=value):
            return _accelerated(value, facts) is None
        case ast.AugAssign():
            return False
    return True


def _is_told(node: ast.Subscript, facts: Facts) -> bool:
    """The statement takes the same elements of something else before: that is told of once."""
    mask = ast.unparse(node.slice)
    same = (n for n in ast.walk(facts.statement) if isinstance(n, ast.Subscript) and ast.unparse(n.slice) == mask)
    return any((n.lineno, n.col_offset) < (node.lineno, node.col_offset) for n in same)


def _instead_of_mask(node: ast.Subscript, mask: ast.expr, facts: Facts) -> str:
    """What to write, by what is done with the elements that a mask takes."""
    tensor, chosen = facts.code_of(node.value), facts.code_of(mask)
    count = f"{chosen}.sum()" if isinstance(mask, (ast.Name, ast.Attribute)) else f"({chosen}).sum()"
    if not isinstance(node.ctx, ast.Load):
        return f"`torch.where({chosen}, ..., {tensor})` chooses on the device"
    match next(facts.model.ancestors(node), None):
        case ast.Attribute(attr="sum" | "mean" as name):
            total = f"torch.where({chosen}, {tensor}, 0).sum()"
            return f"`{total if name == 'sum' else f'{total} / {count}'}` needs no size"
        case ast.Attribute(attr="shape" | "size" | "numel") | ast.Call(func=ast.Name(id="len")):
            return f"`{count}` counts on the device"
    return ecosystem.KEEP_ALL
