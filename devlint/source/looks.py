"""What a run asked about the files around those that it lints, with the answers, by the file that it asked for.

A question is a few words of text, such as `("place", "pkg.net", "/src")`; `devlint/source/questions.py` answers them.
What was found in a file holds for as long as each question behind it is answered as before: those that were asked for
the file itself, and for each file that was read for it. What was looked for in vain is a question like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple, Protocol, TypeVar

from devlint.records import record

Question = tuple[str, ...]
Item = TypeVar("Item")


class Answer(NamedTuple):
    """An answer as text; it is surely the same while its `basis` is, where it has one, behind which may stand what it was found by."""

    text: str
    basis: str = ""


# Where one question got two answers in a run: files change while they are read.
UNSETTLED = Answer("", "unsettled")


class Answered(Protocol):
    """What questions were answered in the last run that asked, for those that are asked again and again."""

    def get(self, question: Question, /) -> Answer | None: ...
    def put(self, question: Question, answer: Answer, /) -> None: ...


@record
class Looks:
    """The questions of one project so far."""

    answers: dict[Question, Answer] = field(default_factory=dict)
    # By the path of the file that each was asked for.
    asked: dict[str, set[Question]] = field(default_factory=dict)
    # The files that were read for a file.
    read: dict[str, set[str]] = field(default_factory=dict)

    def note(self, asking: str, question: Question, answer: Answer) -> None:
        """Remembers a question, its answer, and the file that it was asked for."""
        self.asked.setdefault(asking, set()).add(question)
        if self.answers.setdefault(question, answer) != answer:
            self.answers[question] = UNSETTLED

    def has(self, asking: str, question: Question) -> bool:
        """Whether that was asked for the file before."""
        return question in self.asked.get(asking, ())

    def note_read(self, asking: str, path: str) -> None:
        """Remembers that a file was read for another one."""
        self.read.setdefault(asking, set()).add(path)

    def behind(self, path: str) -> set[str]:
        """The file and all that were read for it, by way of others too."""
        found = {path}
        waiting = [path]
        while waiting:
            new = self.read.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    def take_in(self, other: Looks) -> None:
        """Adds what another process asked."""
        for question, answer in other.answers.items():
            if self.answers.setdefault(question, answer) != answer:
                self.answers[question] = UNSETTLED
        _add(self.asked, other.asked)
        _add(self.read, other.read)

    def since(self, before: Looks) -> Looks:
        """What came after `before`, which is brought up to date."""
        new = Looks(
            {q: a for q, a in self.answers.items() if before.answers.get(q) != a},
            _more(self.asked, before.asked),
            _more(self.read, before.read),
        )
        before.answers |= new.answers
        _add(before.asked, new.asked)
        _add(before.read, new.read)
        return new


class Unkept(Looks):
    """What a run asked that keeps no results: nobody will want to know."""

    def note(self, asking: str, question: Question, answer: Answer) -> None:
        pass

    def has(self, asking: str, question: Question) -> bool:
        return True

    def note_read(self, asking: str, path: str) -> None:
        pass


def _add(to: dict[str, set[Item]], more: Mapping[str, set[Item]]) -> None:
    for path, items in more.items():
        to.setdefault(path, set()).update(items)


def _more(now: Mapping[str, set[Item]], before: Mapping[str, set[Item]]) -> dict[str, set[Item]]:
    found = {path: items - before.get(path, set()) for path, items in now.items()}
    return {path: items for path, items in found.items() if items}
