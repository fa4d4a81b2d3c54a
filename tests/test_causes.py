"""One cause, one finding: what is told together, and what by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from devlint.causes import WAITS
from devlint.engine import Linter
from devlint.files import source_from_bytes
from devlint.findings import Finding
from devlint.fixer import fix
from devlint.rule import load_registry
from devlint.settings import Settings

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def train(dataset, writer, epoch):
    model = nn.Linear(10, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(DataLoader(dataset)):
        error = model(x.cuda()) - y.cuda()
        loss, worst = error.square().mean(), error.abs().max()
        optimizer.zero_grad()
        loss.backward()
"""
FIRST = HEAD.count("\n") + 1


def linter() -> Linter:
    # Selected by their codes, waits at the end of a step are told as well, small tensors, and legacy types wherever a GPU is chosen.
    selected = (*sorted(WAITS), "DEV105", "DEV508", "DEV604")
    return Linter(Settings(root=Path.cwd(), extend_select=selected), load_registry())


def check(text: str) -> list[Finding]:
    return linter().check(source_from_bytes(text.encode(), None, "x.py"))


def of_loop(*body: str) -> list[tuple[int, str, int]]:
    """(line of the loop's rest, code, number of findings that it speaks for) of each finding in it."""
    text = HEAD + "".join(f"        {line}\n" for line in body)
    found = [f for f in check(text) if f.span.line >= FIRST]
    return [(f.span.line - FIRST + 1, f.code, sum(n.message.startswith("DEV") for n in f.notes)) for f in found]


def test_a_statement_that_waits_again_and_again():
    assert of_loop('writer.add({"a": loss.item(), "b": worst.item(), "c": error.sum().item()})') == [(1, "DEV501", 2)]
    assert of_loop('print(f"{loss} {worst.item()}")') == [(1, "DEV503", 1)]


def test_the_head_of_a_block_is_no_part_of_it():
    assert of_loop("if loss > 3 or worst > 4:", "    print(error)") == [(1, "DEV504", 1), (2, "DEV503", 0)]


def test_two_statements_are_two():
    assert of_loop("print(loss)", "print(worst)") == [(1, "DEV503", 0), (2, "DEV503", 0)]
    assert of_loop("print(loss); print(worst)") == [(1, "DEV503", 0), (1, "DEV503", 0)]


def test_what_was_read_before_costs_nothing_new():
    assert of_loop("a = loss.item()", "print(loss)", "b = float(loss.detach())") == [(1, "DEV501", 2)]
    assert of_loop("a = loss.item()", "if epoch:", "    print(loss)") == [(1, "DEV501", 1)]


@pytest.mark.parametrize(
    "between", ["loss = loss * 2", "loss += worst", "loss.mul_(2)", "loss[0] = 1", "loss, b = worst, loss"]
)
def test_what_changed_since_is_read_anew(between):
    assert [row for row in of_loop("a = loss.item()", between, "print(loss)") if row[1] != "DEV505"] == [
        (1, "DEV501", 0),
        (3, "DEV503", 0),
    ]


def test_what_was_read_on_another_way_is_read_anew():
    assert of_loop("if epoch:", "    print(loss)", "print(loss)") == [(2, "DEV503", 0), (3, "DEV503", 0)]
    assert of_loop("if epoch:", "    print(loss)", "else:", "    a = loss.item()") == [
        (2, "DEV503", 0),
        (4, "DEV501", 0),
    ]


def test_a_statement_that_reads_something_new_too_is_told():
    assert of_loop("a = loss.item()", "print(loss, worst)") == [(1, "DEV501", 0), (2, "DEV503", 1)]


def test_a_suppression_of_one_leaves_the_others_told():
    assert of_loop('print(f"{loss} {worst.item()}")  # devlint: ignore[DEV503]') == [(1, "DEV501", 0)]
    assert of_loop('print(f"{loss} {worst.item()}")  # devlint: ignore[DEV501, DEV503]') == []


HOST = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(4, 4).cuda()
for x in DataLoader(torch.ones(8, 4)):
    y = model(x.cuda()) + torch.zeros(64, 4).cuda()
"""


def test_of_two_rules_on_one_expression_the_greater_remedy_speaks():
    every = linter().every_finding(source_from_bytes(HOST.encode(), None, "x.py"))
    assert [f.code for f in every] == ["DEV105", "DEV508"]
    (found,) = check(HOST)
    assert found.code == "DEV508"
    assert found.notes[-1].message.startswith("DEV105: ")


LEFT = """\
import torch
from torch import nn


class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.tensor([0.4, 0.5, 0.6])
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x) - self.mean


net = Normalize().to("cuda")
print(net(torch.ones(2, 3, device="cuda")))
"""


def test_what_was_left_behind_is_told_where_it_was():
    every = linter().every_finding(source_from_bytes(LEFT.encode(), None, "x.py"))
    assert "DEV103" in [f.code for f in every]
    assert [f.code for f in check(LEFT)] == ["DEV103"]


def test_what_one_expression_made_is_told_once_on_a_line():
    found = check(
        "import torch\n"
        "table = torch.rand(9, 2)\n"
        'mask = torch.ones(9, dtype=torch.bool, device="cuda")\n'
        "pairs = torch.cat([table[mask], table[~mask]])\n"
    )
    assert [(f.code, f.span.line, f.span.column) for f in found] == [("DEV205", 4, 20)]
    assert [n.message.partition(":")[0] for n in found[0].notes][-1] == "DEV205"


def test_fixes_of_one_cause_are_applied_once():
    """The buffer mends it: no move where it meets the others is needed any more."""
    source = source_from_bytes(LEFT.encode(), None, "x.py")
    outcome = fix(source, linter(), safety="display")
    assert outcome.source.text == LEFT.replace(
        "self.mean = torch.tensor([0.4, 0.5, 0.6])",
        'self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]), persistent=False)',
    )
    assert outcome.remaining == []


def test_each_fix_of_a_statement_is_applied_though_one_finding_tells_of_it():
    text = HOST.replace("torch.zeros(64, 4).cuda()", "torch.zeros(64, 4).cuda() + torch.ones(64, 4).cuda()")
    outcome = fix(source_from_bytes(text.encode(), None, "x.py"), linter(), safety="safe")
    assert 'torch.zeros(64, 4, device="cuda") + torch.ones(64, 4, device="cuda")' in outcome.source.text


def test_a_legacy_type_behind_a_condition_needs_no_gpu_to_be_there():
    alone = check("import torch\n\nx = torch.cuda.FloatTensor(3)\n")
    guarded = check(
        "import torch\n\n\ndef made(wide):\n    return torch.cuda.FloatTensor(3) if wide else torch.FloatTensor(3)\n"
    )
    assert [f.message.endswith("raises TypeError without one") for f in (*alone, *guarded)] == [True, False]


def test_what_another_remedy_takes_in_waits_for_it():
    """Both tensors go before the loop, in their order; neither is only made in its place."""
    before = HOST.replace(
        "    y = model(x.cuda()) + torch.zeros(64, 4).cuda()\n",
        "    low = torch.zeros(4).cuda()\n    high = torch.ones(4).cuda()\n    y = model(x.cuda()) + low + high\n",
    )
    hoisted = "low = torch.zeros(4).cuda()\nhigh = torch.ones(4).cuda()\nfor x in"
    after = HOST.replace("torch.zeros(64, 4).cuda()\n", "low + high\n").replace("for x in", hoisted)
    outcome = fix(source_from_bytes(before.encode(), None, "x.py"), linter(), safety="display")
    assert outcome.source.text == after
