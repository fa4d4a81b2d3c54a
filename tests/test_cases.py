"""Each rule on readable cases: tests/cases/*.md, in the format that `devlint.testing` describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from devlint.testing import Case, cases_in, check_case


@pytest.mark.parametrize("case", cases_in(Path(__file__).parent / "cases"))
def test_case(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)
