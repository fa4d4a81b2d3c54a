"""The command line: options in, exit code out.

Modules are imported where they are used, so that `devlint --version` and a clean file stay quick.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from devlint import __version__
from devlint.console import OutputError, emit, occupy_closed_streams, silence
from devlint.escapes import printable_lines
from devlint.session import CLEAN, FAILED, FOUND, INTERRUPTED, Failure, Options, Session, load_rules, wants_color

if TYPE_CHECKING:
    from devlint.rule import Rule

_HELP = {"help_option_names": ["-h", "--help"]}


class _DefaultToCheck(click.Group):
    """A group of commands in which `devlint PATH` means `devlint check PATH`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*self.commands, "-h", "--help", "-V", "--version"}
        if not args or args[0] not in own:
            args = ["check", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_DefaultToCheck,
    context_settings=_HELP,
    epilog="`devlint PATH...` is short for `devlint check PATH...`; see `devlint check --help` for the options. "
    "A folder with a command's name needs the long form.",
)
@click.version_option(__version__, "-V", "--version", prog_name="devlint", message="%(prog)s %(version)s")
def cli() -> None:
    """Find device-placement bugs in PyTorch code, and fix them."""


def _listed(_ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """`--select A,B --select C` as A, B, C."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _list_option(name: str, metavar: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(name, multiple=True, callback=_listed, metavar=metavar, help=text)


@cli.command(context_settings=_HELP)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--fix", is_flag=True, help="Apply safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="Let --fix and --diff apply unsafe fixes too.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and write nothing.")
@click.option(
    "--follow-links",
    is_flag=True,
    help="Let --fix write through links that lead out of the paths, and files with several names (hard links).",
)
@_list_option("--select", "CODES", "Run these rules only: codes, prefixes such as DEV5, names, or ALL.")
@_list_option("--ignore", "CODES", "Leave these rules out.")
@_list_option("--extend-select", "CODES", "Run these rules as well.")
@click.option("--output-format", type=click.Choice(["text", "concise", "json"]), default="text", show_default=True)
@click.option("-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report there.")
@click.option("--confidence", type=click.Choice(["certain", "likely"]), help="The least confidence that is reported.")
@click.option("--preview", is_flag=True, help="Tell what is new and not yet judged on enough code as well.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something was found.")
@click.option("--statistics", is_flag=True, help="Show how often each rule was broken, not where.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Processes to use [default: as many as pay].")
@click.option("--config", type=click.Path(path_type=Path), help="Take the settings from this TOML file.")
@click.option("--isolated", is_flag=True, help="Read no settings file.")
@click.option("--stdin-filename", metavar="PATH", help="The name of what `-` reads from the standard input.")
@_list_option("--exclude", "PATTERNS", "Leave out more files, by patterns as in .gitignore.")
@click.option("--force-exclude", is_flag=True, help="Leave out excluded files even when they are named.")
@click.option(
    "--evidence",
    type=click.Path(path_type=Path),
    help="A report of `devlint run` or `pytest --devlint-report`: say what was seen to happen, the costliest first.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print findings and errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Say which settings and how many files were used.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
def check(**options: Any) -> None:
    """Lint files and folders, the current folder if none is given; `-` is the standard input.

    Exits with 0 if nothing was found, 1 if findings remain, 2 if the call was wrong or a file could not be read or
    parsed.
    """
    _need_folder()
    with _ended_by_signals():
        run = Session(Options(**options))
        code = run.run_stdin() if "-" in run.options.paths else run.run_files()
    click.get_current_context().exit(code)


def _need_folder() -> None:
    """Says so where the current folder is gone: no path could be told from it."""
    try:
        Path.cwd()
    except OSError as error:
        raise Failure(f"the current folder can't be used: {error.strerror or error}; change to another") from None


class _TerminatedError(BaseException):
    """A signal asked the run to end; what it has opened and started is put away on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A stretch that SIGTERM and SIGHUP end in good order, with all its processes, as Ctrl-C does."""

    def end(number: int, _frame: object) -> None:
        # Whoever is in a hurry gets its way with the second one.
        signal.signal(number, signal.SIG_DFL)
        raise _TerminatedError(number)

    ending = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # `nohup` has it ignored: that stays.
    before = {number: signal.signal(number, end) for number in ending if signal.getsignal(number) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@cli.command(context_settings={**_HELP, "ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-m", "--module", is_flag=True, help="Run a module, as `python -m` does.")
@click.option("--virtual-cuda", type=click.IntRange(min=0), default=0, metavar="N", help="Run with N virtual GPUs.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write what was seen there, as JSON.")
@click.argument("program", metavar="SCRIPT|MODULE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(module: bool, virtual_cuda: int, report: Path | None, program: str, arguments: tuple[str, ...]) -> None:
    """Run a program and say where it mixed devices, waited for one, or copied between them.

    The exit code is the program's own. Needs PyTorch: `pip install devlint[runtime]`.
    """
    _need_torch("run")
    from devlint.runtime import run_program

    try:
        code = run_program([program, *arguments], module=module, virtual_cuda=virtual_cuda, report=report)
    except (FileNotFoundError, ValueError) as error:
        raise Failure(str(error).removeprefix("devlint run: ")) from None
    except OSError as error:
        raise Failure(f"--report {report}: can't be written: {error.strerror or error}") from None
    click.get_current_context().exit(code)


@cli.command(context_settings=_HELP)
@click.argument("place", metavar="FILE:LINE[:NAME]")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--config", type=click.Path(path_type=Path), help="Take the settings from this TOML file.")
@click.option("--isolated", is_flag=True, help="Read no settings file.")
def where(place: str, output_format: str, config: Path | None, isolated: bool) -> None:
    """Say what is known of the values on a line: kind, place, how they got there, and why no more is known.

    On a line with `def`, say the function's signature: what it needs, gives and changes, whatever device it is used on.

    NAME is an expression as it stands on the line, such as `batch` or `self.net`.
    """
    import json

    from devlint.files import FileError, read_source
    from devlint.settings import SettingsError, load_settings
    from devlint.where import NothingThereError, explain, render, signature_of

    file, line, name = _split_place(place)
    _need_folder()
    try:
        settings = load_settings(Path(file), config=config, isolated=isolated, registry=load_rules())
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


def _need_torch(what: str) -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise Failure(f"`devlint {what}` needs PyTorch, which isn't installed here: pip install 'devlint[runtime]'")


@cli.command(context_settings=_HELP)
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
    _need_torch("rule --run")
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


@cli.command(context_settings=_HELP)
def rules() -> None:
    """List the rules in a table."""
    header = ("code", "name", "default", "fix", "what it finds")
    rows = [(r.code, r.name, "on" if r.default else "opt-in", r.fix, r.summary()) for r in load_rules().rules()]
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


def main() -> None:
    """The console script."""
    occupy_closed_streams()
    code = _code_of_run()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
    sys.exit(code)


def _code_of_run() -> int:
    """Runs the command line; what went wrong is told in one line."""
    try:
        return int(cli.main(standalone_mode=False, prog_name="devlint") or CLEAN)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        emit(printable_lines(shown.getvalue()), err=True)
        return error.exit_code
    except OutputError as error:
        return _failed(str(error))
    except (KeyboardInterrupt, click.Abort):
        emit("interrupted\n", err=True)
        return INTERRUPTED
    except _TerminatedError as error:
        emit("terminated\n", err=True)
        return 128 + error.number
    except BrokenPipeError:
        # The reader of a page or a table, such as `head`, has seen enough.
        silence(sys.stdout)
        return CLEAN
    except OSError as error:
        if os.environ.get("DEVLINT_DEBUG"):
            raise
        silence(sys.stdout)
        return _failed(f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
    except Exception as error:
        if os.environ.get("DEVLINT_DEBUG"):
            raise
        said = f"{type(error).__name__}: {error}".split("\n", 1)[0]
        return _failed(f"internal error, please report it: {said}; DEVLINT_DEBUG=1 shows where")


def _failed(said: str) -> int:
    Failure(said).show()
    return FAILED


if __name__ == "__main__":
    main()
