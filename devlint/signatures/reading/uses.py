"""Calls of what a function was given: made once a caller says which module that is.

`def step(model, batch): return model(batch.cuda())` asks nothing by itself; `step(Net(), batch)` does.
"""

from __future__ import annotations

import ast

from devlint.regexes import regex
from devlint.signatures.reading.instances import Instance
from devlint.signatures.state.frame import ANYTHING, IF_MODULE, PLACE, Call, Frame
from devlint.signatures.state.objects import attribute
from devlint.signatures.state.outcome import Need, Use
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import (
    BATCH,
    FUNCTION,
    METHOD,
    MODULE,
    NOTHING,
    TENSOR,
    UNKNOWN,
    Value,
    either,
    mapped,
)
from devlint.source.modules import FunctionModel

# A function notes so many of them, and hands on as many.
MAX_USES = 40
# So many calls lie between a use and the caller that knows the module.
MAX_CHAIN = 4
# Methods that compute from what they are given as `forward` does, going by their names.
_COMPUTING = regex(r"(?:forward|inference|infer|predict|generate|sample|encode|decode|score|loss)(?:_\w{1,40})?")


def use_of(call: Call, callee: Value, method: str = "") -> Use | None:
    """A call of an input, or of a method of it, with tensors, as it is before it is made; None where it is no such call."""
    frame = call.frame
    if frame.function is None or call.open_ended or len(frame.uses) >= MAX_USES:
        return None
    if (method and not _COMPUTING.fullmatch(method)) or not _is_as_given(frame, callee):
        return None
    if not any(_is_placed(option) for _, value in call.everything() for _, option in value.options()):
        return None
    keywords = tuple((name, node, frame.as_a_whole(value)) for name, (node, value) in call.keywords.items())
    given = tuple((node, frame.as_a_whole(value)) for node, value in call.given)
    return Use(call.node, frame.source, method, callee, given, keywords, frame.path, (), frame.function)


def note(frame: Frame, use: Use | None, result: Value) -> None:
    """Notes a use, if it is one, with what it gives, as the function has it."""
    if use is not None:
        frame.uses.append(use._replace(gives=result))


def _is_as_given(frame: Frame, callee: Value) -> bool:
    """Whether something is an input, and is where it was when it was given."""
    path = callee.path
    if callee.kind is not UNKNOWN or path is None or str(path[0]).startswith("#") or not callee.place.is_open:
        return False
    return not any(
        (path[:n], slot) in frame.env for n in range(1, len(path) + 1) for slot in (PLACE, IF_MODULE, ANYTHING)
    )


def _is_placed(value: Value) -> bool:
    return value.kind in (TENSOR, BATCH, UNKNOWN) and value.place.sort != "unknown"


def hand_on(frame: Frame, call: Call, instance: Instance) -> None:
    """The uses of a function's inputs, as a call of it makes them: of a module, or of the caller's own inputs."""
    assert instance.signature is not None
    for use in instance.signature.uses:
        if use.late:
            frame.later.append((call, use, instance, frame.path))
        else:
            _make(frame, call, use, instance)


def make_late(frame: Frame) -> None:
    """The uses by functions that were handed out: they run once the scope has done what it does."""
    env, path = frame.env, frame.path
    for call, use, instance, at in frame.later:
        frame.path = at
        _make(frame, call, use, instance)
    frame.env, frame.path = env, path
    frame.later.clear()


def escaping(frame: Frame, nested: FunctionModel, uses: tuple[Use, ...]) -> None:
    """The uses by a function that a scope makes and doesn't call, as the scope's own."""
    prime = "\N{PRIME}"
    inner = frame.reader.root_prefix(nested)
    for use in uses:
        root = str(use.callee.path[0]) if use.callee.path is not None else inner
        if root.count(prime) < len(inner) and len(frame.uses) < MAX_USES:
            frame.uses.append(use._replace(late=True))


def _make(frame: Frame, call: Call, use: Use, instance: Instance) -> None:
    results = []
    options = instance.value(use.callee).options()
    for when, callee in options:
        path = frame.atoms.both(frame.atoms.both(frame.path, when), instance.condition(use.path))
        result = _make_one(frame, call, use, instance, callee, path) if path else None
        if result is not None:
            results.append((when, result))
    if len(results) == len(options) and use.gives.path is not None:
        instance.tell(use.gives.path, either(results, frame.atoms))


def _make_one(frame: Frame, call: Call, use: Use, instance: Instance, callee: Value, path: Condition) -> Value | None:
    """One alternative of a use; what it gives, where that is a tensor for all that is known."""
    given = tuple((node, instance.value(value)) for node, value in use.given)
    keywords = tuple((name, node, instance.value(value)) for name, node, value in use.keywords)
    via = ((frame.source, call.node), *use.via)
    moved_on = use._replace(callee=callee, given=given, keywords=keywords, path=path, via=via, late=False)
    moved = frame.slot(callee, PLACE) if callee.kind is UNKNOWN else None
    if callee.kind is MODULE:
        result = _called(frame, moved_on)
        return result if all(o.kind is TENSOR for _, o in result.options()) else None
    if moved is not None:
        _asked_of_moved(frame, moved_on, moved)
    elif (
        frame.function is not None
        and len(via) < MAX_CHAIN
        and len(frame.uses) < MAX_USES
        and _is_as_given(frame, callee)
    ):
        frame.uses.append(moved_on._replace(gives=instance.value(use.gives)))
    return None


def _asked_of_moved(frame: Frame, use: Use, at: Value) -> None:
    """The call of something unknown that was moved by a statement of its own, as modules are: it computes there."""
    there = mapped(at, lambda p: Value(MODULE, p.place, step=p.step, likely=True), frame.atoms)
    before, path = len(frame.needs), frame.path
    frame.path = use.path
    for pair in use.given[:1]:
        frame.need("call", use.node, ast.unparse(use.node.func), pair, (_owner(use), there))
    frame.path = path
    frame.needs[before:] = [_told_of(use, need) for need in frame.needs[before:]]


def _owner(use: Use) -> ast.expr:
    """The expression of what is used."""
    return use.node.func.value if use.method and isinstance(use.node.func, ast.Attribute) else use.node.func


def _called(frame: Frame, use: Use) -> Value:
    """The call of a module that is known: its needs, told where the call stands, and what it gives."""
    inner = Call(frame, use.node)
    inner.given = list(use.given)
    inner.keywords = {name: (node, value) for name, node, value in use.keywords}
    before, waits, uses, path, env = len(frame.needs), len(frame.waits), len(frame.uses), frame.path, frame.env
    frame.path, frame.env = use.path, env.copy()
    frame.supposing += 1
    result = NOTHING
    callee = attribute(frame, use.callee, use.method) if use.method else use.callee
    if callee.kind is MODULE or (callee.kind in (METHOD, FUNCTION) and not isinstance(callee.data, str)):
        result = frame.reader.call_value(inner, callee)
    frame.supposing -= 1
    frame.path, frame.env = path, env
    del frame.waits[waits:], frame.uses[uses:]
    frame.needs[before:] = [_told_of(use, need) for need in frame.needs[before:]]
    return result


def _told_of(use: Use, need: Need) -> Need:
    """What the call of a use asks, as it stands there."""
    if need.via:
        return need._replace(via=(*use.via, (use.source, use.node), *need.via[1:]), guarded=True)
    return need._replace(via=use.via, source=use.source, function=use.function, guarded=True)
