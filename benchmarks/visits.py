"""How often devlint reads the same code: visits for each statement, and functions that are read more than once.

    python -m benchmarks.visits PATH...

Lints the paths in one process, without the cache, and counts what the reader of signatures does. A loop's body is read
again where the first pass changes what the second one starts from; a function again where functions call one another in
a circle (`signatures/reading/knots.py`). Prints Markdown.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Any
from unittest.mock import patch

from devlint.cli import main as devlint
from devlint.signatures.reading import statements
from devlint.signatures.reading.reader import Reader
from devlint.source.modules import FunctionModel

OPTIONS = ["check", "--jobs", "1", "--no-cache", "--exit-zero", "--isolated", "--output-format", "concise"]


def counted(paths: list[str]) -> tuple[Counter[ast.stmt], Counter[FunctionModel]]:
    """How often each statement and each function was read while the paths were linted."""
    visits: Counter[ast.stmt] = Counter()
    reads: Counter[FunctionModel] = Counter()

    def noting(read: Callable[..., None]) -> Callable[..., None]:
        def visit(frame: Any, statement: ast.stmt) -> None:
            visits[statement] += 1
            read(frame, statement)

        return visit

    read_function = Reader._read

    def reading(self: Reader, function: FunctionModel, *rest: Any) -> Any:
        reads[function] += 1
        return read_function(self, function, *rest)

    readers = {kind: noting(read) for kind, read in statements.STATEMENTS.items()}
    with (
        patch.object(statements, "STATEMENTS", readers),
        patch.object(Reader, "_read", reading),
        patch.object(sys, "argv", ["devlint", *OPTIONS, *paths]),
        redirect_stdout(StringIO()),
        suppress(SystemExit),
    ):
        devlint()
    return visits, reads


def main() -> None:
    visits, reads = counted(sys.argv[1:])
    if not visits:
        sys.exit("nothing there asks for signatures")
    again = sum(count > 1 for count in reads.values())
    print("| | different | read | each |\n| --- | ---: | ---: | ---: |")
    for name, counts in (("statements", visits), ("functions", reads)):
        total = sum(counts.values())
        print(f"| {name} | {len(counts):,} | {total:,} | {total / len(counts):.2f} |")
    print(f"\n{again} functions were read more than once, the most {max(reads.values())} times.")


if __name__ == "__main__":
    main()
