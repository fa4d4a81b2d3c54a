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
    help="Let --fix write through links that lead out of the paths, and files with several names (hard links).",
)
@click.option(
    "--since",
    metavar="[=REV]",
    help="Report what the change since a revision brings, in other files too; without REV, since the main branch was left.",
)
@click.option("--staged", is_flag=True, help="Report what the change that is to be committed brings; for hooks.")
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
    help="Write a `# noqa` comment, with a reason if one is given, for each finding instead of reporting it.",
)
@click.option("--ignore-noqa", is_flag=True, help="Report what comments switch off as well.")
@list_option(
    "--select",
    "CODES",
    "Run these rules only: codes, prefixes such as DEV5, names, or ALL. Otherwise those on by default, of packs too.",
)
@list_option("--ignore", "CODES", "Leave these rules out.")
@list_option("--extend-select", "CODES", "Run these rules as well.")
@report_options("text")
@click.option("--confidence", type=click.Choice(get_args(Confidence)), help="The least confidence that is reported.")
@click.option("--preview", is_flag=True, help="Tell what is new and not yet judged on enough code as well.")
@click.option(
    "--fail-on", type=click.Choice(get_args(Severity)), help="The least severity that exits with 1 [default: warning]."
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something was found.")
@click.option("--statistics", is_flag=True, help="Show how often each rule was broken, not where.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Processes to use [default: as many as pay].")
@click.option(
    "--executor",
    metavar="dask://HOST:PORT",
    help="Let the workers of a Dask cluster lint; they must see the same files (pip install 'devlint[dask]').",
)
@click.option(
    "--shard",
    metavar="I/N",
    callback=_shard,
    help="Lint part I of N parts of the files, of as many bytes each; `devlint merge` joins the JSON reports.",
)
@cache_options
@settings_options
@click.option("--show-settings", is_flag=True, help="Show the settings for the first path, and lint nothing.")
@click.option("--show-files", is_flag=True, help="Show which files would be linted, and lint nothing.")
@click.option("--stdin-filename", metavar="PATH", help="The name of what `-` reads from the standard input.")
@list_option("--exclude", "PATTERNS", "Leave out more files, by patterns as in .gitignore.")
@click.option("--markdown", is_flag=True, help="Lint blocks of Python in the .md and .rst files of folders too.")
@click.option("--force-exclude", is_flag=True, help="Leave out excluded files even when they are named.")
@click.option(
    "--evidence",
    type=click.Path(path_type=Path),
    help="A report of `devlint run` or `pytest --devlint-report`: say what was seen to happen, the costliest first.",
)
@click.option("-w", "--watch", is_flag=True, help="Lint again whenever a file changes (pip install 'devlint[watch]').")
@click.option("-q", "--quiet", is_flag=True, help="Print findings and errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Say which settings and how many files were used.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
def check(**options: Any) -> None:
    """Lint files and folders, the current folder if none is given; `-` is the standard input.

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
