"""Which devlint, with which rules, is at work: two that may find different things have different names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.disk import digest_of
from devlint.installed import version
from devlint.source.filesystem import TOO_NEW, state_of

if TYPE_CHECKING:
    from devlint.rule import Registry

# Parts of devlint that no finding hangs on.
_ASIDE = ("runtime", "__pycache__")


def identity_of(registry: Registry, known: Callable[[str], str | None]) -> tuple[str, str]:
    """(a name for the devlint, the rules and the Python at work; how its files look to the disk, and their digest).

    `known` gives the digest of sources that looked so before: otherwise they are read.
    """
    files = sorted(file for folder in _folders(registry) for file in _sources(folder))
    look = digest_of("\n".join(f"{path} {state}" for path, state in files).encode(errors="surrogateescape"))
    # What was only just written may be written again without looking different.
    sure = all(state != TOO_NEW for _, state in files)
    sources = (known(look) if sure else None) or digest_of(b"".join(_named_text(path) for path, _ in files))
    spelt = [sys.version, sys.platform, version("libcst"), *sorted(_packages(registry)), sources]
    return digest_of("\n".join(spelt).encode()), f"{look} {sources}" if sure else ""


def _packages(registry: Registry) -> set[str]:
    """The packages, or single modules, that devlint and the rules are in."""
    return {"devlint", *(rule.__module__.split(".")[0] for rule in registry.outlines())}


def _folders(registry: Registry) -> set[str]:
    """The folders, or single files, of the packages that devlint and the rules are in."""
    modules = [module for name in _packages(registry) if (module := sys.modules.get(name)) is not None]
    return {place for module in modules for place in getattr(module, "__path__", [module.__file__]) if place}


def _sources(top: str) -> Iterator[tuple[str, str]]:
    """(path, how it looks to the disk) of each file of a package."""
    if os.path.isfile(top):  # noqa: PTH113
        yield top, state_of(os.stat(top))  # noqa: PTH116
        return
    waiting = [top]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name not in _ASIDE:
                        waiting.append(entry.path)
                elif entry.name.endswith((".py", ".json", ".so", ".pyd")):
                    yield entry.path, state_of(entry.stat())


def _named_text(path: str) -> bytes:
    """A file's text with its name, wherever the package is installed."""
    try:
        return f"{os.path.basename(path)}\n".encode() + Path(path).read_bytes()  # noqa: PTH119
    except OSError:
        return b""
