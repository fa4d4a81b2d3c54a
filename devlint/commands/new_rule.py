"""`devlint new-rule`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from devlint.commands import HELP
from devlint.console import emit
from devlint.escapes import printable
from devlint.failure import Failure


@click.command("new-rule", context_settings=HELP)
@click.argument("code")
@click.argument("name")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--into", metavar="PACKAGE", help="The package that the rule goes into [default: the pack's own].")
def new_rule(code: str, name: str, folder: Path, into: str | None) -> None:
    """Write the skeleton of a rule: module, page and cases.

    FOLDER is the project of a rule pack; if it doesn't exist, a new pack is made there. What is written passes its own tests, and
    says TODO where you have to replace it; in devlint's own pack, the tests of pages fail until you have.
    """
    from devlint import scaffold
    from devlint.rule import load_registry

    # What can't be used of a pack may be what somebody is writing just now.
    registry = load_registry()
    for word in (code, name):
        taken = registry.find(word)
        if taken is not None:
            raise Failure(
                f"{taken.code} ({taken.name}) of {registry.pack_of(taken)} has that code or name: choose another"
            )
    try:
        files = scaffold.new_rule(code, name, folder, into)
    except scaffold.ScaffoldError as error:
        raise Failure(str(error)) from None
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        emit(f"written: {printable(os.path.relpath(path))}\n")
    shown = printable(str(folder))
    install = f"`pip install -e '{shown}[dev]'`, then " if folder / "pyproject.toml" in files else ""
    # Of devlint's own tests these are about rules one by one; to collect all takes a while.
    about_rules = [folder / "tests" / f"test_{name}.py" for name in ("cases", "rules", "pages")]
    wanted = about_rules if all(path.exists() for path in about_rules) else [folder / "tests"]
    tests = " ".join(printable(os.path.relpath(path)) for path in wanted)
    emit(f"Next: {install}`pytest {tests} -k {code}`; replace what says TODO.\n")
