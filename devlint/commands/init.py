"""`devlint init`."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from devlint.addresses import REPOSITORY
from devlint.asked import Asked
from devlint.commands import HELP
from devlint.commands.options import need_folder
from devlint.console import emit
from devlint.escapes import printable, printable_lines
from devlint.failure import Failure
from devlint.options import Options
from devlint.renewal import Renewal
from devlint.reports import counted
from devlint.session import Session, load_rules
from devlint.signals import ended_by_signals

if TYPE_CHECKING:
    from devlint.adoption.baseline import Baseline
    from devlint.adoption.project import Layout
    from devlint.adoption.setup import Proposal, Source
    from devlint.settings import Settings


@click.command(context_settings=HELP)
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--pre-commit/--no-pre-commit", default=True, help="Whether to add a pre-commit hook [default: yes].")
@click.option("--ci/--no-ci", default=True, help="Whether to add a CI job [default: yes].")
@click.option("--repo", default=REPOSITORY, show_default=True, help="Where the hook and the job get devlint from.")
@click.option("--rev", default=lambda: _revision(), show_default="this release", help="Which revision of it they take.")
def init(yes: bool, dry_run: bool, pre_commit: bool, ci: bool, repo: str, rev: str) -> None:
    """Set up a project: settings, pre-commit hook, CI job, baseline.

    Looks at the project, shows what it would write, and asks. What is there already stays as it is.
    """
    need_folder()
    from devlint.adoption.setup import Source

    with ended_by_signals():
        try:
            _set_up(Source(repo, rev), yes=yes, dry_run=dry_run, pre_commit=pre_commit, ci=ci)
        except OSError as error:
            said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            raise Failure(f"{said}; nothing more was written") from None


def _revision() -> str:
    """The tag of this release; the main branch where this is none."""
    from packaging.version import Version

    from devlint import __version__

    return "main" if Version(__version__).is_devrelease else f"v{__version__}"


def _set_up(source: Source, *, yes: bool, dry_run: bool, pre_commit: bool, ci: bool) -> None:
    from devlint.adoption.setup import hooks_and_jobs

    here = Asked(Options()).here
    # Patterns and names count from the project's root.
    os.chdir(here.root)
    layout = _layout(here)
    inline = _inline(layout)
    baselines: list[Baseline] = []
    unread: list[str] = []
    if not here.baseline_file.exists():
        run = Renewal(Options(config=inline))
        baselines, unread = run.renewed_baselines(), run.unread
    if layout is not None:
        layout = replace(layout, unread=tuple(unread))
        inline = _inline(layout)
    plan = hooks_and_jobs(here.root, source, pre_commit=pre_commit, ci=ci)
    proposals = [*_settings(layout), *plan.proposals]
    for proposal in proposals:
        emit(printable_lines(proposal.diff(here.root)) + "\n")
    for remark in plan.remarks:
        emit(printable_lines(remark) + "\n")
    if unread:
        emit(_told_of_unread(len(unread), excluded=layout is not None))
    if any(b.file != here.baseline_file and not _has_settings(b.file.parent) for b in baselines):
        # The settings that are written now hold there too.
        baselines = Renewal(Options(config=inline, baseline=here.baseline_file)).renewed_baselines()
    for baseline in baselines:
        emit(_described(baseline))
    if not proposals and not baselines:
        emit("Nothing to do: the project is set up.\n")
        return
    if dry_run:
        return
    if not yes and not _agreed():
        raise Failure("nothing was written; --yes writes without asking")
    for proposal in proposals:
        proposal.write()
    for baseline in baselines:
        baseline.write()
    written = [*(p.path for p in proposals), *(b.file for b in baselines)]
    emit(f"Written: {', '.join(printable(os.path.relpath(path, here.root)) for path in written)}\n")
    emit("Commit them together" + (", and run `pre-commit install` once in each clone.\n" if pre_commit else ".\n"))


def _layout(here: Settings) -> Layout | None:
    """What the project is like; None where there are settings already."""
    from devlint.adoption.project import look_at

    if here.origin is not None:
        emit(f"{printable(os.path.relpath(here.origin, here.root))} has settings already\n")
        return None
    return look_at(here.root, [target.path for target in Session(Options()).targets()])


def _chosen(layout: Layout) -> dict[str, object]:
    """The settings that follow from what a project is like."""
    from devlint.adoption.setup import settings_for

    return settings_for(layout, frozenset(rule.code for rule in load_rules().rules()))


def _inline(layout: Layout | None) -> tuple[str, ...]:
    """The settings that are going to be written, as `key = value` texts."""
    from devlint.settings.published import as_toml

    return tuple(f"{key} = {as_toml(value)}" for key, value in _chosen(layout).items()) if layout is not None else ()


def _settings(layout: Layout | None) -> list[Proposal]:
    """The file with the settings, where there are none yet."""
    from devlint.adoption.setup import settings_file

    return [settings_file(layout, _chosen(layout))] if layout is not None else []


def _told_of_unread(number: int, *, excluded: bool) -> str:
    """What becomes of files that can't be linted: each run would fail for them."""
    what = f"{counted(number, 'file')} can't be linted"
    if excluded:
        return f"{what}: the settings exclude {'it' if number == 1 else 'them'}, since each run would fail\n"
    return f"{what}, so that each run will fail: mend {'it' if number == 1 else 'them'}, or add to `exclude`\n"


def _has_settings(folder: Path) -> bool:
    """Whether a folder has settings of its own, which name its baseline."""
    project = folder / "pyproject.toml"
    named = project.is_file() and "[tool.devlint" in project.read_text(encoding="utf-8", errors="replace")
    return named or any((folder / name).exists() for name in ("devlint.toml", ".devlint.toml"))


def _described(baseline: Baseline) -> str:
    """How many findings a baseline keeps, of which rules."""
    codes = sorted(Counter(mark.code for mark in baseline.marks).items(), key=lambda told: (-told[1], told[0]))
    listed = ", ".join(f"{code} {count}" for code, count in codes)
    name = printable(os.path.relpath(baseline.file, Path.cwd()))
    return f"{name}: {counted(len(baseline.marks), 'old finding')}, which runs leave out ({listed})\n"


def _agreed() -> bool:
    import sys

    if sys.stdin is None or not sys.stdin.isatty():
        return False
    return click.confirm("Write these?")
