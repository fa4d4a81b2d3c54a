"""Calls of functions that can be read: their signatures, taken for what a call gives them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devlint.signatures.reading import types_asked, uses
from devlint.signatures.reading.decorators import keeps_result
from devlint.signatures.reading.instances import Instance
from devlint.signatures.reading.unknown_calls import unknown_call
from devlint.signatures.state import containers
from devlint.signatures.state.frame import ANYTHING, EVERY, IF_MODULE, IF_OBJECT, PLACE, Call, Frame
from devlint.signatures.state.objects import move
from devlint.signatures.state.outcome import Effect, Need, Signature
from devlint.signatures.values.conditions import TRUE
from devlint.signatures.values.values import (
    BATCH,
    DICT,
    EITHER,
    HOST,
    MODULES,
    NEVER,
    NONE,
    NOTHING,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    Place,
    Value,
)
from devlint.source.modules import FunctionModel

# A signature hands on so many needs to each caller; what is left open in more than these is nobody's one mistake.
MAX_NEEDS = 80


def call_function(
    call: Call,
    function: FunctionModel,
    *,
    bound: Value | None = None,
    closure: Frame | None = None,
    around: Instance | None = None,
    told: frozenset[str] = frozenset(),
) -> Value:
    """A call of a function that the project defines."""
    frame = call.frame
    reader = frame.reader
    if function in frame.nested:
        frame.nested[function] = True
    given = bind_arguments(call, function, bound)
    if frame.record is not None:
        frame.record.called(frame, call.node, function, given or {})
    if not frame.again:
        reader.was_given(frame, function, given or {})
    if reader.calls_itself(function):
        signature = reader.so_far(function)
        if signature is None:
            # What a recursive call gives is what the other ways through the function give.
            return NEVER
    elif not reader.follows(frame.source, function):
        return unknown_call(call)
    else:
        signature = reader.signature(function, closure)
    if signature is None or given is None or (bound is None and _is_of_another_class(frame, function, given)):
        return unknown_call(call)
    if not keeps_result(reader, function):
        # An unknown decorator may do anything with what it is given.
        return call.fresh()
    if frame.function is not None and function.source is frame.source:
        _find(frame, signature)
    instance = Instance(frame, signature, given, call.node)
    if around is not None:
        instance.given = {**around.given, **given}
    for name, default in reader.defaults(function).items():
        kept = closure.env.get((function, f"={name}")) if closure is not None else None
        instance.given.setdefault(name, default if kept is None else kept)
    if signature.uses:
        uses.hand_on(frame, call, instance)
    for path in signature.tensors:
        frame.is_tensor(instance.at(path))
    hand_on(frame, call, signature.needs, instance, told)
    result = instance.value(signature.gives)
    _apply(frame, instance, call)
    if result is NEVER and not signature.returns:
        return NEVER
    return NOTHING if result is NEVER else result


def _is_of_another_class(frame: Frame, function: FunctionModel, given: dict[str, Value]) -> bool:
    """Whether a method is called by its class with what may be no object of that: `Trainer.step(stand_in, batch)`.

    What a method says of `self` holds for the objects that the class's own constructor has made.
    """
    if function.cls is None or function.is_static or not function.parameters or "classmethod" in function.decorators:
        return False
    me = given.get(function.parameters[0].arg)
    cls = frame.reader.class_info(function.source, function.cls)
    return me is not None and cls is not None and not types_asked.may_be_of(frame, me, cls)


def _find(frame: Frame, signature: Signature) -> None:
    """What a function finds outside of it, the one that calls it finds there too, unless it is its own, or the other's."""
    if not signature.found:
        return
    unseen = _unseen_names(frame.function, signature.function)
    for key, value in signature.found.items():
        if key not in frame.env and key not in frame.locals and key not in unseen:
            frame.found.setdefault(key, value)


def _unseen_names(caller: FunctionModel | None, function: FunctionModel) -> frozenset[str]:
    """The names of the scopes around a function that aren't around the one that calls it: it was handed out of them."""
    around = set[FunctionModel]()
    while caller is not None:
        around.add(caller)
        caller = caller.parent
    names = frozenset[str]()
    scope = function.parent
    while scope is not None and scope not in around:
        names |= scope.local_names
        scope = scope.parent
    return names


def bind_arguments(call: Call, function: FunctionModel, bound: Value | None) -> dict[str, Value] | None:
    """Which parameter gets what; None where that can't be told."""
    arguments = function.node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    given = [v for _, v in call.given]
    if bound is not None and not function.is_static:
        given.insert(0, bound)
    if call.open_ended:
        # Anything may be given for what is neither named nor stands in its place.
        known = {name: Value(UNKNOWN) for name in [a.arg for a in function.parameters]}
        if not any(isinstance(a, ast.Starred) for a in call.node.args):
            known |= zip(names, given, strict=False)
        if bound is not None and names and not function.is_static:
            known[names[0]] = bound
        known |= {k: v for k, (_, v) in call.keywords.items() if k in known}
    else:
        known = dict(zip(names, given, strict=False))
        known |= {k: v for k, (_, v) in call.keywords.items() if k in {a.arg for a in function.parameters}}
        if not function.node.decorator_list and any(
            a.arg not in known and a.arg not in function.defaults for a in function.parameters
        ):
            # It raises before it does anything: what is given may be in the wrong places.
            return None
    if arguments.vararg is not None:
        rest = tuple(given[len(names) :])
        known[arguments.vararg.arg] = Value(TUPLE, parts=rest) if not call.open_ended else NOTHING
    if arguments.kwarg is not None:
        extra = {k: v for k, (_, v) in call.keywords.items() if k not in {a.arg for a in function.parameters}}
        known[arguments.kwarg.arg] = (
            containers.made(
                call.frame, DICT, Value(containers.ITEMS, data=tuple(extra), parts=tuple(extra.values())), call.node
            )
            if not call.open_ended
            else NOTHING
        )
    prefix = call.frame.reader.root_prefix(function)
    return {f"{name}{prefix}": value for name, value in known.items()}


def hand_on(frame: Frame, call: Call, needs: Sequence[Need], instance: Instance, told: frozenset[str]) -> None:
    """The needs of a function, as a call makes them: met, contradicted, or the caller's own."""
    assert instance.signature is not None
    if not needs:
        return
    given = {o.place for _, v in call.everything() for _, o in v.options() if o.kind in (TENSOR, BATCH, UNKNOWN)}
    if len(needs) > MAX_NEEDS:
        needs = needs[:MAX_NEEDS]
    for need in needs:
        places = {p for _, value in need.operands for p in _places(instance, value)}
        if frame.function is not None and not frame.again:
            frame.reader.was_brought(frame, instance.signature.function, need, places, given)
        if not _may_matter(need, places) or (told and _roots(need) & told) or _is_told_by_call(need):
            continue
        for turn in _in_turn(instance, need):
            made = _given_need(frame, call, need, turn)
            if made is not None:
                frame.needs.append(made)


def _in_turn(instance: Instance, need: Need) -> list[Instance]:
    """A call once for each thing that a loop goes over, where something else has to be together with that."""
    each = {v.path for _, v in need.operands if v.path is not None and v.path[-1] == "[]"}
    turns = instance.turns(each.pop()) if len(each) == 1 and len(need.operands) > 1 else []
    return [instance, *turns] if len(turns) > 1 else [instance]


def _given_need(frame: Frame, call: Call, need: Need, instance: Instance) -> Need | None:
    """A need of a function with what a call gives; None where it can't arise there."""
    condition = instance.condition(need.path)
    path = frame.atoms.both(frame.path, condition)
    if not path:
        return None
    operands = tuple((node, frame.as_a_whole(instance.value(value))) for node, value in need.operands)
    if any(v is NOTHING for _, v in operands):
        return None
    via = ((frame.source, call.node), *need.via)
    guarded = need.guarded or condition != TRUE or frame.supposing > 0
    inside = need.told_inside or any(o.place == HOST for _, v in need.operands for _, o in v.options())
    return need._replace(operands=operands, path=path, via=via, guarded=guarded, told_inside=inside)


def _is_told_by_call(need: Need) -> bool:
    """Whether a call in the function itself brought what can't be together: that is told there."""
    if not need.via:
        return False
    at = [{o.place for _, o in value.options()} for _, value in need.operands]
    return any(HOST in a and any(p.off_host for p in b) for a in at for b in at if a is not b)


def _roots(need: Need) -> set[str]:
    """The inputs that take part in a need with their places alone."""
    return {str(v.place.name[0]) for _, v in need.operands if v.kind is not EITHER and v.place.sort == "input"}


def _may_matter(need: Need, places: set[Place]) -> bool:
    """Whether operands at these places leave a need that may not be met, conditions aside."""
    known = places - {UNKNOWN_PLACE}
    if need.sense == "host":
        return any(p != HOST for p in known)
    return len(known) > 1


def _places(instance: Instance, value: Value, depth: int = 3) -> set[Place]:
    if value.kind in (EITHER, TUPLE):
        parts = [v for _, v in value.parts] if value.kind is EITHER else value.parts
        return {p for part in parts for p in _places(instance, part, depth - 1)} if depth else set()
    result = value.path is not None and instance.is_told(value.path)
    if value.place.is_open and not result:
        if instance.at(value.place.name) == NONE:
            return set()
        return {v.place for _, v in instance.place(value.place).options()}
    if value.path is not None and (result or value.place == UNKNOWN_PLACE or not str(value.path[0]).startswith("#")):
        return {v.place for _, v in instance.at(value.path).options()}
    # What the function itself took from somewhere is where it says.
    return {value.place}


def _apply(frame: Frame, instance: Instance, call: Call) -> None:
    """The changes that a function makes to what it is given."""
    assert instance.signature is not None
    for effect in instance.signature.effects:
        for turn in instance.turns(effect.path):
            _change(frame, turn, effect)


def _change(frame: Frame, instance: Instance, effect: Effect) -> None:
    target = instance.at(effect.path)
    if effect.slot == ANYTHING:
        frame.displace(target)
        for _, option in target.options():
            if option.kind is BATCH and option.path is not None:
                frame.env[option.path, ANYTHING] = NOTHING
    elif effect.slot == EVERY:
        _change_each(frame, instance, effect, target)
    elif effect.slot in (PLACE, IF_MODULE):
        place = instance.value(effect.value)
        if any(option.kind in MODULES for _, option in target.options()):
            move(frame, target, place, effect.value.step if effect.value.kind is not EITHER else None)
        elif target.kind is UNKNOWN and target.path is not None:
            frame.env[target.path, effect.slot] = place
        for _, option in target.options():
            if option.kind is BATCH and option.path is not None:
                frame.env[option.path, IF_OBJECT] = NOTHING
    else:
        frame.put(target, effect.slot, instance.value(effect.value))


def _change_each(frame: Frame, instance: Instance, effect: Effect, target: Value) -> None:
    """What a loop over `vars(self)`, or over all fields, does to each attribute that is known here."""
    frame.lose_batch(target)
    slots = [k[1] for k in frame.env if isinstance(k, tuple) and len(k) == 2 and k[0] == target.identity]
    for slot in slots:
        held = frame.get((target.identity, slot)) if str(slot).startswith(".") and slot != EVERY else None
        if held is not None:
            frame.put(target, slot, instance.supposing((*effect.path, EVERY), held).value(effect.value))
