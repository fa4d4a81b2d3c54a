"""How the time of each regular expression of the linter grows with hostile texts: twice the text, at most twice the time.

    python benchmarks/regular_growth.py [KILOBYTES]

The texts are made of what an expression itself asks for: each run of its literal characters, and each character that its
loops read, again and again, with an end that lets it fail. (tests/test_regular.py tells the same from the form.)
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from regular import ALPHABET
from test_regular import EVERYTHING, SOUND


def texts(pattern: str, size: int) -> Iterator[str]:
    """Hostile texts of one length."""
    words = set(re.findall(r"[A-Za-z_]{2,}", pattern)) | set(" \t\n.,:=([\"'0a_#")
    pieces = [*words, *(f"{word} " for word in words), *(f"{word}(" for word in words), *(f"{word}[" for word in words)]
    for piece in pieces:
        yield (piece * (size // len(piece) + 1))[:size] + "\0"
    yield "".join(ALPHABET) * (size // len(ALPHABET))


def seconds(pattern: re.Pattern[str], text: str) -> float:
    """The time that a search through a text takes, from each of its matches on."""
    started = time.process_time()
    for _ in pattern.finditer(text):
        pass
    return time.process_time() - started


def main(size: int) -> int:
    rows = []
    for (text, flags, search), where in EVERYTHING.items():
        if not search or where in SOUND:
            continue
        pattern = re.compile(text, flags)
        hostile = max(texts(text, size // 8), key=lambda t: seconds(pattern, t))
        once, twice = (
            min(seconds(pattern, (hostile[:-1] * times)[: size * times // 2] + "\0") for _ in range(2))
            for times in (8, 16)
        )
        rows.append((twice / max(once, 1e-4), twice, where))
    rows.sort(reverse=True)
    print(f"{len(rows)} expressions, texts of {size * 4} and {size * 8} characters")
    for growth, taken, where in rows[:10]:
        print(f"  x {growth:.1f}  {taken * 1000:7.1f} ms  {where}")
    return int(any(growth > 3 and taken > 0.2 for growth, taken, _ in rows))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) * 1000 if len(sys.argv) > 1 else 20_000))
