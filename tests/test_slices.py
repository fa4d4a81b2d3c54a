"""What a first look leaves out of a long function, and what it keeps."""

from __future__ import annotations

import ast

from devlint.source.slices import LONG, LONG_CLASS, ROOM, leave_out

FILLING = [f"    filling_{n} = {n}" for n in range(LONG)]


def left(lines: list[str], mark: str) -> str:
    """What is left of a text where the lines with a mark are asked about."""
    text = "\n".join(lines) + "\n"
    [line] = [number for number, one in enumerate(lines, 1) if mark in one]
    tree = ast.parse(text)
    leave_out(tree, text, range(line, line + 1))
    return ast.unparse(tree)


def test_what_a_line_hangs_on_stays() -> None:
    lines = [
        "def train(loader, args):",
        "    import torch",
        "    args.device = torch.device('cuda')",
        "    model = Net()",
        "    model.to(args.device)",
        "    other = Net()",
        "    other.to('cpu')",
        *FILLING,
        "    if not torch.cuda.is_available():",
        "        return",
        "    for batch in loader:",
        "        batch = batch.to(args.device)",
        "        note = 3",
        "        loss = model(batch).sum()  # here",
        "        loss.backward()",
        "        print(other(batch))",
        "    other = model",
    ]
    assert left(lines, "# here").splitlines() == [
        "def train(loader, args):",
        "    import torch",
        "    args.device = torch.device('cuda')",
        "    model = Net()",
        "    model.to(args.device)",
        "    if not torch.cuda.is_available():",
        "        return",
        "    for batch in loader:",
        "        batch = batch.to(args.device)",
        "        loss = model(batch).sum()",
        "        loss.backward()",
    ]


def test_what_there_is_no_room_for_is_unknown() -> None:
    many = [f"    x = x + filling_{n}" for n in range(ROOM + 1)]
    found = left(["def far(x):", *FILLING, *many, "    with torch.no_grad():", "        print(x)  # here"], "# here")
    assert found.count("x = eval()") == ROOM + 1
    assert "filling" not in found
    assert found.endswith("with torch.no_grad():\n        print(x)")


def test_a_short_function_stays_as_it_is() -> None:
    lines = ["def short(x):", "    y = 1", "    return x  # here"]
    assert left(lines, "# here") == "def short(x):\n    y = 1\n    return x"


def test_of_a_caller_stays_what_it_gives() -> None:
    lines = [
        "def step(x):",
        "    return x + 1  # here",
        "",
        "def train(x):",
        *FILLING,
        "    x = x.cuda()",
        "    step(x)",
    ]
    assert left(lines, "# here").splitlines()[-3:] == ["def train(x):", "    x = x.cuda()", "    step(x)"]


def test_methods_that_are_not_called_hide_what_they_do() -> None:
    lines = [
        "class Trainer:",
        "    def __init__(self):",
        "        self.model = Net()",
        "    def step(self, x):",
        "        return self.look(x) * self.scale  # here",
        "    def look(self, x):",
        "        return self.model(x)",
        "    def move(self):",
        "        if self.fast:",
        "            self.model.cuda()",
        "        self.scale = torch.ones(3)",
        *[f"    def method_{n}(self): return {n}" for n in range(LONG_CLASS)],
    ]
    found = left(lines, "# here").splitlines()
    assert [line.strip() for line in found if line][:10] == [
        "class Trainer:",
        "def __init__(self):",
        "self.model = Net()",
        "def step(self, x):",
        "return self.look(x) * self.scale",
        "def look(self, x):",
        "return self.model(x)",
        "def move(self):",
        "self.model = self.scale = eval()",
        "return eval()",
    ]


def test_of_a_long_constructor_stays_what_sets_the_attributes_that_are_used() -> None:
    lines = [
        "class Trainer(Base):",
        "    def __init__(self, args):",
        "        super().__init__()",
        "        device = torch.device('cuda')",
        "        self.table = load(args)",
        *[f"    {line}" for line in FILLING],
        "        if args.half:",
        "            self.model = Net().half()",
        "        self.model.to(device)",
        "    def step(self, x):",
        "        return self.look(x)  # here",
        "    def look(self, x):",
        "        return self.model(x)",
        *[f"    def method_{n}(self): return {n}" for n in range(LONG_CLASS)],
    ]
    found = left(lines, "# here").splitlines()
    assert [line.strip() for line in found if line][:9] == [
        "class Trainer(Base):",
        "def __init__(self, args):",
        "self.table = eval()",
        "super().__init__()",
        "device = torch.device('cuda')",
        "if args.half:",
        "self.model = Net().half()",
        "self.model.to(device)",
        "def step(self, x):",
    ]
