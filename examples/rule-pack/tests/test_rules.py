"""The rules of this pack, held to the cases in tests/cases and to the examples on their pages."""

from pathlib import Path

import pytest
from devlint.rule import Rule, rules_in
from devlint.testing import Case, cases_in, check_case, check_page

import acme_rules


@pytest.mark.parametrize("case", cases_in(Path(__file__).parent / "cases"))
def test_case(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


@pytest.mark.parametrize("rule", list(rules_in(acme_rules)), ids=lambda rule: rule.code)
def test_page(rule: type[Rule], tmp_path: Path) -> None:
    check_page(rule, tmp_path)
