"""The benchmark of real bugs, on a project that has one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import real_bugs
from benchmarks.real_bugs import Bug, Finding, Outcome

BROKEN = "import torch\n\n\ndef save(model):\n    pass\n\n\ndef load_model(path):\n    return torch.load(path)\n"
MENDED = '"""Checkpoints."""\n\n' + BROKEN.replace("(path)\n", '(path, map_location="cpu")\n')
BUG = Bug("me/it", "f" * 40, "it.py", (9,), ("DEV301", "DEV603"), "file", "no map_location")


def git(folder, *arguments):
    name = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    done = subprocess.run(["git", "-C", folder, *name, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def clones(tmp_path):
    folder = tmp_path / "clones" / "deep" / "me__it"
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for text in (BROKEN, MENDED):
        (folder / "it.py").write_text(text)
        # A name that a linter run in the tree must not import.
        (folder / "json.py").write_text("raise SystemExit('imported')\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "it")
    return tmp_path / "clones"


def bench(tmp_path, clones, *options, rows):
    table = tmp_path / "bugs.tsv"
    table.write_text("\n".join(["\t".join(real_bugs.COLUMNS), *("\t".join(row) for row in rows)]) + "\n")
    places = ["--clones", clones, "--table", table, "--cache", tmp_path / "cache", "--jobs", "1"]
    command = [sys.executable, real_bugs.__file__, *places, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_bug_is_found_in_the_parent_and_gone_in_the_fix(tmp_path, clones):
    fix = git(clones / "deep" / "me__it", "rev-parse", "HEAD")
    row = ["me/it", fix, "it.py", "9", "DEV301", "file", "no map_location"]
    rows = [row, [*row[:3], "1", *row[4:]], [*row[:4], "NEW:kind", *row[5:]], ["not/here", *row[1:]]]
    done = bench(tmp_path, clones, "--list", "all", "--after", rows=rows)
    assert done.stderr == ""
    found, missed, *table = done.stdout.splitlines()
    assert found.startswith(f"me/it  {fix[:10]}  it.py:9  file  DEV301  no map_location  found: DEV301:9")
    assert missed.endswith("missed; near: DEV301:9")
    assert "| file | 1 | 2 | 50% |" in table
    assert table[-2:] == [
        "1 not counted: kinds of bugs that no rule is about.",
        "1 rows are left out, since no clone was found of not/here.",
    ]


def test_a_finding_that_the_fix_left_is_told(tmp_path, clones):
    folder = clones / "deep" / "me__it"
    (folder / "it.py").write_text("# Moved down.\n" * 30 + BROKEN)
    git(folder, "commit", "-qam", "no fix")
    git(folder, "revert", "--no-edit", "HEAD")
    git(folder, "revert", "--no-edit", "HEAD")
    git(folder, "commit", "-q", "--allow-empty", "-m", "mended, it says")
    row = ["me/it", git(folder, "rev-parse", "HEAD"), "it.py", "39", "DEV301", "file", ""]
    assert "    left after the fix: DEV301:39 " in bench(tmp_path, clones, "--after", rows=[row]).stdout


def test_the_best_code_within_two_lines_is_the_hit():
    def finding(line, code, path="it.py"):
        return Finding(path, line, code, "")

    assert real_bugs.hit(BUG, [finding(12, "DEV301"), finding(6, "DEV301"), finding(9, "DEV201")]) is None
    assert real_bugs.hit(BUG, [finding(9, "DEV301", "other.py")]) is None
    best, worse, farther = finding(7, "DEV301"), finding(9, "DEV603"), finding(11, "DEV603")
    assert real_bugs.hit(BUG, [farther, worse]) == worse
    assert real_bugs.hit(BUG, [worse, best]) == best


def test_lines_are_followed_through_a_change():
    before = list("abcdef")
    assert real_bugs.moved([1, 6], before, ["new", *before]) == {2, 7}
    assert real_bugs.moved([3], before, ["a", "b", "x", "y", "d", "e", "f"]) == {3, 4}
    assert real_bugs.moved([3], before, ["a", "b", "d", "e", "f"]) == set()


def test_rows_of_unknown_codes_are_told():
    outcomes = [Outcome(BUG, None)]
    assert "| DEV301 | 0 / 1 |" in real_bugs.summary(outcomes, {"DEV301"})
    told = real_bugs.summary(outcomes, {"DEV203"})
    assert "| DEV301 (no such rule) | 0 / 1 |" in told
    assert told.endswith("1 of the counted have only codes that the installed rules lack.")


def test_the_table_that_comes_with_it_can_be_read():
    bugs = real_bugs.read_bugs(real_bugs.TABLE)
    assert sum(bug.counted and bug.decidable == "file" for bug in bugs) == 223
    assert bugs[0].lines == (255, 256, 257)


def test_the_table_of_stalls_can_be_read():
    stalls = real_bugs.read_bugs(real_bugs.TABLES["stalls"])
    assert [sum(s.counted and s.decidable == kind for s in stalls) for kind in ("file", "project")] == [145, 78]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("me/it", "has 1 cells"),
        ("me/it\tf\tit.py\tnine\tDEV301\tfile\tx", "'nine' isn't a list of line numbers"),
        ("me/it\tf\tit.py\t9\tDEV301\tnobody\tx", "'nobody' isn't one of file, project, run"),
    ],
)
def test_a_row_that_is_none_is_refused(tmp_path, row, said):
    done = bench(tmp_path, tmp_path, rows=[row.split("\t")])
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path / 'bugs.tsv'}:2: {said}")
    assert done.stderr.count("\n") == 1
