"""Each rule on readable cases: tests/cases/*.md, in the format that literate.py describes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from literate import Case, read_cases

from devlint.engine import Linter
from devlint.files import read_source
from devlint.fixer import fix
from devlint.rule import load_registry
from devlint.settings import Settings

DOCUMENTS = sorted((Path(__file__).parent / "cases").glob("*.md"))
CASES = [case for document in DOCUMENTS for case in read_cases(document)]


def linter_for(case: Case, root: Path) -> Linter:
    settings = Settings(root=root, src=(root,))
    if case.rules:
        settings = dataclasses.replace(settings, select=case.rules)
    return Linter(settings, load_registry())


@pytest.fixture(params=CASES, ids=lambda case: case.id)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    for file in request.param.files:
        path = tmp_path / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    return request.param


def test_findings(case: Case, tmp_path: Path) -> None:
    linter = linter_for(case, tmp_path)
    for file in case.files:
        found = linter.check(read_source(tmp_path / file.name, file.name))
        assert [(f.span.line, f.code) for f in found] == [(line, code) for line, code, _ in file.wanted], [
            f.message for f in found
        ]
        marks = {"?": "likely", "!": "certain"}
        for finding, (_, _, mark) in zip(found, file.wanted, strict=True):
            assert finding.confidence == marks.get(mark, finding.confidence), finding.message


def test_fixes(case: Case, tmp_path: Path) -> None:
    linter = linter_for(case, tmp_path)
    for file in case.files:
        if file.fixed is None:
            continue
        outcome = fix(read_source(tmp_path / file.name, file.name), linter, unsafe=True)
        assert outcome.source.text == file.fixed
        again = fix(outcome.source, linter, unsafe=True)
        assert again.source.text == file.fixed, "fixing twice changes nothing"
