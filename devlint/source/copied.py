"""Whether a file was copied from elsewhere, told by the terms, the pages and the names of the folders around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from devlint.regexes import regex
from devlint.source.roots import COPIED, PAGES, TERMS

# What a project that is released has on top.
_RELEASED = ("pyproject.toml", "setup.py")
# Names of libraries that the packages of other projects have as well.
_ITS_OWN = frozenset({"ldm", "transformers"})
# How the settings of a package say its name.
_NAMED = regex(r"""^[ \t]{0,40}(?:name|NAME)[ \t]{0,20}=[ \t]{0,20}["']([\w.-]{1,100})["']""", re.MULTILINE)
# The head of a file that came with terms of its own: who holds it, that it may be handed on, and that it isn't as it was.
_HOLDER = regex(rb"(?i)\bcopyright(?: \(c\)|\xc2\xa9|[ \t,\d-]){1,20}([a-z][\w-]{2,40})")
_GRANTS = regex(rb"(?i)\bredistribution and use in source\b|\bpermission is hereby granted\b")
_CHANGED = regex(rb"(?i)\b(?:modif(?:ied|y) (?:by|from)|adapted|based on|changed by|changes by)")
_MAX_HEAD = 3_000
# Folders around a file that are looked at for them.
_MAX_ABOVE = 6


class Around(Protocol):
    """The project around a file, as far as it is asked here."""

    def read_quietly(self, path: Path, asking: Path) -> bytes: ...

    def name_of(self, path: Path) -> tuple[Path, str]: ...

    def is_imported_around(self, folder: Path, asking: Path) -> bool: ...


def is_copied(asking: Path, around: Around) -> bool:
    """Whether a file stands in a folder that was copied from elsewhere.

    It has terms or a repository of its own, and nothing around imports it; or it is a library of another name than the project's.
    Or the file itself begins with terms, of somebody whom those of the project don't name.
    """
    return (
        _has_own_terms(asking, around)
        or _has_own_repository(asking, around)
        or _is_of_library(asking, around)
        or _has_other_holder(asking, around)
    )


def _spelt(name: str) -> str:
    """A name as all spellings of it have it: `open-clip`, `open_clip`."""
    return re.sub(r"[-_.]", "", name.lower())


def _has_other_holder(asking: Path, around: Around) -> bool:
    head = around.read_quietly(asking, asking)[:_MAX_HEAD]
    holder = _HOLDER.search(head) if _GRANTS.search(head) and not _CHANGED.search(head) else None
    if holder is None:
        return False
    for folder in asking.parents[:_MAX_ABOVE]:
        terms = next(filter(None, (around.read_quietly(folder / name, asking) for name in TERMS)), b"")
        if terms:
            return holder[1].lower() not in terms.lower()
    return False


def _has_own_terms(asking: Path, around: Around) -> bool:
    """A package that is released by itself has terms of its own as well: that says nothing."""
    inner: tuple[Path, bytes] | None = None
    for folder in asking.parents[:_MAX_ABOVE]:
        terms = next(filter(None, (around.read_quietly(folder / name, asking) for name in TERMS)), b"")
        if inner is not None and terms:
            return terms != inner[1] and not around.is_imported_around(inner[0], asking)
        if any(around.read_quietly(folder / name, asking) for name in _RELEASED):
            return False
        inner = (folder, terms) if terms else inner
    return False


def _has_own_repository(asking: Path, around: Around) -> bool:
    """Whether the page of a folder says to clone a repository of that name, and a folder around has a page of its own."""
    inner: Path | None = None
    for folder in asking.parents[:_MAX_ABOVE]:
        page = next(filter(None, (around.read_quietly(folder / name, asking) for name in PAGES)), b"")
        if inner is not None and page:
            return not around.is_imported_around(inner, asking)
        cloned = rb"git clone \S{1,100}/%s(?:\.git)?\s" % re.escape(folder.name.encode())
        inner = folder if page and re.search(cloned, page) else inner
        if around.read_quietly(folder / ".git" / "config", asking):
            return False
    return False


def _is_of_library(asking: Path, around: Around) -> bool:
    """Whether a file belongs to a library that many copy, in a project of another name."""
    folder, package = around.name_of(asking)
    name = package.partition(".")[0]
    if name not in COPIED - _ITS_OWN:
        return False
    own = [_spelt(name) in _spelt(named) for named in _released_around(folder, asking, around)]
    # A release of its own may stand in that of another project.
    return not own[-1] if own else any(_is_a_project(f, asking, around) for f in folder.parents[1:_MAX_ABOVE])


def _released_around(folder: Path, asking: Path, around: Around) -> Iterator[str]:
    """The names under which a folder and those around it are released, up to the repository."""
    for above in (folder, *folder.parents)[:_MAX_ABOVE]:
        texts = (around.read_quietly(above / file, asking).decode("utf-8", "replace") for file in _RELEASED)
        yield from (match[1] for text in texts if (match := _NAMED.search(text)) is not None)
        if around.read_quietly(above / ".git" / "config", asking):
            return


def _is_a_project(folder: Path, asking: Path, around: Around) -> bool:
    """Whether a folder has a page and terms."""
    return all(any(around.read_quietly(folder / name, asking) for name in names) for names in (PAGES, TERMS))
