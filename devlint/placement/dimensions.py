"""How many dimensions a tensor expression surely has, at least.

A host tensor without dimensions may meet an accelerator's in element-wise arithmetic; one with dimensions never may.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from devlint.knowledge import canonical
from devlint.placement.environment import access_path
from devlint.placement.values import Kind

if TYPE_CHECKING:
    from devlint.placement.model import PlacementModel

# Names are followed to what they were assigned this many steps.
MAX_STEPS = 12

# Factories by how they say the size: as integers or one sequence, as the first argument, or by their nature.
SIZED = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn", "torch.Tensor"})
SIZE_FIRST = frozenset({"torch.full"})
SIZE_WITHIN = frozenset({"torch.randint"})
FIXED = {
    "torch.arange": 1,
    "torch.range": 1,
    "torch.linspace": 1,
    "torch.logspace": 1,
    "torch.randperm": 1,
    "torch.hann_window": 1,
    "torch.hamming_window": 1,
    "torch.bartlett_window": 1,
    "torch.blackman_window": 1,
    "torch.kaiser_window": 1,
    "torch.cat": 1,
    "torch.stack": 1,
    "torch.eye": 2,
    "torch.outer": 2,
    "torch.tril_indices": 2,
    "torch.triu_indices": 2,
    "torch.from_numpy": 1,
}
# Of a literal: as deep as its lists are nested.
LITERAL = frozenset(
    {"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.FloatTensor", "torch.LongTensor", "torch.BoolTensor",
     "torch.IntTensor", "torch.DoubleTensor", "torch.HalfTensor", "torch.ByteTensor", "numpy.array", "numpy.asarray"}
)  # fmt: skip

# Methods, and functions of torch on their first argument, whose result has as many dimensions as that at least.
KEEPING = frozenset(
    {"float", "double", "half", "bfloat16", "long", "int", "bool", "to", "type", "cuda", "cpu", "detach", "clone", "contiguous",
     "requires_grad_", "pin_memory", "t", "transpose", "permute", "swapaxes", "flip", "roll", "triu", "tril", "triu_", "tril_",
     "exp", "exp_", "log", "log_", "sin", "cos", "sqrt", "rsqrt", "abs", "neg", "pow", "clamp", "clamp_", "clip", "sigmoid",
     "tanh", "softmax", "log_softmax", "cumsum", "cumprod", "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_",
     "masked_fill", "masked_fill_", "fill_", "zero_", "normal_", "uniform_", "logical_not", "reciprocal", "floor", "ceil", "round"}
)  # fmt: skip
SHAPING = frozenset({"view", "reshape", "expand", "repeat", "tile"})
TRANSPOSED = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})


def dimensions(node: ast.expr, model: PlacementModel, known: Mapping[str, int] | None = None) -> int:
    """The least number of dimensions of a tensor expression in a scope that was run; 0 where nothing is known.

    `known` gives those of access paths, such as `self.mean`.
    """
    return _Dimensions(model, known or {}).of(node)


class _Dimensions:
    def __init__(self, model: PlacementModel, known: Mapping[str, int]) -> None:
        self._model = model
        self._known = known
        self._steps = 0

    def of(self, node: ast.expr) -> int:
        path = access_path(node)
        if path is not None and path in self._known:
            return self._known[path]
        match node:
            case ast.Name():
                return self._assigned(node)
            case ast.Attribute(value=value, attr=attr):
                return self.of(value) if attr in TRANSPOSED else 0
            case ast.Subscript(value=value, slice=index):
                return self._indexed(value, index)
            case ast.BinOp(left=left, right=right):
                return max(self.of(left), self.of(right))
            case ast.Compare(left=left, comparators=[right]):
                return max(self.of(left), self.of(right))
            case ast.UnaryOp(operand=operand):
                return self.of(operand)
            case ast.IfExp(body=body, orelse=orelse):
                return min(self.of(body), self.of(orelse))
            case ast.Call():
                return self._call(node)
        return 0

    def _assigned(self, name: ast.Name) -> int:
        self._steps += 1
        if self._steps > MAX_STEPS:
            return 0
        # `x = x[0]` would be asked about itself: its old value is the other assignments' affair.
        found = [self.of(value) for value in self._model.assigned_values(name) if not _speaks_of(value, name)]
        loops = [value for value in self._model.assigned_values(name) if _speaks_of(value, name)]
        if not found or any(not _keeps(value, name) for value in loops):
            return 0
        return min(found)

    def _indexed(self, value: ast.expr, index: ast.expr) -> int:
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        added = sum(1 for p in parts if isinstance(p, ast.Constant) and p.value is None)
        kept = sum(1 for p in parts if isinstance(p, ast.Slice))
        named = [p for p in parts if not isinstance(p, ast.Slice) and not _is_none_or_ellipsis(p)]
        # Each other index takes one dimension away, at most.
        return max(self.of(value) - len(named) + added, kept + added)

    def _call(self, call: ast.Call) -> int:
        name = canonical(self._model.resolved(call.func).name)
        first = call.args[0] if call.args else None
        if name in FIXED:
            return FIXED[name]
        if name in SIZED:
            return self._size(call.args) if first is not None else self._keyword_size(call)
        if name in SIZE_FIRST:
            return self._size([first]) if first is not None else self._keyword_size(call)
        if name in SIZE_WITHIN:
            sized = [a for a in call.args if isinstance(a, (ast.Tuple, ast.List))]
            return self._size(sized) if sized else self._keyword_size(call)
        if name in LITERAL:
            return self._nesting(first)
        if name == "torch.autograd.Variable" or (name.startswith("torch.") and name[6:] in KEEPING):
            return self.of(first) if first is not None else 0
        if name == "torch.unsqueeze":
            return self.of(first) + 1 if first is not None else 0
        if isinstance(call.func, ast.Attribute) and self._model.value(call.func.value).is_tensor:
            return self._method(call, call.func)
        return self._returned(call)

    def _method(self, call: ast.Call, func: ast.Attribute) -> int:
        if func.attr in KEEPING:
            return self.of(func.value)
        if func.attr in SHAPING:
            return self._size(call.args)
        if func.attr in ("unsqueeze", "unsqueeze_"):
            return self.of(func.value) + 1
        return 1 if func.attr in ("flatten", "ravel") else 0

    def _returned(self, call: ast.Call) -> int:
        """A function of this file: the least of what it returns."""
        function = self._model.value(call.func).function
        if function is None or function.source is not self._model.source or self._steps > MAX_STEPS:
            return 0
        self._steps += 1
        self._model.ensure(function)
        values = [n.value for n in function.nodes if isinstance(n, ast.Return) and n.value is not None]
        return min((self.of(v) for v in values), default=0)

    def _keyword_size(self, call: ast.Call) -> int:
        return next((self._size([k.value]) for k in call.keywords if k.arg == "size"), 0)

    def _size(self, arguments: Sequence[ast.expr]) -> int:
        """Of a size: integers one by one, or one sequence of them."""
        if len(arguments) == 1:
            match arguments[0]:
                case ast.Tuple(elts=elts) | ast.List(elts=elts):
                    return sum(1 for e in elts if not isinstance(e, ast.Starred))
                case ast.Starred():
                    return 0
                case ast.Constant() | ast.BinOp():
                    return 1
            # A name: an integer, or a size that is hardly empty.
            return 1
        return sum(1 for a in arguments if not isinstance(a, ast.Starred))

    def _nesting(self, literal: ast.expr | None) -> int:
        match literal:
            case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
                return 1 + self._nesting(first)
            case ast.List() | ast.Tuple():
                return 1
            case ast.ListComp(elt=elt):
                return 1 + self._nesting(elt)
            case ast.expr() if self._model.value(literal).kind is Kind.SEQUENCE:
                return 1
            case ast.Call() | ast.Name():
                return self.of(literal)
        return 0


def _is_none_or_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, ...)


def _speaks_of(value: ast.expr, name: ast.Name) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name.id for n in ast.walk(value))


def _keeps(value: ast.expr, name: ast.Name) -> bool:
    """`pe = pe.unsqueeze(0).transpose(0, 1)`: no fewer dimensions than before."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in KEEPING | {"unsqueeze", "unsqueeze_"}:
            return False
        value = value.func.value
    return isinstance(value, ast.Name) and value.id == name.id
