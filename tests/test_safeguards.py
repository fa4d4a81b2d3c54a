"""What no fix may do to a text: leave a name unbound, lose a comment, need an accelerator where there may be none."""

from __future__ import annotations

import pytest

from devlint.findings import Edit, Span
from devlint.safeguards import fault
from devlint.textmap import TextMap, minimal_edit


def told(before: str, after: str, **more: object) -> str:
    """The fault of the edit that makes one text of the other."""
    start, end, text = minimal_edit(before, after)
    lines = TextMap(before)
    return fault(before, after, [Edit(Span(*lines.position(start), *lines.position(end)), text)], **more)


def of_body(body: str, *, before: str = "y = x", after: str = "y = x.to(device)") -> str:
    """The fault of a fix of `y = x` in a text."""
    assert before in body
    return told(body, body.replace(before, after))


UNBOUND = "`device` isn't bound there"


@pytest.mark.parametrize(
    "body",
    [
        "def f(x):\n    y = x\n",
        # Another function's, another class's, a class's own in its method.
        "def g():\n    device = 0\ndef f(x):\n    y = x\n",
        "class A:\n    device = 0\n    def f(self, x):\n        y = x\n",
        "def f(x):\n    y = x\n    def g(device):\n        return device\n",
        # It is bound in a comprehension, or a lambda, of its own.
        "def f(x):\n    [device for device in x]\n    y = x\n",
        "def f(x):\n    g = lambda device: device\n    y = x\n",
        # Too late.
        "def f(x):\n    y = x\n    device = 0\n",
        "x = 1\ny = x\ndevice = 0\n",
        "x = 1\nclass A:\n    def f(self, y = x):\n        pass\ndevice = 0\n",
        "def f(x):\n    for i in x:\n        y = x\n        device = 0\n",
        # On some ways only.
        "def f(x):\n    if x:\n        device = 0\n    y = x\n",
        "def f(x):\n    for device in x:\n        pass\n    y = x\n",
        "def f(x):\n    try:\n        device = g()\n    except E:\n        pass\n    y = x\n",
        "def f(x):\n    while x:\n        device = 0\n    else:\n        y = x\n",
        "def f(x):\n    try:\n        device = g()\n    finally:\n        y = x\n",
        "def f(x):\n    match x:\n        case 1:\n            device = 0\n    y = x\n",
        "def f(x):\n    if x:\n        y = x\n    else:\n        device = 0\n",
        # Its name is spent when the handler is left.
        "def f(x):\n    try:\n        pass\n    except E as device:\n        pass\n    y = x\n",
    ],
)
def test_a_name_that_isnt_bound(body):
    assert of_body(body) == UNBOUND


@pytest.mark.parametrize(
    "body",
    [
        "def f(device=x):\n    return device\n",
        # The class has bound nothing of that name yet.
        "class A:\n    def f(self, device=x):\n        return device\n    @property\n    def device(self):\n        return 0\n",
    ],
)
def test_a_default_is_worked_out_where_the_function_is_defined(body):
    assert of_body(body, before="=x", after="=device") == UNBOUND
    assert of_body(f"device = 0\n{body}", before="=x", after="=device") == ""


@pytest.mark.parametrize(
    "body",
    [
        "def f(x, device):\n    y = x\n",
        "def f(x, *device):\n    y = x\n",
        "def f(x, *, device=None):\n    def g():\n        y = x\n",
        "device = 0\ndef f(x):\n    y = x\n",
        # By the time that it is called, it is.
        "def f(x):\n    y = x\ndevice = 0\n",
        "def f(x):\n    y = x\nif f:\n    device = 0\n",
        "def f(x):\n    y = x\ndef g():\n    global device\n    device = 0\n",
        "import device\ndef f(x):\n    y = x\n",
        "from m import a as device\ndef f(x):\n    y = x\n",
        "def f(x):\n    from m import device\n    y = x\n",
        "def f(x):\n    device = 0\n    y = x\n",
        "def f(x):\n    device, z = 0, 1\n    while x:\n        y = x\n",
        "def f(x):\n    if x:\n        device = 0\n    else:\n        device = 1\n    y = x\n",
        "def f(x):\n    if x:\n        device = 0\n    else:\n        raise E\n    y = x\n",
        "def f(x):\n    for device in x:\n        y = x\n",
        "def f(x):\n    with x as device:\n        y = x\n",
        "def f(x):\n    with x:\n        device = 0\n    y = x\n",
        "def f(x):\n    if (device := x):\n        y = x\n",
        "def f(x):\n    try:\n        device = 0\n    except E:\n        return\n    y = x\n",
        "def f(x):\n    try:\n        device = 0\n    except E:\n        pass\n    else:\n        y = x\n",
        "def f(x):\n    try:\n        pass\n    except E as device:\n        y = x\n",
        # The code asked for it before.
        "def f(x):\n    if x:\n        device = 0\n    print(device)\n    y = x\n",
        "def f(x):\n    if x:\n        device = 0\n    y = x, device\n",
        # It may come from there, as the text believes elsewhere.
        "from m import *\nprint(device)\ndef f(x):\n    y = x\n",
    ],
)
def test_a_name_that_is_bound(body):
    assert of_body(body) == ""


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("class A:\n", "`self.device` isn't bound there"),
        ("class A(nn.Module):\n", "`self.device` isn't bound there"),
        ("class A(Base):\n", ""),
        ("class A:\n    device = 0\n", ""),
        ("class A:\n    def g(self):\n        self.device = 0\n", ""),
        ("class A:\n    def device(self):\n        return 0\n", ""),
    ],
)
def test_attributes_that_no_method_sets(head, said):
    body = f"nn = Base = 0\n{head}    def f(self, x):\n        y = x\n"
    assert of_body(body, after="y = x.to(self.device)") == said
    assert of_body(body, after="y = self.f(x)") == ""


def test_names_of_python_and_names_that_were_unbound_before():
    assert told("y = x\n", "y = len(x)\n") == ""
    assert told("y = x\n", "y = __file__, x\n") == ""
    assert told("def f():\n    return gone\n", "def f():\n    return gone, 1\n") == ""


def test_names_that_an_import_will_bring():
    assert told("y = x\n", "y = nn.Linear(x)\n") == "`nn` isn't bound there"
    assert told("y = x\n", "y = nn.Linear(x)\n", imports=("from torch import nn",)) == ""


def test_a_method_of_a_class_sees_no_name_of_the_class_but_its_body_does():
    assert of_body("class A:\n    device = 0\n    x = 1\n    y = x\n") == ""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("f(a,  # why\n  b)\n", "f(a, b)\n", "a comment would be lost"),
        ("f(a)  # why\n", "f(b)  # whx\n", "a comment would be lost"),
        ("f('# no comment')\n", "f('')\n", ""),
        ("f(a)\n", "f(a, \n  b)\n", "a line would end in blanks"),
        ("f(a, \n  b)\n", "f(a, \n  c)\n", ""),
        ("f(a)\n", "f(a\n", "it isn't valid Python"),
        ("f(a)\n", "f(\0)\n", "it isn't valid Python"),
    ],
)
def test_what_is_lost(before, after, said):
    defined = "a = b = c = f = 1\n"
    assert told(defined + before, defined + after) == said


def test_suppressions_that_are_taken_away_on_purpose():
    before, after = "x = 1  # noqa: DEV101\n", "x = 1\n"
    assert told(before, after) == "a comment would be lost"
    assert told(before, after, takes_markers=True) == ""
    assert told("x = 1  # why\n", after, takes_markers=True) == "a comment would be lost"


NEEDED = "it would need an accelerator where there may be none"


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        ("d = torch.cuda.is_available()\n", "torch.cuda.synchronize()\n", NEEDED),
        ("use_cuda = True\n", "torch.cuda.synchronize()\n", NEEDED),
        ("d = torch.accelerator.current_accelerator() or 0\n", "torch.accelerator.synchronize()\n", NEEDED),
        ("use_cuda = True\n", "torch.accelerator.current_accelerator()\n", ""),
        ("d = torch.cuda.is_available()\n", "if torch.cuda.is_available():\n    torch.cuda.synchronize()\n", ""),
        ("d = torch.cuda.is_available()\n", "if not d:\n    torch.cuda.synchronize()\n", NEEDED),
        ("use_cuda = True\n", "if use_cuda:\n    torch.cuda.synchronize()\n", ""),
        # It needs one anyway.
        ("x = torch.ones(3).cuda()\n", "torch.cuda.synchronize()\n", ""),
        ("d = torch.cuda.is_available()\n", "torch.cuda.is_available()\n", ""),
    ],
)
def test_calls_that_need_an_accelerator(head, body, said):
    before = f"import torch\n{head}print(1)\n"
    assert told(before, before.replace("print(1)\n", body + "print(1)\n")) == said


def test_what_python_thinks_of_the_code_is_not_told(recwarn: pytest.WarningsRecorder) -> None:
    text = 'x = 1\nif x is "cpu":\n    pattern = "\\d"\n'
    assert fault(text, text.replace("x = 1", "x = 2"), []) == ""
    assert not recwarn.list
