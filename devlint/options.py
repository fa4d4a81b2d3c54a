"""The options of a run that lints."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from devlint.findings import FOR_TERMINALS, Confidence, OutputFormat, Safety, Severity
from devlint.records import record


@record(frozen=True)
class ReportForm:
    """One of the reports that were asked for: its form, and the file that it goes to; None for the usual place."""

    form: OutputFormat
    file: Path | None = None


@record(frozen=True)
class Options:
    """The options of `check`, as click gives them; other commands that lint set a few."""

    paths: tuple[str, ...] = ()
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    add_noqa: str | None = None
    ignore_noqa: bool = False
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
    # Again after each change.
    watch: bool = False
    quiet: bool = False
    verbose: bool = False
    color: Literal["auto", "always", "never"] = "auto"
    follow_links: bool = False
    preview: bool = False
    markdown: bool = False
    no_cache: bool = False
    cache_dir: Path | None = None

    @property
    def safety(self) -> Safety:
        """How safe a fix has to be at least to be applied."""
        return "unsafe" if self.unsafe_fixes else "safe"


def check_together(options: Options) -> None:
    """Raises click's UsageError where options don't go together."""
    for one, other, why in (
        (options.staged, options.since is not None, "--staged and --since ask about two changes; name one of them"),
        (options.staged or options.since is not None, options.fix or options.diff, "--fix and --diff are for whole files, --since and --staged for some of their lines; run one, then the other"),
        (options.staged, options.add_noqa is not None, "--add-noqa writes files, and --staged looks at what is to be committed; use --since=HEAD"),
        (options.executor is not None, options.fix or options.diff or options.staged or "-" in options.paths, "--executor reports what is in files that all workers see; leave out --fix, --diff, --staged and `-`"),
        (options.shard is not None, "-" in options.paths, "--shard is for files; leave out `-`"),
        (options.staged or options.since is not None, "-" in options.paths, "`-` has no history; name a path"),
        (options.update_baseline, options.no_baseline or options.confidence is not None or options.staged, "--update-baseline goes by all that is found in the files as they are; leave out --no-baseline, --confidence and --staged"),
        (sum(asked.file is None for asked in options.output_format) > 1, True, "two reports for one place; write one of them to a file, as in --output-format sarif=devlint.sarif"),
        (options.output_file is not None, bool(options.output_format) and all(asked.file for asked in options.output_format), "--output-file has no report left to write: each of --output-format names its own file"),
        (options.statistics, any(asked.form not in (*FOR_TERMINALS, "json") for asked in options.output_format), "--statistics is told as text or JSON"),
        (options.diff, any(asked.file for asked in options.output_format), "--diff shows a diff, and writes no report"),
        (options.add_noqa is not None, options.fix or "-" in options.paths, "--add-noqa writes comments into files; leave out --fix and `-`"),
        (options.add_noqa is not None, options.ignore_noqa, "--add-noqa writes the comments that --ignore-noqa passes over; name one of them"),
        (options.watch, "-" in options.paths or options.staged or options.add_noqa is not None or options.update_baseline or options.show_settings or options.show_files, "--watch lints files as they change; leave out `-`, --staged, --add-noqa, --update-baseline, --show-settings and --show-files"),
    ):  # fmt: skip
        if one and other:
            raise click.UsageError(why)
