"""What makes the host wait for tensors on an accelerator: calls, tests, indices and uploads.

Here stands what would wait, whatever is known of places; `answers/waits.py` tells where it does.
"""

from __future__ import annotations

import ast

from devlint.knowledge import canonical, ecosystem
from devlint.knowledge.operators import Operator, operator
from devlint.regexes import regex
from devlint.signatures.libraries.devices import CUDA, device_from
from devlint.signatures.libraries.moves import target_of
from devlint.signatures.state import containers
from devlint.signatures.state.frame import Call, Frame
from devlint.signatures.state.waits import (
    COLLECTIVE,
    COPY,
    DECIDE,
    FLUSH,
    MADE,
    RACE,
    READ,
    SIZE,
    SOLVED,
    STAGED,
    TEXT,
    note,
)
from devlint.signatures.values.values import (
    BATCH,
    CONSTANT,
    HOST,
    LIST,
    METHOD,
    NUMBER,
    REFERENCE,
    TENSOR,
    TUPLE,
    UNKNOWN,
    Value,
    leaves,
)
from devlint.source.devices import MOVES

# Methods and functions that answer with a number or a truth value of the host's.
_READING = frozenset({"item", "tolist", "__int__", "__float__", "__index__"})
_DECIDING = frozenset({"equal", "allclose", "is_nonzero", "__bool__"})
# What Python does with a tensor that it is given: reads its value, or asks for its truth.
_BUILTIN_READS = frozenset({"int", "float", "complex", "range", "round"})
_BUILTIN_DECISIONS = frozenset({"bool", "any", "all", "min", "max", "sorted"})
# Functions of torch that make tensors: of a list or a number, and of a size that may be a tensor.
_TAKING_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.scalar_tensor"})
_TAKING_SIZES = frozenset(
    f"torch.{name}"
    for name in ("arange", "range", "linspace", "zeros", "ones", "empty", "full", "eye", "rand", "randn")
)
_LEGACY = regex(r"torch\.(?:cuda\.)?(?:Float|Double|Half|Long|Int|Short|Byte|Bool|BFloat16)?Tensor")
# Calls that wait for all that was queued.
_FLUSHING = regex(
    r"torch\.(?:cuda|xpu|npu|hpu|mps|accelerator|musa|mlu)\.(?:memory\.)?(?:empty_cache|synchronize|ipc_collect)"
)
# Collectives whose tensor is their first argument.
_COLLECTIVES = frozenset(f"torch.distributed.{name}" for name in ("all_reduce", "broadcast", "reduce"))
_STREAM = regex(r"(?i).{0,60}(?:stream|event|evt)\w{0,60}")
_TEXT = frozenset({"print", "str", "repr", "format"})


def called(call: Call, callee: Value) -> None:
    """Notes what calling a value may wait for."""
    if isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "synchronize":
        # Streams and events go by their names.
        text = ast.unparse(call.node.func.value)
        if _STREAM.fullmatch(text.rsplit(".", 1)[-1].rstrip("()")):
            note(call.frame, FLUSH, call.node, text, call.node.func.value, Value(UNKNOWN))
            return
    for _, option in callee.options():
        if option.kind is METHOD and isinstance(option.data, str):
            _method(call, option.parts[0], option.data)
        elif option.kind is REFERENCE and option.data is not None:
            _function(call, canonical(option.data))


def _receiver(call: Call) -> ast.expr:
    return call.node.func.value if isinstance(call.node.func, ast.Attribute) else call.node.func


def _may_be_tensor(value: Value) -> bool:
    return any(o.kind in (TENSOR, BATCH, UNKNOWN) for _, o in value.options())


def _is_tensor(value: Value) -> bool:
    return any(o.kind is TENSOR for _, o in value.options())


# -- methods -----------------------------------------------------------------------------------------------------------


def _method(call: Call, owner: Value, name: str) -> None:
    frame, node = call.frame, call.node
    if not _may_be_tensor(owner):
        return
    asked = _receiver(call)
    if name in _READING and not call.node.args:
        note(frame, READ, node, name, asked, owner)
    elif name == "numpy":
        if not isinstance(asked, ast.Call) or not isinstance(asked.func, ast.Attribute) or asked.func.attr != "cpu":
            note(frame, COPY, node, name, asked, owner)
    elif name in MOVES:
        _moved(call, owner, name)
    elif name == "copy_" and call.given:
        _copied(call, owner)
    elif name == "new_tensor" and call.given:
        note(frame, MADE, node, name, call.given[0][0], call.given[0][1], owner)
    elif (facts := operator(f"torch.Tensor.{name}")) is not None:
        _operator(call, facts, name, [(asked, owner), *call.given])


def _moved(call: Call, owner: Value, name: str) -> None:
    target = target_of(call, name)
    if target is None:
        return
    asked, waits = _receiver(call), not _without_waiting(call)
    devices = [device for _, device in target.options()]
    to_host = all(device.place == HOST for device in devices)
    for device in devices:
        if device.place == HOST and not to_host:
            # It may as well be told to stay: a setting's affair.
            continue
        if to_host:
            note(call.frame, COPY if waits else RACE, call.node, name, asked, owner)
        else:
            note(call.frame, MADE if waits else STAGED, call.node, name, asked, owner, device)


def _without_waiting(call: Call) -> bool:
    found = call.keywords.get("non_blocking")
    return found is not None and not (found[1].kind is CONSTANT and not found[1].data)


def _copied(call: Call, owner: Value) -> None:
    """`a.copy_(b)`: down, or up."""
    node, given = call.given[0]
    flag = call.argument(1, "non_blocking")
    waits = flag is None or (flag.kind is CONSTANT and not flag.data)
    if any(o.place == HOST and o.kind is TENSOR for _, o in owner.options()):
        note(call.frame, COPY if waits else STAGED, call.node, "copy_ to the host", node, given, owner)
        if not waits:
            note(call.frame, RACE, call.node, "copy_", node, given, owner)
    else:
        note(call.frame, MADE if waits else STAGED, call.node, "copy_", node, given, owner)


# -- functions ---------------------------------------------------------------------------------------------------------


def _function(call: Call, name: str) -> None:
    plain = name.removeprefix("builtins.")
    frame, node = call.frame, call.node
    if name.startswith("builtins."):
        given = [pair for pair in call.given if _may_be_tensor(pair[1])]
        sense = (
            READ
            if plain in _BUILTIN_READS
            else DECIDE
            if plain in _BUILTIN_DECISIONS
            else TEXT
            if plain in _TEXT
            else ""
        )
        if sense is DECIDE and plain in ("any", "all", "min", "max", "sorted"):
            given = [*given, *((n, part) for n, v in call.given if (part := _elements(frame, v)) is not None)]
            if plain in ("min", "max") and len(call.given) == 1 and given and given[0][1] is call.given[0][1]:
                # Over the parts of a tensor.
                given = given[:1]
        for asked, value in given[:1] if sense else ():
            note(frame, sense, node, plain, asked, value)
    elif name in _TAKING_DATA and call.given:
        _made_of_data(call, name)
    elif _LEGACY.fullmatch(name):
        if ".cuda." in name and call.given and call.given[0][1].kind in (LIST, TUPLE):
            note(frame, MADE, node, name, call.given[0][0], call.given[0][1], Value(TENSOR, CUDA))
    elif name in _TAKING_SIZES:
        sizes = call.given[:1] if name == "torch.full" else call.given
        for asked, value in [(n, v) for n, v in sizes if _is_tensor(v)][:1]:
            note(frame, READ, node, name, asked, value)
    elif name in _COLLECTIVES and call.given:
        note(frame, COLLECTIVE, node, name, *call.given[0])
    elif _FLUSHING.fullmatch(name) or name == "gc.collect":
        note(frame, FLUSH, node, name, node.func, Value(UNKNOWN))
    elif name.startswith("torch.") and (facts := operator(name)) is not None:
        _operator(call, facts, name, call.given)


def _elements(frame: Frame, value: Value) -> Value | None:
    """What a list holds, where that is tensors."""
    if value.kind not in (LIST, TUPLE):
        return None
    each = containers.element(frame, value) if value.kind is LIST else None
    return each if each is not None and _is_tensor(each) else None


def _made_of_data(call: Call, name: str) -> None:
    device = call.keywords.get("device")
    asked, data = call.given[0]
    if device is not None:
        target = device_from(call.frame, device[1], device[0])
        if target is not None:
            note(call.frame, MADE, call.node, name, asked, data, target)
            return
    # A list of tensors is read one by one, wherever what is made of it goes.
    part = _elements(call.frame, data)
    contents = containers.contents_of(call.frame, data) if data.kind in (LIST, TUPLE) else None
    if contents is not None and contents.kind is TUPLE:
        part = next((p for p in contents.parts if isinstance(p, Value) and _is_tensor(p)), part)
    if part is not None:
        note(call.frame, READ, call.node, name, asked, part)


def _operator(call: Call, facts: Operator, name: str, operands: list[tuple[ast.expr, Value]]) -> None:
    """What of an operator's operands decides how large its result is, what it answers, or whether it comes to an end."""
    short = name.rsplit(".", 1)[-1]
    if short in _DECIDING:
        for asked, value in operands[:1]:
            note(call.frame, DECIDE, call.node, short, asked, value)
        return
    if facts.waits == "always" and short in ecosystem.WITHOUT_LOOKING:
        # `flow.inverse(x)` is another thing.
        if operands and (short != "inverse" or len(operands) == 1):
            asked, value = operands[0]
            note(call.frame, SOLVED, call.node, short, asked, value)
        return
    sizing = ecosystem.SIZED_BY_VALUES.get(short)
    if sizing is None or len(operands) <= sizing.argument or call.open_ended:
        return
    if sizing.alone and len(operands) + len(call.keywords) > 1:
        return
    if any(told in call.keywords for told in sizing.told):
        return
    asked, value = operands[sizing.argument]
    note(call.frame, SIZE, call.node, short, asked, value)


# -- indices and tests -------------------------------------------------------------------------------------------------


def indexed(frame: Frame, node: ast.Subscript, base: Value, operands: list[tuple[ast.expr, Value]]) -> None:
    """`x[mask]`, `x[:t]`, `x[[0, 2]]`, `values[t]`."""
    tensors = _may_be_tensor(base)
    _bounds(frame, node, node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])
    for asked, value in operands:
        for _, option in value.options():
            if option.kind is LIST and tensors:
                if not _holds_tensors(frame, option) and not _holds_slices(asked):
                    note(frame, MADE, node, "index", asked, option, base)
            elif option.kind in (TENSOR, UNKNOWN) and not isinstance(asked, ast.Slice):
                if tensors:
                    note(frame, SIZE, node, "[]", asked, option, base)
                elif base.kind in (LIST, TUPLE) and option.kind is TENSOR:
                    note(frame, READ, node, "[]", asked, option)


def _bounds(frame: Frame, node: ast.Subscript, parts: list[ast.expr]) -> None:
    """The bounds of slices, which the host has to know."""
    for part in parts:
        bounds = (part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else ()
        for bound in bounds:
            if bound is not None and not isinstance(bound, ast.Constant):
                value = frame.reader.evaluate(frame, bound)
                if _is_tensor(value):
                    note(frame, READ, node, "[:]", bound, value)


def _holds_tensors(frame: Frame, value: Value) -> bool:
    contents = containers.contents_of(frame, value)
    parts = contents.parts if contents is not None else ()
    return any(isinstance(p, Value) and p.kind not in (NUMBER, CONSTANT) for p in parts) or contents is None


def _holds_slices(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Slice) or (isinstance(n, ast.Name) and n.id == "slice") for n in ast.walk(node))


def stored(frame: Frame, target: ast.Subscript, owner: Value, value: Value) -> None:
    """`x[mask] = y`, where the values are laid out by a count, and `x[:t] = y`."""
    if not _may_be_tensor(owner):
        return
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    _bounds(frame, target, parts)
    if not any(o.kind in (TENSOR, UNKNOWN) for _, o in value.options()):
        return
    for part in parts:
        if not isinstance(part, (ast.Slice, ast.Constant, ast.UnaryOp)) or isinstance(
            getattr(part, "op", None), ast.Invert
        ):
            index = frame.reader.evaluate(frame, part)
            if index.kind in (TENSOR, UNKNOWN):
                note(frame, SIZE, target, "[]=", part, index, value)


def decided(frame: Frame, node: ast.expr, *values: Value) -> None:
    """A test: the truth of a value, or of a comparison of some."""
    tensors = [v for v in values if _is_tensor(v)] or [v for v in values if _may_be_tensor(v)]
    if tensors:
        note(frame, DECIDE, node, "", node, tensors[0])


def shown(frame: Frame, node: ast.expr, value: Value) -> None:
    """A value in an f-string."""
    if any(leaf.kind is TENSOR for _, leaf in leaves(value, frame.atoms)):
        note(frame, TEXT, node, "", node, value)
