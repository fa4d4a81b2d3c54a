"""Which expressions give truth values, going by how they are written: what is indexed by one has a size that values decide."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from devlint.knowledge.ecosystem import MASK_FUNCTIONS
from devlint.regexes import regex

# Indices of such names are masks, where they are tensors.
_NAME = regex(r"\w{0,60}masks?|(?:.{0,60}_)?(?:valid|finite|is_nan)")
# Methods that give the same truth values in another shape.
_SHAPING = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze", "bool", "detach", "contiguous"})
# Looks at a name's assignments this far back.
_FARTHEST = 3


def is_mask(node: ast.expr, assigned: Callable[[ast.Name], Sequence[ast.expr]], back: int = 0) -> bool:
    """Whether an expression gives truth values, if it gives a tensor; `assigned` says what a name is given."""

    def is_so(part: ast.expr) -> bool:
        return is_mask(part, assigned, back)

    match node:
        case ast.Compare(ops=ops):
            return not any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in ops)
        case ast.UnaryOp(op=ast.Invert()):
            return True
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
            return is_so(left) or is_so(right)
        case ast.Call(func=ast.Attribute(attr="to" | "type"), args=[dtype]):
            return ast.unparse(dtype) in ("torch.bool", "bool")
        case ast.Call(func=ast.Attribute(attr="cat" | "stack" | "concat"), args=[first, *_]):
            return is_so(first)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _SHAPING:
            return is_so(inner)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in MASK_FUNCTIONS
        case ast.Subscript(value=inner):
            return is_so(inner)
        case ast.Name(id=name) | ast.Attribute(attr=name) if _NAME.fullmatch(name):
            return True
        case ast.Name():
            given = assigned(node) if back < _FARTHEST else ()
            return bool(given) and all(is_mask(value, assigned, back + 1) for value in given)
    return False
