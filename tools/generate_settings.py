"""Writes docs/settings.md and docs/devlint.schema.json from the table of settings; `--check` says whether they are current."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from devlint.settings.published import reference, schema

DOCS = Path(__file__).resolve().parent.parent / "docs"


def pages() -> dict[Path, str]:
    """The files and what they hold."""
    return {
        DOCS / "settings.md": reference(),
        DOCS / "devlint.schema.json": json.dumps(schema(), indent=2) + "\n",
    }


def main() -> None:
    for path, text in pages().items():
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} isn't current: run python tools/generate_settings.py")


if __name__ == "__main__":
    main()
