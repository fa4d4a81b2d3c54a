"""`devlint merge`."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from devlint.commands.options import HELP
from devlint.console import emit
from devlint.disk import put_bytes
from devlint.findings import Severity
from devlint.output import CLEAN, FAILED, FOUND, Failure


@click.command(context_settings=HELP)
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...", type=click.Path(path_type=Path))
@click.option("-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report there.")
@click.option(
    "--fail-on",
    type=click.Choice(get_args(Severity)),
    default="warning",
    show_default=True,
    help="The least severity that exits with 1.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something was found.")
def merge(reports: tuple[Path, ...], output_file: Path | None, fail_on: Severity, exit_zero: bool) -> None:
    """Make one JSON report of those of several runs, such as `devlint --shard 1/4 --output-format json`.

    Exits as one run over all files would have.
    """
    from devlint.reports.merging import ReportError, merged, read_report, render

    try:
        findings = merged([read_report(path) for path in reports])
    except ReportError as error:
        raise Failure(str(error)) from None
    if output_file is None:
        emit(render(findings))
    else:
        try:
            put_bytes(str(output_file), render(findings).encode())
        except OSError as error:
            raise Failure(f"--output-file {output_file}: can't be written: {error.strerror or error}") from None
    failed = any(finding["code"] == "DEV000" for finding in findings)
    fatal = any(fail_on == "warning" or finding["severity"] == "error" for finding in findings)
    click.get_current_context().exit(FAILED if failed else FOUND if fatal and not exit_zero else CLEAN)
