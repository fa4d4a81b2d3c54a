"""What of a project is read for one file: what that uses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from devlint.batch import Plan, Worker
from devlint.engine import Linter
from devlint.files import Target, read_source
from devlint.rule import load_registry
from devlint.settings import Settings
from devlint.source.project import Project, parse

USER = """\
import torch
from near import move

x = move(torch.ones(3))
print(x.numpy())
"""
NEAR = """\
from far import anything, something

try:
    from far_too import more
except ImportError:
    more = None

DEVICE = "cuda"


def move(x):
    return x.to(DEVICE)


def unused():
    return anything(something(more))
"""


def read_for(name: str, root: Path, monkeypatch) -> tuple[list[str], set[str]]:
    """The codes found in a file, and the names of the files that were parsed for it."""
    loaded: set[str] = set()

    def load(self: Project, path: Path):
        loaded.add(path.relative_to(root).as_posix())
        return read(self, path)

    read = Project._read
    monkeypatch.setattr(Project, "_read", load)
    linter = Linter(Settings(root=root, src=(root,)), load_registry())
    return [f.code for f in linter.check(read_source(root / name, name))], loaded


def test_what_is_imported_and_not_used_is_not_read(tmp_path, monkeypatch):
    for name, text in {"user": USER, "near": NEAR, "far": "import farther\n", "far_too": "more = 1\n"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    codes, loaded = read_for("user.py", tmp_path, monkeypatch)
    assert codes == ["DEV204"]
    assert loaded == {"near.py"}


def test_an_import_is_followed_where_it_is_used(tmp_path, monkeypatch):
    far = "def anything(x):\n    return x\ndef something(x):\n    return x\n"
    near = NEAR.replace("x.to(DEVICE)", "anything(something(x.to(DEVICE)))")
    for name, text in {"user": USER, "near": near, "far": far}.items():
        (tmp_path / f"{name}.py").write_text(text)
    codes, loaded = read_for("user.py", tmp_path, monkeypatch)
    assert codes == ["DEV204"]
    assert loaded == {"near.py", "far.py"}


def test_other_packages_are_followed_where_they_speak_of_tensors(tmp_path, monkeypatch):
    user = "import torch\nimport plain\nimport moving\n\nx = torch.ones(3)\nprint(plain.same(x), moving.moved(x).numpy())\n"
    texts = {
        "app/__init__": "",
        "app/user": user,
        "plain/__init__": "from plain.more import same\n",
        "plain/more": "from plain.deep import identity\n\ndef same(x):\n    return identity(x)\n",
        "plain/deep": "from plain.l0 import step as identity\n",
        **{
            f"plain/l{i}": f"from plain.l{i + 1} import step as next\n\ndef step(x):\n    return next(x)\n"
            for i in range(6)
        },
        "plain/l6": "def step(x):\n    return x\n",
        "moving/__init__": "from moving.more import moved\n",
        "moving/more": 'def moved(x):\n    return x.to("cuda")\n',
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(text)
    codes, loaded = read_for("app/user.py", tmp_path, monkeypatch)
    assert codes == ["DEV204"]
    assert "moving/more.py" in loaded
    assert "plain/l5.py" not in loaded


def test_an_attribute_that_is_one_of_many_functions(tmp_path, monkeypatch):
    """More than are told apart."""
    names = "abcdefghijkl"
    text = "import torch\n\n" + "".join(f"\n\ndef {n}(x):\n    return x * 2\n" for n in names)
    text += f"\n\nTABLE = {{{', '.join(f'{n!r}: {n}' for n in names)}}}\n"
    text += "\n\nclass Op:\n    def __init__(self, name):\n        self.op = TABLE[name]\n"
    text += "\n    def run(self, x):\n        return self.op(x.cpu() + torch.ones(3))\n"
    (tmp_path / "user.py").write_text(text)
    assert read_for("user.py", tmp_path, monkeypatch)[0] == []


def test_what_is_too_much_for_one_file_is_not_read_without_end(tmp_path, monkeypatch):
    """Modules that use one another, and don't fit: each is read twice at most, and the next file starts anew."""
    count = 8
    for number in range(count):
        others = [n for n in range(count) if n != number]
        lines = [
            f"def f{number}(x):",
            *(f"    from m{n} import f{n}" for n in others),
            *(f"    x = f{n}(x)" for n in others),
        ]
        (tmp_path / f"m{number}.py").write_text("\n".join(["import torch", *lines, "    return x.cuda()", ""]))
    (tmp_path / "main.py").write_text("import torch\nfrom m0 import f0\n\nf0(torch.ones(3)).numpy()\n")
    small = sum(file.stat().st_size for file in tmp_path.iterdir()) // 2
    monkeypatch.setattr("devlint.source.project.MAX_BYTES_OF_ONE_FILE", small)
    read: list[Path] = []
    really_read = Project._read

    def noted(self: Project, path: Path):
        read.append(path)
        return really_read(self, path)

    monkeypatch.setattr(Project, "_read", noted)
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
    linter.check(read_source(tmp_path / "main.py", "main.py"))
    assert max(Counter(read).values()) <= 2
    monkeypatch.setattr("devlint.source.project.MAX_BYTES_OF_ONE_FILE", 20_000_000)
    assert [f.code for f in linter.check(read_source(tmp_path / "main.py", "main.py"))] == ["DEV204"]


MOVER = "def move(x):\n    return x.to('cuda')\n"


@pytest.mark.parametrize(
    ("files", "is_found"),
    [
        ({"tools.py": MOVER}, True),
        # By another star, and by another name.
        ({"tools.py": "from more import *\n", "more.py": MOVER}, True),
        ({"tools.py": "from more import go as move\n", "more.py": MOVER.replace("move", "go")}, True),
        ({"tools.py": "move = lambda x: x.to('cuda')\n"}, True),
        # Named in a text, a comment and a call alone.
        ({"tools.py": "# move\ntext = 'move'\nprint(move())\n"}, False),
        # Bound by what nobody reads.
        ({"tools.py": "from nowhere import *\n"}, False),
    ],
)
def test_what_a_star_brings_is_known_where_its_module_binds_it(tmp_path, files, is_found):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.py").write_text("import torch\nfrom tools import *\n\nprint(move(torch.ones(3)).numpy())\n")
    assert (codes(tmp_path, ["main.py"]) == {"main.py": ["DEV204"]}) is is_found


def test_what_is_linted_after_room_was_made_is_found_as_before(tmp_path, monkeypatch):
    (tmp_path / "near.py").write_text(MOVER)
    names = [f"user{i}.py" for i in range(5)]
    for name in names:
        (tmp_path / name).write_text(USER)
    before = codes(tmp_path, names)
    # No more than one file is kept from then on.
    for limit in ("MAX_KEPT_BYTES", "MAX_SHARED_BYTES"):
        monkeypatch.setattr(f"devlint.source.project.{limit}", 1)
    assert codes(tmp_path, names) == before == {name: ["DEV204"] for name in names}


@pytest.mark.parametrize("kept", [1, len(MOVER) + len(USER)])
def test_where_room_is_made_what_no_other_file_asks_for_goes_first(tmp_path, monkeypatch, kept):
    names = [f"user{i}.py" for i in range(5)]
    for name in ("near.py", *names):
        (tmp_path / name).write_text(MOVER if name == "near.py" else USER)
    parsed: list[str] = []

    def noted(text: str):
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr("devlint.source.project.parse", noted)
    monkeypatch.setattr("devlint.source.project.MAX_KEPT_BYTES", kept)
    assert codes(tmp_path, names) == {name: ["DEV204"] for name in names}
    assert parsed.count(MOVER) == 1


@pytest.mark.parametrize("names", [["near.py", "user.py"], ["user.py", "near.py"]])
def test_a_file_is_parsed_once_whether_it_is_linted_or_imported(tmp_path, names, monkeypatch):
    (tmp_path / "near.py").write_text(f"import torch\n\n\n{MOVER}\n\nmove(torch.ones(3)).numpy()\n")
    (tmp_path / "user.py").write_text(USER)
    parsed: list[str] = []

    def noted(text: str):
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr("devlint.source.project.parse", noted)
    assert codes(tmp_path, names) == {"near.py": ["DEV204"], "user.py": ["DEV204"]}
    assert set(Counter(parsed).values()) == {1}


def test_a_file_that_is_linted_twice_has_the_same_findings(tmp_path):
    (tmp_path / "main.py").write_text("import torch\n\n\ndef move(x: torch.Tensor):\n    x.cuda()\n    return x\n")
    linter = Linter(Settings(root=tmp_path), load_registry())
    found = [linter.check(read_source(tmp_path / "main.py", "main.py")) for _ in range(2)]
    assert [[finding.code for finding in each] for each in found] == [["DEV101"]] * 2


def test_a_text_that_the_disk_has_not_is_nothing_to_those_that_import_the_file(tmp_path):
    (tmp_path / "near.py").write_text(MOVER)
    (tmp_path / "user.py").write_text(USER)
    linter = Linter(Settings(root=tmp_path), load_registry())
    unsaved = read_source(tmp_path / "near.py", "near.py").with_text("import torch\n\n\ndef move(x):\n    return x\n")
    assert linter.check(unsaved) == []
    assert [f.code for f in linter.check(read_source(tmp_path / "user.py", "user.py"))] == ["DEV204"]


def test_a_library_that_was_mended_is_read_anew_for_those_that_import_it(tmp_path):
    (tmp_path / "near.py").write_text("import torch\n\n\ndef move(x: torch.Tensor):\n    x.cuda()\n    return x\n")
    # More than are looked at for the file itself.
    users = [f"user{number}.py" for number in range(6)]
    for name in users:
        (tmp_path / name).write_text(USER)
    settings = Settings(root=tmp_path, extend_safe_fixes=("DEV204",))
    worker = Worker(Plan(fix=True, named=(str(tmp_path.resolve()),)), load_registry())
    mended, *fixed = [worker.run(Target(tmp_path / name, name, settings)).fixed for name in ("near.py", *users)]
    assert [finding.code for finding in mended] == ["DEV101"]
    assert [[finding.code for finding in found] for found in fixed] == [["DEV204"]] * len(users)


def codes(root: Path, names: list[str]) -> dict[str, list[str]]:
    """What one linter finds in some files, one after the other."""
    linter = Linter(Settings(root=root), load_registry())
    return {name: [f.code for f in linter.check(read_source(root / name, name))] for name in names}


@pytest.mark.parametrize(("says", "is_read"), [("", False), ("import torch\n", True)])
def test_a_library_that_has_nothing_to_do_with_tensors_is_not_followed(tmp_path, says, is_read):
    """All of a library of tables hangs together: followed from one call, it took gigabytes and never ended."""
    package = tmp_path / "tables"
    package.mkdir()
    files = {
        "__init__": "from tables.frame import made\n",
        "frame": "from tables.index import indexed\n\n\ndef made(x, device=None):\n    return indexed(x)\n",
        "index": "from tables.types import typed\n\n\ndef indexed(x):\n    return typed(x)\n",
        "types": "from tables.deep import nested\n\n\ndef typed(x):\n    return nested(x)\n",
        "deep": "def nested(x):\n    return x\n",
        "other": says,
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    file = tmp_path / "main.py"
    file.write_text(
        "import torch\nfrom tables import made\n\nx = made(torch.ones(3)).cuda() + torch.ones(3)\nprint(x.numpy())\n"
    )
    linter = Linter(Settings(root=tmp_path, src=(tmp_path,)), load_registry())
    linter.check(read_source(file, "main.py"))
    assert (package / "frame.py" in linter.project().loaded) is True
    assert (package / "deep.py" in linter.project().loaded) is is_read


def test_findings_do_not_hang_on_how_a_path_is_given(tmp_path, monkeypatch):
    """Relative, absolute, from another folder, by a link, as a file or a folder: the same lines are told."""
    package = tmp_path / "project" / "package"
    package.mkdir(parents=True)
    (tmp_path / "project" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (package / "__init__.py").write_text("")
    (package / "near.py").write_text(NEAR.replace("from far import", "from package.far import"))
    (package / "far.py").write_text("def anything(x):\n    return x\n\n\nsomething = anything\n")
    user = package / "user.py"
    user.write_text(USER.replace("from near", "from package.near"))
    (tmp_path / "linked").symlink_to(tmp_path / "project")
    told = set()
    for folder, given in (
        (package, "user.py"),
        (package, "./user.py"),
        (package, "../package/user.py"),
        (package, "."),
        (tmp_path / "project", "package/user.py"),
        (tmp_path / "project", "package"),
        (tmp_path, "project/package/user.py"),
        (tmp_path, str(user)),
        (tmp_path / "linked", "package/user.py"),
    ):
        monkeypatch.chdir(folder)
        command = [sys.executable, "-P", "-m", "devlint", "check", given, "--output-format", "json", "--no-cache"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1, (given, done.stderr)
        found = [f for f in json.loads(done.stdout) if f["path"].endswith("user.py")]
        told.add(tuple((f["code"], f["line"], f["column"], f["message"]) for f in found))
    ((only,),) = (told,)
    assert [code for code, *_ in only] == ["DEV204"]


def test_what_lies_beside_a_repository_with_an_init_on_top_is_no_part_of_it(tmp_path: Path) -> None:
    for name, text in (("mine", "import torch\n"), ("yours", "import torch\n\ntorch.ones(2).cuda()\n")):
        (tmp_path / name / ".git").mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "train.py").write_text(text)
        (tmp_path / name / "run.py").write_text(f"from {name}.train import torch\nimport train\n")
    project = Project()
    mine, yours = (tmp_path / name / "train.py" for name in ("mine", "yours"))
    assert not project.texts_match(r"\.cuda\(", tmp_path / "mine" / "run.py")
    assert project.texts_match(r"\.cuda\(", tmp_path / "yours" / "run.py")
    assert project.importers_of(mine) == [tmp_path / "mine" / "run.py"]
    assert project.importers_of(yours) == [tmp_path / "yours" / "run.py"]
    # Its own name leads into it all the same.
    assert project.locate("mine.train", tmp_path / "mine" / "run.py") == mine


def test_a_folder_that_becomes_a_repository_is_asked_about_anew(tmp_path: Path) -> None:
    for name, text in (("mine", "import torch\n"), ("yours", "import torch\n\ntorch.ones(2).cuda()\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "train.py").write_text(text)
    train = tmp_path / "mine" / "train.py"
    before = Project()
    assert before.texts_match(r"\.cuda\(", train)
    before.name_of(train)
    asked = dict(before.looks.answers)
    assert all(Project().holds(question, answer) for question, answer in asked.items())
    (tmp_path / "mine" / ".git").mkdir()
    assert not all(Project().holds(question, answer) for question, answer in asked.items())
