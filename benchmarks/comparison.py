"""Which of the mistakes on devlint's rule pages other tools tell apart from the code that is right.

python benchmarks/comparison.py --peers DIR [--semgrep-rules DIR ...]

Each page has an example that is wrong and one that is right; what they do is run by tests/test_pages.py. A tool tells a mistake
if it names a rule for the wrong example that it doesn't name for the right one. devlint itself tells them all, since the same tests
hold it to its pages. DIR is a virtual environment with ruff, TorchFix,
mypy and semgrep; mypy sees the PyTorch of the Python that runs this.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from devlint.rule import META_RULES, Rule, load_registry

# The codes that a tool names, by file.
Told = dict[str, set[str]]
_LINE = re.compile(
    r"^(?P<file>[\w.]+\.py):\d+(?::\d+)?:? (?:(?:error|note): .*\[(?P<kind>[\w-]+)\]|(?P<code>[A-Z]+\d+))"
)


def run(command: list[str], folder: Path) -> str:
    """What a tool writes; it may end with 1, since it finds things."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command[:3])} ends with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def by_lines(output: str) -> Told:
    """The codes of a report of the form `file:line:column: code text`, or of mypy's."""
    told: Told = {}
    for match in filter(None, map(_LINE.match, output.splitlines())):
        told.setdefault(match["file"], set()).add(match["kind"] or match["code"])
    return told


def ruff(output: str) -> Told:
    """The codes of ruff's JSON."""
    told: Told = {}
    for result in json.loads(output):
        told.setdefault(Path(result["filename"]).name, set()).add(result["code"])
    return told


def semgrep(output: str) -> Told:
    """The codes of semgrep's JSON."""
    told: Told = {}
    for result in json.loads(output)["results"]:
        told.setdefault(result["path"], set()).add(result["check_id"].rpartition(".")[2])
    return told


def tools(peers: Path, rules: list[Path]) -> dict[str, tuple[list[str], Callable[[str], Told]]]:
    """Each tool's command, with every rule that it has, and what reads its report."""
    bin_ = peers / "bin"
    configs = [word for folder in rules for word in ("--config", str(folder))]
    found = {
        "ruff": (
            [str(bin_ / "ruff"), "check", "--isolated", "--no-cache", "--preview", "--select", "ALL", "--output-format", "json"],
            ruff,
        ),
        "TorchFix": ([str(bin_ / "torchfix"), "--select", "ALL"], by_lines),
        "mypy": ([str(bin_ / "mypy"), "--strict", "--python-executable", sys.executable, "--cache-dir", "/dev/null", "--scripts-are-modules"], by_lines),
    }  # fmt: skip
    if rules:
        found["semgrep"] = (
            [str(bin_ / "semgrep"), "scan", "--metrics=off", "--disable-version-check", "--json", "--quiet", *configs],
            semgrep,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--semgrep-rules", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    rules = [rule for rule in load_registry().rules() if rule not in META_RULES]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rule in rules:
            for heading, prefix in (("Example", "bad"), ("Use instead", "good")):
                (folder / f"{prefix}_{rule.code}.py").write_text(rule.example(heading), encoding="utf-8")
        print(f"| tool | tells, of {len(rules)} | with |\n| --- | ---: | --- |")
        for tool, (command, read) in tools(options.peers, options.semgrep_rules).items():
            told = read(run([*command, "."] if tool != "mypy" else [*command, *_names(folder)], folder))
            print(row(tool, {key.removeprefix("./"): value for key, value in told.items()}, rules))


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.py"))


def row(tool: str, told: Told, rules: list[type[Rule]]) -> str:
    """A row of the table: how many mistakes a tool tells, and by which of its rules."""
    apart = {
        rule.code: told.get(f"bad_{rule.code}.py", set()) - told.get(f"good_{rule.code}.py", set()) for rule in rules
    }
    shown = [f"{code}: {', '.join(sorted(codes))}" for code, codes in apart.items() if codes]
    return f"| {tool} | {len(shown)} | {'; '.join(shown)} |"


if __name__ == "__main__":
    main()
