"""Writes devlint/knowledge/operators.json: what PyTorch's operators, modules, factories and types demand of devices.

    python tools/operator_facts.py                # writes the file
    python tools/operator_facts.py --disagreements

All is found by running torch (operator_trials.py tells how).
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from operator_samples import calls_of, database
from operator_signatures import params
from operator_trials import Record, examine, waits_in_fake

from devlint.runtime import virtual_cuda

OUTPUT = Path(__file__).resolve().parent.parent / "devlint" / "knowledge" / "operators.json"


def operator_records() -> dict[str, Record]:
    """What trying each function and method came to, by its qualified name."""
    records: dict[str, Record] = {}
    # FakeTensorMode can't be entered under virtual CUDA.
    calls = [call for op in database() for call in calls_of(op)]
    for call in calls:
        record = records.setdefault(call.name, Record(call.name))
        if (waits := waits_in_fake(call)) is not None:
            record.fake_waits[waits] += 1
    with virtual_cuda(1):
        for call in calls:
            examine(call, records[call.name])
    return {name: record for name, record in sorted(records.items()) if record.calls}


def facts_of(record: Record) -> dict[str, Any]:
    """The facts that a record shows; defaults are left out."""
    facts: dict[str, Any] = {"params": params(record.name)}
    facts |= _places(record)
    facts |= _result(record)
    facts |= _rank(record)
    facts |= _waits(record)
    needed = [p for p, c in record.valid_number.items() if not c[True] and c[False]]
    # A tensor has dimensions where no tensor without any was taken.
    facts["needs_rank"] = needed
    return {key: value for key, value in facts.items() if value not in ("", [], {}, None, False)}


def _always(counts: Counter[bool]) -> bool | None:
    return None if len([c for c in counts.values() if c]) != 1 else next(v for v, c in counts.items() if c)


def _places(record: Record) -> dict[str, Any]:
    together, host_ok, anywhere, mixed = [], [], [], []
    for parameter, counts in record.host.items():
        refused = _always(counts)
        if refused is None:
            mixed.append(parameter)
        elif refused is False:
            together.append(parameter)
        elif _always(record.alone[parameter]) is True:
            anywhere.append(parameter)
        else:
            host_ok.append(parameter)
    numbers = [p for p, c in record.number.items() if c[True] and not c[False] and p in together]
    return {
        "together": together,
        "host_ok": host_ok,
        "anywhere": anywhere,
        "sometimes": mixed,
        "host_only": [p for p, n in record.host_only.items() if n],
        "zero_dim_ok": numbers,
    }


def _result(record: Record) -> dict[str, Any]:
    if not record.results:
        return {}
    kinds = {k for k, *_ in record.results}
    places = {p for _, p, *_ in record.results}
    dtypes = {d for _, _, d, _ in record.results}
    found: dict[str, Any] = {"kind": _merged(kinds), "dtype": _merged_dtype(dtypes)}
    flat = {part for p in places for part in _flat(p)} - {""}
    if flat == {"cpu"}:
        found["result"] = "host"
    elif flat == {"cuda", "cpu"}:
        found["result"] = "mixed"
    if all(first for *_, first in record.results):
        found["result"] = "first"
    if not record.needs_grad[True] and record.needs_grad[False] and found["dtype"] not in ("int", "bool"):
        found["no_grad"] = True
    return found


# FakeTensorMode logs a traceback for each call that is wrong in itself.
logging.getLogger("torch").setLevel(logging.CRITICAL)


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _merged(kinds: set[Any]) -> Any:
    if len(kinds) == 1:
        kind = next(iter(kinds))
        if not isinstance(kind, tuple):
            return "" if kind == "tensor" else kind
        return "tensors" if set(kind) == {"tensor"} else list(kind)
    if all(isinstance(k, tuple) and set(k) <= {"tensor"} for k in kinds):
        return "tensors"
    if all(k == "tensor" or (isinstance(k, tuple) and set(_flat(k)) <= {"tensor"}) for k in kinds):
        return "batch"
    return "other"


def _merged_dtype(dtypes: set[Any]) -> Any:
    if len(dtypes) == 1:
        dtype = next(iter(dtypes))
        if isinstance(dtype, tuple):
            return "" if "float" not in dtype and False else list(dtype) if len(set(dtype)) > 1 else _one(dtype)
        return "" if dtype == "float" else dtype
    flat = {part for d in dtypes for part in _flat(d)}
    return "" if "float" in flat or "" in flat else "int"


def _one(dtype: tuple[Any, ...]) -> Any:
    return "" if not dtype or dtype[0] == "float" else dtype[0]


def _rank(record: Record) -> dict[str, Any]:
    plain = {(b, a) for given, b, a in record.ranks if not given}
    everything = {(b, a) for _, b, a in record.ranks}
    found: dict[str, Any] = {}
    if everything and all(a >= b for b, a in everything):
        found["rank"] = "keeps"
    elif plain and all(a == 0 for _, a in plain):
        found["rank"] = "zero"
        kept = {p for given, _, a in record.ranks if a for p in given} & {"dim", "dims", "axis", "reduction", "axes"}
        found["rank_unless"] = sorted(kept)
    if everything and min(a for _, a in everything) >= 1:
        found["at_least_1"] = True
    return found


def _waits(record: Record) -> dict[str, Any]:
    seen = {w for w, _ in record.waits}
    if seen == {False} or not seen:
        return {}
    if seen == {True}:
        return {"waits": "always"}
    waiting = [given for w, given in record.waits if w]
    still = [given for w, given in record.waits if not w]
    common = frozenset.intersection(*still) if still else frozenset()
    unless = sorted(p for p in common if all(p not in given for given in waiting))
    always = frozenset.intersection(*waiting)
    only = sorted(p for p in always if all(p not in given for given in still))
    return {"waits": "sometimes", "waits_unless": unless, "waits_with": only}


def write(tables: Mapping[str, Any]) -> str:
    """The file's text: a line for each entry."""
    lines = []
    for table, entries in tables.items():
        if isinstance(entries, dict):
            inner = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items())
            lines.append(f"{json.dumps(table)}: {{\n{inner}\n}}")
        else:
            lines.append(f"{json.dumps(table)}: {json.dumps(entries)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def collect() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operators = {name: facts_of(record) for name, record in operator_records().items()}
    return {"torch": torch.__version__.split("+")[0], "operators": operators}


def main() -> int:
    OUTPUT.write_text(write(collect()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
