"""What isn't told of a line, and why: findings that hardly anybody would act on, and code that is meant for the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from devlint.engine import Linter
from devlint.files import Source
from devlint.inspection import Withheld
from devlint.placement.model import build
from devlint.rule import Registry
from devlint.settings import Settings
from devlint.signatures.answers.silence import is_host_code, is_host_file, is_host_program, made_elsewhere_by
from devlint.source.project import Project, parse
from devlint.source.units import units_at


def withheld_on(source: Source, line: int, settings: Settings, registry: Registry) -> Iterator[Withheld]:
    """What would be told of a line (from 1) if a rule were selected by its code, or in preview."""
    linter = Linter(settings, registry)
    linter.withheld = []
    told = {finding.code for finding in linter.check(source) if finding.span.line == line}
    for withheld in linter.withheld:
        finding = withheld.finding
        if finding.span.line == line and finding.code not in told:
            told.add(finding.code)
            yield withheld


def silences_on(source: Source, line: int, settings: Settings, *, has_made: bool) -> Iterator[str]:
    """Why findings about tensors at different places may be silent on a line (from 1), a line of text each.

    `has_made` says that a tensor on it was made without a device.
    """
    path = source.path or settings.root / source.display
    model = build(path, source.text, parse(source.text), Project(settings.src), settings.hints)
    project = model.project_reader.project
    try:
        file = made_elsewhere_by(project, model.source) if has_made else None
        if file is not None:
            shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
            yield f"{shown.as_posix()} sets a default device: DEV2 says nothing of tensors that are made without one"
        scope = next((unit.scope for unit in units_at(model.source, [line])), None)
        if is_host_code(scope):
            yield f"by its name or its class, `{scope.name if scope else ''}` is code for the host: {_OPEN}"
        elif is_host_file(model.source.path):
            yield f"by its name or its folder, the file is code for the host: {_OPEN}"
        elif is_host_program(project, model.source):
            yield f"nothing in this program speaks of a device, so that it is taken to run on the host: {_OPEN}"
    finally:
        model.close()


_OPEN = "DEV2 tells nothing here that hangs on where inputs are"
