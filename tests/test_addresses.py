"""One place says where devlint is to be found; what repeats it says the same."""

from __future__ import annotations

import re
from pathlib import Path

from devlint.addresses import DOCUMENTATION, REPOSITORY, rule_page
from devlint.rule import Rule, load_registry

ROOT = Path(__file__).parent.parent
ADDRESS = re.compile(r"https?://(?:[\w-]+\.)?github\.(?:com|io)/[\w./-]*devlint[\w./-]*")


def test_the_address_stands_in_one_module():
    modules = [*ROOT.glob("devlint/**/*.py"), *ROOT.glob("rules/**/*.py")]
    named = {file.relative_to(ROOT).as_posix() for file in modules if ADDRESS.search(file.read_text())}
    assert named == {"devlint/addresses.py"}


def test_pages_repeat_the_same_address():
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("*.yml")]
    found = {address for page in pages for address in ADDRESS.findall(page.read_text())}
    assert [address for address in found if not address.startswith((REPOSITORY, DOCUMENTATION))] == []
    assert found


def test_each_rule_of_ours_has_a_page_and_others_name_their_own():
    assert all(rule.address() == rule_page(rule.code) for rule in load_registry().rules() if rule.code[:3] == "DEV")
    named = type("Named", (Rule,), {"code": "ACME001", "url": "https://acme.example/ACME001"})
    unnamed = type("Unnamed", (Rule,), {"code": "ACME002"})
    assert (named.address(), unnamed.address()) == ("https://acme.example/ACME001", "")


def test_the_action_is_used_by_the_repository_s_name():
    used = re.findall(r"uses: (\S*devlint)@", (ROOT / "docs" / "ci-linting.md").read_text())
    assert used == [REPOSITORY.removeprefix("https://github.com/")]
