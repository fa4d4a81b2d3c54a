"""The SARIF report (2.1.0), which code scanning of GitHub and viewers of editors read.

A trail is a code flow. Findings that a baseline holds, or that a comment switches off, are left out: code scanning would
show them as open, whatever is said of them here.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from devlint import __version__
from devlint.addresses import REPOSITORY
from devlint.escapes import printable
from devlint.files import Source
from devlint.findings import Finding, Fix, Note, Span
from devlint.reports import Run, Sources
from devlint.reports.anchors import advice, fingerprints, in_file, is_inside, path_from_top, told, top_of
from devlint.reports.json import dumped
from devlint.rule import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_TOP = "SRCROOT"
# Says how the fingerprint is made: another way gets another number.
_FINGERPRINT = "devlint/v1"


def render(run: Run) -> str:
    """The whole report: one run, with the rules that were broken."""
    codes = sorted({finding.code for finding, _ in run.findings})
    rules = [run.rules[code].loaded() for code in codes if code in run.rules]
    index = {rule.code: at for at, rule in enumerate(rules)}
    sources = Sources(run.results)
    known_by = fingerprints(run)
    results = [
        _result(finding, source, sources, index, known_by[at], only_new=run.only_new)
        for at, (finding, source) in enumerate(run.findings)
        if finding.code != "DEV000"
    ]
    failures = [_failure(finding, source) for finding, source in run.findings if finding.code == "DEV000"]
    top = top_of(Path(os.path.realpath(Path.cwd())))
    return dumped(
        {
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "devlint",
                            **_version(__version__),
                            "informationUri": REPOSITORY,
                            "rules": [_rule(rule) for rule in rules],
                        }
                    },
                    "invocations": [{"executionSuccessful": not run.failed, "toolExecutionNotifications": failures}],
                    "originalUriBaseIds": {_TOP: {"uri": f"{top.as_uri().rstrip('/')}/"}},
                    "columnKind": "unicodeCodePoints",
                    "results": results,
                }
            ],
        }
    )


def _version(version: str) -> dict[str, str]:
    """The version, as a semantic one where it is that; a build without a tag (0.0.1.dev5+gabc) isn't."""
    return {"version": version, **({"semanticVersion": version} if re.fullmatch(r"\d+\.\d+\.\d+", version) else {})}


def _rule(rule: type[Rule]) -> dict[str, Any]:
    page = inspect.cleandoc(rule.__doc__ or "")
    does = re.search(r"^## What it does\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    url = rule.address()
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary() or rule.name},
        "fullDescription": {"text": " ".join(does[1].split()) if does else rule.summary() or rule.name},
        "help": {"text": rule.page(), "markdown": rule.page()},
        **({"helpUri": url} if url else {}),
        "defaultConfiguration": {"level": rule.severity, "enabled": rule.default},
        "properties": {"tags": ["pytorch", "device-placement"], "problem.severity": rule.severity},
    }


def _result(
    finding: Finding, source: Source | None, sources: Sources, index: dict[str, int], known_by: str, *, only_new: bool
) -> dict[str, Any]:
    here = _location(finding.path, in_file(source, finding.span))
    message = told(finding, source)
    steps = [_step(note, sources) for note in finding.notes]
    text = "\n".join([message, *(f"help: {line}" for line in advice(finding))])
    return {
        "ruleId": finding.code,
        **({"ruleIndex": index[finding.code]} if finding.code in index else {}),
        "level": finding.severity,
        "message": {"text": text},
        "locations": [here],
        **({"codeFlows": [_flow(steps, {**here, "message": {"text": message}})]} if steps else {}),
        **({"relatedLocations": [{"id": at, **step} for at, step in enumerate(steps, 1)]} if steps else {}),
        **({"fixes": [fix]} if finding.fix is not None and (fix := _fix(finding.fix, finding, source)) else {}),
        "partialFingerprints": {_FINGERPRINT: known_by},
        **({"baselineState": "new"} if only_new else {}),
        "properties": dict(_properties(finding)),
    }


def _properties(finding: Finding) -> Iterator[tuple[str, object]]:
    yield "confidence", finding.confidence
    yield "cost", {"effect": finding.cost.effect, "loops": finding.cost.loops}
    if finding.fix is not None:
        yield "fixSafety", finding.fix.safety
    if finding.seen is not None:
        yield "seen", {"count": finding.seen.count, "bytes": finding.seen.bytes}


def _flow(steps: Sequence[dict[str, Any]], end: dict[str, Any]) -> dict[str, Any]:
    locations = [{"location": step, "executionOrder": at} for at, step in enumerate([*steps, end], 1)]
    return {"threadFlows": [{"locations": locations}]}


def _step(note: Note, sources: Sources) -> dict[str, Any]:
    span = in_file(sources.get(note.path), Span(note.line, note.column, note.line, note.column))
    return {**_location(note.path, span), "message": {"text": printable(note.message)}}


def _location(path: str, span: Span) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(path), "region": _region(span)}}


def _artifact(path: str) -> dict[str, str]:
    if not is_inside(path):
        return {"uri": Path(path_from_top(path)).as_uri()}
    return {"uri": quote(path_from_top(path)), "uriBaseId": _TOP}


def _region(span: Span) -> dict[str, int]:
    return {"startLine": span.line, "startColumn": span.column, "endLine": span.end_line, "endColumn": span.end_column}


def _fix(fix: Fix, finding: Finding, source: Source | None) -> dict[str, Any] | None:
    """A fix as a change of the file's text; None in a notebook, whose text is JSON, and where imports would be added."""
    if fix.imports or (source is not None and source.notebook is not None):
        return None
    replacements = [{"deletedRegion": _region(e.span), "insertedContent": {"text": e.text}} for e in fix.edits]
    change = {"artifactLocation": _artifact(finding.path), "replacements": replacements}
    return {"description": {"text": printable(fix.title)}, "artifactChanges": [change]}


def _failure(finding: Finding, source: Source | None) -> dict[str, Any]:
    """A file that couldn't be looked at: something about the run, and no finding."""
    return {
        "level": "error",
        "message": {"text": told(finding, source)},
        "descriptor": {"id": finding.code},
        "locations": [_location(finding.path, in_file(source, finding.span))],
    }
