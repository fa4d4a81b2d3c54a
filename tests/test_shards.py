"""Parts of a run: shards, chunks for processes, and one report of several."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repositories import write
from test_cli import HOT, devlint, found

from devlint.files import Target
from devlint.findings import OutputFormat
from devlint.settings import Settings
from devlint.shards import chunks, shard

ROOT = Path(__file__).parents[1]
BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVLINT_NO_CACHE", "1")
    return tmp_path


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, 5_000), max_size=20), st.integers(1, 5))
def test_each_file_is_in_one_part(tmp_path, sizes, count):
    targets = []
    for number, size in enumerate(sizes):
        path = tmp_path / f"m{number}.py"
        path.write_bytes(b"#" * size)
        targets.append(Target(path, path.name, Settings(tmp_path)))
    parts = [shard(targets, number, count) for number in range(1, count + 1)]
    assert sorted((t for part in parts for t in part), key=targets.index) == targets
    weights = [sum(sizes[targets.index(t)] + 1 for t in part) for part in parts]
    assert max(weights) - min(weights) <= max(sizes, default=0) + 1
    for jobs in (1, 3):
        assert [t for chunk in chunks(targets, jobs) for t in chunk] == targets


def test_shards_and_their_reports(project):
    write(project, {f"{folder}/m{i}.py": BAD + "#\n" * i * 50 for folder in ("b", "a") for i in range(4)})
    whole = devlint(".", "--output-format", "json")
    seen: list[str] = []
    for number in (1, 2, 3):
        part = devlint(".", "--shard", f"{number}/3", "--output-format", "json", "-o", f"{number}.json")
        assert part.returncode == 1
        report = json.loads(Path(f"{number}.json").read_text())
        assert report["shard"] == {"part": number, "of": 3}
        seen += [finding["path"] for finding in report["findings"]]
    assert len(seen) == len(set(seen)) == 8
    merged = devlint("merge", "3.json", "1.json", "2.json")
    assert merged.stdout == whole.stdout
    assert merged.returncode == 1
    # With an empty one, and with one of all, it is the same.
    Path("none.json").write_text("[]")
    Path("whole.json").write_text(whole.stdout)
    assert devlint("merge", "1.json", "none.json", "2.json", "whole.json", "3.json").stdout == whole.stdout
    assert devlint("merge", "none.json").returncode == 0
    assert devlint("merge", "whole.json", "--exit-zero", "-o", "all.json").returncode == 0
    assert Path("all.json").read_text() == whole.stdout


def test_the_projects_least_severity_holds_for_merged_reports(project):
    write(project, {"a.py": HOT, "pyproject.toml": '[tool.devlint]\nselect = ["DEV501"]\n'})
    assert devlint("--output-format", "json=a.json").returncode == devlint("merge", "a.json").returncode == 1
    (project / "pyproject.toml").write_text('[tool.devlint]\nselect = ["DEV501"]\nfail-on = "error"\n')
    assert devlint("--output-format", "json=a.json").returncode == devlint("merge", "a.json").returncode == 0
    assert devlint("merge", "a.json", "--fail-on", "warning").returncode == 1


def test_merged_reports_exit_as_one_run_would(project):
    write(project, {"a.py": BAD, "b.py": "import torch\nx = torch.ones(\n"})
    for number in (1, 2):
        devlint(".", "--shard", f"{number}/2", "--output-format", "json", "-o", f"{number}.json")
    assert devlint("merge", "1.json", "2.json").returncode == devlint(".").returncode == 2


def _various(project: Path) -> None:
    """Findings of all kinds: with trails through files, fixes that need imports, in cells, in blocks, and a broken file."""
    cells = [{"cell_type": "code", "source": text} for text in ("import torch\nx = torch.ones(3)", '\nx.to("cuda")')]
    write(
        project,
        {
            "devlint.toml": 'markdown = true\nselect = ["ALL"]',
            "n.ipynb": json.dumps({"cells": cells, "metadata": {}}),
            "page.md": "# A page\n\n- a list\n\n  ```python\n"
            + "".join(f"  {line}\n" for line in BAD.splitlines())
            + "  ```\n",
            "broken.py": "import torch\nx = torch.ones(\n",
            "loads.py": 'import torch\n\nmodel = torch.load("model.pt")\nmodel.cuda()\n',
        },
    )
    shutil.copytree(ROOT / "examples", project / "examples")


def test_each_form_of_merged_reports_is_that_of_one_run(project):
    _various(project)
    for number in (1, 2, 3):
        devlint(".", "--shard", f"{number}/3", "--output-format", "json", "-o", f"{number}.json")
    forms = get_args(OutputFormat)
    devlint(".", *(part for form in forms for part in ("--output-format", f"{form}=whole.{form}")))
    done = devlint(
        "merge",
        *(f"{number}.json" for number in (3, 1, 2)),
        *(part for form in forms for part in ("--output-format", f"{form}=merged.{form}")),
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    for form in forms:
        whole, merged = (Path(f"{name}.{form}").read_text() for name in ("whole", "merged"))
        assert "DEV101" in merged
        if form == "junit":
            # Files without findings are in no JSON report.
            whole, merged = _failed_cases(whole), _failed_cases(merged)
        assert merged == whole, form


def _failed_cases(report: str) -> list[str]:
    cases = ElementTree.fromstring(report).iter("testcase")
    return [ElementTree.tostring(case, encoding="unicode") for case in cases if len(case)]


def test_several_reports_of_merged_ones(project):
    _various(project)
    devlint(".", "--output-format", "json=all.json")
    done = devlint("merge", "all.json", "--output-format", "concise", "--output-format", "sarif=found.sarif")
    assert "n.ipynb:cell 2:2:1: DEV101" in done.stdout
    assert {r["ruleId"] for r in json.loads(Path("found.sarif").read_text())["runs"][0]["results"]} >= {"DEV101"}


def test_merged_reports_where_the_files_are_gone(project):
    write(project, {"a.py": BAD})
    devlint("a.py", "--output-format", "json=one.json")
    (project / "a.py").unlink()
    for form in get_args(OutputFormat):
        done = devlint("merge", "one.json", "--output-format", form)
        assert (done.returncode, "DEV101" in done.stdout) == (1, True), form
    # Where a cell stands in the text, only the notebook tells.
    _various(project)
    devlint("n.ipynb", "--output-format", "json=two.json")
    (project / "n.ipynb").unlink()
    assert devlint("merge", "two.json").returncode == 1
    done = devlint("merge", "two.json", "--output-format", "text")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "error: to tell where a notebook's cells are, `devlint merge` needs it as it was linted: n.ipynb\n"
    )


def test_a_finding_of_another_form(project):
    write(
        project,
        {"r.json": '[{"code": "A1", "path": "a.py", "message": "", "line": 1, "column": 1, "severity": "error"}]'},
    )
    done = devlint("merge", "r.json", "--output-format", "text")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "a.py" in done.stderr


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (["1of3", "3of3"], "part 2 of 3 is missing"),
        (["2of3"], "parts 1, 3 of 3 are missing"),
        (["1of3", "2of3", "1of3", "3of3"], "part 1 of 3 is there twice: 1of3.json, 1of3.json"),
        (["1of1", "2of3"], "these are parts of 1 and of 3; merge those of one run"),
    ],
)
def test_parts_that_are_missing_or_too_many(project, parts, said):
    for part in set(parts):
        number, count = part.split("of")
        shard = {"part": int(number), "of": int(count)}
        Path(f"{part}.json").write_text(json.dumps({"shard": shard, "findings": []}))
    done = devlint("merge", *(f"{part}.json" for part in parts))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {said}\n")


@pytest.mark.parametrize(
    "text", ["", "{}", '{"shard": 1, "findings": []}', '{"findings": 1}', "[1]", '[{"code": "DEV101"}]', "\x00"]
)
def test_what_is_no_report(project, text):
    (project / "r.json").write_text(text)
    done = devlint("merge", "r.json")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "r.json" in done.stderr
    assert devlint("merge", "missing.json").returncode == 2


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/2/3", "-1/2", ""])
def test_what_is_no_shard(project, text):
    done = devlint(".", "--shard", text)
    assert done.returncode == 2
    assert "isn't I/N" in done.stderr


def test_processes_find_the_same(project):
    write(project, {f"m{i}.py": BAD + "#\n" * i * 3000 for i in range(12)})
    assert (
        found(".", "-j", "1") == found(".", "-j", "3") == [(f"m{i}.py", "DEV101") for i in sorted(range(12), key=str)]
    )


def test_a_part_that_is_missing_is_told():
    write(Path(), {"a.py": BAD})
    devlint("--output-format", "json=1.json")
    done = devlint("merge", "--of", "2", "1.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --of 2: there are 1 reports; a part is missing, or one is too many\n"
    assert devlint("merge", "--of", "1", "1.json").returncode == 1
