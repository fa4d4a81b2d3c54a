"""The documentation is a promise: what its pages show is what happens, and the site can be built from them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from devlint.addresses import DOCUMENTATION, rule_page
from devlint.rule import load_registry

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if "```" in page.read_text("utf-8")], ids=name_of)
def test_what_a_page_shows_is_what_happens(page):
    pytest.importorskip("torch")
    command = [sys.executable, ROOT / "tools" / "run_pages.py", page]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\npython tools/run_pages.py --write puts it right"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```console\n$ devlint x.py\nAll checks passed!\n```\n", "+error: x.py: no such file"),
        ("```console\n$ devlint --nope\n```\n", "ends with 2"),
        ("```console\n$ pip install devlint[nope]\n```\n", "devlint has no extra 'nope'"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```python\n1  # ValueError\n```\n", "no ValueError"),
        ("```toml\n[tool.devlint]\nselct = []\n```\n", "selct"),
        ("```json\n{\n```\n", "Expecting"),
        ("```yaml\na: [\n```\n", "while parsing"),
        ("```yaml\nsteps:\n  - run: devlint --nope\n```\n", "--nope"),
        ("```cobol\nMOVE X\n```\n", "nothing is known of blocks of 'cobol'"),
    ],
)
def test_a_page_that_is_not_true_is_told(tmp_path, text, said):
    page = tmp_path / "untrue.md"
    page.write_text(f"# Untrue\n\n{text}")
    command = [sys.executable, ROOT / "tools" / "run_pages.py", page]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1
    assert done.stdout.startswith("untrue.md:3: ")
    assert said in done.stdout


def test_each_page_stands_once_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1]
    pages = re.findall(r"[\w/-]+\.md$", nav, re.MULTILINE)
    assert len(pages) == len(set(pages)) > 20


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site, built with strict links; the examples of rules are run by tests of their own."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    env = {**os.environ, "DEVLINT_SITE_RUNS": "false", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_has_a_page_for_each_rule_where_reports_say(site):
    for rule in load_registry().rules():
        assert rule.address() == rule_page(rule.code)
        page = site / rule.address().removeprefix(f"{DOCUMENTATION}/") / "index.html"
        assert rule.name in page.read_text(encoding="utf-8")


def test_pages_name_addresses_of_the_site_that_exist(site):
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", *ROOT.glob("*.yml")]
    named = {each for page in pages for each in re.findall(rf"{DOCUMENTATION}/([\w./-]*)", page.read_text("utf-8"))}
    assert named
    assert [each for each in sorted(named) if not (site / each).exists()] == []


def test_the_readme_has_no_links_that_only_a_checkout_has():
    """PyPI shows it too."""
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []


def closed(schema):
    """A schema that takes no more than it says."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if "properties" in schema else {}
    return {**{key: closed(value) for key, value in schema.items()}, **more}


@pytest.mark.parametrize("name", ["examples", "a notebook", "with evidence", "clean", "a part"])
def test_the_json_report_is_what_its_schema_says(tmp_path, name):
    text = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": text}
    language = {"language_info": {"name": "python"}}
    notebook = {"cells": [cell], "metadata": language, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notebook.ipynb").write_text(json.dumps(notebook))
    (tmp_path / "clean.py").write_text("x = 1\n")
    (tmp_path / "seen.py").write_text(text)
    event = {
        "kind": "transfer",
        "path": str(tmp_path / "seen.py"),
        "line": 4,
        "operation": "to",
        "count": 1,
        "bytes": 12,
    }
    report = {"schema": 1, "tool": "devlint", "torch": "2.13.0", "virtual_devices": 1, "totals": {}, "events": [event]}
    (tmp_path / "evidence.json").write_text(json.dumps(report))
    arguments = {
        "examples": [str(ROOT / "examples")],
        "a notebook": ["notebook.ipynb"],
        "with evidence": ["seen.py", "--evidence", "evidence.json"],
        "clean": ["clean.py"],
        "a part": ["seen.py", "--shard", "1/1"],
    }[name]
    command = [sys.executable, "-P", "-m", "devlint", "--isolated", "--output-format", "json", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    found = json.loads(done.stdout)
    schema = json.loads((ROOT / "docs" / "findings.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    assert [error.message for error in Draft202012Validator(closed(schema)).iter_errors(found)] == []
    if name == "a part":
        found = found["findings"]
    assert bool(found) is (name != "clean")
    wanted = {"a notebook": "cell", "with evidence": "seen"}.get(name, "code")
    assert all(wanted in finding for finding in found)
