"""Tests: the conditions that they stand for."""

from __future__ import annotations

import ast

from devlint.regexes import regex
from devlint.signatures.libraries import waits
from devlint.signatures.reading import first_passes
from devlint.signatures.reading.assumptions import assume
from devlint.signatures.reading.comparing import DEVICE_FLAG, comparison, token
from devlint.signatures.reading.expressions import evaluate
from devlint.signatures.reading.types_asked import (
    has,
    instance_of,
    type_compared,
    types_of,
)
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.conditions import FALSE, TRUE, Condition
from devlint.signatures.values.values import (
    CONSTANT,
    EITHER,
    EMPTY,
    OUTCOME,
    REFERENCE,
    Value,
    constant,
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


def condition_of(frame: Frame, node: ast.expr) -> Condition:
    """The condition that an expression is true."""
    if frame.first_passes and (about := first_passes.asked(node)) is not None and about[0] in frame.first_passes:
        evaluate(frame, node.left if isinstance(node, ast.Compare) else node)
        is_first = frame.first_passes[about[0]]
        return is_first if about[1] else frame.atoms.negated(is_first)
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return frame.atoms.negated(condition_of(frame, operand))
        case ast.BoolOp(op=op, values=values):
            return _connected(frame, values, conjunction=isinstance(op, ast.And))
        case ast.Compare() if (told := type_compared(frame, node)) is not None:
            return told
        case ast.Compare(
            left=left, ops=[ast.Gt() | ast.NotEq() | ast.Eq() as op], comparators=[ast.Constant(value=0)]
        ) if _counted(left):
            told = condition_of(frame, left)
            return frame.atoms.negated(told) if isinstance(op, ast.Eq) else told
        case ast.Call() if (counted := _counted(node)) is not None:
            evaluate(frame, node)
            return filled(frame, evaluate(frame, counted))
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


def _counted(node: ast.expr) -> ast.expr | None:
    """The tensor whose elements an expression counts: `x.numel()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=counted, attr="numel" | "nelement"), args=[], keywords=[]):
            return counted
    return None


def filled(frame: Frame, value: Value) -> Condition:
    """The condition that a tensor has elements: `torch.empty(0)` stands for one that isn't there."""
    result = FALSE
    for condition, option in value.options():
        told = FALSE if option.rank == EMPTY else frame.atoms.literal(("filled", token(option)))
        result = frame.atoms.either(result, frame.atoms.both(condition, told))
    return result


def spelt(frame: Frame, value: Value, asked: str, text: str) -> Condition:
    """The condition that a text begins or ends with another one, `asked` being the method's name."""
    result = FALSE
    for condition, option in value.options():
        if option.kind is CONSTANT and isinstance(option.data, str):
            holds = option.data.startswith(text) if asked == "startswith" else option.data.endswith(text)
            told = TRUE if holds else FALSE
        else:
            told = frame.atoms.literal(("spelt", token(option), asked, text))
        result = frame.atoms.either(result, frame.atoms.both(condition, told))
    return result


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
            return instance_of(frame, asked, types_of(frame, evaluate(frame, types)), outcome=outcome)
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
        for key in frame.env if frame.env.keys() > env.keys() else ():
            if key not in env:
                env[key] = frame.env[key]
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
    return False if DEVICE_FLAG.search(words) else None


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
        host_when = True if _HOST_FLAG.search(words) else False if DEVICE_FLAG.search(words) else None
    return frame.atoms.literal(("true", token(value)), host_when)


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
