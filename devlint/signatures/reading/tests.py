"""Tests: the conditions that they stand for, and what their outcome tells of names."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable

from devlint.knowledge import canonical, torch_knowledge
from devlint.knowledge.ecosystem import TENSOR_TYPES
from devlint.regexes import regex
from devlint.signatures.libraries import waits
from devlint.signatures.libraries.devices import parse_place
from devlint.signatures.libraries.tensor_methods import TYPE_NAME
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
    DEVICE_NUMBER,
    DICT,
    EITHER,
    FUNCTION,
    HOST,
    LIST,
    MODULE,
    MODULES,
    NOTHING,
    NUMBER,
    OBJECT,
    OUTCOME,
    REFERENCE,
    TENSOR,
    TUPLE,
    UNKNOWN,
    WRAPPER,
    Place,
    Value,
    constant,
    either,
    mapped,
)
from devlint.source.modules import last_name

# Names of flags, and the outcome under which the program runs on the host.
_HOST_FLAG = regex(
    r"(?i)(?:^|[._])(?:no_?cuda|no_?gpu|no_?accel(?:erator)?|use_cpu|cpu_only|is_cpu|on_cpu|force_cpu|cpu|disable_cuda)$"
)
# Tests for runs that nobody computes with: there is nothing to say on their side.
_ASIDE = regex(
    r"(?i)is_?(?:\w{0,40}(?:tracing|scripting|compiling|proxy)|(?:\w{0,40}export|in_onnx|fx)\w{0,40})$|(?:^|_)onnx_trace$"
)
_DEVICE_FLAG = regex(r"(?i)cuda|gpu|accel|is_available|on_device")


def condition_of(frame: Frame, node: ast.expr) -> Condition:
    """The condition that an expression is true."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return frame.atoms.negated(condition_of(frame, operand))
        case ast.BoolOp(op=op, values=values):
            return _connected(frame, values, conjunction=isinstance(op, ast.And))
        case ast.Compare() if (told := type_compared(frame, node)) is not None:
            return told
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            first, second = evaluate(frame, left), evaluate(frame, right)
            if not isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
                frame.need("operation", node, "", (left, first), (right, second))
                if not (isinstance(right, ast.Constant) and right.value is None):
                    # No tensor equals None: that is told without asking for values.
                    waits.decided(frame, node, first, second)
            return comparison(frame, node, first, op, second)
        case ast.Call(func=func) if last_name(func) in ASKING and (told := asked_of_class(frame, node)) is not None:
            return told
        case ast.Call(
            func=ast.Attribute(value=owner, attr="startswith" | "endswith" as asked),
            args=[ast.Constant(value=str() as text)],
        ):
            evaluate(frame, node)
            return spelt(frame, evaluate(frame, owner), asked, text)
        case ast.NamedExpr():
            return truth(frame, evaluate(frame, node))
    value = evaluate(frame, node)
    waits.decided(frame, node, value)
    return truth(frame, value, host_when=host_when_true(node))


def spelt(frame: Frame, value: Value, asked: str, text: str) -> Condition:
    """The condition that a text begins or ends with another one, `asked` being the method's name."""
    result = FALSE
    for condition, option in value.options():
        if option.kind is CONSTANT and isinstance(option.data, str):
            holds = option.data.startswith(text) if asked == "startswith" else option.data.endswith(text)
            told = TRUE if holds else FALSE
        else:
            told = frame.atoms.literal(("spelt", _token(option), asked, text))
        result = frame.atoms.either(result, frame.atoms.both(condition, told))
    return result


def type_compared(frame: Frame, node: ast.Compare) -> Condition | None:
    """The condition that `type(x) in (A, B)` holds, of wrappers of torch, tensors and arrays; None for other comparisons."""
    match node:
        case ast.Compare(left=ast.Call(func=ast.Name(id="type"), args=[thing]), ops=[op], comparators=[types]):
            named = _types_named(frame, types)
            outcome = isinstance(op, (ast.Eq, ast.Is, ast.In))
            return instance_of(frame, evaluate(frame, thing), named, outcome=outcome) if named else None
        case ast.Compare(
            left=ast.Attribute(value=ast.Call(func=ast.Name(id="type"), args=[thing]), attr="__module__"),
            ops=[ast.Eq() | ast.NotEq() as op],
            comparators=[ast.Constant(value="numpy") | ast.Attribute(attr="__name__")],
        ):
            return instance_of(frame, evaluate(frame, thing), _OF_NUMPY, outcome=isinstance(op, ast.Eq))
    return None


_OF_NUMPY = tuple(Value(REFERENCE, data=name) for name in ("numpy.ndarray", "numpy.generic"))


def _types_named(frame: Frame, types: ast.expr) -> tuple[Value, ...]:
    """The types that something is compared with, if nothing is derived from them: wrappers of torch, tensors, arrays."""
    spelt = types.elts if isinstance(types, (ast.Tuple, ast.List, ast.Set)) else [types]
    named = tuple(evaluate(frame, node) for node in spelt if isinstance(node, (ast.Name, ast.Attribute)))
    known = torch_knowledge().wrappers.keys() | {"torch.Tensor", "numpy.ndarray"}
    is_all = len(named) == len(spelt) and all(t.kind is REFERENCE and canonical(t.data) in known for t in named)
    return named if is_all else ()


def outcome(condition: Condition) -> Value:
    """A test as a value."""
    if condition == TRUE:
        return constant(True)
    return constant(False) if condition == FALSE else Value(OUTCOME, data=condition)


def denial_of(frame: Frame, node: ast.expr) -> Condition:
    """The condition that a test came out false, told for each alternative of what a class is asked of."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return condition_of(frame, node.operand)
    told = asked_of_class(frame, node, outcome=False) if isinstance(node, ast.Call) else None
    return told if told is not None else frame.atoms.negated(condition_of(frame, node))


def asked_of_class(frame: Frame, node: ast.Call, *, outcome: bool = True) -> Condition | None:
    """The condition that a test such as `isinstance(x, T)` or `hasattr(x, name)` comes out so; None for other calls."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance"), args=[thing, types]):
            asked = evaluate(frame, thing)
            return instance_of(frame, asked, _types(frame, evaluate(frame, types)), outcome=outcome)
        case ast.Call(func=ast.Name(id="hasattr"), args=[thing, ast.Constant(value=str() as name)]):
            return has(frame, evaluate(frame, thing), name, outcome=outcome)
        case ast.Call(func=func, args=[thing], keywords=[]):
            asking = evaluate(frame, func)
            named = _ASKED_TYPES.get(asking.data) if asking.kind is REFERENCE else None
            return instance_of(frame, evaluate(frame, thing), named, outcome=outcome) if named is not None else None
    return None


def _connected(frame: Frame, values: list[ast.expr], *, conjunction: bool) -> Condition:
    """`a and b`, `a or b`: each read where those before it let it through."""
    before, result = frame.path, TRUE if conjunction else FALSE
    env = frame.env
    if conjunction:
        frame.env = env.copy()
    for value in values:
        told = condition_of(frame, value)
        result = frame.atoms.both(result, told) if conjunction else frame.atoms.either(result, told)
        if conjunction:
            assume(frame, value, True)
            frame.path = frame.atoms.both(frame.path, told)
        else:
            frame.path = frame.atoms.both(frame.path, frame.atoms.negated(told))
        if not frame.path:
            break
    frame.path = before
    if conjunction:
        # What the test binds (`:=`) stays; what it assumes doesn't.
        for key, bound in frame.env.items():
            if key not in env:
                env[key] = bound
        frame.env = env
    return result


def host_when_true(node: ast.expr) -> bool | None:
    """The outcome of a plain test under which the program runs on the host, going by its words."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            words = name
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            words = name
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            words = name
        case _:
            return None
    if _HOST_FLAG.search(words) or _ASIDE.search(words):
        return True
    return False if _DEVICE_FLAG.search(words) else None


def truth(frame: Frame, value: Value, host_when: bool | None = None) -> Condition:
    """The condition that a value is true."""
    if value.kind is EITHER:
        result = FALSE
        for condition, option in value.parts:
            result = frame.atoms.either(result, frame.atoms.both(condition, truth(frame, option, host_when)))
        return result
    match value.kind:
        case "constant":
            return TRUE if value.data else FALSE
        case "outcome":
            told: Condition = value.data
            return told
        case "module" | "wrapper" | "function" | "class" | "device":
            return TRUE
        case "tuple":
            return TRUE if value.parts else FALSE
        case "object" if value.path is None:
            return TRUE
    if host_when is None and value.path is not None and len(value.path) > 1:
        words = str(value.path[-1])
        host_when = True if _HOST_FLAG.search(words) else False if _DEVICE_FLAG.search(words) else None
    return frame.atoms.literal(("true", _token(value)), host_when)


def _token(value: Value) -> Hashable:
    """What makes two reads the same thing in a test."""
    return value.path if value.path is not None else value


# Functions that ask for a value's type, by the types that they ask for.
_ASKED_TYPES = {
    name: tuple(Value(REFERENCE, data=t) for t in types)
    for name, types in {
        "torch.is_tensor": ("torch.Tensor",),
        "numpy.isscalar": ("builtins.int", "builtins.float", "builtins.bool", "builtins.str", "numpy.generic"),
        "scipy.sparse.issparse": ("scipy.sparse.spmatrix",),
        "scipy.sparse.isspmatrix": ("scipy.sparse.spmatrix",),
    }.items()
}
# The last names of calls that `asked_of_class` is asked about.
ASKING = frozenset({"isinstance", "hasattr", *(name.rsplit(".", 1)[-1] for name in _ASKED_TYPES)})

# The positive forms of comparisons, as atoms name them.
COMPARISONS = {"==": ast.Eq(), "Lt": ast.Lt(), "LtE": ast.LtE(), "Gt": ast.Gt(), "GtE": ast.GtE(), "In": ast.In()}


def comparison(frame: Frame, node: ast.Compare, left: Value, op: ast.cmpop, right: Value) -> Condition:
    """The condition that a comparison holds."""
    positive = {ast.NotEq: "==", ast.Is: "==", ast.IsNot: "==", ast.Eq: "==", ast.NotIn: "In"}
    kind = positive.get(type(op), type(op).__name__)
    left, right = _as_written(frame, left, node.left), _as_written(frame, right, node.comparators[0])
    told = compared(frame, kind, left, right, _host_when_compared(node) if _about_devices(node) else None)
    return frame.atoms.negated(told) if isinstance(op, (ast.NotEq, ast.IsNot, ast.NotIn)) else told


def _is_some_number(value: Value) -> bool:
    """Whether a value is a number of which nothing is known: it needn't be the same as another one."""
    return value.kind is NUMBER and value.path is None


def _as_written(frame: Frame, value: Value, node: ast.expr) -> Value:
    """A value, a number of which nothing is known told from others by what is written there."""
    if not any(_is_some_number(option) for _, option in value.options()):
        return value
    return called_number(frame, value, ast.unparse(node))


def called_number(frame: Frame, value: Value, name: str) -> Value:
    """A value, a number of which nothing is known being called something."""
    return mapped(value, lambda option: option.but(data=name) if _is_some_number(option) else option, frame.atoms)


def compared(frame: Frame, kind: str, left: Value, right: Value, host_when: bool | None = None) -> Condition:
    """The condition that two values are equal, or that the other comparison of that name holds."""
    atoms = frame.atoms
    result = FALSE
    for a_when, a in left.options():
        for b_when, b in right.options():
            joint = atoms.both(a_when, b_when)
            if joint:
                told = _compared_plain(frame, kind, a, b, host_when)
                result = atoms.either(result, atoms.both(joint, told))
    return result


def _compared_plain(frame: Frame, kind: str, a: Value, b: Value, host_when: bool | None) -> Condition:
    op = COMPARISONS[kind]
    if DEVICE_NUMBER in a.tags and b.kind is CONSTANT and isinstance(b.data, int):
        # `x.get_device() >= 0`
        elsewhere, on_host = {_plainly(op, n, b.data) for n in (0, 1, 7)}, _plainly(op, -1, b.data)
        if elsewhere == {not on_host}:
            told = on_accelerator(frame, a)
            return frame.atoms.negated(told) if on_host else told
    if kind == "==" and a.kind is TYPE_NAME and b.kind is CONSTANT and isinstance(b.data, str):
        # `x.type() == "torch.FloatTensor"`: an accelerator's types have its name; which of them it is, is left open.
        told = on_accelerator(frame, a)
        if b.data in TENSOR_TYPES:
            return frame.atoms.negated(told)
        if b.data.startswith("torch.cuda.") and told == FALSE:
            return FALSE
    if kind == "==":
        known = _same(frame, a, b)
        if known is None:
            known = _same(frame, b, a)
        if known is not None:
            return known
    if a.kind is CONSTANT and b.kind is CONSTANT:
        try:
            return TRUE if _plainly(op, a.data, b.data) else FALSE
        except TypeError:
            return FALSE
    if "count" in (a.kind, b.kind):
        # The number of GPUs: there is one at least, where the program has an accelerator.
        limit = b if a.kind == "count" else a
        if limit.kind is CONSTANT and isinstance(limit.data, int):
            outcomes = [_plainly(op, *((n, limit.data) if a.kind == "count" else (limit.data, n))) for n in (1, 2, 8)]
            if all(outcomes) or not any(outcomes):
                return TRUE if outcomes[0] else FALSE
    if b.kind is CONSTANT and isinstance(b.data, str) and b.data in ("cpu", "cuda", "gpu"):
        host_when = b.data == "cpu"
    return frame.atoms.literal((kind, _token(a), _token(b)), host_when)


def is_none(frame: Frame, value: Value) -> Condition:
    """The condition that a value is None."""
    return compared(frame, "==", value, constant(None))


def _host_when_compared(node: ast.Compare) -> bool | None:
    """The outcome of `n_gpu > 0` and the like, in its positive form, under which there is no accelerator."""
    match node.ops[0], _number_in(node.comparators[0]):
        case (ast.Gt(), 0 | -1) | (ast.GtE(), 0 | 1):
            return False
        case (ast.Lt(), 0 | 1) | (ast.LtE() | ast.Eq() | ast.NotEq(), 0 | -1):
            return True
    return None


def _number_in(node: ast.expr) -> int | None:
    """The whole number that is written somewhere: `1`, `-1`."""
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return -number
    return None


def _about_devices(node: ast.Compare) -> bool:
    return any(
        _DEVICE_FLAG.search(n.id if isinstance(n, ast.Name) else n.attr) is not None
        for n in map(_counted, (node.left, *node.comparators))
        if isinstance(n, (ast.Name, ast.Attribute))
    )


def _counted(node: ast.expr) -> ast.expr:
    """`gpu_ids` of `len(gpu_ids)`."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[counted]):
            return counted
    return node


def _plainly(op: ast.cmpop, a: object, b: object) -> bool:
    match op:
        case ast.Eq() | ast.NotEq():
            return a == b
        case ast.Is() | ast.IsNot():
            return a is b or (a == b and type(a) is type(b))
        case ast.Lt():
            return a < b  # type: ignore[operator,no-any-return]
        case ast.LtE():
            return a <= b  # type: ignore[operator,no-any-return]
        case ast.Gt():
            return a > b  # type: ignore[operator,no-any-return]
        case ast.GtE():
            return a >= b  # type: ignore[operator,no-any-return]
    return a in b  # type: ignore[operator]


def _same(frame: Frame, a: Value, b: Value) -> Condition | None:
    """Whether `a` is `b`, where that can be told."""
    if b.kind is CONSTANT and b.data is None:
        if a.kind is CONSTANT:
            return TRUE if a.data is None else FALSE
        if a.path is not None and "computed" not in a.tags:
            return frame.atoms.literal(("none", _token(a)))
        # Of what nothing at all is known may be None; what was computed isn't.
        return frame.atoms.forgotten() if a == NOTHING else FALSE
    place = _asked(b)
    if place is not None and a.kind in (DEVICE, "device type"):
        return _at(frame, a, place)
    if a.kind is CONSTANT and b.kind is CONSTANT:
        return TRUE if a.data == b.data else FALSE
    if a.kind is REFERENCE and b.kind is REFERENCE and isinstance(a.data, str) and isinstance(b.data, str):
        names = canonical(a.data), canonical(b.data)
        # Two names of parts may be of one thing, as `torch.float` and `torch.float32` are; two packages never are.
        return TRUE if names[0] == names[1] else None if "." in "".join(names) else FALSE
    return None


def _asked(value: Value) -> Place | None:
    """The place that a device, or its name, stands for."""
    if value.kind in (DEVICE, "device type"):
        return value.place
    if value.kind is CONSTANT and isinstance(value.data, str):
        return parse_place(value.data)
    return None


def _at(frame: Frame, device: Value, asked: Place) -> Condition:
    """Whether a device is the one that is asked for, by its backend."""
    place = device.place
    if asked.is_open or (place.is_open and place == asked):
        return same_place(frame, place, asked)
    if place.sort == "unknown":
        return frame.atoms.literal(("at", _token(device), asked), asked == HOST)
    if place.is_open:
        # An accelerator or the host: the one outcome is the other's opposite.
        on_host = frame.atoms.literal(("on host", place), True)
        return on_host if asked == HOST else frame.atoms.negated(on_host)
    backends = [str(p.name).partition(":") for p in (place, asked)]
    if backends[0][0] != backends[1][0]:
        return FALSE
    if device.kind == "device type" or backends[0][2] == backends[1][2]:
        return TRUE
    # `torch.device("cuda") == torch.device("cuda:0")` is false; what a tensor says has an index.
    return frame.atoms.literal(("at", place, asked))


def same_place(frame: Frame, a: Place, b: Place) -> Condition:
    """Whether two places are one, by their devices."""
    if a == b:
        return TRUE
    if a.is_open or b.is_open or "unknown" in (a.sort, b.sort):
        # Where one of them is the host, it says that the other is there as well.
        return frame.atoms.literal(("same place", *sorted((a, b), key=str)), True if HOST in (a, b) else None)
    return FALSE if str(a.name).partition(":")[0] != str(b.name).partition(":")[0] else TRUE


def on_accelerator(frame: Frame, value: Value) -> Condition:
    """`x.is_cuda`."""
    place = value.place
    if place == HOST:
        return FALSE
    if place.off_host:
        return TRUE
    if place.is_open:
        return frame.atoms.negated(frame.atoms.literal(("on host", place), True))
    return frame.atoms.literal(("is_cuda", _token(value)), False)


_TYPES = {
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
_PYTHON_TYPES = {"builtins.int": int, "builtins.float": float, "builtins.str": str, "builtins.bool": bool}


def instance_of(frame: Frame, value: Value, named: tuple[Value, ...], *, outcome: bool = True) -> Condition:
    """The condition that a value is of one of some types, or that it isn't."""
    result = FALSE
    for condition, option in value.options():
        told: Condition | None = FALSE
        for name in named:
            one = _is_a(frame, option, name)
            told = None if one is None or told is None else frame.atoms.either(told, one)
        if told is None:
            told = frame.atoms.literal(("isinstance", _token(option), tuple(map(_token, named))))
        if not outcome:
            told = frame.atoms.negated(told)
        result = frame.atoms.either(result, frame.atoms.both(condition, told))
    return result


def may_be_of(frame: Frame, value: Value, cls: ClassInfo) -> bool:
    """Whether a value may be an object of a class of the project, of all that is known of it."""
    named = Value(CLASS, data=cls)
    return any(option.kind is not UNKNOWN and _is_a(frame, option, named) != FALSE for _, option in value.options())


def _types(frame: Frame, value: Value) -> tuple[Value, ...]:
    if value.kind is TUPLE:
        return tuple(t for part in value.parts for t in _types(frame, part))
    return (value,)


_OF_HOST = frozenset(
    {"numpy.ndarray", "numpy.generic", "builtins.int", "builtins.float", "builtins.bool", "builtins.str"}
)


def _is_a(frame: Frame, value: Value, named: Value) -> Condition | None:
    """Whether a value is of one type; None where that isn't known."""
    if value.kind is UNKNOWN:
        # What is on an accelerator is neither an array nor a number, whatever it is.
        is_of_host = named.kind is REFERENCE and named.data in _OF_HOST
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
    python = _PYTHON_TYPES.get(name)
    if value.kind is CONSTANT:
        return TRUE if python is not None and isinstance(value.data, python) else (FALSE if python else None)
    if name in _TYPES:
        kinds = _TYPES[name]
        if value.kind in kinds:
            return frame.atoms.negated(is_none(frame, value)) if _may_be_left_out(frame, value) else TRUE
        if value.kind is MODULE and name.startswith("torch.nn.") and value.path is None and _is_bare(value, name):
            return FALSE
        if not kinds or (value.kind in MODULES and name.startswith("torch.nn.")):
            return None
        return None if value.kind in (OBJECT, NUMBER, OUTCOME, "batch", "loader") else FALSE
    if python is not None and value.kind in (TENSOR, ARRAY, MODULE, WRAPPER, LIST, TUPLE, DICT, DEVICE, FUNCTION):
        return FALSE
    return None


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
        told = _option_has(frame, option, name)
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


def _option_has(frame: Frame, option: Value, name: str) -> Condition:
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
    return frame.atoms.literal(("has", _token(option), name))


# -- what an outcome tells ---------------------------------------------------------------------------------------------


def assume(frame: Frame, node: ast.expr, outcome: bool) -> None:
    """Takes what the outcome of a test tells of the names in it."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            assume(frame, operand, not outcome)
        case ast.BoolOp(op=ast.And(), values=values) if outcome:
            for value in values:
                assume(frame, value, True)
        case ast.BoolOp(op=ast.Or(), values=values) if not outcome:
            for value in values:
                assume(frame, value, False)
        case ast.BoolOp(op=ast.And(), values=values) if all(map(_asks_for_class, values)):
            # Not all of them are tensors: what is done with them then is nothing that tensors have to be together for.
            for value in values:
                assume(frame, value, False)
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), types]) if outcome:
            narrow(frame, name, types)
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), types]):
            _widen(frame, name, types)
        case ast.Call(func=ast.Name(id="hasattr"), args=[ast.Name(id=name), ast.Constant(value=str() as asked)]):
            _keep_those_with(frame, name, asked, outcome)
        case ast.Call(args=[ast.Name(id=name)], func=ast.Attribute(attr="is_tensor")) if outcome:
            _become(frame, name, TENSOR)
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]) if outcome:
            known = frame.env.get(name)
            if known is not None and known.kind is UNKNOWN:
                frame.env[name] = constant(None)


def _asks_for_class(test: ast.expr) -> bool:
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance"


def narrow(frame: Frame, name: str, types: ast.expr) -> None:
    """`isinstance(name, T)` came out true."""
    named = _types(frame, evaluate(frame, types))
    if len(named) != 1:
        numeric = {"builtins.int", "builtins.float", "builtins.bool", "builtins.str"}
        if named and all(t.kind is REFERENCE and t.data in numeric for t in named):
            _become(frame, name, NUMBER)
        return
    only = named[0]
    if only.kind is CLASS and only.data is not None:
        known = frame.get(name)
        if known is not None and known.kind is UNKNOWN:
            frame.env[name] = frame.reader.instance_at(only.data, known)
        return
    kinds = _TYPES.get(only.data, ()) if only.kind is REFERENCE else ()
    if only.kind is REFERENCE and only.data in _PYTHON_TYPES:
        kinds = (NUMBER,)
    if kinds:
        _become(frame, name, kinds[0])


def _keep_those_with(frame: Frame, name: str, asked: str, outcome: bool) -> None:
    """`hasattr(name, asked)` came out so, where the condition of that is too long to tell its alternatives apart."""
    known = frame.get(name)
    if known is None or not frame.atoms.is_forgotten(frame.path):
        return
    other = FALSE if outcome else TRUE
    kept = [(when, option) for when, option in known.options() if _option_has(frame, option, asked) != other]
    if kept and len(kept) < len(known.options()):
        frame.env[name] = either(kept, frame.atoms)


def _widen(frame: Frame, name: str, types: ast.expr) -> None:
    """`isinstance(name, T)` came out false: it isn't a tensor, if that was asked."""
    named = _types(frame, evaluate(frame, types))
    known = frame.get(name)
    if known is not None and any(t.kind is REFERENCE and TENSOR in _TYPES.get(t.data, ()) for t in named):
        frame.env[name] = mapped(known, lambda v: Value(NUMBER, path=v.path) if v.kind is UNKNOWN else v, frame.atoms)


def _become(frame: Frame, name: str, kind: str) -> None:
    known = frame.get(name)
    if known is None:
        return

    def change(option: Value) -> Value:
        if option.kind is not UNKNOWN:
            return option
        if kind in (NUMBER, ARRAY):
            return Value(kind, HOST if kind is ARRAY else option.place, path=option.path)
        if kind in (LIST, DICT, TUPLE):
            return option
        return option.but(kind=kind, data=None)

    frame.env[name] = mapped(known, change, frame.atoms)
