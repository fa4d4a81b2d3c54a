"""`devlint where`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from devlint.commands.options import HELP, need_folder, settings_options
from devlint.console import emit
from devlint.escapes import printable_lines
from devlint.output import Failure
from devlint.session import load_rules


@click.command(context_settings=HELP)
@click.argument("place", metavar="FILE:LINE[:NAME]")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@settings_options
def where(place: str, output_format: str, config: tuple[str, ...], isolated: bool) -> None:
    """Say what is known of the values on a line: kind, place, how they got there, and why no more is known.

    On a line with `def`, say the function's signature: what it needs, gives and changes, whatever device it is used on.

    NAME is an expression as it stands on the line, such as `batch` or `self.net`.
    """
    import json

    from devlint.disk import FileError
    from devlint.files import read_source
    from devlint.settings import SettingsError, load_settings, split_config
    from devlint.where import NothingThereError, explain, render, signature_of

    file, line, name = _split_place(place)
    need_folder()
    try:
        named, inline = split_config(config)
        settings = load_settings(Path(file), config=named, isolated=isolated, registry=load_rules(), inline=inline)
        source = read_source(Path(file), file)
        if line > len(source.lines):
            raise Failure(f"{file}:{line}: the file has {len(source.lines)} lines")
        signature = signature_of(source, line, settings) if name is None else []
        found = explain(source, line, name, settings) if not signature else []
    except (SettingsError, FileError) as error:
        raise Failure(str(error) if file in str(error) else f"{file}: {error}") from None
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Failure(f"{file}: isn't valid Python: {getattr(error, 'msg', error)}") from None
    except NothingThereError as error:
        asked = f"no `{name}` starts there; " if name else ""
        raise Failure(f"{file}:{line}: {asked}{error}") from None
    if signature:
        shown = json.dumps({"signature": signature}, indent=2) if output_format == "json" else "\n".join(signature)
        emit(printable_lines(shown) + "\n")
    elif output_format == "json":
        emit(json.dumps([known.as_dict() for known in found], indent=2).replace("\x7f", "\\u007f") + "\n")
    else:
        emit(render(found, source, file) + "\n")


def _split_place(place: str) -> tuple[str, int, str | None]:
    """FILE, LINE and NAME of `FILE:LINE[:NAME]`; the file may have a drive letter."""
    match = re.fullmatch(r"(?P<file>.+?):(?P<line>[1-9]\d*)(?::(?P<name>.+))?", place, re.DOTALL)
    if match is None:
        raise Failure(f"{place}: isn't FILE:LINE or FILE:LINE:NAME, such as train.py:31:labels")
    return match["file"], int(match["line"]), match["name"]
