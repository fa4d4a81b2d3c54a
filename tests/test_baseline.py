"""Old findings are left out, new ones told, whatever happens around them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from repositories import devlint, git, told, write

from devlint.adoption.marks import Mark, sift

MOVE = 'x = torch.ones(3)\nx.to("cuda")\n'
HEAD = "import torch\n\n"
NAME = ".devlint-baseline.json"


def entries(folder: Path) -> list[dict]:
    return json.loads((folder / NAME).read_text())["findings"]


@pytest.fixture
def project(tmp_path):
    """Three old findings in two files, two of them alike."""
    write(
        tmp_path,
        {
            "pyproject.toml": "[tool.devlint]\n",
            "a.py": HEAD + MOVE + "print(x)\n" + MOVE,
            "b.py": HEAD + 'state = torch.load("a.pt")\nprint(state)\n',
        },
    )
    done = devlint(tmp_path, "baseline")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{NAME}: 3 findings (3 new, 0 gone)\n"
    return tmp_path


def test_what_was_there_is_left_out(project):
    done = devlint(project)
    assert (done.returncode, done.stdout) == (0, f"All checks passed!\nLeft out: 3 old findings, in {NAME}\n")
    assert told(project, "--no-baseline") == ["a.py:4 DEV101", "a.py:7 DEV101", "b.py:3 DEV301"]
    assert told(project, "--isolated") == told(project, "--no-baseline")
    assert [(e["path"], e["code"], e["count"], e["text"]) for e in entries(project)] == [
        ("a.py", "DEV101", 2, 'x.to("cuda")'),
        ("b.py", "DEV301", 1, 'state = torch.load("a.pt")'),
    ]
    # From another folder, by another name.
    (project / "sub").mkdir()
    assert told(project / "sub", str(project / "a.py"), "../b.py") == []


def test_it_holds_for_a_file_that_is_named_in_a_folder_without_settings_or_git(tmp_path):
    write(tmp_path, {"pkg/a.py": HEAD + MOVE})
    assert devlint(tmp_path, "baseline").returncode == 0
    assert told(tmp_path, "pkg/a.py") == []


def test_where_nothing_is_found_nothing_is_written_and_that_is_told(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "devlint", "baseline"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "No findings: there is no baseline to write\n"
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == []


def test_the_file_stays_as_it_is_when_nothing_changes(project):
    before = (project / NAME).read_bytes()
    write(project, {"a.py": HEAD + "\n\n# other lines\n" + MOVE + "print(x)\n" + MOVE})
    done = devlint(project, "baseline")
    assert done.stdout.endswith("3 findings (0 new, 0 gone)\n")
    assert told(project) == []
    write(project, {"a.py": HEAD + MOVE + "print(x)\n" + MOVE})
    devlint(project, "baseline")
    assert (project / NAME).read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\n\n# moved down\n" + MOVE + "print(x)\n" + MOVE,
        HEAD + "if True:\n    x = torch.ones(3)\n    x.to(\"cuda\")\nprint(  x  )\nx = torch.ones( 3 )\nx.to(\"cuda\")\n",
        HEAD.replace("\n", "\r\n") + (MOVE + "print(x)\n" + MOVE).replace("\n", "\r\n"),
        HEAD + MOVE + "print(x)\n" + "print('new')\n" + MOVE,
    ],
    ids=["moved", "others reformatted", "line ends", "lines between"],
)  # fmt: skip
def test_other_lines_may_change(project, text):
    write(project, {"a.py": text})
    assert told(project) == []


def test_one_more_of_a_kind_is_new_and_it_is_the_one_with_other_neighbours(project):
    write(project, {"a.py": HEAD + "def f():\n    x = torch.zeros(3)\n    x.to(\"cuda\")\n    return x\n\n\n" + MOVE + "print(x)\n" + MOVE})  # fmt: skip
    assert told(project) == ["a.py:5 DEV101"]
    done = devlint(project)
    assert done.returncode == 1
    assert done.stdout.endswith(
        f"Found 1 error in 1 file (1 fixable with --fix)\nLeft out: 3 old findings, in {NAME}\n"
    )


def test_a_file_with_another_name(project):
    (project / "lib").mkdir()
    (project / "a.py").rename(project / "lib" / "renamed.py")
    assert told(project) == []
    # A copy beside the file is none: there are more of a kind than before.
    write(project, {"a.py": (project / "lib" / "renamed.py").read_text()})
    assert len(told(project)) == 2
    (project / "a.py").unlink()
    assert devlint(project, "--update-baseline").returncode == 0
    assert [e["path"] for e in entries(project)] == ["b.py", "lib/renamed.py"]


def test_what_is_gone_is_told_and_dropped_when_asked(project):
    write(project, {"a.py": HEAD + MOVE.replace("x.to", "x = x.to") + "print(x)\n" + MOVE})
    done = devlint(project)
    assert done.stdout.splitlines()[1:] == [
        f"Left out: 2 old findings, in {NAME}",
        f"Gone: 1 old finding; --update-baseline drops it from {NAME}",
    ]
    assert len(entries(project)) == 2
    # Only what was looked for is gone.
    assert "Gone" not in devlint(project, "b.py").stdout
    assert "Gone" not in devlint(project, "--select", "DEV3").stdout
    assert "Gone" not in devlint(project, "--confidence", "certain").stdout
    assert devlint(project, "--update-baseline", "--select", "DEV3").returncode == 0
    assert [e["count"] for e in entries(project)] == [2, 1]
    assert devlint(project, "--update-baseline").returncode == 0
    assert [e["count"] for e in entries(project)] == [1, 1]
    # It comes back: it is new.
    write(project, {"a.py": HEAD + MOVE + "print(x)\n" + MOVE})
    assert len(told(project)) == 1


def test_updating_only_shrinks_and_baseline_of_a_path_leaves_the_others(project):
    write(project, {"c.py": HEAD + MOVE, "b.py": HEAD})
    assert devlint(project, "--update-baseline").returncode == 1
    assert [e["path"] for e in entries(project)] == ["a.py"]
    done = devlint(project, "baseline", "c.py")
    assert done.stdout.endswith("3 findings (1 new, 0 gone)\n")
    assert [e["path"] for e in entries(project)] == ["a.py", "c.py"]
    assert told(project) == []


def test_a_file_that_cannot_be_read_keeps_its_old_findings(project):
    write(project, {"a.py": "import torch\nx = torch.ones(3).to(\n"})
    done = devlint(project)
    assert done.returncode == 2
    assert "Gone" not in done.stdout
    assert devlint(project, "--update-baseline").returncode == 2
    assert [e["count"] for e in entries(project)] == [2, 1]
    done = devlint(project, "baseline")
    assert done.returncode == 2
    assert "a.py:2: isn't valid Python" in done.stderr
    assert "DEV000" not in (project / NAME).read_text()


def test_another_place_and_other_roots(tmp_path):
    write(tmp_path, {"devlint.toml": 'baseline = "ci/old.json"\n', "a.py": HEAD + MOVE, "b.py": HEAD + MOVE})
    (tmp_path / "ci").mkdir()
    write(tmp_path / "inner", {"devlint.toml": "", "a.py": HEAD + MOVE})
    (tmp_path / "inner" / "devlint.toml").write_text("")
    assert devlint(tmp_path, "baseline").returncode == 0
    assert [e["path"] for e in json.loads((tmp_path / "ci" / "old.json").read_text())["findings"]] == [
        "../a.py",
        "../b.py",
    ]
    assert [e["path"] for e in entries(tmp_path / "inner")] == ["a.py"]
    assert told(tmp_path) == []
    assert devlint(tmp_path, "baseline", "--baseline", "all.json").returncode == 0
    assert len(json.loads((tmp_path / "all.json").read_text())["findings"]) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "isn't a baseline of devlint; write it anew with `devlint baseline`"),
        ("[]", "isn't a baseline of devlint"),
        ('{"form": 99, "findings": []}', "is of form 99, this devlint reads 1"),
        ('{"form": 1, "findings": [{}]}', "isn't a baseline of devlint"),
        ('{\n<<<<<<< HEAD\n"form": 1', "holds the marks of a merge conflict; keep the lines of both sides"),
    ],
)
def test_a_baseline_that_cannot_be_used(project, text, message):
    write(project, {NAME: text})
    done = devlint(project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {project / NAME}: {message}")
    assert done.stderr.count("\n") == 1
    assert told(project, "--no-baseline")


def test_two_branches_that_change_it_can_be_merged(tmp_path):
    files = {f"m{n}.py": HEAD + MOVE for n in range(9)}
    write(tmp_path, {"pyproject.toml": "[tool.devlint]\n", **files})
    devlint(tmp_path, "baseline")
    git(tmp_path, "init", "-q", "-b", "main")

    def save(message):
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", message)

    save("old")
    git(tmp_path, "checkout", "-q", "-b", "other")
    write(tmp_path, {"m1.py": HEAD})
    devlint(tmp_path, "--update-baseline")
    save("one is gone")
    git(tmp_path, "checkout", "-q", "main")
    write(tmp_path, {"m7.py": HEAD})
    devlint(tmp_path, "--update-baseline")
    save("another is gone")
    git(tmp_path, "merge", "-q", "-m", "both", "other")
    assert [e["path"] for e in entries(tmp_path)] == [f"m{n}.py" for n in range(9) if n not in (1, 7)]
    assert devlint(tmp_path).stdout == f"All checks passed!\nLeft out: 7 old findings, in {NAME}\n"


def test_what_goes_together(project):
    for arguments in (["--update-baseline", "--no-baseline"], ["--update-baseline", "--confidence", "certain"]):
        assert devlint(project, *arguments).returncode == 2
    # Standard input under a file's name has its old findings too.
    done = devlint(project, "-q", "a.py", "b.py")
    assert done.stdout == ""


def test_a_baseline_that_cannot_be_written(project):
    if os.geteuid() == 0:
        pytest.skip("root may write any file")
    (project / NAME).chmod(0o444)
    write(project, {"c.py": HEAD + MOVE})
    done = devlint(project, "baseline")
    assert done.returncode == 2
    assert "can't be written" in done.stderr


def mark(text: str, near: str = "a-b", path: str = "f.py") -> Mark:
    return Mark(path, "DEV101", text, near)


def test_as_many_of_a_kind_are_old_as_there_were():
    old = [mark("x", "1-2"), mark("x", "3-4")]
    now = [mark("x", "9-9"), mark("x", "3-9"), mark("x", "1-2")]
    sifted = sift(now, old, lambda _: False)
    assert sifted.new == [mark("x", "9-9")]
    assert sorted(sifted.known) == [(mark("x", "1-2"), mark("x", "1-2")), (mark("x", "3-9"), mark("x", "3-4"))]
    assert sift(now[:1], old, lambda _: False).gone == [mark("x", "3-4")]
    assert sift([], old, lambda _: False).gone == old


def test_what_moves_to_another_file_is_known_only_when_its_own_is_gone():
    old, now = [mark("x")], [mark("x", path="g.py")]
    assert sift(now, old, lambda _: False).new == now
    assert sift(now, old, lambda path: path == "f.py").new == []
