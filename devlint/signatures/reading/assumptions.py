"""What the outcome of a test tells of the values that it asks about."""

from __future__ import annotations

import ast

from devlint.signatures.reading.expressions import evaluate
from devlint.signatures.reading.types_asked import (
    PYTHON_TYPES,
    TYPES,
    option_has,
    types_of,
)
from devlint.signatures.state.frame import Frame
from devlint.signatures.values.conditions import FALSE, TRUE
from devlint.signatures.values.values import (
    ARRAY,
    CLASS,
    DICT,
    HOST,
    LIST,
    NUMBER,
    REFERENCE,
    TENSOR,
    TUPLE,
    UNKNOWN,
    Value,
    constant,
    either,
    mapped,
)


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
    named = types_of(frame, evaluate(frame, types))
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
    kinds = TYPES.get(only.data, ()) if only.kind is REFERENCE else ()
    if only.kind is REFERENCE and only.data in PYTHON_TYPES:
        kinds = (NUMBER,)
    if kinds:
        _become(frame, name, kinds[0])


def _keep_those_with(frame: Frame, name: str, asked: str, outcome: bool) -> None:
    """`hasattr(name, asked)` came out so, where the condition of that is too long to tell its alternatives apart."""
    known = frame.get(name)
    if known is None or not frame.atoms.is_forgotten(frame.path):
        return
    other = FALSE if outcome else TRUE
    kept = [(when, option) for when, option in known.options() if option_has(frame, option, asked) != other]
    if kept and len(kept) < len(known.options()):
        frame.env[name] = either(kept, frame.atoms)


def _widen(frame: Frame, name: str, types: ast.expr) -> None:
    """`isinstance(name, T)` came out false: it isn't a tensor, if that was asked."""
    named = types_of(frame, evaluate(frame, types))
    known = frame.get(name)
    if known is not None and any(t.kind is REFERENCE and TENSOR in TYPES.get(t.data, ()) for t in named):
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
