"""What the editor holds: texts and notebooks as they are there, saved or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from lsprotocol import types

from devlint.files import Source, source_from_bytes
from devlint.findings import Edit, Span
from devlint.notebooks import Notebook
from devlint.server.positions import Places, path_of, same_uri
from devlint.textmap import TextMap, minimal_edit, split_lines

Edits = dict[str, list[types.TextEdit]]


@dataclass(frozen=True)
class Snapshot:
    """A document as it was at one moment."""

    uri: str
    path: Path | None
    version: int
    text: str
    encoding: str

    @property
    def uris(self) -> tuple[str, ...]:
        """What the editor shows its diagnostics in."""
        return (self.uri,)

    @property
    def display(self) -> str:
        """What findings call the file."""
        return self.path.as_posix() if self.path is not None else self.uri

    @cached_property
    def source(self) -> Source:
        """What is linted; raises FileError."""
        # The bytes are what the file would hold once it is saved: limits of size are about those.
        return source_from_bytes(self.text.encode("utf-8", "surrogatepass"), self.path, self.display)

    @cached_property
    def map(self) -> TextMap:
        """Where things stand in the source."""
        return TextMap(self.source.text)

    @cached_property
    def places(self) -> Places:
        return Places(self.text, self.encoding)

    def range(self, span: Span) -> tuple[str, types.Range]:
        """The text and the range in it where a span of the source stands."""
        return self.uri, self.places.range(span)

    def place(self, uri: str, position: types.Position) -> tuple[int, int]:
        """The line and column of the source, from 1, of a place in one of the document's texts."""
        return self.places.place(position)

    def can_edit(self, edits: Iterable[Edit]) -> bool:
        """Whether the editor can make these edits."""
        return True

    def edits_to(self, changed: Source) -> Edits:
        """The edits that make another text of the source."""
        return {self.uri: changes(self.places, changed.text)}


@dataclass(frozen=True)
class NotebookSnapshot(Snapshot):
    """A notebook as it was at one moment: `text` is its JSON, as far as devlint asks for it."""

    # The URIs and texts of its cells, each with its kind.
    cells: tuple[tuple[str, str, types.NotebookCellKind], ...] = ()

    @property
    def uris(self) -> tuple[str, ...]:
        return tuple(uri for uri, _, kind in self.cells if kind == types.NotebookCellKind.Code)

    @property
    def display(self) -> str:
        # The suffix tells what it is.
        shown = super().display
        return shown if shown.endswith(".ipynb") else f"{shown}.ipynb"

    @cached_property
    def _cell_places(self) -> dict[str, Places]:
        return {uri: Places(text, self.encoding) for uri, text, _ in self.cells}

    def range(self, span: Span) -> tuple[str, types.Range]:
        notebook = self.source.notebook
        assert isinstance(notebook, Notebook)
        number, line = notebook.locate(span.line)
        end_line = line + span.end_line - span.line
        uri = self.cells[number - 1][0] if self.cells else self.uri
        places = self._cell_places.get(uri) or Places("")
        return uri, places.range(Span(line, span.column, end_line, span.end_column))

    def place(self, uri: str, position: types.Position) -> tuple[int, int]:
        notebook = self.source.notebook
        assert isinstance(notebook, Notebook)
        wanted = same_uri(uri)
        number = next((n for n, (cell, _, _) in enumerate(self.cells, 1) if same_uri(cell) == wanted), 1)
        line, column = self._cell_places[self.cells[number - 1][0]].place(position)
        for cell, first in zip(notebook.cells, notebook.first_lines, strict=True):
            if cell.number == number:
                return first + line - 1, column
        # A cell that isn't Python: a line that nothing stands on.
        return 1, 1

    def can_edit(self, edits: Iterable[Edit]) -> bool:
        notebook = self.source.notebook
        return notebook is not None and all(notebook.can_edit(edit.span) for edit in edits)

    def edits_to(self, changed: Source) -> Edits:
        after = json.loads(changed.to_bytes())["cells"]
        return {
            uri: edits
            for (uri, _, _), cell in zip(self.cells, after, strict=True)
            if (edits := changes(self._cell_places[uri], "".join(cell["source"])))
        }


def changes(places: Places, text: str) -> list[types.TextEdit]:
    """The edits that make `text` of the text of some places: in each stretch of lines that differ, what differs there."""
    import difflib

    old, new = split_lines(places.map.text), split_lines(text)
    starts = [*accumulate(map(len, old), initial=0)]
    found = []
    for what, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what != "equal":
            start, end, put = minimal_edit("".join(old[i1:i2]), "".join(new[j1:j2]))
            first, last = (places.map.position(starts[i1] + offset) for offset in (start, end))
            found.append(types.TextEdit(places.range(Span(*first, *last)), put))
    return found


@dataclass
class Text:
    """A text that is open, or a cell of a notebook that is."""

    uri: str
    version: int
    text: str

    def change(self, events: Iterable[types.TextDocumentContentChangeEvent], encoding: str) -> None:
        """Takes in what was typed."""
        for event in events:
            if isinstance(event, types.TextDocumentContentChangePartial):
                places = Places(self.text, encoding)
                start, end = places.offset(event.range.start), places.offset(event.range.end)
                self.text = self.text[:start] + event.text + self.text[max(start, end) :]
            else:
                self.text = event.text


@dataclass
class Book:
    """A notebook that is open."""

    uri: str
    version: int
    metadata: object
    cells: list[types.NotebookCell]


@dataclass
class Documents:
    """All that is open, by URI."""

    encoding: str = types.PositionEncodingKind.Utf16.value
    _texts: dict[str, Text] = field(default_factory=dict)
    _books: dict[str, Book] = field(default_factory=dict)
    # The notebook of each cell.
    _book_of: dict[str, str] = field(default_factory=dict)

    def open(self, item: types.TextDocumentItem) -> None:
        """Takes in a text."""
        self._texts[same_uri(item.uri)] = Text(item.uri, item.version, item.text)

    def change(
        self, text: types.VersionedTextDocumentIdentifier, events: Sequence[types.TextDocumentContentChangeEvent]
    ) -> None:
        """Takes in what was typed into a text; one that isn't open is passed over."""
        known = self._texts.get(same_uri(text.uri))
        if known is not None:
            known.change(events, self.encoding)
            known.version = text.version

    def close(self, uri: str) -> None:
        """Lets go of a text."""
        self._texts.pop(same_uri(uri), None)

    def open_notebook(self, notebook: types.NotebookDocument, cells: Iterable[types.TextDocumentItem]) -> None:
        """Takes in a notebook and the texts of its cells."""
        book = Book(notebook.uri, notebook.version, notebook.metadata, list(notebook.cells))
        self._books[same_uri(notebook.uri)] = book
        self._take(book, cells)

    def change_notebook(
        self, notebook: types.VersionedNotebookDocumentIdentifier, change: types.NotebookDocumentChangeEvent
    ) -> list[str]:
        """Takes in what changed in a notebook; returns the cells that are gone."""
        book = self._books.get(same_uri(notebook.uri))
        if book is None:
            return []
        book.version = notebook.version
        if change.metadata is not None:
            book.metadata = change.metadata
        gone: list[str] = []
        if change.cells is not None and change.cells.structure is not None:
            structure = change.cells.structure
            start, count = structure.array.start, structure.array.delete_count
            book.cells[start : start + count] = structure.array.cells or []
            self._take(book, structure.did_open or ())
            gone = [cell.uri for cell in structure.did_close or ()]
            for uri in gone:
                self._forget_cell(uri)
        for changed in (change.cells.text_content or ()) if change.cells is not None else ():
            self.change(changed.document, changed.changes)
        return gone

    def close_notebook(self, uri: str) -> None:
        """Lets go of a notebook and its cells."""
        book = self._books.pop(same_uri(uri), None)
        for cell in book.cells if book is not None else ():
            self._forget_cell(cell.document)

    def _take(self, book: Book, cells: Iterable[types.TextDocumentItem]) -> None:
        for cell in cells:
            self.open(cell)
            self._book_of[same_uri(cell.uri)] = same_uri(book.uri)

    def _forget_cell(self, uri: str) -> None:
        self.close(uri)
        self._book_of.pop(same_uri(uri), None)

    def key_of(self, uri: str) -> str:
        """What a text is linted as: itself, or for a cell its notebook."""
        return self._book_of.get(same_uri(uri), same_uri(uri))

    def open_keys(self) -> list[str]:
        """All that is linted."""
        return [*(uri for uri in self._texts if uri not in self._book_of), *self._books]

    def version(self, key: str) -> tuple[int, ...] | None:
        """Something that is another one after each change; None for what isn't open."""
        if key in self._texts:
            return (self._texts[key].version,)
        if key in self._books:
            cells = self._books[key].cells
            texts = (self._texts.get(same_uri(cell.document)) for cell in cells)
            return (self._books[key].version, *(text.version if text is not None else -1 for text in texts))
        return None

    def snapshot(self, key: str) -> Snapshot | None:
        """What is linted under a key, as it is now; None for what isn't open."""
        text, book = self._texts.get(key), self._books.get(key)
        if text is not None:
            return Snapshot(text.uri, path_of(text.uri), text.version, text.text, self.encoding)
        return self._of_book(book) if book is not None else None

    def _of_book(self, book: Book) -> NotebookSnapshot:
        texts = [self._texts.get(same_uri(cell.document)) for cell in book.cells]
        cells = tuple(
            (cell.document, text.text if text is not None else "", cell.kind)
            for cell, text in zip(book.cells, texts, strict=True)
        )
        document = {"metadata": _plain(book.metadata), "cells": [_as_json(text, kind) for _, text, kind in cells]}
        return NotebookSnapshot(
            book.uri, path_of(book.uri), book.version, json.dumps(document), self.encoding, cells=cells
        )


def _as_json(text: str, kind: types.NotebookCellKind) -> dict[str, object]:
    return {"cell_type": "code" if kind == types.NotebookCellKind.Code else "markdown", "source": text}


def _plain(metadata: object) -> object:
    """A notebook's metadata as JSON can write it; clients send objects of any kind."""
    try:
        return json.loads(json.dumps(metadata, default=vars))
    except (TypeError, ValueError, RecursionError):
        return {}
