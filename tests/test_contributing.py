"""A rule pack as a contributor makes it: by CONTRIBUTING.md alone, installed by pip, and held to its own tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devlint.scaffold import ScaffoldError, new_rule

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "rule-pack"
# The blocks that are files, by name.
FILES = {
    name: text
    for _, name, text in re.findall(r'^(````?)\w+ title="([^"\n]+)"\n(.*?)^\1$', PAGE, re.MULTILINE | re.DOTALL)
}


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder in which a pack may be installed."""
    env = {**os.environ, "PYTHONPATH": str(folder / "site")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)


def devlint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(folder, sys.executable, "-P", "-m", "devlint", *arguments)


def install(folder: Path, pack: str) -> None:
    """By the installer that users have; its build tools are here already, so that no network is asked."""
    shutil.rmtree(folder / "site", ignore_errors=True)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--target", "site")
    done = run(folder, sys.executable, "-P", "-m", "pip", "install", "-q", *options, f"./{pack}")
    assert done.returncode == 0, done.stderr


def passed(folder: Path, *arguments: str) -> str:
    """The last line of pytest's report."""
    done = run(folder, sys.executable, "-P", "-m", "pytest", "-q", *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()[-1]


@pytest.fixture
def pack(tmp_path):
    """What the page's first command writes."""
    shown = re.search(r"^\$ devlint (new-rule .*)\n((?:[^`$].*\n)+)", PAGE, re.MULTILINE)
    done = devlint(tmp_path, *shown[1].split())
    assert (done.returncode, done.stdout) == (0, shown[2])
    return tmp_path / "acme-rules"


def test_what_is_written_passes_its_own_tests_and_flags_its_own_example(tmp_path, pack):
    install(tmp_path, "acme-rules")
    assert passed(tmp_path, "acme-rules/tests", "-k", "ACME001").startswith("3 passed")
    assert "pinned-on-accelerator (ACME001)" in devlint(tmp_path, "rule", "acme001").stdout


@pytest.mark.slow
def test_the_rule_of_the_page_works_as_the_page_shows_it(tmp_path, pack):
    pytest.importorskip("torch")
    assert sorted(FILES) == ["acme_rules/acme001.py", "tests/cases/acme001.md"]
    for name, text in FILES.items():
        (pack / name).write_text(text, encoding="utf-8")
    install(tmp_path, "acme-rules")
    assert passed(tmp_path, "acme-rules/tests", "-k", "ACME001").startswith("4 passed")
    told = devlint(tmp_path, "rule", "ACME001", "--run").stdout.splitlines()
    shown = re.search(r"^\$ devlint rule ACME001 --run\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1].splitlines()
    assert len(told) == len(shown)
    for line, pattern in zip(told, shown, strict=True):
        assert line.startswith(pattern.removesuffix("...")), told
        assert line.endswith("[ok]"), told
    assert texts(EXAMPLE) == texts(pack)


def texts(folder: Path) -> dict[str, str]:
    """What is in a pack's files."""
    found = (p for p in folder.rglob("*") if p.suffix in (".py", ".md", ".toml") and ".pytest_cache" not in p.parts)
    return {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in found}


def test_a_second_rule_goes_beside_the_first_and_nothing_is_overwritten(tmp_path, pack):
    done = devlint(tmp_path, "new-rule", "ACME002", "another-one", "acme-rules")
    assert done.returncode == 0
    assert sorted(p.name for p in (pack / "acme_rules").iterdir()) == ["__init__.py", "acme001.py", "acme002.py"]
    before = (pack / "acme_rules" / "acme002.py").read_text()
    again = devlint(tmp_path, "new-rule", "ACME002", "a-third-one", "acme-rules")
    assert (again.returncode, again.stdout) == (2, "")
    assert (
        again.stderr == f"error: {Path('acme-rules/acme_rules/acme002.py')} is there already, and nothing was written\n"
    )
    assert (pack / "acme_rules" / "acme002.py").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("acme1", "some-name"), "'acme1' isn't a code"),
        (("ACME001", "Some name"), "'Some name' isn't a name"),
        (("DEV101", "some-name"), "DEV101 (discarded-move) of the rule pack devlint"),
        (("ACME001", "discarded-move"), "DEV101 (discarded-move) of the rule pack devlint"),
        (
            ("DEV999", "some-name", "new"),
            "codes that begin with DEV are devlint's own: choose letters of yours; for a rule of devlint's own, --into names",
        ),
        (("ACME001", "some-name", "full"), "full has no pyproject.toml"),
        (("ACME001", "some-name", "no.pack"), "no.pack/pyproject.toml names no rule pack"),
        (("ACME001", "some-name", "1st"), "'1st' can't be the name of a package"),
        (("ACME001", "some-name", "class"), "'class' can't be the name of a package"),
        (("ACME001", "some-name", "broken"), "broken/pyproject.toml: Expected"),
        (("ACME001", "some-name", "moved"), "moved: the package gone isn't there"),
    ],
)
def test_what_cannot_be_written_is_one_line(tmp_path, arguments, said):
    for name, text in {
        "full/x.py": "",
        "no.pack/pyproject.toml": "[project]\n",
        "broken/pyproject.toml": "project\n",
        "moved/pyproject.toml": '[project.entry-points."devlint.rules"]\na = "gone"\n',
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    done = devlint(tmp_path, "new-rule", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_new_pack_is_in_order_and_shows_what_its_page_can(tmp_path: Path) -> None:
    assert devlint(tmp_path, "new-rule", "ACME001", "some-rule", "acme-rules").returncode == 0
    ruff = (sys.executable, "-m", "ruff")
    done = run(tmp_path / "acme-rules", *ruff, "check", "--isolated", "--select", "I,F,E", "--ignore", "E501", ".")
    assert done.returncode == 0, done.stdout
    assert (
        run(tmp_path / "acme-rules", *ruff, "format", "--check", "--isolated", "--line-length", "120", ".").returncode
        == 0
    )
    install(tmp_path, "acme-rules")
    # It states no effect: there is nothing to run.
    done = devlint(tmp_path, "rule", "ACME001", "--run")
    assert (done.returncode, done.stderr) == (0, "")
    said = "bad example flagged, good one and fixed one not; no effect (`effect`) is stated, so nothing was run [ok]\n"
    assert done.stdout == said


def test_a_rule_of_our_own_goes_where_the_page_says():
    files = new_rule("DEV998", "some-name", ROOT, "devlint_rules.moves")
    assert list(files) == [ROOT / "rules/devlint_rules/moves/dev998.py", ROOT / "tests/cases/dev998.md"]
    assert "    default = False\n" in files[ROOT / "rules/devlint_rules/moves/dev998.py"]
    with pytest.raises(ScaffoldError, match="--into"):
        new_rule("DEV998", "some-name", ROOT, "devlint")
