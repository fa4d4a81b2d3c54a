"""One run of `devlint check`: paths and options in, report out.

Modules are imported where they are used, so that a clean file stays quick.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

import click

from devlint.asked import Asked
from devlint.console import emit, is_terminal
from devlint.escapes import printable, printable_lines
from devlint.failure import CLEAN, FAILED, FOUND, Failure
from devlint.findings import Untold
from devlint.settings.selection import ALWAYS_REPORTED, specificity

if TYPE_CHECKING:
    from devlint.adoption.baseline import Baselines
    from devlint.adoption.git import Repository
    from devlint.adoption.since import Changed
    from devlint.batch import Plan, Runner
    from devlint.cache.results import Results
    from devlint.evidence import Evidence
    from devlint.files import Missing, Target
    from devlint.findings import Finding
    from devlint.options import Options
    from devlint.reports import FileResult
    from devlint.rule import Registry
    from devlint.settings import Settings


# How often what --fix left over is tried again.
_MOST_ROUNDS = 5


def load_rules() -> Registry:
    """The rules of all installed packs; for commands about rules, which end where one can't be used."""
    from devlint.rule import load_registry

    registry = load_registry()
    for fault in registry.left_out:
        raise Failure(fault)
    return registry


class Session:
    """One run of `check`."""

    def __init__(self, options: Options) -> None:
        self.started = time.monotonic()
        self.asked = Asked(options)
        self.options, self.output, self.registry = options, self.asked.output, self.asked.registry
        self.failed = bool(self.registry.left_out)
        # What there is to say after the report.
        self.told: list[str] = []
        self._paths = list(options.paths or (".",))

    def _cache(self) -> Results | None:
        """The results of earlier runs; None where none are wanted, or can be kept."""
        # What is staged is looked at in a folder that has a new name each time.
        if self.options.no_cache or self.options.staged:
            return None
        from devlint.cache.folder import prepared
        from devlint.cache.results import Results

        database = prepared(self.asked.cache_folder)
        return Results(database, self.registry) if database is not None else None

    def _elsewhere(self) -> Runner | None:
        """Who does the work, where not processes of our own."""
        if self.options.executor is None:
            return None
        from devlint.remote import Cluster

        return Cluster(self.options.executor, self.registry).run

    def run(self) -> int:
        """Does what the options ask for; returns the exit code."""
        if self.options.show_settings:
            return self._show_settings()
        if self.options.show_files:
            self._tell_of_idle_excludes()
            emit("".join(f"{printable(target.display)}\n" for target in self.targets()))
            return FAILED if self.failed else CLEAN
        return self._run_stdin() if "-" in self.options.paths else self._run_files()

    def _tell_of_idle_excludes(self) -> None:
        """Warns of patterns that leave nothing out: misspelt, perhaps."""
        from devlint.files import idle_excludes

        for pattern in idle_excludes(self.asked.here):
            self.output.warn("warning", f"exclude: '{pattern}' names nothing under {self.asked.here.root}")

    def _show_settings(self) -> int:
        from devlint.settings import SettingsError, layers_for
        from devlint.settings.published import shown

        options = self.options
        path = Path(options.paths[0] if options.paths else ".")
        try:
            layers = layers_for(path, self.asked.config, options.isolated, self.asked.inline, self.registry)
            settings = self.asked.settings_for(path if path.is_dir() else path.parent)
        except SettingsError as error:
            raise Failure(str(error)) from None
        emit(printable_lines(shown(path, layers, settings, self.registry)))
        return CLEAN

    def _run_files(self) -> int:
        """Lints the paths; returns the exit code."""
        if self.options.since is None and not self.options.staged:
            targets = self.targets()
            return self._finish(self._reported(self._lint(targets), targets))
        from devlint.adoption.git import GitError, Repository

        try:
            # What is staged is copied from around the current folder.
            first = Path.cwd() if self.options.staged else Path(self._paths[0]).absolute()
            repository = Repository(first if first.is_dir() else first.parent)
            with self._tree_of(repository) as top:
                changed = self._changed(repository, top)
                targets = changed.concerned(self.targets())
                self.output.say(f"{len(changed.files)} files changed since {changed.revision}")
                return self._finish(self._reported(self._lint(targets), targets, changed))
        except GitError as error:
            raise Failure(str(error)) from None

    @contextmanager
    def _tree_of(self, repository: Repository) -> Iterator[Path]:
        """The top of what is linted: the repository's, or with --staged that of a copy of what would be committed.

        The copy is the current folder for the time: so paths are told as they are known.
        """
        if not self.options.staged:
            yield repository.top
            return
        import tempfile

        here = Path.cwd()
        inside = os.path.relpath(os.path.realpath(here), repository.top)
        with tempfile.TemporaryDirectory(prefix="devlint-") as folder:
            top = Path(os.path.realpath(folder))
            repository.export(
                None,
                top,
                also=[os.path.relpath(self.options.baseline or self.asked.here.baseline_file, repository.top)],
            )
            # It marks the root, as in the repository.
            (top / ".git").mkdir(exist_ok=True)
            (top / inside).mkdir(parents=True, exist_ok=True)
            os.chdir(top / inside)
            self._paths = [os.path.relpath(path, here) if os.path.isabs(path) else path for path in self._paths]  # noqa: PTH117
            self.asked.forget()
            try:
                yield top
            finally:
                os.chdir(here)

    def _changed(self, repository: Repository, top: Path) -> Changed:
        """What --since or --staged asks about; raises GitError."""
        from devlint.adoption.since import Changed

        since = self.options.since
        if self.options.staged:
            return Changed.read(repository, repository.head(), top, staged=True)
        revision = repository.resolve(since) if since else repository.merge_base()
        return Changed.read(repository, revision, top, staged=False)

    def _lint(self, targets: Sequence[Target]) -> list[FileResult]:
        """What the plan of the options comes to for each target, by what earlier runs found where that still holds."""
        plan = self.asked.plan
        results = self._run_plan(targets, plan, self._cache() if targets else None)
        return self._settled(results, targets) if plan.fix and not plan.diff else results

    def _settled(self, results: list[FileResult], targets: Sequence[Target]) -> list[FileResult]:
        """The results once what was left over was tried again, as long as other files were changed meanwhile.

        Files hang together: what stood in the way of a fix may have been mended elsewhere, and so may what is told of a file.
        """
        by_name = {result.display: result for result in results}
        latest = results
        for _ in range(_MOST_ROUNDS):
            changed = {result.display for result in latest if result.fixed}
            left = [t for t in targets if by_name[t.display].findings and not changed <= {t.display}]
            if not left:
                break
            latest = self._run_plan(left, self.asked.plan, None)
            for result in latest:
                before = by_name[result.display]
                by_name[result.display] = replace(result, fixed=(*before.fixed, *result.fixed))
        return [by_name[result.display] for result in results]

    def _run_plan(self, targets: Sequence[Target], plan: Plan, cache: Results | None) -> list[FileResult]:
        """What a plan comes to for each target."""
        from devlint.batch import run_all
        from devlint.progress import progress
        from devlint.reports import counted

        self.output.say(counted(len(targets), "file"))
        with progress(len(targets), enabled=is_terminal(sys.stderr) and not self.options.quiet) as step:
            results = list(
                run_all(
                    targets,
                    plan,
                    self.registry,
                    jobs=self.options.jobs,
                    progress=step,
                    cache=cache,
                    elsewhere=self._elsewhere(),
                )
            )
        if cache is not None:
            self.output.say(f"{cache.held} of them as in an earlier run")
        self._say_untold(results)
        self.output.say(f"took {time.monotonic() - self.started:.2f} s")
        return results

    def _say_untold(self, results: Iterable[FileResult]) -> None:
        """Says for --verbose what isn't told, and which option would have it told."""
        from devlint.reports import counted

        untold = reduce(or_, (result.untold for result in results), Untold())
        if untold.passed:
            self.output.say(f"{counted(untold.passed, 'file')} not about PyTorch, and not parsed")
        if untold.suppressed:
            self.output.say(
                f"{counted(untold.suppressed, 'finding')} switched off by comments (--ignore-noqa tells them)"
            )
        if untold.likely:
            self.output.say(f"{counted(untold.likely, 'finding')} likely, not certain (--confidence likely tells them)")
        for code, count in untold.withheld:
            self.output.say(f"{counted(count, 'finding')} of {code} withheld (--extend-select {code} tells them)")

    def _reported(
        self, results: Sequence[FileResult], targets: Sequence[Target], changed: Changed | None = None
    ) -> list[FileResult]:
        """The results without the findings that aren't asked for: those that a change doesn't bring, and the old ones."""
        from devlint.batch import Plan

        # Both are told from all findings: each counts how many of a kind there were.
        kept = {id(finding) for result in results for finding in result.findings}
        if changed is not None:
            kept &= changed.brought(results, targets, lambda before: self._run_plan(before, Plan(), None))
        kept -= {id(finding) for finding in self._old(results, {t.display: (t.path, t.settings) for t in targets})}
        reported = [replace(r, findings=tuple(f for f in r.findings if id(f) in kept)) for r in results]
        return reported if self.options.add_noqa is None else self._admitted(reported, targets, self.options.add_noqa)

    def _admitted(self, results: Sequence[FileResult], targets: Sequence[Target], reason: str) -> list[FileResult]:
        """The results without the findings that got a `# noqa` comment."""
        from devlint.adoption.noqa import with_all_noqa
        from devlint.batch import Worker, unified_diff
        from devlint.disk import FileError
        from devlint.reports import counted

        worker = Worker(self.asked.plan, self.registry)
        by_display = {target.display: target for target in targets}
        left, comments, files = [], 0, 0
        for result in results:
            target = by_display[result.display]
            if result.source is None or not result.findings:
                left.append(result)
                continue
            linter = worker.linter(target.settings)
            changed, admitted = with_all_noqa(result.source, result.findings, reason, linter)
            diff = unified_diff(result.source, changed) if admitted and self.options.diff else ""
            if admitted:
                try:
                    if not diff:
                        worker.put(target, result.source, changed)
                except FileError as error:
                    left.append(worker.failed(result.display, str(error)))
                    continue
                comments += len(admitted)
                files += 1
            ids = {id(finding) for finding in admitted}
            rest = tuple(f for f in result.findings if id(f) not in ids)
            left.append(replace(result, findings=rest, source=changed, diff=diff))
        done = "Would add" if self.options.diff else "Added"
        self.told.append(f"{done}: {counted(comments, 'code')} in `# noqa` comments, in {counted(files, 'file')}")
        return left

    def _old(self, results: Sequence[FileResult], files: dict[str, tuple[Path, Settings]]) -> list[Finding]:
        """The findings that stand in a baseline; what there is to say of it goes to `self.told`."""
        if self.options.no_baseline or (self.options.isolated and self.options.baseline is None):
            return []
        given = self.options.baseline
        if given is not None and not given.exists() and not self.options.update_baseline:
            raise Failure(f"{given}: no such baseline; `devlint baseline --baseline {given}` writes it")
        kept = {given or settings.baseline_file for _, settings in files.values()}
        if not any(os.path.lexists(file) for file in kept):
            # Most have none, and to load what reads them takes a tenth of a small file's time.
            return []
        from devlint.adoption.baseline import BaselineError

        try:
            baselines = self.baselines(results, files)
            whole = self.options.confidence is None
            if self.options.update_baseline:
                for baseline in baselines.by_file.values():
                    if baseline.file.exists():
                        self.output.say(f"{baseline.file}: {len(baseline.gone)} old findings dropped")
                        baseline.shrunk().write()
                whole = False
            self.told = baselines.told(whole=whole)
            return baselines.old
        except BaselineError as error:
            raise Failure(str(error)) from None

    def baselines(self, results: Sequence[FileResult], files: dict[str, tuple[Path, Settings]]) -> Baselines:
        """The baselines of the linted files, with what was found in them; raises BaselineError."""
        from devlint.adoption.baseline import Baselines

        given = self.options.baseline

        def of(display: str) -> tuple[Path, Path, frozenset[str]] | None:
            if display not in files:
                return None
            path, settings = files[display]
            return (
                path,
                given.absolute() if given else settings.baseline_file,
                settings.codes_for(path, self.registry),
            )

        baselines = Baselines(of)
        baselines.look_at(results)
        return baselines

    def targets(self) -> list[Target]:
        """The files to lint, in the order of the report; paths that aren't there are reported and counted."""
        from devlint.files import Missing, discover

        paths = [Path(path) for path in self._paths]
        found: list[Target | Missing] = list(
            discover(paths, self.asked.settings_for, force_exclude=self.options.force_exclude)
        )
        for item in found:
            if isinstance(item, Missing):
                self.failed = True
                self.output.warn("error", str(item))
        targets = [item for item in found if not isinstance(item, Missing)]
        if not targets and not self.failed:
            self.output.warn("warning", f"no Python files found under {', '.join(self._paths)}")
        if targets and not any(t.settings.codes_for(t.path, self.registry) - ALWAYS_REPORTED for t in targets):
            self.output.warn("warning", "no rule is on for any of the files; see `devlint --show-settings`")
        targets = sorted(targets, key=lambda target: target.display)
        if self.options.shard is not None:
            from devlint.shards import shard

            targets = shard(targets, *self.options.shard)
        return targets

    def _run_stdin(self) -> int:
        """Lints the standard input; with --fix the fixed text goes to the standard output, the report beside it."""
        from devlint.batch import Worker
        from devlint.disk import FileError, TooLargeFileError
        from devlint.files import Target, is_excluded, source_from_bytes
        from devlint.settings import SettingsError

        if len(self.options.paths) > 1:
            raise click.UsageError("`-` can't be used together with other paths.")
        name = self.options.stdin_filename
        path = Path(os.path.abspath(name)) if name else None  # noqa: PTH100 - resolving would follow links
        try:
            settings = self.asked.settings_for(path.parent if path else Path.cwd())
        except SettingsError as error:
            raise Failure(str(error)) from None
        if sys.stdin is None:
            raise Failure("the standard input, which `-` reads, is closed")
        raw = sys.stdin.buffer.read()
        data = raw
        results: list[FileResult] = []
        if not (path and self.options.force_exclude and is_excluded(path, settings)):
            worker = Worker(self.asked.plan, self.registry)
            display = Path(name).as_posix() if name else "-"
            try:
                source = source_from_bytes(raw, path, display, settings.max_file_size)
                source.is_named = True
                result, fixed = worker.run_source(source, settings)
                data = fixed.to_bytes()
            except TooLargeFileError as error:
                result = worker.passed_over(display, str(error))
            except FileError as error:
                result = worker.failed(display, str(error))
            results = self._reported([result], [Target(path, display, settings)] if path else [])
        if self.options.fix and not self.options.diff:
            emit(data)
            return self._finish(results, to_stderr=True)
        return self._finish(results)

    def _finish(self, results: Sequence[FileResult], *, to_stderr: bool = False) -> int:
        """Writes the report; returns the exit code."""
        options = self.options
        findings = [finding for result in results for finding in result.findings]
        for line in (line for result in results for line in result.warnings):
            self.output.warn("warning", line)
        failed = self.failed or any(finding.code == "DEV000" for finding in findings)
        unexplained = ""
        if self.asked.evidence is not None:
            results, unexplained = self._beside_evidence(results, self.asked.evidence)
        if options.diff:
            changed = self.output.show_diff(results, failed, self.told if options.add_noqa is not None else ())
            return FAILED if failed else FOUND if changed and not options.exit_zero else CLEAN
        self._report(results, unexplained, failed=failed, to_stderr=to_stderr)
        fatal = [finding for finding in findings if self.asked.fail_on == "warning" or finding.severity == "error"]
        return FAILED if failed else FOUND if fatal and not options.exit_zero else CLEAN

    def _report(self, results: Sequence[FileResult], unexplained: str, *, failed: bool, to_stderr: bool) -> None:
        from devlint.reports import Run

        options = self.options
        run = Run(
            results,
            {rule.code: rule for rule in self.registry.outlines()},
            safety=options.safety,
            quiet=options.quiet,
            failed=failed,
            also=unexplained,
            only_new=bool(self.told) or options.since is not None or options.staged,
            shard=options.shard,
        )
        told = (*self.told, *self._left_out({finding.code for finding, _ in run.findings}, results))
        self.output.report(run, self.asked.forms, told=told, to_stderr=to_stderr)

    def _left_out(self, found: Set[str], results: Iterable[FileResult]) -> list[str]:
        """What rules that the command line names don't tell: whoever names one expects all.

        Of those named by the beginnings of their codes, what is withheld; and what is in preview of those that found nothing.
        """
        named = tuple({*(self.asked.overrides.select or ()), *self.asked.overrides.extend_select} - {"ALL", "DEV"})
        asked = {rule.code: rule for rule in self.registry.outlines() if specificity(named, rule) >= 0}
        from devlint.reports import counted

        untold = reduce(or_, (result.untold for result in results), Untold())
        told = [
            f"{counted(count, 'finding')} of {code} withheld, which only its whole code has told (--extend-select {code})"
            for code, count in untold.withheld
            if code in asked
        ]
        previewed = [c for c, rule in asked.items() if rule.senses and not rule.hears_only() and c not in found]
        if previewed and not self.asked.here.previews:
            codes = " and ".join(filter(None, (", ".join(previewed[:-1]), previewed[-1])))
            told.append(f"More of {codes} is in preview: waits in code that is hot by its role (--preview)")
        return told

    def _beside_evidence(self, results: Sequence[FileResult], evidence: Evidence) -> tuple[Sequence[FileResult], str]:
        """The results in the order of what they were seen to cost, and what was seen without a finding."""
        from devlint.evidence import describe
        from devlint.reports import FileResult

        rules = {rule.code: rule.seen_as for rule in self.registry.outlines()}
        asked = [(Path(f.path).resolve(), f, rules.get(f.code, ())) for result in results for f in result.findings]
        findings, left = evidence.beside(asked)
        sources = {result.display: result for result in results}
        # One result for each finding: the order is that of the cost, across the files.
        ordered = [FileResult(f.path, (f,), sources[f.path].source) for f in findings]
        ordered += [replace(r, findings=(), source=None) for r in results if r.fixed or r.diff]
        return ordered, describe(left)
