"""The report in the lines that pylint writes with `--output-format=parseable`, for what reads those."""

from __future__ import annotations

from devlint.escapes import printable
from devlint.reports import Run
from devlint.reports.anchors import in_file, path_from_top, told


def render(run: Run) -> str:
    """The whole report: `path:line: [code(name), ] message`, and where the rule's page is."""
    lines = []
    for finding, source in run.findings:
        where = f"{printable(path_from_top(finding.path))}:{in_file(source, finding.span).line}"
        page = f" (see {url})" if (url := run.page_of(finding)) else ""
        lines.append(f"{where}: [{finding.code}({finding.name}), ] {told(finding, source)}{page}\n")
    return "".join(lines)
