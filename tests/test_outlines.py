"""What an installed pack tells of its rules beforehand: with it, few of their modules are loaded, and the same is found."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devlint.rule import META_RULES, load_registry

ROOT = Path(__file__).parents[1]
RULES = {rule.code: rule for rule in load_registry().rules() if rule not in META_RULES}
RUN = "import sys; from devlint.cli import main; sys.argv[0] = 'devlint'; main()"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the rules as a wheel has them."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "rules" / "devlint_rules", folder / "devlint_rules")
    for made, place in hook.outlined(ROOT, tmp_path_factory.mktemp("made")).items():
        shutil.copy(made, folder / place)
    return folder


def python(site: Path, code: str, *arguments: str) -> str:
    """What a program says that finds its rules there; no folder of the working directory is in its way."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_what_is_told_of_each_rule_is_what_it_says_itself(site):
    code = (
        "import json; from devlint.outlines import ASKED; from devlint.rule import load_registry\n"
        "rules = [r for r in load_registry().outlines() if r.__module__ != 'devlint.rule']\n"
        "told = [{name: getattr(r, name) for name in ASKED} | {'hears': r.hears_only(), 'at': r.__module__} for r in rules]\n"
        "print(json.dumps(told, default=sorted))"
    )
    told = {each["code"]: each for each in json.loads(python(site, code))}
    assert told.keys() == RULES.keys()
    for code, each in told.items():
        rule = RULES[code]
        own = {name: getattr(rule, name) for name in each.keys() - {"hears", "at"}}
        own |= {"hears": rule.hears_only(), "at": rule.__module__}
        assert each == json.loads(json.dumps(own, default=sorted)), code


def test_the_same_is_found(site, tmp_path):
    lint = (
        "check",
        "--isolated",
        "--select",
        "ALL",
        "--preview",
        "--markdown",
        "--no-cache",
        "--output-format",
        "json",
    )
    paths = (
        "examples",
        "tests/cases/dev101.md",
        "tests/cases/dev201.md",
        "tests/cases/dev501.md",
        "tests/cases/hot_by_role.md",
    )
    there, here = (json.loads(python(place, RUN, *lint, *paths)) for place in (site, tmp_path))
    assert len(here) > 50
    assert there == here


def test_a_rule_is_loaded_where_a_file_is_suspected_of_it(site):
    code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules)); {RUN}"
    loaded = python(site, code, "check", "--isolated", "--no-cache", "examples/model.py").split()
    assert "devlint_rules" in loaded
    assert len([name for name in loaded if name.rpartition(".")[2].startswith("dev")]) < len(RULES) / 2


def test_all_that_shows_rules_has_their_pages(site):
    for command in (("rule", "DEV101"), ("rules",), ("rules", "--output-format", "json")):
        assert python(site, RUN, *command) == python(ROOT / "rules", RUN, *command)
