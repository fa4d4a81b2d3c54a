"""`devlint completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from devlint.commands import HELP
from devlint.console import emit

_SHELLS = {
    "bash": 'eval "$(devlint completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(devlint completion zsh)"  # in ~/.zshrc, behind compinit',
    "fish": "devlint completion fish > ~/.config/fish/completions/devlint.fish",
}


@click.command(context_settings=HELP, epilog="\b\n" + "\n".join(_SHELLS.values()))
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print a completion script for your shell."""
    completing = get_completion_class(shell)
    assert completing is not None
    root = click.get_current_context().find_root().command
    script = completing(root, {}, "devlint", "_DEVLINT_COMPLETE").source()
    # click's script for fish would cut what is completed behind its first comma.
    emit(script.replace('string split ","', 'string split --max 1 ","'))
