"""Evaluates calls: what they return, and what they move or change on the way."""

from __future__ import annotations

import ast

from devlint.knowledge import canonical
from devlint.knowledge.ecosystem import TENSOR_TYPES
from devlint.placement.expressions import EXPRESSIONS, attribute, evaluate
from devlint.placement.methods import method
from devlint.placement.outside import outside
from devlint.placement.request import Call, forward, is_super, unknown_call
from devlint.placement.scope import Scope
from devlint.placement.values import Value, either, replace
from devlint.source.kinds import Kind
from devlint.source.paths import access_path


def call(frame: Scope, node: ast.Call) -> Value:
    """The value of a call expression; its side effects are done to the frame's environment."""
    receiver: Value | None = None
    if isinstance(node.func, ast.Attribute):
        receiver = evaluate(frame, node.func.value)
        callee = _method_or_attribute(frame, receiver, node.func)
    else:
        callee = evaluate(frame, node.func)
    positional, keywords, spread = [], {}, []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            spread.append(argument.value)
        else:
            positional.append(evaluate(frame, argument))
    for keyword in node.keywords:
        if keyword.arg is None:
            spread.append(keyword.value)
        else:
            keywords[keyword.arg] = evaluate(frame, keyword.value)
    handed_on = [evaluate(frame, argument) for argument in spread]
    request = Call(frame, node, positional, keywords, handed_on)
    if callee is not None:
        _note_wrapper_call(request, callee)
        if callee.kind is not Kind.EITHER:
            return _call_value(request, callee)
        return either((g, _call_value(request, c)) for g, c in callee.alternatives())
    assert isinstance(node.func, ast.Attribute)
    assert receiver is not None
    name = node.func.attr
    if is_super(node):
        # What hands itself back is the object, not what it is to the parent's method.
        me = frame.lookup("self")
        found = method(request, receiver, name)
        return either((g, _whole(v, receiver, me)) for g, v in found.alternatives())
    if receiver.kind is not Kind.EITHER:
        return method(request, receiver, name)
    return either((g, method(request, r, name)) for g, r in receiver.alternatives())


def _whole(value: Value, seen: Value, me: Value) -> Value:
    """An object that `super()` showed as one of its parent class, as it is."""
    same = value.kind is me.kind is Kind.MODULE and (value.cls, value.site) == (seen.cls, seen.site)
    return replace(value, cls=me.cls, name=me.name) if same else value


def _note_wrapper_call(request: Call, callee: Value) -> None:
    """A wrapper is called; told where every path to the call leaves it at one place."""
    options = [v for _, v in callee.alternatives()]
    if options[0].kind is Kind.WRAPPER and len({v.place for v in options}) == 1:
        for option in options:
            request.happened("called", option, "called here")


def _method_or_attribute(frame: Scope, receiver: Value, func: ast.Attribute) -> Value | None:
    """The callee where `x.f` is a value of its own; None where `f` is a method to look up by the receiver's kind."""
    path = access_path(func)
    known = frame.env.get(path) if path else None
    if known is None:
        frame.analysis.note_attribute(frame, receiver, func)
    if known is None and receiver.kind in (Kind.REFERENCE, Kind.CLASS):
        known = attribute(frame, receiver, func)
        if known.kind is Kind.UNKNOWN and receiver.kind is Kind.CLASS:
            known = None
    elif known is None and receiver.kind in (Kind.MODULE, Kind.OBJECT):
        # A submodule or a stored callable; methods stay with `method`.
        own = frame.analysis.objects.attribute_of(receiver, func.attr, func)
        known = (
            own
            if own.kind in (Kind.MODULE, Kind.WRAPPER, Kind.CLASS)
            or (own.kind is Kind.EITHER and any(v.is_module for _, v in own.options))
            else None
        )
    if known is not None and frame.record is not None:
        frame.record[func] = known
    return known


def _call_value(request: Call, callee: Value) -> Value:
    analysis = request.frame.analysis
    if callee.kind is Kind.REFERENCE:
        callee = analysis.resolve(callee, request.frame.source)
    match callee.kind:
        case Kind.REFERENCE:
            name = canonical(callee.name)
            return _unbound_method(request, name) or outside(request, name)
        case Kind.CLASS:
            return analysis.functions.instantiate(request, callee)
        case Kind.FUNCTION if callee.function is not None:
            return analysis.functions.call_function(request, callee.function, callee.inner)
        case Kind.FUNCTION if callee.each is not None and callee.each.kind is not Kind.UNKNOWN:
            # A lambda, whatever it is given.
            return replace(callee.each, likely=True)
        case Kind.MODULE | Kind.WRAPPER:
            return forward(request, callee)
    return unknown_call(request)


def _unbound_method(request: Call, name: str) -> Value | None:
    """`torch.Tensor.to(x, device)`: the method of its first argument."""
    owner, _, called = name.rpartition(".")
    if owner not in TENSOR_TYPES or not request.positional:
        return None
    node = ast.Call(request.node.func, request.node.args[1:], request.node.keywords)
    shifted = Call(
        request.frame,
        ast.copy_location(node, request.node),
        request.positional[1:],
        request.keywords,
        request.spread,
    )
    return either((g, method(shifted, receiver, called)) for g, receiver in request.positional[0].alternatives())


EXPRESSIONS[ast.Call] = call
