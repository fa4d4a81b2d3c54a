"""Random programs, run under virtual CUDA: no certain finding is refuted, and most of the programs that crash are named.

500 in the usual run, 20,000 with `-m slow`. `python -m benchmarks.random_programs` runs as many as one likes, counts, and
writes what is wrong as small programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

pytest.importorskip("torch")


from devlint.findings import Edit, Finding, Fix, Note, Span
from devlint.runtime import virtual_cuda
from tests.random_programs.programs import FLAGS, draw
from tests.random_programs.shrinking import shrink
from tests.random_programs.truth import run
from tests.random_programs.verdict import FILE, Verdict, judge, measured, ran_through, small_refutation

# The share of the programs that crash in which a finding has to name the crash: it is about 0.89 over thousands.
FOUND = 0.85


@pytest.fixture(autouse=True)
def _two_devices() -> Iterator[None]:
    with virtual_cuda(2):
        yield


@pytest.mark.parametrize(
    "count",
    [100, pytest.param(500, marks=pytest.mark.slow), pytest.param(20_000, marks=pytest.mark.exhaustive)],
)
def test_no_certain_finding_is_refuted_and_most_crashes_are_found(count: int) -> None:
    outcomes: Counter[str] = Counter()
    refuted: list[Verdict] = []
    # Seeds and not hypothesis' own draws: those hang on the constants of all modules that were imported by then, so that
    # the same test drew other programs behind other tests. What is found is made small by cutting statements.
    for seed in range(count):
        text, flags = draw(Random(seed))
        verdict = judge(text, flags)
        outcomes.update(crashed=verdict.crashed, missed=verdict.missed, broken=verdict.run.broken is not None)
        if verdict.refuted:
            refuted.append(verdict)
    assert not refuted, f"{len(refuted)} programs, for one\n{_told(refuted[0])}"
    # The programs are worth running: enough of them crash, and for no other reason than places.
    assert outcomes["crashed"] > count / 5
    assert outcomes["broken"] < count / 20
    assert outcomes["missed"] <= (1 - FOUND) * outcomes["crashed"], outcomes


def _told(verdict: Verdict) -> str:
    code = verdict.refuted[0].code
    small = small_refutation(verdict.text, verdict.flags, code)
    told = judge(small, verdict.flags).refuted[0]
    return (
        f"{small}line {told.span.line}: {code} {told.message}\nbut it runs, with {sorted(verdict.flags) or 'no flags'}"
    )


# The truth that findings are measured against


def test_a_run_knows_the_line_that_raised_and_those_that_led_to_it() -> None:
    text = "import torch\n\ndef f(x):\n    return x + torch.ones(2)\n\nf(torch.ones(2).cuda())\n"
    assert run(text).crash == (4, 6)


def test_an_error_that_is_caught_still_counts_for_its_line() -> None:
    text = "import torch\ntry:\n    torch.ones(2).cuda() + torch.ones(2)\nexcept RuntimeError:\n    pass\n"
    assert (run(text).crash, run(text).raised) == ((), {3})


def test_a_line_ran_through_when_all_its_code_ran() -> None:
    text = "import torch\nf = lambda x: x + 1\ng = lambda x: x + 1\nf(torch.ones(2))\n"
    assert [line for line in (1, 2, 3, 4) if ran_through(run(text), text, line)] == [1, 2, 4]


@pytest.mark.parametrize("flag", sorted(FLAGS))
def test_each_flag_is_set_by_itself(flag: str) -> None:
    head = "import os, sys\n" + "\n".join(f"{name} = {test}" for name, test in FLAGS.items())
    checks = "\n".join(f"assert {name} is {name == flag}" for name in FLAGS)
    assert run(f"{head}\n{checks}\n", frozenset({flag})).error is None


def test_shrinking_keeps_what_is_asked_for() -> None:
    text = "import torch\nif True:\n    x = torch.ones(2) * 2\n    y = x.cuda()\nprint(1)\n"
    assert shrink(text, lambda candidate: "cuda" in candidate) == "y = x.cuda\n"


def test_a_program_that_does_not_end_is_ended() -> None:
    assert run("while True:\n    pass\n").broken is not None


def test_a_seed_gives_one_program() -> None:
    assert draw(Random(3)) == draw(Random(3)) != draw(Random(4))


# How findings are measured against it. Each text must hold for any engine.

_MIXED = "import sys\n\nimport torch\n\nFAST = '--fast' in sys.argv\nx = torch.ones(4)\n{}y = x + torch.ones(4, device='cuda')\n"


def test_a_finding_about_a_path_that_was_not_taken_is_confirmed_by_taking_it() -> None:
    text = _MIXED.format("if not FAST:\n    x = x.cuda()\n")
    finding = Finding("DEV201", "cross-device-op", "", FILE, Span(9, 5, 9, 6), "certain")
    assert measured(text, frozenset(), [finding]).confirmed == (finding,)


def test_a_finding_that_fails_on_no_path_is_refuted() -> None:
    text = _MIXED.format("if FAST or True:\n    x = x.cuda()\n")
    finding = Finding("DEV201", "cross-device-op", "", FILE, Span(9, 5, 9, 6), "certain")
    assert measured(text, frozenset(), [finding]).refuted == (finding,)


_CUT_SHORT = """import torch

x = torch.ones(4)
for part in (torch.ones(4), torch.ones(4{})):
    x = x + part
    y = torch.ones(4) + torch.ones(4, device='cuda')
"""


@pytest.mark.parametrize(("more", "is_right"), [(", device='cuda'", True), ("", False)])
def test_a_pass_that_an_error_on_another_line_cut_short_is_looked_at(more: str, is_right: bool) -> None:
    finding = Finding("DEV201", "cross-device-op", "", FILE, Span(5, 5, 5, 6), "certain")
    verdict = measured(_CUT_SHORT.format(more), frozenset(), [finding])
    assert (verdict.confirmed, verdict.refuted) == (((finding,), ()) if is_right else ((), (finding,)))


def test_a_crash_is_named_by_its_line_by_a_note_or_by_a_fix_that_mends_it() -> None:
    text = _MIXED.format("")
    here = Finding("DEV201", "", "", FILE, Span(7, 5, 7, 6), "likely")
    noted = Finding("DEV103", "", "", FILE, Span(1, 1, 1, 2), "likely", (Note("", FILE, 7, 1),))
    mending = Finding(
        "DEV203", "", "", FILE, Span(6, 1, 6, 2), fix=Fix("", "safe", (Edit(Span(6, 17, 6, 17), ", device='cuda'"),))
    )
    other = Finding("DEV105", "", "", FILE, Span(6, 1, 6, 2), "certain")
    found = [here, noted, mending, other]
    assert measured(text, frozenset(), found).naming == [here, noted, mending]
    assert measured(text, frozenset(), [other]).missed
