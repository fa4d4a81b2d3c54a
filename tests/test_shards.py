"""Parts of a run: shards, chunks for processes, and one report of several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repositories import write
from test_cli import devlint, found

from devlint.files import Target
from devlint.settings import Settings
from devlint.shards import chunks, shard

BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVLINT_NO_CACHE", "1")
    return tmp_path


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
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
        seen += [finding["path"] for finding in json.loads(Path(f"{number}.json").read_text())]
    assert len(seen) == len(set(seen)) == 8
    merged = devlint("merge", "3.json", "1.json", "2.json")
    assert merged.stdout == whole.stdout
    assert merged.returncode == 1
    # The same twice, or with an empty one, is the same.
    Path("none.json").write_text("[]")
    assert devlint("merge", "1.json", "none.json", "2.json", "1.json", "3.json").stdout == whole.stdout
    assert devlint("merge", "none.json").returncode == 0
    assert devlint("merge", "1.json", "--exit-zero", "-o", "all.json").returncode == 0
    assert Path("all.json").read_text() == Path("1.json").read_text()


def test_merged_reports_exit_as_one_run_would(project):
    write(project, {"a.py": BAD, "b.py": "import torch\nx = torch.ones(\n"})
    for number in (1, 2):
        devlint(".", "--shard", f"{number}/2", "--output-format", "json", "-o", f"{number}.json")
    assert devlint("merge", "1.json", "2.json").returncode == devlint(".").returncode == 2


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"code": "DEV101"}]', "\x00"])
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
