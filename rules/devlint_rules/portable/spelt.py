"""How CUDA is spelt where a device, or the type of one, is asked for: `"cuda"`, `f"cuda:{n}"`, `.cuda()`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from devlint.facts import dotted
from devlint.lazy import regex
from devlint_rules.devices.arguments import taker
from devlint_rules.portable.indices import index_counts

if TYPE_CHECKING:
    from devlint.facts import Facts


# What a string that names CUDA as a device looks like; the index behind it may be computed.
_LITERAL = regex(r"cuda(?::(\d+)?)?")
# What is called like a device, or like the type of one.
_DEVICE = regex(r"(?:^|_)(?:device|dev|map_location|accelerator)$|^device_map$", re.IGNORECASE)
_TYPE = regex(r"(?:device|accel|accelerator)_type$|^device\.type$", re.IGNORECASE)
# Functions whose first argument is the type of a device.
_TYPE_FIRST = frozenset({"torch.autocast", "torch.amp.autocast", "torch.amp.GradScaler", "torch.get_autocast_dtype"})
MESHES = frozenset({"init_device_mesh", "DeviceMesh"})


def comparison_of(found: ast.expr, facts: Facts) -> ast.Compare | None:
    """The comparison that an expression, or a tuple with it, is a side of."""
    for parent in facts.model.ancestors(found):
        if isinstance(parent, ast.Compare):
            return parent
        if not isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            return None
    return None


def names_device(name: str) -> bool:
    return _DEVICE.search(name) is not None or _TYPE.search(name) is not None


def names_cuda(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str() as text):
            return _LITERAL.fullmatch(text) is not None
        case ast.JoinedStr(values=[ast.Constant(value="cuda:"), *_]):
            return True
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
    return False


def whole_of(found: ast.expr, facts: Facts) -> ast.expr:
    """The call of `torch.device` around a string, where it is given nothing else; the string itself elsewhere."""
    parent = next(facts.model.ancestors(found), None)
    match parent:
        case ast.Call(func=func, args=[only], keywords=[]) if (
            only is found and facts.model.qualified(func) == "torch.device"
        ):
            return parent
    return found


def index_behind(found: ast.expr) -> str | None:
    """The code of the index behind `cuda:`, "" where there is none; None where it can't be told."""
    match found:
        case ast.Constant(value=str() as text):
            matched = _LITERAL.fullmatch(text)
            return (matched[1] or "") if matched and text != "cuda:" else None
        case ast.JoinedStr(
            values=[ast.Constant(value="cuda:"), ast.FormattedValue(value=value, conversion=-1, format_spec=None)]
        ):
            return ast.unparse(value)
    return None


def says_first(found: ast.expr, facts: Facts) -> bool:
    """Whether a string names the first device, and that it has an index counts."""
    return index_behind(found) == "0" and index_counts(whole_of(found, facts), facts)


def wants_type(found: ast.expr, facts: Facts) -> bool:
    """Whether a string is asked for that is the type of a device, not a device."""
    parent = next(facts.model.ancestors(found), None)
    if isinstance(parent, ast.keyword) and parent.arg is not None:
        return _TYPE.search(parent.arg) is not None
    if isinstance(parent, ast.Call) and len(parent.args) > 1 and facts.model.qualified(parent.func) == "torch.device":
        return True
    taken = taker(found, facts)
    if taken is not None and taken.name in _TYPE_FIRST:
        return True
    return isinstance(parent, ast.Call) and (dotted(parent.func) or "").rpartition(".")[2] in MESHES
