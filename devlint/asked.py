"""What a run of `devlint check` is asked for: its options, and the settings of the folders that it meets under them.

Modules are imported where they are used, so that a clean file stays quick.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.failure import Failure
from devlint.options import ReportForm, check_together
from devlint.output import Output

if TYPE_CHECKING:
    from devlint.batch import Plan
    from devlint.evidence import Evidence
    from devlint.options import Options
    from devlint.settings import Settings


class Asked:
    """The options of a run, checked, and what comes of them; raises Failure where they can't be used."""

    def __init__(self, options: Options) -> None:
        from devlint.patterns import is_valid
        from devlint.rule import load_registry
        from devlint.settings import Selection, SettingsError, check_selectors, load_settings, split_config

        check_together(options)
        self.options = options
        self.output = Output(options)
        self.registry = load_registry()
        for fault in self.registry.left_out:
            self.output.warn("error", f"left out: {fault}")
        self._settings: dict[Path, Settings] = {}
        self._warned: set[str] = set()
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
                # Wherever the run goes.
                self.config = self.config and self.config.absolute()
        except SettingsError as error:
            raise Failure(str(error)) from None
        for pattern in options.exclude:
            if not is_valid((pattern,)):
                raise Failure(f"--exclude: '{pattern}' is no path pattern; write it as in a .gitignore file")
        self.evidence = self._read_evidence()
        self.overrides = Selection(select or None, ignore, extend_select)
        self.here = self._settings_here()
        self.forms = options.output_format or (ReportForm(self.here.output_format),)
        self.fail_on = options.fail_on or self.here.fail_on

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
    def cache_folder(self) -> Path:
        """The folder that results are kept in, which need not be there."""
        return self.options.cache_dir.absolute() if self.options.cache_dir is not None else self.here.cache_folder

    @property
    def plan(self) -> Plan:
        from devlint.batch import Plan

        options = self.options
        named = tuple(os.path.realpath(path) for path in options.paths or (".",) if path != "-")
        # With --add-noqa, --diff is of the comments.
        shows_fixes = options.diff and options.add_noqa is None
        return Plan(options.fix, options.safety, shows_fixes, named, options.follow_links)

    def settings_for(self, folder: Path) -> Settings:
        """The settings of a folder with the command line laid over them; raises SettingsError."""
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
                markdown=options.markdown or found.markdown,
                ignore_noqa=options.ignore_noqa,
                exclude=(*found.exclude, *(_from_root(pattern, found.root) for pattern in options.exclude)),
            )
            # Several folders may have the same settings.
            for missing in set(_missing_roots(found)) - self._warned:
                self._warned.add(missing)
                self.output.warn("warning", missing)
            self.output.say(f"settings for {folder}: {found.origin or 'the defaults'}")
        return self._settings[folder]

    def forget(self) -> None:
        """Has the settings of all folders looked for again."""
        self._settings.clear()


def _missing_roots(settings: Settings) -> Iterator[str]:
    """What to say of folders that `src` names and that aren't there."""
    if settings.src == (settings.root, settings.root / "src"):
        # The default names them as they may be.
        return
    for root in settings.src:
        if not root.is_dir():
            shown = root.relative_to(settings.root) if root.is_relative_to(settings.root) else root
            yield f"{settings.origin or '--config'}: src: there is no folder '{shown.as_posix()}' to import from"


def _from_root(pattern: str, root: Path) -> str:
    """A pattern that is meant from the current folder, as one meant from a root above it."""
    here = os.path.relpath(Path.cwd(), root).replace(os.sep, "/")
    if here == "." or here.startswith("../") or "/" not in pattern.rstrip("/"):
        return pattern
    return f"/{here}/{pattern.lstrip('/')}"
