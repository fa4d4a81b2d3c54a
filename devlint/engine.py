"""Stand-in: one source to findings."""

from __future__ import annotations

import ast
import re

from devlint.files import Source
from devlint.findings import Edit, Finding, Fix, Note, Span
from devlint.rule import Registry
from devlint.settings import Settings
from devlint.suppressions import read_suppressions


class Linter:
    """Lints sources under one set of settings."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self.settings, self.registry = settings, registry

    def check(self, source: Source) -> list[Finding]:
        """Findings of one source."""
        path = source.display
        enabled = self.settings.codes_for(source.path or self.settings.root / source.display, self.registry)
        suppressions = read_suppressions(source.text)
        if suppressions.skip_file:
            return []
        try:
            ast.parse(source.text)
        except SyntaxError as error:
            at = error.lineno or 1
            return [Finding("DEV000", "unreadable-file", error.msg, path, Span(at, 1, at, 1))]
        found = []
        for number, line in enumerate(source.lines, 1):
            if m := re.match(r"\s*((\w+)\.to\(.*\))", line):
                start, end = m.start(1) + 1, m.end(1) + 1
                edit = Edit(Span(number, start, number, start), f"{m[2]} = ")
                fix = Fix("assign the result", "safe", (edit,))
                note = Note("made here", path, 1, 1)
                span = Span(number, start, number, end)
                message = f"the result of `{m[1]}` is dropped: `{m[2]}` stays where it was"
                found.append(Finding("DEV101", "discarded-move", message, path, span, "certain", (note,), None, fix))
            if (m := re.search(r"torch\.load\(([^)]*)\)", line)) and "map_location" not in m[1]:
                edit = Edit(Span(number, m.end(1) + 1, number, m.end(1) + 1), ', map_location="cpu"')
                fix = Fix("load to the host", "unsafe", (edit,))
                span = Span(number, m.start() + 1, number, m.end() + 1)
                message = "`torch.load` without `map_location`"
                found.append(
                    Finding("DEV301", "load-without-map-location", message, path, span, "likely", (), "say where", fix)
                )
        found = [finding for finding in found if finding.code in enabled]
        found = suppressions.apply(found, path=path, enabled=enabled, registry=self.registry)
        if self.settings.confidence == "certain":
            found = [finding for finding in found if finding.confidence == "certain"]
        return sorted(found, key=lambda finding: finding.sort_key)
