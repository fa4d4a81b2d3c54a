"""The command line: options in, exit code out."""

from __future__ import annotations

import gc
import io
import os
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click

from devlint.commands import HELP
from devlint.console import OutputError, emit, occupy_closed_streams, silence
from devlint.escapes import printable_lines
from devlint.failure import CLEAN, FAILED, INTERRUPTED, Failure
from devlint.regexes import regex
from devlint.signals import TerminatedError

# The module of each command in `commands/`: a run imports the one that it is about.
_COMMANDS = {
    "baseline": "baseline",
    "check": "check",
    "clean": "clean",
    "completion": "completion",
    "init": "init",
    "merge": "merge",
    "new-rule": "new_rule",
    "rule": "rules",
    "rules": "rules",
    "run": "run",
    "server": "server",
    "where": "where",
}
# Commands of other linters, and what they are here.
_ELSEWHERE = {
    "explain": "`devlint rule CODE` prints a rule's page",
    "lint": "`devlint PATH` lints",
    "fix": "`devlint --fix PATH` fixes",
    "format": "devlint formats nothing",
    "config": "`devlint check --show-settings` shows the settings",
    "help": "see `devlint --help`",
    "version": "see `devlint --version`",
}
_CODE = regex(r"[A-Z]{2,8}[0-9]{3,4}", re.IGNORECASE)


def _meant(word: str, commands: Iterable[str]) -> str:
    """What a first word that is neither a command nor a path was meant for; "" where it looks like a path."""
    if not word.replace("-", "").isalnum() or word.startswith("-") or os.path.lexists(word):
        return ""
    if word.lower() in _ELSEWHERE:
        return _ELSEWHERE[word.lower()]
    if _CODE.fullmatch(word):
        return f"`devlint rule {word.upper()}` prints the rule's page, `--select {word.upper()}` runs it alone"
    import difflib

    near = difflib.get_close_matches(word, commands, 1, cutoff=0.75)
    return f"did you mean `devlint {near[0]}`?" if near else ""


class _DefaultToCheck(click.Group):
    """The commands, in which `devlint PATH` means `devlint check PATH`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"devlint.commands.{_COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*_COMMANDS, "-h", "--help", "-V", "--version"}
        # A shell that completes the first word hasn't got any yet.
        if (args or not ctx.resilient_parsing) and (not args or args[0] not in own):
            if args and not ctx.resilient_parsing and (meant := _meant(args[0], _COMMANDS)):
                raise Failure(f"{args[0]}: no such file, folder or command; {meant}")
            args = ["check", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """The commands, and what `check` takes, since that is what is meant without one."""
        from click.shell_completion import CompletionItem

        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            check = self.get_command(ctx, "check")
            assert check is not None
            return found + check.shell_complete(ctx, incomplete)
        return found or [CompletionItem(incomplete, type="file")]


def _version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """Shows the version, which is looked up for that alone."""
    if wanted and not ctx.resilient_parsing:
        from devlint import __version__

        emit(f"devlint {__version__}\n")
        ctx.exit()


@click.group(
    cls=_DefaultToCheck,
    context_settings=HELP,
    epilog="`devlint PATH...` is short for `devlint check PATH...`; see `devlint check --help` for the options. "
    "A folder with a command's name needs the long form: `devlint check rules`.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Find device-placement bugs in PyTorch code, and fix them."""


def main() -> None:
    """The console script."""
    # What a run imports stays until its end, and most are short: they needn't have it looked over for garbage again and again.
    gc.disable()
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
    except TerminatedError as error:
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
