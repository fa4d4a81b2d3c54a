"""What the linter reports: findings with their notes, and the edits that mend them.

Lines and columns count from 1, and columns count characters (not bytes). A span's end is exclusive: the column
after its last character.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import Literal, NamedTuple, get_args

from devlint.records import record

Confidence = Literal["certain", "likely"]
# How far a fix may go unread, the safest first. `display`: it is shown, in reports and editors, and applied where a person
# picks it; on unseen code too many of its kind had to be written otherwise.
Safety = Literal["safe", "unsafe", "display"]
# `error`: the program fails, or computes something else than it says; `warning`: it waits, costs more than it need, or
# runs on some machines only.
Severity = Literal["error", "warning"]
# The forms of a report.
OutputFormat = Literal[
    "text", "concise", "json", "sarif", "github", "gitlab", "junit", "rdjson", "pylint", "html"
]  # fmt: skip
# Those that people read at a terminal: colours, a summary, and what else there is to say.
FOR_TERMINALS: tuple[OutputFormat, ...] = ("text", "concise")
# What begins the message of a DEV000 that is devlint's own fault.
INTERNAL_ERROR = "internal error"


@record(frozen=True, slots=True, order=True)
class Span:
    """A stretch of source text."""

    line: int
    column: int
    end_line: int
    end_column: int


@record(frozen=True, slots=True, order=True)
class Note:
    """A secondary place of a finding, such as one step of a trail."""

    message: str
    path: str
    line: int
    column: int


@record(frozen=True, slots=True, order=True)
class Edit:
    """One replacement of text; an empty span inserts."""

    span: Span
    text: str


@record(frozen=True, slots=True)
class Fix:
    """A proposed change.

    `safe` keeps the program's meaning but for the bug itself; `unsafe` may change more; `display` is a suggestion, which
    only a person applies.
    """

    title: str
    safety: Safety
    edits: tuple[Edit, ...]
    # Modules that the edited text needs, as the statement to add where isort would, say "import torch".
    imports: tuple[str, ...] = ()

    def goes_with(self, safety: Safety) -> bool:
        """Whether it is applied where all up to `safety` are."""
        levels = get_args(Safety)
        return levels.index(self.safety) <= levels.index(safety)

    @property
    def mark(self) -> str:
        """What is said behind its title where it isn't safe."""
        return _MARKS[self.safety]


_MARKS: dict[Safety, str] = {"safe": "", "unsafe": " (unsafe)", "display": " (a suggestion)"}


@record(frozen=True, slots=True)
class Seen:
    """What the runtime companion saw of a finding: how often, and how many bytes were copied."""

    count: int
    bytes: int = 0
    # The program met an error there.
    failed: bool = False

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count:,} times"
        return f"seen {times}, {_size(self.bytes)}" if self.bytes else f"seen {times}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


@record(frozen=True, slots=True)
class Cost:
    """What code with a finding costs whenever it is run, told without running it.

    `error`: the program fails, or does something else than it says; `slow`: it takes longer, or more memory; `other`:
    anything else. `loops` is how many loops of a hot loop, itself included, run the code: 1 is once a step, 0 not hot.
    """

    effect: Literal["error", "slow", "other"] = "other"
    loops: int = 0


@record(frozen=True, slots=True)
class Finding:
    """A report at a span of one file.

    `path` is the path as the user gave it, with forward slashes.
    """

    code: str
    name: str
    message: str
    path: str
    span: Span
    confidence: Confidence = "certain"
    notes: tuple[Note, ...] = ()
    # What to write instead, in one line, for findings without a fix as well.
    hint: str | None = None
    fix: Fix | None = field(default=None, compare=False)
    # Set where a report of the runtime companion was given.
    seen: Seen | None = None
    cost: Cost = field(default=Cost(), compare=False)
    severity: Severity = "error"

    @property
    def rank(self) -> tuple[int, ...]:
        """What sorts findings by cost: what was seen to happen first, then errors, then what the most loops run."""
        if self.seen is not None:
            return (0, not self.seen.failed, -self.seen.bytes, -self.seen.count)
        return (1, self.severity != "error", -self.cost.loops, self.cost.effect != "slow")

    @property
    def sort_key(self) -> tuple[str, int, int, str]:
        """Reading order: by file, then by place, then by code."""
        return (self.path, self.span.line, self.span.column, self.code)


class Untold(NamedTuple):
    """How much wasn't told of a file, or of several.

    `withheld` has what hardly anybody would act on, by the rule's code; `likely` what is less than certain where that alone
    is wanted; `passed` the files that weren't parsed, since they aren't about torch.
    """

    withheld: tuple[tuple[str, int], ...] = ()
    suppressed: int = 0
    likely: int = 0
    passed: int = 0

    def __or__(self, other: Untold) -> Untold:
        """What both come to."""
        withheld = Counter(dict(self.withheld)) + Counter(dict(other.withheld))
        return Untold(
            tuple(sorted(withheld.items())),
            self.suppressed + other.suppressed,
            self.likely + other.likely,
            self.passed + other.passed,
        )


NOTHING_UNTOLD = Untold()
