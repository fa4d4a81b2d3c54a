"""Characters that a terminal would obey, or that would not be seen, as the escapes that Python writes for them."""

from __future__ import annotations

import unicodedata

# Controls, formats (such as those that turn the direction of writing), and line ends of every kind; surrogates stand
# for bytes of file names that aren't text.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def escaped(character: str) -> str:
    r"""A character, or its escape where it isn't to be shown: `\x1b`, `\n`, `\u202e`."""
    if character.isprintable() or unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def printable(text: str) -> str:
    """A text on one line, with nothing in it that a terminal would obey."""
    return text if text.isprintable() else "".join(map(escaped, text))


def printable_lines(text: str) -> str:
    """A text of several lines, each printable but for its tabs."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c in "\n\t" else escaped(c) for c in text)


def quoted_name(name: str) -> str:
    """A file's name for the head of a patch: as it is, or in quotes and with octal escapes, as git writes it."""
    if name.isprintable() and '"' not in name and "\\" not in name:
        return name
    pieces = []
    for byte in name.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        if byte in b'"\\':
            pieces.append("\\" + character)
        else:
            pieces.append(character if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
    return f'"{"".join(pieces)}"'
