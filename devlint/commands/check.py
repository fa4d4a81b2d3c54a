"""`devlint check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from devlint.commands import HELP
from devlint.commands.options import (
    ValuesAfterEquals,
    cache_options,
    list_option,
    need_folder,
    report_options,
    settings_options,
)
from devlint.findings import Confidence, Severity
from devlint.options import Options
from devlint.session import Session
from devlint.signals import ended_by_signals


def _shard(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """`2/4` as (2, 4)."""
    if value is None:
        return None
    number, slash, count = value.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise click.BadParameter(f"'{value}' isn't I/N with I from 1 to N, such as 2/4")
    return int(number), int(count)


@click.command(cls=ValuesAfterEquals, context_settings=HELP)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option("--fix", is_flag=True, help="Apply safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="Let --fix and --diff apply unsafe fixes too.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and write nothing.")
@click.option(
    "--follow-links",
    is_flag=True,
    help="Let --fix write through links that lead out of the paths, and to files with several hard links.",
)
@click.option(
    "--since",
    metavar="[=REV]",
    help="Report only what has been introduced since REV, in other files too; without REV, since the main branch was left.",
)
@click.option("--staged", is_flag=True, help="Report only what the staged changes introduce; for commit hooks.")
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file with the old findings, which are left out [default: .devlint-baseline.json beside the settings].",
)
@click.option("--no-baseline", is_flag=True, help="Report old findings too.")
@click.option("--update-baseline", is_flag=True, help="Drop old findings that are gone from the baseline.")
@click.option(
    "--add-noqa",
    metavar="[=REASON]",
    help="Instead of reporting findings, write a `# noqa` comment for each, with a reason if one is given.",
)
@click.option("--ignore-noqa", is_flag=True, help="Also report what comments switch off.")
@list_option(
    "--select",
    "CODES",
    "Run these rules only: codes, prefixes such as DEV5, names, or ALL. Otherwise those on by default, of packs too.",
)
@list_option("--ignore", "CODES", "Leave these rules out.")
@list_option("--extend-select", "CODES", "Run these rules as well.")
@report_options("text")
@click.option("--confidence", type=click.Choice(get_args(Confidence)), help="The lowest confidence that is reported.")
@click.option("--preview", is_flag=True, help="Also report what is new and still in preview.")
@click.option(
    "--fail-on", type=click.Choice(get_args(Severity)), help="The lowest severity that exits with 1 [default: warning]."
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something was found.")
@click.option("--statistics", is_flag=True, help="Show how often each rule was broken, not where.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Processes to use [default: as many as are worthwhile].")
@click.option(
    "--executor",
    metavar="dask://HOST:PORT",
    help="Let the workers of a Dask cluster lint; they must see the same files (pip install 'devlint[dask]').",
)
@click.option(
    "--shard",
    metavar="I/N",
    callback=_shard,
    help="Lint only part I of N parts of about the same size; `devlint merge` joins the JSON reports.",
)
@cache_options
@settings_options
@click.option("--show-settings", is_flag=True, help="Show the settings for the first path, and lint nothing.")
@click.option("--show-files", is_flag=True, help="Show which files would be linted, and lint nothing.")
@click.option("--stdin-filename", metavar="PATH", help="The name of what `-` reads from the standard input.")
@list_option("--exclude", "PATTERNS", "Leave out more files, by patterns as in .gitignore.")
@click.option("--markdown", is_flag=True, help="Also lint the Python blocks in the .md and .rst files of folders.")
@click.option("--force-exclude", is_flag=True, help="Leave out excluded files even when they are named.")
@click.option(
    "--evidence",
    type=click.Path(path_type=Path),
    help="A report of `devlint run` or `pytest --devlint-report`: say what was seen at run time, the costliest first.",
)
@click.option("-w", "--watch", is_flag=True, help="Lint again whenever a file changes (pip install 'devlint[watch]').")
@click.option("-q", "--quiet", is_flag=True, help="Print findings and errors only.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Also say which settings and how many files were used, and what was left out."
)
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
def check(**options: Any) -> None:
    """Lint files and folders (default: the current folder).

    The path `-` is the standard input.

    Exits with 0 if nothing was found, 1 if findings remain (of the severity of --fail-on), 2 if the call was wrong or a file could not be read or
    parsed.
    """
    need_folder()
    asked = Options(**options)
    with ended_by_signals():
        if asked.watch:
            from devlint.watch import watch

            code = watch(asked)
        else:
            code = Session(asked).run()
    click.get_current_context().exit(code)
