"""Lints whole trees of other people's code with every rule, and tells what ended badly, took longest or took most memory.

    python benchmarks/many_files.py PATH...

Each file is linted by itself, one after the other, as one process of `devlint check` would. Exits with 1 where a file
had an internal error or took more than SECONDS or the process more than MEGABYTES.
"""

from __future__ import annotations

import dataclasses
import gc
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from devlint.batch import Plan, Worker
from devlint.files import Missing, discover
from devlint.rule import load_registry
from devlint.settings import Selection, Settings

SECONDS = 60
MEGABYTES = 2_000


def main(paths: list[str]) -> int:
    registry = load_registry()
    worker = Worker(Plan(), registry)
    every_rule = Selection(select=("ALL",))

    def settings_for(folder: Path) -> Settings:
        top = next((Path(p).absolute() for p in paths if folder.is_relative_to(Path(p).absolute())), folder)
        return Settings(root=top, src=(top,), overrides=every_rule)

    found: Counter[str] = Counter()
    errors: list[str] = []
    slowest: list[tuple[float, str]] = []
    hungriest: list[tuple[int, str]] = []
    files = 0
    settings: dict[Path, Settings] = {}
    started = time.monotonic()
    gc.disable()
    for target in discover(map(Path, paths), settings_for):
        if isinstance(target, Missing):
            errors.append(str(target))
            continue
        files += 1
        kept = settings.setdefault(target.settings.root, target.settings)
        before, memory = time.monotonic(), _memory()
        result = worker.run(dataclasses.replace(target, settings=kept))
        gc.collect(0)
        slowest = sorted([*slowest, (time.monotonic() - before, target.display)], reverse=True)[:5]
        hungriest = sorted([*hungriest, (_memory() - memory, target.display)], reverse=True)[:5]
        found.update(f.code for f in result.findings)
        errors += [f"{f.path}: {f.message}" for f in result.findings if "internal error" in f.message]
        errors += [f"{w}" for w in result.warnings if "passed over" not in w]
        if not files % 1000:
            print(f"{files} files, {time.monotonic() - started:.0f} s, {_memory()} MB", file=sys.stderr, flush=True)
    print(f"{files} files in {time.monotonic() - started:.0f} s, peak memory {_memory()} MB")
    print("findings:", ", ".join(f"{code} {count}" for code, count in sorted(found.items())))
    for title, rows, unit in (("slowest", slowest, "s"), ("most memory", hungriest, "MB more")):
        print(title + ":", *(f"  {amount:.1f} {unit}  {name}" for amount, name in rows), sep="\n")
    print(f"{len(errors)} errors", *errors, sep="\n  ")
    return int(bool(errors) or slowest[0][0] > SECONDS or _memory() > MEGABYTES)


def _memory() -> int:
    """The most memory that this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
