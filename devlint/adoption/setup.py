"""What `devlint init` writes: settings, a pre-commit entry and a CI job, each as a file before and after."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devlint.addresses import DOCUMENTATION
from devlint.adoption.project import Layout
from devlint.disk import read_bytes, replace_bytes
from devlint.regexes import regex
from devlint.settings.published import as_toml

_HOOKS = ".pre-commit-config.yaml"
_GITHUB = ".github/workflows/devlint.yml"
_GITLAB = ".gitlab-ci.yml"
_TOP_LEVEL = regex(r"[^\s#-]")


@dataclass(frozen=True)
class Source:
    """Where hooks and jobs get devlint from."""

    repository: str
    revision: str

    @property
    def requirement(self) -> str:
        """What pip takes."""
        url = self.repository if "://" in self.repository else f"file://{Path(self.repository).absolute()}"
        return f"devlint @ git+{url}@{self.revision}"


@dataclass(frozen=True)
class Proposal:
    """A file that is to be written; `before` is None for a new one."""

    path: Path
    before: str | None
    after: str

    def diff(self, root: Path) -> str:
        """What would change."""
        name = self.path.relative_to(root).as_posix()
        old = (self.before or "").splitlines(keepends=True)
        lines = difflib.unified_diff(old, self.after.splitlines(keepends=True), name if old else os.devnull, name, n=2)
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)

    def write(self) -> None:
        """Puts it in place, whole or not at all; raises OSError, also where the file has changed since."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.before is None:
            with self.path.open("x", encoding="utf-8", newline="") as file:
                file.write(self.after)
        else:
            replace_bytes(os.path.realpath(self.path), self.after.encode(), self.before.encode())


@dataclass(frozen=True)
class Plan:
    """What is proposed, and what there is to say beside it."""

    proposals: tuple[Proposal, ...]
    remarks: tuple[str, ...]


def settings_for(layout: Layout, codes: frozenset[str]) -> dict[str, object]:
    """The settings that a project needs; `codes` are those of the rules that there are."""
    chosen: dict[str, object] = {}
    if layout.is_portable:
        chosen["extend-select"] = ["DEV7" if any(code.startswith("DEV7") for code in codes) else "DEV603"]
    if layout.roots:
        chosen["src"] = [".", *(["src"] if (layout.root / "src").is_dir() else []), *layout.roots]
    if layout.vendored or layout.unread:
        chosen["exclude"] = [*layout.vendored, *map(_as_pattern, layout.unread)]
    if layout.torch:
        chosen["torch-version"] = layout.torch
    return chosen


def _as_pattern(path: str) -> str:
    """A file's path from the root as a pattern that speaks of it alone."""
    return "/" + re.sub(r"([\\*?\[\]])", r"\\\1", path)


# What stands above `exclude`, for each kind of what it names.
_OTHERS, _UNREAD = "Other people's code.", "Files that can't be linted."
# What stands above a setting.
_WHY = {
    "src": "Where absolute imports start.",
    "torch-version": "The oldest PyTorch that the project asks for.",
}


def settings_file(layout: Layout, settings: dict[str, object]) -> Proposal:
    """The settings, in pyproject.toml where there is one, else in a devlint.toml."""
    named = [f"{name} ({count} {'file' if count == 1 else 'files'})" for name, count in layout.devices.most_common()]
    excluded = " ".join(why for why, named in ((_OTHERS, layout.vendored), (_UNREAD, layout.unread)) if named)
    why = _WHY | {"exclude": excluded, "extend-select": f"Rules about portable code: this names {', '.join(named)}."}
    said = [line for key, value in settings.items() for line in (f"# {why[key]}", f"{key} = {as_toml(value)}")]
    body = "".join(f"{line}\n" for line in [f"# All settings: {DOCUMENTATION}/settings/", *said])
    pyproject = layout.root / "pyproject.toml"
    before = _text_of(pyproject)
    if before is not None:
        gap = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
        after = f"{before}{gap}[tool.devlint]\n{body}"
        if _table_in(after) == settings:
            return Proposal(pyproject, before, after)
    return Proposal(layout.root / "devlint.toml", None, body)


def _table_in(text: str) -> object:
    try:
        return tomllib.loads(text)["tool"]["devlint"]
    except (tomllib.TOMLDecodeError, KeyError, TypeError):
        return None


def hooks_and_jobs(root: Path, source: Source, *, pre_commit: bool, ci: bool) -> Plan:
    """The pre-commit entry and the CI job that a project hasn't got yet."""
    found = [*(_hook(root, source) if pre_commit else ()), *(_job(root, source) if ci else ())]
    proposals = tuple(item for item in found if isinstance(item, Proposal))
    return Plan(proposals, tuple(item for item in found if isinstance(item, str)))


def _hook(root: Path, source: Source) -> Iterator[Proposal | str]:
    path = root / _HOOKS
    before = _text_of(path)
    if before is not None and "devlint" in before:
        yield f"{_HOOKS} names devlint already"
        return
    entry = [
        f"- repo: {source.repository}",
        f"  rev: {source.revision}",
        "  hooks:",
        "    - id: devlint-staged",
    ]
    if before is None:
        yield Proposal(path, None, "repos:\n" + "".join(f"  {line}\n" for line in entry))
        return
    after = _with_entry(before, entry)
    yield Proposal(path, before, after) if after else f"{_HOOKS} has no list of repos; add:\n" + "\n".join(entry)


def _with_entry(text: str, entry: list[str]) -> str | None:
    """The text of a configuration with one more entry at the end of its `repos`, its comments as they were."""
    lines = re.sub(r"^repos:[ \t]*\[[ \t]*\]", "repos:", text, flags=re.MULTILINE).splitlines()
    start = next((at for at, line in enumerate(lines) if re.match(r"repos:\s*(?:#.*)?$", line)), None)
    if start is None:
        return None
    end = next((at for at in range(start + 1, len(lines)) if _TOP_LEVEL.match(lines[at])), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    items = (re.match(r"(\s*)- ", line) for line in lines[start + 1 : end])
    indent = next((item[1] for item in items if item), "  ")
    return "\n".join([*lines[:end], *(indent + line for line in entry), *lines[end:]]) + "\n"


def _job(root: Path, source: Source) -> Iterator[Proposal | str]:
    workflows = [*(root / ".github" / "workflows").glob("*.y*ml"), root / _GITLAB]
    named = next((path for path in workflows if "devlint" in (_text_of(path) or "")), None)
    gitlab = _text_of(root / _GITLAB)
    if named is not None:
        yield f"{named.relative_to(root).as_posix()} names devlint already"
    elif gitlab is not None:
        gap = "" if gitlab.endswith("\n\n") else "\n" if gitlab.endswith("\n") else "\n\n"
        yield Proposal(root / _GITLAB, gitlab, gitlab + gap + _GITLAB_JOB.format(source.requirement))
    else:
        yield Proposal(root / _GITHUB, None, _GITHUB_JOB.format(source.requirement))


_GITHUB_JOB = """\
name: devlint
on:
  push:
    branches: [main, master]
  pull_request:
jobs:
  devlint:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install "{}"
      - run: devlint check
"""
_GITLAB_JOB = """\
devlint:
  image: python:3.12
  script:
    - pip install "{}"
    - devlint check
"""


def _text_of(path: Path) -> str | None:
    """A file's text; None where there is none. Raises OSError where it can't be read."""
    try:
        return read_bytes(path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise OSError(f"{path}: isn't UTF-8") from None
