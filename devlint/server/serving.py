"""What the server does at each message of an editor, and how it talks on the standard streams."""

from __future__ import annotations

import gc
import logging
import sys

from lsprotocol import types

from devlint.rule import Registry
from devlint.server.actions import KINDS
from devlint.server.app import Server
from devlint.server.diagnostics import SOURCE
from devlint.server.positions import path_of, same_uri

# The files whose changes on the disk matter.
_WATCHED = ("**/*.py", "**/*.pyi", "**/*.ipynb", "**/{pyproject,devlint,.devlint}.toml", "**/.devlint-baseline.json")
# Seconds after which a thread lets another one run.
_SWITCH = 0.0005


def made(registry: Registry) -> Server:
    """A server that knows what to do with each message."""
    server = Server(registry)

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.start(params)

    @server.feature(types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:
        if server.can("workspace", "did_change_watched_files", "dynamic_registration"):
            watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            registration = types.Registration(SOURCE, types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            server.start_task(server.client_register_capability_async(types.RegistrationParams([registration])))
        for fault in registry.left_out:
            server.tell(f"left out: {fault}")
        await server.configure()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configured(params: types.DidChangeConfigurationParams) -> None:
        server.push(params.settings)
        await server.configure()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def folders_changed(_: types.DidChangeWorkspaceFoldersParams) -> None:
        await server.configure()
        server.lint_all()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files_changed(params: types.DidChangeWatchedFilesParams) -> None:
        server.saved(path_of(change.uri) for change in params.changes)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.documents.open(params.text_document)
        server.edited(params.text_document.uri, opened=True)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.documents.change(params.text_document, params.content_changes)
        server.edited(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        key = server.documents.key_of(params.text_document.uri)
        server.saved([path_of(params.text_document.uri)], but=key)
        server.lint_soon(key, 0.0)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_opened(params: types.DidOpenNotebookDocumentParams) -> None:
        server.documents.open_notebook(params.notebook_document, params.cell_text_documents)
        server.lint_soon(same_uri(params.notebook_document.uri), 0.0)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def notebook_changed(params: types.DidChangeNotebookDocumentParams) -> None:
        server.documents.change_notebook(params.notebook_document, params.change)
        server.typed(same_uri(params.notebook_document.uri), path_of(params.notebook_document.uri))

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def notebook_saved(params: types.DidSaveNotebookDocumentParams) -> None:
        server.lint_soon(same_uri(params.notebook_document.uri), 0.0)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_closed(params: types.DidCloseNotebookDocumentParams) -> None:
        server.retract(same_uri(params.notebook_document.uri))
        server.documents.close_notebook(params.notebook_document.uri)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(list(KINDS), resolve_provider=True))
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await server.code_actions(params)

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        return await server.with_edit(action, tell=True) or action

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        return await server.hover(params)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    async def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        return await server.code_lens(params)

    return server


def serve(registry: Registry) -> None:
    """Talks with an editor on the standard streams until it says goodbye; exits with 1 where it leaves without.

    With one that never says a word it ends in good order: that is how an extension tries whether there is a server.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, format="devlint: %(message)s")
    # Nothing but messages may go to the standard output, whatever a rule of some pack prints.
    stdout, sys.stdout = sys.stdout.buffer, sys.stderr
    # Trees are large, and the collector would walk them while a key is waited for: it is called when nobody types.
    gc.disable()
    gc.freeze()
    # A message is read in several steps, each of which waits until the thread that works lets go: with Python's own 5 ms,
    # a key that makes a look useless would be heard of when that is over.
    sys.setswitchinterval(_SWITCH)
    server = made(registry)
    server.start_io(stdout=stdout)
    sys.exit(0 if server.protocol.is_over or not server.protocol.has_heard else 1)
