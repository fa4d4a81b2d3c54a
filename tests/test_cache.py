"""Results that are kept from run to run: warm equals cold, whatever was edited, added, removed or damaged between."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repositories import commit, write
from test_cli import devlint, found

from devlint.batch import Plan, run_all
from devlint.cache.folder import prepared
from devlint.cache.identity import identity_of
from devlint.cache.results import Results
from devlint.files import discover
from devlint.rule import Registry, load_registry
from devlint.settings import Settings
from devlint.source.texts import Texts

BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'
CLEAN = "import torch\n\nx = torch.ones(3)\n"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEVLINT_NO_CACHE")
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def held(*arguments: str, **more: object) -> str:
    """What a run says of how many results still held: `1 of 2`."""
    lines = devlint(*arguments, "-v", **more).stderr.splitlines()
    files = next(line.split()[0] for line in lines if line.endswith((" file", " files")))
    return next(f"{line.split()[0]} of {files}" for line in lines if line.endswith("as in an earlier run"))


# -- on the command line --------------------------------------------------------------------------------------------------


def test_what_did_not_change_is_not_linted_again(project):
    write(project, {"a.py": BAD, "b.py": CLEAN})
    cold = devlint(".")
    assert devlint(".").stdout == cold.stdout
    assert held(".") == "2 of 2"
    write(project, {"b.py": CLEAN + "x.cuda()\n"})
    assert held(".") == "1 of 2"
    assert found(".") == [("a.py", "DEV101"), ("b.py", "DEV101")]


def test_a_warm_run_imports_neither_libcst_nor_what_reads_code(project):
    write(project, {"a.py": BAD})
    script = (
        "import sys\nfrom devlint.cli import main\nsys.argv = ['devlint', '.', '--output-format', 'concise']\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'libcst', 'devlint.placement.model', 'devlint.fixer', 'multiprocessing'} & set(sys.modules)\n"
        "    print('HEAVY', sorted(heavy), file=sys.stderr)\n"
    )
    run = [sys.executable, "-c", script]
    cold, warm = (subprocess.run(run, capture_output=True, text=True, check=False) for _ in range(2))
    assert cold.stdout == warm.stdout
    assert "DEV101" in warm.stdout
    assert warm.stderr.splitlines()[-1] == "HEAVY []"


def test_other_settings_are_other_results(project):
    write(project, {"a.py": BAD})
    assert found(".") == [("a.py", "DEV101")]
    assert found(".", "--ignore", "DEV101") == []
    write(project, {"devlint.toml": 'severity = { DEV101 = "warning" }\n'})
    assert json.loads(devlint(".", "--output-format", "json").stdout)[0]["severity"] == "warning"


def test_paths_are_told_from_where_the_run_is(project, monkeypatch):
    write(project, {"src/a.py": BAD})
    assert found(".") == [("src/a.py", "DEV101")]
    monkeypatch.chdir(project / "src")
    assert found(".") == [("a.py", "DEV101")]
    assert found("../src") == [("../src/a.py", "DEV101")]


def test_fixes_of_what_is_kept(project):
    write(project, {"a.py": BAD, "b.py": CLEAN})
    devlint(".")
    assert "x = x.to" in devlint(".", "--diff").stdout
    done = devlint(".", "--fix")
    assert "1 fixed, 0 remaining" in done.stdout
    assert "x = x.to" in (project / "a.py").read_text()
    assert found(".") == []


def test_notebooks_baselines_and_suppressions(project):
    cell = {"cell_type": "code", "source": BAD, "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    write(project, {"a.ipynb": json.dumps(notebook), "b.py": BAD.replace("\n", "  # noqa: DEV101\n"), "c.py": BAD})
    runs = [devlint(".", "--output-format", form).stdout for form in ("json", "text", "json", "text")]
    assert runs[:2] == runs[2:]
    assert '"cell": 1' in runs[0]
    assert held(".") == "3 of 3"
    devlint("baseline", ".")
    assert found(".") == []
    write(project, {"c.py": BAD + "x.cuda()\n"})
    assert found(".") == [("c.py", "DEV101")]


def test_what_a_change_brings(project):
    commit(project, {"a.py": CLEAN, "b.py": BAD})
    devlint(".")
    write(project, {"a.py": BAD})
    for _ in range(2):
        assert found("--since=HEAD", ".") == [("a.py", "DEV101")]


def test_what_the_hot_code_of_another_file_begins_and_ends_to_call(project):
    net = "from torch import nn\n\nfrom {0}\n\n\nclass Net(nn.Module):\n    def {1}(self, x):\n        return {2}\n"
    helper = "import torch\n\n\ndef longest(mask):\n    return mask.sum().item()\n"
    write(project, {"helper.py": helper, "net.py": net.format("helper import shortest", "forward", "x")})
    select = (".", "--select", "DEV501", "--preview")
    assert found(*select) == []
    for imported, method, call, told in [
        ("helper import longest", "forward", "longest(x)", True),
        ("helper import longest", "load_weights", "longest(x)", False),
        ("helper import longest", "forward", "longest(x) + 1", True),
        ("other import longest", "forward", "longest(x)", False),
    ]:
        write(project, {"net.py": net.format(imported, method, call)})
        assert found(*select) == ([("helper.py", "DEV501")] if told else [])


def test_broken_files_are_told_each_time(project):
    write(project, {"a.py": "import torch\nx = torch.ones(3).to(\n", "b.py": BAD})
    for _ in range(2):
        done = devlint(".", "--output-format", "concise")
        assert done.returncode == 2
        assert "DEV000" in done.stdout
        assert "DEV101" in done.stdout


def test_where_it_is_kept(project):
    write(project, {"a.py": CLEAN})
    devlint(".", "--no-cache")
    devlint(".", env={"DEVLINT_NO_CACHE": "1"})
    assert not (project / ".devlint_cache").exists()
    devlint(".", "--cache-dir", "by option")
    devlint(".", env={"DEVLINT_CACHE_DIR": "by variable"})
    write(project, {"devlint.toml": 'cache-dir = "by setting"\n'})
    devlint(".")
    for name in ("by option", "by variable", "by setting"):
        assert (project / name / "CACHEDIR.TAG").is_file()
        assert (project / name / ".gitignore").read_text().splitlines()[-1] == "*"
    assert not (project / ".devlint_cache").exists()


def test_clean(project):
    write(project, {"a.py": CLEAN})
    devlint(".")
    write(project, {".devlint_cache/mine.txt": "mine"})
    assert devlint("clean").stdout == f"Removed: {project / '.devlint_cache'}\n"
    assert [path.name for path in (project / ".devlint_cache").iterdir()] == ["mine.txt"]
    assert devlint("clean").stdout.startswith("Nothing to remove")
    # Whatever a project's settings name, what isn't a cache stays.
    write(project, {"devlint.toml": 'cache-dir = "src"\n', "src/results-of-mine.txt": "mine"})
    assert devlint("clean").stdout.startswith("Nothing to remove")
    assert (project / "src/results-of-mine.txt").exists()


def test_a_folder_that_can_not_be_written_is_done_without(project):
    write(project, {"a.py": BAD, ".devlint_cache": "a file"})
    assert found(".") == [("a.py", "DEV101")]
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    (project / ".devlint_cache").unlink()
    (project / ".devlint_cache").symlink_to(elsewhere)
    assert found(".") == [("a.py", "DEV101")]
    assert not any(elsewhere.iterdir())


# -- damage ------------------------------------------------------------------------------------------------------------


def _database(project: Path) -> Path:
    return next((project / ".devlint_cache").glob("*.sqlite"))


@pytest.mark.slow
def test_damage_is_a_miss(project):
    write(project, {"a.py": BAD, "b.py": "from a import x\n\nx.cuda()\n", "c.py": CLEAN})
    cold = found(".")
    database = _database(project)
    whole = database.read_bytes()
    dice = random.Random(1)
    for _ in range(12):
        raw = bytearray(whole)
        for _ in range(dice.choice((1, 30))):
            raw[dice.randrange(len(raw))] = dice.randrange(256)
        database.write_bytes(raw[: dice.choice((len(raw), len(raw) // 2, 10))])
        assert found(".") == cold
    assert held(".") == "3 of 3"


def test_a_database_of_somebody_else(project):
    write(project, {"a.py": BAD})
    found(".")
    database = _database(project)
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TRIGGER trap AFTER INSERT ON entry BEGIN SELECT load_extension('x'); END")
    connection.close()
    assert [held("."), held(".")] == ["0 of 1", "1 of 1"]


def test_runs_at_the_same_time(project):
    write(project, {f"m{i}.py": BAD for i in range(6)})
    run = [sys.executable, "-m", "devlint", ".", "--output-format", "json"]
    running = [subprocess.Popen(run, stdout=subprocess.PIPE) for _ in range(4)]
    assert len({process.communicate()[0] for process in running}) == 1
    assert held(".") == "6 of 6"


def test_an_old_result_is_of_no_use_to_changed_rules(tmp_path, monkeypatch):
    pack = tmp_path / "somepack"
    rule = load_registry().rules()[4]
    write(pack, {"__init__.py": "", "rules.py": "x = 1\n"})
    monkeypatch.syspath_prepend(tmp_path)
    __import__("somepack")
    mine = type("Mine", (rule,), {"code": "MINE001", "__module__": "somepack.rules"})
    registry = Registry([mine])
    kept: dict[str, str] = {}
    names = []
    for text in ("x = 1\n", "x = 1\n", "x = 2\n"):
        write(pack, {"rules.py": text})
        name, identity = identity_of(registry, kept.get)
        names.append(name)
        kept |= [identity.split()] if identity else []
    assert names[0] == names[1] != names[2]


# -- whatever is edited ------------------------------------------------------------------------------------------------

_USER = """\
import torch
from near import move
from pkg.deep import DEVICE, Net

x = move(torch.ones(3))
print(x.numpy())
net = torch.nn.DataParallel(Net())
net.other
y = torch.ones(3).to(DEVICE) + torch.ones(3)
"""
_STEP = """\
import torch

def step(model, batch):
    loss = model(batch.cuda()).sum()
    print(loss.item())
    return loss

def made(x):
    return x + torch.ones(3)
"""
_LOOP = """\
import torch
from {step} import step, made

model = torch.nn.Linear(3, 3).cuda()
loader = torch.utils.data.DataLoader([])
for batch in loader:
    step(model, batch).backward()
made(torch.ones(3).cuda())
"""
# What each file may be; "" is that it isn't there.
_STATES: dict[str, tuple[str, ...]] = {
    "user.py": (_USER, _USER.replace("near", "pkg.near"), _USER.replace("pkg.deep", "pkg"), _USER + "y.cuda()\n"),
    "near.py": (
        'DEVICE = "cuda"\n\ndef move(x):\n    return x.to(DEVICE)\n',
        'DEVICE = "cpuu"\n\ndef move(x):\n    return x.to(DEVICE)\n',
        "def move(x):\n    return x\n",
        "from pkg.near import *\n",
        "def move(:\n",
        "",
    ),
    "pkg/__init__.py": (
        "",
        "from pkg.step import step\n",
        "from .deep import Net\n",
        "from .deep import *\nfrom .step import *\n",
        "from .deep import DEVICE, Net\nfrom .step import *\n",
    ),
    "pkg/near.py": ("def move(x):\n    return x.cuda()\n", "from .deep import move\n", ""),
    "pkg/deep.py": (
        'import torch\nDEVICE = "cuda"\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n',
        'import torch\nDEVICE = "cpu"\n\ndef move(x):\n    return x.cuda()\n\nclass Net(torch.nn.Module):\n    other = 1\n',
        "",
    ),
    "pkg/step.py": (_STEP, _STEP.replace(".item()", ""), ""),
    "step.py": (_STEP, "from pkg.step import made, step\n", ""),
    "loop.py": (_LOOP.format(step="step"), _LOOP.format(step="pkg.step"), ""),
    "pkg/loop.py": (_LOOP.format(step="pkg.step"), _LOOP.format(step="pkg"), ""),
    "torch.py": ("def ones(x):\n    return x\n", ""),
    "saved.py": ('import torch\n\nstate = {k.replace("module.", ""): v for k, v in torch.load("a.pt").items()}\n', ""),
}
_EDIT = st.sampled_from([(name, text) for name, texts in _STATES.items() for text in texts])


def _results(root: Path, cache: Results | None, jobs: int = 1) -> list[object]:
    under = Settings(root, src=(root, root / "src"))
    targets = sorted(discover([root], lambda _: under), key=lambda target: target.display)
    return [
        (result.display, result.findings, [finding.fix for finding in result.findings])
        for result in run_all(targets, Plan(), load_registry(), jobs=jobs, cache=cache)
    ]


def _follow(root: Path, edits: list[tuple[str, str]]) -> int:
    """Makes the edits one after the other and compares a warm run with a cold one after each; how many results held."""
    shutil.rmtree(root, ignore_errors=True)
    write(root, {name: texts[0] for name, texts in _STATES.items()})
    kept = 0
    for name, text in [("user.py", _USER), *edits]:
        write(root, {name: text})
        database = prepared(root / ".devlint_cache")
        assert database is not None
        cache = Results(database, load_registry())
        warm = _results(root, cache)
        kept += cache.held
        assert warm == _results(root, None), (name, text)
        # What was just written can be told apart once it has aged.
        for path in root.rglob("*.py"):
            os.utime(path, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns - 10_000_000_000))
    return kept


_SLOWLY = {"suppress_health_check": list(HealthCheck)}


@settings(max_examples=8, **_SLOWLY)
@given(st.lists(_EDIT, min_size=1, max_size=6))
def test_warm_equals_cold(tmp_path, edits):
    _follow(tmp_path / "tree", edits)


@pytest.mark.exhaustive
@settings(max_examples=150, **_SLOWLY)
@given(st.lists(_EDIT, min_size=1, max_size=12))
def test_warm_equals_cold_many_times(tmp_path, edits):
    _follow(tmp_path / "tree", edits)


def test_an_edit_costs_what_read_it(tmp_path):
    """One of the files that nothing hangs on: the others hold."""
    root = tmp_path / "tree"
    _follow(root, [("saved.py", _STATES["saved.py"][0])])
    write(root, {"saved.py": _STATES["saved.py"][0] + "print(state)\n"})
    cache = Results(prepared(root / ".devlint_cache"), load_registry())
    total = len(_results(root, cache))
    assert cache.held >= total - 2


def test_an_edit_behind_a_package_costs_those_that_use_what_comes_from_there(tmp_path):
    """What a package hands on ties its users to where that is from, not to all that others take out of it."""
    root = tmp_path / "tree"
    texts = {"pkg/__init__.py": "from .near import *\nfrom .deep import move as carried\n", "user.py": _USER}
    texts |= {"pkg/near.py": "def move(x):\n    return x.cuda()\n", "pkg/deep.py": "def move(x):\n    return x.cpu()\n"}
    uses = "import torch\nfrom pkg import {0}\n\nx = {0}(torch.ones(3)) + torch.ones(3).cuda()\n"
    texts |= {f"{name}.py": uses.format(name) for name in ("move", "carried")}
    write(root, texts)
    cache = Results(prepared(root / ".devlint_cache"), load_registry())
    _results(root, cache)
    write(root, {"pkg/deep.py": "def move(x):\n    return x.cuda()\n"})
    cache = Results(prepared(root / ".devlint_cache"), load_registry())
    held = cache.known(discover([root], lambda _: Settings(root, src=(root, root / "src"))))
    assert {Path(name).name for name in held} >= {"move.py", "near.py"}
    assert not {Path(name).name for name in held} & {"carried.py", "deep.py", "user.py"}


def test_what_an_edit_has_asked_anew_is_looked_for_once(tmp_path, monkeypatch):
    root = tmp_path / "tree"
    _follow(root, [("pkg/near.py", _STATES["pkg/near.py"][1]), ("saved.py", _STATES["saved.py"][0] + "print(state)\n")])
    searched = []
    monkeypatch.setattr(Texts, "kept", lambda _, path: searched.append(path) or path.read_bytes())
    cache = Results(prepared(root / ".devlint_cache"), load_registry())
    assert len(_results(root, cache)) == cache.held
    assert searched == []


def test_of_what_was_asked_of_all_files_the_edited_one_alone_is_searched(tmp_path, monkeypatch):
    root = tmp_path / "tree"
    # Where words stand is kept by the first run that looks at results.
    _follow(root, [("pkg/deep.py", _STATES["pkg/deep.py"][0] + "print()\n")])
    searched = []
    kept = Texts.kept
    monkeypatch.setattr(Texts, "kept", lambda self, path: searched.append(path.name) or kept(self, path))
    write(root, {"pkg/deep.py": _STATES["pkg/deep.py"][0] + "print(DEVICE)\n"})
    under = Settings(root, src=(root, root / "src"))
    Results(prepared(root / ".devlint_cache"), load_registry()).known([*discover([root], lambda _: under)])
    assert "saved.py" not in searched


def test_processes_keep_what_they_saw(tmp_path):
    root = tmp_path / "tree"
    write(root, {name: texts[0] for name, texts in _STATES.items()})
    first = Results(prepared(root / ".devlint_cache"), load_registry())
    cold = _results(root, first, jobs=2)
    again = Results(prepared(root / ".devlint_cache"), load_registry())
    assert _results(root, again) == cold
    assert (first.held, again.held) == (0, len(cold))
    write(root, {"pkg/deep.py": _STATES["pkg/deep.py"][1]})
    assert _results(root, Results(prepared(root / ".devlint_cache"), load_registry()), jobs=2) == _results(root, None)


def test_a_cache_stays_within_bounds(tmp_path, monkeypatch):
    from devlint.cache import store

    monkeypatch.setattr(store, "_SMALL", 1)
    monkeypatch.setattr(store, "_GROWTH", 0)
    monkeypatch.setattr(store, "MAX_BYTES", 100_000)
    root = tmp_path / "tree"
    write(root, {f"m{i}.py": BAD for i in range(20)})
    database = prepared(root / ".devlint_cache")
    sizes = []
    for turn in range(12):
        write(root, {f"m{i}.py": f"{BAD}# {turn}\n" + "import os, re, json, sys\n" * turn for i in range(20)})
        _results(root, Results(database, load_registry()))
        sizes.append(database.stat().st_size)
    assert sizes[-1] < 3 * max(sizes[0], store.MAX_BYTES)
    with sqlite3.connect(database) as connection:
        records = {r for (rs,) in connection.execute("SELECT records FROM entry") for r in store._unpacked(rs)}
        assert records == {r for (r,) in connection.execute("SELECT id FROM record")}
    connection.close()
