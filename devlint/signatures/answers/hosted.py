"""What waits find on the host: by its name, by who made it, and by who gives it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from devlint.regexes import regex
from devlint.signatures.answers.attributes import is_made_on_host
from devlint.signatures.state.frame import Frame, Reading
from devlint.signatures.state.outcome import Need
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import (
    ARRAY,
    BATCH,
    CONSTANT,
    EITHER,
    HOST,
    NUMBER,
    RANKED,
    TENSOR,
    TUPLE,
    UNKNOWN,
    Place,
    Value,
    leaves,
)
from devlint.source.modules import FunctionModel, dotted

# Names that say: this is on the host.
_HOST_NAME = regex(
    r"(?i)(?:.{0,60}_)?(?:cpu|np|numpy|host|list|lst|py|pil|ndarray|pinned|str|arr|array|cpu_\w{1,60}|np_\w{1,60}|host_\w{1,60}|pinned_\w{1,60}|list_of_\w{1,60}|df|args|config|cfg|shape)\d{0,4}"
)


# Methods of tensors that ask for nothing on the device, or have asked already.
_HOST_ANSWERS = frozenset(
    {"numpy", "cpu", "tolist", "item", "size", "numel", "dim", "stride", "nelement", "element_size", "data_ptr", "ndimension",
     "storage_offset", "get_device", "is_inference", "is_shared", "is_signed", "is_conj",
     "is_neg", "is_same_size", "is_set_to", "is_contiguous", "is_floating_point", "is_complex", "type", "get", "keys", "index"}
)  # fmt: skip


def says_host(node: ast.expr) -> bool:
    """Whether an expression is called what people call what the host has."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            if _HOST_NAME.fullmatch(name):
                return True
            return isinstance(node, ast.Attribute) and says_host(node.value) and not isinstance(node.value, ast.Name)
        case ast.Subscript(value=inner) | ast.Starred(value=inner):
            return says_host(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            return name in _HOST_ANSWERS or says_host(inner)
        case ast.Call(func=ast.Name(id=name)):
            return name in ("len", "list", "int", "float", "str") or _HOST_NAME.fullmatch(name) is not None
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            if _is_host_tensor(left) or _is_host_tensor(right):
                # What is computed with it is there too.
                return True
            number = isinstance(node, ast.Compare) and isinstance(right, ast.Constant)
            return says_host(left) and (number or says_host(right))
        case ast.UnaryOp(operand=inner):
            return says_host(inner)
    return False


# Names of tensors that are on the host.
_HOST_TENSOR = regex(r"(?i)(?:\w{0,60}_)?cpu(?:_tensor)?|cpu_\w{1,60}")


def _is_host_tensor(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _HOST_TENSOR.fullmatch(name) is not None
        case ast.Subscript(value=inner):
            return _is_host_tensor(inner)
        case ast.BinOp(left=left, right=right):
            return _is_host_tensor(left) or _is_host_tensor(right)
    return False


def is_kept_on_host(frame: Frame, option: Value) -> bool:
    """Whether an input of a function is on the host: its class made it there, or all who call the function give it so."""
    place = option.place
    if place.sort != "input" or not place.name:
        return False
    root = str(place.name[0])
    return (
        (frame.function is not None and _comes_from_host(frame.reader, frame.function, root))
        or _is_matched(frame, root)
        or is_made_on_host(frame, *map(str, place.name[:2]))
        or (root in _TIMES and is_made_on_host(frame, "self", ".timesteps"))
        or (frame.function is not None and _is_left_behind(frame.reader, frame.function, root))
    )


def _is_matched(frame: Frame, parameter: str) -> bool:
    """Whether a criterion takes an input from its matcher, and the matchers of the project ask SciPy, on the host.

    Whoever computes the losses is called by a table of names mostly, so that no call tells what it is given.
    """
    function = frame.function
    if function is None or function.cls is None or "matcher" not in function.source.text:
        return False
    taken = rf"\b{re.escape(parameter)} = self\.\w{{0,40}}matcher\("
    # Nearly all texts are turned down by the words alone.
    if f"{parameter} = self." not in function.source.text or re.search(taken, function.source.text) is None:
        return False
    return re.search(_MATCHED, function.source.text) is not None or frame.reader.project_uses(function.source, _MATCHED)


_MATCHED = r"(?s)\blinear_sum_assignment\(.{0,3000}?\btorch\.(?:as_tensor|from_numpy)\("


# What schedulers are given is one of the times that they keep: `for t in scheduler.timesteps: scheduler.step(noise, t, x)`.
_TIMES = ("timestep", "timesteps", "t")


# Calls are followed this far back to the `forward` that says which of its inputs it takes along.
_MAX_BACK = 3


def _is_left_behind(reader: Reading, function: FunctionModel, parameter: str, back: int = _MAX_BACK) -> bool:
    """Whether a module's `forward` moves another of its inputs to where the module is, and this one, or what it comes from, not.

    Who has to move what it is given is given it on the host: what it doesn't move stays there.
    """
    if parameter.startswith("self") or function.cls is None:
        return False
    if _moves_another(function, parameter):
        return True
    told = reader.given_to(function) if back else ()
    return bool(told) and all(
        caller is not None
        and (root := _only_root(reader, given.get(parameter))) is not None
        and _is_left_behind(reader, caller, root, back - 1)
        for caller, given in told
    )


def _only_root(reader: Reading, value: Value | None) -> str | None:
    """The one input that a value comes from."""
    roots = {_root(o.place) for _, o in leaves(value, reader.atoms)} if value is not None else set()
    return roots.pop() if len(roots) == 1 else None


def _moves_another(function: FunctionModel, parameter: str) -> bool:
    """`x = x.to(device=self.device)` of another input, this one being left as it is."""
    names = {a.arg for a in function.parameters}
    if parameter not in names or function.name != "forward":
        return False
    moved = {name for node in function.nodes for name in _moved_along(node)}
    stored = {n.id for n in function.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return bool(moved & names - {parameter}) and parameter not in moved | stored


def _moved_along(node: ast.AST) -> Iterator[str]:
    """The name that a move to the module's own device is of."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="to"), args=args, keywords=keywords):
            given = [*args[:1], *(k.value for k in keywords if k.arg == "device")]
            if any(_OWN_DEVICE.fullmatch(dotted(g) or "") for g in given):
                yield name


_OWN_DEVICE = regex(r"self\.(?:\w{1,60}\.){0,4}_?device")


def _comes_from_host(reader: Reading, function: FunctionModel, parameter: str, back: int = _MAX_BACK) -> bool:
    """Whether each call of a function, and there are some, gives for a parameter what is on the host, or was given so itself."""
    given = [(caller, call.get(parameter)) for caller, call in reader.given_to(function)] if back else []
    return bool(given) and all(
        value is not None and _is_on_host(reader, caller, value, back) for caller, value in given
    )


def _is_on_host(reader: Reading, caller: FunctionModel | None, value: Value, back: int) -> bool:
    """Whether a value is a number, a tensor or an array on the host, or holds such ones; or one, or nothing at all."""
    options = [o for _, o in leaves(value, reader.atoms) if o.kind is not CONSTANT]
    return bool(options) and all(_is_hosted(reader, caller, o, back) for o in options)


def _is_hosted(reader: Reading, caller: FunctionModel | None, option: Value, back: int) -> bool:
    if option.kind is TUPLE:
        parts = [p for p in option.parts if not isinstance(p, Value) or p.kind is not CONSTANT]
        return all(isinstance(p, Value) and _is_on_host(reader, caller, p, back) for p in parts)
    if option.kind in (ARRAY, NUMBER) or (option.kind in _TENSORS and option.place == HOST):
        return True
    root = _root(option.place) if option.kind in _TENSORS else None
    return root is not None and caller is not None and _comes_from_host(reader, caller, root, back - 1)


_TENSORS = (TENSOR, BATCH, UNKNOWN)


def must_be_on_host(frame: Frame, place: Place, path: Condition) -> bool:
    """Whether an input has to be on the host where a path is taken: `torch.cat([torch.zeros(1), x])`, `x.numpy()`."""
    root = _root(place)
    return root is not None and any(
        root in roots and frame.atoms.implies(path, need.path) for need, roots in _wanted_on_host(frame)
    )


def _root(place: Place) -> str | None:
    """The parameter that a place is that of, or of a part of it; of an object itself, the attribute."""
    if place.sort != "input" or not place.name:
        return None
    root = str(place.name[0])
    if not root.startswith("self"):
        return root
    return "".join(map(str, place.name[:2])) if len(place.name) > 1 else None


@lru_cache(maxsize=8)
def _wanted_on_host(frame: Frame) -> tuple[tuple[Need, frozenset[str]], ...]:
    """What a function needs to be on the host, if it is to work at all, with the parameters that it needs there."""
    found = []
    for need in frame.needs:
        if need.guarded or need.sense not in ("operation", "host"):
            continue
        parts = [part for _, value in need.operands for part in _parts(frame, value)]
        if need.sense == "host" or any(p.kind is TENSOR and p.place == HOST and p.rank == RANKED for p in parts):
            roots = frozenset(root for p in parts if (root := _root(p.place)) is not None)
            if roots:
                found.append((need, roots))
    return tuple(found)


def _parts(frame: Frame, value: Value) -> list[Value]:
    """The tensors that an operand is, or holds; none where it is one of several."""
    if value.kind is EITHER:
        return []
    if value.kind is TUPLE:
        return [p for part in value.parts if isinstance(part, Value) for p in _parts(frame, part)]
    return [value]
