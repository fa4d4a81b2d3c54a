"""The README is a promise: its outputs are real, its examples work."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from repositories import commit, write

from devlint.engine import Linter
from devlint.files import source_from_bytes
from devlint.rule import META_RULES, Registry, load_registry, rules_in
from devlint.settings import Settings, load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def devlint(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "devlint", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_examples_findings_are_those_that_it_shows():
    done = devlint("examples/")
    assert done.returncode == 1
    assert done.stdout.strip() == blocks("text")[0].strip()


def test_the_examples_fixes_are_those_that_it_shows():
    done = devlint("--fix", "--unsafe-fixes", "--diff", "examples/")
    assert done.stdout.strip() == blocks("diff")[0].strip()


def test_the_fixed_example_has_no_findings_and_runs(tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("*.pt", "__pycache__"))
    assert devlint("--isolated", "--fix", "--unsafe-fixes", "examples", cwd=tmp_path).returncode == 0
    for script in ("train.py", "evaluate.py"):
        subprocess.run([sys.executable, script], cwd=folder, check=True, capture_output=True)


def test_the_run_shows_what_it_shows(tmp_path):
    pytest.importorskip("torch")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.pt", "__pycache__"))
    done = devlint("run", "--virtual-cuda", "1", "--report", "seen.json", "examples/train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert blocks("text")[1].strip() in done.stderr
    beside = devlint("examples/", "--isolated", "--evidence", "seen.json", "--output-format", "concise", cwd=tmp_path)
    assert "DEV101" in beside.stdout.splitlines()[0]
    assert beside.stdout.splitlines()[0].endswith("(seen once, 12 B)")


def test_adopting_shows_what_it_shows(tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.pt", "__pycache__"))
    commit(folder)
    shown = next(b for b in blocks("console") if "devlint init" in b).splitlines()
    assert shown[0] == "$ devlint init --yes"
    assert devlint("init", "--yes", cwd=folder).stdout.splitlines()[-3:] == shown[2:5]
    assert shown[5] == "$ devlint"
    assert devlint(cwd=folder).stdout.splitlines() == shown[6:]


def test_what_the_page_about_adopting_shows(tmp_path):
    page = (ROOT / "docs" / "adopting.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ops = "import torch\n\n\ndef weigh(x):\n    return x * 2\n"
    train = (
        'import torch\n\nfrom ops import weigh\n\nbatch = torch.ones(3)\nbatch.to("cuda")\n'
        'print(weigh(torch.ones(3, device="cuda")))\n'
    )
    write(tmp_path, {"ops.py": ops, "train.py": train})
    devlint("baseline", cwd=tmp_path)
    commit(tmp_path)
    assert devlint(cwd=tmp_path).stdout == shown[0]
    write(tmp_path, {"ops.py": ops.replace("x * 2", "x * torch.tensor([1.0, 2.0, 3.0])")})
    assert devlint("--since=HEAD", cwd=tmp_path).stdout == shown[2]
    write(tmp_path, {"ops.py": ops, "train.py": train.replace("batch.to(", "batch = batch.to(")})
    assert devlint(cwd=tmp_path).stdout == shown[1]


def test_what_is_known_of_a_line_is_what_it_shows():
    assert devlint("where", "examples/evaluate.py:17:logits").stdout.strip() == blocks("text")[2].strip()


def test_its_settings_are_taken(tmp_path):
    shown = next(b for b in blocks("toml") if "[tool.devlint]" in b)
    (tmp_path / "pyproject.toml").write_text(shown)
    settings = load_settings(tmp_path, config=None, isolated=False, registry=load_registry())
    table = tomllib.loads(shown)["tool"]["devlint"]
    assert settings.select == tuple(table["select"])
    assert settings.loader_names == tuple(table["loader-names"])
    assert settings.hot_functions == tuple(table["hot-functions"])
    assert dict(settings.behaves_like) == table["behaves-like"]
    assert settings.torch_version == (2, 6)


def test_its_rule_pack_works(tmp_path, monkeypatch):
    pack = next(b for b in blocks("python") if "PinnedOnAccelerator" in b)
    (tmp_path / "acme_rules.py").write_text(pack)
    monkeypatch.syspath_prepend(tmp_path)
    import acme_rules

    linter = Linter(Settings(root=tmp_path), Registry([*META_RULES, *rules_in(acme_rules)]))
    text = 'import torch\n\nx = torch.ones(3, device="cuda")\nx.pin_memory()\ntorch.ones(3).pin_memory()\n'
    found = linter.check(source_from_bytes(text.encode(), None, "x.py"))
    assert [(f.code, f.span.line) for f in found] == [("ACME001", 4)]
