"""How faithful virtual CUDA is: operator by operator, placement by placement, against an oracle.

    python benchmarks/fidelity.py [--samples N] [--op NAME] [--json FILE]
    python benchmarks/fidelity.py --record          # on a machine with a GPU

Takes the samples of PyTorch's own operator database (`op_db`), puts their tensors on the host, on device 0 and on
device 1 in turn, and compares what happens (an error, or the devices of the results) under virtual CUDA with what
`FakeTensorMode` says, which knows devices but no values. Each disagreement is listed with a reason where one is known.

`--record` runs the same cases on real CUDA and writes the outcomes to tests/data/cuda_truth.json.gz; a test compares
virtual CUDA with that file wherever it is run.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import sys
import types
import unittest
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
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

TRUTH = Path(__file__).parent.parent / "tests" / "data" / "cuda_truth.json.gz"
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
        leaves = list(self.leaves)
        for position, letter in zip(self.positions, placement, strict=True):
            leaves[position] = place(leaves[position], PLACES[letter])
        given, args, kwargs = tree_unflatten(leaves, self.spec)
        return self.op(given, *args, **kwargs)


def samples(limit: int, only: Collection[str] | None = None) -> Iterator[Sample]:
    """Up to `limit` samples of each operator, float32 where it takes that."""
    for op in op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if name == "as_strided.partial_views":  # needs the storage around the tensor, which a placed copy lacks
            continue
        if only is not None and not {op.name, name} & set(only):
            continue
        dtypes = op.supported_dtypes("cpu")
        if not dtypes:  # CUDA only: no values for it here
            continue
        dtype = torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]
        torch.manual_seed(0)
        found = op.sample_inputs("cpu", dtype, requires_grad=False)
        for index in range(limit):
            try:
                sample = next(found)
            except StopIteration:
                break
            except Exception:  # a sample that this build can't make
                break
            leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
            positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
            yield Sample(op, name, index, leaves, spec, positions)


def placements(count: int, devices: int = 2) -> list[str]:
    """All on device 0; each in turn on the host and on device 1; each in turn alone on device 0."""
    found = ["0" * count]
    for i in range(count):
        for letter in "h1" if devices > 1 else "h":
            found.append("0" * i + letter + "0" * (count - i - 1))
    if count > 1:
        found += ["h" * i + "0" + "h" * (count - i - 1) for i in range(count)]
    return list(dict.fromkeys(found))[:16] if count else [""]


def _devices(result: Any) -> str:
    leaves, _ = tree_flatten(result)
    return " ".join(str(leaf.device) for leaf in leaves if isinstance(leaf, torch.Tensor))


def _judge(sample: Sample, place: Callable[[torch.Tensor, str], torch.Tensor], placement: str) -> Outcome:
    try:
        return _devices(sample.call(place, placement))
    except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException):
        return None
    except Exception:
        return "error"


def on_virtual(sample: Sample, placement: str) -> Outcome:
    """What virtual CUDA does."""
    torch.manual_seed(0)
    with virtual_cuda(2):
        return _judge(sample, lambda tensor, device: tensor.clone().to(device), placement)


def on_real(sample: Sample, placement: str) -> Outcome:
    """What CUDA does."""
    torch.manual_seed(0)
    return _judge(sample, lambda tensor, device: tensor.clone().to(device), placement)


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
            return _devices(sample.call(place, placement))
        except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException):
            return None
        except Exception as error:
            text = f"{type(error).__name__} {error}"
            if any(
                word in text for word in ("GuardOnDataDependent", "data-dependent", "NotImplementedError", "FakeTensor")
            ):
                return "error" if "device" in text else None
            return "error"


def _number_on_the_host(case: Case, sample: Sample) -> bool:
    leaves = (sample.leaves[position] for position in sample.positions)
    return any(leaf.dim() == 0 and letter == "h" for leaf, letter in zip(leaves, case.placement, strict=True))


def _empty_or_number(sample: Sample) -> bool:
    leaves = [sample.leaves[position] for position in sample.positions]
    return any(leaf.dim() == 0 or leaf.numel() == 0 for leaf in leaves)


def _mixed(case: Case) -> bool:
    return len(set(case.placement)) > 1


# Cases in which FakeTensorMode departs from CUDA: (a test of the case, FakeTensorMode's outcome, ours; why).
# CUDA's side is read from native_functions.yaml (which kernels check devices) and from ATen's sources.
REASONS: list[tuple[Callable[[Case, Outcome, Outcome, Sample], bool], str]] = [
    (
        lambda case, fake, virtual, sample: "conv" in case.op and virtual == "error" and _mixed(case),
        "FakeTensorMode does not check a convolution's operands; CUDA does (check_input_same_type_as_parameters)",
    ),
    (
        lambda case, fake, virtual, sample: (
            fake != "error" and virtual == "error" and _number_on_the_host(case, sample)
        ),
        "FakeTensorMode takes any 0-dim host tensor as a number; this CUDA kernel checks its operands' devices",
    ),
    (
        lambda case, fake, virtual, sample: case.op == "masked_select" and virtual == "error" and _mixed(case),
        "FakeTensorMode does not check masked_select's mask; CUDA's kernel does",
    ),
    (
        lambda case, fake, virtual, sample: case.op == "tensor_split" and case.placement == "0h",
        "tensor_split reads its indices on the host and wants them there; FakeTensorMode cannot read them",
    ),
    (
        lambda case, fake, virtual, sample: case.op.startswith(("linspace", "logspace")) and virtual == "cpu",
        "the tensors are read as numbers, from any device; the result is on the default device",
    ),
    (
        lambda case, fake, virtual, sample: "linear_cross_entropy" in case.op and virtual == "error" and _mixed(case),
        "a custom operator, whose fake implementation computes shapes only",
    ),
    (
        lambda case, fake, virtual, sample: fake == "error" and virtual != "error" and _empty_or_number(sample),
        "the operator's C++ takes a way of its own for empty or 0-dim operands, which FakeTensorMode does not go",
    ),
    (
        lambda case, fake, virtual, sample: case.op in ("select_scatter", "as_strided_scatter") and fake == "error",
        "written as a copy_ into a clone, which takes data from any device",
    ),
    (
        lambda case, fake, virtual, sample: case.op == "native_dropout_backward" and _mixed(case),
        "FakeTensorMode decomposes it with type_as, which moves; CUDA's kernel checks its operands",
    ),
]


def reason(case: Case, fake: Outcome, virtual: Outcome, sample: Sample) -> str:
    """Why two outcomes differ, as far as is known; empty where it isn't."""
    for test, text in REASONS:
        if test(case, fake, virtual, sample):
            return text
    return ""


@dataclass
class Comparison:
    """The outcome of a whole run."""

    compared: int
    agreed: int
    unknown: int
    disagreements: list[tuple[Case, Outcome, Outcome, str]]

    @property
    def raw(self) -> float:
        """Agreement over all cases."""
        return self.agreed / max(self.compared, 1)

    @property
    def agreement(self) -> float:
        """Agreement apart from the cases in which the oracle is known to depart from CUDA."""
        explained = sum(1 for *_, why in self.disagreements if why)
        return self.agreed / max(self.compared - explained, 1)


def compare(limit: int, only: str | None = None) -> Comparison:
    """All cases, virtual CUDA against FakeTensorMode."""
    result = Comparison(0, 0, 0, [])
    for sample in samples(limit, None if only is None else [only]):
        # Where the oracle fails with all on one device, it fails for want of values, not over devices.
        answerable = on_fake(sample, "0" * len(sample.positions)) not in (None, "error")
        for placement in placements(len(sample.positions)):
            case = Case(sample.name, sample.index, placement)
            if not answerable:
                result.unknown += 1
                continue
            fake, virtual = on_fake(sample, placement), on_virtual(sample, placement)
            if fake is None:
                result.unknown += 1
                continue
            result.compared += 1
            if fake == virtual:
                result.agreed += 1
            else:
                result.disagreements.append((case, fake, virtual, reason(case, fake, virtual, sample)))
    return result


def record(limit: int) -> dict[str, Any]:
    """The truth: what real CUDA does."""
    devices = min(torch.cuda.device_count(), 2)
    outcomes = {}
    for sample in samples(limit):
        for placement in placements(len(sample.positions), devices):
            outcomes[Case(sample.name, sample.index, placement).key] = on_real(sample, placement)
    return {
        "torch": str(torch.__version__),
        "device": torch.cuda.get_device_name(),
        "devices": devices,
        "samples": limit,
        "outcomes": outcomes,
    }


def against_truth(truth: dict[str, Any]) -> list[tuple[str, Outcome, Outcome]]:
    """Cases in which virtual CUDA differs from recorded CUDA: (case, CUDA's outcome, ours)."""
    found = []
    operators = {key.split("/")[0] for key in truth["outcomes"]}
    for sample in samples(truth["samples"], operators):
        for placement in placements(len(sample.positions), truth["devices"]):
            key = Case(sample.name, sample.index, placement).key
            if key in truth["outcomes"]:
                virtual = on_virtual(sample, placement)
                if virtual != truth["outcomes"][key]:
                    found.append((key, truth["outcomes"][key], virtual))
    return found


def read_truth(path: Path = TRUTH) -> dict[str, Any]:
    """Reads a recorded file."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        data: dict[str, Any] = json.load(stream)
        return data


def write_truth(data: dict[str, Any], path: Path = TRUTH) -> None:
    """Writes it; the same data give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":"), sort_keys=True).encode(), mtime=0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--op", help="one operator only")
    parser.add_argument("--json", type=Path, help="write the disagreements there")
    parser.add_argument("--record", action="store_true", help="run on real CUDA, write the truth file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.record:
        if not torch.cuda.is_available():
            print("fidelity: --record needs a real CUDA device", file=sys.stderr)
            return 2
        write_truth(record(options.samples))
        print(f"written to {TRUTH}")
        return 0
    found = compare(options.samples, options.op)
    by_reason: dict[str, Counter[str]] = defaultdict(Counter)
    for case, fake, virtual, why in found.disagreements:
        by_reason[why or "unexplained"][
            f"{case.op} [{case.placement}]: FakeTensorMode {fake or '-'}, virtual CUDA {virtual or '-'}"
        ] += 1
    for why, counts in sorted(by_reason.items(), key=lambda item: -sum(item[1].values())):
        print(f"\n{sum(counts.values())} x {why}")
        for text, count in counts.most_common():
            print(f"  {count:4} {text}")
    if options.json:
        rows = [[c.key, fake, virtual, why] for c, fake, virtual, why in found.disagreements]
        options.json.write_text(json.dumps(rows, indent=0))
    print(
        f"\n{found.compared} cases compared ({found.unknown} more depend on values, which FakeTensorMode lacks): "
        f"agreement {found.raw:.2%}; {found.agreement:.2%} apart from those where FakeTensorMode departs from CUDA"
    )
    return int(found.agreement < 0.99 and options.op is None)


if __name__ == "__main__":
    sys.exit(main())
