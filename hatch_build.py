"""The build hook: the wheel holds what is asked of all rules (devlint/outlines.py), so that few of them need be loaded.

With DEVLINT_COMPILE=1 it also holds what costs the most time compiled by mypyc, beside its source. Without that, the wheel is
pure Python, and nothing here needs a compiler. All of them find the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What a run spends its time in.
COMPILED = (
    "devlint/signatures/**/*.py",
    "devlint/source/evidence.py",
    "devlint/source/outline.py",
    "devlint/source/trees.py",
)
# What stays as it is: a compiled class has no place for cached properties, and none is a dict.
PLAIN = ("**/__init__.py", "devlint/signatures/state/classes.py", "devlint/signatures/state/history.py")

NEEDS = ["mypy>=1.18", "setuptools>=77"]


def is_asked_for() -> bool:
    """Whether the wheel is to be compiled."""
    return os.environ.get("DEVLINT_COMPILE", "") not in ("", "0")


def sources(root: Path) -> list[str]:
    """The files that are compiled, relative to the top of the repository."""
    found = {path for pattern in COMPILED for path in root.glob(pattern)}
    return sorted(str(path.relative_to(root)) for path in found - {p for pattern in PLAIN for p in root.glob(pattern)})


def compiled(root: Path, folder: Path) -> dict[str, str]:
    """Compiles into a folder; returns where each library lies, and where in the wheel it belongs."""
    # Present only where it was asked for.
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    options = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={folder / 'mypy'}"]
    with chdir(root):
        extensions = mypycify(
            [*options, *sources(root)],
            debug_level="0",
            multi_file=True,
            target_dir=str(folder / "c"),
            group_name="devlint",
        )
        build = build_ext(Distribution({"name": "devlint", "ext_modules": extensions}))
        build.build_lib, build.build_temp = str(folder / "lib"), str(folder / "objects")
        build.ensure_finalized()
        build.run()
    made = (path for path in (folder / "lib").rglob("*") if path.is_file())
    return {str(path): path.relative_to(folder / "lib").as_posix() for path in made}


def outlined(root: Path, folder: Path) -> dict[str, str]:
    """Writes the outlines of the rules into a folder; returns where the file lies, and where in the wheel it belongs."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import devlint_rules; from devlint.outlines import FILE, told_of; from devlint.rule import rules_in\n"
        "print(FILE, told_of(rules_in(devlint_rules)), sep='\\n')"
    )
    command = [sys.executable, "-c", code, str(root), str(root / "rules")]
    name, _, text = subprocess.run(command, check=True, capture_output=True, text=True).stdout.partition("\n")
    (folder / name).write_text(text, encoding="utf-8")
    return {str(folder / name): f"devlint_rules/{name}"}


class CompiledBuildHook(BuildHookInterface[Any]):
    """Adds to a wheel what is made of its modules."""

    def dependencies(self) -> list[str]:
        return NEEDS if is_asked_for() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="devlint-build-")
        build_data["force_include"] |= outlined(Path(self.root), Path(self._folder.name))
        if not is_asked_for():
            return
        build_data["force_include"] |= compiled(Path(self.root), Path(self._folder.name))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
