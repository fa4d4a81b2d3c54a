"""`devlint run`."""

from __future__ import annotations

import gc
from pathlib import Path

import click

from devlint.commands import HELP
from devlint.commands.options import need_torch
from devlint.failure import Failure


@click.command(context_settings={**HELP, "ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-m", "--module", is_flag=True, help="Run a module, as `python -m` does.")
@click.option("--virtual-cuda", type=click.IntRange(min=0), default=0, metavar="N", help="Run with N virtual GPUs.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write what was seen there, as JSON.")
@click.option("--fail-on-sync", is_flag=True, help="Exit with 1 where the host waited for a device; as --max-syncs 0.")
@click.option(
    "--max-syncs", type=click.IntRange(min=0), metavar="N", help="Exit with 1 where it waited more often than that."
)
@click.argument("program", metavar="SCRIPT|MODULE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    module: bool,
    virtual_cuda: int,
    report: Path | None,
    fail_on_sync: bool,
    max_syncs: int | None,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Run a program and report mixed devices, waits and copies.

    The exit code is the program's own, unless it waited more often than allowed. Waits under `sync_allowed` don't count. Needs PyTorch: `pip install devlint[runtime]`.
    """
    need_torch("run")
    from devlint.runtime import run_program

    # The program is to run as it does by itself.
    gc.enable()

    try:
        code = run_program(
            [program, *arguments],
            module=module,
            virtual_cuda=virtual_cuda,
            report=report,
            max_syncs=0 if fail_on_sync and max_syncs is None else max_syncs,
        )
    except (FileNotFoundError, ValueError) as error:
        raise Failure(str(error).removeprefix("devlint run: ")) from None
    except OSError as error:
        raise Failure(f"--report {report}: can't be written: {error.strerror or error}") from None
    click.get_current_context().exit(code)
