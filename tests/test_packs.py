"""Rule packs of others: each rule is checked when it is loaded, and an error in one costs that rule alone."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from devlint import __version__
from devlint.rule import META_RULES, PackError, rules_in

RULE = '''
from devlint.lazy import m
from devlint.rule import Report, Rule


class Prints(Rule):
    """A print.

    ## What it does
    Flags prints.

    ## Why is this bad
    It isn't.
    """

    code = "XYZ001"
    name = "a-print"
    trigger = r"print"

    def shape(self):
        return m.Call(func=m.Name("print"))

    def judge(self, node, facts):
        yield Report(node, "a print")
'''
PROGRAM = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\nprint(x)\n'


@pytest.fixture
def pack(tmp_path, monkeypatch):
    """Installs a pack, for this test and for programs that it starts."""
    site = tmp_path / "site"

    def install(text: str, name: str = "mypack", version: str = "1.2") -> None:
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(text)
        information = site / f"{name}-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (information / "entry_points.txt").write_text(f"[devlint.rules]\n{name} = {name}\n")

    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.delenv("DEVLINT_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    return install


def devlint(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "devlint", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_pack_of_ones_own(pack, tmp_path):
    pack(RULE)
    Path("x.py").write_text(PROGRAM)
    done = devlint("x.py", "--output-format", "json")
    assert [f["code"] for f in json.loads(done.stdout)] == ["DEV101", "XYZ001"]


@pytest.mark.parametrize(
    "raised", ["ZeroDivisionError('oh\\nno')", "RecursionError()", "MemoryError()", "AssertionError"]
)
def test_an_error_in_a_rule_costs_that_rule_alone_and_names_its_pack(pack, raised):
    pack(RULE.replace('yield Report(node, "a print")', f'yield Report(node, "a print")\n        raise {raised}'))
    Path("x.py").write_text(PROGRAM)
    done = devlint("x.py", "--fix", "--output-format", "json")
    assert done.returncode == 2
    found = {f["code"]: f["message"] for f in json.loads(done.stdout)}
    # The other rule's finding was fixed, and what this one said before is kept.
    assert set(found) == {"DEV000", "XYZ001"}
    assert found["DEV000"].startswith(
        f"internal error in XYZ001 of the rule pack mypack 1.2, please report it: {raised.split('(')[0]}"
    )
    assert Path("x.py").read_text() == PROGRAM.replace("x.to", "x = x.to")


def test_a_code_that_is_taken_is_an_error_that_names_both(pack):
    pack(RULE.replace("XYZ001", "DEV101"))
    done = devlint("rules")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: left out: the rule pack mypack 1.2: mypack.Prints (DEV101, a-print) takes the code or name of DEV101 (discarded-move) of the rule pack devlint {__version__}"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            RULE.replace("## Why is this bad", "## Why"),
            "mypack.Prints: its docstring has no section '## Why is this bad'",
        ),
        ("def rule(:\n", "can't be loaded: SyntaxError: invalid syntax"),
    ],
)
def test_what_cannot_be_used_is_left_out_and_the_rest_is_linted(pack, text, said):
    # Somebody may be writing that rule just now: other projects of the same Python go on.
    pack(text)
    Path("x.py").write_text(PROGRAM)
    done = devlint("x.py", "--output-format", "concise")
    assert done.returncode == 2
    assert "x.py:4:1: DEV101" in done.stdout
    assert done.stderr.startswith("error: left out: the rule pack mypack 1.2")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_name_that_is_taken_and_two_packs_of_one_code(pack):
    pack(RULE.replace("a-print", "unused-suppression"))
    assert "takes the code or name of DEV001 (unused-suppression) of devlint itself" in devlint("rules").stderr


def test_two_packs_that_want_one_code(pack):
    pack(RULE)
    pack(RULE.replace("a-print", "another-print"), "otherpack", "3")
    done = devlint("rules")
    assert "the rule pack otherpack 3: otherpack.Prints (XYZ001, another-print) takes" in done.stderr
    assert "of XYZ001 (a-print) of the rule pack mypack 1.2" in done.stderr


def test_a_pack_that_cannot_be_imported(pack):
    pack("import nosuchmodule\n")
    done = devlint("rules")
    assert done.returncode == 2
    assert done.stderr == (
        "error: left out: the rule pack mypack 1.2 can't be loaded: ModuleNotFoundError: No module named 'nosuchmodule'; "
        "mend or uninstall it\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"XYZ001"', '"xyz"', "code 'xyz' isn't letters"),
        ('"XYZ001"', "None", "code None isn't letters"),
        ('name = "a-print"', 'name = "A print"', "name 'A print' isn't words"),
        ('name = "a-print"', "", "it has no `name`"),
        ("## Why is this bad", "## Reasons", "its docstring has no section '## Why is this bad'"),
        ('trigger = r"print"', 'trigger = r"("', "trigger '\\(' isn't a regular expression"),
        ('trigger = r"print"', "", "it has no `trigger`"),
        ('trigger = r"print"', 'trigger = r"x"\n    needs = (r"[",)', "needs '\\[' isn't a regular expression"),
        ('trigger = r"print"', 'trigger = r"x"\n    fix = "yes"', "fix 'yes' isn't one of S, U"),
        ('trigger = r"print"', 'trigger = r"x"\n    event = "rain"', "event 'rain' isn't one of missing-attribute"),
        ("def shape", "def form", "it has no `shape`"),
        ("def judge", "def look", "it has no `judge`"),
    ],
)
def test_a_rule_is_checked_when_it_is_loaded(tmp_path, monkeypatch, old, new, said):
    (tmp_path / "checkedpack.py").write_text(RULE.replace(old, new))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "checkedpack", raising=False)
    with pytest.raises(PackError, match=f"checkedpack.Prints: {said}") as told:
        list(rules_in(importlib.import_module("checkedpack")))
    assert "\n" not in str(told.value)


def test_our_own_codes_are_checked_alike():
    assert {rule.code for rule in META_RULES} == {"DEV000", "DEV001", "DEV002", "DEV003"}


REMOVES = (
    RULE.replace(
        'yield Report(node, "a print")',
        'yield Report(node, "a print", change=Change("leave it out", "safe", edits=(facts.removed(facts.statement),)))',
    )
    .replace("import Report, Rule", "import Change, Report, Rule")
    .replace('trigger = r"print"', 'trigger = r"print"\n    fix = "S"')
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("step(); print(x)", "step()"),
        ("print(x); step()", "step()"),
        ("step(); print(x); step()", "step(); step()"),
        ("print(x);  # why", ""),
        ("for _ in x: print(x)", "for _ in x: pass"),
        ("if x:\n    print(\n        x)\nelse:\n    step()", "if x:\n    pass\nelse:\n    step()"),
        ("if x:\n    print(x)\n    step()", "if x:\n    step()"),
        ("print(x)", ""),
    ],
)
def test_a_statement_is_removed_alone(pack, tmp_path, before, after):
    pack(REMOVES)
    head = "import torch\n\nx = torch.ones(3)\nstep = x.sum\n"
    (tmp_path / "a.py").write_text(head + before + "\nstep()\n")
    devlint("check", "--select", "XYZ001", "--fix", "a.py")
    if "# why" in before:
        # A comment is lost in no fix.
        assert before in (tmp_path / "a.py").read_text()
    else:
        assert (tmp_path / "a.py").read_text() == head + (f"{after}\n" if after else "") + "step()\n"


@pytest.mark.parametrize(
    ("word", "wrong", "said"),
    [
        ('node, "a print"', 'node, "a print", "sure"', "confidence 'sure' isn't one of certain, likely"),
        ('node, "a print"', 'node, "a", change=Change("x", "risky")', "safety 'risky' isn't one of safe, unsafe"),
    ],
)
def test_a_report_in_words_that_there_arent_is_told_with_its_rule(pack, tmp_path, word, wrong, said):
    pack(RULE.replace(word, wrong).replace("import Report, Rule", "import Change, Report, Rule"))
    (tmp_path / "a.py").write_text(PROGRAM)
    done = devlint("check", "a.py")
    assert done.returncode == 2
    assert "internal error in XYZ001 of the rule pack mypack 1.2" in done.stdout
    assert said in done.stdout


@pytest.mark.parametrize("lacking", ["code", "name", "trigger"])
def test_a_rule_that_lacks_something_is_told_and_the_others_are_listed(pack, lacking):
    pack("\n".join(line for line in RULE.split("\n") if not line.startswith(f"    {lacking} = ")))
    assert f"it has no `{lacking}`; mend or uninstall it" in devlint("check").stderr
    # The page that was asked for is all there; the list lacks something.
    for listed, code in ((devlint("rules"), 2), (devlint("rule", "DEV101"), 0)):
        assert listed.returncode == code
        assert "DEV101" in listed.stdout
        assert f"left out: the rule pack mypack 1.2: mypack.Prints: it has no `{lacking}`" in listed.stderr


def test_two_rules_of_a_pack_that_isnt_installed_have_names_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert devlint("new-rule", "ACME001", "some-name", "acme-rules").returncode == 0
    done = devlint("new-rule", "ACME002", "some-name", "acme-rules")
    assert done.returncode == 2
    assert 'acme001.py has `name = "some-name"` already: choose another' in done.stderr.replace("\\", "/")
    assert devlint("new-rule", "ACME002", "other-name", "acme-rules").returncode == 0
