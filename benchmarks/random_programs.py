"""How often devlint is right about random programs: each is linted, and run under virtual CUDA for the truth.

    python -m benchmarks.random_programs [--count N] [--seed S] [--jobs J] [--out DIR]

Prints how many programs crash by placement, how many of those crashes are found (as certain ones too), and how many certain
findings were confirmed and refuted by running (`tests/random_programs/verdict.py` says what these words mean). With `--out`,
refutations and misses are made small and written to DIR/refuted and DIR/missed, named by what is left in them.
`--program S` prints the program of one seed with what was found.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch

from devlint.runtime import virtual_cuda
from tests.random_programs.programs import draw
from tests.random_programs.verdict import Verdict, judge, small_miss, small_refutation

_CHUNK = 20


@dataclass(frozen=True)
class Row:
    """What is kept of one program."""

    seed: int
    outcome: str  # "crashed", "ran", "broken"
    found: str  # "certain", "likely" or "" for a crash
    confirmed: tuple[str, ...]
    refuted: tuple[str, ...]


def drawn(seed: int) -> tuple[str, frozenset[str]]:
    """The program of a seed, and the flags that it is run with."""
    return draw(Random(seed))


def row_of(seed: int, verdict: Verdict) -> Row:
    outcome = "broken" if verdict.run.broken else "crashed" if verdict.crashed else "ran"
    certain = any(finding.confidence == "certain" for finding in verdict.naming)
    found = "certain" if certain else "likely" if verdict.naming else ""
    return Row(seed, outcome, found, tuple(f.code for f in verdict.confirmed), tuple(f.code for f in verdict.refuted))


def rows_of(seeds: Iterable[int]) -> list[Row]:
    """The rows of some seeds, in this process."""
    torch.set_num_threads(1)
    with virtual_cuda(2):
        return [row_of(seed, judge(*drawn(seed))) for seed in seeds]


# Shrinking


def smaller(job: tuple[int, str]) -> tuple[int, str, str]:
    """The seed, the kind, and the shrunk text of what is wrong with a seed's program: "missed", or a refuted code."""
    seed, wrong = job
    torch.set_num_threads(1)
    text, flags = drawn(seed)
    with virtual_cuda(2):
        text = small_miss(text, flags) if wrong == "missed" else small_refutation(text, flags, wrong)
        return (
            seed,
            f"{'' if wrong == 'missed' else wrong + '-'}{kind_of(text)}",
            headed(seed, text, judge(text, flags)),
        )


def headed(seed: int, text: str, verdict: Verdict) -> str:
    """A text with what came out as a comment."""
    said = [
        f"# {finding.span.line}: {finding.code} {finding.confidence}: {finding.message}" for finding in verdict.findings
    ]
    flags = f", flags {' '.join(sorted(verdict.flags))}" if verdict.flags else ""
    happened = f"crashes at {' from '.join(map(str, verdict.run.crash))}" if verdict.run.crash else "runs through"
    # Below the program, so that its lines keep their numbers.
    return "\n".join([text.rstrip(), "", f"# Seed {seed}{flags}: {happened}.", *said]) + "\n"


_FEATURES: tuple[tuple[str, type[ast.AST] | str], ...] = (
    ("try", ast.Try),
    ("match", ast.Match),
    ("while", ast.While),
    ("for", ast.For),
    ("if", ast.If),
    ("ternary", ast.IfExp),
    ("comprehension", "ListComp|DictComp|GeneratorExp"),
    ("dict", ast.Dict),
    ("lambda", ast.Lambda),
    ("yield", ast.Yield),
    ("class", ast.ClassDef),
    ("def", ast.FunctionDef),
    ("in-place", ast.AugAssign),
)
_WORDS = (
    "DataParallel",
    "DataLoader",
    "partial",
    "dataclass",
    "NamedTuple",
    "numpy",
    "asarray",
    "is_cuda",
    "Parameter",
    "nn.",
)


def kind_of(text: str) -> str:
    """A name for what is left in a shrunk program."""
    nodes = {type(node).__name__ for node in ast.walk(ast.parse(text))}
    found = [
        name for name, node in _FEATURES if nodes & set((node if isinstance(node, str) else node.__name__).split("|"))
    ]
    found += [word.strip(".") for word in _WORDS if word in text]
    return "-".join(found) or "straight"


def shape_of(text: str) -> str:
    """A program without its names and numbers, to tell repeats."""
    code = re.sub(r"#.*", "", text)
    return re.sub(r"\b([a-z]+)\d+\b", r"\1", code)


def save(results: Iterator[tuple[int, str, str]], folder: Path, most: int) -> None:
    """Writes shrunk programs, at most `most` of a kind, none twice."""
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    kinds: Counter[str] = Counter()
    for seed, kind, text in results:
        if shape_of(text) in seen or kinds[kind] >= most:
            continue
        seen.add(shape_of(text))
        kinds[kind] += 1
        (folder / f"{kind}-{seed}.py").write_text(text, encoding="utf-8")


# The report


def table(rows: list[Row], seconds: float) -> str:
    count = Counter(row.outcome for row in rows)
    found = Counter(row.found for row in rows if row.outcome == "crashed")
    crashed = max(count["crashed"], 1)
    named = found["certain"] + found["likely"]
    confirmed = Counter(code for row in rows for code in row.confirmed)
    refuted = Counter(code for row in rows for code in row.refuted)
    return "\n".join(
        (
            f"programs run      {len(rows):,} in {seconds:.0f} s ({count['broken']} ended for another reason)",
            f"crashed           {count['crashed']:,}",
            f"found             {named:,} ({named / crashed:.1%})",
            f"found as certain  {found['certain']:,} ({found['certain'] / crashed:.1%})",
            f"certain confirmed {confirmed.total():,} ({_by_code(confirmed)})",
            f"certain refuted   {refuted.total():,} ({_by_code(refuted)}) in {sum(bool(row.refuted) for row in rows)} programs",
        )
    )


def _by_code(count: Counter[str]) -> str:
    return ", ".join(f"{code} {n}" for code, n in sorted(count.items())) or "none"


def show(seed: int) -> None:
    """Prints the program of a seed with what came out."""
    text, flags = drawn(seed)
    with virtual_cuda(2):
        print(headed(seed, text, judge(text, flags)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, help="where shrunk refutations and misses are written")
    parser.add_argument(
        "--shrink", type=int, default=60, help="how many refutations, and how many misses, to make small"
    )
    parser.add_argument("--most", type=int, default=5, help="how many files of a kind to write")
    parser.add_argument("--program", type=int, metavar="SEED", help="print one program and stop")
    options = parser.parse_args()
    if options.program is not None:
        return show(options.program)
    started = time.perf_counter()
    seeds = range(options.seed, options.seed + options.count)
    # Fresh processes: a forked one would share torch's threads.
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        chunks = [seeds[start : start + _CHUNK] for start in range(0, len(seeds), _CHUNK)]
        rows = [row for part in pool.imap(rows_of, chunks) for row in part]
        print(table(rows, time.perf_counter() - started), flush=True)
        if options.out:
            refuted = [(row.seed, row.refuted[0]) for row in rows if row.refuted]
            save(pool.imap(smaller, refuted[: options.shrink]), options.out / "refuted", options.most)
            missed = [(row.seed, "missed") for row in rows if row.outcome == "crashed" and not row.found]
            save(pool.imap(smaller, missed[: options.shrink]), options.out / "missed", options.most)


if __name__ == "__main__":
    main()
