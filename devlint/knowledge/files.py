"""The files with facts, wherever the package lies: in a folder, or in an archive."""

from __future__ import annotations

import os
from typing import Any


def text_of(name: str) -> str:
    """What a file of this package holds."""
    # The loader knows its files by how they are spelt: pathlib would spell the way to an archive anew.
    loader: Any = globals()["__loader__"]
    raw: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), name))  # noqa: PTH118, PTH120
    return raw.decode()
