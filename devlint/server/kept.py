"""What is kept between keystrokes: the trees of imported files, the project around a file, and its last inspection."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.engine import Linter
from devlint.files import Source
from devlint.findings import Finding
from devlint.inspection import Inspection
from devlint.rule import Registry
from devlint.screen import Screen
from devlint.settings import Settings
from devlint.signatures.reading.reader import Reader
from devlint.source.looks import Looks
from devlint.source.project import Project, parse
from devlint.textmap import split_lines

if TYPE_CHECKING:
    from devlint.placement.model import PlacementModel

# A file's text and tree, with the bytes that they are of.
Trees = dict[Path, tuple[bytes, str, ast.Module]]
# How a file on the disk is known to be the same: when it was changed last, and its size.
_Stamp = tuple[int, int] | None


class StaleError(BaseException):
    """What is worked out isn't wanted any more: there is another text. No rule may take it for an error of its own."""


class KeptProject(Project):
    """A project that parses each text once, however often it is made anew."""

    def __init__(self, roots: tuple[Path, ...], looks: Looks, trees: Trees) -> None:
        super().__init__(roots, looks)
        self._trees = trees
        self.stamps: dict[Path, _Stamp] = {}

    def parsed(self, path: Path, raw: bytes) -> tuple[str, ast.Module]:
        self.stamps[path] = stamp_of(path)
        known = self._trees.get(path)
        if known is None or known[0] != raw:
            known = self._trees[path] = (raw, *super().parsed(path, raw))
        return known[1], known[2]

    def changed_on_disk(self) -> bool:
        """Whether a file that was read isn't as it was."""
        return any(stamp_of(path) != stamp for path, stamp in self.stamps.items())


class KeptLinter(Linter):
    """A linter for one text after the other of the same few files.

    What was read of the files around them holds until one of those changes. The inspection of each file's last text is
    kept, and answers what the editor asks about it.
    """

    # Another text may stand in its place with the next key.
    shares = False

    def __init__(self, settings: Settings, registry: Registry, trees: Trees) -> None:
        super().__init__(settings, registry)
        self._trees = trees
        self._models: dict[Path, PlacementModel] = {}
        self._last_screens: dict[Path, Screen] = {}
        # Files that others may see changed: all that is known of them is in doubt, or their own text alone.
        # Says whether what is worked out isn't wanted any more.
        self.is_stale: Callable[[], bool] = lambda: False
        self._saved: set[Path] = set()
        self._edited: set[Path] = set()

    def new_project(self) -> Project:
        return KeptProject(self.settings.src, self.looks, self._trees)

    def changed(self, path: Path, *, saved: bool) -> None:
        """Notes that a file was edited, or that the one on the disk was written, made or taken away."""
        (self._saved if saved else self._edited).add(path)

    @property
    def read(self) -> frozenset[Path]:
        """The files that were read for others' sake."""
        return self._project.loaded if self._project is not None else frozenset()

    def every_finding(self, source: Source, within: range | None = None) -> list[Finding]:
        self.renew(source.path, itself=within is None)
        return super().every_finding(source, within)

    def screen_of(self, text: str, path: Path, within: range | None) -> Screen:
        """The screen of a text; in a first look, that of the last one with the lines that are looked at searched again."""
        before = self._last_screens.get(path) if within is not None else None
        raw = text.encode("utf-8", "surrogatepass")
        # What a rule looks for may begin on the line before.
        lines = split_lines(text)[max(within.start - 2, 0) : within.stop] if within is not None and before else []
        screen = self._last_screens[path] = Screen(raw, before, "".join(lines).encode("utf-8", "surrogatepass"))
        return screen

    def pause(self) -> None:
        """Ends what isn't wanted any more."""
        if self.is_stale():
            raise StaleError

    def leave(self, inspection: Inspection) -> None:
        """Keeps the model of the text in the place of the last one's; that of a first look answers nothing else."""
        inspection.release()
        if inspection.within is None:
            self._keep(inspection.model.source.file, inspection.model)
        else:
            self._let_go(inspection.model)

    def model_of(self, source: Source) -> PlacementModel:
        """The model of a source, the one that it was linted with where that is kept; raises what `parse` raises."""
        from devlint.placement.model import build

        path = source.path or self.settings.root / source.display
        self.renew(source.path)
        known = self._models.get(path)
        if known is None or known.source.text != source.text:
            known = build(path, source.text, parse(source.text), self.project(), self.settings.hints)
            self._keep(path, known)
        return known

    def _keep(self, path: Path, model: PlacementModel) -> None:
        before = self._models.pop(path, None)
        if before is not None and before is not model:
            self._let_go(before)
        self._models[path] = model

    def _let_go(self, model: PlacementModel) -> None:
        """Forgets a text that has another one in its place, or will have."""
        reader = self.project().memory.get("reader")
        if isinstance(reader, Reader):
            reader.forget(model.source)
        model.close()

    def renew(self, asking: Path | None, *, itself: bool = True) -> None:
        """Starts anew where something around the file that is asked about has changed.

        `itself` counts what others saw of that file as well; without it, they have seen it as it was, and the disk is
        left alone.
        """
        project = self._project
        if not isinstance(project, KeptProject):
            return
        others = {path for path in self._saved if path != asking}
        changed = {path for path in self._saved | self._edited if itself or path != asking}
        seen = not project.loaded.isdisjoint({*changed, *(Path(os.path.realpath(path)) for path in changed)})
        if others or seen or (itself and project.changed_on_disk()):
            self.forget()
        elif asking is not None and itself:
            self._edited.discard(asking)

    def forget(self) -> None:
        """Lets go of everything but the trees."""
        for model in self._models.values():
            model.close()
        self._models.clear()
        self._screens.clear()
        self._last_screens.clear()
        self._saved.clear()
        self._edited.clear()
        self.looks = Looks()
        self._project = None


def stamp_of(path: Path) -> _Stamp:
    """What tells a file on the disk from the one that was there before; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
