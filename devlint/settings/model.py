"""The settings of the files under one root."""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from devlint.disk import MAX_BYTES
from devlint.findings import Confidence, OutputFormat, Safety, Severity
from devlint.hints import Hints
from devlint.patterns import verdict
from devlint.portable import Portable
from devlint.records import record
from devlint.settings.selection import NO_CHOICE, Selection, specificity

if TYPE_CHECKING:
    from devlint.rule import Registry, Rule

BASELINE = ".devlint-baseline.json"
CACHE = ".devlint_cache"


@record(frozen=True)
class Settings:
    """All settings of the files under one root. Paths are absolute."""

    root: Path
    # The file that they stand in; None for the defaults.
    origin: Path | None = None
    # What the files that this one extends choose, the farthest first.
    inherited: tuple[Selection, ...] = ()
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    severity: tuple[tuple[str, Severity], ...] = ()
    # The least severity that makes a run fail.
    fail_on: Severity = "warning"
    fixable: tuple[str, ...] | None = None
    unfixable: tuple[str, ...] = ()
    # Rules whose fixes are all safe, or all unsafe, whatever they say of themselves.
    extend_safe_fixes: tuple[str, ...] = ()
    extend_unsafe_fixes: tuple[str, ...] = ()
    # Where the old findings are kept; None for the usual place.
    baseline: Path | None = None
    exclude: tuple[str, ...] = ()
    # Folders that absolute imports start from.
    src: tuple[Path, ...] = ()
    # The least confidence that is reported.
    confidence: Confidence = "likely"
    output_format: OutputFormat = "text"
    # fnmatch patterns, added to the built-in hints: names of loaders, and of functions that run once per batch.
    loader_names: tuple[str, ...] = ()
    hot_functions: tuple[str, ...] = ()
    # Contexts and decorators of the project's own in which waiting is meant.
    allow_sync: tuple[str, ...] = ()
    # (qualified name, the known name of what it behaves like)
    behaves_like: tuple[tuple[str, str], ...] = ()
    # The oldest release of torch that the code is meant for, as (major, minor); None where it isn't said.
    torch_version: tuple[int, int] | None = None
    # (the text of a comment, the codes that it switches off on its line)
    extra_suppressions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # What code that is meant for any accelerator may say of CUDA all the same.
    portable: Portable = field(default_factory=Portable)
    # Whether what is new and not yet judged on enough code is told as well.
    preview: bool = False
    # Whether the blocks of Python in Markdown and reStructuredText files are linted too.
    markdown: bool = False
    # The newest Python that the code is written for, as (major, minor); None where it isn't said.
    target_version: tuple[int, int] | None = None
    # Where results are kept from run to run; None for the usual place.
    cache_dir: Path | None = None
    # Larger files are passed over, in bytes.
    max_file_size: int = MAX_BYTES
    # Whether comments switch nothing off.
    ignore_noqa: bool = False
    # What the command line selects on top of the above.
    overrides: Selection = NO_CHOICE

    def selects(self, rule: type[Rule], registry: Registry) -> bool:
        """Whether `rule` of `registry` runs, on files that no per-file ignore speaks of."""
        # What tells of nothing but waits in code that is hot by its role is a preview as a whole.
        chosen = rule.default or (self.preview and bool(rule.senses) and rule.hears_only())
        for layer in (*self.inherited, Selection(self.select, self.ignore, self.extend_select), self.overrides):
            chosen = layer.decide(rule, registry, chosen)
        return chosen

    def codes_for(self, path: Path, registry: Registry) -> frozenset[str]:
        """The codes that are reported for the file at `path`."""
        codes = _selected(self, registry)
        for pattern, selectors in self.per_file_ignores:
            if verdict((pattern,), self.root, path):
                codes -= {rule.code for rule in registry.outlines() if specificity(selectors, rule) >= 0}
        return codes

    def severity_of(self, rule: type[Rule]) -> Severity:
        """The rule's own severity, or what the most specific selector of `severity` says."""
        said = max(self.severity, key=lambda item: specificity((item[0],), rule), default=None)
        return said[1] if said is not None and specificity((said[0],), rule) >= 0 else rule.severity

    def fixes(self, rule: type[Rule]) -> bool:
        """Whether findings of `rule` may be fixed: `fixable` speaks of it, and more specifically than `unfixable`."""
        allowed = 0 if self.fixable is None else specificity(self.fixable, rule)
        denied = specificity(self.unfixable, rule)
        return allowed > denied

    def safety_of(self, rule: type[Rule]) -> Safety | None:
        """What the fixes of `rule` are by choice, the more specific one; None where nobody chose."""
        safe, unsafe = specificity(self.extend_safe_fixes, rule), specificity(self.extend_unsafe_fixes, rule)
        return None if max(safe, unsafe) < 0 else "safe" if safe > unsafe else "unsafe"

    @property
    def baseline_file(self) -> Path:
        """The file of the findings that were there before, which need not be there."""
        return self.baseline or self.root / BASELINE

    @property
    def cache_folder(self) -> Path:
        """The folder that results are kept in, which need not be there."""
        return self.cache_dir or self.root / CACHE

    @property
    def previews(self) -> bool:
        """Whether findings in preview are told: they are asked for, or all rules are."""
        return self.preview or "ALL" in self._named

    def names(self, rule: type[Rule]) -> bool:
        """Whether `rule` is selected by its code or its name, or all rules are: what is minor is told as well."""
        return not {"ALL", rule.code, rule.name}.isdisjoint(self._named)

    @property
    def _named(self) -> tuple[str, ...]:
        """What is selected, in any layer."""
        layers = (*self.inherited, Selection(self.select, self.ignore, self.extend_select), self.overrides)
        return tuple(name for layer in layers for name in (*(layer.select or ()), *layer.extend_select))

    @property
    def hints(self) -> Hints:
        """What they add to the model's knowledge."""
        return Hints(self.loader_names, self.hot_functions, self.allow_sync, dict(self.behaves_like))

    def excludes(self, path: str | Path, *, folder: bool = False) -> bool:
        """Whether the `exclude` patterns speak of `path` itself (not of a folder above it)."""
        return bool(verdict(self.exclude, self.root, path, folder=folder))


@lru_cache(maxsize=64)
def _selected(settings: Settings, registry: Registry) -> frozenset[str]:
    return frozenset(rule.code for rule in registry.outlines() if settings.selects(rule, registry))
