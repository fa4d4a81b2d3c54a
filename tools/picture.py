"""Draws docs/output.svg: what `devlint examples/` shows on a terminal.

python tools/picture.py
"""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    command = [sys.executable, "-m", "devlint", "--color", "always", "examples/train.py"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    with StringIO() as nowhere:
        console = Console(record=True, width=150, file=nowhere)
        console.print(Text.from_ansi(f"$ devlint examples/train.py\n{output}"))
    console.save_svg(str(ROOT / "docs" / "output.svg"), title="devlint")


if __name__ == "__main__":
    main()
