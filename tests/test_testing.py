"""The test kit for rule packs: what it says of cases and pages that aren't right, on a real rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devlint.rule import load_registry
from devlint.testing import Case, cases_in, check_case, check_page, read_cases

MOVE = "```python\nimport torch\n\nx = torch.ones(3)\nx.cuda(){}\n```\n"
FIXED = "\n```python {}\nimport torch\n\nx = torch.ones(3)\nx{}\n```\n"


def case(folder: Path, text: str, title: str = "DEV101: discarded-move") -> Case:
    document = folder / "cases" / "x.md"
    document.parent.mkdir(exist_ok=True)
    document.write_text(f"# {title}\n\n## One\n\n{text}", encoding="utf-8")
    (found,) = read_cases(document)
    return found


@pytest.mark.parametrize(
    "text",
    [
        MOVE.format("  # want: DEV101"),
        MOVE.format("  # want: DEV101!"),
        MOVE.format("  # want: DEV101") + FIXED.format("fixed", " = x.cuda()"),
        MOVE.format("  # want: DEV101") + "\n```python safe\n```\n".replace("safe", "models/net.py"),
        "rules: DEV3\n\n" + MOVE.format(""),
        "rules: discarded-move\n\n" + MOVE.format("  # want: DEV101"),
        MOVE.format("") + '\n```toml\nignore = ["DEV101"]\nselect = ["DEV1"]\n```\n\nrules:\n',
    ],
)
def test_a_case_that_is_right(tmp_path, text):
    folder = tmp_path / "run"
    folder.mkdir()
    check_case(case(tmp_path, text), folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MOVE.format(""), "line 4: DEV101 was found, and isn't wanted: `x.cuda()` returns a moved copy"),
        (MOVE.format("  # want: DEV102"), "line 4: DEV102 is wanted, and wasn't found"),
        (MOVE.format("  # want: DEV101 DEV101"), "line 4: DEV101 is wanted, and wasn't found"),
        (MOVE.format("  # want: DEV101?"), "line 4: DEV101 is certain, which `DEV101?` isn't"),
        (MOVE.format("  # want: DEV101") + FIXED.format("fixed", ".cuda()"), "the fixes make something else of it"),
        (MOVE.format("  # want: DEV101") + "\n```python safe\n```\n", "the fixes make something else of it"),
        (MOVE.format("  # want: DEV101") + "\n```python same\n```\n", "the fixes make something else of it"),
        ("rules: ACME001\n\n" + MOVE.format(""), "no installed rule is called ACME001"),
    ],
)
def test_a_case_that_is_not_right_says_what(tmp_path, text, said):
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(AssertionError, match=re.escape(said)) as told:
        check_case(case(tmp_path, text), folder)
    assert str(told.value).startswith("x.md:3 One")


def test_the_codes_of_any_pack_stand_in_a_title(tmp_path):
    assert case(tmp_path, MOVE.format(""), "ACME001, XY1234: of FP16").rules == ("ACME001", "XY1234")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```python\nx = 1\n```\n", "x.md:1: a code block before the first case"),
        ("## One\n```python\nx = 1\n", "x.md:2: a block without an end"),
        ("## One\n```python fixed\n```\n", "x.md:2: a `fixed` block without a file before it"),
        ("## One\n```python\nx  # want: dev101\n```\n", "x.md:2: line 1 of the block: `# want: dev101` isn't"),
        ("## One\n```python\nx  # want DEV101\n```\n", "x.md:2: line 1 of the block: `# want DEV101` isn't"),
        ("# DEV101\n", ": no cases there"),
    ],
)
def test_a_document_that_cannot_be_read_says_where(tmp_path, text, said):
    (tmp_path / "x.md").write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)):
        cases_in(tmp_path)


def test_a_pending_case_must_fail(tmp_path):
    case(tmp_path, "pending: not yet\n\n" + MOVE.format(""))
    (parameter,) = cases_in(tmp_path / "cases")
    assert [(mark.name, mark.kwargs) for mark in parameter.marks] == [("xfail", {"strict": True, "reason": "not yet"})]


DISCARDED = load_registry().find("DEV101")
PAGE = DISCARDED.__doc__


@pytest.mark.parametrize(
    ("old", "new", "fix", "said"),
    [
        ("", "", "S", None),
        ("## Example", "## Counterexample", "S", "no code under 'Example'"),
        ("x", "x", "-", "it has a fix, and doesn't say so"),
    ],
)
def test_a_page_is_held_to_its_examples(tmp_path, old, new, fix, said):
    rule = type("Copy", (DISCARDED,), {"__doc__": PAGE.replace(old, new), "fix": fix, "effect": None})
    if said is None:
        check_page(rule, tmp_path)
        return
    with pytest.raises((AssertionError, ValueError), match=said):
        check_page(rule, tmp_path)


def test_examples_that_show_the_reverse_are_told(tmp_path):
    swapped = (
        PAGE.replace("## Example", "## One").replace("## Use instead", "## Example").replace("## One", "## Use instead")
    )
    rule = type("Copy", (DISCARDED,), {"__doc__": swapped, "effect": None})
    with pytest.raises(AssertionError, match="nothing, or something else, is found in its example"):
        check_page(rule, tmp_path)
    silent = type("Copy", (DISCARDED,), {"__doc__": PAGE, "judge": lambda self, node, facts: iter(()), "effect": None})
    with pytest.raises(AssertionError, match="nothing, or something else"):
        check_page(silent, tmp_path)


def test_an_effect_that_isnt_shown_is_told(tmp_path):
    pytest.importorskip("torch")
    from devlint.rule import Effect

    rule = type("Copy", (DISCARDED,), {"__doc__": PAGE, "effect": Effect(raises="KeyError")})
    with pytest.raises(AssertionError, match="its examples don't show its effect"):
        check_page(rule, tmp_path)


def test_a_case_raises_what_a_rule_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = load_registry().find("DEV101")
    assert rule is not None

    def judge(*_: object) -> None:
        raise AttributeError("no on_acc")

    monkeypatch.setattr(rule, "judge", judge)
    with pytest.raises(AttributeError, match="no on_acc"):
        check_case(case(tmp_path, MOVE.format("  # want: DEV101")), tmp_path)
