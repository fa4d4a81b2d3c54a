"""Whether what the host may wait for is on an accelerator, surely or likely."""

from __future__ import annotations

import ast

from devlint.regexes import regex
from devlint.signatures.answers.attributes import is_host_expression
from devlint.signatures.answers.hosted import is_kept_on_host, says_host
from devlint.signatures.answers.silence import speaks_of_devices
from devlint.signatures.state.frame import Frame
from devlint.signatures.state.objects import KEPT
from devlint.signatures.values.values import (
    ARRAY,
    BATCH,
    HOST,
    OF_HOST,
    TENSOR,
    UNKNOWN,
    Value,
    leaves,
)
from devlint.source.modules import FunctionModel, last_name
from devlint.source.trees import calls_in


def on_accelerator(
    frame: Frame, node: ast.expr, value: Value, *, surely_tensor: bool = False
) -> tuple[Value, bool] | None:
    """(the alternative, certain) where a value may well be a tensor on an accelerator; None where it isn't known to be."""
    if says_host(node) or _was_received(frame, node) or _was_saved_on_host(frame, node):
        return None
    best: tuple[Value, bool] | None = None
    for condition, option in leaves(value, frame.atoms):
        told = None if frame.atoms.with_host(condition) else is_off_host(frame, node, option, surely_tensor)
        if told is not None and (best is None or (told and not best[1])):
            best = option, told
    if best is not None and best[0].kind is UNKNOWN and any(o.kind is ARRAY for _, o in leaves(value, frame.atoms)):
        # An array on another way says what it is.
        return None
    if best is not None and any(
        option.kind in (TENSOR, BATCH) and option.place == HOST for _, option in leaves(value, frame.atoms)
    ):
        return best[0], False
    return best


# What brings something from another process, and what it is called of.
_RECEIVING = regex(r"get|get_nowait|recv\w{0,40}|receive\w{0,40}|pop|popleft|loads|unpackb|deserialize\w{0,40}|result")
_CARRIERS = regex(r"(?i)queue|(?:^|_)q$|socket|zmq|pipe|(?:^|_)conn|redis|pickle|msgpack|channel|future|client|shm|ipc")


def _was_received(frame: Frame, node: ast.expr, back: int = 2) -> bool:
    """Whether something, or what it is a part of, came from another process: by a queue, a socket, a pickle."""
    root = node
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call, ast.Await)):
        match root:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                if _RECEIVING.fullmatch(name) and _CARRIERS.search(last_name(owner)):
                    return True
                if name in ("to", "cuda"):
                    return False
                root = owner
            case ast.Call():
                return False
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Await(value=inner):
                root = inner
    if not (isinstance(root, ast.Name) and back and frame.function is not None):
        return False
    given = frame.function.assigned.get(root.id, ())
    return bool(given) and all(value is not node and _was_received(frame, value, back - 1) for value in given)


def _was_saved_on_host(frame: Frame, node: ast.expr) -> bool:
    """Whether something is what `forward` saved for `backward`, having made it on the host: `seed, = ctx.saved_tensors`."""
    given = frame.function.assigned.get(node.id, ()) if frame.function and isinstance(node, ast.Name) else ()
    return bool(given) and all(_is_saved_on_host(frame, value) for value in given)


def _is_saved_on_host(frame: Frame, node: ast.expr) -> bool:
    cls = frame.reader.class_around(frame)
    match node:
        case ast.Subscript(value=ast.Attribute(attr="saved_tensors"), slice=ast.Constant(value=int(at))):
            forward = next((f for f in cls.node.body if _is_forward(f)), None) if cls is not None else None
            if cls is None or forward is None:
                return False
            saved = [n for n in calls_in(forward) if last_name(n.func) == _SAVING]
            return bool(saved) and all(
                len(call.args) > at
                and not any(isinstance(a, ast.Starred) for a in call.args[: at + 1])
                and is_host_expression(call.args[at], forward, cls)
                for call in saved
            )
    return False


_SAVING = "save_for_backward"


def _is_forward(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "forward"


def is_off_host(frame: Frame, node: ast.expr, option: Value, surely_tensor: bool) -> bool | None:
    """Whether an alternative is surely (True), likely (False) or not known to be (None) a tensor on an accelerator."""
    place = option.place
    if place == HOST or is_kept_on_host(frame, option):
        return None
    if option.kind in (TENSOR, BATCH):
        if place.off_host:
            return not option.likely
        return None if KEPT in option.tags or OF_HOST in option.tags else False
    return False if option.kind is UNKNOWN and (surely_tensor or is_known_tensor(frame, option)) else None


def treats_as_movable(frame: Frame) -> bool:
    """Whether the code around treats tensors as if they may be on an accelerator: a module does by itself."""
    cls = frame.reader.class_around(frame)
    return (cls is not None and cls.is_module) or (frame.function is not None and in_words(frame.function))


def in_words(function: FunctionModel) -> bool:
    """Whether a function, or the one around it, speaks of devices."""
    return speaks_of_devices(function.outermost)


def is_known_tensor(frame: Frame, option: Value) -> bool:
    path = option.path or (option.data if isinstance(option.data, tuple) else None)
    if "computed" in option.tags:
        return True
    if path is None:
        return False
    return any(path[:n] in frame.tensors or path[:n] in frame.supposed for n in (len(path), len(path) - 1) if n)
