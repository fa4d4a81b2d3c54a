"""Each rule on readable cases: tests/cases/*.md, in the format that literate.py describes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from literate import Case, File, read_cases

from devlint.engine import Linter
from devlint.files import read_source
from devlint.fixer import fix
from devlint.rule import load_registry
from devlint.settings import Settings, load_settings

DOCUMENTS = sorted((Path(__file__).parent / "cases").glob("*.md"))
CASES = [case for document in DOCUMENTS for case in read_cases(document)]


def linter_for(case: Case, root: Path) -> Linter:
    settings = Settings(root=root, src=(root,))
    if case.settings:
        (root / "devlint.toml").write_text(case.settings, encoding="utf-8")
        settings = load_settings(root, config=None, isolated=False, registry=load_registry())
    if case.rules:
        settings = dataclasses.replace(settings, select=case.rules)
    return Linter(settings, load_registry())


def _param(case: Case) -> object:
    marks = [pytest.mark.xfail(strict=True, reason=case.pending)] if case.pending else []
    return pytest.param(case, id=case.id, marks=marks)


@pytest.mark.parametrize("case", [_param(case) for case in CASES])
def test_case(case: Case, tmp_path: Path) -> None:
    for file in case.files:
        path = tmp_path / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    linter = linter_for(case, tmp_path)
    for file in case.files:
        _findings_are_wanted(file, linter, tmp_path)
        _fixes_are_wanted(file, linter, tmp_path)


def _findings_are_wanted(file: File, linter: Linter, root: Path) -> None:
    # What each rule says by itself; which of it is told together, tests/test_causes.py has.
    found = linter.every_finding(read_source(root / file.name, file.name))
    assert [(f.span.line, f.code) for f in found] == [(line, code) for line, code, _ in file.wanted], [
        f.message for f in found
    ]
    marks = {"?": "likely", "!": "certain"}
    for finding, (_, _, mark) in zip(found, file.wanted, strict=True):
        assert finding.confidence == marks.get(mark, finding.confidence), finding.message


def _fixes_are_wanted(file: File, linter: Linter, root: Path) -> None:
    for wanted, unsafe in ((file.safe, False), (file.fixed, True)):
        if wanted is None:
            continue
        outcome = fix(read_source(root / file.name, file.name), linter, unsafe=unsafe)
        assert outcome.source.text == wanted
        again = fix(outcome.source, linter, unsafe=unsafe)
        assert again.source.text == wanted, "fixing twice changes nothing"
