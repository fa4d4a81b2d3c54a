"""The options of a run that lints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from devlint.findings import Confidence, OutputFormat, Severity


@dataclass(frozen=True)
class ReportForm:
    """One of the reports that were asked for: its form, and the file that it goes to; None for the usual place."""

    form: OutputFormat
    file: Path | None = None


@dataclass(frozen=True)
class Options:
    """The options of `check`, as click gives them; other commands that lint set a few."""

    paths: tuple[str, ...] = ()
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    add_noqa: str | None = None
    # "" is the merge base with the main branch.
    since: str | None = None
    staged: bool = False
    baseline: Path | None = None
    no_baseline: bool = False
    update_baseline: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    output_format: tuple[ReportForm, ...] = ()
    output_file: Path | None = None
    confidence: Confidence | None = None
    fail_on: Severity | None = None
    exit_zero: bool = False
    statistics: bool = False
    jobs: int | None = None
    executor: str | None = None
    # (number, from 1; of how many)
    shard: tuple[int, int] | None = None
    config: tuple[str, ...] = ()
    isolated: bool = False
    show_settings: bool = False
    show_files: bool = False
    stdin_filename: str | None = None
    exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    evidence: Path | None = None
    quiet: bool = False
    verbose: bool = False
    color: Literal["auto", "always", "never"] = "auto"
    follow_links: bool = False
    preview: bool = False
    markdown: bool = False
    no_cache: bool = False
    cache_dir: Path | None = None
