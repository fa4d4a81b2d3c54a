"""Statements: how they lead on, and what they bind."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from devlint.signatures.reading import implicit, patterns
from devlint.signatures.reading.assumptions import assume, narrow
from devlint.signatures.reading.bindings import BINDINGS, bind
from devlint.signatures.reading.expressions import evaluate, keep_defaults
from devlint.signatures.reading.tests import condition_of
from devlint.signatures.state.frame import PLACE, Frame, Key
from devlint.signatures.values.conditions import FALSE, TRUE, Condition, about
from devlint.signatures.values.values import (
    CLASS,
    DEVICE,
    EITHER,
    FUNCTION,
    NEVER,
    NONE,
    NOTHING,
    UNKNOWN_PLACE,
    Place,
    Value,
    constant,
    either,
)
from devlint.source.modules import last_name
from devlint.source.slim import by_kind
from devlint.source.trees import has_too_many_branches, names_in


def execute(frame: Frame, body: Sequence[ast.stmt]) -> None:
    """Reads the statements of a block, as far as they are reached."""
    for statement in body:
        if not frame.path:
            return
        read = STATEMENTS.get(type(statement))
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


def _function(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if frame.record is not None:
        known = (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None), *node.decorator_list)
        if known:
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
    if not frame.atoms.about_devices(condition) and not asks_for_class(node.test):
        # What nothing hangs on that came before isn't worth to be remembered.
        path = frame.atoms.both(frame.path, about(condition, frame.tests_at_work()))
    frame.path = path


def asks_for_class(test: ast.expr) -> bool:
    """`isinstance(model, Net)`, `hasattr(model, "module")`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks_for_class(test.operand)
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


# Loops come to them in loops.py.
STATEMENTS: dict[type[ast.stmt], Callable[[Frame, Any], None]] = by_kind(
    {
        **BINDINGS,
        ast.Expr: _expr,
        ast.If: _if,
        ast.Try: _try,
        ast.TryStar: _try,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Match: _match,
        ast.Return: _return,
        ast.Raise: _raise,
        ast.Assert: _assert,
        ast.FunctionDef: _function,
        ast.AsyncFunctionDef: _function,
        ast.ClassDef: _class,
    }
)
