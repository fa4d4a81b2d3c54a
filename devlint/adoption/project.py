"""What a project is like, told from its files: what `devlint init` proposes follows from it."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devlint.disk import read_bytes
from devlint.regexes import regex

# Names by which other people's code goes in a project.
_VENDORED = (
    "third_party",
    "third-party",
    "thirdparty",
    "vendor",
    "vendored",
    "_vendor",
    "extern",
    "external",
    "submodules",
)
# Folders that hold no package to import, whatever is in them.
_NO_ROOTS = ("tests", "test", "docs", "doc", "examples", "benchmarks", "scripts", "tools", "src")
# Devices, and how code names them.
_DEVICES = {
    "cuda": regex(rb"\bcuda\b"),
    "mps": regex(rb"[\"']mps\b|\btorch\.(?:backends\.)?mps\b"),
    "xpu": regex(rb"[\"']xpu\b|\btorch\.xpu\b|\.xpu\("),
    "npu": regex(rb"[\"']npu\b|\btorch\.npu\b|\.npu\("),
    "hpu": regex(rb"[\"']hpu\b|\.hpu\("),
    "accelerator": regex(rb"\btorch\.accelerator\b"),
}
_REQUIREMENTS = ("requirements.txt", "requirements/base.txt", "requirements/requirements.txt")


@dataclass(frozen=True)
class Layout:
    """A project under its root."""

    root: Path
    # Folders beside the root and `src` that imports start from.
    roots: tuple[str, ...] = ()
    # Other people's code.
    vendored: tuple[str, ...] = ()
    # How many files name each device.
    devices: Counter[str] = field(default_factory=Counter)
    # The oldest torch that it asks for, as `2.4`.
    torch: str | None = None
    # Files that can't be linted: they aren't Python, or not this one.
    unread: tuple[str, ...] = ()

    @property
    def is_portable(self) -> bool:
        """Whether it is meant for other accelerators than CUDA's."""
        return any(count for name, count in self.devices.items() if name != "cuda")


def look_at(root: Path, files: Iterable[Path]) -> Layout:
    """The layout of the project under a root; `files` are those that would be linted."""
    devices: Counter[str] = Counter()
    for path in files:
        text = _read(path)
        devices.update(name for name, pattern in _DEVICES.items() if pattern.search(text))
    return Layout(root, tuple(_import_roots(root)), tuple(_vendored(root)), devices, _oldest_torch(root))


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError:
        return b""


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def _import_roots(root: Path) -> Iterator[str]:
    """Folders that are no packages and hold some."""
    for folder in _folders(root):
        if folder.name in (*_NO_ROOTS, *_VENDORED) or (folder / "__init__.py").exists():
            continue
        if any((inner / "__init__.py").exists() for inner in _folders(folder)):
            yield folder.name


def _vendored(root: Path) -> Iterator[str]:
    found = [folder.name for folder in _folders(root) if folder.name in _VENDORED]
    modules = _read(root / ".gitmodules").decode("utf-8", "replace")
    found += [line.partition("=")[2].strip() for line in modules.splitlines() if line.strip().startswith("path")]
    yield from dict.fromkeys(name for name in found if (root / name).exists())


def _oldest_torch(root: Path) -> str | None:
    """The least release of torch that the project's requirements let in."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in _requirements(root):
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        least = [each.version for each in wanted.specifier if each.operator in (">=", "~=", "==", ">")]
        release = re.match(r"(\d+\.\d+)", least[0]) if least else None
        if wanted.name == "torch" and release:
            return release[1]
    return None


def _requirements(root: Path) -> Iterator[str]:
    try:
        document: dict[str, Any] = tomllib.loads(_read(root / "pyproject.toml").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        document = {}
    project = document.get("project", {})
    listed = project.get("dependencies", []) if isinstance(project, dict) else []
    yield from (line for line in listed if isinstance(line, str)) if isinstance(listed, list) else ()
    for name in _REQUIREMENTS:
        for line in _read(root / name).decode("utf-8", "replace").splitlines():
            yield line.partition("#")[0].strip()
