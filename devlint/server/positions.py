"""Places as the protocol counts them: lines and columns from 0, columns in the units that client and server agreed on."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from lsprotocol import types

from devlint.findings import Span
from devlint.textmap import TextMap

# How many bytes a unit has, by the name of the encoding for Python.
_UNITS = {
    types.PositionEncodingKind.Utf8.value: ("utf-8", 1),
    types.PositionEncodingKind.Utf16.value: ("utf-16-le", 2),
    types.PositionEncodingKind.Utf32.value: ("utf-32-le", 4),
}


class Places:
    """Where things stand in one text, for a client that counts columns in one encoding's units."""

    def __init__(self, text: str, encoding: str = types.PositionEncodingKind.Utf16.value) -> None:
        self.map = TextMap(text)
        self._codec, self._size = _UNITS.get(encoding, _UNITS[types.PositionEncodingKind.Utf16.value])

    def position(self, line: int, column: int) -> types.Position:
        """The protocol's place of a line and a column from 1; of one behind the text's end, that end."""
        if line > len(self.map.starts):
            line, column = self.map.position(len(self.map.text))
        before = self.map.line(line)[: column - 1]
        units = len(before) if before.isascii() else len(before.encode(self._codec, "surrogatepass")) // self._size
        return types.Position(line - 1, units)

    def range(self, span: Span) -> types.Range:
        """The protocol's range of a span."""
        return types.Range(self.position(span.line, span.column), self.position(span.end_line, span.end_column))

    def place(self, position: types.Position) -> tuple[int, int]:
        """(line, column), from 1, of a place of the protocol; one behind a line's or the text's end is that end."""
        if position.line >= len(self.map.starts):
            return self.map.position(len(self.map.text))
        text = self.map.line(position.line + 1)
        if text.isascii():
            return position.line + 1, min(position.character, len(text)) + 1
        before = text.encode(self._codec, "surrogatepass")[: position.character * self._size]
        return position.line + 1, len(before.decode(self._codec, "ignore")) + 1

    def offset(self, position: types.Position) -> int:
        """The offset in the text of a place of the protocol."""
        return self.map.offset(*self.place(position))


def path_of(uri: str) -> Path | None:
    """The absolute path that a `file:` URI names; None for what stands in no file."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return None
    path = url2pathname(parts.path)
    return Path(os.path.abspath(f"//{parts.netloc}{path}" if parts.netloc else path))  # noqa: PTH100 - links stay


def uri_of(path: str | Path) -> str:
    """The `file:` URI of a path, a relative one from the current folder."""
    return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100 - links stay


def same_uri(uri: str) -> str:
    """A URI in the one spelling under which it is kept: clients differ in what they escape."""
    return unquote(uri)
