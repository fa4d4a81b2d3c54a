"""Metrics of the libraries: objects that remember the options they were made with."""

from __future__ import annotations

from devlint.knowledge.metrics import COLLECTIONS, PACKAGES, WaitTable, is_metric, wait_table
from devlint.placement.request import Call, site_of
from devlint.placement.values import HOST, NOWHERE, UNKNOWN, Value, element_of, inherited, replace
from devlint.source.kinds import Kind


def new_metric(request: Call, name: str) -> Value:
    """A metric with the options that it is given as its attributes, or a collection with its metrics."""
    is_module = name.startswith(f"{PACKAGES[0]}.")
    step = request.step(f"created by `{request.text}`")
    made = Value(
        Kind.MODULE if is_module else Kind.OBJECT,
        HOST if is_module else NOWHERE,
        name=name,
        site=site_of(request),
        trail=(step,),
    )
    table = wait_table(name)
    if table is not None:
        given = options_given(request, table)
        return replace(made, keys=tuple(given), elements=tuple(given.values()))
    parts = request.argument(0, "metrics")
    if parts is None:
        return made
    if parts.kind in (Kind.SEQUENCE, Kind.MAPPING) and parts.elements is None:
        return replace(made, each=element_of(parts), depth=parts.depth + 1)
    inner = parts.elements if parts.kind in (Kind.SEQUENCE, Kind.MAPPING) and parts.elements else request.positional
    return replace(made, elements=tuple(inner), depth=1 + max(v.depth for v in inner))


def options_given(request: Call, table: WaitTable) -> dict[str, Value]:
    """The options of a metric that a call gives, or may give."""
    found = {}
    for option in table.options:
        value = request.argument(option.position, option.name) if option.position is not None else None
        if value is None and request.open_ended and option.position is not None:
            value = UNKNOWN
        if value is not None:
            found[option.name] = value
    return found


def metrics_in(value: Value) -> list[Value]:
    """The metrics that a value may be or hold."""
    found = []
    for _, option in value.alternatives():
        if option.kind in (Kind.MODULE, Kind.OBJECT) and is_metric(option.name):
            if option.name.rpartition(".")[2] in COLLECTIONS:
                parts = option.elements or ((option.each,) if option.each is not None else ())
                found += [metric for part in parts for metric in metrics_in(inherited(option, part))]
            else:
                found.append(option)
    return found
