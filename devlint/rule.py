"""Stand-in: what a rule is, and the registry of those installed."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import ClassVar


class Rule:
    """Base of all rules; the docstring is the rule's page."""

    code: ClassVar[str]
    name: ClassVar[str]
    default: ClassVar[bool] = True
    fix: ClassVar[str] = "-"

    @classmethod
    def summary(cls) -> str:
        """First line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    @classmethod
    def page(cls) -> str:
        """The whole docstring as Markdown."""
        return f"# {cls.code}: {cls.name}\n\n{inspect.cleandoc(cls.__doc__ or '')}\n"


class Registry:
    """The rules of all installed packs."""

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        self._rules = sorted(rules, key=lambda rule: rule.code)

    def rules(self) -> list[type[Rule]]:
        """All rules, by code."""
        return list(self._rules)

    def find(self, code_or_name: str) -> type[Rule] | None:
        """The rule of that code or name."""
        for rule in self._rules:
            if code_or_name in (rule.code, rule.name):
                return rule
        return None


def load_registry() -> Registry:
    """The rules found through the entry-point group."""
    import importlib

    found: list[type[Rule]] = list(importlib.import_module("devlint_rules").RULES)
    return Registry(found)
