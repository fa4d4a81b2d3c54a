"""What a run says, and where: reports on the standard output or in a file, all else on the standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from devlint.console import emit, follows_links, is_terminal
from devlint.disk import put_bytes
from devlint.escapes import printable, printable_lines
from devlint.failure import Failure, wants_color
from devlint.findings import FOR_TERMINALS

if TYPE_CHECKING:
    from devlint.findings import OutputFormat
    from devlint.options import Options, ReportForm
    from devlint.reports import FileResult, Run

# What is told beside a diff: files that couldn't be read, fixes that the diff lacks.
_BESIDE_DIFFS = {"DEV000": "error", "DEV003": "warning"}


class Output:
    """The output of one run."""

    def __init__(self, options: Options) -> None:
        self.options = options
        # Paths of the command line count from here, whatever the run does.
        self._started_in = Path.cwd()

    def say(self, line: str) -> None:
        """A line for --verbose."""
        if self.options.verbose:
            emit(f"{printable(line)}\n", err=True, color=self.colored(sys.stderr))

    def warn(self, kind: str, line: str) -> None:
        """An error or a warning, on the standard error."""
        color = "red" if kind == "error" else "yellow"
        said = f"{click.style(kind, fg=color, bold=True)}: {printable(line)}\n"
        emit(said, err=True, color=self.colored(sys.stderr))

    def colored(self, stream: IO[str] | None) -> bool:
        """Whether to write colours: as --color says, else on terminals, unless NO_COLOR is set."""
        if self.options.color != "auto":
            return self.options.color == "always"
        return wants_color(stream)

    def show_diff(self, results: Sequence[FileResult], failed: bool, told: Sequence[str] = ()) -> bool:
        """Writes the diffs, and what went wrong on the standard error; returns whether there are any.

        `told` is what they are, where they aren't fixes.
        """
        from devlint.reports import by_severity

        diff = "".join(result.diff for result in results)
        # Elsewhere it is for `patch`, which wants each byte as it is.
        shown = is_terminal(sys.stdout) and self.options.output_file is None
        self.write(printable_lines(diff) if shown else diff, styled=False)
        for finding in (finding for result in results for finding in result.findings):
            if kind := _BESIDE_DIFFS.get(finding.code):
                self.warn(kind, f"{finding.path}:{finding.span.line}: {finding.message}")
        fixes = [finding for result in results for finding in result.fixed]
        if not self.options.quiet:
            said = f"Would fix {by_severity(fixes)}\n" if fixes else "" if failed else "No fixes to show\n"
            emit("".join(f"{line}\n" for line in told) or said, err=True)
        return any(result.diff for result in results)

    def report(
        self,
        run: Run,
        forms: Iterable[ReportForm],
        *,
        told: Sequence[str] = (),
        to_stderr: bool = False,
        render: Callable[[OutputFormat, Run], str] | None = None,
    ) -> None:
        """Writes a run in each form that was asked for; those in files come last, so that nothing is lost where one fails.

        `told` is what there is to say behind the findings, to people. Raises Failure.
        """
        from devlint import reports

        rendered = render or reports.render
        quiet = self.options.quiet
        for asked in sorted(forms, key=lambda asked: asked.file is not None):
            if self.options.statistics:
                from devlint.reports import statistics

                text = statistics.render(run.results, asked.form, safety=run.safety)
            elif asked.form not in FOR_TERMINALS:
                text = rendered(asked.form, run)
            elif quiet and not any(result.findings for result in run.results):
                text = ""
            else:
                also = run.also + "".join(f"{line}\n" for line in told if not quiet)
                links = asked.file is None and self.links(to_stderr=to_stderr)
                text = rendered(asked.form, replace(run, also=also, links=links))
            self.write(text, asked, to_stderr=to_stderr)

    def write(
        self, text: str, asked: ReportForm | None = None, *, to_stderr: bool = False, styled: bool = True
    ) -> None:
        """Puts a report where it is wanted, its colours dropped where they aren't; without any, it stays as it is.

        A file is written whole or not at all. Raises Failure.
        """
        own = asked.file if asked is not None else None
        file = own or self.options.output_file
        if file is None:
            colored = self.colored(sys.stderr if to_stderr else sys.stdout)
            emit(text, err=to_stderr, color=colored or not styled)
            return
        plain = click.unstyle(text) if styled and self.options.color != "always" else text
        try:
            put_bytes(os.path.join(self._started_in, file), plain.encode("utf-8", "backslashreplace"))  # noqa: PTH118
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            option = f"--output-format {asked.form}={own}" if asked is not None and own else f"--output-file {file}"
            raise Failure(f"{option}: can't be written: {said}") from None

    def links(self, *, to_stderr: bool) -> bool:
        """Whether a report's codes are to lead to their pages: its reader is a terminal that follows links."""
        stream = sys.stderr if to_stderr else sys.stdout
        return self.options.output_file is None and self.colored(stream) and is_terminal(stream) and follows_links()
