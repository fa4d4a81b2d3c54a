"""Loops: passes that are read until the next one finds what the last one found."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from devlint.signatures.reading import first_passes
from devlint.signatures.reading.assumptions import assume
from devlint.signatures.reading.bindings import bind
from devlint.signatures.reading.expressions import evaluate
from devlint.signatures.reading.statements import STATEMENTS, asks_for_class, execute
from devlint.signatures.reading.tests import condition_of, denial_of
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Frame, Key
from devlint.signatures.values.conditions import FALSE, TRUE
from devlint.signatures.values.values import (
    NEVER,
    Value,
    either,
)
from devlint.source.slim import by_kind


def _for(frame: Frame, node: ast.For | ast.AsyncFor) -> None:
    iterated = evaluate(frame, node.iter)
    frame.asked = node.iter
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
    if frame.path and asks_for_class(node.test) and not any(isinstance(n, ast.Break) for n in ast.walk(node)):
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


STATEMENTS |= by_kind(
    {
        ast.For: _for,
        ast.AsyncFor: _for,
        ast.While: _while,
        ast.Break: _break,
        ast.Continue: _continue,
    }
)
