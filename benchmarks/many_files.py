"""Lints whole trees of other people's code with every rule, and tells what ended badly, took longest or took most memory.

    python benchmarks/many_files.py LOG PATH...

Each file is linted by itself, one after the other, as one process of `devlint check` would. A line of LOG is written for
each as it is done, and what is in it already is passed over: a run that was interrupted goes on where it stood, and
several runs (one for each package, say) are told of as one. Exits with 1 where a file had an internal error or took
more than SECONDS, or a process more than MEGABYTES.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TextIO

from devlint.batch import Plan, Worker, run_chunk
from devlint.files import Missing, Target, discover
from devlint.rule import load_registry
from devlint.settings import Selection, Settings

SECONDS = 20
MEGABYTES = 2_000
SHOWN = 10


def main(log: Path, paths: list[str]) -> int:
    tops = [Path(path).absolute() for path in paths]
    every_rule = Selection(select=("ALL",))

    def settings_for(folder: Path) -> Settings:
        top = next((top for top in tops if folder.is_relative_to(top)), folder)
        root = top.parent if (top / "__init__.py").exists() else top
        return Settings(root=root, src=(root,), overrides=every_rule)

    done = {row["path"] for row in _rows(log)}
    worker = Worker(Plan(), load_registry())
    settings: dict[Path, Settings] = {}
    with log.open("a", encoding="utf-8") as out:
        for target in discover(map(Path, paths), settings_for):
            if isinstance(target, Missing):
                _note(out, path=str(target), errors=[str(target)])
            elif str(target.path) not in done:
                kept = settings.setdefault(target.settings.root, target.settings)
                _lint(worker, dataclasses.replace(target, settings=kept), out)
    return _told(_rows(log))


def _lint(worker: Worker, target: Target, out: TextIO) -> None:
    started, memory = time.monotonic(), _memory()
    (result,), _ = run_chunk(worker, [target])
    seconds = time.monotonic() - started
    _note(
        out,
        path=str(target.path),
        seconds=round(seconds, 2),
        peak=_memory(),
        more=_memory() - memory,
        found=Counter(f.code for f in result.findings),
        passed_over=[w for w in result.warnings if "passed over" in w],
        errors=[f.message for f in result.findings if "internal error" in f.message]
        + [w for w in result.warnings if "passed over" not in w],
    )


def _note(out: TextIO, **row: object) -> None:
    print(json.dumps(row), file=out, flush=True)


def _rows(log: Path) -> list[dict[str, object]]:
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def _told(rows: list[dict[str, object]]) -> int:
    """Prints what the log holds; returns the exit code."""
    found: Counter[str] = Counter()
    for row in rows:
        found.update(row.get("found", {}))
    peak = max((row.get("peak", 0) for row in rows), default=0)
    errors = [f"{row['path']}: {said}" for row in rows for said in row["errors"]]
    over = sum(bool(row.get("passed_over")) for row in rows)
    total = sum(row.get("seconds", 0) for row in rows)
    print(f"{len(rows)} files in {total:.0f} s, {over} passed over for their size, peak memory {peak} MB")
    print("findings:", ", ".join(f"{code} {count}" for code, count in sorted(found.items())))
    for title, key in (("slowest (s)", "seconds"), ("most memory (MB more)", "more")):
        print(title)
        for row in sorted(rows, key=lambda row: -row.get(key, 0))[:SHOWN]:
            print(f"  {row.get(key, 0)}  {row['path']}")
    print(f"{len(errors)} errors", *errors, sep="\n  ")
    return int(bool(errors) or peak > MEGABYTES or any(row.get("seconds", 0) > SECONDS for row in rows))


def _memory() -> int:
    """The most memory that this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    gc.disable()
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
