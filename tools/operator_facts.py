"""Writes devlint/knowledge/operators.json: what PyTorch's operators, modules, factories and types demand of devices.

    python tools/operator_facts.py            # writes the file
    python tools/operator_facts.py --check    # exit 1 when the file differs from what this torch gives
    python tools/operator_facts.py --gpu F    # tells how it differs from what a GPU gave (records.pickle of cuda_truth.py)

All is found by running torch (operator_trials.py tells how), but for what operator_mends.py puts over it.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from factory_facts import constructors, factories
from module_facts import ALIKE, construction, forward_parameters, module_calls
from module_facts import MENDED as MENDED_MODULES
from operator_calls import distribution_calls, making_distributions, own_calls, waiting_methods
from operator_mends import OWN, mends
from operator_samples import calls_of, database
from operator_signatures import params
from operator_trials import STATE, Call, Prepared, Record, counted, examine

from devlint.runtime import virtual_cuda

OUTPUT = Path(__file__).resolve().parent.parent / "devlint" / "knowledge" / "operators.json"


Records = dict[str, Record]
KINDS = ("functions", "distributions", "making", "modules")


def trials() -> dict[str, dict[str, list[Call]]]:
    """All calls by the kind of what is called and its qualified name."""
    # Some samples save the state of all generators, and can't be made under virtual CUDA.
    functions = [*(call for op in database() for call in calls_of(op)), *own_calls()]
    kinds = (functions, distribution_calls(), making_distributions(), module_calls())
    return {kind: _by_name(calls) for kind, calls in zip(KINDS, kinds, strict=True)}


def _by_name(calls: Iterable[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(call.name, []).append(call)
    return found


def tried(name: str, calls: Iterable[Call], waits: Callable[[Prepared], bool] = counted) -> Record:
    """What trying the calls of a function came to. Must be called under virtual CUDA, or where there is a GPU."""
    record = Record(name)
    for call in calls:
        examine(call, record, waits)
    return record


def operators(functions: Records) -> dict[str, Any]:
    """The facts of functions and methods."""
    return {name: facts_of(record) for name, record in functions.items()}


def mended(found: dict[str, Any]) -> dict[str, Any]:
    """The facts of functions, methods and distributions with what trying can't show."""
    facts = dict(found)
    for name, mend in mends().items():
        if name in facts or name in OWN:
            facts[name] = facts.get(name, {"params": params(name)}) | mend
    return facts


def finished(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts as they are written."""
    for found in facts.values():
        if "dim" in found.get("rank_unless", ()):
            # NumPy's name for it is taken everywhere.
            found["rank_unless"] = sorted({"axis", *found["rank_unless"]})
        if found.get("rank") == "zero" and "reduction" in found.get("params", "").split():
            found["rank_unless"] = ["reduce", "reduction"]
    return {name: _told(found) for name, found in sorted(facts.items())}


def distributions(methods: Records, making: Records, waiting: Collection[str]) -> dict[str, Any]:
    """The facts of the classes of torch.distributions and of their methods; `self` is what an object was made of."""
    found = {}
    for name, record in methods.items():
        facts = {k: v for k, v in facts_of(record).items() if k not in ("params", "rank", "zero_dim_ok", "needs_rank")}
        facts["waits"] = "always" if name in waiting else "never"
        facts["no_grad"] = name.endswith(".sample")
        if "value" in record.host or "value" in record.number:
            facts["params"] = "value"
        found[name] = facts
    for name, record in making.items():
        facts = found.setdefault(name, {})
        facts |= {"params": params(name), "kind": "other", "dtype": "", "at_least_1": False}
        if any(waits for waits, _ in record.waits):
            # Arguments are checked by default.
            facts |= {"waits": "sometimes", "waits_unless": ["validate_args"]}
    return found


def modules(records: Records) -> dict[str, Any]:
    """The facts of the classes of torch.nn."""
    found = {}
    for name, record in records.items():
        facts = facts_of(record) | construction(name)
        facts["params"] = forward_parameters(name)
        for key in ("result", "no_grad"):
            facts.pop(key, None)
        if STATE in facts.get("together", ()):
            held = facts.get("has_parameters") or facts.get("has_buffers") or "has_parameters" not in facts
            facts["computes_where"] = "parameters" if held else ""
        if facts.get("rank") == "zero" and "reduction" in facts["made_with"].split():
            facts["rank_unless"] = ["reduce", "reduction"]
        for key in ("together", "needs_rank"):
            facts[key] = [p for p in facts.get(key, ()) if p != STATE]
        found[name] = facts
    # A GPU may have lost some.
    for name, same in ALIKE.items():
        if (like := found.get(f"torch.nn.{same}")) is not None:
            found[f"torch.nn.{name}"] = like | construction(f"torch.nn.{name}") | {"has_parameters": True}
    for name, mended in MENDED_MODULES.items():
        if name in found:
            found[name] |= mended
    return {name: _told(facts) for name, facts in sorted(found.items())}


def _told(facts: dict[str, Any]) -> dict[str, Any]:
    """Without what goes without saying."""
    silent = {"kind": "tensor", "dtype": "float", "result": "together", "waits": "never"}
    return {k: v for k, v in facts.items() if v not in ("", [], None, False) and silent.get(k) != v}


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
    return facts


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
    places = {p for _, p, *_ in record.results}
    with_tuples = _parameters_giving_tuples(record)
    # A function that gives a tuple on demand is told by what it gives else, but for the tuple's parts.
    told = {r for r in record.results if not (with_tuples and isinstance(r[0], tuple))}
    found: dict[str, Any] = {
        "kind": _merged({k for k, *_ in told}),
        "dtype": _merged_dtype({d for _, _, d, *_ in told}),
    }
    if with_tuples:
        found["tuple_with"] = with_tuples
        parts = _merged_dtype({d for k, _, d, *_ in record.results if isinstance(k, tuple)})
        found["part_dtypes"] = parts if isinstance(parts, list) else []
    flat = {part for p in places for part in _flat(p)} - {""}
    if flat == {"cpu"}:
        found["result"] = "host"
    elif flat == {"cuda", "cpu"}:
        found["result"] = "mixed"
    # `contiguous` and others give their operand too where nothing is to be done, and something new else.
    if record.name.endswith("_") and all(first for *_, first, _ in record.results):
        found["result"] = "first"
    tensors = found["kind"] in ("", "tensors", "batch") and found["dtype"] not in ("int", "bool")
    if tensors and not record.needs_grad[True] and record.needs_grad[False]:
        found["no_grad"] = True
    return found


def _parameters_giving_tuples(record: Record) -> list[str]:
    """The parameters that, each by itself, make a function give a tuple, where it gives a tensor without them."""
    with_tuple = [given for kind, *_, given in record.results if isinstance(kind, tuple)]
    without = [given for kind, *_, given in record.results if kind == "tensor"]
    if not with_tuple or not without or len(with_tuple) + len(without) != len(record.results):
        return []
    only = frozenset.union(*with_tuple) - frozenset.union(*without)
    return sorted(only) if all(given & only for given in with_tuple) else []


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
        return "tensors" if set(kind) == {"tensor"} else ["tensors" if isinstance(k, tuple) else k for k in kind]
    if all(isinstance(k, tuple) and set(k) <= {"tensor"} for k in kinds):
        return "tensors"
    if all(k == "tensor" or (isinstance(k, tuple) and set(_flat(k)) <= {"tensor"}) for k in kinds):
        return "batch"
    return "other"


def _merged_dtype(dtypes: set[Any]) -> Any:
    if len(dtypes) == 1:
        dtype = next(iter(dtypes))
        if isinstance(dtype, tuple):
            parts = ["float" if isinstance(d, tuple) else d for d in dtype]
            return parts if len(set(parts)) > 1 and set(parts) - {"float", ""} else _one(tuple(parts))
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
    """The whole file's tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = trials()
        with virtual_cuda(1):
            records = {k: {n: tried(n, c) for n, c in named.items()} for k, named in calls.items()}
            return tables(records, set(waiting_methods()))


def tables(tried: dict[str, Records], waiting: Collection[str]) -> dict[str, Any]:
    """The whole file's tables, by what trials came to."""
    records = {kind: {n: r for n, r in named.items() if r.calls} for kind, named in tried.items()}
    found = operators(records["functions"]) | distributions(records["distributions"], records["making"], waiting)
    return {
        "torch": torch.__version__.split("+")[0],
        "operators": finished(mended(found)),
        "modules": modules(records["modules"]),
        "factories": factories(),
        "constructors": constructors(),
    }


def tell_differences(records: Path) -> None:
    """Prints how the file differs from what the trials came to on a GPU."""
    seen = pickle.loads(records.read_bytes())
    with virtual_cuda(1):
        text = write(tables(seen["records"], seen["waiting"]) | {k: seen[k] for k in ("factories", "constructors")})
    print(*_differences(OUTPUT.read_text(), text, most=1000), f"lost to faults of the GPU: {seen['lost']}", sep="\n")


def main(*, check: bool = False) -> int:
    """Writes the file; with `check`, says whether it is what this torch gives. Returns the exit status."""
    text = write(collect())
    if not check:
        OUTPUT.write_text(text)
        return 0
    kept = OUTPUT.read_text()
    if kept != text:
        print("this trial differs:", *_differences(kept, text), sep="\n")
        # What the next trial says otherwise isn't a fact: a call also fails where the machine is short of something.
        text = write(collect())
    same = kept == text
    print("up to date" if same else f"{OUTPUT} is out of date: run python tools/operator_facts.py")
    if not same:
        print(*_differences(kept, text), sep="\n")
    return 0 if same else 1


def _differences(kept: str, text: str, most: int = 20) -> list[str]:
    """The first lines that only one of two texts has."""
    old, new = set(kept.split("\n")), set(text.split("\n"))
    return [*(f"- {line}" for line in sorted(old - new)), *(f"+ {line}" for line in sorted(new - old))][:most]


if __name__ == "__main__":
    if "--gpu" in sys.argv:
        sys.exit(tell_differences(Path(sys.argv[sys.argv.index("--gpu") + 1])))
    sys.exit(main(check="--check" in sys.argv))
