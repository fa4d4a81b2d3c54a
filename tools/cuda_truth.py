"""Writes tests/data/cuda_truth.json.gz: what a real GPU does, for tests to hold virtual CUDA and the linter's tables against.

    PYTHONPATH=. python tools/cuda_truth.py [--out FILE] [--jobs N] [--seconds S]     # on a machine with a GPU

`calls` are the samples of PyTorch's operator database, their tensors on the host and on the device in turn: the devices of the
results, or the error, and how many waits PyTorch tells of (`benchmarks/real_cuda.py`). `dtypes` are the data types that an operator computes on the
device. `programs` are random programs (tests/random_programs): the lines that a device error went through. `waits` are the
expressions of `benchmarks/cuda_waits.py`. Beside it, `records.pickle` is what the trials of `operator_facts.py` came to on the GPU.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import pickle
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import operator_facts
import torch
from operator_calls import waiting_methods
from operator_trials import Call, Record

from benchmarks import cuda_waits, fidelity, real_cuda
from benchmarks.cuda_truth import SAMPLES, TRUTH, mark_of
from tests.random_programs.programs import draw
from tests.random_programs.truth import NAME, run

PROGRAMS = 2_000
DTYPES = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 bool complex64 complex128".split()  # noqa: SIM905 - names
Job = tuple[str, Callable[[], Any]]


def jobs() -> Iterator[Job]:
    """All that is tried, each under a name that says which part it belongs to."""
    for sample in fidelity.samples(SAMPLES):
        yield f"calls {sample.name}/{sample.index}", partial(placed, sample)
    for op in fidelity.op_db:
        yield f"dtypes {fidelity.name_of(op)}", partial(by_dtype, op)
    for seed in range(PROGRAMS):
        yield f"programs {seed}", partial(program, seed)
    for kind, named in operator_facts.trials().items():
        for name, calls in named.items():
            for i, call in enumerate(calls):
                yield f"records {kind} {name} {i}", partial(record, call)


def placed(sample: fidelity.Sample) -> dict[str, Any]:
    """What the call does by placement: the devices of its results, and how many waits PyTorch tells of; or the error."""
    found: dict[str, Any] = {"given": fidelity.fingerprint(sample)}
    for placement in fidelity.placements(len(sample.positions), devices=1):
        torch.manual_seed(0)
        prepared = partial(sample.prepared, fidelity.move, placement)
        try:
            devices = fidelity.devices_of(prepared()())
            torch.cuda.synchronize()
        except Exception as error:
            found[placement] = ["error", cuda_waits.text_of(error)]
            continue
        found[placement] = [devices, real_cuda.told_waits(prepared())]
    return found


def by_dtype(op: Any) -> dict[str, str]:
    """What the operator's first sample of each data type gives on the device: "ok", or the error; without those that can't be made."""
    found = {}
    for name in DTYPES:
        sample = fidelity.first_sample(op, getattr(torch, name))
        if sample is None:
            continue
        try:
            sample.call(fidelity.move, "0" * len(sample.positions))
            torch.cuda.synchronize()
        except Exception as error:
            found[name] = cuda_waits.text_of(error)
        else:
            found[name] = "ok"
    return found


def record(call: Call) -> str:
    """What a call comes to, as text."""
    return base64.b64encode(pickle.dumps(operator_facts.tried(call.name, [call], real_cuda.waits))).decode()


def program(seed: int) -> dict[str, Any]:
    """The lines of a random program that a device error went through, those of the traceback that ended it, and the waits by line."""
    text, flags = draw(Random(seed))
    with warnings.catch_warnings(record=True) as found, real_cuda.telling_waits():
        ran = run(text, flags, warned="always")
    waits = Counter(w.lineno if w.filename == NAME else 0 for w in found if "synchronizing CUDA" in str(w.message))
    result: dict[str, Any] = {"text": mark_of(text)}
    result |= {
        "crash": ran.crash,
        "raised": sorted(ran.raised),
        "error": cuda_waits.text_of(ran.error) if ran.error else "",
    }
    return result | {"waits": sorted(waits.items())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=TRUTH)
    parser.add_argument("--jobs", type=int, default=8, help="processes")
    parser.add_argument("--seconds", type=float, default=300, help="what isn't done by then is left out")
    parser.add_argument("--only", default="", help="names of jobs that begin so")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--lines", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not torch.cuda.is_available():
        print("cuda_truth: needs a real CUDA device", file=sys.stderr)
        return 2
    if options.part:
        number, of = map(int, options.part.split("/"))
        torch.set_num_threads(1)
        real_cuda.do((job for job in jobs() if job[0].startswith(options.only)), (number, of), options.lines)
        return 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [__file__, "--only", options.only]
        found = real_cuda.share(command, options.jobs, Path(folder), options.seconds)
    parts: dict[str, dict[str, Any]] = {"calls": {}, "dtypes": {}, "programs": {}, "records": {}}
    for key, result in sorted(found.items()):
        part, _, name = key.partition(" ")
        parts[part][name] = result
    _write_records(parts.pop("records"), options.out.parent / "records.pickle")
    # Alone, for other processes' work would be waited for too.
    told = {"torch": str(torch.__version__), "device": torch.cuda.get_device_name(), "waits": cuda_waits.measured()}
    text = json.dumps(told | parts, separators=(",", ":"), sort_keys=True)
    options.out.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(", ".join(f"{len(part)} {name}" for name, part in parts.items()), f"written to {options.out}")
    return 0


def _write_records(records: dict[str, Any], path: Path) -> None:
    found: dict[str, operator_facts.Records] = {kind: {} for kind in operator_facts.KINDS}
    for key, text in records.items():
        kind, name, _ = key.split(" ")
        if text is not None:
            found[kind].setdefault(name, Record(name)).add(pickle.loads(base64.b64decode(text)))
    lost = [key for key, text in records.items() if text is None]
    made = {"factories": operator_facts.factories(), "constructors": operator_facts.constructors()}
    waiting = set(waiting_methods(real_cuda.waits))
    path.write_bytes(pickle.dumps({"records": found, "lost": lost, "waiting": waiting} | made))


if __name__ == "__main__":
    sys.exit(main())
