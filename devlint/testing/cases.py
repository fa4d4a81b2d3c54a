"""Reads literate cases; the package's docstring tells their format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.regexes import regex
from devlint.rule import CODE

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

# A comment that wants findings, and what it wants.
_COMMENT = regex(r"[ \t]{0,99}#[ \t]{0,9}want\b(?P<rest>.{0,300})$")
_WANTED = regex(rf"(?P<code>{CODE})(?P<mark>[?!]?)")
# What a block of code is to the file before it.
_RESULTS = ("fixed", "same", "safe", "suggested")
_FENCE = regex(r"^```(\w{0,60})\s{0,9}(.{0,300})$")


@dataclass
class File:
    """One file of a case."""

    name: str
    text: str
    # (line, code, mark) of each wanted finding; the mark is "?", "!" or "".
    wanted: list[tuple[int, str, str]]
    # What the fixes make of it, where the case says so.
    fixed: str | None = None
    # What the safe ones alone make of it, where the case says so.
    safe: str | None = None
    # What all make of it, those for display too, where the case says so.
    suggested: str | None = None

    @property
    def mended(self) -> str | None:
        """What the most of its fixes that the case speaks of make of it."""
        return self.fixed if self.suggested is None else self.suggested


@dataclass
class Case:
    """One case of a document."""

    document: str
    title: str
    line: int
    rules: tuple[str, ...] = ()
    files: list[File] = field(default_factory=list)
    # What stands in its settings file.
    settings: str = ""
    # Why the rule doesn't get it right yet; "" where it does.
    pending: str = ""

    @property
    def id(self) -> str:
        return f"{self.document}:{self.line} {self.title}"


def cases_in(folder: Path) -> Sequence[ParameterSet]:
    """The cases of all documents in a folder, for `pytest.mark.parametrize`; those that are pending must fail.

    Raises ValueError for a document that can't be read as cases, and where there is none.
    """
    import pytest

    found = [case for document in sorted(folder.glob("*.md")) for case in read_cases(document)]
    if not found:
        raise ValueError(f"{folder}: no cases there")
    return [
        pytest.param(
            case, id=case.id, marks=[pytest.mark.xfail(strict=True, reason=case.pending)] if case.pending else []
        )
        for case in found
    ]


def read_cases(path: Path) -> list[Case]:
    """All cases of a document.

    Raises ValueError for a block outside of a case or without an end, for a `fixed`, `same`, `safe` or `suggested` block without a file,
    and for a `want` comment that names no code.
    """
    cases: list[Case] = []
    default: tuple[str, ...] = ()
    block: list[str] | None = None
    language = info = ""
    started = 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if block is not None:
            if line != "```":
                block.append(line)
                continue
            if language in ("python", "toml"):
                _add(cases, f"{path}:{started}", language, info, "".join(f"{line}\n" for line in block))
            block = None
        elif fence:
            block, language, info, started = [], fence[1], fence[2].strip(), number
        elif line.startswith("# "):
            default = tuple(re.findall(rf"\b{CODE}\b", line))
        elif line.startswith("## "):
            cases.append(Case(path.name, line[3:].strip(), number, default))
        elif line.startswith("rules:") and cases:
            cases[-1].rules = tuple(line.removeprefix("rules:").split())
        elif line.startswith("pending:") and cases:
            cases[-1].pending = line.removeprefix("pending:").strip()
    if block is not None:
        raise ValueError(f"{path}:{started}: a block without an end")
    return [case for case in cases if case.files]


def _add(cases: list[Case], place: str, language: str, info: str, text: str) -> None:
    """Takes a block into the last case."""
    if not cases:
        raise ValueError(f"{place}: a code block before the first case")
    case = cases[-1]
    if language == "toml":
        case.settings = text
    elif info not in _RESULTS:
        case.files.append(_file(place, info or "main.py", text))
    elif not case.files:
        raise ValueError(f"{place}: a `{info}` block without a file before it")
    else:
        file = case.files[-1]
        result = text if text.strip() and info != "same" else file.text
        # What no fix changes is suggested to nobody either.
        for field_name in ("fixed", "suggested") if info == "same" else (info,):
            setattr(file, field_name, result)


def _file(place: str, name: str, text: str) -> File:
    """A file of a case: its text, and what its comments want."""
    file = File(name, "", [])
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        comment = _COMMENT.search(line)
        if comment:
            words = comment["rest"].removeprefix(":").split()
            wanted = [_WANTED.fullmatch(word) for word in words]
            if not comment["rest"].startswith(":") or not words or None in wanted:
                raise ValueError(
                    f"{place}: line {number} of the block: `{comment[0].strip()}` isn't `# want: CODE ...`"
                )
            file.wanted += [(number, match["code"], match["mark"]) for match in wanted if match]
            line = line[: comment.start()]
        lines.append(line)
    file.text = "\n".join(lines) + "\n"
    return file
