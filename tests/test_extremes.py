"""Files that no person would write: they end with the findings that they should have."""

from __future__ import annotations

import ast
import re
import sysconfig
from pathlib import Path

import pytest

from devlint.engine import Linter
from devlint.files import read_source
from devlint.placement.loops import Loops
from devlint.rule import load_registry
from devlint.screen import TORCH, Screen, lets_through
from devlint.settings import Settings
from devlint.signatures.reading import loops
from devlint.source.trees import children, own_nodes, parents_in, walk

HEAD = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(torch.ones(8, 4))
x = torch.ones(3, device="cuda")
"""
BUG = "torch.Tensor([1.0]).cuda().numpy()"


def functions(count: int) -> str:
    return "".join(f"\n\ndef f{i}(a):\n    b = f{i + 1}(a) + {i}\n    return b\n" for i in range(count))


def methods(count: int) -> str:
    body = "".join(
        f"    def m{i}(self, a):\n        self.b{i} = self.m{i + 1}(a)\n        return a\n" for i in range(count)
    )
    return f"class Net(torch.nn.Module):\n{body}"


def branches(count: int) -> str:
    body = "".join(f"        if x.sum() > {i}:\n            y = batch + {i}\n" for i in range(count))
    return f"def train():\n    for batch in loader:\n{body}        print(x.sum().item())\n"


def elifs(count: int) -> str:
    return "if x is None:\n    y = 0\n" + "".join(f"elif x.sum() > {i}:\n    y = x + {i}\n" for i in range(count))


def blocks(word: str, count: int) -> str:
    return "".join(" " * i + f"{word.format(i=i)}:\n" for i in range(count)) + " " * count + "x.item()\n"


def tangle(count: int) -> str:
    names = ", ".join(f"a{i}" for i in range(count))
    body = "".join(f"        a{i} = f({names})\n" for i in range(count))
    return f"def train():\n    for batch in loader:\n{body}        if a0 - a1 > 10:\n            print(x.sum())\n"


def constructor(body: str) -> str:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return f"class Net(torch.nn.Module):\n    def __init__(self, a):\n        super().__init__()\n{lines}"


SHAPES = {
    "a name that is made from itself": constructor("a = a\nself.layers = [a, a]"),
    "names that are made from each other": constructor(
        "b = a\na = b\nself.layers = [a, b]\nself.more = {'a': a, 'b': b}"
    ),
    "attributes that are made from each other": constructor("self.b = self.c\nself.c = self.b\nself.d = [self.d]"),
    "a long way from name to name": constructor(
        "a0 = torch.nn.Linear(2, 2)\n"
        + "".join(f"a{i + 1} = a{i}\n" for i in range(2_000))
        + "self.layers = [a2000, torch.nn.Linear(2, 2)]"
    ),
    "a layer that is moved again and again": constructor(
        f"layer = torch.nn.Linear(2, 2){'.to(0)' * 90}\nself.layers = [layer, torch.nn.Linear(2, 2){'.to(0)' * 90}]"
    ),
    "functions that call each other": "def f(a):\n    return g(f(a))\ndef g(a):\n    return f(g(a))\ny = f(x)\n",
    "many decorators": "@torch.no_grad()\n" * 2_000 + "def f(a):\n    return a\n",
    "many context managers": f"with {', '.join(['torch.no_grad()'] * 2_000)}:\n    y = x + 1\n",
    "a long condition": f"if {' and '.join(f'x.a > {i}' for i in range(2_000))}:\n    y = x + 1\n",
    "a long comparison": f"y = {' < '.join(['x'] * 2_000)}\n",
    "a long f-string": "y = f'" + "{x}" * 2_000 + "'\n",
    "a class of a long line": "class C0(torch.nn.Module):\n    pass\n"
    + "".join(f"class C{i + 1}(C{i}):\n    pass\n" for i in range(1_000)),
    "a generated file": "".join(f"d{i} = {{'a': x, 'b': [{i}, {i + 1}]}}\n" for i in range(12_000)),
    "thousands of functions, each calling the next": functions(3_000),
    "thousands of methods": methods(1_000),
    "thousands of definitions of one name": "def f(a):\n    return f(a)\n" * 3_000,
    "a function of many branches": branches(500),
    "a chain of elif": elifs(100),
    # Deeper than the model goes: they are passed over, and what stands around them is read.
    "a long chain of elif": elifs(900),
    "a longer chain of elif than Python's stack is deep": elifs(1_200),
    "a chain of elif as long as Python reads": elifs(2_000),
    "a long chain of elif in a function": "def far(x):\n"
    + "".join(f"    {line}\n" for line in elifs(1_500).splitlines()),
    "many moves of one value": f"y = x{'.to(x.device)' * 400}\n",
    "a long sum": "y = " + " + ".join(["x"] * 900) + "\n",
    "a long sum over several lines": "y = (" + "\n+ ".join(["x"] * 900) + ")\n",
    "names that are all computed from each other": tangle(40),
    "nested loops": blocks("for v{i} in x", 19),
    "nested ifs": blocks("if x.a{i}", 95),
    "nested calls": "y = " + "f(" * 90 + "x" + ")" * 90 + "\n",
    "nested comprehensions": "y = " + "[" * 50 + "x" + "".join(f" for v{i} in x]" for i in range(50)) + "\n",
    "a table": "y = {" + ", ".join(f"'{i}': torch.zeros({i})" for i in range(5_000)) + "}\n",
    "all on one line": "; ".join(f"y{i} = x + {i}" for i in range(2_000)) + "\n",
    "a text of many parts": "y = (" + "\n".join(["'torch.load(x).to(device).item()'"] * 1_000) + ")\n",
    "a call with a text of many parts": "y = x.to(torch.load(" + "\n".join(["'x.to(device)'"] * 1_000) + ")).item()\n",
    "a long line": f"y = '{'cuda ' * 50_000}'\n",
}


@pytest.fixture
def check(tmp_path):
    def check(text: str, *select: str) -> list[tuple[str, int]]:
        file = tmp_path / "extreme.py"
        file.write_text(text, encoding="utf-8")
        settings = Settings(root=tmp_path, select=select) if select else Settings(root=tmp_path)
        found = Linter(settings, load_registry()).check(read_source(file, "extreme.py"))
        return [(finding.code, finding.span.line) for finding in found]

    return check


def around(shape: str) -> str:
    return f"{HEAD}for batch in loader:\n    y = model(batch)\n    x.cpu()\n{shape}z = {BUG}\n"


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_what_stands_around_it_is_still_found(check, shape):
    text = around(SHAPES[shape])
    found = check(text)
    assert ("DEV101", 8) in found
    assert ("DEV204", text.count("\n")) in found
    assert "DEV000" not in [code for code, _ in found]


def test_what_was_passed_over_leaves_nothing_known_of_what_it_speaks_of(check):
    moved = HEAD + "y = torch.ones(3)\n" + elifs(1_200).replace("y = 0", "y = x") + "print((x + y).sum(), y.numpy())\n"
    assert check(moved) == []
    assert check(moved.replace("elif", "if")) != []


@pytest.mark.parametrize("shape", ["many moves of one value", "a long sum", "a long sum over several lines"])
def test_what_is_too_deep_to_be_read_costs_no_rule_its_findings_beside_it(check, shape):
    text = f"{HEAD}x.cpu()\n{SHAPES[shape]}print(x, y)\n"
    assert check(text) == [("DEV101", 6)]


def test_what_is_too_deep_to_be_read_leaves_nothing_known_of_what_it_names(check):
    text = HEAD + "y = torch.ones(3)\n" + SHAPES["many moves of one value"] + "print((x + y).sum())\n"
    assert check(text) == []
    assert check(text.replace("y = x", "z = 0 if x is None else 1  # ")) == [("DEV201", 8)]


def test_what_stands_in_it_is_found(check):
    text = HEAD + branches(500)
    # Each `if` asks a tensor.
    assert check(text, "DEV504") == [("DEV504", 8 + 2 * i) for i in range(500)]


def test_more_nesting_than_python_reads_is_one_finding(check):
    found = check(HEAD + blocks("if x.a{i}", 500))
    assert [code for code, _ in found] == ["DEV000"]


def test_every_rule_lets_through_what_its_expressions_match():
    texts = [path.read_bytes() for path in (Path(__file__).parent / "cases").glob("*.md")]
    texts = [TORCH + piece for text in texts for piece in text.split(b"\n## ")]
    for rule in load_registry().rules():
        expressions = [re.compile(pattern.encode()) for pattern in (rule.trigger, *rule.needs)]
        for text in texts:
            matched = all(expression.search(text) for expression in expressions)
            assert lets_through(rule, [Screen(text)]) == matched, (rule.code, text)


# What the walks leave out: contexts and operators.
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LEFT_OUT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.type_ignore)


@pytest.mark.parametrize("name", ["ast.py", "dataclasses.py", "typing.py", "asyncio/tasks.py", "test/test_patma.py"])
def test_walks_see_every_node_of_pythons_own_modules(name):
    file = Path(sysconfig.get_path("stdlib"), name)
    if not file.is_file():
        pytest.skip(f"this Python has no {name}")
    tree = ast.parse(file.read_bytes())
    expected = [node for node in ast.walk(tree) if not isinstance(node, LEFT_OUT)]
    assert walk(tree) == expected
    assert parents_in(tree) == {child: node for node in expected for child in children(node)}
    for scope in expected:
        if isinstance(scope, DEFINITIONS):
            nested = {n for n in own_nodes(scope) if isinstance(n, (*DEFINITIONS, ast.Lambda))}
            inside = {below for node in nested for below in walk(node)[1:]}
            assert set(own_nodes(scope)) == set(walk(scope)[1:]) - inside


def test_a_function_that_calls_itself_at_many_places_is_asked_once_how_often_it_runs(tmp_path, monkeypatch):
    calls = "\n".join(
        f"        if kind == {n}:\n            found, states = walk(node.children[{n}], states)" for n in range(12)
    )
    asked = []
    around = Loops.around
    monkeypatch.setattr(Loops, "around", lambda self, node, depth=0: asked.append(node) or around(self, node, depth))
    file = tmp_path / "tree.py"
    file.write_text(
        "import torch\n\n\ndef walk(node, states):\n    states = states.copy()\n    for child in node.children:\n"
        f"{calls}\n        states[child] = states[child].copy()\n        print(states.item())\n"
        "    return sorted(states), states\n\n\nwalk(torch.load('tree.pt'), {})\n"
    )
    Linter(Settings(root=tmp_path, preview=True), load_registry()).check(read_source(file, "tree.py"))
    # Each of 12 calls is followed three times: 12 to the third power otherwise.
    assert 0 < len(asked) < 200


def test_what_stands_in_many_loops_is_read_a_bounded_number_of_times(tmp_path, monkeypatch):
    heads = [f"{'    ' * (n + 1)}for i{n} in {'(1, 2, 3)' if n < 4 else f'range(i{n - 1})'}:" for n in range(14)]
    file = tmp_path / "nest.py"
    file.write_text(
        "import torch\n\n\ndef nest(last):\n"
        + "\n".join(heads)
        + f"\n{'    ' * 15}last = last.cpu() if last.is_cuda else last.cuda()\n"
        f"{'    ' * 15}print(last + torch.ones(3))\n"
    )
    passes = []
    bind = loops.bind
    monkeypatch.setattr(loops, "bind", lambda frame, *given: passes.append(frame) or bind(frame, *given))
    Linter(Settings(root=tmp_path), load_registry()).check(read_source(file, "nest.py"))
    # Each loop doubles the readings of those in it, or makes three of them: 80,000 otherwise.
    assert 14 <= len(passes) < 1000


def test_what_is_derived_from_a_class_is_found_among_many_files_that_name_it(tmp_path):
    (tmp_path / "victim.py").write_text("from torch import nn\n\n\nclass Victim(nn.Module):\n    pass\n")
    for number in range(30):
        user = f"from victim import Victim\n\n\ndef f{number}(model: Victim):\n    return model\n"
        (tmp_path / f"a{number}.py").write_text(user)
    asking = "from victim import Victim\n\n\ndef place_of(model: Victim):\n    return model.device\n"
    (tmp_path / "place.py").write_text("import torch\n" + asking)
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
    place = tmp_path / "place.py"
    assert [f.code for f in linter.check(read_source(place, place.name))] == ["DEV607"]
    derived = "from victim import Victim\n\n\nclass Own(Victim):\n    def __init__(self, device):\n        super().__init__()\n"
    (tmp_path / "z.py").write_text(derived + "        self.device = device\n")
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
    assert linter.check(read_source(place, place.name)) == []
