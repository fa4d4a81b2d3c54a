"""What PyTorch's operators, modules and factories demand of their tensors' devices, and what they give.

`operators.json` is found by running torch (tools/operator_facts.py); it is read on first use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from devlint.knowledge.files import text_of
from devlint.records import record

_NOTHING: frozenset[str] = frozenset()


@record(frozen=True, slots=True)
class Parameters:
    """The parameters of a function or method; a method's without `self`."""

    # What a positional argument may be called, by position: overloads differ. The last is repeated where `rest` is true.
    positions: tuple[tuple[str, ...], ...] = ()
    keywords: frozenset[str] = _NOTHING
    rest: bool = False

    def at(self, position: int) -> tuple[str, ...]:
        """The names that a positional argument may have; empty where the call has too many."""
        if position < len(self.positions):
            return self.positions[position]
        return self.positions[-1] if self.rest and self.positions else ()

    def position_of(self, name: str) -> int | None:
        """Where a parameter is given by position; None where it is given by keyword only, or isn't one."""
        return next((i for i, names in enumerate(self.positions) if name in names), None)


@record(frozen=True, slots=True)
class Called:
    """What a call was seen to do: what it demands of the devices of its tensors, and what it gives.

    Parameters are named as in the signature; `self` is a method's own tensor. A list of tensors is one parameter, whose
    elements count each. Tensors without dimensions are apart: see `zero_dim_ok`.
    """

    name: str
    params: Parameters = Parameters()
    # Parameters whose tensors must all be on one device; of a module, with its own tensors, where it holds any.
    together: frozenset[str] = _NOTHING
    # May be on the host though others are on an accelerator; not the reverse (indices of `x[i]`).
    host_ok: frozenset[str] = _NOTHING
    # May be anywhere.
    anywhere: frozenset[str] = _NOTHING
    # Must be on the host.
    host_only: frozenset[str] = _NOTHING
    # Refused apart from others in some forms of the call, taken in others.
    sometimes: frozenset[str] = _NOTHING
    # Of `together`: a tensor without dimensions may be on the host.
    zero_dim_ok: frozenset[str] = _NOTHING
    # tensor, tensors (a tuple or list of them), batch (tensors in some structure), scalar, bool, none, other; for a
    # tuple of several kinds see `parts`.
    kind: str = "tensor"
    parts: tuple[str, ...] = ()
    # Each of these, given (and true), makes it give a tuple instead (`max(x, dim)`), of `part_dtypes`.
    tuple_with: frozenset[str] = _NOTHING
    # float (or as the input), int, bool; by part where they differ.
    dtype: str = "float"
    part_dtypes: tuple[str, ...] = ()
    # The host waits for operands on an accelerator: "always", "sometimes" (see below) or "never".
    waits: str = "never"
    # Sometimes: not where one of these is given; only where all of these are given; only where one of these is given
    # a tensor. Where all are empty, for some values.
    waits_unless: frozenset[str] = _NOTHING
    waits_with: frozenset[str] = _NOTHING
    waits_for: frozenset[str] = _NOTHING
    # "keeps" (at least as many dimensions as the first tensor), "zero" (none, where none of `rank_unless` is given).
    rank: str = ""
    rank_unless: frozenset[str] = _NOTHING
    # The result has a dimension at least, whatever is given.
    at_least_1: bool = False
    # Parameters whose tensors have a dimension at least.
    needs_rank: frozenset[str] = _NOTHING


@record(frozen=True, slots=True)
class Operator(Called):
    """One function (`torch.add`) or method (`torch.Tensor.add_`)."""

    # Which parameter is an index into another.
    index: str = ""
    # Where the result is: "together" (where the operands are; where they differ, with the first of them), "host",
    # "cuda", "first" (it is the first operand itself), "to" (as the arguments tell), "data" (with a tensor among the
    # data, else as a factory), "inputs" (with that parameter), "device" (as `device=` tells). See `part_places`.
    result: str = "together"
    # For a tuple of tensors at several places: "together" or "host", by part.
    part_places: tuple[str, ...] = ()
    # The result never needs a gradient, though its dtype could.
    no_grad: bool = False


@record(frozen=True, slots=True)
class ModuleFacts(Called):
    """One class of torch.nn, by what its objects were seen to do: `params` are those of `forward`."""

    has_parameters: bool = False
    has_buffers: bool = False
    # "parameters" (inputs must be where the parameters are) or "inputs" (it computes wherever its inputs are).
    computes_where: str = "inputs"
    # Arguments of the constructor that make it hold tensors (`weight=`), which the inputs must be with then.
    holding: frozenset[str] = _NOTHING
    # Arguments of the constructor that are true by default; it holds no tensors where all of them are false.
    unheld_by: frozenset[str] = _NOTHING
    # Of its constructor.
    made_with: Parameters = Parameters()


@record(frozen=True, slots=True)
class Factory:
    """A function or method that makes tensors where it is told."""

    name: str
    params: Parameters = Parameters()
    # Where the result is without `device=`: "default" (the default device), "host", "like" (where the first tensor is).
    place: str = "default"
    # Whether it takes `device=`.
    takes_device: bool = False
    # Parameters that are the result's size; `*size` in `params` takes several numbers.
    size: frozenset[str] = _NOTHING
    # The result has a dimension at least, whatever is given.
    at_least_1: bool = False


@record(frozen=True, slots=True)
class Constructor:
    """A legacy type (`torch.cuda.FloatTensor`), which makes tensors and names one in `x.type(...)`."""

    name: str
    # Where what it makes is: "host", "cuda", "default", or "like" (where its tensor argument is).
    place: str = "host"
    # Where `x.type(this)` is; empty where it is no type.
    type_place: str = ""


_Facts = TypeVar("_Facts", Operator, ModuleFacts, Factory, Constructor)


@cache
def operator(name: str) -> Operator | None:
    """The facts of a function or method by its qualified name; None where nothing is known."""
    return _read(Operator, "operators", name)


@cache
def module(name: str) -> ModuleFacts | None:
    """The facts of a module's class by its qualified name (`torch.nn.Linear`); None where nothing is known."""
    return _read(ModuleFacts, "modules", name)


@cache
def factory(name: str) -> Factory | None:
    """The facts of a factory (`torch.zeros`, `torch.Tensor.new_zeros`); None where it is none."""
    return _read(Factory, "factories", name)


@cache
def constructor(name: str) -> Constructor | None:
    """The facts of a legacy type by its qualified name; None where it is none."""
    return _read(Constructor, "constructors", name)


def names(table: str) -> frozenset[str]:
    """The names of a table: `operators`, `modules`, `factories` or `constructors`."""
    return frozenset(_rows()[table])


def _read(of: type[_Facts], table: str, name: str) -> _Facts | None:
    row = _rows()[table].get(name)
    return None if row is None else of(name=name, **_typed(of, json.loads(row)))


def _typed(of: type[Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    known = {f.name for f in fields(of)}
    found: dict[str, Any] = {}
    for key, value in raw.items():
        if key in ("params", "made_with"):
            found[key] = _parameters(value)
        elif key in ("kind", "dtype") and isinstance(value, list):
            # A tuple of several kinds.
            found["parts" if key == "kind" else "part_dtypes"] = tuple(value)
            found[key] = "tuple" if key == "kind" else "float"
        elif key in ("part_places", "part_dtypes"):
            found[key] = tuple(value)
        else:
            found[key] = frozenset(value) if isinstance(value, list) else value
    return {key: value for key, value in found.items() if key in known}


def _parameters(text: str) -> Parameters:
    placed, _, keywords = f"{text} ".partition(" * ") if not text.startswith("* ") else ("", "", text[2:])
    positions = tuple(tuple(n.lstrip("*") for n in part.split("|")) for part in placed.split())
    return Parameters(positions, frozenset(keywords.split()), "*" in placed)


@cache
def _rows() -> dict[str, dict[str, str]]:
    """The lines of each table, by the names that they are about: of the many, a run asks for few."""
    found: dict[str, dict[str, str]] = {}
    table: dict[str, str] = {}
    for line in text_of("operators.json").splitlines():
        name, _, row = line.partition(": ")
        if row == "{":
            table = found[name.strip('"')] = {}
        elif row:
            table[name.strip('"')] = row.removesuffix(",")
    return found
