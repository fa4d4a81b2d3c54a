"""Calls: what is called, what it is given, and what comes of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.knowledge import canonical
from devlint.regexes import regex
from devlint.signatures.libraries import methods, python_calls, torch_calls, torch_modules, waits
from devlint.signatures.reading import tests, uses
from devlint.signatures.reading.expressions import EXPRESSIONS, evaluate
from devlint.signatures.reading.function_calls import call_function
from devlint.signatures.reading.object_calls import call_module, instantiate
from devlint.signatures.reading.unknown_calls import call_unknown, is_part_of_module, unknown_call
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Call, Frame
from devlint.signatures.state.objects import attribute, class_of, scatter
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import (
    BATCH,
    DICT,
    EITHER,
    HOST,
    METHOD,
    MODULE,
    NONE,
    OBJECT,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    Made,
    Value,
    either,
    mapped,
)
from devlint.source.devices import MOVES
from devlint.source.modules import last_name
from devlint.source.slim import by_kind


def _call(frame: Frame, node: ast.Call) -> Value:
    if last_name(node.func) in tests.ASKING:
        told = tests.asked_of_class(frame, node)
        if told is not None:
            return tests.outcome(told)
    dropped, frame.dropped = frame.dropped, None
    callee = _callee(frame, node.func, moving=node if dropped is node else None)
    if dropped is node and isinstance(node.func, ast.Attribute) and node.func.attr in MOVES:
        frame.drops[node] = callee
    call = Call(frame, node)
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            _spread(call, argument)
        else:
            call.given.append((argument, evaluate(frame, argument)))
    for keyword in node.keywords:
        value = evaluate(frame, keyword.value)
        if keyword.arg is not None:
            call.keywords[keyword.arg] = (keyword.value, value)
        else:
            _spread_keywords(call, keyword.value, value)
    frame.dropped = dropped
    waits.called(call, callee)
    return call_value(call, callee)


# What a statement speaks of that may move a module by a method that nobody has read: `net.intype("gpu")`.
_OF_DEVICES = regex(r"(?i)cuda|[cg]pu|device|accel|[nx]pu")


def _callee(frame: Frame, func: ast.expr, *, moving: ast.Call | None = None) -> Value:
    """What is called; a method of something unknown goes by its name. `moving` is a call that may move its module, if that isn't known."""
    if not isinstance(func, ast.Attribute):
        return evaluate(frame, func)
    owner = evaluate(frame, func.value)
    if owner.kind is EITHER and not frame.supposing:
        frame.ruled_out += _never_with_methods(frame, owner)

    def found(option: Value) -> Value:
        if option.kind is UNKNOWN and frame.slot(option, f".{func.attr}") is None:
            return Value(METHOD, data=func.attr, parts=(option,))
        method = attribute(frame, option, func.attr)
        if option.kind is OBJECT and method.kind is UNKNOWN:
            # A method that nobody has read, of what is no module: what it gives may be anywhere.
            return method.but(place=UNKNOWN_PLACE)
        is_open = option.kind is MODULE and method.kind is UNKNOWN and class_of(option) is not None
        if moving is not None and is_open and _OF_DEVICES.search(ast.unparse(moving)) is not None:
            scatter(frame, option)
        return method

    frame.asked = func
    method = mapped(owner, found, frame.atoms)
    if frame.record is not None:
        frame.record.note(frame, func, method)
    return method


def _never_with_methods(frame: Frame, owner: Value) -> Iterator[Condition]:
    """When what a method of is called would surely be None, which has none: that ends in an error."""
    options = owner.options()
    for condition, option in options:
        others = [other for other, value in options if value != NONE]
        if option == NONE and others and not any(frame.atoms.both(condition, other) for other in others):
            when = frame.atoms.both(frame.path, condition)
            if when and frame.atoms.both(frame.path, frame.atoms.negated(condition)):
                yield when


def _spread(call: Call, node: ast.Starred) -> None:
    inner = evaluate(call.frame, node.value)
    contents = containers.contents_of(call.frame, inner)
    if contents is not None and contents.kind is TUPLE and inner.kind is not DICT and not call.open_ended:
        call.given += [(node.value, part) for part in contents.parts]
        return
    call.open_ended = True


def _spread_keywords(call: Call, node: ast.expr, value: Value) -> None:
    contents = containers.contents_of(call.frame, value)
    if contents is not None and contents.kind is containers.ITEMS:
        call.keywords |= {str(k): (node, v) for k, v in zip(contents.data, contents.parts, strict=True)}
        return
    if value.kind is BATCH and value.place == HOST:
        # `model(**inputs)`: tensors by names that the call doesn't tell.
        call.keywords["**"] = (node, value)
    call.open_ended = True


def call_value(call: Call, callee: Value) -> Value:
    """What calling a value gives."""
    if callee.kind is EITHER:
        return _one_of(call, callee)
    match callee.kind:
        case "reference":
            return _outside(call, callee.data)
        case "function" | "class" if callee.data is None:
            return unknown_call(call)
        case "function":
            function, closure, around = callee.data
            return call_function(call, function, closure=closure, around=around)
        case "method":
            owner = callee.parts[0]
            if isinstance(callee.data, str):
                is_open = owner.kind is UNKNOWN and not is_part_of_module(call.frame, owner)
                use = uses.use_of(call, owner, callee.data) if is_open else None
                result = methods.call_method(call, owner, callee.data)
                uses.note(call.frame, use, result)
                return result
            return call_function(call, callee.data, bound=owner)
        case "class":
            return instantiate(call, callee)
        case "module":
            return call_module(call, callee)
        case "wrapper":
            return torch_modules.call_wrapper(call, callee)
        case "object":
            cls = class_of(callee)
            method = cls.method("__call__") if cls is not None else None
            return call_function(call, method, bound=callee) if method is not None else unknown_call(call)
        case "partial":
            return _partial(call, callee)
        case "unknown":
            return call_unknown(call, callee)
    return unknown_call(call)


def _one_of(call: Call, callee: Value) -> Value:
    """One of several callees: each is called where it is the one."""
    frame = call.frame
    before, env = frame.path, frame.env
    results, states = [], []
    # What somebody else has made of a module computes like it, whose results are known: where it is tells nothing more.
    is_known = any(option.kind is MODULE and class_of(option) is not None for _, option in callee.parts)
    for condition, option in callee.parts:
        path = frame.atoms.both(before, condition)
        if not path:
            continue
        frame.env, frame.path = env.copy(), path
        frame.supposing += 1
        results.append((path, call.fresh() if is_known and option.kind is UNKNOWN else call_value(call, option)))
        frame.supposing -= 1
        states.append((path, frame.env))
    frame.merge(states, before)
    frame.path = before
    return either(results, frame.atoms)


def _outside(call: Call, name: str | None) -> Value:
    if name is None:
        return unknown_call(call)
    meant = torch_calls.meaning(name) or python_calls.meaning(name)
    if meant is not None:
        return meant(call)
    owner, _, method = name.rpartition(".")
    if owner == "torch.Tensor" and call.given:
        inner = Call(call.frame, call.node)
        inner.given, inner.keywords = call.given[1:], call.keywords
        return methods.call_method(inner, call.given[0][1], method)
    found = unknown_call(call, name=name, displaces=not name.startswith(_LOGGING))
    if torch_calls.has_kind(name) and not (call.node.args and name.startswith(("io.", "tempfile."))):
        return found.but(data=Made(canonical(name), (call.frame.source.path, call.node.lineno, call.node.col_offset)))
    return found


# What only reads what it is given.
_LOGGING = ("wandb.", "mlflow.", "logging.", "builtins.print")


def _partial(call: Call, callee: Value) -> Value:
    """`functools.partial(f, ...)` called: what it was given comes first."""
    inner, *given = callee.parts
    count = len(given) - len(callee.data)
    joined = Call(call.frame, call.node)
    joined.given = [(call.node.func, v) for v in given[:count]] + call.given
    joined.keywords = {name: (call.node.func, v) for name, v in zip(callee.data, given[count:], strict=True)}
    joined.keywords |= call.keywords
    joined.open_ended = call.open_ended
    return call_value(joined, inner)


EXPRESSIONS |= by_kind({ast.Call: _call})
