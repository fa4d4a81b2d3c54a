"""What a call of PyTorch demands of its tensors' devices and what it gives, found by trying it.

A call is made under virtual CUDA with all of its tensors on the accelerator, then with each of them in turn left on the
host, or alone on the accelerator; then with tensors without dimensions. `examine` tells what happened, a `Record` adds
that up over all calls of one function.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from operator_signatures import bind
from torch.utils._pytree import tree_flatten, tree_unflatten

from devlint.runtime import watch_devices
from devlint.runtime.virtual.errors import VirtualCudaUnsupportedError

Tensor = torch.Tensor
# Words of the errors by which PyTorch refuses tensors of several devices.
REFUSALS = ("device", "weight type", "on cpu", "cuda", "CUDA")
# A module's own tensors, as one parameter: they are moved together.
STATE = "(state)"
# Parameters that decide whether a result has dimensions.
REDUCING = frozenset({"dim", "dims", "axis", "axes", "reduction", "reduce", "size_average", "keepdim"})


@dataclass(frozen=True)
class Call:
    """One call: a function by its qualified name, with what it is given on the host."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    # The parameters of `args`, where they aren't those of the function by that name.
    names: tuple[str, ...] = ()

    def bound(self) -> list[tuple[str, Any]]:
        """(parameter, argument), in order."""
        if self.names:
            return [*zip(self.names, self.args, strict=False), *self.kwargs.items()]
        return bind(self.name, self.args, self.kwargs)


@dataclass
class Record:
    """What the calls of one function came to."""

    name: str
    calls: int = 0
    # By parameter: how often one of its tensors was refused on the host, or taken, beside accelerator ones.
    host: dict[str, Counter[bool]] = field(default_factory=lambda: defaultdict(Counter))
    # By parameter: alone on the accelerator, the others on the host.
    alone: dict[str, Counter[bool]] = field(default_factory=lambda: defaultdict(Counter))
    # By parameter: tensors without dimensions on the host, and whether those are valid at all.
    number: dict[str, Counter[bool]] = field(default_factory=lambda: defaultdict(Counter))
    valid_number: dict[str, Counter[bool]] = field(default_factory=lambda: defaultdict(Counter))
    # Parameters that were refused on the accelerator, all other tensors there.
    host_only: Counter[str] = field(default_factory=Counter)
    # (kind of result, places, dtype classes, identical with the first argument, parameters given).
    results: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    # (parameters of REDUCING given, dimensions of the first tensor, those of the first result).
    ranks: Counter[tuple[frozenset[str], int, int]] = field(default_factory=Counter)
    waits: Counter[tuple[bool, frozenset[str]]] = field(default_factory=Counter)
    needs_grad: Counter[bool] = field(default_factory=Counter)

    def add(self, other: Record) -> None:
        """Counts what the calls of another record came to, too."""
        self.calls += other.calls
        for name in ("host", "alone", "number", "valid_number"):
            for parameter, counts in getattr(other, name).items():
                getattr(self, name)[parameter].update(counts)
        for name in ("host_only", "results", "ranks", "waits", "needs_grad"):
            getattr(self, name).update(getattr(other, name))


@dataclass
class _Leaves:
    """A call's arguments with the tensors taken out."""

    call: Call
    leaves: list[Any]
    spec: Any
    # (place among the leaves, parameter).
    tensors: list[tuple[int, str]]
    # The places of numbers that name a dimension.
    dims: list[int]

    def run(self, place: Callable[[int, Tensor], Any], *, first_dim: bool = False) -> Any:
        leaves = list(self.leaves)
        for i in self.dims if first_dim else ():
            leaves[i] = 0
        for i, _ in self.tensors:
            leaves[i] = place(i, leaves[i])
        args, kwargs = tree_unflatten(leaves, self.spec)
        torch.manual_seed(0)
        return self.call.function(*args, **kwargs)


def taken_apart(call: Call) -> _Leaves:
    """A call's leaves, each tensor with the parameter that it is given to."""
    leaves, spec = tree_flatten((call.args, call.kwargs))
    names: list[str] = []
    for parameter, value in call.bound():
        names += [parameter] * len(tree_flatten(value)[0])
    tensors = [(i, names[i]) for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    dims = [i for i, leaf in enumerate(leaves) if type(leaf) is int and names[i] == "dim"]
    return _Leaves(call, leaves, spec, tensors, dims)


def on(device: str) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor.detach().clone().to(device)


Prepared = Callable[[], Callable[[], Any]]


def counted(prepared: Prepared) -> bool:
    """Whether a call makes the host wait, as far as virtual CUDA sees it; `prepared` makes the call anew."""
    call = prepared()
    with watch_devices() as watched, suppress(NotImplementedError):
        call()
    return watched.report().sync_count > 0


def examine(call: Call, record: Record, waits: Callable[[Prepared], bool] = counted) -> None:
    """Adds what a call comes to to its function's record. Must be called under virtual CUDA, or where there is a GPU.

    `waits` tells whether a call makes the host wait.
    """
    parts = taken_apart(call)
    cuda, cpu = on("cuda"), on("cpu")
    given = frozenset(p for p, v in call.bound() if v is not None and v is not False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if _outcome(lambda: parts.run(lambda i, t: cpu(t))) is not True:
            return
        outcome = _note_result(parts, record, given, waits)
        if outcome is None:
            return
        record.calls += 1
        if outcome:
            _note_grad(parts, record)
        _place_each(parts, record, outcome, cuda, cpu)
        if outcome:
            _without_dimensions(parts, record, given, cuda, cpu)


def _note_result(
    parts: _Leaves, record: Record, given: frozenset[str], waits: Callable[[Prepared], bool]
) -> bool | None:
    placed = {i: on("cuda")(parts.leaves[i]) for i, _ in parts.tensors}
    result: Any = None

    def prepared() -> Callable[[], Any]:
        tensors = {i: on("cuda")(parts.leaves[i]) for i, _ in parts.tensors}
        return lambda: parts.run(lambda i, t: tensors[i])

    def run() -> None:
        nonlocal result
        result = parts.run(lambda i, t: placed[i])

    first = next(iter(placed.values()), None)
    before = first.ndim if first is not None else -1
    outcome = _outcome(run)
    if outcome is not True:
        return outcome
    record.waits[waits(prepared), given] += 1
    kinds, places, dtypes = _described(result)
    record.results[
        kinds, "" if "device" in given else places, dtypes, first is not None and result is first, given
    ] += 1
    if first is not None:
        _note_rank(record, given, before, result)
    return True


def _note_rank(record: Record, given: frozenset[str], before: int, result: Any) -> None:
    ranks = [t.ndim for t in tree_flatten(result)[0] if isinstance(t, Tensor)]
    if ranks:
        record.ranks[given & REDUCING, before, min(ranks)] += 1


def _described(result: Any) -> tuple[Any, Any, Any]:
    """The kinds of a result's parts, their places and their dtypes' classes: text, or tuples for a tuple's parts."""
    if isinstance(result, Tensor):
        dtype = "bool" if result.dtype is torch.bool else "float" if _floats(result) else "int"
        return "tensor", result.device.type, dtype
    if isinstance(result, list | tuple) and not isinstance(result, torch.Size):
        parts = [_described(part) for part in result]
        kinds, places, dtypes = (tuple(p[i] for p in parts) for i in range(3))
        return kinds, places, dtypes
    if result is None:
        return "none", "", ""
    kind = "bool" if isinstance(result, bool) else "scalar" if isinstance(result, int | float | complex) else "other"
    return kind, "", ""


def _floats(tensor: Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _note_grad(parts: _Leaves, record: Record) -> None:
    """Whether what comes out of floating point inputs that need a gradient needs one."""
    floats = [i for i, _ in parts.tensors if _floats(parts.leaves[i])]
    if not floats:
        return

    def learned(_: int, tensor: Tensor) -> Tensor:
        # A step lies between, so that functions in place work.
        return tensor.detach().clone().requires_grad_() * 1 if _floats(tensor) else tensor.detach().clone()

    try:
        with torch.enable_grad():
            result = parts.run(learned)
    except Exception:
        return
    record.needs_grad[any(isinstance(t, Tensor) and t.requires_grad for t in tree_flatten(result)[0])] += 1


def _place_each(parts: _Leaves, record: Record, together: bool, cuda: Any, cpu: Any) -> None:
    ranked = [(i, p) for i, p in parts.tensors if parts.leaves[i].ndim and parts.leaves[i].numel()]
    groups = [({i}, p) for i, p in ranked if p != STATE]
    if state := {i for i, p in parts.tensors if p == STATE}:
        groups.append((state, STATE))
    if len(groups) < 2 and together:
        return
    for group, parameter in groups:
        taken = _outcome(lambda g=group: parts.run(lambda i, t: cpu(t) if i in g else cuda(t)))
        if not together:
            # Refused with everything on the accelerator: which one of them is wanted on the host?
            record.host_only[parameter] += taken is True
            continue
        if taken is not None:
            record.host[parameter][taken] += 1
        taken = _outcome(lambda g=group: parts.run(lambda i, t: cuda(t) if i in g else cpu(t)))
        if taken is not None:
            record.alone[parameter][taken] += 1


def _without_dimensions(parts: _Leaves, record: Record, given: frozenset[str], cuda: Any, cpu: Any) -> None:
    """Each parameter's tensors in turn, and all at once, as tensors without dimensions; and without their first one."""
    everything = frozenset(i for i, _ in parts.tensors)
    if not everything or not all(
        parts.leaves[i].numel() and parts.leaves[i].layout is torch.strided for i in everything
    ):
        return
    _peeled(parts, record, given)
    for parameter in dict.fromkeys(p for _, p in parts.tensors if p != STATE):
        chosen = frozenset(i for i, p in parts.tensors if p == parameter)
        for changed in {chosen, everything}:
            result = _try(lambda c=changed: parts.run(lambda j, t: _number(t) if j in c else cpu(t), first_dim=True))
            record.valid_number[parameter][result is not _FAILED] += 1
            if result is not _FAILED and min(everything) in changed:
                _note_rank(record, given, 0, result)
        if len(everything) < 2:
            continue
        one = min(chosen)
        if _outcome(lambda one=one: parts.run(lambda j, t: cuda(_number(t) if j == one else t))) is True:
            taken = _outcome(lambda one=one: parts.run(lambda j, t: _number(t) if j == one else cuda(t)))
            if taken is not None:
                record.number[parameter][taken] += 1


def _peeled(parts: _Leaves, record: Record, given: frozenset[str]) -> None:
    """A call for one element of the batch: `cross_entropy` takes a target without dimensions then."""
    first = parts.leaves[parts.tensors[0][0]]
    state = {i for i, p in parts.tensors if p == STATE}
    if not first.ndim:
        return

    def peel(i: int, tensor: Tensor) -> Tensor:
        whole = i in state or not tensor.ndim or tensor.shape[0] != first.shape[0]
        return (tensor if whole else tensor[0]).detach().clone()

    result = _try(lambda: parts.run(peel))
    if result is _FAILED:
        return
    _note_rank(record, given, first.ndim - 1, result)
    for i, parameter in parts.tensors:
        if peel(i, parts.leaves[i]).ndim == 0:
            record.valid_number[parameter][True] += 1


def _number(tensor: Tensor) -> Tensor:
    number = tensor.detach().reshape(-1)[0].clone()
    # Indices into what has one element now.
    return number * 0 if number.dtype is torch.int64 else number


_FAILED: Any = object()


def _try(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception:
        return _FAILED


def _outcome(run: Callable[[], Any]) -> bool | None:
    """True where a call works, False where it refuses the devices, None where it fails in another way."""
    try:
        run()
    except VirtualCudaUnsupportedError:
        return None
    except Exception as error:
        return False if any(word in str(error) for word in REFUSALS) else None
    return True
