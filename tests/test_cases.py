"""Each rule on readable cases: tests/cases/*.md, in the format that `devlint.testing` describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from devlint.rule import load_registry
from devlint.testing import Case, cases_in, check_case

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("case", cases_in(CASES))
def test_case(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


@pytest.mark.parametrize("case", cases_in(CASES / "as_default"))
def test_case_as_default(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What opt-in rules tell if they are on by default: who selects one by its code hears of what is minor too."""
    for rule in load_registry().outlines():
        monkeypatch.setattr(rule, "default", True)
    check_case(case, tmp_path)
