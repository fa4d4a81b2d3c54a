"""`devlint where`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from devlint.commands import HELP
from devlint.commands.options import need_folder, settings_options
from devlint.console import emit
from devlint.escapes import printable, printable_lines
from devlint.failure import Failure
from devlint.regexes import regex
from devlint.rule import load_registry

if TYPE_CHECKING:
    from devlint.files import Source


@click.command(context_settings=HELP)
@click.argument("place", metavar="FILE:[cell N:]LINE[:NAME]", type=click.Path())
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@settings_options
def where(place: str, output_format: str, config: tuple[str, ...], isolated: bool) -> None:
    """Show what is known about the values on a line.

    That is their kind, the device that they are on, how they got there, and why no more is known. Last come findings that are left out on this line, and why.

    On a line with `def`, show the function's signature: what it needs, gives and changes, whatever device it is used on.

    NAME is an expression as it stands on the line, such as `batch` or `self.net`. A column, as reports give it, is ignored. In a notebook, the line counts from the cell's start: `notes.ipynb:cell 3:4`.
    """
    import json
    from dataclasses import asdict

    from devlint.disk import FileError
    from devlint.files import read_source
    from devlint.settings import SettingsError, load_settings, split_config
    from devlint.where import NothingThereError, explain, render, signature_of, untold_on

    asked = _split_place(place)
    file, name = asked.file, asked.name
    need_folder()
    try:
        named, inline = split_config(config)
        registry = load_registry()
        settings = load_settings(Path(file), config=named, isolated=isolated, registry=registry, inline=inline)
        source = read_source(Path(file), file)
        line = _line_of(asked, source)
        signature = signature_of(source, line, settings) if name is None else []
        found = explain(source, line, name, settings) if not signature else []
    except (SettingsError, FileError) as error:
        raise Failure(str(error) if file in str(error) else f"{file}: {error}") from None
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Failure(f"{file}: isn't valid Python: {getattr(error, 'msg', error)}") from None
    except NothingThereError as error:
        missed = f"no `{name}` starts there; " if name else ""
        raise Failure(f"{asked}: {missed}{error}") from None
    if signature:
        shown = json.dumps({"signature": signature}, indent=2) if output_format == "json" else "\n".join(signature)
        emit(printable_lines(shown) + "\n")
        return
    untold = untold_on(source, line, settings, registry, found) if name is None else []
    if output_format == "json":
        told = {"values": [known.as_dict() for known in found], "untold": [asdict(one) for one in untold]}
        emit(json.dumps(told, indent=2).replace("\x7f", "\\u007f") + "\n")
    else:
        lines = [printable(str(one)) for one in untold]
        emit("\n".join([render(found, source, file), *([""] if lines else []), *lines]) + "\n")


class _Asked(NamedTuple):
    """The place that was asked about."""

    file: str
    cell: int | None
    line: int
    name: str | None

    def __str__(self) -> str:
        return f"{self.file}:{'' if self.cell is None else f'cell {self.cell}:'}{self.line}"


_PLACE = regex(
    r"(?P<file>.+?):(?:cell (?P<cell>[1-9]\d*):)?(?P<line>[1-9]\d*)(?::(?P<column>\d+)|:(?P<name>.+))?", re.DOTALL
)


def _split_place(place: str) -> _Asked:
    """What `FILE:[cell N:]LINE[:NAME]` asks about; the file may have a drive letter."""
    match = _PLACE.fullmatch(place)
    if match is None:
        raise Failure(f"{place}: isn't FILE:LINE or FILE:LINE:NAME, such as train.py:31:labels")
    return _Asked(match["file"], int(match["cell"]) if match["cell"] else None, int(match["line"]), match["name"])


def _line_of(asked: _Asked, source: Source) -> int:
    """The line of a source's text that was asked about."""
    if source.notebook is None:
        if asked.cell is not None:
            raise Failure(f"{asked}: the file has no cells; write {asked.file}:{asked.line}")
        if asked.line > len(source.lines):
            raise Failure(f"{asked}: the file has {len(source.lines)} lines")
        return asked.line
    if asked.cell is None and asked.file.endswith(".ipynb"):
        raise Failure(f"{asked}: a notebook's lines count from their cell; write {asked.file}:cell 1:{asked.line}")
    line = source.notebook.line_of(asked.cell, asked.line)
    if line is None:
        raise Failure(f"{asked}: no line of Python is there")
    return line
