"""One run of `devlint check`: paths and options in, report out.

Modules are imported where they are used, so that a clean file stays quick.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import click

from devlint.console import emit, is_terminal
from devlint.escapes import printable, printable_lines

if TYPE_CHECKING:
    from devlint.batch import Plan
    from devlint.evidence import Evidence
    from devlint.files import Missing, Target
    from devlint.findings import Confidence, OutputFormat, Severity
    from devlint.reports import FileResult
    from devlint.rule import Registry
    from devlint.settings import Settings

# Exit codes.
CLEAN, FOUND, FAILED, INTERRUPTED = 0, 1, 2, 130


class Failure(click.ClickException):
    """Ends the run with a one-line message and exit code 2."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        emit(f"{click.style('error', fg='red', bold=True)}: {printable(self.message)}\n", err=True)


def load_rules() -> Registry:
    """The rules of all installed packs; a pack that can't be used ends the run."""
    from devlint.rule import PackError, load_registry

    try:
        return load_registry()
    except PackError as error:
        raise Failure(str(error)) from error


@dataclass(frozen=True)
class Options:
    """The options of `check`, as click gives them."""

    paths: tuple[str, ...]
    fix: bool
    unsafe_fixes: bool
    diff: bool
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    output_format: OutputFormat | None
    output_file: Path | None
    confidence: Confidence | None
    fail_on: Severity | None
    exit_zero: bool
    statistics: bool
    jobs: int | None
    config: tuple[str, ...]
    isolated: bool
    show_settings: bool
    show_files: bool
    stdin_filename: str | None
    exclude: tuple[str, ...]
    force_exclude: bool
    evidence: Path | None
    quiet: bool
    verbose: bool
    color: Literal["auto", "always", "never"]
    follow_links: bool
    preview: bool


class Session:
    """One run of `check`."""

    def __init__(self, options: Options) -> None:
        from devlint.patterns import is_valid
        from devlint.settings import Selection, SettingsError, check_selectors, load_settings, split_config

        self.options = options
        self.started = time.monotonic()
        self.registry = load_rules()
        self.failed = False
        self._settings: dict[Path, Settings] = {}
        try:
            select, ignore, extend_select = (
                check_selectors(getattr(options, name), self.registry, f"--{name.replace('_', '-')}")
                for name in ("select", "ignore", "extend_select")
            )
            self.config, self.inline = split_config(options.config)
            if options.config:
                load_settings(
                    Path(), config=self.config, isolated=options.isolated, registry=self.registry, inline=self.inline
                )
        except SettingsError as error:
            raise Failure(str(error)) from None
        for pattern in options.exclude:
            if not is_valid((pattern,)):
                raise Failure(f"--exclude: '{pattern}' is no path pattern; write it as in a .gitignore file")
        self.evidence = self._read_evidence()
        self.overrides = Selection(select or None, ignore, extend_select)
        here = self._settings_here()
        self.output_format = options.output_format or here.output_format
        self.fail_on = options.fail_on or here.fail_on

    def _settings_here(self) -> Settings:
        """The settings of the current folder, which hold for the run itself; the defaults where they can't be used."""
        from devlint.settings import Settings, SettingsError

        try:
            return self.settings_for(Path.cwd())
        except SettingsError:
            # Whoever meets a file of theirs is told.
            return Settings(Path.cwd())

    def _read_evidence(self) -> Evidence | None:
        if self.options.evidence is None:
            return None
        from devlint.evidence import EvidenceError, read_evidence

        try:
            return read_evidence(self.options.evidence)
        except EvidenceError as error:
            raise Failure(f"--evidence {error}") from None

    @property
    def plan(self) -> Plan:
        from devlint.batch import Plan

        options = self.options
        named = tuple(os.path.realpath(path) for path in options.paths or (".",) if path != "-")
        return Plan(options.fix, options.unsafe_fixes, options.diff, named, options.follow_links)

    def settings_for(self, folder: Path) -> Settings:
        """The settings of a folder with the command line laid over them; raises SettingsError."""
        import dataclasses

        from devlint.settings import load_settings

        if folder not in self._settings:
            options = self.options
            found = load_settings(
                folder, config=self.config, isolated=options.isolated, registry=self.registry, inline=self.inline
            )
            self._settings[folder] = dataclasses.replace(
                found,
                overrides=self.overrides,
                confidence=options.confidence or found.confidence,
                preview=options.preview or found.preview,
                exclude=(*found.exclude, *(_from_root(pattern, found.root) for pattern in options.exclude)),
            )
            self.say(f"settings for {folder}: {found.origin or 'the defaults'}")
        return self._settings[folder]

    def say(self, line: str) -> None:
        """A line for --verbose."""
        if self.options.verbose:
            emit(f"{printable(line)}\n", err=True, color=self.colored(sys.stderr))

    def warn(self, kind: str, line: str) -> None:
        """An error or a warning, on the standard error."""
        color = "red" if kind == "error" else "yellow"
        said = f"{click.style(kind, fg=color, bold=True)}: {printable(line)}\n"
        emit(said, err=True, color=self.colored(sys.stderr))

    def colored(self, stream: IO[str] | None) -> bool:
        """Whether to write colours: as --color says, else on terminals, unless NO_COLOR is set."""
        if self.options.color != "auto":
            return self.options.color == "always"
        return wants_color(stream)

    def run(self) -> int:
        """Does what the options ask for; returns the exit code."""
        if self.options.show_settings:
            return self._show_settings()
        if self.options.show_files:
            emit("".join(f"{printable(target.display)}\n" for target in self._targets()))
            return FAILED if self.failed else CLEAN
        return self._run_stdin() if "-" in self.options.paths else self._run_files()

    def _show_settings(self) -> int:
        from devlint.settings import SettingsError, layers_for
        from devlint.settings.published import shown

        options = self.options
        path = Path(options.paths[0] if options.paths else ".")
        try:
            layers = layers_for(path, self.config, options.isolated, self.inline, self.registry)
            settings = self.settings_for(path if path.is_dir() else path.parent)
        except SettingsError as error:
            raise Failure(str(error)) from None
        emit(printable_lines(shown(path, layers, settings, self.registry)))
        return CLEAN

    def _run_files(self) -> int:
        """Lints the paths; returns the exit code."""
        from devlint.batch import run_all
        from devlint.progress import progress
        from devlint.reports import counted

        targets = self._targets()
        if not targets and not self.failed:
            self.warn("warning", f"no Python files found under {', '.join(self.options.paths or ('.',))}")
        self.say(counted(len(targets), "file"))
        with progress(len(targets), enabled=is_terminal(sys.stderr) and not self.options.quiet) as step:
            results = list(run_all(targets, self.plan, self.registry, jobs=self.options.jobs, progress=step))
        self.say(f"took {time.monotonic() - self.started:.2f} s")
        return self._finish(results)

    def _targets(self) -> list[Target]:
        """The files to lint, in the order of the report; paths that aren't there are reported and counted."""
        from devlint.files import Missing, discover

        paths = [Path(path) for path in self.options.paths or (".",)]
        found: list[Target | Missing] = list(
            discover(paths, self.settings_for, force_exclude=self.options.force_exclude)
        )
        for item in found:
            if isinstance(item, Missing):
                self.failed = True
                self.warn("error", str(item))
        return sorted((item for item in found if not isinstance(item, Missing)), key=lambda target: target.display)

    def _run_stdin(self) -> int:
        """Lints the standard input; with --fix the fixed text goes to the standard output, the report beside it."""
        from devlint.batch import Worker
        from devlint.files import FileError, TooLargeFileError, is_excluded, source_from_bytes
        from devlint.settings import SettingsError

        if len(self.options.paths) > 1:
            raise click.UsageError("`-` can't be used together with other paths.")
        name = self.options.stdin_filename
        path = Path(os.path.abspath(name)) if name else None  # noqa: PTH100 - resolving would follow links
        try:
            settings = self.settings_for(path.parent if path else Path.cwd())
        except SettingsError as error:
            raise Failure(str(error)) from None
        if sys.stdin is None:
            raise Failure("the standard input, which `-` reads, is closed")
        raw = sys.stdin.buffer.read()
        data = raw
        results: list[FileResult] = []
        if not (path and self.options.force_exclude and is_excluded(path, settings)):
            worker = Worker(self.plan, self.registry)
            display = Path(name).as_posix() if name else "-"
            try:
                source = source_from_bytes(raw, path, display, settings.max_file_size)
                result, fixed = worker.run_source(source, settings)
                data = fixed.to_bytes()
            except TooLargeFileError as error:
                result = worker.passed_over(display, str(error))
            except FileError as error:
                result = worker.failed(display, str(error))
            results.append(result)
        if self.options.fix and not self.options.diff:
            emit(data)
            return self._finish(results, to_stderr=True)
        return self._finish(results)

    def _finish(self, results: Sequence[FileResult], *, to_stderr: bool = False) -> int:
        """Writes the report; returns the exit code."""
        options = self.options
        findings = [finding for result in results for finding in result.findings]
        for line in (line for result in results for line in result.warnings):
            self.warn("warning", line)
        failed = self.failed or any(finding.code == "DEV000" for finding in findings)
        unexplained = ""
        if self.evidence is not None:
            results, unexplained = self._beside_evidence(results, self.evidence)
        if options.diff:
            changed = self._show_diff(results, failed)
            return FAILED if failed else FOUND if changed and not options.exit_zero else CLEAN
        if options.quiet and not findings and self.output_format != "json":
            text = ""
        elif options.statistics:
            from devlint.reports import statistics

            text = statistics.render(results, self.output_format, unsafe_fixes=options.unsafe_fixes)
        else:
            text = self._render(results, failed) + (unexplained if self.output_format != "json" else "")
        self._write(text, to_stderr=to_stderr)
        fatal = [finding for finding in findings if self.fail_on == "warning" or finding.severity == "error"]
        return FAILED if failed else FOUND if fatal and not options.exit_zero else CLEAN

    def _render(self, results: Sequence[FileResult], failed: bool) -> str:
        if self.output_format == "json":
            from devlint.reports import json

            return json.render(results)
        from devlint.reports import concise, text

        render = concise.render if self.output_format == "concise" else text.render
        return render(results, unsafe_fixes=self.options.unsafe_fixes, quiet=self.options.quiet, failed=failed)

    def _beside_evidence(self, results: Sequence[FileResult], evidence: Evidence) -> tuple[Sequence[FileResult], str]:
        """The results in the order of what they were seen to cost, and what was seen without a finding."""
        from devlint.evidence import describe
        from devlint.reports import FileResult

        rules = {rule.code: rule.seen_as for rule in self.registry.rules()}
        asked = [(Path(f.path).resolve(), f, rules.get(f.code, ())) for result in results for f in result.findings]
        findings, left = evidence.beside(asked)
        sources = {result.display: result for result in results}
        # One result for each finding: the order is that of the cost, across the files.
        ordered = [FileResult(f.path, (f,), sources[f.path].source) for f in findings]
        ordered += [replace(r, findings=(), source=None) for r in results if r.fixed or r.diff]
        return ordered, describe(left)

    def _show_diff(self, results: Sequence[FileResult], failed: bool) -> bool:
        """Writes the diffs, and what went wrong on the standard error; returns whether there are any."""
        from devlint.reports import by_severity

        diff = "".join(result.diff for result in results)
        # Elsewhere it is for `patch`, which wants each byte as it is.
        shown = is_terminal(sys.stdout) and self.options.output_file is None
        self._write(printable_lines(diff) if shown else diff, styled=False)
        for finding in (finding for result in results for finding in result.findings):
            if finding.code == "DEV000":
                self.warn("error", f"{finding.path}:{finding.span.line}: {finding.message}")
        fixes = [finding for result in results for finding in result.fixed]
        if not self.options.quiet:
            said = f"Would fix {by_severity(fixes)}\n" if fixes else "" if failed else "No fixes to show\n"
            emit(said, err=True)
        return any(result.diff for result in results)

    def _write(self, text: str, *, to_stderr: bool = False, styled: bool = True) -> None:
        """Puts a report where it is wanted, its colours dropped where they aren't; without any, it stays as it is."""
        file = self.options.output_file
        if file is None:
            colored = self.colored(sys.stderr if to_stderr else sys.stdout)
            emit(text, err=to_stderr, color=colored or not styled)
            return
        plain = click.unstyle(text) if styled and self.options.color != "always" else text
        try:
            file.write_bytes(plain.encode("utf-8", "backslashreplace"))
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            raise Failure(f"--output-file {file}: can't be written: {said}") from None


def _from_root(pattern: str, root: Path) -> str:
    """A pattern that is meant from the current folder, as one meant from a root above it."""
    here = os.path.relpath(Path.cwd(), root).replace(os.sep, "/")
    if here == "." or here.startswith("../") or "/" not in pattern.rstrip("/"):
        return pattern
    return f"/{here}/{pattern.lstrip('/')}"


def wants_color(stream: IO[str] | None) -> bool:
    """Whether a stream is shown in colours when nobody says: on a terminal, unless NO_COLOR says no."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"
