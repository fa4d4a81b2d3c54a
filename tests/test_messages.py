"""Messages speak of what stands in front of the reader: no name of another scope."""

from __future__ import annotations

from pathlib import Path

from devlint.engine import Linter
from devlint.files import source_from_bytes
from devlint.rule import load_registry
from devlint.settings import Settings


def messages(text: str) -> list[str]:
    linter = Linter(Settings(root=Path.cwd()), load_registry())
    return [f.message for f in linter.check(source_from_bytes(text.encode(), None, "x.py"))]


def test_what_is_made_here_meets_something_in_a_helper():
    text = (
        "import torch\nfrom torch import nn\n\n\ndef helper(u, v):\n    return u * v\n\n\nclass Net(nn.Module):\n"
        "    def forward(self, data):\n        w = torch.ones(3, 3)\n        return helper(data.relu(), w)\n"
    )
    assert messages(text) == [
        "`torch.ones` creates on the cpu what meets `u` in `helper`, which is wherever `data` is: give it a `device`"
    ]
