"""One connection with an editor: what was told and what is open, linting in its turn, and answers (`serving.py`: to which messages)."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from devlint import __version__, disk
from devlint.findings import Finding
from devlint.rule import Registry
from devlint.server import hover as hovers
from devlint.server.actions import Asked, WithheldError, actions, edits_of
from devlint.server.conversation import Conversation
from devlint.server.desk import Desk, Outcome
from devlint.server.diagnostics import SOURCE, diagnostics
from devlint.server.documents import Documents, NotebookSnapshot, Snapshot
from devlint.server.kept import StaleError
from devlint.server.lenses import lenses
from devlint.server.options import Options, read_options, told_of_devlint
from devlint.server.positions import path_of, same_uri
from devlint.server.thread import ASKED, BESIDE, TYPING, WorkThread
from devlint.signatures.state.waits import RACE

Result = TypeVar("Result")

# Seconds without a key before other open files are looked at again, and before memory is tidied.
_QUIET, _IDLE = 0.3, 5.0

_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [
        types.NotebookDocumentFilterWithCells(
            [types.NotebookCellLanguage("python")], types.NotebookDocumentFilterNotebookType("jupyter-notebook")
        ),
    ],
    save=True,
)


class Server(LanguageServer):
    """One connection with an editor."""

    protocol: Conversation

    def __init__(self, registry: Registry) -> None:
        super().__init__(SOURCE, __version__, notebook_document_sync=_NOTEBOOKS, protocol_cls=Conversation)
        self.registry = registry
        self.documents = Documents()
        # The options of each folder of the workspace; under "" those of everything else.
        self.options: dict[str, Options] = {"": Options()}
        # What the editor told when it started, what it told unasked since then, and by folder what it answers.
        self._initial: object = None
        self._pushed: object = None
        self._pulled: dict[str, object] = {}
        self.desk = Desk(registry, self.options_of, self.tell)
        self.worker = WorkThread()
        self._loop: asyncio.AbstractEventLoop | None = None
        # What was wrong with the editor's options when they came last.
        self._wrong: tuple[str, ...] = ()
        # What will be done for each document, and for all of them, once there was no key for a while.
        self._last_key = 0.0
        # How many looks were begun and aren't over.
        self._looking = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        # The texts that were told diagnostics for each document.
        self._published: dict[str, frozenset[str]] = {}
        self._lenses: dict[str, list[tuple[str, types.CodeLens]]] = {}

    # -- the editor ----------------------------------------------------------------------------------------------------

    def start(self, params: types.InitializeParams) -> None:
        """Takes in what the editor says of itself."""
        self._loop = asyncio.get_running_loop()
        encoding = self.workspace.position_encoding
        self.documents.encoding = getattr(encoding, "value", encoding) or "utf-16"
        roots = [folder.uri for folder in params.workspace_folders or ()] or [params.root_uri or ""]
        folder = next((path for uri in roots if (path := path_of(uri)) is not None), None)
        if folder is not None and folder.is_dir():
            self.desk.folder = folder
        self._initial = params.initialization_options
        self._take_options()

    def can(self, *names: str) -> bool:
        """Whether the editor has a capability, spelt as a path of names."""
        found: Any = self.client_capabilities
        for name in names:
            found = getattr(found, name, None)
        return bool(found)

    def tell(self, text: str) -> None:
        """Shows the user a warning, from whichever thread."""
        message = types.ShowMessageParams(types.MessageType.Warning, f"devlint: {text}")
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.window_show_message, message)

    def _tell_wrong(self, lines: Iterable[str]) -> None:
        """Tells what is wrong with options, once: editors send the same ones in several ways."""
        wrong = tuple(dict.fromkeys(lines))
        for line in wrong:
            if line not in self._wrong:
                self.tell(line)
        self._wrong = wrong

    def options_of(self, path: Path | None) -> Options:
        """The options of a file: those of the nearest folder of the workspace around it."""
        around = [root for root in self.options if root and path is not None and path.is_relative_to(root)]
        return self.options[max(around, key=len, default="")]

    async def configure(self) -> None:
        """Asks the editor for the options of each folder."""
        if not self.can("workspace", "configuration"):
            return
        folders = {str(path): uri for uri in self.workspace.folders if (path := path_of(uri)) is not None}
        items = [types.ConfigurationItem(None, SOURCE)]
        items += [types.ConfigurationItem(uri, SOURCE) for uri in folders.values()]
        try:
            told = await self.workspace_configuration_async(types.ConfigurationParams(items))
        except (JsonRpcException, asyncio.CancelledError):
            return
        self._pulled = dict(zip(("", *folders), told, strict=False))
        self.options_changed()

    def push(self, told: object) -> None:
        """Takes the options that the editor tells unasked; nothing at all is no news."""
        if told is not None:
            self._pushed = told
            self.options_changed()

    def options_changed(self) -> None:
        """Takes in what the editor tells of options, and lints all that is open where they are others now."""
        before = self.options
        self._take_options()
        if self.options != before:
            self.lint_all()

    def _take_options(self) -> None:
        """Puts the options together: what is answered for a folder, what was told unasked, or at the start, comes first."""
        base = told_of_devlint(self._pushed) or self._initial
        told = {"": base} | {folder: value for folder, value in self._pulled.items() if told_of_devlint(value)}
        read = {folder: read_options(value, self.registry) for folder, value in told.items()}
        self.options = {folder: options for folder, (options, _) in read.items()}
        self._tell_wrong(line for _, wrong in read.values() for line in wrong)

    # -- linting -------------------------------------------------------------------------------------------------------

    def lint_soon(self, key: str, delay: float, *, first: bool = False) -> None:
        """Lints a document when there was no key for so many seconds, or takes a first look at what was typed."""
        known = self._timers.pop(key, None)
        if known is not None:
            known.cancel()
        if delay <= 0:
            self.start_task(self.lint(key, first=first))
        elif self._loop is not None:
            self._timers[key] = self._loop.call_later(delay, lambda: self.start_task(self.lint(key, first=first)))

    def lint_all(self, *, but: str = "", delay: float = 0.0) -> None:
        """Lints all that is open."""
        for key in self.documents.open_keys():
            if key != but:
                self.lint_soon(key, delay)

    def start_task(self, work: Awaitable[Any]) -> None:
        """Has something done beside everything else; an error in it is logged."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logging.getLogger(SOURCE).error("%r", task.exception(), exc_info=task.exception())

    async def lint(self, key: str, *, first: bool = False) -> None:
        """Lints a document as it is when its turn comes, and tells the editor, unless it has changed meanwhile.

        `first` is for what was typed: a first look at what it touches, and all the rest once nobody types.
        """
        self._timers.pop(key, None)
        version = self.documents.version(key)

        def is_stale() -> bool:
            return self.documents.version(key) != version

        def work() -> Outcome | None:
            # A later text has a turn of its own.
            snapshot = self.documents.snapshot(key) if not is_stale() else None
            try:
                return self.desk.lint(key, snapshot, is_stale, first=first) if snapshot is not None else None
            except StaleError:
                return None

        self._looking += 1
        try:
            outcome = await self.worker.do(work, TYPING)
        finally:
            self._looking -= 1
        if outcome is not None and not is_stale():
            self.publish(key, outcome)
            self.start_task(self.worker.do(partial(self.desk.sweep, is_whole=outcome.is_whole), BESIDE))
            if not outcome.is_whole:
                self.lint_soon(key, _QUIET)
            self._when_idle()

    def publish(self, key: str, outcome: Outcome) -> None:
        """Tells the editor the diagnostics of a document."""
        with_related = self.can("text_document", "publish_diagnostics", "related_information")
        found = diagnostics(outcome, self.registry, with_related=with_related)
        is_book = isinstance(outcome.snapshot, NotebookSnapshot)
        for uri in self._published.get(key, frozenset()) - found.keys():
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        for uri, told in found.items():
            version = None if is_book else outcome.snapshot.version
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, told, version))
        self._published[key] = frozenset(found)

    def retract(self, key: str) -> None:
        """Takes back what was told of a document that is closed."""
        for uri in self._published.pop(key, frozenset()):
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        self.desk.close(key)
        self._lenses.pop(key, None)

    def _when_idle(self) -> None:
        known = self._timers.pop("", None)
        if known is not None:
            known.cancel()
        if self._loop is not None:
            self._timers[""] = self._loop.call_later(_IDLE, self._tidy)

    def _tidy(self) -> None:
        """Lets go of what isn't needed, which takes a second in a large project: not behind a look, when keys come again."""
        if self._looking:
            self._when_idle()
        else:
            self.start_task(self.worker.do(self.desk.tidy, BESIDE))

    # -- what has changed ----------------------------------------------------------------------------------------------

    def edited(self, uri: str, *, opened: bool = False) -> None:
        """Takes in that a text was opened or edited."""
        key = self.documents.key_of(uri)
        path = path_of(uri)
        text = self.documents.snapshot(key)
        if path is not None and text is not None and not isinstance(text, NotebookSnapshot):
            disk.unsaved[os.path.realpath(path)] = text.text.encode("utf-8", "surrogatepass")
            self.desk.changed(path, saved=False)
            for other in self.desk.hanging_on(path):
                if other != key:
                    self.lint_soon(other, _QUIET)
        if opened:
            self.lint_soon(key, 0.0)
        else:
            self.typed(key, path)

    def typed(self, key: str, path: Path | None) -> None:
        """Has a document looked at that was typed into: at once after a pause, else when the keys come slower."""
        options = self.options_of(path)
        now, pause = time.monotonic(), options.debounce / 1000
        before, self._last_key = self._last_key, now
        if options.run == "onType":
            self.lint_soon(key, 0.0 if now - before > pause else pause, first=True)

    def saved(self, paths: Iterable[Path | None], *, but: str = "") -> None:
        """Takes in that files on the disk were written, made or taken away."""
        for path in filter(None, paths):
            self.desk.changed(path, saved=True)
        self.lint_all(but=but, delay=_QUIET / 3)

    def closed(self, uri: str) -> None:
        """Takes in that a text isn't open any more: what is on the disk holds again."""
        path = path_of(uri)
        self.retract(self.documents.key_of(uri))
        self.documents.close(uri)
        if path is not None and disk.unsaved.pop(os.path.realpath(path), None) is not None:
            self.desk.changed(path, saved=False)
            for other in self.desk.hanging_on(path):
                self.lint_soon(other, _QUIET)

    # -- questions -----------------------------------------------------------------------------------------------------

    async def current(self, uri: str) -> Outcome | None:
        """What linting a document comes to as it is now; on the thread, unless it is known."""
        key = self.documents.key_of(uri)
        snapshot = self.documents.snapshot(key)
        if snapshot is None:
            return None
        known = self.desk.outcomes.get(key)
        if known is not None and (known.snapshot.version, known.snapshot.text) == (snapshot.version, snapshot.text):
            return known
        return await self.worker.do(lambda: self.desk.lint(key, snapshot, lambda: False), ASKED)

    async def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """What can be done about the findings in a range."""
        uri = params.text_document.uri
        outcome = await self.current(uri)
        if outcome is None:
            return []
        only = [getattr(kind, "value", kind) for kind in params.context.only] if params.context.only else None
        own_uri = next((one for one in outcome.snapshot.uris if same_uri(one) == same_uri(uri)), uri)
        asked = Asked(own_uri, params.range, params.context.diagnostics, only)
        options = self.options_of(outcome.snapshot.path)
        key = self.documents.key_of(uri)
        found = list(actions(key, outcome, asked, fix_all=options.fix_all, safety=options.safety))
        lazily = self.can("text_document", "code_action", "resolve_support") and not asked.wants_fix_all_alone
        if not lazily:
            found = [done for action in found if (done := await self.with_edit(action)) is not None]
        return found

    async def with_edit(self, action: types.CodeAction, *, tell: bool = False) -> types.CodeAction | None:
        """An action with its edit; None where that isn't to be made, which is told if asked to."""
        data: Any = action.data if isinstance(action.data, dict) else getattr(action.data, "_asdict", dict)()
        snapshot = self.documents.snapshot(str(data.get("document")))
        safety = self.options_of(snapshot.path if snapshot is not None else None).safety
        try:
            changes = await self.worker.do(lambda: edits_of(self.desk, data, safety=safety), ASKED)
        except WithheldError as error:
            if tell:
                self.tell(str(error))
            return None
        action.edit = types.WorkspaceEdit(changes)
        return action

    def _offers(self, snapshot: Snapshot, what: str) -> bool:
        """Whether the options of a document's folder let something be shown beside diagnostics."""
        options = self.options_of(snapshot.path)
        return options.enable and bool(getattr(options, what))

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """What is known of what the pointer is on."""
        key = self.documents.key_of(params.text_document.uri)
        snapshot = self.documents.snapshot(key)
        if snapshot is None or not self._offers(snapshot, "hover"):
            return None
        formats = getattr(getattr(self.client_capabilities.text_document, "hover", None), "content_format", None)
        markdown = types.MarkupKind.Markdown in (formats or ())

        def work() -> types.Hover | None:
            line, column = snapshot.place(params.text_document.uri, params.position)
            found = hovers.rule_at(snapshot, line, column, self.registry)
            if found is None:
                model = self.desk.model(snapshot)
                if model is not None:
                    found = hovers.value_at(model, line, column, snapshot)
                elif (last := self.desk.last_model(key, snapshot)) is not None:
                    found = hovers.last_known_at(*last, line, column, snapshot)
            return hovers.as_hover(snapshot, found, markdown=markdown) if found is not None else None

        return await self.worker.do(_without_errors(work, None), ASKED)

    def _is_wait(self, finding: Finding) -> bool:
        """Whether a finding is of a rule that tells of waits."""
        rule = self.registry.find(finding.code)
        return rule is not None and bool(rule.senses - {RACE})

    async def code_lens(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        """How often the host waits in the functions of a text that are hot."""
        uri = params.text_document.uri
        key = self.documents.key_of(uri)
        version, snapshot = self.documents.version(key), self.documents.snapshot(key)
        if snapshot is None or not self._offers(snapshot, "code_lens"):
            return []
        # While something is typed, the last ones do.
        await asyncio.sleep(_QUIET if key in self._lenses else 0)

        def work() -> list[tuple[str, types.CodeLens]] | None:
            if self.documents.version(key) != version:
                return None
            model = self.desk.model(snapshot)
            if model is None:
                return None
            outcome = self.desk.outcomes.get(key)
            shown = (f for f in (outcome.findings if outcome is not None else ()) if self._is_wait(f))
            return lenses(model, snapshot, [finding.span.line for finding in shown])

        found = await self.worker.do(_without_errors(work, None), BESIDE)
        if found is not None:
            self._lenses[key] = found
        return [lens for own, lens in self._lenses.get(key, ()) if same_uri(own) == same_uri(uri)]


def _without_errors(work: Callable[[], Result], instead: Result) -> Callable[[], Result]:
    """A piece of work that nothing hangs on: an error in it is logged, and something else given."""

    def careful() -> Result:
        try:
            return work()
        except Exception as error:
            logging.getLogger(SOURCE).error("%r", error, exc_info=error)
            return instead

    return careful
