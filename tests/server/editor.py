"""An editor for tests: pygls' own client, with a real server in a process of its own behind it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

# Longer than anything takes here; it is waited for in vain only when a test fails.
PATIENCE = 60.0

ALL = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        configuration=True,
        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
    ),
    text_document=types.TextDocumentClientCapabilities(
        publish_diagnostics=types.PublishDiagnosticsClientCapabilities(related_information=True),
        hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown]),
        code_action=types.CodeActionClientCapabilities(
            resolve_support=types.ClientCodeActionResolveOptions(properties=["edit"])
        ),
    ),
    notebook_document=types.NotebookDocumentClientCapabilities(types.NotebookDocumentSyncClientCapabilities()),
)
# An editor that can do nothing that isn't asked of all of them.
PLAIN = types.ClientCapabilities()


class Editor:
    """A client and its server; what the server tells is kept, and can be waited for."""

    def __init__(
        self,
        *folders: Path,
        can: types.ClientCapabilities = ALL,
        options: Any = None,
        cwd: Any = None,
        greets: bool = True,
    ):
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.client = LanguageClient("tests", "1")
        self._news = threading.Condition()
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.counts: dict[str, int] = {}
        self.messages: list[str] = []
        self.registered: list[str] = []
        # What it answers when it is asked for its settings, by the folder that they are for.
        self.settings: dict[str | None, Any] = {}
        self.versions: dict[str, int] = {}
        self._listen()
        command = [sys.executable, "-P", "-m", "devlint", "server"]
        self._wait_for(self.client.start_io(*command, cwd=cwd))
        if greets:
            self._greet(folders, can, options)

    def _greet(self, folders: Sequence[Path], can: types.ClientCapabilities, options: Any) -> None:
        roots = [types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders]
        self.answer = self.ask(
            self.client.initialize_async,
            types.InitializeParams(
                can,
                root_uri=roots[0].uri if roots else None,
                workspace_folders=roots,
                initialization_options=options,
            ),
        )
        self.client.initialized(types.InitializedParams())

    def _listen(self) -> None:
        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            with self._news:
                self.published[params.uri] = params
                self.counts[params.uri] = self.counts.get(params.uri, 0) + 1
                self._news.notify_all()

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def told(params: types.ShowMessageParams) -> None:
            with self._news:
                self.messages.append(params.message)
                self._news.notify_all()

        @self.client.feature(types.WORKSPACE_CONFIGURATION)
        def configuration(params: types.ConfigurationParams) -> list[Any]:
            return [self.settings.get(item.scope_uri) for item in params.items]

        @self.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            self.registered += [one.method for one in params.registrations]

    def _wait_for(self, work: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(PATIENCE)

    def ask(self, method: Callable[[Any], Any], params: Any) -> Any:
        """The server's answer to a request."""
        return self._wait_for(_asked(method, params))

    def say(self, method: Callable[[Any], Any], params: Any) -> None:
        """Sends a notification."""
        self._loop.call_soon_threadsafe(method, params)

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something that the server tells makes a condition true."""
        with self._news:
            assert self._news.wait_for(condition, PATIENCE), (self.messages, self.published)

    def settle(self, uri: str) -> list[types.Diagnostic]:
        """The diagnostics of the last version of a text, waited for."""
        self.until(lambda: uri in self.published and self.published[uri].version == self.versions[uri])
        return list(self.published[uri].diagnostics)

    def open(self, path: Path, text: str | None = None) -> str:
        """Opens a file, as it is on the disk or with another text; returns its URI."""
        uri = path.as_uri()
        text = path.read_text() if text is None else text
        self.versions[uri] = 1
        item = types.TextDocumentItem(uri, types.LanguageKind.Python, 1, text)
        self.say(self.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
        return uri

    def edit(self, uri: str, *changes: types.TextDocumentContentChangeEvent) -> None:
        """Sends changes of a text."""
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        self.say(self.client.text_document_did_change, types.DidChangeTextDocumentParams(document, list(changes)))

    def replace(self, uri: str, text: str) -> None:
        """Gives an open text other contents."""
        self.edit(uri, types.TextDocumentContentChangeWholeDocument(text))

    def insert(self, uri: str, line: int, column: int, text: str) -> None:
        """Types at a place, counted from 0."""
        at = types.Position(line, column)
        self.edit(uri, types.TextDocumentContentChangePartial(types.Range(at, at), text))

    def save(self, uri: str) -> None:
        """Says that a text was saved."""
        document = types.TextDocumentIdentifier(uri)
        self.say(self.client.text_document_did_save, types.DidSaveTextDocumentParams(document))

    def close(self, uri: str) -> None:
        """Closes a text."""
        document = types.TextDocumentIdentifier(uri)
        self.say(self.client.text_document_did_close, types.DidCloseTextDocumentParams(document))

    def actions(self, uri: str, range: types.Range, only: list[str] | None = None) -> list[types.CodeAction]:
        """The code actions for a range."""
        shown = self.published[uri].diagnostics if uri in self.published else []
        context = types.CodeActionContext(shown, only=only)  # type: ignore[arg-type]
        asked = types.CodeActionParams(types.TextDocumentIdentifier(uri), range, context)
        return list(self.ask(self.client.text_document_code_action_async, asked))

    def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """An action with its edit."""
        return self.ask(self.client.code_action_resolve_async, action)

    def hover(self, uri: str, line: int, column: int) -> str:
        """What is shown at a place, counted from 0; "" where nothing is."""
        at = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, column))
        found = self.ask(self.client.text_document_hover_async, at)
        return found.contents.value if found is not None else ""

    def lenses(self, uri: str) -> list[tuple[int, str]]:
        """(line from 0, title) of the code lenses of a text."""
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        found = self.ask(self.client.text_document_code_lens_async, params)
        return [(lens.range.start.line, lens.command.title) for lens in found]

    def quit(self) -> int:
        """Ends the server as an editor does; returns its exit code."""
        self.ask(self.client.shutdown_async, None)
        self.say(self.client.exit, None)
        code: int = self._wait_for(self.process.wait())
        self._loop.call_soon_threadsafe(self._loop.stop)
        return code

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The server's process."""
        assert self.client._server is not None
        return self.client._server


async def _asked(method: Callable[[Any], Any], params: Any) -> Any:
    return await method(params)


def applied(text: str, edits: list[types.TextEdit]) -> str:
    """A text (of one code unit a character) with edits of the server."""
    lines = [*text.splitlines(keepends=True), ""]
    starts = [sum(map(len, lines[:at])) for at in range(len(lines))]

    def offset(at: types.Position) -> int:
        return starts[at.line] + at.character

    for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def after(action: types.CodeAction, uri: str, text: str) -> str:
    """A text once an action is done; it touches no other one."""
    assert action.edit is not None
    assert action.edit.changes is not None
    assert list(action.edit.changes) == [uri]
    return applied(text, list(action.edit.changes[uri]))


def codes(diagnostics: list[types.Diagnostic]) -> list[str]:
    """The codes of diagnostics, in their order."""
    return [str(d.code) for d in diagnostics]


def pause(seconds: float) -> None:
    """Waits for nothing in particular: where a test shows that nothing comes."""
    time.sleep(seconds)
