"""Reads literate cases: Markdown whose code says which findings it wants.

    # DEV101: discarded-move

    ## A tensor is moved and dropped

    Any prose.

    ```python
    import torch

    x = torch.ones(3)
    x.cuda()  # want: DEV101
    ```

    ```python fixed
    import torch

    x = torch.ones(3)
    x = x.cuda()
    ```

A second-level heading starts a case. Each `python` block is a file of it: `main.py`, or the name that the info string
gives (```` ```python models/net.py ````). `# want: CODE ...` at the end of a line wants exactly these findings to start
on it; `CODE?` wants a `likely` one, `CODE!` a `certain` one. Lines without a comment want none. A `python fixed` block
is what all fixes, the unsafe ones too, make of the file before it, without its `want` comments; `python same` right
after a block says that no fix changes it, and `python safe` holds what the safe fixes alone make of it (an empty
block: nothing). A line `rules: DEV101 DEV301` in the prose selects rules; otherwise the rule in the document's title
is selected, or all that are on by default. A `toml` block holds settings of the case. A line `pending: reason` says that the engine doesn't get the case right
yet, and why: it must fail until that changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_WANT = re.compile(r"\s*#\s*want:\s*(?P<codes>[A-Z0-9?! ]+?)\s*$")
# The info string of a block of settings; no file is called so.
_SETTINGS = "[settings]"
_FENCE = re.compile(r"^```(\w*)\s*(.*)$")


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
    # Why the engine doesn't get it right yet; "" where it does.
    pending: str = ""

    @property
    def id(self) -> str:
        return f"{self.document}:{self.line} {self.title}"


def read_cases(path: Path) -> list[Case]:
    """All cases of a document. Raises ValueError for a block outside of a case, or a `fixed`, `same` or `safe` block without a file."""
    cases: list[Case] = []
    default: tuple[str, ...] = ()
    block: list[str] | None = None
    info = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if block is not None:
            if line == "```":
                if info == _SETTINGS and cases:
                    cases[-1].settings = "\n".join(block) + "\n"
                elif info is not None:
                    _add(cases, path, number, info, "\n".join(block) + "\n")
                block = None
            else:
                block.append(line)
        elif fence:
            block, info = [], fence[2].strip() if fence[1] == "python" else _SETTINGS if fence[1] == "toml" else None
        elif line.startswith("# "):
            default = tuple(re.findall(r"\bDEV\d{3}\b", line))
        elif line.startswith("## "):
            cases.append(Case(path.name, line[3:].strip(), number, default))
        elif line.startswith("rules:") and cases:
            cases[-1].rules = tuple(line.removeprefix("rules:").split())
        elif line.startswith("pending:") and cases:
            cases[-1].pending = line.removeprefix("pending:").strip()
    return [case for case in cases if case.files]


def _add(cases: list[Case], path: Path, number: int, info: str, text: str) -> None:
    if not cases:
        raise ValueError(f"{path}:{number}: a code block before the first case")
    files = cases[-1].files
    if info in ("fixed", "same", "safe"):
        if not files:
            raise ValueError(f"{path}:{number}: a `{info}` block without a file before it")
        result = text if text.strip() else files[-1].text
        if info == "safe":
            files[-1].safe = result
        else:
            files[-1].fixed = result if info == "fixed" else files[-1].text
        return
    wanted = []
    lines = []
    for line_number, line in enumerate(text.splitlines(), 1):
        match = _WANT.search(line)
        if match:
            wanted += [
                (line_number, word.rstrip("?!"), word[len(word.rstrip("?!")) :]) for word in match["codes"].split()
            ]
            line = line[: match.start()]
        lines.append(line)
    files.append(File(info or "main.py", "\n".join(lines) + "\n", wanted))
