"""The desk: lints what the editor holds, under the settings that hold for it, and answers for it."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.disk import FileError, TooLargeFileError
from devlint.files import Source, is_excluded
from devlint.findings import Finding, Span
from devlint.rule import Registry
from devlint.server.documents import Snapshot
from devlint.server.focus import change_between, lines_kept, standing
from devlint.server.kept import KeptLinter, Trees, stamp_of
from devlint.server.options import Options
from devlint.settings import FILE_NAMES, Settings, SettingsError, forget_files, load_settings

if TYPE_CHECKING:
    from devlint.placement.model import PlacementModel
    from devlint.source.project import Project

# Where other people's code is installed: nobody mends it in an editor.
_INSTALLED = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True)
class Outcome:
    """What linting a document came to."""

    snapshot: Snapshot
    findings: tuple[Finding, ...] = ()
    # Whether all of it was looked at, and not what a change touches alone.
    is_whole: bool = True
    # The files that it may hang on.
    read: frozenset[Path] = frozenset()


@dataclass(frozen=True)
class Sound:
    """The last text of a document that was valid Python, all that was found in it, and with what around it."""

    source: Source
    findings: list[Finding]
    project: Project


@dataclass
class Desk:
    """All that is kept between two questions of the editor. It does one thing at a time."""

    registry: Registry
    # The options of a file, or of what stands in none.
    options_of: Callable[[Path | None], Options]
    # What the user is told, once each.
    tell: Callable[[str], None]
    # The folder of what stands in no file.
    folder: Path = field(default_factory=Path.cwd)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    _sound: dict[str, Sound] = field(default_factory=dict)
    _trees: Trees = field(default_factory=dict)
    _linters: dict[Settings, KeptLinter] = field(default_factory=dict)
    _settings: dict[tuple[Path, Options], tuple[Settings, object]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    # -- settings and linters ----------------------------------------------------------------------------------------

    def settings_for(self, path: Path | None) -> Settings:
        """The settings for a file. Where they can't be used, which is told, those that held before do, or else devlint's own."""
        folder, options = path.parent if path is not None else self.folder, self.options_of(path)
        known, stamps = self._settings.get((folder, options), (None, None))
        now = self._stamps(folder, options)
        if known is not None and stamps == now:
            return known
        forget_files()
        try:
            config = self._config(folder, options.configuration) if options.configuration else None
            made = options.laid_over(load_settings(folder, config=config, isolated=False, registry=self.registry))
        except SettingsError as error:
            made = known or self._without(folder, options)
            self.say(f"{error}; until that is mended, the settings before it hold")
        else:
            self._told.clear()
        self._settings[folder, options] = made, now
        return made

    def _config(self, folder: Path, named: str) -> Path:
        """The settings file that the editor names for the files of a folder: from there, or one above; raises SettingsError."""
        found = next(
            (file for above in (folder, *folder.parents, self.folder) if (file := above / named).exists()), None
        )
        if found is None:
            raise SettingsError(f"devlint.configuration: there is no '{named}' in {folder}, nor above it")
        return found

    def _without(self, folder: Path, options: Options) -> Settings:
        """The settings that hold for a folder where what was told of them can't be used."""
        others = [made for (known, _), (made, _) in self._settings.items() if known == folder]
        bare = load_settings(folder, config=None, isolated=True, registry=self.registry)
        return options.laid_over(others[-1] if others else bare)

    def _stamps(self, folder: Path, options: Options) -> object:
        """What tells whether a settings file around a folder was changed, made or taken away."""
        files = [above / name for above in (folder, *folder.parents) for name in FILE_NAMES]
        if options.configuration:
            files += [above / options.configuration for above in (folder, *folder.parents, self.folder)]
        known, _ = self._settings.get((folder, options), (None, None))
        if known is not None and known.origin is not None:
            files += self._extended(known.origin)
        return tuple((str(file), stamp) for file in files if (stamp := stamp_of(file)) is not None)

    def _extended(self, origin: Path) -> list[Path]:
        """The files that a settings file extends."""
        from devlint.settings import layers_for

        try:
            layers = layers_for(origin.parent, origin, False, (), self.registry).layers
        except SettingsError:
            return []
        return [Path(layer.origin) for layer in layers]

    def say(self, text: str) -> None:
        """Tells the user something, unless that was the last that was told of it."""
        if text not in self._told:
            self._told.add(text)
            self.tell(text)

    def linter(self, settings: Settings) -> KeptLinter:
        """The linter for files under some settings."""
        if settings not in self._linters:
            self._linters[settings] = KeptLinter(settings, self.registry, self._trees)
        return self._linters[settings]

    def changed(self, path: Path, *, saved: bool) -> None:
        """Notes that a file was edited, or that the one on the disk was written, made or taken away."""
        for linter in self._linters.values():
            linter.changed(path, saved=saved)

    def hanging_on(self, path: Path) -> list[str]:
        """The documents in which something else may be found once a file is another one."""
        real = Path(os.path.realpath(path))
        return [key for key, outcome in self.outcomes.items() if not outcome.read.isdisjoint((path, real))]

    def close(self, key: str) -> None:
        """Lets go of a document."""
        self.outcomes.pop(key, None)
        self._sound.pop(key, None)

    def sweep(self, *, is_whole: bool) -> None:
        """Lets go of what a first look left behind. After one at all of a file that takes longer than a key: it waits."""
        if is_whole:
            gc.freeze()
        else:
            gc.collect(0)

    def tidy(self) -> None:
        """Lets go of linters whose settings hold no more, and of what only the collector finds."""
        held = {settings for settings, _ in self._settings.values()}
        self._linters = {settings: linter for settings, linter in self._linters.items() if settings in held}
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    # -- linting -----------------------------------------------------------------------------------------------------

    def lint(self, key: str, snapshot: Snapshot, is_stale: Callable[[], bool], *, first: bool = False) -> Outcome:
        """Lints a document; whatever goes wrong becomes a finding, or is told.

        `first` takes a first look where little has changed: at the function around the change. Raises StaleError.
        """
        is_whole = True
        try:
            findings, is_whole = self._findings(key, snapshot, is_stale, first)
        except TooLargeFileError as error:
            findings = []
            self.say(f"{snapshot.display}: {error}")
        except FileError as error:
            findings = [self._failed(snapshot, str(error))]
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            findings = [self._failed(snapshot, f"internal error, please report it: {said}")]
        read = self.linter_of(snapshot).read
        outcome = self.outcomes[key] = Outcome(snapshot, tuple(findings), is_whole, read)
        return outcome

    def _findings(
        self, key: str, snapshot: Snapshot, is_stale: Callable[[], bool], first: bool
    ) -> tuple[list[Finding], bool]:
        """What is found in a document, and whether all of it was looked at."""
        settings = self.settings_for(snapshot.path)
        if not self.options_of(snapshot.path).enable or self.is_left_out(snapshot, settings):
            self._sound.pop(key, None)
            return [], True
        source, linter = snapshot.source, self.linter(settings)
        linter.renew(snapshot.path, itself=not first)
        sound = self._sound.get(key)
        change = None
        # Where settings, or other files, have changed, what was found may have as well.
        if sound is not None and sound.project is linter.project():
            change = change_between(sound.source.lines, source.lines)
        within = change.within if first and change is not None else None
        linter.is_stale = is_stale
        try:
            found = linter.check(source, within)
        finally:
            linter.is_stale = lambda: False
        is_sound = linter.is_python
        if not (is_sound or self.options_of(snapshot.path).show_syntax_errors):
            # Another server of the editor tells of them.
            found = [f for f in found if f.code != "DEV000"]
        moved: Iterable[Finding] = ()
        if sound is not None and not is_sound:
            # What isn't typed over stands, until it can be looked at again.
            enabled = settings.codes_for(snapshot.path or self.folder, self.registry)
            earlier = [f for f in sound.findings if f.code in enabled]
            moved = standing(sound.source.lines, source.lines, earlier, source.display)
        elif sound is not None and change is not None and within is not None:
            # What was found elsewhere stands, until all is looked at again.
            moved = change.moved(sound.findings, source.display)
        known = {(f.code, f.span.line) for f in found}
        found = sorted([*(f for f in moved if (f.code, f.span.line) not in known), *found], key=lambda f: f.sort_key)
        if is_sound:
            self._sound[key] = Sound(source, found, linter.project())
        return self._new(snapshot, source, settings, found), within is None or not is_sound

    def is_left_out(self, snapshot: Snapshot, settings: Settings) -> bool:
        """Whether a document isn't linted: the settings exclude it, or it is installed."""
        path = snapshot.path
        return path is not None and (not _INSTALLED.isdisjoint(path.parts) or is_excluded(path, settings))

    def _new(self, snapshot: Snapshot, source: Source, settings: Settings, found: list[Finding]) -> list[Finding]:
        """The findings that don't stand in the project's baseline."""
        path, file = snapshot.path, settings.baseline_file
        if path is None or not found or not os.path.exists(file):  # noqa: PTH110 - asked at each key
            return found
        from devlint.adoption.baseline import BaselineError, without_old
        from devlint.reports import FileResult

        result = FileResult(source.display, tuple(found), source)
        try:
            return [*without_old(path, result, file, settings.codes_for(path, self.registry)).findings]
        except BaselineError as error:
            self.say(str(error))
            return found

    def _failed(self, snapshot: Snapshot, reason: str) -> Finding:
        return Finding("DEV000", "unreadable-file", reason, snapshot.display, Span(1, 1, 1, 1))

    # -- questions ---------------------------------------------------------------------------------------------------

    def model(self, snapshot: Snapshot) -> PlacementModel | None:
        """The model of a document; None where it isn't linted, or isn't Python."""
        settings = self.settings_for(snapshot.path)
        if self.is_left_out(snapshot, settings):
            return None
        try:
            return self.linter(settings).model_of(snapshot.source)
        except (FileError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def last_model(self, key: str, snapshot: Snapshot) -> tuple[PlacementModel, dict[int, int]] | None:
        """The model of the last text of a document that was Python, and its lines that the text of now has as well."""
        sound = self._sound.get(key)
        if sound is None:
            return None
        kept = lines_kept(sound.source.lines, snapshot.source.lines)
        return self.linter_of(snapshot).model_of(sound.source), kept

    def linter_of(self, snapshot: Snapshot) -> KeptLinter:
        """The linter of a document."""
        return self.linter(self.settings_for(snapshot.path))
