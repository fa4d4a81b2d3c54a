"""What a program asks of the type of a value, and what it has: `isinstance`, `hasattr`, `type(x) is`."""

from __future__ import annotations

import ast
import re

from devlint.knowledge import canonical, torch_knowledge
from devlint.knowledge.ecosystem import TENSOR_TYPES
from devlint.signatures.reading.comparing import is_none, on_accelerator, token
from devlint.signatures.reading.expressions import evaluate
from devlint.signatures.state.classes import ClassInfo
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.conditions import FALSE, TRUE, Condition
from devlint.signatures.values.values import (
    ARRAY,
    BATCH,
    CLASS,
    CONSTANT,
    DEVICE,
    DICT,
    FUNCTION,
    LIST,
    MODULE,
    MODULES,
    NUMBER,
    OBJECT,
    OUTCOME,
    REFERENCE,
    TENSOR,
    TUPLE,
    UNKNOWN,
    WRAPPER,
    Value,
)


def type_compared(frame: Frame, node: ast.Compare) -> Condition | None:
    """The condition that `type(x) in (A, B)` holds, of types that are known here; None for other comparisons."""
    match node:
        case ast.Compare(left=ast.Call(func=ast.Name(id="type"), args=[thing]), ops=[op], comparators=[types]):
            named = _types_named(frame, types)
            outcome = isinstance(op, (ast.Eq, ast.Is, ast.In))
            return instance_of(frame, evaluate(frame, thing), named, outcome=outcome, exactly=True) if named else None
        case ast.Compare(
            left=ast.Attribute(value=ast.Call(func=ast.Name(id="type"), args=[thing]), attr="__module__"),
            ops=[ast.Eq() | ast.NotEq() as op],
            comparators=[ast.Constant(value="numpy") | ast.Attribute(attr="__name__")],
        ):
            return instance_of(frame, evaluate(frame, thing), _OF_NUMPY, outcome=isinstance(op, ast.Eq))
    return None


_OF_NUMPY = tuple(Value(REFERENCE, data=name) for name in ("numpy.ndarray", "numpy.generic"))


def _types_named(frame: Frame, types: ast.expr) -> tuple[Value, ...]:
    """The types that something is compared with, if all are known: wrappers of torch, tensors, arrays, Python's own."""
    spelt = types.elts if isinstance(types, (ast.Tuple, ast.List, ast.Set)) else [types]
    named = tuple(evaluate(frame, node) for node in spelt if isinstance(node, (ast.Name, ast.Attribute)))
    known = torch_knowledge().wrappers.keys() | {"torch.Tensor", "numpy.ndarray"} | _PYTHONS_OWN
    is_all = len(named) == len(spelt) and all(
        t.kind is REFERENCE and (canonical(t.data) in known or _is_of_host(t.data)) for t in named
    )
    return named if is_all else ()


TYPES = {
    "torch.Tensor": (TENSOR,),
    "numpy.ndarray": (ARRAY,),
    # What has a kind of its own here is never one; numbers may be.
    "numpy.generic": ("numpy scalar",),
    "builtins.list": (LIST,),
    "builtins.tuple": (TUPLE,),
    "builtins.dict": (DICT,),
    "torch.nn.Module": (MODULE, WRAPPER),
    "torch.nn.DataParallel": (WRAPPER,),
    "torch.device": (DEVICE,),
    "torch.nn.Parameter": (),
} | dict.fromkeys(TENSOR_TYPES, (TENSOR,))


PYTHON_TYPES = {"builtins.int": int, "builtins.float": float, "builtins.str": str, "builtins.bool": bool}


_PYTHONS_OWN = frozenset({*PYTHON_TYPES, "builtins.list", "builtins.tuple", "builtins.dict"})


def instance_of(
    frame: Frame, value: Value, named: tuple[Value, ...], *, outcome: bool = True, exactly: bool = False
) -> Condition:
    """The condition that a value is of one of some types, or that it isn't; `exactly`: of none that is derived from them."""
    is_one = _is_exactly if exactly else _is_a
    result = FALSE
    for condition, option in value.options():
        told: Condition | None = FALSE
        for name in named:
            one = is_one(frame, option, name)
            told = None if one is None or told is None else frame.atoms.either(told, one)
        if told is None:
            told = frame.atoms.literal(("isinstance", token(option), tuple(map(token, named))))
        if not outcome:
            told = frame.atoms.negated(told)
        result = frame.atoms.either(result, frame.atoms.both(condition, told))
    return result


def may_be_of(frame: Frame, value: Value, cls: ClassInfo) -> bool:
    """Whether a value may be an object of a class of the project, of all that is known of it."""
    named = Value(CLASS, data=cls)
    return any(option.kind is not UNKNOWN and _is_a(frame, option, named) != FALSE for _, option in value.options())


def types_of(frame: Frame, value: Value) -> tuple[Value, ...]:
    if value.kind is TUPLE:
        return tuple(t for part in value.parts for t in types_of(frame, part))
    return (value,)


_OF_HOST = frozenset(
    {"numpy.ndarray", "numpy.generic", "builtins.int", "builtins.float", "builtins.bool", "builtins.str"}
)


# Libraries none of whose objects is a tensor.
_WITHOUT_TENSORS = frozenset({"xarray", "pandas", "PIL", "scipy", "networkx", "polars", "pyarrow"})


def _is_of_host(name: str) -> bool:
    """Whether a type is one of what the host alone has."""
    return name in _OF_HOST or name.partition(".")[0] in _WITHOUT_TENSORS


def _is_a(frame: Frame, value: Value, named: Value) -> Condition | None:
    """Whether a value is of one type; None where that isn't known."""
    if named.kind is REFERENCE and named.data.startswith("torch.cuda.") and value.kind in (TENSOR, UNKNOWN):
        # An accelerator's types have its name; which of them it is, is left open, but for the usual one.
        told = on_accelerator(frame, value)
        return told if told == FALSE or named.data.endswith(".FloatTensor") else None
    if value.kind is UNKNOWN:
        # What is on an accelerator is neither an array nor a number, whatever it is.
        is_of_host = named.kind is REFERENCE and _is_of_host(named.data)
        return FALSE if is_of_host and value.place.off_host else None
    if value.kind is WRAPPER and (
        named.kind is CLASS or (named.kind is REFERENCE and named.data.startswith("torch.nn."))
    ):
        # One of the project's that is derived from it is no such value.
        return TRUE if named.kind is REFERENCE and canonical(named.data) in (value.data, "torch.nn.Module") else FALSE
    if named.kind is CLASS:
        if value.kind in (MODULE, OBJECT) and value.data is not None and not isinstance(value.data, str):
            return TRUE if named.data in value.data.lineage() else (None if value.path is not None else FALSE)
        is_namespace = value.kind is OBJECT and value.data is not None
        return None if value.kind in (MODULE, OBJECT, WRAPPER) and not is_namespace else FALSE
    if named.kind is not REFERENCE:
        return None
    name = named.data
    if name in TENSOR_TYPES - {"torch.Tensor"} and value.kind is TENSOR and on_accelerator(frame, value) == TRUE:
        # `torch.FloatTensor` is the host's.
        return FALSE
    python = PYTHON_TYPES.get(name)
    if value.kind is CONSTANT:
        return TRUE if python is not None and isinstance(value.data, python) else (FALSE if python else None)
    if name in TYPES:
        kinds = TYPES[name]
        if value.kind in kinds:
            return frame.atoms.negated(is_none(frame, value)) if _may_be_left_out(frame, value) else TRUE
        if value.kind is MODULE and name.startswith("torch.nn.") and value.path is None and _is_bare(value, name):
            return FALSE
        if not kinds or (value.kind in MODULES and name.startswith("torch.nn.")):
            return None
        if value.kind is BATCH and value.place.off_host and TENSOR in kinds:
            # As below: what is on an accelerator is a tensor, or as good as one.
            return TRUE
        return None if value.kind in (OBJECT, NUMBER, OUTCOME, "batch", "loader") else FALSE
    is_other = python is not None or _is_of_host(name)
    if is_other and value.kind in (TENSOR, ARRAY, MODULE, WRAPPER, LIST, TUPLE, DICT, DEVICE, FUNCTION):
        return FALSE
    return None


def _is_exactly(frame: Frame, value: Value, named: Value) -> Condition | None:
    """As `_is_a`, of `type(x) is T`: a dict may be an OrderedDict, a tuple a named one."""
    if value.kind is CONSTANT and named.data in _PYTHONS_OWN:
        return TRUE if type(value.data) is PYTHON_TYPES.get(named.data) else FALSE
    told = _is_a(frame, value, named)
    return None if value.kind in (LIST, TUPLE, DICT) and told != FALSE else told


def _is_bare(value: Value, name: str) -> bool:
    """Whether a module that was made in sight is none of a wrapper's class."""
    bases = (
        (value.data,) if isinstance(value.data, str) else value.data.outside_bases if value.data is not None else ("",)
    )
    return canonical(name) in torch_knowledge().wrappers and not any(b in ("", canonical(name)) for b in bases)


def _has_no_module(value: Value) -> bool:
    """Whether a module that was made in sight surely has no part called `module`."""
    if not _is_bare(value, "torch.nn.DataParallel"):
        return False
    return isinstance(value.data, str) or re.search(r"\bmodule\b", value.data.text) is None


def _may_be_left_out(frame: Frame, value: Value) -> bool:
    """Whether a value is an input that is None where a call doesn't give it."""
    function, path = frame.function, value.path
    if function is None or path is None or len(path) != 1:
        return False
    default = function.defaults.get(str(path[0]))
    return isinstance(default, ast.Constant) and default.value is None


def has(frame: Frame, value: Value, name: str, *, outcome: bool = True) -> Condition:
    """The condition that `hasattr(x, name)` comes out so."""
    result = FALSE
    for condition, option in value.options():
        told = option_has(frame, option, name)
        if not outcome:
            told = frame.atoms.negated(told)
        result = frame.atoms.either(result, frame.atoms.both(condition, told))
    return result


# What a tensor has beside its methods.
_TENSOR_ATTRIBUTES = frozenset(
    {"H", "T", "data", "device", "dtype", "grad", "grad_dtype", "grad_fn", "imag", "is_cpu", "is_cuda", "is_ipu", "is_leaf",
     "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan",
     "is_xla", "is_xpu", "itemsize", "layout", "mH", "mT", "name", "names", "nbytes", "ndim", "output_nr", "real", "requires_grad",
     "retains_grad", "shape", "volatile", "__array__", "__len__", "__getitem__"}
)  # fmt: skip


def _is_of_tensors(name: str) -> bool:
    return name in _TENSOR_ATTRIBUTES or name in torch_knowledge().tensor_methods


def option_has(frame: Frame, option: Value, name: str) -> Condition:
    if option.kind is WRAPPER:
        return TRUE if name in torch_knowledge().wrappers.get(str(option.data), (name,)) else FALSE
    if option.kind is MODULE and name == "module" and option.path is None and _has_no_module(option):
        return FALSE
    if option.kind is TENSOR:
        return TRUE if _is_of_tensors(name) else FALSE
    if option.kind in (UNKNOWN, BATCH) and option.place.off_host and _is_of_tensors(name):
        # What is on an accelerator is a tensor, or as good as one.
        return TRUE
    if option.kind in (CONSTANT, NUMBER, ARRAY) and name in ("cuda", "device", "detach"):
        return FALSE
    return frame.atoms.literal(("has", token(option), name))
