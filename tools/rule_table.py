"""Prints the README's table of rules; `--write` puts it into README.md between its marks."""

from __future__ import annotations

import sys
from pathlib import Path

from devlint.rule import load_registry

README = Path(__file__).resolve().parent.parent / "README.md"
FIXES = {"S": "safe", "U": "unsafe", "S/U": "safe or unsafe", "-": ""}


def table() -> str:
    rows = ["| code | name | severity | finds | fix |", "| --- | --- | --- | --- | --- |"]
    for rule in load_registry().rules():
        name = rule.name if rule.default else f"{rule.name} (opt-in)"
        rows.append(f"| {rule.code} | {name} | {rule.severity} | {rule.summary()} | {FIXES[rule.fix]} |")
    return "\n".join(rows)


def main() -> None:
    if "--write" not in sys.argv:
        print(table())
        return
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition("<!-- rules -->")
    after = rest.partition("<!-- /rules -->")[2]
    README.write_text(f"{before}<!-- rules -->\n{table()}\n<!-- /rules -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
