"""Calls: what is called, what it is given, and what comes of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from devlint.knowledge import canonical
from devlint.regexes import regex
from devlint.signatures.libraries import methods, python_calls, torch_calls, torch_modules, waits
from devlint.signatures.reading import tests, types_asked, uses
from devlint.signatures.reading.decorators import keeps_result
from devlint.signatures.reading.expressions import EXPRESSIONS, evaluate
from devlint.signatures.reading.instances import Instance
from devlint.signatures.state import containers
from devlint.signatures.state.frame import ANYTHING, EVERY, IF_MODULE, IF_OBJECT, PLACE, Call, Frame
from devlint.signatures.state.objects import COMPUTED, attribute, class_of, move, place_around, place_of, scatter
from devlint.signatures.state.outcome import Effect, Need, Signature
from devlint.signatures.values.conditions import TRUE, Condition
from devlint.signatures.values.values import (
    ARRAY,
    BATCH,
    CONSTANT,
    DEVICE,
    DICT,
    DISTRIBUTION,
    EITHER,
    HOST,
    LIST,
    METHOD,
    MODULE,
    MODULES,
    NEVER,
    NONE,
    NOTHING,
    NUMBER,
    OBJECT,
    RANKED,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    ZERO_DIM,
    Made,
    Place,
    Step,
    Value,
    either,
    mapped,
)
from devlint.source.devices import MOVES
from devlint.source.modules import FunctionModel, last_name
from devlint.source.slim import by_kind

# A signature hands on so many needs to each caller; what is left open in more than these is nobody's one mistake.
MAX_NEEDS = 80


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
        is_open = option.kind is MODULE and method.kind is UNKNOWN and class_of(option) is not None
        if moving is not None and is_open and _OF_DEVICES.search(ast.unparse(moving)) is not None:
            scatter(frame, option)
        return method

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
                is_open = owner.kind is UNKNOWN and not _is_part_of_module(call.frame, owner)
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
            return _unknown(call, callee)
    return unknown_call(call)


def _one_of(call: Call, callee: Value) -> Value:
    """One of several callees: each is called where it is the one."""
    frame = call.frame
    before, env = frame.path, frame.env
    results, states = [], []
    for condition, option in callee.parts:
        path = frame.atoms.both(before, condition)
        if not path:
            continue
        frame.env, frame.path = env.copy(), path
        frame.supposing += 1
        results.append((path, call_value(call, option)))
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


_LOSS = regex(r"(?i)(?:.*_)?(?:criterion\w{0,30}|criteria|loss|loss_?fn|loss_?func(?:tion)?|loss_?f|objective)\d*")


def _unknown(call: Call, callee: Value) -> Value:
    """A call of something unknown: of a part of a module it is likely a module's, and a loss compares what it is given."""
    if callee.path is not None and _LOSS.fullmatch(str(callee.path[-1]).strip(".[]'")) and not _in_loss(call.frame):
        # One that takes tuples too takes them apart.
        kinds = [{o.kind for _, o in v.options()} for _, v in call.given[:2]]
        pairs = [p for p, k in zip(call.given, kinds, strict=False) if k <= {TENSOR, BATCH, UNKNOWN}]
        if len(pairs) == 2 and len(call.given) < _WITH_LENGTHS:
            call.frame.need("operation", call.node, ast.unparse(call.node.func), *pairs)
    use = uses.use_of(call, callee) if not _is_part_of_module(call.frame, callee) else None
    result = _given_by_unknown(call, callee)
    uses.note(call.frame, use, result)
    return result


# So many things a CTC loss is given, of which the labels may be on the host: `criterion(preds, text, sizes, lengths)`.
_WITH_LENGTHS = 4


def _in_loss(frame: Frame) -> bool:
    """Whether it stands in a loss's own class: one that wraps any other is of a family, whose members may move what they get."""
    cls = frame.function.cls if frame.function is not None else None
    return cls is not None and _LOSS_CLASS.search(cls.name) is not None


_LOSS_CLASS = regex(r"Loss|Criterion")


def _given_by_unknown(call: Call, callee: Value) -> Value:
    """What something unknown likely gives, and where."""
    result = unknown_call(call)
    if any(v.kind in (TENSOR, BATCH) and v.place == HOST for _, v in call.given):
        # What it computes from is on the host: so is it, or it fails here.
        return result
    if result.tags == _OF_ARRAYS:
        return result
    if callee.path is not None and _OF_TEXT.fullmatch(str(callee.path[-1]).strip(".[]'")):
        # It makes tensors of text, wherever the module is that has it.
        return result
    if _PIPELINE.fullmatch(last_name(call.node.func)):
        # A whole program: what it gives is for people, images and texts, whatever device it was moved to.
        return result
    at = call.frame.slot(callee, PLACE)
    if at is not None and at.kind is not EITHER and at.place.sort != "unknown":
        return result.but(place=at.place, tags=COMPUTED, step=at.step)
    if callee.place.off_host or callee.place.sort == "told":
        # What is called after it was moved is a module.
        return result.but(place=callee.place, tags=COMPUTED, step=callee.step)
    if result.place.off_host or result.place.sort == "told":
        # It computes from what was moved there: it is there itself.
        return result
    if callee.place.sort == "input" and _named_like_model(callee) and not _is_part_of_module(call.frame, callee):
        tensors = [o for _, v in call.everything() for _, o in v.options() if o.kind in (TENSOR, BATCH)]
        if tensors and all(o.place.sort == "unknown" for o in tensors):
            # Made here, and moved nowhere: the caller's model is where such tensors are.
            return result
        return result.but(place=callee.place, tags=COMPUTED)
    if any(o.place.off_host or o.place.sort == "told" for _, v in call.everything() for _, o in v.options()):
        # What it is given was moved to several places: so was it, to one of them.
        return result
    if callee.place.sort == "input" and _is_part_of_module(call.frame, callee):
        # What a submodule computes is where its module is.
        root = Place("input", callee.path[:1]) if callee.path else callee.place
        moved = call.frame.get((root.name, PLACE))
        return result.but(place=moved.place if moved is not None and moved.kind is not EITHER else root, tags=COMPUTED)
    return result


def _is_of_arrays(call: Call) -> bool:
    """Whether a call is given arrays alone, or what another library than torch made of them, and plain numbers beside."""
    given = [option for _, value in call.everything() for _, option in value.options()]
    arrays = [_is_array(o) or _holds_arrays(call.frame, o) for o in given]
    return any(arrays) and all(a or o.kind in (CONSTANT, NUMBER) for a, o in zip(arrays, given, strict=True))


def _is_array(value: Value) -> bool:
    return value.kind is ARRAY or value.tags == _OF_ARRAYS


def _holds_arrays(frame: Frame, value: Value) -> bool:
    contents = containers.contents_of(frame, value) if value.kind in (LIST, TUPLE) else None
    parts = contents.parts if contents is not None and contents.kind in (TUPLE, containers.EACH) else ()
    return bool(parts) and all(_is_array(p) for p in parts)


_OF_ARRAYS = frozenset({"of arrays"})
_OF_TEXT = regex(r"(?:.*_)?tokeni[sz](?:e|er)(?:_.*)?")
_PIPELINE = regex(r"(?i)(?:\w{1,60}_)?pipe(?:line)?\d?")
# Names that people give to what computes: what comes of calling it is where its parameters are.
_MODEL = regex(
    r"(?i)(?:.*_)?(?:model|net|network|encoder|decoder|generator|discriminator|critic|actor|policy|backbone|classifier|unet|vae|transformer)\d*"
)


def _named_like_model(callee: Value) -> bool:
    return callee.path is not None and _MODEL.fullmatch(str(callee.path[-1]).strip(".[]'")) is not None


def _is_part_of_module(frame: Frame, callee: Value) -> bool:
    me = frame.reader.self_of(frame)
    return me is not None and me.kind is MODULE and callee.path is not None and me.path == callee.path[:1]


# Calls whose names say that what they give is on the host, or somewhere else than what they are given.
_PLACING_NAMES = (
    "cpu",
    "numpy",
    "np",
    "host",
    "load",
    "read",
    "open",
    "loader",
    "dataset",
    "prepare",
    "move",
    "device",
    "cuda",
    "gpu",
    "list",
    "scatter",
    "gather",
    "token",
    "process",
    "encode_plus",
)


def unknown_call(call: Call, name: str = "", *, displaces: bool = True) -> Value:
    """A call of which nothing is known: what it is given may be changed; it likely computes where its tensors are."""
    frame = call.frame
    if name.startswith("torchmetrics.functional."):
        for _, value in call.given[:2]:
            frame.is_tensor(value)
        frame.need("operation", call.node, name, *call.given[:2])
    if _is_of_arrays(call):
        # Modules compute with tensors: it is another library's.
        return call.fresh().but(tags=_OF_ARRAYS)
    if call.says("return_tensors", "pt") and "device" not in call.keywords:
        # A tokenizer or a processor of transformers: https://huggingface.co/docs/transformers/main_classes/tokenizer
        step = call.step(f"made on cpu by `{call.text}`")
        return call.fresh(HOST).but(kind=BATCH, data="item", rank=RANKED, step=step)
    places: dict[Place, Step | None] = {}
    likely_computes = True
    is_for_its_effect = displaces and _drops_result(call)
    for _, value in call.everything():
        if displaces:
            frame.displace(value, 2)
        if is_for_its_effect:
            frame.lose_batch(value)
        for _, option in value.options():
            known = option.place.is_open or option.place.off_host
            if option.kind in (TENSOR, BATCH) or (option.kind is UNKNOWN and known):
                places.setdefault(option.place, option.step)
            elif option.kind in (LIST, DICT, TUPLE):
                likely_computes = False
    text = (name or call.text).rsplit(".", 1)[-1].lower()
    told = any(word in text for word in _PLACING_NAMES) or text[:1] != text[:1].lower()
    # A distribution is where its parameters are.
    of_torch = name.startswith("torch.distributions.")
    told = told and not of_torch
    if likely_computes and not told and len(places) == 1 and not call.open_ended:
        ((place, trail),) = places.items()
        if place != HOST and place.sort != "unknown":
            return call.fresh(place).but(step=trail, tags=DISTRIBUTION if of_torch else frozenset())
    if any(option.kind is DEVICE for _, value in call.everything() for _, option in value.options()):
        # `dataset.get_data(device, split)`: what it gives may be there.
        return call.fresh(torch_calls.SCATTERED)
    return call.fresh()


def _drops_result(call: Call) -> bool:
    """`load_data_to_gpu(batch)`: what is called so is called for what it does to what it is given."""
    return isinstance(next(call.frame.source.ancestors(call.node), None), ast.Expr)


# -- functions of the project ------------------------------------------------------------------------------------------


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


def instantiate(call: Call, callee: Value) -> Value:
    """`Cls(...)`: a new object, with what its constructor sets."""
    frame = call.frame
    cls = callee.data
    if cls is None:
        return call.fresh()
    cell = frame.new_cell(call.node)
    if cls.is_enumeration or any(name.endswith("Exception") for name in cls.outside_bases):
        return Value(UNKNOWN)
    kind = MODULE if cls.is_module else OBJECT
    made = Value(kind, UNKNOWN_PLACE, data=cls, cell=cell)
    tensor_like = any(name in ("torch.Tensor", "torch.autograd.Function") for name in cls.outside_bases)
    if tensor_like:
        return call.fresh()
    if kind is MODULE:
        step = call.step(f"created on cpu by `{call.text}`")._replace(of_module=True)
        frame.env[cell, PLACE] = Value(TENSOR, frame.default_place, step=step)
    constructor = cls.method("__init__")
    if constructor is not None:
        call_function(call, constructor, bound=made)
        if kind is MODULE:
            place_around(frame, made, [v for _, v in call.everything()])
        return made
    if "typing.NamedTuple" in cls.outside_bases or "collections.namedtuple" in cls.outside_bases:
        parts = _fields(call, cls.fields)
        return Value(TUPLE, parts=tuple(parts.values())) if len(parts) == len(cls.fields) else NOTHING
    for name, value in _fields(call, cls.fields).items():
        frame.put(made, f".{name}", value)
    return made


def _fields(call: Call, fields: Sequence[str]) -> dict[str, Value]:
    found = dict(zip(fields, call.positional_values, strict=False))
    return found | {k: v for k, (_, v) in call.keywords.items() if k in fields}


# -- modules of the project --------------------------------------------------------------------------------------------


def call_module(call: Call, module: Value) -> Value:
    """A call of a module: `forward`, with what it asks of the module and its inputs told at the call."""
    cls = class_of(module)
    frame = call.frame
    if frame.slot(module, ".__hooks__") is not None:
        # A hook may move what the module is given.
        return call.fresh()
    if cls is None:
        return torch_modules.call_module(call, module)
    own_call = cls.method("__call__")
    forward = own_call or cls.method("forward")
    if forward is None:
        return unknown_call(call)
    signature = frame.reader.signature(forward, None)
    if signature is None:
        return unknown_call(call)
    meeting = _meeting_inputs(frame, signature.needs, forward)
    given: dict[str, Value] = {}
    if meeting:
        place = mapped(
            place_of(frame, module),
            lambda p: Value(MODULE, p.place, data=cls, step=p.step, likely=p.likely),
            frame.atoms,
        )
        given = bind_arguments(call, forward, module) or {}
        pairs = {id(v): n for n, v in call.everything()}
        for name in meeting:
            value = given.get(name)
            if value is not None and id(value) in pairs:
                frame.need(
                    "call", call.node, ast.unparse(call.node.func), (pairs[id(value)], value), (call.node.func, place)
                )
    # What is told at the call isn't told again inside.
    result = call_function(call, forward, bound=module, told=frozenset(meeting))
    if not meeting or own_call is not None:
        return result
    return torch_modules.unless_apart(frame, [given[n] for n in meeting if n in given], place_of(frame, module), result)


def _meeting_inputs(frame: Frame, needs: Sequence[Need], forward: FunctionModel) -> list[str]:
    """The inputs of `forward` that surely meet the module's own parameters."""
    me = forward.parameters[0].arg if forward.parameters else "self"
    found: dict[str, None] = {}
    for need in needs:
        if need.sense not in ("operation", "call") or need.path != TRUE:
            continue
        roots = []
        for _, value in need.operands:
            surely = value.place.sort == "input" and len(value.place.name) == 1 and value.kind is not EITHER
            if surely and value.place.name[0] == me:
                surely = value.kind in (TENSOR, MODULE)
            # One without dimensions may stay on the host.
            surely = surely and (need.any_rank or value.rank != ZERO_DIM)
            roots.append(value.place.name[0] if surely else None)
        if me in roots:
            for root in roots:
                if root is not None and root != me:
                    found[str(root)] = None
    return list(found)


EXPRESSIONS |= by_kind({ast.Call: _call})
