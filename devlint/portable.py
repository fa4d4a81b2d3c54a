"""What a project says of portability: its own layer over accelerators, and where CUDA is meant.

`[tool.devlint.portable]` holds it for files; the comment `# devlint: cuda-only` says it of one function or class.
"""

from __future__ import annotations

import re
from pathlib import Path

from devlint.patterns import verdict
from devlint.records import record
from devlint.regexes import regex

# What `accept` may name: code under a test for one of these may use `torch.cuda`, which is theirs too.
ACCEPTED = ("rocm",)
# What `replace` may name beside `torch.cuda` and what is in it: methods, attributes, and "cuda" itself where a device is asked for.
METHOD, ATTRIBUTE, DEVICE = "torch.Tensor.cuda", "torch.Tensor.is_cuda", "cuda"

_MARK = regex(r"#\s*devlint:\s*cuda-only(?![\w-])", re.IGNORECASE)
_NAME = r"[A-Za-z_]\w*"
_LAYER = regex(rf"{_NAME}(?:\.{_NAME}(?:\(\))?)+")


@record(frozen=True)
class Layer:
    """What a project has in the place of something of CUDA's: code, and the import that it needs."""

    code: str
    # A statement.
    needs: str

    @property
    def is_of_torch(self) -> bool:
        """It is torch's own, for what nothing better is known of."""
        return self.needs == "import torch"


@record(frozen=True)
class Portable:
    """The settings of `[tool.devlint.portable]`."""

    # (what is replaced, by what): `torch.cuda`, a name in it, METHOD, ATTRIBUTE or DEVICE.
    replace: tuple[tuple[str, Layer], ...] = ()
    # Patterns of files that are about CUDA.
    cuda_only: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()

    def is_cuda_only(self, root: Path, path: Path) -> bool:
        """Whether a file is about CUDA."""
        return bool(self.cuda_only) and bool(verdict(self.cuda_only, root, path))

    def layer(self, name: str) -> Layer | None:
        """The project's own for a name: its entry, or that of the longest name that it is in with the rest behind it."""
        known = dict(self.replace)
        head, rest = name, ""
        while head:
            if head in known:
                return Layer(f"{known[head].code}{rest}", known[head].needs)
            head, dot, last = head.rpartition(".")
            rest = f"{dot}{last}{rest}"
        return None


def layer_of(text: str) -> Layer | None:
    """`mypkg.platform.current().stream` as `current().stream` and the import of `current`; None for what is no such name."""
    if not _LAYER.fullmatch(text):
        return None
    names = text.split(".")
    if names[0] == "torch":
        return Layer(text, "import torch")
    # What is imported: what is called first, or the last name.
    at = next((i for i, name in enumerate(names) if name.endswith("()")), len(names) - 1)
    return Layer(".".join(names[at:]), f"from {'.'.join(names[:at])} import {names[at].removesuffix('()')}")


def unknown_subject(name: str) -> str:
    """Why `replace` can't speak of a name; "" where it can."""
    if name in (METHOD, ATTRIBUTE, DEVICE) or re.fullmatch(rf"torch\.cuda(?:\.{_NAME})*", name):
        return ""
    return f"must be 'torch.cuda', a name in it, '{METHOD}', '{ATTRIBUTE}' or '{DEVICE}'"


def marks_cuda_only(line: str) -> bool:
    """Whether a line says that what is defined on it is about CUDA."""
    return _MARK.search(line) is not None
