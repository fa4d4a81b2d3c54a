"""Fixes whole trees of other people's code, and tells what the fixes did to them.

    python benchmarks/fixed_trees.py PATH...

A copy of each tree is fixed with `--fix --unsafe-fixes`. Then every file must compile that did before, no name may be
undefined that wasn't (ruff's F821 and F823), and a second run must change nothing. Exits with 1 where one of these
fails. With --diffs FOLDER, the patch of each tree is written there, to be read. The rules are those that are on by
default; --select takes others, such as ALL.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--diffs", type=Path)
    parser.add_argument("--select", default="")
    options = parser.parse_args()
    bad = 0
    for tree in options.paths:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, tree.name)
            shutil.copytree(tree, copy, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.so", ".git"))
            bad += _fixed(tree, copy, options.diffs, options.select)
    return int(bool(bad))


def _fixed(tree: Path, copy: Path, diffs: Path | None, select: str) -> int:
    """Fixes one copy; returns how many faults the fixes have."""
    before = {file: file.read_bytes() for file in copy.rglob("*.py") if file.is_file()}
    undefined = _undefined(copy)
    told = _devlint(copy, select)
    after = {file: file.read_bytes() for file in before}
    changed = [file for file in before if before[file] != after[file]]
    broken = [file for file in changed if _compiles(before[file]) and not _compiles(after[file])]
    names = _undefined(copy) - undefined
    _devlint(copy, select)
    unstable = [file for file in before if file.read_bytes() != after[file]]
    hunks = _patch(tree, copy, before, after, changed, diffs)
    print(
        f"{tree.name}: {len(before)} files, {len(changed)} changed in {hunks} hunks; {len(broken)} don't compile, "
        f"{sum(names.values())} new undefined names, {len(unstable)} changed by a second run; {told}"
    )
    for file in (*broken, *unstable):
        print(f"  {file.relative_to(copy)}")
    for name in names:
        print(f"  {name}")
    return len(broken) + sum(names.values()) + len(unstable)


def _devlint(copy: Path, select: str) -> str:
    command = [
        sys.executable,
        "-m",
        "devlint",
        ".",
        "--fix",
        "--unsafe-fixes",
        "--isolated",
        "--no-cache",
        "--output-format",
        "json",
        *(["--select", select] if select else []),
    ]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    left = Counter(f["code"] for f in json.loads(done.stdout))
    return f"{left['DEV000']} unreadable, {left['DEV003']} fixes withheld"


def _undefined(copy: Path) -> Counter[str]:
    """What ruff says of undefined names, without the lines that they are on."""
    command = ["ruff", "check", "--isolated", "--no-cache", "--select", "F821,F823", "--output-format", "json", "."]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    return Counter(
        f"{Path(found['filename']).name}: {found['message']}"
        for found in json.loads(done.stdout)
        if found["code"] != "invalid-syntax"
    )


def _compiles(raw: bytes) -> bool:
    try:
        compile(raw, "<fixed>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _patch(
    tree: Path, copy: Path, before: dict[Path, bytes], after: dict[Path, bytes], changed: list[Path], diffs: Path | None
) -> int:
    """The number of hunks, and the patch itself where it is wanted."""
    lines: list[str] = []
    for file in sorted(changed):
        name = str(file.relative_to(copy))
        old, new = (raw.decode("utf-8", "replace").splitlines(keepends=True) for raw in (before[file], after[file]))
        lines += difflib.unified_diff(old, new, name, name)
    if diffs is not None:
        diffs.mkdir(parents=True, exist_ok=True)
        (diffs / f"{tree.name}.patch").write_text("".join(lines), encoding="utf-8")
    return sum(line.startswith("@@") for line in lines)


if __name__ == "__main__":
    sys.exit(main())
