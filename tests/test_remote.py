"""Linting by the workers of a real Dask cluster, one of which is killed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from repositories import write
from test_cli import devlint

distributed = pytest.importorskip("distributed")

BAD = 'import torch\n\nx = torch.ones(3)\nx.to("cuda")\n'
# A rule that ends the process that runs it first.
PACK = '''
import os
import signal
from pathlib import Path

from devlint.lazy import m
from devlint.rule import Report, Rule


class Deadly(Rule):
    """A rule that ends its process.

    ## What it does
    Flags calls of `deadly`.

    ## Why is this bad
    It ends the process, once.
    """

    code = "XYZ001"
    name = "deadly"
    trigger = r"deadly"

    def shape(self):
        return m.Call(func=m.Name("deadly"))

    def judge(self, node, facts):
        mark = Path(os.environ["DEADLY_MARK"])
        if not mark.exists():
            mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        yield Report(node, "deadly")
'''


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEVLINT_NO_CACHE", "1")
    monkeypatch.setenv("DEADLY_MARK", str(tmp_path / "mark"))
    site = tmp_path / "site"
    write(
        site,
        {
            "mypack/__init__.py": PACK,
            "mypack-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: mypack\nVersion: 1.2\n",
            "mypack-1.2.dist-info/entry_points.txt": "[devlint.rules]\nmypack = mypack\n",
        },
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    files = {f"src/m{i}.py": BAD + "#\\n" * 30_000 for i in range(6)}
    write(tmp_path, files | {"src/user.py": "import torch\nfrom m1 import x\nx.cuda()\n"})
    return tmp_path


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def cluster(project: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and its two workers, each a process of its own."""
    at = f"127.0.0.1:{_free_port()}"
    dask = [sys.executable, "-m", "dask"]
    commands = [
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", at.split(":")[1], "--no-dashboard"],
        *([*dask, "worker", f"tcp://{at}", "--nthreads", "1", "--no-nanny", "--no-dashboard"] for _ in range(2)),
    ]
    # Elsewhere than the run.
    (project / "elsewhere").mkdir()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": project / "elsewhere"}
    processes = [subprocess.Popen(command, **quiet) for command in commands]
    try:
        with distributed.Client(f"tcp://{at}", timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield f"dask://{at}", processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_cluster_finds_the_same_and_survives_a_killed_worker(project, cluster):
    address, workers = cluster
    run = ["src", "--select", "ALL", "--output-format", "json"]
    assert devlint(*run, "--executor", address).stdout == devlint(*run).stdout
    # Kept as well.
    kept = [*run, "--cache-dir", "kept"]
    first = devlint(*kept, "--executor", address, env={"DEVLINT_NO_CACHE": ""})
    write(project, {"src/deadly.py": "import torch\n\ndeadly()\n"})
    killed = devlint(*kept, "--executor", address, env={"DEVLINT_NO_CACHE": ""})
    assert (project / "mark").exists(), killed.stdout + killed.stderr
    assert [process.poll() for process in workers].count(-signal.SIGKILL) == 1
    assert killed.stdout == devlint(*run).stdout != first.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["src", "--executor", "dask://127.0.0.1:1"], "can't be reached"),
        (["src", "--executor", "127.0.0.1:1"], "isn't dask://HOST:PORT"),
        (["src", "--executor", "dask://127.0.0.1:1", "--fix"], "leave out --fix"),
    ],
)
def test_a_cluster_that_is_not_there(project, arguments, said, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    done = devlint(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
