"""`devlint merge`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from devlint.commands import HELP
from devlint.commands.options import report_options
from devlint.failure import CLEAN, FAILED, FOUND, Failure
from devlint.findings import OutputFormat, Severity
from devlint.options import Options, ReportForm, check_together
from devlint.output import Output

if TYPE_CHECKING:
    from devlint.settings import Settings


@click.command(context_settings=HELP)
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...", type=click.Path(path_type=Path))
@report_options("json")
@click.option(
    "--fail-on",
    type=click.Choice(get_args(Severity)),
    help="The least severity that exits with 1 [default: what the settings here say, or warning].",
)
@click.option("--of", "parts", type=click.IntRange(min=1), metavar="N", help="Fail unless so many reports are there.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something was found.")
@click.option("--statistics", is_flag=True, help="Show how often each rule was broken, not where.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings and errors only.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
def merge(
    reports: tuple[Path, ...], fail_on: Severity | None, exit_zero: bool, parts: int | None, **options: Any
) -> None:
    """Merge the JSON reports of several runs into one report.

    Such runs are, for example, `devlint --shard 1/4 --output-format json`.

    Run it where the files are as they were linted: reports other than JSON show their lines. Exits as one run over all files would have.
    All parts that `--shard` made must be there, each once; for other reports, --of says how many there must be.
    """
    from devlint.reports.merging import ReportError, check_parts, merged, read_report

    if parts is not None and len(set(reports)) != parts:
        raise Failure(f"--of {parts}: there are {len(set(reports))} reports; a part is missing, or one is too many")
    try:
        read = [read_report(path) for path in reports]
        check_parts(read)
        findings = merged(part.findings for part in read)
        failed = any(finding["code"] == "DEV000" for finding in findings)
        _report(findings, Options(**options), failed=failed)
    except ReportError as error:
        raise Failure(str(error)) from None
    least = fail_on or _settings_here().fail_on
    fatal = any(least == "warning" or finding["severity"] == "error" for finding in findings)
    click.get_current_context().exit(FAILED if failed else FOUND if fatal and not exit_zero else CLEAN)


def _settings_here() -> Settings:
    """The settings of the current folder, as a run over all files would have them."""
    from devlint.rule import load_registry
    from devlint.settings import SettingsError, load_settings

    try:
        return load_settings(Path.cwd(), config=None, isolated=False, registry=load_registry())
    except SettingsError as error:
        raise Failure(str(error)) from None


def _report(findings: list[dict[str, Any]], options: Options, *, failed: bool) -> None:
    """Writes each report that was asked for. JSON is joined as it stands, and needs none of the linted files."""
    from devlint import reports
    from devlint.reports import Run, merging
    from devlint.rule import load_registry

    check_together(options)
    forms = options.output_format or (ReportForm("json"),)
    needs_files = options.statistics or any(asked.form != "json" for asked in forms)
    results = merging.results_of(findings) if needs_files else []
    rules = {rule.code: rule for rule in load_registry().rules()} if needs_files else {}

    def render(form: OutputFormat, run: Run) -> str:
        return merging.render(findings) if form == "json" else reports.render(form, run)

    run = Run(results, rules, quiet=options.quiet, failed=failed)
    Output(options).report(run, forms, render=render)
