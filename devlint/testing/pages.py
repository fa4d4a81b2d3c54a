"""Holds a rule to the examples on its page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from devlint.engine import Linter
from devlint.files import read_source
from devlint.fixer import fix
from devlint.rule import META_RULES, Registry, Rule
from devlint.settings import Settings


def check_page(rule: type[Rule], folder: Path) -> None:
    """Checks what a rule's page shows: its example is found, what to use instead isn't, and its fix leaves nothing to find.

    A rule that states an effect has its examples run as well, where PyTorch is installed. Files are written into the folder,
    which is empty. Raises AssertionError where a page isn't true, and ValueError where it lacks an example.
    """
    __tracebackhide__ = True
    path = folder / "example.py"
    linter = Linter(Settings(root=folder, select=(rule.code,)), Registry([*META_RULES, rule]))

    def found(code: str) -> list[str]:
        path.write_text(code, encoding="utf-8")
        return [finding.code for finding in linter.check(read_source(path, path.name))]

    bad, good = rule.example("Example"), rule.example("Use instead")
    if set(found(bad)) != {rule.code}:
        raise AssertionError(f"{rule.code}: nothing, or something else, is found in its example")
    fixed = fix(read_source(path, path.name), linter, safety="display").source.text
    if found(good):
        raise AssertionError(f"{rule.code}: it is found in what to use instead")
    if rule.fix != "-" and found(fixed):
        raise AssertionError(f"{rule.code}: its fix doesn't mend its example")
    if rule.fix == "-" and fixed != bad:
        raise AssertionError(f'{rule.code}: it has a fix, and doesn\'t say so: `fix = "S"`, `"U"` or `"D"`')
    if rule.effect is not None and find_spec("torch") is not None:
        from devlint.runtime.pages import run_page

        wrong = [f"{each.title}: {each.told}" for each in run_page(rule) if not each.as_stated]
        if wrong:
            raise AssertionError("\n".join([f"{rule.code}: its examples don't show its effect", *wrong]))
