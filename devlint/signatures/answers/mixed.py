"""Functions that give a tensor on the host on one path, and one where their inputs are on another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from devlint.placement.sources import FunctionModel, SourceModule
from devlint.placement.units import all_functions
from devlint.signatures.answers.silence import is_host_code, is_host_file
from devlint.signatures.reading.reader import Reader
from devlint.signatures.values.values import EITHER, HOST, TENSOR, TUPLE, UNKNOWN, Step, Value, steps_to


class Mixed(NamedTuple):
    """A result that is on the host on one path: where it is made, and another of the same function's results."""

    function: FunctionModel
    made: Step
    other: Value


def mixed_results(reader: Reader, source: SourceModule) -> Iterator[Mixed]:
    """The mixed results of a file's functions; those that are meant for the host left out."""
    if is_host_file(source.path):
        return
    for function in all_functions(source):
        if function.parent is not None or function.is_generator or is_host_code(function):
            continue
        signature = reader.signature(function, None)
        if signature is not None:
            for host, other in _pairs(signature.gives, reader):
                made = next(iter(steps_to(host.step)), None)
                if made is not None and _is_made_in(function, made):
                    yield Mixed(function, made, other)


def _pairs(value: Value, reader: Reader) -> Iterator[tuple[Value, Value]]:
    """A result on the host, and one that goes by the inputs, of the alternatives of one value."""
    if value.kind is TUPLE:
        for part in value.parts:
            yield from _pairs(part, reader)
    if value.kind is not EITHER:
        return
    options = [(c, v) for c, v in value.parts if v.kind in (TENSOR, TUPLE, UNKNOWN)]
    tuples = [(c, v) for c, v in options if v.kind is TUPLE]
    if len(tuples) > 1 and len({len(v.parts) for _, v in tuples}) == 1:
        for position in range(len(tuples[0][1].parts)):
            yield from _pairs(Value(EITHER, parts=tuple((c, v.parts[position]) for c, v in tuples)), reader)
    others = [v for _, v in options if v.kind is not TUPLE and v.place.is_open and _is_tensor(v)]
    for condition, host in options:
        if host.kind is TENSOR and host.place == HOST and others and not reader.atoms.with_host(condition):
            yield host, others[0]


def _is_tensor(value: Value) -> bool:
    """Whether a result is a tensor, as another of the same function is: an input as it came may be anything."""
    return value.path is None and (value.kind is TENSOR or "computed" in value.tags or isinstance(value.data, tuple))


def _is_made_in(function: FunctionModel, made: Step) -> bool:
    end = function.node.end_lineno or function.node.lineno
    return (
        made.path == function.source.path
        and function.node.lineno <= made.line <= end
        and made.message.startswith("created on cpu")
    )
