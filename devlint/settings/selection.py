"""Which rules are meant: by code, by the beginning of a code, by name, or by `ALL`, in any case."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from devlint.escapes import printable
from devlint.records import record
from devlint.regexes import regex

if TYPE_CHECKING:
    from devlint.rule import Registry, Rule

# Reported whatever is selected, unless ignored: the run itself went wrong.
ALWAYS_REPORTED = frozenset({"DEV000", "DEV003"})

_CODE = regex(r"[A-Za-z]+[0-9]+")


class SettingsError(Exception):
    """Settings that can't be used; the text is one line that says where, what, and what to write instead."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


@record(frozen=True, slots=True)
class Selection:
    """One layer of choices: rules taken and left, by code, prefix of a code, name, or `ALL`.

    `select` starts anew, whatever the layer below says; the others change what that one chose. The more specific
    selector wins, and `ignore` wins a tie. A prefix takes the rules that are on by default, or all where none of them
    is; else a rule that is opt-in needs its code or name, or `ALL`.
    """

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()

    def decide(self, rule: type[Rule], registry: Registry, before: bool) -> bool:
        """Whether `rule` runs after this layer, given what the layer below said."""
        selectors = (*(self.select or ()), *self.extend_select)
        chosen = max((_rank(s, rule, opt_in=s in registry.opt_in_prefixes) for s in selectors), default=-1)
        ignored = specificity(self.ignore, rule)
        if chosen < 0 and ignored < 0:
            return before and (self.select is None or rule.code in ALWAYS_REPORTED)
        return chosen > ignored or (ignored < 0 and rule.code in ALWAYS_REPORTED)


NO_CHOICE = Selection()


def specificity(selectors: Iterable[str], rule: type[Rule]) -> int:
    """How specifically the best of some selectors names a rule, opt-in ones too; -1 where none does."""
    return max((_rank(selector, rule, opt_in=True) for selector in selectors), default=-1)


def _rank(selector: str, rule: type[Rule], *, opt_in: bool) -> int:
    """How specifically a selector names a rule; -1 when it doesn't. `opt_in`: a prefix speaks of opt-in rules too."""
    if selector == "ALL":
        return 0
    if selector in (rule.code, rule.name):
        return 100
    if rule.code.startswith(selector) and (rule.default or opt_in):
        return len(selector)
    return -1


def canonical(selector: str) -> str:
    """A selector as the rules spell it: codes, their beginnings and `ALL` in capitals, names in small letters."""
    return selector.upper() if _CODE.fullmatch(selector) or selector.upper() in ("ALL", "DEV") else selector.lower()


def check_selectors(selectors: Iterable[str], registry: Registry, where: str) -> tuple[str, ...]:
    """The selectors as the rules spell them; raises SettingsError for one that names no rule. `where` begins its message."""
    checked = []
    rules = registry.outlines()
    for selector in selectors:
        # A pack's codes may begin with letters of any kind.
        spellings = (canonical(selector), selector.upper(), selector)
        found = next(
            (s for s in spellings if s == "ALL" or (s and any(specificity((s,), r) >= 0 for r in rules))), None
        )
        if found is None:
            words = selector.split()
            hint = f"; write {','.join(words)}" if len(words) > 1 else nearest_rule(selector, registry)
            raise SettingsError(f"{where}: no rule is called '{selector}'{hint}")
        checked.append(found)
    return tuple(checked)


def nearest_rule(word: str, registry: Registry) -> str:
    """What is said to somebody who names a rule that there isn't: the nearest one, or where they are listed.

    Of codes that begin as some do, the nearest has the same first digit: another one is of another matter.
    """
    known = [name for rule in registry.outlines() for name in (rule.code, rule.name)]
    family = re.match(r"[A-Z]+\d?", word.upper())
    if family is not None and any(rule.code.startswith(family[0].rstrip("0123456789")) for rule in registry.outlines()):
        known = [name for name in known if name.startswith(family[0]) or not _CODE.fullmatch(name)]
    return nearest(word, known) or "; see `devlint rules`"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean '...'?` for the known word nearest to `word`, or an empty string."""
    import difflib

    def likeness(option: str) -> tuple[float, int]:
        ratio = difflib.SequenceMatcher(None, word.lower(), option.lower()).ratio()
        same_start = next((at for at, pair in enumerate(zip(word, option, strict=False)) if len(set(pair)) > 1), 99)
        return ratio, same_start

    best = max(known, key=likeness, default="")
    # All codes begin alike.
    least = 0.7 if _CODE.fullmatch(word) else 0.5
    return f"; did you mean '{best}'?" if best and likeness(best)[0] >= least else ""
