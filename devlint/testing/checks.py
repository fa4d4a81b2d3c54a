"""Holds rules to a case."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args
from unittest import mock

from devlint.engine import Linter
from devlint.files import Source, read_source
from devlint.findings import Finding, Safety
from devlint.fixer import fix
from devlint.rule import Registry, load_registry
from devlint.settings import Settings, load_settings
from devlint.testing.cases import Case, File

_MARKS = {"certain": "!", "likely": "?"}


def check_case(case: Case, folder: Path) -> None:
    """Writes a case's files into an empty folder, and checks their findings and fixes with the rules that are installed.

    Raises AssertionError, which tells what was found and not wanted, wanted and not found, or fixed otherwise, and what a
    rule raises.
    """
    __tracebackhide__ = True
    for file in case.files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    linter = _linter(case, folder)
    with mock.patch.dict(os.environ, {"DEVLINT_DEBUG": "1"}):
        for file in case.files:
            source = read_source(folder / file.name, file.name)
            _same_findings(case, file, linter.every_finding(source))
            _same_fixes(case, file, source, linter)


def _linter(case: Case, root: Path) -> Linter:
    registry = load_registry()
    for fault in registry.left_out:
        raise AssertionError(f"{case.id}: {fault}")
    settings = Settings(root=root, src=(root,))
    if case.settings:
        (root / "devlint.toml").write_text(case.settings, encoding="utf-8")
        settings = load_settings(root, config=None, isolated=False, registry=registry)
    if case.rules:
        unknown = [word for word in case.rules if not _is_known(word, registry)]
        if unknown:
            raise AssertionError(f"{case.id}: no installed rule is called {', '.join(unknown)}")
        settings = dataclasses.replace(settings, select=case.rules)
    return Linter(settings, registry)


def _is_known(word: str, registry: Registry) -> bool:
    return word == "ALL" or bool(registry.find(word)) or any(rule.code.startswith(word) for rule in registry.rules())


def _same_findings(case: Case, file: File, found: Sequence[Finding]) -> None:
    """What each rule says by itself is what the case wants; which of it is told together is devlint's affair."""
    __tracebackhide__ = True
    missing = Counter((line, code) for line, code, _ in file.wanted)
    missing.subtract((finding.span.line, finding.code) for finding in found)
    told = [f"line {line}: {code} is wanted, and wasn't found" for (line, code), count in missing.items() if count > 0]
    told += [
        f"line {finding.span.line}: {finding.code} was found, and isn't wanted: {finding.message}"
        for finding in found
        if missing[finding.span.line, finding.code] < 0
    ]
    if not told:
        # As many of each kind on each line, and both in the order of lines.
        wanted = sorted(file.wanted)
        for finding, (line, code, mark) in zip(sorted(found, key=_place), wanted, strict=True):
            if mark not in ("", _MARKS[finding.confidence]):
                told.append(
                    f"line {line}: {code} is {finding.confidence}, which `{code}{mark}` isn't: {finding.message}"
                )
    if told:
        raise AssertionError("\n".join([f"{case.id}, {file.name}:", *told]))


def _place(finding: Finding) -> tuple[int, str, str]:
    return finding.span.line, finding.code, _MARKS[finding.confidence]


def _same_fixes(case: Case, file: File, source: Source, linter: Linter) -> None:
    __tracebackhide__ = True
    for safety, wanted in zip(get_args(Safety), (file.safe, file.fixed, file.suggested), strict=True):
        if wanted is None:
            continue
        mended = partial(fix, linter=linter, safety=safety)
        fixed = mended(source).source
        told = _difference("the fixes make something else of it", wanted, fixed.text)
        told = told or _difference("fixing twice changes more", wanted, mended(fixed).source.text)
        if told:
            raise AssertionError(f"{case.id}, {file.name}: {told}")


def _difference(what: str, wanted: str, got: str) -> str:
    """How two texts differ; "" where they don't."""
    lines = difflib.unified_diff(wanted.splitlines(), got.splitlines(), "wanted", "got", lineterm="")
    return "" if wanted == got else "\n".join([what, *lines])
