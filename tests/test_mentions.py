"""What nothing in a project leads to, told from its texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from devlint.source.project import Project

HEADS = """\
from torch import nn


class Head(nn.Module):
    def forward(self, x):
        return scale(x)

    def fused_forward(self, x):
        return x

    def old_forward(self, x):
        return x

    def _by_hand(self, x):
        return self._by_hand(x)


class OldModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = OldHead()


class OldHead(nn.Module):
    def forward(self, x):
        return x


class Kept(Base):
    def handle_batch(self, x):
        return x


def scale(x):
    return x


def again(x):
    return again(x)


def helper(x):
    return x


@register("rare")
def rare_head(x):
    return x
"""
SERVE = """\
from engine.heads import Head, Kept
from engine.heads import helper as help_out

def main(x):
    kept = Kept()
    return Head().fused_forward(help_out(x))

if __name__ == "__main__":
    main(1)
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    write(tmp_path, {"engine/__init__.py": "", "engine/heads.py": HEADS, "engine/serve.py": SERVE})
    return tmp_path


def unused(root: Path, *names: str, file: str = "engine/heads.py") -> list[str]:
    """Those of some functions (`f`, `Class.method`) to which nothing leads, as a new run sees them."""
    project = Project()
    parted = [name.rpartition(".") for name in names]
    return [n for n, (cls, _, f) in zip(names, parted, strict=True) if project.is_unused(root / file, cls, f)]


def test_a_name_that_stands_nowhere_else_is_unused(engine):
    assert unused(engine, "scale", "again", "helper", "rare_head") == ["again"]


def test_what_only_unused_code_names_is_unused(engine):
    assert unused(engine, "Head.forward", "OldHead.forward", "OldModel.__init__") == [
        "OldHead.forward",
        "OldModel.__init__",
    ]


def test_a_method_is_used_by_its_name_or_by_a_base_that_nobody_knows(engine):
    names = ("Head.fused_forward", "Head.old_forward", "Head._by_hand", "Kept.handle_batch")
    assert unused(engine, *names) == ["Head.old_forward", "Head._by_hand"]


def test_a_base_that_another_file_of_the_project_has_by_chance_is_unknown(engine):
    net = "from elsewhere import Worker\n\n\nclass Net(Worker):\n    def init_all(self):\n        pass\n\n\nNet()\n"
    write(engine, {"engine/net.py": net, "engine/work.py": "class Worker:\n    pass\n"})
    assert not unused(engine, "Net.init_all", file="engine/net.py")
    write(engine, {"engine/net.py": net.replace("elsewhere", "engine.work")})
    assert unused(engine, "Net.init_all", file="engine/net.py")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("engine/__init__.py", "from engine.heads import OldHead\n"),
        ("engine/__init__.py", "from .heads import *\n"),
        ("config/model.yaml", "head: engine.heads.OldHead\n"),
        ("README.md", "Use `OldHead` on small machines.\n"),
        ("README.md", "```python\nmodel = OldHead()\n```\n"),
        ("tests/test_heads.py", "from engine.heads import OldHead\n\ndef test_it():\n    OldHead()\n"),
        ("engine/zoo.py", 'HEADS = {"old": "OldHead"}\n'),
        ("engine/zoo.py", "from engine import heads\n\nHEADS = [heads.OldHead]\n"),
    ],
)
def test_exports_documents_configurations_tests_and_tables_are_uses(engine, name, text):
    assert unused(engine, "OldHead.forward")
    write(engine, {name: text})
    assert not unused(engine, "OldHead.forward")


def test_modules_that_are_loaded_by_a_name_may_be_used(engine):
    write(engine, {"engine/pick.py": "import importlib\n\ndef pick(name):\n    return importlib.import_module(name)\n"})
    assert unused(engine, "OldHead.forward")
    write(engine, {"engine/pick.py": "import importlib\n\nheads = importlib.import_module('engine.heads')\n"})
    assert unused(engine, "OldHead.forward")
    text = "import importlib\n\ndef pick(name):\n    return importlib.import_module(f'engine.{name}')\n"
    write(engine, {"engine/pick.py": text})
    assert not unused(engine, "OldHead.forward")


def test_an_import_alone_and_what_is_said_of_something_are_no_uses(engine):
    said = '# OldHead is slow.\n    # print(f"{OldHead()}")\nX = 1\n'
    write(engine, {"engine/zoo.py": f"from engine.heads import OldHead\n\n{said}"})
    write(engine, {"README.md": "OldHead was an idea of ours.\n"})
    assert unused(engine, "OldHead.forward") == ["OldHead.forward"]


def test_a_method_that_all_derived_classes_have_themselves(engine):
    bases = "class Mixin:\n    def prepare(self, x):\n        return x\n\n    def finish(self, x):\n        return x\n"
    net = "from engine.bases import Mixin\n\n\nclass Net(Mixin):\n    def prepare(self, x):\n        return 2 * x\n\n    def finish(self, x):\n        return super().finish(x)\n\n\nNet().prepare(1)\nNet().finish(1)\n"
    write(engine, {"engine/bases.py": bases, "engine/net.py": net})
    assert unused(engine, "Mixin.prepare", "Mixin.finish", file="engine/bases.py") == ["Mixin.prepare"]
    write(engine, {"engine/other.py": "from engine.bases import Mixin\n\nMixin().prepare(1)\n"})
    assert not unused(engine, "Mixin.prepare", file="engine/bases.py")


def test_what_an_inner_package_has_isnt_the_interface_of_the_project(engine):
    inner = {"engine/old/parts/__init__.py": "from .net import Net\n", "engine/old/__init__.py": ""}
    net = "class Net:\n    def run_all(self):\n        pass\n\n\ndef used():\n    pass\n"
    user = {"engine/run.py": "from engine.old.parts.net import used\n\nused()\n"}
    write(engine, {**inner, **user, "engine/old/parts/net.py": net})
    assert unused(engine, "Net.run_all", file="engine/old/parts/net.py")
    write(engine, {"engine/run.py": "from engine.old.parts import Net\n\nNet().run_all()\n"})
    assert not unused(engine, "Net.run_all", file="engine/old/parts/net.py")


def test_of_two_of_one_name_it_is_the_one_that_is_imported(engine):
    write(engine, {"engine/other.py": "class Head:\n    def forward(self, x):\n        return x\n"})
    write(engine, {"engine/more.py": "from engine.other import thing\n\nthing()\n"})
    write(engine, {"engine/others.py": "def thing():\n    pass\n"})
    assert not unused(engine, "Head.forward")
    write(
        engine,
        {"engine/other.py": "class Head:\n    def forward(self, x):\n        return x\n\n\ndef thing():\n    pass\n"},
    )
    assert unused(engine, "Head.forward", file="engine/other.py")


def test_a_mode_that_is_quoted_is_no_function_and_what_is_imported_by_name_is_that_alone(engine):
    write(engine, {"engine/tools.py": "def train():\n    pass\n\n\ndef shift():\n    pass\n"})
    write(engine, {"engine/run.py": "from engine.tools import shift\n\n\ndef train():\n    shift()\n\n\ntrain()\n"})
    write(engine, {"engine/data.py": "import os\n\nMODE = ['train', 'test']\nos.train(MODE)\n"})
    assert unused(engine, "train", "shift", file="engine/tools.py") == ["train"]
    write(engine, {"engine/more.py": "from engine import tools\n\ntools.train()\n"})
    assert not unused(engine, "train", file="engine/tools.py")


def test_nothing_is_dead_in_loose_files_on_top_nor_where_nobody_uses_the_neighbours(tmp_path):
    write(tmp_path, {"heads.py": HEADS, "serve.py": SERVE.replace("engine.", "")})
    assert not unused(tmp_path, "OldHead.forward", file="heads.py")
    alone = HEADS.replace('@register("rare")', "@no_grad()")
    write(tmp_path, {"apart/zoo/__init__.py": "", "apart/zoo/rare.py": alone})
    assert not unused(tmp_path, "OldHead.forward", file="apart/zoo/rare.py")
    # Those are the files of a project, of which nothing imports the last one.
    write(tmp_path, {"pyproject.toml": "", "net.py": "class Net:\n    def forward(self, x):\n        return x\n"})
    assert unused(tmp_path, "OldHead.forward", file="heads.py")
    assert not unused(tmp_path, "Net.forward", file="net.py")


def test_data_are_no_texts(engine):
    write(engine, {"data/heads.json": '["OldHead"]' + " " * 300_000})
    assert unused(engine, "OldHead.forward")
    write(engine, {"data/heads.json": '["OldHead"]'})
    assert not unused(engine, "OldHead.forward")


def test_an_answer_holds_for_as_long_as_no_text_changes(engine):
    heads = engine / "engine/heads.py"
    first = Project()
    assert first.is_unused(heads, "OldHead", "forward")
    (question,) = first.looks.asked[str(heads)]
    answer = first.looks.answers[question]
    assert Project().holds(question, answer)
    write(engine, {"engine/zoo.py": "X = 1\n"})
    assert Project().holds(question, answer)
    write(engine, {"engine/zoo.py": "from engine.heads import OldHead\n\nX = OldHead()\n"})
    assert not Project().holds(question, answer)


PROGRAM = """\
import argparse


def compare(path):
    return shrink(path)


def shrink(path):
    return path


def evaluate(path):
    return path


class Reader:
    def read(self):
        return evaluate(self)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--shrink", action="store_true")
    Reader().read()
"""


def test_what_a_program_leaves_aside_is_dead_where_nothing_imports_the_program(tmp_path):
    write(tmp_path, {"README.md": "", "LICENSE": "", "one/run.py": PROGRAM, "two/run.py": PROGRAM})
    write(tmp_path, {"two/all.py": "from run import compare\n\ncompare(1)\n"})
    names = ("compare", "shrink", "evaluate", "Reader.read")
    assert unused(tmp_path, *names, file="one/run.py") == ["compare", "shrink"]
    # The program beside it takes what it names out of the file in its own folder.
    assert not unused(tmp_path, *names, file="two/run.py")


def test_a_name_that_a_function_binds_itself_is_no_use(engine):
    write(engine, {"engine/apart.py": "def halves(x):\n    return x\n\n\ndef take(x):\n    return x\n"})
    write(engine, {"engine/user.py": "import engine.apart as apart\n\n\ndef f(x):\n    halves, y = x\n    return halves(y)\n\n\nf(apart)\n"})  # fmt: skip
    assert unused(engine, "halves", file="engine/apart.py") == ["halves"]
    write(engine, {"engine/user.py": "import engine.apart as apart\n\n\ndef f(x):\n    halves = apart.halves(x)\n    return halves\n\n\nf(1)\n"})  # fmt: skip
    assert not unused(engine, "halves", file="engine/apart.py")


def test_a_package_of_what_is_only_run_has_no_interface(tmp_path):
    nets = {"nets/__init__.py": "from nets.all import Big, Small\n", "nets/all.py": "class Big:\n    x = 1\n\n\nclass Small:\n    x = 2\n"}  # fmt: skip
    write(tmp_path, {"README.md": "", "LICENSE": "", "run.py": "from nets import Big\n\nprint(Big)\n", **nets})
    assert unused(tmp_path, "Big.", "Small.", file="nets/all.py") == ["Small."]
    write(tmp_path, {"setup.py": "from setuptools import setup\n\nsetup()\n"})
    assert not unused(tmp_path, "Small.", file="nets/all.py")


def test_a_repository_that_is_a_package_ends_there(tmp_path):
    files = {"__init__.py": "", "net.py": "def used(x):\n    return x\n\n\ndef other(x):\n    return x\n", "run.py": "from net import used\n\nused(1)\n"}  # fmt: skip
    write(tmp_path, {f"repo/{name}": text for name, text in files.items()})
    write(tmp_path, {"repo/.git/HEAD": "", "beside/more.py": "other(1)\n"})
    assert unused(tmp_path, "used", "other", file="repo/net.py") == ["other"]


@pytest.mark.parametrize(
    "statement",
    [
        "import typing",  # the file's own package has one, and isn't where it is looked for
        "from nets import Net",
        "from nets.more import anything",
        "from nets.made import named",
        "from nets.ops_cuda import scan",
        "try:\n    from nets.none import x\nexcept ImportError:\n    x = None",
        "import sys\n\nsys.path.append('lib')\nfrom nets.none import x",
        "from torch.none import x",
        "from .typing import X",
    ],
)
def test_what_may_be_had_is_imported_in_vain_by_nobody(tmp_path, statement):
    files = {"nets/__init__.py": "from nets.all import *\n", "nets/all.py": "class Net:\n    x = 1\n", "nets/more/__init__.py": "def __getattr__(name):\n    return name\n"}  # fmt: skip
    write(tmp_path, {"requirements.txt": "", "nets/typing.py": "X = 1\n", "torch/notes.py": "", **files})
    write(tmp_path, {"nets/made.py": "named: int\nglobals()['more'] = 1\n", "nets/user.py": f"{statement}\n"})
    assert not Project().is_broken(tmp_path / "nets/user.py")


@pytest.mark.parametrize(
    "statement",
    ["from nets.none import x", "from nets.all import Other", "import nets.none.more", "from .none import x", "from .all import (\n    Net,\n    Other,\n)"],
)  # fmt: skip
def test_a_file_is_broken_that_imports_what_its_project_has_not_got(tmp_path, statement):
    files = {"nets/__init__.py": "", "nets/all.py": "class Net:\n    x = 1\n"}
    write(tmp_path, {"requirements.txt": "", **files, "nets/user.py": f"{statement}\n"})
    assert Project().is_broken(tmp_path / "nets/user.py")
    # What another file of such a name has may be on a path that somebody sets.
    write(tmp_path, {"lib/nets/none/more.py": "x = 1\n", "lib/nets/none/__init__.py": "x = 1\n"})
    assert Project().is_broken(tmp_path / "nets/user.py") == ("all" in statement or statement.startswith("from ."))


def test_a_file_is_broken_though_the_project_builds_modules_of_other_names(tmp_path):
    made = "from torch.utils.cpp_extension import CUDAExtension\n\nsetup(ext_modules=[{}])\n"
    files = {"nets/__init__.py": "", "nets/user.py": "from nets.fused import x\n", "requirements.txt": ""}
    write(
        tmp_path, {**files, "points/setup.py": made.format("CUDAExtension(\n    name='points._ext', sources=['a.cu'])")}
    )
    assert Project().is_broken(tmp_path / "nets/user.py")
    for extension in ("CUDAExtension('nets.fused', ['a.cu'])", "CUDAExtension(name, sources)"):
        write(tmp_path, {"points/setup.py": made.format(extension)})
        assert not Project().is_broken(tmp_path / "nets/user.py")


def test_what_objects_get_by_name_is_no_name_of_their_module(tmp_path):
    nets = "class Net:\n    def __init__(self, **given):\n        setattr(self, 'given', given)\n        self.__dict__.update(given)\n"
    write(tmp_path, {"requirements.txt": "", "nets/all.py": nets, "user.py": "from nets.all import Other\n"})
    assert Project().is_broken(tmp_path / "user.py")


def test_a_package_that_others_load_imports_from_those(tmp_path):
    # As the packs of nodes that ComfyUI loads do.
    files = {
        ".git/config": "",
        "__init__.py": "",
        "nodes/__init__.py": "",
        "nodes/resize.py": "from nodes import MAX_RESOLUTION\n",
    }
    write(tmp_path, files)
    assert not Project().is_broken(tmp_path / "nodes/resize.py")


def test_many_classes_of_one_name_that_come_of_that_name(tmp_path):
    # Each may come of each of the others, going by the name: as many ways as there are orders of them.
    sampler = "from torch.utils.data import Sampler\n\n\nclass Sampler(Sampler):\n    def pick(self):\n        return {n}\n\n    def drop_{n}(self):\n        return 0\n"
    files = {f"samplers/s{n}.py": sampler.format(n=n) for n in range(30)}
    use = "from samplers import s1\n\nfor index in s1.Sampler().pick():\n    print(index)\n"
    write(tmp_path, {"requirements.txt": "", "samplers/__init__.py": "", **files, "train.py": use})
    project, path = Project(), tmp_path / "samplers/s1.py"
    assert not project.is_unused(path, "Sampler", "pick")
    # torch's class of that name, which isn't seen, may call it.
    assert not project.is_unused(path, "Sampler", "drop_1")


@pytest.mark.parametrize("marker", [".git/config", "pyproject.toml"])
def test_what_lies_around_a_project_says_nothing_of_its_files(tmp_path, marker):
    # `~/repos/thing` is where people clone to; in a project, `repos` holds what others keep.
    write(tmp_path, {f"repos/thing/{marker}": "", "repos/thing/train.py": "", "repos/thing/repos/net-2/net.py": ""})
    assert Project().place_of(tmp_path / "repos/thing/train.py") == "train.py"
    assert Project().place_of(tmp_path / "repos/thing/repos/net-2/net.py") == "repos/net-2/net.py"
