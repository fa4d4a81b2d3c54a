"""How faithful virtual CUDA is: operator by operator, placement by placement, against an oracle.

    python benchmarks/fidelity.py [--samples N] [--op NAME] [--json FILE]

Takes the samples of PyTorch's own operator database (`op_db`), puts their tensors on the host, on device 0 and on
device 1 in turn, and compares what happens (an error, or the devices of the results) under virtual CUDA with what
`FakeTensorMode` says, which knows devices but no values. Each disagreement is listed with a reason where one is known.

FakeTensorMode can only be asked where it checks. What it does not check is found by running it (`blind_spot`); cases in
which it accepts for that want alone, and virtual CUDA refuses, are set aside and counted. For those the wheel has a
second witness: native_functions.yaml, from which PyTorch generates the device check of each CUDA kernel. A refusal is
set aside only if the kernel that it names has that check.

What a real GPU does with the same samples is recorded too: see cuda_truth.py.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
import sys
import types
import unittest
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._pytree import tree_flatten, tree_unflatten

from devlint.runtime import virtual_cuda

if importlib.util.find_spec("expecttest") is None:
    # PyTorch's test helpers import it for a base class that the operator database doesn't use.
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]
from torch.testing._internal.common_methods_invocations import op_db

PLACES = {"h": "cpu", "0": "cuda:0", "1": "cuda:1"}

# "error", or the devices of the result's tensors; None where the oracle can't say.
Outcome = str | None


@dataclass(frozen=True)
class Case:
    """One sample of one operator with its tensors placed: a letter of PLACES for each, in order."""

    op: str
    sample: int
    placement: str

    @property
    def key(self) -> str:
        return f"{self.op}/{self.sample}/{self.placement}"


@dataclass
class Sample:
    """An operator's call: its arguments with the tensors taken out."""

    op: Any
    name: str
    index: int
    leaves: list[Any]
    spec: Any
    positions: list[int]

    def call(self, place: Callable[[torch.Tensor, str], torch.Tensor], placement: str) -> Any:
        return self.prepared(place, placement)()

    def prepared(self, place: Callable[[torch.Tensor, str], torch.Tensor], placement: str) -> Callable[[], Any]:
        """The call, with its tensors placed."""
        leaves = list(self.leaves)
        for position, letter in zip(self.positions, placement, strict=True):
            leaves[position] = place(leaves[position], PLACES[letter])
        given, args, kwargs = tree_unflatten(leaves, self.spec)
        return lambda: self.op(given, *args, **kwargs)


def samples(limit: int, only: Collection[str] | None = None) -> Iterator[Sample]:
    """Up to `limit` samples of each operator, float32 where it takes that."""
    for op in op_db:
        if only is not None and not {op.name, name_of(op)} & set(only):
            continue
        dtypes = op.supported_dtypes("cpu")
        if not dtypes:  # CUDA only: no values for it here
            continue
        dtype = torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]
        yield from islice(samples_of(op, dtype), limit)


def name_of(op: Any) -> str:
    """An operator's name, with that of its variant."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def samples_of(op: Any, dtype: torch.dtype) -> Iterator[Sample]:
    """The samples of an operator for a data type, as far as this build can make them."""
    if name_of(op) == "as_strided.partial_views":  # needs the storage around the tensor, which a placed copy lacks
        return
    torch.manual_seed(0)
    with suppress(Exception):
        for index, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
            leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
            positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
            yield Sample(op, name_of(op), index, leaves, spec, positions)


def first_sample(op: Any, dtype: torch.dtype) -> Sample | None:
    """The first sample for a data type; None where this build can't make one."""
    return next(samples_of(op, dtype), None)


def move(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy of a tensor on a device."""
    return tensor.clone().to(device)


def fingerprint(sample: Sample) -> str:
    """What a sample is made of, shortened: releases of PyTorch give different ones under the same name."""
    parts = [
        f"{leaf.dtype} {tuple(leaf.shape)} {leaf.layout}" if isinstance(leaf, torch.Tensor) else repr(leaf)
        for leaf in sample.leaves
    ]
    return hashlib.sha256(re.sub(r" at 0x\w+", "", f"{sample.spec} {parts}").encode()).hexdigest()[:8]


def placements(count: int, devices: int = 2) -> list[str]:
    """All on device 0; each in turn on the host and on device 1; each in turn alone on device 0."""
    found = ["0" * count]
    for i in range(count):
        for letter in "h1" if devices > 1 else "h":
            found.append("0" * i + letter + "0" * (count - i - 1))
    if count > 1:
        found += ["h" * i + "0" + "h" * (count - i - 1) for i in range(count)]
    return list(dict.fromkeys(found))[:16] if count else [""]


def devices_of(result: Any) -> str:
    """The devices of the tensors in a result, in order."""
    leaves, _ = tree_flatten(result)
    return " ".join(str(leaf.device) for leaf in leaves if isinstance(leaf, torch.Tensor))


def _judge(sample: Sample, place: Callable[[torch.Tensor, str], torch.Tensor], placement: str) -> Outcome:
    try:
        return devices_of(sample.call(place, placement))
    except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException):
        return None
    except Exception:
        return "error"


def on_virtual(sample: Sample, wanted: Iterable[str]) -> dict[str, Outcome]:
    """What virtual CUDA does, by placement."""
    found = {}
    with virtual_cuda(2):  # once for all: to enter it looks through every module
        for placement in wanted:
            torch.manual_seed(0)
            found[placement] = _judge(sample, move, placement)
    return found


def on_fake(sample: Sample, placement: str) -> Outcome:
    """What FakeTensorMode says. None where it would have to know values."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode(shape_env=ShapeEnv()) as mode:

        def place(tensor: torch.Tensor, device: str) -> torch.Tensor:
            if tensor.layout is not torch.strided:
                return mode.from_tensor(tensor).to(device)
            made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)
            for flag in ("conj", "neg"):
                if getattr(tensor, f"is_{flag}")():
                    made = getattr(made, flag)() if flag == "conj" else torch._neg_view(made)
            return made

        try:
            return devices_of(sample.call(place, placement))
        except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException):
            return None
        except Exception as error:
            text = f"{type(error).__name__} {error}"
            if any(
                word in text for word in ("GuardOnDataDependent", "data-dependent", "NotImplementedError", "FakeTensor")
            ):
                return "error" if "device" in text else None
            return "error"


@cache
def native_functions() -> list[tuple[str, str, str]]:
    """(name, overload, entry) of each operator in the wheel's native_functions.yaml."""
    found = importlib.util.find_spec("torchgen")
    assert found is not None
    assert found.origin is not None
    text = (Path(found.origin).parent / "packaged/ATen/native/native_functions.yaml").read_text()
    entries = []
    for entry in re.split(r"^- func: ", text, flags=re.M)[1:]:
        match = re.match(r"(\w+)(?:\.(\w+))?\(", entry)
        assert match is not None
        entries.append((match[1], match[2] or "", entry))
    return entries


@cache
def checked_kernels() -> frozenset[str]:
    """Operators, and their wrappers, with a CUDA kernel whose generated wrapper checks its operands' devices, of any dimension.

    The wrapper checks all unless the entry says `device_check: NoCheck` (torchgen/dest/register_dispatch_key.py);
    the check knows no exception for 0-dim tensors (ATen/core/op_registration/adaption.h).
    """
    return frozenset(
        form
        for name, overload, entry in native_functions()
        if ("CUDA" in entry or "structured_delegate" in entry) and "device_check: NoCheck" not in entry
        for form in (name, f"{overload}_{name}", f"{name}_{overload}")
    )


def refusal(sample: Sample, placement: str) -> str:
    """The text of virtual CUDA's error; empty where it accepts."""
    torch.manual_seed(0)
    with virtual_cuda(2):
        try:
            sample.call(move, placement)
        except Exception as error:
            return str(error)
    return ""


def is_generated_check(text: str) -> bool:
    """Whether an error is one that PyTorch generates for that CUDA kernel, by native_functions.yaml."""
    if re.search(r"Input type .* and (weight|bias) type .* should be the same", text):
        return True  # a convolution's own check, before its backend's
    method = re.search(r"wrapper_CUDA_(\w+)\)", text)
    # `convolution` is written in terms of its backends' kernels.
    return method is not None and method[1].replace("convolution", "cudnn_convolution") in checked_kernels()


def operands(sample: Sample) -> list[torch.Tensor]:
    """The tensors of a sample, in the order of a placement's letters."""
    return [sample.leaves[position] for position in sample.positions]


def unchecked_operands(sample: Sample, fake: Callable[[str], Outcome]) -> set[int]:
    """Operands whose device FakeTensorMode does not look at: it takes them from the host and from either device.

    Only operands with elements are asked about. A 0-dim tensor is taken from the host whatever the operator, but not
    from the other device.
    """
    everywhere = "0" * len(sample.positions)
    found = set()
    for i, tensor in enumerate(operands(sample)):
        moved = [everywhere[:i] + letter + everywhere[i + 1 :] for letter in "h1"]
        if tensor.numel() and all(fake(placement) not in (None, "error") for placement in moved):
            found.add(i)
    return found


def blind_spot(sample: Sample, placement: str, fake: Callable[[str], Outcome]) -> str:
    """Why FakeTensorMode's acceptance of this placement says nothing; empty where it does say something."""
    tensors = list(enumerate(zip(operands(sample), placement, strict=True)))
    unchecked = unchecked_operands(sample, fake)
    held = [(i, letter) for i, (tensor, letter) in tensors if tensor.numel()]
    if len({letter for _, letter in held}) > 1 and len({letter for i, letter in held if i not in unchecked}) < 2:
        return UNCHECKED
    # It takes 0-dim host tensors whatever the operator: the same tensor on the other device is refused.
    moved = "".join("1" if tensor.dim() == 0 and letter == "h" else letter for _, (tensor, letter) in tensors)
    whole = {letter for _, (tensor, letter) in tensors if tensor.dim() and tensor.numel()}
    if len(whole) < 2 and moved != placement and fake(moved) == "error":
        return NUMBERS
    return ""


UNCHECKED = "FakeTensorMode does not look at these operands' devices"
NUMBERS = "FakeTensorMode takes a 0-dim host tensor in any operator"


def _refused(*names: str) -> Callable[[Case, Outcome, Outcome], bool]:
    return lambda case, fake, virtual: case.op in names and virtual == "error" and "h" in case.placement


def _accepted(*names: str) -> Callable[[Case, Outcome, Outcome], bool]:
    return lambda case, fake, virtual: case.op in names and virtual != "error" and fake == "error"


# Where FakeTensorMode is asked, and departs from CUDA: (a test of the case; why, and how it is known).
REASONS: list[tuple[Callable[[Case, Outcome, Outcome], bool], str]] = [
    (
        _refused("logical_and", "logical_or", "logical_xor", "nn.functional.soft_margin_loss"),
        "the C++ makes the result where the first operand is (the host), and TensorIterator refuses a host output "
        "(run on meta: torch.add(meta, meta, out=host))",
    ),
    (
        _refused("nn.functional.binary_cross_entropy_with_logits", "linalg.pinv"),
        "the C++ (run as it is) gives the 0-dim host tensor, or its result, a dimension before it mixes",
    ),
    (
        _refused("index_fill"),
        "index_fill_ writes into the host tensor, which TensorIterator refuses "
        "(a GPU did: tests/data/cuda_truth.json.gz)",
    ),
    (
        _refused("nn.functional.binary_cross_entropy", "nn.functional.mse_loss", "nn.functional.smooth_l1_loss"),
        "its TensorIterator takes no numbers (a GPU refused them: tests/data/cuda_truth.json.gz)",
    ),
    (
        _accepted("select_scatter", "as_strided_scatter", "diagonal_scatter"),
        "the C++ (run as it is; no kernel of its own on CUDA) is a copy_ into a clone, from any device",
    ),
    (
        _accepted("_unsafe_masked_index"),
        "the C++ (run as it is; no kernel of its own on CUDA) indexes, and indices may be on the host",
    ),
    (
        lambda case, fake, virtual: case.op == "_unsafe_masked_index_put_accumulate" and virtual == "error",
        "the C++ (run as it is; no kernel of its own on CUDA) adds the values into the first operand by index; "
        "FakeTensorMode (2.15) does not look at that operand's device",
    ),
    (
        _accepted("nn.functional.bilinear"),
        "_trilinear's C++ (run as it is; no kernel of its own on CUDA) multiplies nothing where an input is empty",
    ),
    (
        _accepted("linspace.tensor_overload", "logspace.tensor_overload"),
        "the C++ (no kernel of its own on CUDA) reads both tensors with item(), from any device",
    ),
]


def reason(case: Case, fake: Outcome, virtual: Outcome) -> str:
    """Why two outcomes differ, as far as is known; empty where it isn't."""
    return next((text for test, text in REASONS if test(case, fake, virtual)), "")


Difference = tuple[Case, Outcome, Outcome, str]


@dataclass
class Comparison:
    """The outcome of a whole run. The last item of a difference is its reason."""

    compared: int = 0
    agreed: int = 0
    disagreements: list[Difference] = field(default_factory=list)
    # Refused by us; accepted by FakeTensorMode, but for want of a check.
    set_aside: list[Difference] = field(default_factory=list)
    # By operator: cases that depend on values.
    unknown: Counter[str] = field(default_factory=Counter)

    @property
    def raw(self) -> float:
        """Agreement over all cases."""
        return self.agreed / max(self.compared, 1)

    @property
    def checked(self) -> float:
        """Agreement over the cases whose operands FakeTensorMode looks at; its blanket rule for 0-dim tensors counts."""
        unchecked = sum(1 for *_, why in self.set_aside if why == UNCHECKED)
        return self.agreed / max(self.compared - unchecked, 1)

    @property
    def answerable(self) -> float:
        """Agreement over the cases that FakeTensorMode can be asked about."""
        return self.agreed / max(self.compared - len(self.set_aside), 1)


def compare(limit: int, only: Collection[str] | None = None) -> Comparison:
    """All cases, virtual CUDA against FakeTensorMode."""
    result = Comparison()
    for sample in samples(limit, only):
        fake = cache(partial(on_fake, sample))
        # Where the oracle fails with all on one device, it fails for want of values, not over devices.
        answers = fake("0" * len(sample.positions)) not in (None, "error")
        said = {placement: fake(placement) if answers else None for placement in placements(len(sample.positions))}
        asked = [placement for placement in said if said[placement] is not None]
        if len(asked) < len(said):
            result.unknown[sample.name] += len(said) - len(asked)
        for placement, virtual in on_virtual(sample, asked).items():
            case, expected = Case(sample.name, sample.index, placement), said[placement]
            result.compared += 1
            if expected == virtual:
                result.agreed += 1
                continue
            blind = blind_spot(sample, placement, fake) if virtual == "error" else ""
            if blind and is_generated_check(refusal(sample, placement)):
                result.set_aside.append((case, expected, virtual, blind))
            else:
                result.disagreements.append((case, expected, virtual, reason(case, expected, virtual)))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--op", help="one operator only")
    parser.add_argument("--json", type=Path, help="write the disagreements there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = compare(options.samples, options.op and [options.op])
    print_differences(found.set_aside, "set aside")
    print_differences(found.disagreements, "disagreements")
    if options.json:
        rows = [[c.key, fake, virtual, why] for c, fake, virtual, why in found.disagreements + found.set_aside]
        options.json.write_text(json.dumps(rows, indent=0))
    by_operator = ", ".join(f"{name} {count}" for name, count in found.unknown.most_common())
    aside = Counter(why for *_, why in found.set_aside)
    print(f"\n{found.unknown.total()} cases depend on values, which FakeTensorMode lacks: {by_operator}")
    print(
        f"\n{found.compared} cases compared, {len(found.disagreements)} disagreements, {len(found.set_aside)} set aside"
    )
    print(f"agreement over all: {found.raw:.2%}")
    print(f"without {aside[UNCHECKED]} whose operands FakeTensorMode does not look at: {found.checked:.2%}")
    print(f"without {aside[NUMBERS]} more that its rule for 0-dim tensors hides (answerable): {found.answerable:.2%}")
    unexplained = [row for row in found.disagreements if not row[3]]
    return int(bool(unexplained) or (found.answerable < 0.99 and options.op is None))


def print_differences(differences: list[Difference], title: str) -> None:
    """By reason, then by operator and placement, the most frequent first."""
    by_reason: dict[str, Counter[str]] = defaultdict(Counter)
    for case, fake, virtual, why in differences:
        text = f"{case.op} [{case.placement}]: FakeTensorMode {fake or '-'}, virtual CUDA {virtual or '-'}"
        by_reason[why or "unexplained"][text] += 1
    for why, counts in sorted(by_reason.items(), key=lambda item: -item[1].total()):
        print(f"\n{title}: {counts.total()} x {why}")
        for text, count in counts.most_common():
            print(f"  {count:4} {text}")


if __name__ == "__main__":
    sys.exit(main())
