"""The fix engine, on rules made for it: what it applies, what it leaves for the next pass, what it withholds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from devlint.engine import Linter
from devlint.facts import Facts
from devlint.files import source_from_bytes
from devlint.fixer import FixOutcome, fix
from devlint.lazy import cst, m
from devlint.rule import META_RULES, Change, Registry, Report, Rule, load_registry
from devlint.settings import Settings


class Renaming(Rule):
    """Renames a function, in a way that each subclass says."""

    name = "renaming"
    old = "old"
    new = "len"
    imports: tuple[str, ...] = ()
    trigger = r"\w\("

    def shape(self) -> m.BaseMatcherNode:
        return m.Call(func=m.Name(self.old))

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        renamed = node.with_changes(func=cst.Name(self.new))
        yield Report(node, "renamed", change=Change("rename", "safe", ((node, renamed),), imports=self.imports))


class Good(Renaming):
    """Says `len` for `old`."""

    code = "TST001"


class Stays(Renaming):
    """Its fix leaves the finding."""

    code = "TST002"
    name = "stays"
    old = new = "vars"


class Broken(Renaming):
    """Its fix isn't Python."""

    code = "TST003"
    name = "broken"
    old = "whole"

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        edit = facts.replaced(facts.node(node), "bro ken(")
        yield Report(node, "broken", change=Change("break it", "safe", edits=(edit,)))


class Spreads(Renaming):
    """Its fix brings another finding."""

    code = "TST004"
    name = "spreads"
    old = "spread"
    new = "vars"


class Imports(Renaming):
    """Its fix needs an import."""

    code = "TST005"
    name = "imports"
    old = "bare"
    new = "json"
    imports = ("import json",)


class Reveals(Renaming):
    """Its fix brings a finding that has a safe fix of its own."""

    code = "TST006"
    name = "reveals"
    old = "cover"
    new = "min"


class Revealed(Renaming):
    """What that one reveals."""

    code = "TST010"
    name = "revealed"
    old = "min"


class Circles(Renaming):
    """Its fix brings a finding whose fix brings the first one back."""

    code = "TST007"
    name = "circles"
    old = "any"
    new = "all"


class Returns(Renaming):
    """The other half of the circle."""

    code = "TST008"
    name = "returns"
    old = "all"
    new = "any"


class Risky(Renaming):
    """Its fix is unsafe."""

    code = "TST009"
    name = "risky"
    old = "min"

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        renamed = node.with_changes(func=cst.Name(self.new))
        yield Report(node, "renamed", change=Change("rename", "unsafe", ((node, renamed),)))


def fixed(text: str, *rules: type[Rule]) -> FixOutcome:
    linter = Linter(Settings(root=Path.cwd()), Registry([*META_RULES, *rules]))
    return fix(source_from_bytes(text.encode(), None, "x.py"), linter, safety="safe")


def test_each_finding_is_fixed_and_nothing_else_changes_by_a_byte():
    before = "import torch\r\n\r\nx = 1 ;  old(1) # é old(\r\n\told = '\\t'\r\n".replace("\told", "old")
    outcome = fixed(before, Good)
    assert outcome.source.text == before.replace("old(1)", "len(1)")
    assert [f.code for f in outcome.applied] == ["TST001"]
    assert outcome.remaining == []


def test_fixes_within_each_other_take_turns():
    outcome = fixed("import torch\nold(old(1), old(2))\n", Good)
    assert outcome.source.text == "import torch\nlen(len(1), len(2))\n"
    assert len(outcome.applied) == 3


def test_fixing_twice_changes_nothing():
    once = fixed("import torch\nold(old(1))\n", Good).source.text
    twice = fixed(once, Good)
    assert twice.source.text == once
    assert twice.applied == []


def test_a_fix_that_leaves_the_finding_is_withheld():
    outcome = fixed("import torch\nvars(1)\n", Stays)
    assert outcome.source.text == "import torch\nvars(1)\n"
    assert [(f.code, f.fix) for f in outcome.remaining] == [("DEV003", None), ("TST002", None)]
    assert "withheld, since it would change nothing;" in outcome.remaining[0].message


def test_a_fix_that_breaks_the_syntax_is_withheld():
    outcome = fixed("import torch\nwhole(1)\n", Broken)
    assert outcome.source.text == "import torch\nwhole(1)\n"
    assert [f.code for f in outcome.remaining] == ["DEV003", "TST003"]


def test_a_fix_that_brings_a_finding_is_withheld():
    outcome = fixed("import torch\nspread(1)\n", Spreads, Stays)
    assert outcome.source.text == "import torch\nspread(1)\n"
    assert {f.code for f in outcome.remaining} == {"DEV003", "TST004"}
    told = next(f.message for f in outcome.remaining if f.code == "DEV003")
    assert "withheld, since it would bring TST002 (line 2: renamed);" in told


def test_a_fix_that_mixes_devices_is_withheld_whichever_rules_were_asked_for():
    text = "import torch\n\nx = torch.ones(1)\nx.to('cuda')\nprint(torch.cat([x, torch.rand(4)]))\n"
    settings = Settings(root=Path.cwd(), select=("DEV101",))
    outcome = fix(source_from_bytes(text.encode(), None, "x.py"), Linter(settings, load_registry()), safety="display")
    assert outcome.source.text == text
    told = next(f.message for f in outcome.remaining if f.code == "DEV003")
    assert "withheld, since it would uncover DEV201 (line 5: " in told


def test_what_a_fix_reveals_and_can_be_fixed_is_fixed_with_it():
    outcome = fixed("import torch\ncover(1)\n", Reveals, Revealed)
    assert outcome.source.text == "import torch\nlen(1)\n"
    assert [f.code for f in outcome.applied] == ["TST006", "TST010"]
    assert outcome.remaining == []


def test_a_safe_fix_takes_no_unsafe_one_along():
    outcome = fixed("import torch\ncover(1)\n", Reveals, Risky)
    assert outcome.source.text == "import torch\ncover(1)\n"
    assert [f.code for f in outcome.remaining] == ["DEV003", "TST006"]


def test_fixes_that_bring_each_other_back_are_withheld():
    outcome = fixed("import torch\nany(1)\n", Circles, Returns)
    assert outcome.source.text == "import torch\nany(1)\n"
    assert [f.code for f in outcome.remaining] == ["DEV003", "TST007"]


def test_a_withheld_fix_doesnt_hold_up_the_others():
    outcome = fixed("import torch\nwhole(1)\nold(1)\nwhole(2)\n", Good, Broken)
    assert outcome.source.text == "import torch\nwhole(1)\nlen(1)\nwhole(2)\n"
    assert [f.code for f in outcome.applied] == ["TST001"]


def test_an_import_goes_where_isort_would_put_it():
    text = '"""Doc."""\nfrom __future__ import annotations\n\nimport io\nimport torch\n\nbare(1)\n'
    assert fixed(text, Imports).source.text == text.replace("import io\n", "import io\nimport json\n").replace(
        "bare(", "json("
    )


def test_an_import_that_is_there_isnt_added_again():
    text = "import json\nimport torch\n\nbare(1)\nbare(2)\n"
    assert fixed(text, Imports).source.text == text.replace("bare", "json")


def test_an_import_in_a_file_without_imports_goes_below_its_docstring():
    text = '"""About torch."""\nbare(1)\n'
    assert fixed(text, Imports).source.text == '"""About torch."""\n\nimport json\njson(1)\n'
