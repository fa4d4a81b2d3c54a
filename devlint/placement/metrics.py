"""Metrics of the libraries, which remember the options they were made with."""

from __future__ import annotations

from devlint.knowledge.metrics import COLLECTIONS, is_metric
from devlint.placement.values import Value, replace
from devlint.source.kinds import Kind


def metrics_in(value: Value) -> list[Value]:
    """The metrics that a value may be or hold; those of a collection are where that is."""
    found = []
    for _, option in value.alternatives():
        if option.kind in (Kind.MODULE, Kind.OBJECT) and is_metric(option.name):
            if option.name.rpartition(".")[2] in COLLECTIONS:
                parts = option.elements or ((option.each,) if option.each is not None else ())
                held = [metric for part in parts for metric in metrics_in(part)]
                found += [replace(metric, place=option.place) if metric.is_module else metric for metric in held]
            else:
                found.append(option)
    return found
