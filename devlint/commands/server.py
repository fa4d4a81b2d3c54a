"""`devlint server`."""

from __future__ import annotations

from importlib.util import find_spec

import click

from devlint.commands import HELP
from devlint.commands.options import need_folder
from devlint.failure import Failure
from devlint.rule import load_registry


@click.command(context_settings=HELP)
@click.option("--stdio", is_flag=True, help="Talk on the standard streams, as it does anyway.")
def server(stdio: bool) -> None:
    """Serve an editor by the Language Server Protocol.

    Editors start it themselves. Needs pygls: `pip install devlint[lsp]`.
    """
    if find_spec("pygls") is None or find_spec("lsprotocol") is None:
        raise Failure("`devlint server` needs pygls, which isn't installed here: pip install 'devlint[lsp]'")
    need_folder()
    from devlint.server.serving import serve

    serve(load_registry())
