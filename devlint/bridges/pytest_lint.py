"""`pytest --devlint-lint`: an item for each Python file that pytest comes by, which fails where devlint finds something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from devlint.reports import FileResult


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    group = parser.getgroup("devlint", "device placement (devlint)")
    group.addoption(
        "--devlint-lint",
        action="store_true",
        help="lint each Python file under the given paths; `-m devlint_lint` runs nothing else",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark of the items."""
    config.addinivalue_line("markers", "devlint_lint: devlint's findings in a file (--devlint-lint)")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A collector for each file that devlint reads."""
    if not parent.config.getoption("devlint_lint"):
        return None
    from devlint.files import SUFFIXES

    made: pytest.Collector | None = (
        LintedFile.from_parent(parent, path=file_path) if file_path.suffix in SUFFIXES else None
    )
    return made


class LintedFile(pytest.File):
    """A file with its one item."""

    def collect(self) -> Iterator[pytest.Item]:
        yield LintedItem.from_parent(self, name="devlint")


class LintedItem(pytest.Item):
    """Fails where devlint finds something in the file that the settings let a run fail for (`fail-on`)."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.add_marker("devlint_lint")

    def runtest(self) -> None:
        from devlint.bridges import BridgeError, result_of, settings_for
        from devlint.disk import FileError
        from devlint.files import read_source

        display = self.path.relative_to(Path.cwd()) if self.path.is_relative_to(Path.cwd()) else self.path
        try:
            settings = settings_for(self.path)
            result = result_of(read_source(self.path, display.as_posix(), settings.max_file_size), self.path)
        except (BridgeError, FileError) as error:
            raise LintError(f"{display.as_posix()}: {error}\n") from None
        if not result.findings:
            return
        told = _told(result)
        if settings.fail_on == "warning" or any(finding.severity == "error" for finding in result.findings):
            raise LintError(told)
        self.add_report_section("call", "devlint", told)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, LintError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"devlint: {self.path.name}"


class LintError(Exception):
    """What was found in a file, as the text report tells it."""


def _told(result: FileResult) -> str:
    import click

    from devlint.reports import Run, text
    from devlint.rule import load_registry

    rules = {rule.code: rule for rule in load_registry().rules()}
    return click.unstyle(text.render(Run([result], rules, quiet=True)))
