"""Statements: how they lead on, and what they bind."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from devlint.signatures.libraries import waits
from devlint.signatures.reading import first_passes, implicit, patterns
from devlint.signatures.reading.assumptions import assume, narrow
from devlint.signatures.reading.expressions import evaluate, keep_defaults, operate
from devlint.signatures.reading.tests import condition_of, denial_of
from devlint.signatures.state import containers, objects
from devlint.signatures.state.frame import PLACE, Frame, Key
from devlint.signatures.values.conditions import FALSE, TRUE, Condition, about
from devlint.signatures.values.values import (
    CLASS,
    DEVICE,
    EITHER,
    FUNCTION,
    IMPORTED,
    MODULES,
    NEVER,
    NONE,
    NOTHING,
    TENSOR,
    UNKNOWN_PLACE,
    ZERO_DIM,
    Place,
    Value,
    constant,
    either,
    mapped,
    rank_of,
    reference,
)
from devlint.source.masks import is_mask
from devlint.source.modules import last_name
from devlint.source.slim import by_kind
from devlint.source.trees import has_too_many_branches, names_in


def execute(frame: Frame, body: Sequence[ast.stmt]) -> None:
    """Reads the statements of a block, as far as they are reached."""
    for statement in body:
        if not frame.path:
            return
        read = _STATEMENTS.get(type(statement))
        if read is not None:
            is_chain = isinstance(statement, ast.If) and has_too_many_branches(statement)
            (_pass_over if is_chain else read)(frame, statement)


def run(frame: Frame, body: Sequence[ast.stmt]) -> None:
    """Reads a function's body to its end, or ends: what led out of it is one state then."""
    execute(frame, body)
    if frame.path:
        frame.returns.append((frame.path, NONE))
        frame.exits.append((frame.path, frame.env))
    if frame.exits:
        frame.path = TRUE
        frame.merge(frame.exits[-8:], TRUE)
    frame.path = TRUE


def _pass_over(frame: Frame, statement: ast.stmt) -> None:
    """Goes on behind a statement that isn't read: what it binds is unknown, and what it speaks of may have changed."""
    bound, read = names_in(statement)
    for name in read.intersection(frame.env):
        value = frame.get(name)
        if value is not None:
            frame.displace(value)
    for name in bound:
        frame.env[name] = NOTHING


# -- binding -----------------------------------------------------------------------------------------------------------


def bind(frame: Frame, target: ast.expr, value: Value) -> None:
    """Assigns a value to a target."""
    if frame.record is not None and isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
        frame.record.note(frame, target, value)
    match target:
        case ast.Name(id=name):
            frame.env[name] = value
        case ast.Attribute(value=owner, attr="data"):
            _bind_data(frame, owner, value)
        case ast.Attribute(value=owner, attr=attr):
            objects.store_attribute(frame, evaluate(frame, owner), attr, value, target)
        case ast.Subscript(value=owner, slice=index):
            held = evaluate(frame, owner)
            waits.stored(frame, target, held, value)
            containers.store_item(frame, target, held, index, value)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            for element, part in zip(elts, containers.unpacked(frame, value, elts), strict=True):
                bind(frame, element.value if isinstance(element, ast.Starred) else element, part)
        case ast.Starred(value=inner):
            bind(frame, inner, value)


def _bind_data(frame: Frame, owner: ast.expr, value: Value) -> None:
    """`p.data = t`: the same parameter, where the other tensor is."""
    held = evaluate(frame, owner)
    if isinstance(owner, ast.Attribute):
        for _, whole in evaluate(frame, owner.value).options():
            if whole.kind in MODULES and whole.cell is not None and objects.place_of(frame, whole).place != value.place:
                # A part of a new module that holds another one's numbers: the rest may follow.
                frame.displace(whole)
    if not any(o.kind is TENSOR for _, o in held.options()):
        objects.store_attribute(frame, held, "data", value, owner)
        return
    for _, option in held.options():
        if isinstance(option.data, Value):
            # One of the parameters of a module: in a loop the others follow, likely.
            follows = bool(frame.breaks) and value.kind is TENSOR and value.place.sort != "unknown"
            place = Value(TENSOR, value.place, likely=True, step=value.step) if follows else Value(TENSOR)
            objects.move(frame, option.data, place, value.step)
    if isinstance(owner, (ast.Name, ast.Attribute)):
        new = mapped(
            value,
            lambda v: (
                v.but(tags=held.tags, path=None) if v.kind is TENSOR else Value(TENSOR, likely=True, tags=held.tags)
            ),
            frame.atoms,
        )
        bind(frame, owner, new)


def _assign(frame: Frame, node: ast.Assign) -> None:
    value = evaluate(frame, node.value)
    for target in node.targets:
        if isinstance(target, ast.Subscript):
            _put_by_index(frame, target, node.value, value)
        bind(frame, target, value)


def _put_by_index(frame: Frame, target: ast.Subscript, node: ast.expr, value: Value) -> None:
    """`x[index] = value`, a tensor saying where: unlike a slice, that takes nothing from elsewhere but a number.

    Found by running `index_put_`; where a mask says so, one element alone is a number, too. A whole number that is a tensor says where as
    one of Python's does: what is put there is copied, from anywhere.
    """
    if not any(option.kind is TENSOR for _, option in value.options()):
        return
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    if len(parts) == 1 and _is_of_one(node) and is_mask(parts[0], lambda name: _given_to(frame, name)):
        return
    indices = [evaluate(frame, part) for part in parts if not isinstance(part, (ast.Slice, ast.Constant))]
    if any(
        option.kind is TENSOR and rank_of(option) not in ("", ZERO_DIM)
        for index in indices
        for _, option in index.options()
    ):
        held = target.value, evaluate(frame, target.value)
        frame.need("operation", target, "index_put_", held, (node, value), guarded=True)


def _is_of_one(node: ast.expr) -> bool:
    """Whether a tensor has one element: `torch.tensor([1])`."""
    match node:
        case ast.Call(func=func, args=[ast.List(elts=[ast.Constant()]) | ast.Tuple(elts=[ast.Constant()]), *_]):
            return last_name(func) in ("tensor", "as_tensor")
    return False


def _given_to(frame: Frame, name: ast.Name) -> Sequence[ast.expr]:
    """What a function assigns to a name."""
    return frame.function.assigned.get(name.id, ()) if frame.function is not None else ()


def _ann_assign(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is not None:
        value = evaluate(frame, node.value)
        bind(frame, node.target, frame.reader.refined(frame, value, node.annotation))


def _aug_assign(frame: Frame, node: ast.AugAssign) -> None:
    target = node.target
    old = evaluate(frame, _as_load(target))
    new = evaluate(frame, node.value)
    result = operate(frame, node, target, old, node.op, node.value, new, in_place=True)
    if not isinstance(target, ast.Subscript):
        bind(frame, target, result)


def _as_load(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name(id=name):
            node: ast.expr = ast.Name(name, ast.Load())
        case ast.Attribute(value=value, attr=attr):
            node = ast.Attribute(value, attr, ast.Load())
        case _:
            # `x[i] += 1` reads and writes by the same index.
            return target
    return ast.copy_location(node, target)


def _delete(frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            frame.env.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            frame.displace(evaluate(frame, target.value), 0)


def _import(frame: Frame, node: ast.Import) -> None:
    for alias in node.names:
        name = alias.name if alias.asname else alias.name.split(".")[0]
        frame.env[alias.asname or name] = reference(name)


def _import_from(frame: Frame, node: ast.ImportFrom) -> None:
    for alias in node.names:
        if alias.name != "*":
            name = f"{frame.source.absolute(node)}.{alias.name}"
            frame.env[alias.asname or alias.name] = Value(IMPORTED, data=(name, frame.source))


def _function(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if frame.record is not None:
        known = (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None), *node.decorator_list)
        frame.aside(lambda beside: _each(beside, known))
    function = frame.source.function(node, frame.cls, frame.function)
    frame.nested.setdefault(function, False)
    if frame.function is not None:
        frame.placed_then[function] = {k: v for k, v in frame.env.items() if isinstance(k, tuple) and k[-1] == PLACE}
        frame.reader.refers_back(frame)
        keep_defaults(frame, function)
    # What a module's own names are isn't seen through the scope: they may change after it was read.
    frame.env[node.name] = Value(FUNCTION, data=(function, frame if frame.function is not None else None, None))


def _each(frame: Frame, nodes: Sequence[ast.expr]) -> None:
    for node in nodes:
        evaluate(frame, node)


def _class_body(frame: Frame, node: ast.ClassDef) -> None:
    """The body of a class, which runs where it stands, with names of its own."""
    for base in node.bases:
        evaluate(frame, base)
    cls, frame.cls = frame.cls, node
    execute(frame, node.body)
    frame.cls = cls


def _class(frame: Frame, node: ast.ClassDef) -> None:
    if frame.record is not None:
        frame.aside(lambda beside: _class_body(beside, node))
    frame.env[node.name] = Value(CLASS, data=frame.reader.class_info(frame.source, node))


# -- ways --------------------------------------------------------------------------------------------------------------


def _branch(frame: Frame, node: ast.If, path: Condition, *, is_true: bool) -> tuple[Condition, dict[Key, Value]]:
    """Reads one branch under its path; the state at its end."""
    frame.path = path
    if path:
        assume(frame, node.test, is_true)
        execute(frame, node.body if is_true else node.orelse)
    return frame.path, frame.env


def _if(frame: Frame, node: ast.If) -> None:
    condition = condition_of(frame, node.test)
    env, before = frame.fork()
    then_path = frame.atoms.both(before, condition)
    else_path = frame.atoms.both(before, frame.atoms.negated(condition))
    if not frame.is_reached(else_path):
        _aside(frame, node.orelse)
        assume(frame, node.test, True)
        execute(frame, node.body)
        return
    if not frame.is_reached(then_path):
        then_path = FALSE
        _aside(frame, node.body)
    first = _branch(frame, node, then_path, is_true=True)
    frame.env = env
    second = _branch(frame, node, else_path, is_true=False)
    is_whole = first[0] is then_path and second[0] is else_path and bool(then_path)
    frame.merge([first, second], before, is_whole=is_whole)


def _aside(frame: Frame, body: Sequence[ast.stmt]) -> None:
    """What a block that is never reached here says, for those who ask for its names."""
    if body:
        before, frame.unreached = frame.unreached, True
        frame.aside(lambda beside: execute(beside, body))
        frame.unreached = before


def _for(frame: Frame, node: ast.For | ast.AsyncFor) -> None:
    iterated = evaluate(frame, node.iter)
    each = containers.element(frame, iterated)
    if each is NEVER or containers.is_empty(frame, iterated):
        execute(frame, node.orelse)
        return
    known = containers.parts_in_turn(frame, iterated)
    if known is not None and frame.rounds * len(known) <= MAX_ROUNDS:
        _unrolled(frame, node, known)
        return

    def one_pass() -> None:
        frame.passes += 1
        bind(frame, node.target, containers.element(frame, iterated))
        execute(frame, node.body)

    frame.loop_stores.append({})
    counter = first_passes.counter_of(node)
    _loop(frame, node, one_pass, at_least_once=containers.is_filled(frame, iterated), counter=counter)
    containers.after_loop(frame, frame.loop_stores.pop())


# A statement is read so often in one reading of its function, by the loops around it.
MAX_ROUNDS = 32


def _unrolled(frame: Frame, node: ast.For | ast.AsyncFor, parts: Sequence[Value]) -> None:
    """A loop over a few things that are told one by one: each pass is read with its own."""
    frame.breaks.append([])
    before = frame.path
    around = frame.in_turn
    times = max(len(parts), 1)
    frame.rounds *= times
    for number, part in enumerate(parts):
        if not frame.path:
            break
        frame.in_turn = around or number > 0
        frame.passes += 1
        bind(frame, node.target, part)
        frame.continues.append([])
        execute(frame, node.body)
        ended = frame.continues.pop()
        if ended:
            frame.merge([(frame.path, frame.env), *ended], before)
    frame.in_turn = around
    frame.rounds //= times
    broken = frame.breaks.pop()
    if frame.path:
        execute(frame, node.orelse)
    if broken:
        frame.merge([(frame.path, frame.env), *broken], before)


def _while(frame: Frame, node: ast.While) -> None:
    condition = condition_of(frame, node.test)
    if not frame.atoms.may_meet(frame.path, condition):
        execute(frame, node.orelse)
        return
    always = condition == TRUE

    def one_pass() -> None:
        frame.passes += 1
        assume(frame, node.test, True)
        execute(frame, node.body)

    _loop(frame, node, one_pass, at_least_once=always, endless=always and isinstance(node.test, ast.Constant))
    if frame.path and _asks_for_class(node.test) and not any(isinstance(n, ast.Break) for n in ast.walk(node)):
        left = frame.atoms.both(frame.path, denial_of(frame, node.test))
        frame.path = left or frame.path


def _loop(
    frame: Frame,
    node: ast.For | ast.AsyncFor | ast.While,
    one_pass: Callable[[], None],
    *,
    at_least_once: bool,
    endless: bool = False,
    counter: str | None = None,
) -> None:
    """A loop: its body read once, and once more where the first pass changed what the next one starts from.

    So it is as well where the body asks whether a pass is the first one, by a `counter`. Within many loops once is enough: each second reading doubles those of all loops within.
    """
    env, before = frame.fork()
    twice = frame.rounds * 2 <= MAX_ROUNDS
    counter = counter if twice else None
    frame.rounds *= 1 + twice
    ran = TRUE if at_least_once else frame.atoms.literal(("ran", id(node), frame.reader.turn()))
    frame.breaks.append([])
    frame.continues.append([])
    frame.path = frame.atoms.both(before, ran)
    if counter is not None:
        frame.first_passes[counter] = TRUE
    one_pass()
    ended = frame.continues[-1]
    frame.continues[-1] = []
    frame.merge([(frame.path, frame.env), *ended], frame.path)
    carried = _carried(env, frame.env, node) if frame.path and twice else []
    if carried or (counter is not None and frame.path):
        again = frame.atoms.literal(("again", id(node), frame.reader.turn()))
        if counter is not None:
            frame.first_passes[counter] = frame.atoms.negated(again)
        first = frame.env
        for key in carried:
            old = env.get(key)
            new = first[key]
            frame.env[key] = either(
                [(frame.atoms.negated(again), old if old is not None else frame.untold(key)), (again, new)], frame.atoms
            )
        for name in [key for key in first if isinstance(key, str) and key not in env]:
            # Who reads it before the loop has bound it fails in the first pass: it is bound anew in each one.
            del first[name]
        one_pass()
        frame.merge([(frame.path, frame.env), *frame.continues[-1]], frame.path)
    if counter is not None:
        frame.first_passes.pop(counter, None)
    frame.rounds //= 1 + twice
    frame.continues.pop()
    broken = frame.breaks.pop()
    finished = (frame.path, frame.env)
    states = [] if endless else [finished]
    if ran != TRUE:
        states.append((frame.atoms.both(before, frame.atoms.negated(ran)), env))
    if not states and not broken:
        frame.path = FALSE
        return
    if node.orelse and states:
        frame.merge(states, before)
        execute(frame, node.orelse)
        states = [(frame.path, frame.env)]
    broke = frame.atoms.literal(("broke", id(node), frame.reader.turn())) if broken and states else TRUE
    if broken:
        states = [(frame.atoms.both(p, frame.atoms.negated(broke)) if broke != TRUE else p, e) for p, e in states]
        states += [(frame.atoms.both(before, broke), e) for _, e in broken[:4]]
    frame.merge(states, before)
    # However a loop ends, what comes after it is reached as what came before it was.
    if frame.path and not endless:
        frame.path = before


def _carried(before: dict[Key, Value], after: dict[Key, Value], node: ast.AST) -> list[Key]:
    """What a pass left otherwise than it found it, in a way that matters for the next one."""
    del node
    return [
        key
        for key, value in after.items()
        if (old := before.get(key)) is not value and old is not None and old != value
    ]


def _break(frame: Frame, node: ast.Break) -> None:
    if frame.breaks:
        frame.breaks[-1].append((frame.path, frame.env.copy()))
    frame.path = FALSE


def _continue(frame: Frame, node: ast.Continue) -> None:
    if frame.continues:
        frame.continues[-1].append((frame.path, frame.env.copy()))
    frame.path = FALSE


def _try(frame: Frame, node: ast.Try) -> None:
    env, before = frame.fork()
    known = len(frame.ruled_out)
    execute(frame, node.body)
    # What comes of an error in there goes on.
    del frame.ruled_out[known:]
    body_path, body_env = frame.path, frame.env
    raised = frame.atoms.literal(("raised", id(node), frame.reader.turn()))
    states: list[tuple[Condition, dict[Key, Value]]] = []
    frame.path = frame.atoms.both(body_path, frame.atoms.negated(raised)) if node.handlers else body_path
    execute(frame, node.orelse)
    states.append((frame.path, frame.env))
    halfway = _halfway(frame, env, body_env)
    for number, handler in enumerate(node.handlers):
        caught = raised
        if number:
            caught = frame.atoms.both(raised, frame.atoms.literal(("handler", id(handler), frame.reader.turn())))
        frame.resume(dict(halfway), frame.atoms.both(before, caught))
        if handler.name:
            frame.env[handler.name] = NOTHING
        frame.supposing += 1
        execute(frame, handler.body)
        _leave_as_it_is(frame, node.body, handler.body)
        frame.supposing -= 1
        states.append((frame.path, frame.env))
    was_alive = [path for path, _ in states if path]
    frame.merge(states, before)
    if was_alive and len(was_alive) == len(states):
        frame.path = before
    if node.finalbody:
        path = frame.path
        if not path:
            frame.path = before
            execute(frame, node.finalbody)
            frame.path = FALSE
        else:
            execute(frame, node.finalbody)


def _leave_as_it_is(frame: Frame, tried: list[ast.stmt], handled: list[ast.stmt]) -> None:
    """What a handler leaves as it is, since it can't be copied to the host, is no tensor.

    `try: x = y.cpu().numpy()`, `except: x = y`
    """
    match tried, handled:
        case [ast.Assign(targets=[ast.Name(id=name)], value=copied)], [
            ast.Assign(targets=[ast.Name(id=same)], value=left)
        ]:
            was_copied = False
            while isinstance(copied, ast.Call) and isinstance(copied.func, ast.Attribute):
                was_copied = was_copied or copied.func.attr in ("cpu", "numpy")
                copied = copied.func.value
            if name == same and was_copied and ast.unparse(copied) == ast.unparse(left):
                frame.env[name] = NOTHING


def _halfway(frame: Frame, before: dict[Key, Value], after: dict[Key, Value]) -> dict[Key, Value]:
    """The state in a handler: what the block changed may be changed or not, each thing by itself."""
    halfway = dict(before)
    for key, value in after.items():
        old = before.get(key)
        if old is value or old == value:
            continue
        done = frame.atoms.forgotten()
        halfway[key] = either(
            [(done, value), (frame.atoms.negated(done), old if old is not None else frame.untold(key))], frame.atoms
        )
    return halfway


def _with(frame: Frame, node: ast.With | ast.AsyncWith) -> None:
    entered = []
    for item in node.items:
        value = evaluate(frame, item.context_expr)
        entered.append(value)
        if item.optional_vars is not None:
            bind(frame, item.optional_vars, implicit.entered(frame, value))
    if any(v.data == "contextlib.suppress" or (isinstance(v.data, str) and "suppress" in v.data) for v in entered):
        env, before = frame.fork()
        execute(frame, node.body)
        halfway = _halfway(frame, env, frame.env)
        raised = frame.atoms.literal(("raised", id(node), frame.reader.turn()))
        done = (frame.atoms.both(frame.path, frame.atoms.negated(raised)), frame.env)
        frame.merge([done, (frame.atoms.both(before, raised), halfway)], before)
        return
    items = zip(node.items, entered, strict=True)
    places = [_made_at(value) for item, value in items if _makes_elsewhere(item.context_expr, value)]
    frame.elsewhere += places
    execute(frame, node.body)
    del frame.elsewhere[len(frame.elsewhere) - len(places) :]


# Contexts in which libraries have tensors made on a device of theirs, or on none.
_MAKING = frozenset({"init_module", "init_tensor", "init_on_device", "init_empty_weights", "OnDevice", "Init"})


def _made_at(entered: Value) -> Place:
    """Where a block under a device makes new tensors, where that is known: on an accelerator of that name."""
    is_known = entered.kind is DEVICE and entered.place.sort == "accelerator" and not entered.likely
    return entered.place if is_known else UNKNOWN_PLACE


def _makes_elsewhere(context: ast.expr, entered: Value) -> bool:
    """Whether what is made in a `with` block goes to a device of that block's."""
    if any(option.kind is DEVICE for _, option in entered.options()):
        return True
    func = context.func if isinstance(context, ast.Call) else None
    return isinstance(func, (ast.Name, ast.Attribute)) and last_name(func) in _MAKING


def _classes_told(subject: ast.expr, pattern: ast.pattern) -> Iterator[tuple[str, ast.expr]]:
    """The names of which a pattern says what class they are of, each with the class."""
    match subject, pattern:
        case ast.Name(id=name), ast.MatchClass(cls=cls):
            yield name, cls
    for inner in ast.walk(pattern):
        match inner:
            case ast.MatchAs(name=str() as name, pattern=ast.MatchClass(cls=cls)):
                yield name, cls


def _match(frame: Frame, node: ast.Match) -> None:
    subject = evaluate(frame, node.subject)
    env, before = frame.fork()
    states = []
    left = before
    for case in node.cases:
        frame.resume(env.copy(), left)
        taken = patterns.condition_of(frame, subject, case.pattern)
        frame.path = frame.atoms.both(left, taken)
        if not frame.path:
            continue
        patterns.bind(frame, subject, case.pattern)
        for name, types in _classes_told(node.subject, case.pattern):
            narrow(frame, name, types)
        if case.guard is not None:
            guard = condition_of(frame, case.guard)
            frame.path = frame.atoms.both(frame.path, guard)
            taken = frame.atoms.both(taken, guard)
            if frame.path:
                assume(frame, case.guard, True)
        if frame.path:
            execute(frame, case.body)
        states.append((frame.path, frame.env))
        left = frame.atoms.both(left, frame.atoms.negated(taken))
        if not left:
            break
    if left:
        states.append((left, env))
    frame.merge(states, before)


def _return(frame: Frame, node: ast.Return) -> None:
    value = evaluate(frame, node.value) if node.value is not None else constant(None)
    frame.returns.append((frame.path, value))
    frame.exits.append((frame.path, frame.env))
    frame.path = FALSE


def _raise(frame: Frame, node: ast.Raise) -> None:
    if node.exc is not None:
        evaluate(frame, node.exc)
    frame.path = FALSE


def _assert(frame: Frame, node: ast.Assert) -> None:
    condition = condition_of(frame, node.test)
    path = frame.atoms.both(frame.path, condition)
    if not path:
        return
    assume(frame, node.test, True)
    if not frame.atoms.about_devices(condition) and not _asks_for_class(node.test):
        # What nothing hangs on that came before isn't worth to be remembered.
        path = frame.atoms.both(frame.path, about(condition, frame.tests_at_work()))
    frame.path = path


def _asks_for_class(test: ast.expr) -> bool:
    """`isinstance(model, Net)`, `hasattr(model, "module")`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asks_for_class(test.operand)
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in ("isinstance", "hasattr")


def _expr(frame: Frame, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Tuple):
        # `x.to(device), y.to(device)`: each is dropped.
        for part in node.value.elts:
            frame.dropped = part
            evaluate(frame, part)
        frame.dropped = None
        return
    frame.dropped = node.value
    value = evaluate(frame, node.value)
    frame.dropped = None
    if isinstance(node.value, ast.Call) and value is NEVER and frame.reader.never_returns(frame, node.value):
        frame.path = FALSE
    _there(frame, node.value)


def _there(frame: Frame, node: ast.expr) -> None:
    """`model.eval()` ran through: what was a model or None isn't None from there on."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            known = frame.env.get(name)
            if known is not None and known.kind is EITHER and len(options := known.options()) > 1:
                kept = [option for _, option in options if option != NONE]
                if len(kept) == 1:
                    frame.env[name] = kept[0]


_STATEMENTS: dict[type[ast.stmt], Callable[[Frame, Any], None]] = by_kind(
    {
        ast.Expr: _expr,
        ast.Assign: _assign,
        ast.AnnAssign: _ann_assign,
        ast.AugAssign: _aug_assign,
        ast.If: _if,
        ast.For: _for,
        ast.AsyncFor: _for,
        ast.While: _while,
        ast.Try: _try,
        ast.TryStar: _try,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Match: _match,
        ast.Return: _return,
        ast.Raise: _raise,
        ast.Break: _break,
        ast.Continue: _continue,
        ast.Assert: _assert,
        ast.Delete: _delete,
        ast.Import: _import,
        ast.ImportFrom: _import_from,
        ast.FunctionDef: _function,
        ast.AsyncFunctionDef: _function,
        ast.ClassDef: _class,
    }
)
