"""Messages speak of what stands in front of the reader: no name of another scope."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devlint.engine import Linter
from devlint.files import source_from_bytes
from devlint.findings import Finding
from devlint.rule import MetaRule, Rule, load_registry
from devlint.settings import Settings


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """What our own files say of devices isn't about these texts."""
    monkeypatch.chdir(tmp_path)


def messages(text: str) -> list[str]:
    linter = Linter(Settings(root=Path.cwd()), load_registry())
    return [f.message for f in linter.check(source_from_bytes(text.encode(), None, "x.py"))]


def test_what_is_made_here_meets_something_in_a_helper():
    text = (
        "import torch\nfrom torch import nn\n\n\ndef helper(u, v):\n    return u * v\n\n\nclass Net(nn.Module):\n"
        "    def forward(self, data):\n        w = torch.ones(3, 3)\n        return helper(data.relu(), w)\n"
    )
    assert messages(text) == [
        "`torch.ones` creates on cpu what meets `u` in `helper`, which is wherever `data` is: give it a `device`"
    ]


def test_what_a_caller_made_is_best_moved_there():
    text = (
        "import torch\nfrom torch import nn\n\nmodel = nn.Linear(4, 2).cuda()\n\n\n"
        "def generate(prompt):\n    return model(prompt)\n\n\nstart = torch.ones(1, 4)\nprint(generate(start))\n"
    )
    linter = Linter(Settings(root=Path.cwd()), load_registry())
    [found] = linter.check(source_from_bytes(text.encode(), None, "x.py"))
    assert (found.code, found.span.line) == ("DEV202", 8)
    assert found.hint == "best moved once, where the caller makes it (line 11)"


def test_a_finding_at_a_call_names_what_is_given_there_and_the_operation():
    Path("ops.py").write_text(
        "import torch\n\n\ndef add(u, v):\n    s = u * 2\n    return torch.matmul(s, v)\n\n\n"
        "def run(m, inp):\n    return m(inp)\n\n\ndef twice(m, x):\n    return m(m(x))\n"
    )
    text = (
        "import torch\nfrom torch import nn\n\nfrom ops import add, run, twice\n\na = torch.ones(3)\nb = torch.ones(3).cuda()\n"
        "print(add(a, b))\nnet = nn.Linear(3, 3).cuda()\nrun(net, a)\nm = nn.Linear(3, 3).cuda()\nx = torch.ones(3)\ntwice(m, x)\n"
    )
    assert messages(text) == [
        "`s` is on cpu and `v` is on cuda: `torch.matmul` needs both on one device, in `add` (ops.py:6), "
        "which is called with `a, b`",
        "`inp` is on cpu, but `m`, which computes from it, is on cuda, in `run` (ops.py:10), which is called with `net, a`",
        # Whoever reads the line knows these.
        "`x` is on cpu, but `m`, which computes from it, is on cuda",
    ]


@pytest.mark.parametrize(
    "rule", [r for r in load_registry().rules() if not issubclass(r, MetaRule)], ids=lambda rule: rule.code
)
def test_a_place_is_called_cpu_and_the_host_is_who_waits(rule: type[Rule]):
    linter = Linter(Settings(root=Path.cwd(), select=("ALL",)), load_registry())
    found = linter.check(source_from_bytes(rule.example("Example").encode(), None, "x.py"))
    told = [text for f in found for text in (f.message, *(note.message for note in f.notes))]
    # The host decides and reads; tensors are on cpu.
    assert not [text for text in told if re.search(r"(?<!decided )(?<!read )\bon the (?:host|cpu)\b", text)]


def test_a_loss_is_explained_by_what_the_model_gave():
    text = (
        "import torch\nfrom torch import nn\n\ndevice = torch.device('cuda')\nmodel = nn.Linear(4, 3).to(device)\n"
        "criterion = nn.CrossEntropyLoss(weight=torch.ones(3).to(device))\n"
        "for x, y in torch.utils.data.DataLoader([]):\n    loss = criterion(model(x.to(device)), y.to(device))\n"
        "    loss.backward()\n    print(loss.item())\n"
    )
    linter = Linter(Settings(root=Path.cwd(), select=("DEV501",)), load_registry())
    [found] = linter.check(source_from_bytes(text.encode(), None, "x.py"))
    assert [note.message for note in found.notes if "created" in note.message or "computed" in note.message] == [
        "created on cpu by `nn.Linear`",
        "computed there by `model`",
        "computed there by `criterion`",
    ]


def waits_in(text: str) -> list[Finding]:
    """The findings of DEV501, in code that is hot by its role as well."""
    settings = Settings(root=Path.cwd(), preview=True, select=("DEV501",))
    return Linter(settings, load_registry()).check(source_from_bytes(text.encode(), None, "x.py"))


def test_a_wait_names_the_option_that_it_stands_under():
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self, count=False):\n"
        "        super().__init__()\n        self.count = count\n\n    def forward(self, x, lengths):\n"
        "        if self.count:\n            self.longest = int(lengths.max())\n        return x[:, : int(lengths.min())]\n"
    )
    found = waits_in(text)
    assert [f.message.partition(" once ")[2] for f in found] == [
        "a call of `Net.forward` under `if self.count`",
        "a call of `Net.forward`",
    ]


def test_a_wait_says_which_loop_runs_it():
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x, lengths, bounds):\n"
        "        for length in lengths:\n            x = self.cut(x)[: int(lengths[0].max())]\n"
        "        if self.count is None:\n            return x\n        else:\n            x = x[: int(bounds.min())]\n"
        "        return x\n\n    def cut(self, x):\n        ids = x.argmax()\n        return x[: ids.item()]\n"
    )
    found = waits_in(text)
    assert [f.message.partition("accelerator ")[2] for f in found] == [
        "at each pass of `for length in lengths` on line 7, in each call of `Net.forward`",
        "once a call of `Net.forward` unless `self.count is None`",
        "at each pass of `for length in lengths` on line 7, in each call of `Net.forward`",
    ]
