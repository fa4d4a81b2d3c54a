"""What the options of several commands have in common."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, get_args

import click

from devlint.failure import Failure
from devlint.findings import OutputFormat
from devlint.options import ReportForm

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def listed(_ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """`--select A,B --select C` as A, B, C."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def list_option(name: str, metavar: str, text: str) -> _Decorator:
    """An option that takes several values, with commas between or by being given again."""
    completes = complete_codes if metavar == "CODES" else None
    return click.option(name, multiple=True, callback=listed, metavar=metavar, help=text, shell_complete=completes)


def complete_codes(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Any]:
    """For a shell: the codes and names that go on as what is typed, behind those that stand before a comma already."""
    # Imported here because shells ask for it, and no run does.
    from click.shell_completion import CompletionItem

    from devlint.rule import load_registry

    before, comma, typed = incomplete.rpartition(",")
    rules = load_registry().rules()
    words = [(rule.code, rule.summary()) for rule in rules] + [(rule.name, rule.summary()) for rule in rules]
    return [
        # As it was typed, since shells drop what begins in another way; devlint takes any case.
        CompletionItem(f"{before}{comma}{typed}{word[len(typed) :]}", help=text)
        for word, text in words
        if word.lower().startswith(typed.lower())
    ]


def cache_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where results are kept from run to run, and whether."""
    no_cache = click.option(
        "--no-cache", is_flag=True, envvar="DEVLINT_NO_CACHE", help="Neither use nor keep results between runs."
    )
    return no_cache(cache_dir_option(command))


def cache_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option that names the folder of the cache."""
    return click.option(
        "--cache-dir",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="DEVLINT_CACHE_DIR",
        help="The folder to keep results in [default: .devlint_cache at the project's root].",
    )(command)


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where settings come from."""
    isolated = click.option("--isolated", is_flag=True, help="Read no settings file.")
    config = click.option(
        "--config",
        multiple=True,
        metavar="FILE|KEY=VALUE",
        help="Take the settings from this TOML file; or override a setting, as in 'select = [\"DEV1\"]' (may be repeated).",
    )
    return config(isolated(command))


class FormOfReport(click.ParamType):  # type: ignore[type-arg]
    """`FORMAT`, or `FORMAT=FILE`."""

    name = "FORMAT[=FILE]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ReportForm:
        if isinstance(value, ReportForm):
            return value
        form, equals, file = str(value).partition("=")
        forms = get_args(OutputFormat)
        if form not in forms:
            from devlint.settings import nearest

            self.fail(f"{form!r} is none of {', '.join(forms)}{nearest(form, forms)}", param, ctx)
        if equals and not file:
            self.fail(f"{value!r} names no file behind '='", param, ctx)
        return ReportForm(cast(OutputFormat, form), Path(file) if file else None)

    def shell_complete(self, _ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(form) for form in get_args(OutputFormat) if form.startswith(incomplete)]


class ValuesAfterEquals(click.Command):
    """A command in which some options take a value only after `=`: `--since` alone is `--since=`, and `--since X` leaves X alone."""

    optional_values = ("--since", "--add-noqa")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        for option, value in pairwise(args[:end]):
            if option == "--since" and not value.startswith("-") and not os.path.lexists(value):
                raise Failure(f"{value}: no such file or folder; a revision is written --since={value}")
        args = [f"{arg}=" if at < end and arg in self.optional_values else arg for at, arg in enumerate(args)]
        return super().parse_args(ctx, args)


def need_folder() -> None:
    """Says so where the current folder is gone: no path could be told from it."""
    try:
        Path.cwd()
    except OSError as error:
        raise Failure(f"the current folder can't be used: {error.strerror or error}; change to another") from None


def need_torch(what: str) -> None:
    """Says so where PyTorch isn't installed."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise Failure(f"`devlint {what}` needs PyTorch, which isn't installed here: pip install 'devlint[runtime]'")


def report_options(default: str) -> _Decorator:
    """`--output-format` and `--output-file`; `default` names the form where none is given."""
    forms = click.option(
        "--output-format",
        multiple=True,
        type=FormOfReport(),
        help=f"The form of the report, and where to write it; may be repeated. One of {', '.join(get_args(OutputFormat))} [default: {default}].",
    )
    file = click.option(
        "-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report there."
    )
    return lambda command: forms(file(command))
