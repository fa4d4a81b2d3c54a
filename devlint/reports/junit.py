"""The report in the form of JUnit's, which nearly each CI shows: a suite for each file, a failed case for each finding."""

from __future__ import annotations

from collections import defaultdict
from xml.etree import ElementTree

from devlint.escapes import printable
from devlint.files import Source
from devlint.findings import Finding
from devlint.reports import Run, place_of, spell_place
from devlint.reports.anchors import advice, path_from_top, told


def render(run: Run) -> str:
    """The whole report; a file without findings is a case that passed."""
    files: dict[str, list[tuple[Finding, Source | None]]] = defaultdict(list)
    for result in run.results:
        files[result.display] += [(finding, result.source) for finding in result.findings]
    everything = [finding for found in files.values() for finding, _ in found]
    root = ElementTree.Element("testsuites", {"name": "devlint", **_totals(everything, files)})
    for display, found in files.items():
        totals = _totals([finding for finding, _ in found], {display: found})
        suite = ElementTree.SubElement(root, "testsuite", {"name": printable(path_from_top(display)), **totals})
        if not found:
            ElementTree.SubElement(suite, "testcase", name="devlint", classname=printable(path_from_top(display)))
        for finding, source in found:
            _case(suite, finding, source, run.page_of(finding))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _totals(findings: list[Finding], files: dict[str, list[tuple[Finding, Source | None]]]) -> dict[str, str]:
    errors = sum(finding.code == "DEV000" for finding in findings)
    passed = sum(not found for found in files.values())
    return {"tests": str(len(findings) + passed), "failures": str(len(findings) - errors), "errors": str(errors)}


def _case(suite: ElementTree.Element, finding: Finding, source: Source | None, url: str) -> None:
    path = printable(path_from_top(finding.path))
    place = place_of(source, finding.span.line, finding.span.column)
    where = spell_place(path, place)
    case = ElementTree.SubElement(
        suite,
        "testcase",
        name=f"{finding.code} {finding.name} {where.removeprefix(path + ':')}",
        classname=path,
        file=path,
        line=str(place.line),
    )
    message = told(finding, source)
    tag = "error" if finding.code == "DEV000" else "failure"
    outcome = ElementTree.SubElement(case, tag, message=message, type=finding.severity)
    notes = (f"note: {printable(n.message)} ({printable(n.path)}:{n.line}:{n.column})" for n in finding.notes)
    outcome.text = "\n".join(
        [
            f"{where}: {finding.code} {message}",
            *notes,
            *(f"help: {line}" for line in advice(finding)),
            *([url] if url else []),
        ]
    )
