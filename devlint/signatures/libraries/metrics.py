"""Metrics of torchmetrics: modules whose states meet what they are updated with."""

from __future__ import annotations

import ast

from devlint.knowledge.metrics import WaitTable, is_metric, needs_one_device, wait_table
from devlint.signatures.state import containers
from devlint.signatures.state.frame import CONTENTS, PLACE, Call, Frame
from devlint.signatures.state.objects import place_of
from devlint.signatures.values.values import (
    DICT,
    HOST,
    LIST,
    MODULE,
    NOTHING,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_PLACE,
    Value,
    mapped,
)

# The options that a metric was made with.
OPTIONS = "options"


def new_metric(call: Call, name: str) -> Value:
    """A metric, or a collection of some: on the host."""
    frame = call.frame
    cell = frame.new_cell(call.node)
    value = Value(MODULE, data=name, cell=cell)
    torchs = name.startswith("torchmetrics.")
    step = call.step(f"created on cpu by `{call.text}`")
    frame.env[cell, PLACE] = Value(TENSOR, HOST if torchs else UNKNOWN_PLACE, step=step)
    table = wait_table(name)
    if table is not None:
        frame.env[cell, OPTIONS] = _options(call, table)
        return value
    given = call.argument(0, "metrics")
    if given is not None and given.kind in (LIST, TUPLE, DICT):
        contents = containers.contents_of(frame, given)
        if contents is not None:
            frame.env[cell, CONTENTS] = contents
    elif call.given:
        frame.env[cell, CONTENTS] = containers.sequence(call.positional_values, frame)
    return value


def _options(call: Call, table: WaitTable) -> Value:
    """The options that a metric is given, or may be given, by name."""
    found = {}
    for option in table.options:
        given = call.argument(option.position if option.position is not None else -1, option.name)
        if given is None and call.open_ended and option.position is not None:
            given = NOTHING
        if given is not None and option.position is not None:
            found[option.name] = given
    return Value(containers.ITEMS, data=tuple(found), parts=tuple(found.values()))


def is_metric_value(frame: Frame, value: Value) -> bool:
    """Whether a module is a metric whose updates want everything on one device."""
    name = value.data
    if not isinstance(name, str) or not is_metric(name):
        return False
    if needs_one_device(name):
        return True
    contents = frame.slot(value, CONTENTS)
    parts = contents.parts if contents is not None and contents.kind in (TUPLE, containers.ITEMS) else ()
    return any(isinstance(p, Value) and p.kind is MODULE and is_metric_value(frame, p) for p in parts)


def update(call: Call, metric: Value) -> Value:
    """`metric.update(...)` or `metric(...)`."""
    frame = call.frame
    if is_metric_value(frame, metric):
        held = mapped(
            place_of(frame, metric), lambda p: Value(MODULE, p.place, data=metric.data, step=p.step), frame.atoms
        )
        owner = call.node.func.value if isinstance(call.node.func, ast.Attribute) else call.node.func
        pairs = list(call.everything())
        if pairs:
            frame.need("call", call.node, ast.unparse(call.node.func), pairs[0], (owner, held))
    return Value(UNKNOWN)
