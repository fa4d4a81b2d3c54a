"""How a finding is known again after other lines have moved, changed or come: by its file, its code and its line's text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2s
from typing import NamedTuple

from devlint.files import Source
from devlint.findings import Finding
from devlint.settings import ALWAYS_REPORTED

# About the run itself: never old.
NEVER_OLD = ALWAYS_REPORTED
# A line of a table of data needn't be kept whole.
_LONGEST = 200


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """What a finding is known by. `near`, digests of the lines before and after, only tells alike ones apart."""

    path: str
    code: str
    text: str
    near: str = ""

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.path, self.code, self.text

    @property
    def content(self) -> tuple[str, str]:
        """What stays when its file gets another name."""
        return self.code, self.text

    def likeness(self, other: Mark) -> int:
        """How many of the two neighbours are the same."""
        pairs = zip(self.near.split("-"), other.near.split("-"), strict=False)
        return sum(mine == theirs for mine, theirs in pairs if mine)


def mark_of(finding: Finding, source: Source | None, path: str) -> Mark:
    """The mark of a finding in the text that it speaks of; `path` is the name that the file goes by."""
    lines = source.lines if source is not None else []
    line = finding.span.line
    text = _plain(lines[line - 1]) if line <= len(lines) else finding.message
    before = next((t for at in range(min(line - 1, len(lines)) - 1, -1, -1) if (t := _plain(lines[at]))), "")
    after = next((t for at in range(line, len(lines)) if (t := _plain(lines[at]))), "")
    return Mark(path, finding.code, text, f"{_digest(before)}-{_digest(after)}")


def _plain(line: str) -> str:
    """A line without its layout: indenting it doesn't make it another one."""
    return " ".join(line.split())[:_LONGEST]


def _digest(text: str) -> str:
    return blake2s(text.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()


class Sifted(NamedTuple):
    """Marks of now, told apart: which of them are new, and by which old mark the others are known; old ones left over."""

    new: list[Mark]
    known: list[tuple[Mark, Mark]]
    gone: list[Mark]


def sift(now: Sequence[Mark], old: Iterable[Mark], is_gone: Callable[[str], bool]) -> Sifted:
    """Tells new findings from old ones. As many of a kind are old as there were.

    Where there are more of a kind than there were, those with other neighbours are the new ones. What was in a file that
    isn't there any more (`is_gone`) may turn up in another: a file that has got another name.
    """
    new, known, left = _paired(now, old, lambda mark: mark.kind)
    homeless = [mark for mark in left if is_gone(mark.path)]
    new, moved, gone = _paired(new, homeless, lambda mark: mark.content)
    at_home = [mark for mark in left if not is_gone(mark.path)]
    return Sifted(new, known + moved, sorted(at_home + gone))


def _paired(
    now: Iterable[Mark], old: Iterable[Mark], same: Callable[[Mark], Hashable]
) -> tuple[list[Mark], list[tuple[Mark, Mark]], list[Mark]]:
    """(those of now without a partner, pairs, old ones without), the most alike of the same first."""
    waiting: dict[Hashable, list[Mark]] = defaultdict(list)
    for mark in old:
        waiting[same(mark)].append(mark)
    groups: dict[Hashable, list[Mark]] = defaultdict(list)
    for mark in now:
        groups[same(mark)].append(mark)
    new: list[Mark] = []
    pairs: list[tuple[Mark, Mark]] = []
    for key, marks in groups.items():
        olds = waiting.get(key, [])
        for likeness in (2, 1, 0):
            rest = []
            for mark in marks:
                partner = next((o for o in olds if mark.likeness(o) >= likeness), None)
                if partner is None:
                    rest.append(mark)
                    continue
                olds.remove(partner)
                pairs.append((mark, partner))
            marks = rest
        new += marks
    return new, pairs, [mark for olds in waiting.values() for mark in olds]
