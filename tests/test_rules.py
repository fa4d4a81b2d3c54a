"""Rules as a whole: their pages, the README's table of families, and the facts that they rest on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from devlint.knowledge.cuda import asking, raising
from devlint.rule import META_RULES, load_registry

ROOT = Path(__file__).parents[1]
RULES = [rule for rule in load_registry().rules() if rule not in META_RULES]
SECTIONS = ["What it does", "Why is this bad", "Example", "Use instead", "Fix safety", "References"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_page_has_every_section_in_order(rule):
    headings = re.findall(r"^## (.+)$", rule.page(), re.MULTILINE)
    expected = [s for s in SECTIONS if s != "Fix safety" or rule.fix != "-"]
    assert headings == expected
    assert "TODO" not in rule.page()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_what_waits_or_costs_is_a_warning(rule):
    waits = rule.only_hot or (rule.effect is not None and rule.effect.syncs and rule.effect.counts != "early reading")
    if waits:
        assert rule.severity == "warning", 'what stalls or costs says `severity = "warning"`'
    assert f"Severity: {rule.severity}." in rule.page()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_has_cases(rule):
    assert (ROOT / "tests" / "cases" / f"{rule.code.lower()}.md").is_file()


def test_the_readmes_table_has_every_family():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[?(DEV\d)\b[^|]*\| ([^|]*?)(?: \(opt-in\))? \|$", readme, re.MULTILINE)
    about = {rule.code[:4]: sys.modules[rule.__module__.rpartition(".")[0]].__doc__ for rule in RULES}
    assert set(dict(rows)) == set(about)
    for family, words in rows:
        assert about[family].startswith(f"{family}: {words.partition(':')[0]}")


def test_what_is_told_to_need_cuda_raises_without_it():
    from devlint_rules.devices import dev603

    assert set(dev603._OF_BACKENDS) <= raising() <= asking()


@pytest.mark.slow
def test_the_recorded_facts_are_what_this_torch_gives():
    torch = pytest.importorskip("torch")
    if torch.__version__.split("+")[0] != "2.13.0":
        pytest.skip("recorded with torch 2.13.0")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "generate_knowledge.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
