"""`devlint rule` and `devlint rules`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from devlint.commands import HELP
from devlint.commands.options import complete_codes, need_torch
from devlint.console import emit, follows_links, is_terminal
from devlint.escapes import printable
from devlint.failure import CLEAN, FAILED, FOUND, Failure, wants_color

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from devlint.rule import Registry, Rule


@click.command(context_settings=HELP)
@click.argument("rule", metavar="CODE|NAME", shell_complete=complete_codes)
@click.option("--run", "live", is_flag=True, help="Run its examples too, on virtual CUDA or a GPU.")
def rule(rule: str, live: bool) -> None:
    """Print a rule's page, or list the rules of a prefix.

    A prefix is the beginning of codes, such as DEV1.
    """
    from devlint.settings import nearest_rule

    registry = _usable_rules()
    found = registry.find(rule) or registry.find(rule.upper()) or registry.find(rule.lower())
    if found is None:
        family = [each for each in registry.rules() if each.code.startswith(rule.upper())]
        if family and not live:
            _list(family)
            return
        raise Failure(f"no rule is called '{rule}'{nearest_rule(rule, registry)}")
    if live:
        click.get_current_context().exit(_run_page(found))
    if not wants_color(sys.stdout):
        emit(found.page().rstrip("\n") + "\n")
        return
    from rich.markdown import Markdown

    _console().print(Markdown(found.page()))


def _usable_rules() -> Registry:
    """The rules that can be used; the others are told of, for who writes one looks the rest up."""
    from devlint.rule import load_registry

    registry = load_registry()
    for fault in registry.left_out:
        click.echo(f"{click.style('error', fg='red', bold=True)}: left out: {printable(fault)}", err=True)
    return registry


def _run_page(found: type[Rule]) -> int:
    """Runs a rule's examples and tells what each showed."""
    if found.effect is None:
        return _lint_page(found)
    need_torch("rule --run")
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


def _lint_page(found: type[Rule]) -> int:
    """Lints the examples of a rule that states no effect, and tells whether that shows what its page says."""
    from tempfile import TemporaryDirectory

    from devlint.testing import check_page

    said = "no effect (`effect`) is stated, so nothing was run"
    with TemporaryDirectory(prefix="devlint-") as folder:
        try:
            check_page(found, Path(folder))
        except (AssertionError, ValueError) as error:
            click.echo(f"{error}; {said} [{click.style('not as stated', fg='red', bold=True)}]")
            return FOUND
    click.echo(f"bad example flagged, good one and fixed one not; {said} [{click.style('ok', fg='green')}]")
    return CLEAN


@click.command(context_settings=HELP)
@click.argument("codes", nargs=-1, metavar="[CODES]...", shell_complete=complete_codes)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def rules(codes: tuple[str, ...], output_format: str) -> None:
    """List the rules, all or those with some codes or prefixes.

    As a table, or as JSON with all that is known about each.
    """
    from devlint.settings import SettingsError, check_selectors
    from devlint.settings.selection import specificity

    registry = _usable_rules()
    try:
        selectors = check_selectors((c for word in codes for c in word.split(",")), registry, "rules")
    except SettingsError as error:
        raise Failure(str(error)) from None
    listed = [rule for rule in registry.rules() if not selectors or specificity(selectors, rule) >= 0]
    if output_format == "json":
        from devlint.reports.json import dumped

        emit(dumped([_facts(rule, registry) for rule in listed]))
    else:
        _list(listed)
    click.get_current_context().exit(FAILED if registry.left_out else CLEAN)


def _list(listed: Sequence[type[Rule]]) -> None:
    """Writes rules as a table."""
    header = ("code", "name", "severity", "default", "fix", "what it finds")
    rows = [(r.code, r.name, r.severity, "on" if r.default else "opt-in", r.fix, r.summary()) for r in listed]
    if not wants_color(sys.stdout):
        widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
        for row in (header, *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            emit("  ".join(cells).rstrip() + "\n")
        return
    from rich.table import Table

    table = Table(*header, header_style="bold", box=None, pad_edge=False)
    links = follows_links()
    for r, row in zip(listed, rows, strict=True):
        escaped = [cell.replace("[", r"\[") for cell in row]
        if links and r.address():
            escaped[0] = f"[link={r.address()}]{escaped[0]}[/link]"
        table.add_row(*escaped)
    _console().print(table)
    click.echo("fix: S safe, U unsafe (--unsafe-fixes), D displayed (yours to apply), - none")


# What a log of CI has, in which nobody says how wide it is.
_WIDE = 160


def _console() -> Console:
    """rich's console for colours that are wanted; where no terminal says how wide it is, COLUMNS does, or none is narrow."""
    from rich.console import Console

    is_known = is_terminal(sys.stdout) or os.environ.get("COLUMNS")
    return Console(force_terminal=True, width=None if is_known else _WIDE)


def _facts(rule: type[Rule], registry: Registry) -> dict[str, object]:
    """What is known of a rule, for programs."""
    fixes = {"S": "safe", "U": "unsafe", "D": "display"}
    return {
        "code": rule.code,
        "name": rule.name,
        "summary": rule.summary(),
        "severity": rule.severity,
        "default": rule.default,
        "fixes": [fixes[letter] for letter in rule.fix.split("/") if letter in fixes],
        "pack": registry.pack_of(rule),
        "url": rule.address() or None,
        "page": rule.page(),
    }
