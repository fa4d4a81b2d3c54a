"""Runs the code blocks of pages; `--write` puts what their commands say now into them.

python tools/run_pages.py [--write] [PAGE...]

A page is gone through from top to bottom in an empty folder with a copy of `examples/`, a git repository:

- A block with a title (```` ```python title="train.py" ````) is that file.
- In a `console` block, a line that starts with `$ ` is a command. It is run, and what stands below it is what it says: a line
  `...` stands for any lines, and one that ends so for any end. Commands of programs that aren't about devlint are not run
  (`ELSEWHERE`).
- `python` without a title is run under virtual CUDA, where names of `GIVEN` are there. `# XError` says that it ends so.
- `toml` that names settings is taken as settings. `json` and `yaml` are parsed; what a `yaml` block runs of devlint must be a
  valid command line.
- `text`, `diff` and `markdown` show things, and some languages are those of editors (`SHOWN`); tests of their own hold them to
  what they show.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from devlint.rule import load_registry
from devlint.settings import SettingsError, load_settings
from devlint.settings.keys import KEYS

ROOT = Path(__file__).resolve().parent.parent
# Pages whose blocks tests of their own run: tests/test_contributing.py.
OWN_TESTS = ("CONTRIBUTING.md",)
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Programs of commands that are shown and not run here.
ELSEWHERE = (
    "pip",
    "pytest",
    "flake8",
    "pre-commit",
    "mkdocs",
    "python -m venv",
    "python -m build",
    "twine",
    "git tag",
    "git push",
)
SHOWN = ("text", "diff", "markdown", "lua", "vim", "elisp", "html")
GIVEN = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)


def train():
    Net()(torch.randn(4, 3))


counts = torch.ones(3)
"""
_BLOCK = re.compile(r"^(?P<fence>````?)(?P<info>\w+[^\n]*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_ERROR = re.compile(r"#\s*(\w+Error)\b")


@dataclass(frozen=True)
class Block:
    """A code block of a page: its place in the text, and what it says."""

    start: int
    end: int
    line: int
    language: str
    title: str | None
    text: str


class PageError(Exception):
    """A block that isn't true; the text says why."""


def blocks(page: str) -> list[Block]:
    """The code blocks of a page."""
    found = []
    for match in _BLOCK.finditer(page):
        title = _TITLE.search(match["info"])
        line = page.count("\n", 0, match.start()) + 1
        language = match["info"].split()[0]
        found.append(Block(*match.span("text"), line, language, title[1] if title else None, match["text"]))
    return found


def run_page(path: Path) -> tuple[list[str], str]:
    """(what isn't true, the page as it should be)."""
    page = path.read_text(encoding="utf-8")
    faults, after, done = [], "", 0
    with tempfile.TemporaryDirectory() as name:
        folder = _folder(Path(name) / "project")
        for block in blocks(page):
            try:
                text = _run(block, folder)
            except PageError as error:
                faults.append(f"{_name(path)}:{block.line}: {error}")
                text = block.text
            if text != block.text:
                difference = difflib.unified_diff(
                    block.text.splitlines(), text.splitlines(), "shown", "now", lineterm=""
                )
                faults.append("\n".join([f"{_name(path)}:{block.line}: it says something else", *difference]))
            after += page[done : block.start] + text
            done = block.end
    return faults, after + page[done:]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def _folder(folder: Path) -> Path:
    """A git repository with the example."""
    ignored = shutil.ignore_patterns("*.pt", "__pycache__", ".pytest_cache", "rule-pack")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=ignored)
    (folder / ".gitignore").write_text("__pycache__/\n*.pt\n*.json\n")
    identity = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-q", "-m", "start")):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True, env=_environment())
    return folder


def _environment() -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GITHUB_", "CI_", "DEVLINT"))
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
    return {**kept, "PATH": path, "GIT_CONFIG_GLOBAL": os.devnull, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}


def _run(block: Block, folder: Path) -> str:
    """Runs a block; what it should say. Raises PageError."""
    if block.title is not None:
        path = folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return block.text
    if block.language in SHOWN:
        return block.text
    run = {"console": _console, "python": _python, "toml": _toml, "json": _json, "yaml": _yaml}.get(block.language)
    if run is None:
        raise PageError(f"nothing is known of blocks of {block.language!r}")
    return run(block.text, folder)


def _console(text: str, folder: Path) -> str:
    said = []
    for command, shown in _commands(text):
        if command is None or any(re.match(rf"{re.escape(word)}\b", command) for word in ELSEWHERE):
            _extras_are_ours(command or shown)
            said.append(f"$ {command}\n{shown}" if command else shown)
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        if done.returncode not in (0, 1) and not shown:
            raise PageError(f"`{command}` ends with {done.returncode}: {done.stdout[-500:]}")
        said.append(f"$ {command}\n{shown if _matches(shown, done.stdout) else done.stdout}")
    return "".join(said)


def _commands(text: str) -> Iterator[tuple[str | None, str]]:
    """The commands of a console with what stands below each; None for what stands before the first."""
    before, *rest = re.split(r"^\$ ", text, flags=re.MULTILINE)
    if before:
        yield None, before
    for each in rest:
        command, _, shown = each.partition("\n")
        yield command, shown


def _matches(shown: str, said: str) -> bool:
    """Whether a command said what is shown, in which `...` stands for what is left out."""
    pattern = ""
    for line in shown.splitlines(keepends=True):
        if line == "...\n":
            pattern += r"(?:.*\n)*?"
        elif line.endswith("...\n"):
            pattern += rf"{re.escape(line[:-4])}.*\n"
        else:
            pattern += re.escape(line)
    return re.fullmatch(pattern, said) is not None


def _extras_are_ours(text: str) -> None:
    """Whether what is installed by name exists."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    unknown = [name for name in re.findall(r"devlint\[(\w+)\]", text) if name not in extras]
    if unknown:
        raise PageError(f"devlint has no extra {unknown[0]!r}")


def _python(text: str, folder: Path) -> str:
    wanted = _ERROR.search(text)
    (folder / "given.py").write_text(GIVEN, encoding="utf-8")
    (folder / "block.py").write_text(f"from given import *\n\n{text}", encoding="utf-8")
    command = [sys.executable, "-m", "devlint", "run", "--virtual-cuda", "2", "block.py"]
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=300)
    if wanted is None and done.returncode:
        raise PageError(f"it ends with an error: {done.stderr[-500:]}")
    if wanted is not None and wanted[1] not in done.stderr:
        raise PageError(f"no {wanted[1]}: {done.stderr[-500:]}")
    return text


def _toml(text: str, folder: Path) -> str:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PageError(str(error)) from None
    if "devlint" not in table.get("tool", {}) and not KEYS.keys() & table.keys():
        return text
    apart = folder / "settings"
    shutil.rmtree(apart, ignore_errors=True)
    apart.mkdir()
    # What another file says may be there, and what is asked of this version is of any.
    (folder / "devlint.toml").unlink(missing_ok=True)
    (apart / ("pyproject.toml" if "tool" in table else "devlint.toml")).write_text(text, encoding="utf-8")
    if "extend" in table:
        (folder / "devlint.toml").write_text("")
    try:
        load_settings(apart, config=None, isolated=False, registry=load_registry())
    except SettingsError as error:
        raise PageError(str(error)) from None
    finally:
        shutil.rmtree(apart)
        (folder / "devlint.toml").unlink(missing_ok=True)
    return text


def _json(text: str, folder: Path) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        raise PageError(str(error)) from None
    return text


def _yaml(text: str, folder: Path) -> str:
    try:
        yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PageError(str(error).replace("\n", " ")) from None
    _extras_are_ours(text)
    for command in re.findall(r"^[\s-]*(?:run|script):\s*(devlint .*)$", text, re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", f"{command} --help"], cwd=folder, env=_environment(), capture_output=True, text=True
        )
        if done.returncode:
            raise PageError(f"`{command}`: {done.stderr.strip()}")
    return text


def main() -> None:
    write = "--write" in sys.argv
    named = [Path(name).resolve() for name in sys.argv[1:] if name != "--write"]
    failed = False
    for path in named or PAGES:
        if path.name in OWN_TESTS:
            continue
        faults, after = run_page(path)
        if write and after != path.read_text(encoding="utf-8"):
            path.write_text(after, encoding="utf-8")
            print(f"written: {_name(path)}")
            faults = [fault for fault in faults if "it says something else" not in fault]
        failed = failed or bool(faults)
        print("".join(f"{fault}\n" for fault in faults), end="")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
