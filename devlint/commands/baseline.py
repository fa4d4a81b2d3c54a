"""`devlint baseline`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from devlint.commands import HELP
from devlint.commands.options import cache_options, need_folder, settings_options
from devlint.options import Options
from devlint.renewal import Renewal
from devlint.signals import ended_by_signals


@click.command(context_settings=HELP)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write [default: .devlint-baseline.json beside the settings].",
)
@cache_options
@settings_options
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Processes to use [default: as many as are worthwhile].")
def baseline(**options: Any) -> None:
    """Record all present findings; later runs report only new ones.

    Writes them into the baseline. With PATHs, the findings of other files stay in it as they are. `devlint --update-baseline` only drops what is gone.
    """
    need_folder()
    with ended_by_signals():
        code = Renewal(Options(**options)).write_baselines()
    click.get_current_context().exit(code)
