"""What is asked of a project's texts is answered after an edit as if it were asked for the first time, by way of traces or anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devlint.source.filesystem import FileFacts, FileSystem
from devlint.source.looks import Answer, Question
from devlint.source.project import Project
from devlint.source.standing import Names


def _joined(lines: Iterable[str]) -> str:
    return "\n\n\n".join((*lines, ""))


# What files of a project may say of each other: a few of these lines each.
_LINES = (
    "from nets.base import Net, build",
    "from nets.base import Net as Core",
    "from nets import *",
    "from .base import *",
    "from .extra import Head",
    "import nets.extra as extra",
    "from torchvision import Net",
    "from lost import thing",
    "class Net(nn.Module):\n    def scale(self):\n        return self.pick()\n\n    def pick(self):\n        return 1",
    "class Head(Net):\n    def scale(self):\n        return super().scale()\n\n    def pick(self):\n        return 2",
    "class Head(nn.Module):\n    def forward(self, x):\n        return x",
    "def build():\n    return Net()",
    "def trained(net):\n    return net.scale()",
    "@register('build')\ndef build():\n    return Head()",
    "build()",
    "trained(Head())",
    "net = Net()\nnet.scale()",
    "net = getattr(nets, name)()",
    "made = import_module(f'nets.{name}')",
    "NAMED = ['nets/extra.py', 'Head']",
    "__all__ = ['Net', 'build']",
    "# build and extra",
    "if __name__ == '__main__':\n    trained(build())",
    "import torch\nx = torch.rand(3)\nprint(x)",
)
_FILES = (
    "nets/__init__.py", "nets/base.py", "nets/extra.py", "nets/old/extra.py", "train.py", "tools/run.py", "tests/test_nets.py",
    "README.md", "setup.py", "requirements.txt", "LICENSE",
)  # fmt: skip
_SAID = st.lists(st.sampled_from(_LINES), max_size=4).map(_joined)
# What a project is like at first, but for a few files.
_USUAL = {
    "nets/__init__.py": ("from .base import Net",),
    "nets/base.py": (
        _LINES[8],
        "def build():\n    return Net()",
        "def trained(net):\n    return tested(net)",
        "def tested(net):\n    return net",
    ),
    "nets/extra.py": ("from .base import Net", "class Head(Net):\n    def pick(self):\n        return 2"),
    "train.py": (
        "from nets.base import Net",
        "def build():\n    return Net().scale()",
        "if __name__ == '__main__':\n    build()",
    ),
    "tools/run.py": ("from nets.extra import Head",),
    "README.md": ("`train.py`",),
    "requirements.txt": ("torch",),
}
# None is that the file isn't there.
_EDIT = st.tuples(st.sampled_from(_FILES), st.none() | _SAID)
_QUESTIONS = [
    *((kind, file, *unit) for kind in ("unused", "tested") for file in ("nets/base.py", "nets/extra.py", "train.py")
      for unit in (("Net", ""), ("Net", "scale"), ("Net", "pick"), ("Head", "pick"), ("", "build"), ("", "trained"), ("", "tested"))),
    *(("broken", file) for file in ("nets/base.py", "train.py")),
    *(("called", "nets/extra.py", "Head", "scale"), ("kept", "nets/base.py", "Net")),
]  # fmt: skip


class _Answered(dict[Question, Answer]):
    """What was answered by now, as a cache keeps it."""

    def put(self, question: Question, answer: Answer) -> None:
        self[question] = answer


def _ask(root: Path) -> tuple[dict[Question, Answer], dict[str, FileFacts]]:
    """All questions, asked for the first time, and what was learnt of files."""
    files = FileSystem()
    project = Project(files=files)
    for kind, file, *words in _QUESTIONS:
        path = root / file
        match kind:
            case "unused" | "tested":
                project.is_unused(path, *words, but_by_tests=kind == "tested")
            case "broken":
                project.is_broken(path)
            case "called":
                project.is_called(path, words[0], (words[1],))
            case "kept":
                project.kept_as(path, words[0])
    return project.looks.answers, files.facts


def _write(root: Path, files: dict[str, str | None]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)


def _follow(root: Path, files: dict[str, str | None], edits: list[tuple[str, str | None]]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    _write(root, dict.fromkeys(_FILES) | {name: _joined(lines) for name, lines in _USUAL.items()} | files)
    before, facts = _ask(root)
    answered = _Answered()
    for name, text in edits:
        _write(root, {name: text})
        now, _ = _ask(root)
        known = FileSystem(facts)
        project = Project(files=known)
        project.goes_by(answered)
        for question, answer in before.items():
            assert project.holds(question, answer) == (answer.text == now[question].text), (question, name)
        facts = facts | known.facts


_SLOWLY = {"suppress_health_check": list(HealthCheck)}
_PROJECT = st.dictionaries(st.sampled_from(_FILES), _SAID, max_size=3)


@settings(max_examples=100, **_SLOWLY)
@given(_PROJECT, st.lists(_EDIT, min_size=1, max_size=3))
def test_after_each_edit_the_answers_that_hold_are_those_that_are_the_same(tmp_path, files, edits):
    _follow(tmp_path / "tree", files, edits)


@pytest.mark.exhaustive
@settings(max_examples=2_000, **_SLOWLY)
@given(_PROJECT, st.lists(_EDIT, min_size=1, max_size=6))
def test_after_each_edit_the_answers_that_hold_are_those_that_are_the_same_many_times(tmp_path, files, edits):
    _follow(tmp_path / "tree", files, edits)


@pytest.mark.parametrize(
    ("usual", "asked", "edit", "text"),
    [
        # Of the test, its imports alone were looked at: nobody was in sight who uses anything.
        ({"tests/test_nets.py": "import torch\n", "train.py": "print(1)\n", "nets/__init__.py": "", "nets/extra.py": "", "tools/run.py": ""},
         "build", "tests/test_nets.py", "import torch\nfrom nets.base import Net\n\nNet()\n"),
        # Whether anything loads modules by their names was searched for.
        ({}, "trained", "tools/run.py", "from nets.extra import Head\n\nmade = import_module(f'nets.{name}')\n"),
        # Of a file that says the name of one of two functions, whether it quotes it was all that was asked.
        ({"nets/extra.py": "def tested(x):\n    return x\n", "tools/run.py": "tested = 1\nprint(tested)\n",
          "train.py": _joined((*_USUAL["train.py"], "net = getattr(nets, name)()"))},
         "tested", "tools/run.py", "tested = 1\nprint('tested', tested)\n"),
    ],
)  # fmt: skip
def test_an_edit_of_what_an_answer_hangs_on_is_followed(tmp_path, usual, asked, edit, text):
    _write(tmp_path, {name: _joined(lines) for name, lines in _USUAL.items()} | usual)
    before, facts = _ask(tmp_path)
    question = ("unused", str(tmp_path / "nets/base.py"), "", asked)
    _write(tmp_path, {edit: text})
    project = Project(files=FileSystem(facts))
    project.goes_by(_Answered())
    assert before[question].text != _ask(tmp_path)[0][question].text
    assert not project.holds(question, before[question])


def test_an_edit_that_an_answer_does_not_hang_on_is_not_followed(tmp_path, monkeypatch):
    """Of many files none is read again to see that nothing leads to a function, where the edited one names none of it."""
    lines = {f"nets/part_{number}.py": "def scale(x):\n    return x\n" for number in range(20)}
    files = {"nets/base.py": _LINES[8], "train.py": "from nets.base import Net\n\nNet().scale()\n", **lines}
    _write(
        tmp_path, {"setup.py": "", "nets/__init__.py": "", "nets/extra.py": "def other(x):\n    return x\n", **files}
    )
    before, facts = _ask(tmp_path)
    _write(tmp_path, {"nets/extra.py": "def other(x):\n    return x + 1\n"})
    project = Project(files=FileSystem(facts))
    project.goes_by(_Answered())
    read = []
    monkeypatch.setattr(Names, "raw", lambda _, file: read.append(file) or file.read_bytes())
    assert all(project.holds(q, a) for q, a in before.items() if q[0] == "unused" and q[1].endswith("base.py"))
    assert {file.name for file in read} <= {"extra.py"}
