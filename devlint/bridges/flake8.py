"""The flake8 plugin: each finding once, as flake8 tells its own."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from devlint import __version__


class Plugin:
    """What flake8 makes for each file."""

    name: ClassVar[str] = "devlint"
    version: ClassVar[str] = __version__

    # flake8 gives what the parameters are called.
    def __init__(self, tree: ast.AST, filename: str, lines: Sequence[str]) -> None:
        self._filename = filename
        self._text = "".join(lines)

    def run(self) -> Iterator[tuple[int, int, str, type]]:
        """(line, column from 0, code and message, this class) of each finding."""
        from devlint.bridges import BridgeError, result_of
        from devlint.files import Source
        from devlint.reports.anchors import told

        path = Path(os.path.abspath(self._filename))  # noqa: PTH100 - resolving would follow links
        source = Source(path, Path(self._filename).as_posix(), self._text)
        try:
            findings = result_of(source, path).findings
        except BridgeError as error:
            yield 1, 0, f"DEV000 {error}", Plugin
            return
        for finding in findings:
            yield finding.span.line, finding.span.column - 1, f"{finding.code} {told(finding, source)}", Plugin
