"""`devlint clean`."""

from __future__ import annotations

from pathlib import Path

import click

from devlint.commands import HELP
from devlint.commands.options import cache_dir_option, need_folder, settings_options
from devlint.console import emit
from devlint.escapes import printable
from devlint.failure import Failure


@click.command(context_settings=HELP)
@cache_dir_option
@settings_options
def clean(cache_dir: Path | None, config: tuple[str, ...], isolated: bool) -> None:
    """Remove the results kept between runs.

    They are those of the project of the current folder, or those in the folder of --cache-dir.
    """
    from devlint.asked import Asked
    from devlint.cache.folder import clean as remove
    from devlint.options import Options

    need_folder()
    folder = Asked(Options(config=config, isolated=isolated, cache_dir=cache_dir)).cache_folder
    try:
        removed = remove(folder)
    except OSError as error:
        raise Failure(f"{folder}: can't be removed: {error.strerror or error}") from None
    emit(f"{'Removed' if removed else 'Nothing to remove'}: {printable(str(folder))}\n")
