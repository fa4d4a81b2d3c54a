"""`devlint rule` and `devlint rules`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from devlint.commands.options import HELP, need_torch
from devlint.console import emit
from devlint.output import CLEAN, FOUND, Failure, wants_color
from devlint.session import load_rules

if TYPE_CHECKING:
    from devlint.rule import Rule


@click.command(context_settings=HELP)
@click.argument("rule", metavar="CODE|NAME")
@click.option("--run", "live", is_flag=True, help="Run its examples too, on virtual CUDA or a GPU.")
def rule(rule: str, live: bool) -> None:
    """Print a rule's page."""
    from devlint.settings import nearest

    registry = load_rules()
    found = registry.find(rule) or registry.find(rule.upper()) or registry.find(rule.lower())
    if found is None:
        known = [word for each in registry.rules() for word in (each.code, each.name)]
        raise Failure(f"no rule is called '{rule}'{nearest(rule, known) or '; see `devlint rules`'}")
    if live:
        click.get_current_context().exit(_run_page(found))
    if not wants_color(sys.stdout):
        emit(found.page().rstrip("\n") + "\n")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(force_terminal=True).print(Markdown(found.page()))


def _run_page(found: type[Rule]) -> int:
    """Runs a rule's examples and tells what each showed."""
    need_torch("rule --run")
    if found.effect is None:
        raise Failure(f"{found.code} has no example that could be run")
    from devlint.runtime.pages import run_page

    try:
        outcomes = run_page(found)
    except ModuleNotFoundError as error:
        raise Failure(
            f"the examples of {found.code} need {error.name}, which isn't installed here: pip install {error.name}"
        ) from None
    for outcome in outcomes:
        mark = click.style("ok", fg="green") if outcome.as_stated else click.style("not as stated", fg="red", bold=True)
        click.echo(f"{outcome.title}: {outcome.told} [{mark}]")
    return CLEAN if all(o.as_stated for o in outcomes) else FOUND


@click.command(context_settings=HELP)
def rules() -> None:
    """List the rules in a table."""
    header = ("code", "name", "severity", "default", "fix", "what it finds")
    rows = [
        (r.code, r.name, r.severity, "on" if r.default else "opt-in", r.fix, r.summary()) for r in load_rules().rules()
    ]
    if not wants_color(sys.stdout):
        widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
        for row in (header, *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            emit("  ".join(cells).rstrip() + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, header_style="bold", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    Console(force_terminal=True).print(table)
    click.echo("fix: S safe, U unsafe (--unsafe-fixes), - none")
