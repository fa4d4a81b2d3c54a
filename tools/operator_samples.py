"""Calls of PyTorch's functions and methods to try: those of its operator database, carried over to methods."""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from operator_signatures import bind, lookup, overloads
from operator_trials import Call
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

# Samples that are tried of each form of a function, spread evenly among the first ones.
SAMPLES, CANDIDATES = 16, 300


def database() -> list[Any]:
    """The operator database (`op_db`)."""
    _stand_in()
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def module_database() -> list[Any]:
    """The module database (`module_db`)."""
    _stand_in()
    from torch.testing._internal.common_modules import module_db

    return list(module_db)


def _stand_in() -> None:
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        # PyTorch's test helpers import it for a base class that the databases don't use.
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]


def calls_of(op: Any) -> Iterator[Call]:
    """The calls of an operator by all of its names, as a function, as a method and in place."""
    calls = list(_as_functions(op))
    for alias in (op.name, *(a.name for a in op.aliases)):
        name = alias.removeprefix("torch.")
        if "._" in f".{name}" and not name.startswith("__"):
            continue
        short = name.removeprefix("nn.functional.")
        for public in dict.fromkeys((name, f"{name}_", short, f"{short}_")):
            if name not in _OPERATORS and callable(live := lookup(f"torch.{public}")):
                yield from (Call(f"torch.{public}", live, c.args, c.kwargs) for c in calls)
        for method in (short, f"{short}_") if "." not in short else ():
            if callable(live := getattr(torch.Tensor, method, None)):
                for call in calls:
                    yield from _as_method(f"torch.Tensor.{method}", live, call)


# What `torch.NAME` of these is has nothing to do with the operator.
_OPERATORS = frozenset(
    {"bool", "int", "float", "half", "long", "short", "double", "bfloat16", "cfloat", "cdouble", "chalf"}
)


def _as_functions(op: Any) -> Iterator[Call]:
    """The samples as calls of the public function that the operator is of."""
    live = lookup(f"torch.{op.name}")
    own = live if callable(live) and op.name not in _OPERATORS else None
    for sample in _samples(op):
        args = (sample.input, *sample.args)
        if own is None or own is op.op:
            yield Call(f"torch.{op.name}", op.op, args, dict(sample.kwargs))
            continue
        # The database calls it through something that takes the arguments in another order.
        with _Seen(own) as seen:
            try:
                op.op(*args, **sample.kwargs)
            except Exception:
                continue
        if seen.call is not None:
            yield Call(f"torch.{op.name}", own, *seen.call)


class _Seen(TorchFunctionMode):
    """Keeps what the first call of a function was given."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.call: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is self.function and self.call is None:
            self.call = tuple(args), dict(kwargs or {})
        return func(*args, **(kwargs or {}))


def _samples(op: Any) -> Iterator[Any]:
    """The first samples of an operator, float32 where it takes that, integers where it doesn't."""
    dtypes = op.supported_dtypes("cpu")
    if not dtypes or (op.name == "as_strided" and op.variant_test_name):
        return
    wanted = (torch.float32, torch.int64, torch.bool)
    dtype = next((d for d in wanted if d in dtypes), sorted(dtypes, key=str)[0])
    torch.manual_seed(0)
    try:
        found = list(islice(op.sample_inputs("cpu", dtype, requires_grad=False), CANDIDATES))
    except Exception:
        # A sample that this build can't make.
        return
    full = [s for s in found if all(t.numel() for t in tree_leaves((s.input, s.args)) if isinstance(t, torch.Tensor))]
    step = max(1, len(full) // SAMPLES)
    yield from full[::step][: SAMPLES + step]


def _as_method(name: str, live: Any, call: Call) -> Iterator[Call]:
    if not call.args:
        return
    given = bind(call.name, call.args, call.kwargs) if "Tensor" not in call.name else []
    first = given[0][0] if given else "self"
    if first in ("input", "self", "?", "A") or len(overloads(call.name)) == 0:
        if isinstance(call.args[0], torch.Tensor):
            yield Call(name, live, call.args, call.kwargs)
        return
    # The function takes its own tensor elsewhere: `torch.where(condition, input, other)`.
    named = dict(given)
    own = named.pop("input", None)
    known = {p.name for o in overloads(name) for p in o}
    if isinstance(own, torch.Tensor) and set(named) <= known:
        yield Call(name, live, (own,), named)
    elif isinstance(call.args[0], torch.Tensor):
        yield Call(name, live, call.args, call.kwargs)
