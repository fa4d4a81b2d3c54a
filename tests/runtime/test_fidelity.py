"""Virtual CUDA against its oracles, one sample an operator; benchmarks/fidelity.py takes more and lists them."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

import pytest

from benchmarks import fidelity
from devlint.runtime.virtual.device_checks import CHECKED_ITERATORS, NO_NUMBERS, ONE_NUMBER, UNTAGGED_ITERATORS

# Where FakeTensorMode looks at no operand's device; where its rule for 0-dim tensors hides a check; where any
# placement is right; and where mixed operands are refused by both.
UNCHECKED = {"masked_select", "native_dropout_backward"}
CONVOLUTIONS = {"nn.functional.conv1d", "nn.functional.conv_transpose2d"}  # looked at from 2.15 on
NUMBERS = {"logaddexp", "complex"}
ANYWHERE = {"type_as", "index_put", "fill", "copysign", "to", "__getitem__", "slice_scatter"}
REFUSED = {"add", "mul", "matmul", "cat", "gather", "nn.functional.linear"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_fake_tensors_where_they_can_be_asked():
    found = fidelity.compare(1)
    assert [row for row in found.disagreements if not row[3]] == []
    assert found.compared == found.agreed + len(found.disagreements) + len(found.set_aside)
    assert found.compared > 2000
    assert found.answerable >= 0.99


@pytest.mark.filterwarnings("ignore")
def test_only_refusals_of_really_mixed_operands_are_set_aside():
    found = fidelity.compare(1, UNCHECKED | CONVOLUTIONS | NUMBERS | ANYWHERE | REFUSED)
    assert all((fake != "error", virtual) == (True, "error") for _, fake, virtual, _ in found.set_aside)
    assert all(len(set(case.placement)) > 1 for case, *_ in found.set_aside)
    aside = {why: {case.op for case, _, _, found in found.set_aside if found == why} for *_, why in found.set_aside}
    unlooked = {
        sample.name
        for sample in fidelity.samples(1, CONVOLUTIONS)
        if fidelity.unchecked_operands(sample, partial(fidelity.on_fake, sample))
    }
    assert aside == {fidelity.UNCHECKED: UNCHECKED | unlooked, fidelity.NUMBERS: NUMBERS}


def test_native_functions_say_which_kernels_check():
    text = "(when checking argument in method wrapper_CUDA_{})"
    assert fidelity.is_generated_check(text.format("masked_select"))
    assert fidelity.is_generated_check(text.format("logaddexp"))
    assert not fidelity.is_generated_check(text.format("mul"))
    assert not fidelity.is_generated_check("found at least two devices, cuda:0 and cpu!")


def test_numbers_are_taken_as_tensor_iterator_takes_them():
    """The C++ structured kernels on `meta`, without PyTorch's Python versions of them."""
    program = """
import sys, types
sys.modules["torch._meta_registrations"] = types.ModuleType("torch._meta_registrations")
import torch
number, whole = torch.tensor(0.5), torch.ones(5, device="meta")
for name in ("addcdiv", "addcmul", "lerp", "add", "atan2", "xlogy"):
    operator = getattr(torch, name)
    said = []
    for numbers in (1, 2):
        operands = 2 if name in ("add", "atan2", "xlogy") else 3
        if numbers < operands:
            try:
                operator(*[whole] * (operands - numbers), *[number] * numbers)
                said.append("ok")
            except RuntimeError as error:
                said.append(str(error).split(" to ")[0])
    print(name, *said, sep=";")
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    rows = {name: said for name, *said in (line.split(";") for line in printed.splitlines())}
    assert {name for name, said in rows.items() if said[0] != "ok"} == {n for n in NO_NUMBERS if n in rows}
    one = {name for name, said in rows.items() if said[1:] == ["Trying"]}
    assert one == {n for n in ONE_NUMBER if n[-1] != "_"}


def test_device_checks_are_those_of_this_release():
    """The tables are what native_functions.yaml says, for operators that take two tensors or more."""
    unchecked, checked, names = set(), set(), set()
    for name, overload, entry in fidelity.native_functions():
        parameters = entry.split(" -> ")[0]
        kernels = "CUDA" in entry or "structured_delegate" in entry
        if len(re.findall(r"Tensor", parameters)) < 2 or not kernels or overload.endswith("out"):
            continue
        names.add(name)
        free = "device_check: NoCheck" in entry
        pointwise = bool(re.search(r"tags:.*pointwise", entry))
        if free and not pointwise:
            unchecked.add(name)
        elif pointwise and not free:
            checked.add(name)
    assert unchecked >= UNTAGGED_ITERATORS & names
    assert checked >= CHECKED_ITERATORS & names
