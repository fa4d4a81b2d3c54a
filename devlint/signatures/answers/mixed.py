"""Functions that give a tensor on the host on one path, and one where their inputs are on another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from devlint.signatures.answers.silence import is_host_code, is_host_file
from devlint.signatures.reading.reader import Reader
from devlint.signatures.values.conditions import Condition
from devlint.signatures.values.values import EITHER, HOST, TENSOR, TUPLE, UNKNOWN, ZERO_DIM, Path, Step, Value, steps_to
from devlint.source.modules import FunctionModel, SourceModule
from devlint.source.units import all_functions


class Mixed(NamedTuple):
    """A result that is on the host on one path: where it is made, and another of the same function's results.

    `at`: which of several results that a function gives at once.
    """

    function: FunctionModel
    made: Step
    other: Value
    has_dimensions: bool = True
    at: int | None = None


def mixed_results(reader: Reader, source: SourceModule) -> Iterator[Mixed]:
    """The mixed results of a file's functions; those that are meant for the host left out."""
    if is_host_file(source.path):
        return
    for function in all_functions(source):
        if function.parent is not None or function.is_generator or is_host_code(function):
            continue
        signature = reader.signature(function, None)
        if signature is not None:
            for host, other, at in _pairs(signature.gives, reader):
                made = next(iter(steps_to(host.step)), None)
                if made is not None and _is_made_in(function, made) and _is_of_tensor(function, other):
                    yield Mixed(function, made, other, host.rank != ZERO_DIM, at)


def _pairs(value: Value, reader: Reader, at: int | None = None) -> Iterator[tuple[Value, Value, int | None]]:
    """A result on the host, and one that goes by the inputs, of the alternatives of one value, and which of several that is."""
    if value.kind is TUPLE:
        for position, part in enumerate(value.parts):
            yield from _pairs(part, reader, position if at is None else at)
    if value.kind is not EITHER:
        return
    options = [(c, v) for c, v in value.parts if v.kind in (TENSOR, TUPLE, UNKNOWN)]
    tuples = [(c, v) for c, v in options if v.kind is TUPLE]
    if len(tuples) > 1 and len({len(v.parts) for _, v in tuples}) == 1:
        for position in range(len(tuples[0][1].parts)):
            parts = tuple((c, v.parts[position]) for c, v in tuples)
            yield from _pairs(Value(EITHER, parts=parts), reader, position if at is None else at)
    others = [v for _, v in options if v.kind is not TUPLE and v.place.is_open and _is_tensor(v)]
    for condition, host in options:
        if host.kind is not TENSOR or host.place != HOST or reader.atoms.with_host(condition):
            continue
        other = next((o for o in others if not _decided_by(condition, o.place.name, reader)), None)
        if other is not None:
            yield host, other, at


# Tests that ask whether there is an input, what it is, or where.
_OF_THE_INPUT = frozenset({"none", "isinstance", "has", "true", "at", "on host", "same place", "is_cuda"})


def _decided_by(condition: Condition, path: Path, reader: Reader) -> bool:
    """Whether a test of the input that would tell the place leads to a result: there is none, or it is no tensor."""
    root = repr(path[0])
    keys = [reader.atoms.atom(literal).key for clause in condition for literal in clause]
    return any(isinstance(k, tuple) and k[0] in _OF_THE_INPUT and root in repr(k[1:]) for k in keys)


def _is_tensor(value: Value) -> bool:
    """Whether a result is a tensor, as another of the same function is: an input as it came may be anything."""
    return value.path is None and (value.kind is TENSOR or "computed" in value.tags or isinstance(value.data, tuple))


def _is_of_tensor(function: FunctionModel, value: Value) -> bool:
    """Whether the input that a result goes by is used as only tensors and arrays are, where no more is known."""
    root = str(value.place.name[0])
    return value.kind is TENSOR or f"{root}." in function.text or f"{root}[" in function.text


def _is_made_in(function: FunctionModel, made: Step) -> bool:
    end = function.node.end_lineno or function.node.lineno
    return (
        made.path == function.source.path
        and function.node.lineno <= made.line <= end
        and made.message.startswith("created on cpu")
    )
