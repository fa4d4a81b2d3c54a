"""Processes that a run starts: spawned, by torchrun, by subprocess. Each is virtual as its parent is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
import torch.distributed.fsdp
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

from devlint.runtime import virtual_cuda

# Each starts processes that import torch.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TELL = "import torch; print(torch.cuda.device_count(), torch.ones(1).cuda(1).device)"


def python(*arguments, folder=ROOT, **environment):
    """What a fresh Python prints, in this process's environment."""
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        cwd=folder,
        check=False,
    )
    return (done.stdout + done.stderr).strip()


def test_subprocesses():
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "DEVLINT_CHILDREN")}
    with virtual_cuda(2):
        assert python("-c", TELL) == "2 cuda:1"
        with virtual_cuda(3):
            assert python("-c", "import torch; print(torch.cuda.device_count())") == "3"
        assert python("-c", TELL) == "2 cuda:1"
        grandchild = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TELL!r}])"
        assert python("-c", grandchild) == "2 cuda:1"
    assert {name: os.environ.get(name) for name in before} == before
    if not torch.cuda.is_available():
        assert python("-c", "import torch; print(torch.cuda.device_count())") == "0"


def test_torch_is_not_imported_for_them():
    with virtual_cuda():
        assert python("-c", "import sys; print('torch' in sys.modules, 'devlint' in sys.modules)") == "False False"
        assert python("-c", "import sys; print([p for p in sys.path if p.endswith('start')])") == "[]"


def test_isolated_ones_are_not_reached():
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    with virtual_cuda():
        for option in ("-I", "-E"):
            assert python(option, "-c", "import torch; print(torch.cuda.is_available())") == "False"


def test_one_without_site_is_not_reached():
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    packages = str(Path(torch.__file__).parents[1])
    with virtual_cuda():
        tell = f"import sys; sys.path.append({packages!r}); import torch; print(torch.cuda.is_available())"
        assert python("-S", "-c", tell) == "False"


def test_the_next_sitecustomize_is_run(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = __file__")
    with virtual_cuda():
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])
        shown = python("-c", "import sys, sitecustomize; print(sys.mine == sitecustomize.__file__)", PYTHONPATH=path)
        assert shown == "True"


def test_what_the_program_hides_stays_hidden():
    with virtual_cuda(2):
        assert python("-c", "import torch; print(torch.cuda.device_count())", CUDA_VISIBLE_DEVICES="1") == "1"


def test_a_child_without_devlint_is_told_and_goes_on(tmp_path):
    (tmp_path / "devlint").mkdir()
    (tmp_path / "devlint/__init__.py").touch()
    with virtual_cuda():
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])
        shown = python("-c", "import torch; print(torch.ones(1).item())", folder=tmp_path, PYTHONPATH=path)
    assert shown.startswith("1.0\ndevlint: virtual CUDA can't be switched on in this process: ModuleNotFoundError")


def report(rank, folder):
    torch.cuda.set_device(rank)
    (folder / str(rank)).write_text(str(torch.ones(1, device="cuda").device))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(method, tmp_path):
    with virtual_cuda(2):
        mp.start_processes(report, (tmp_path,), nprocs=2, start_method=method)
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["cuda:0", "cuda:1"]


class Places(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.tensor([torch.cuda.device_count(), int(torch.ones(1).cuda().is_cuda)])


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_spawned_data_loaders(method):
    # As many as above: a fork server that runs keeps what it was started with.
    with virtual_cuda(2):
        loader = DataLoader(Places(), num_workers=1, multiprocessing_context=method)
        assert [batch.tolist() for batch in loader] == [[[2, 1]], [[2, 1]]]


RANKS = """
import os, sys
import torch, torch.distributed as dist
from torch import nn

def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    assert dist.get_backend() == "nccl"
    device = torch.device("cuda", rank)
    torch.manual_seed(rank)
    model = nn.Linear(3, 2).to(rank)
    WRAP
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(2):
        x, target = torch.randn(4, 3, device=device), torch.randn(4, 2)
        MOVE
        loss = (model(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    total = torch.full((1,), float(rank), device=device)
    dist.all_reduce(total)
    objects = [None, None]
    dist.all_gather_object(objects, rank)
    gathered = [torch.zeros(1, device=device) for _ in range(2)]
    dist.all_gather(gathered, model(torch.ones(1, 3)).detach().sum().reshape(1))  # one model on both
    print(f"rank {rank} {device} {total.item()} {objects} {gathered[0].equal(gathered[1])}\\n", end="", flush=True)
    # Who takes gloo down while another still talks to it may be aborted by a thread of its own.
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""
DDP = "model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])"
FSDP = "from torch.distributed.fsdp import FullyShardedDataParallel; model = FullyShardedDataParallel(model, device_id=rank)"
FSDP2 = "from torch.distributed.fsdp import fully_shard; fully_shard(model)"


def clean_environment():
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}


def devlint_run(script, *arguments, before=("-m", "torch.distributed.run", "--nproc-per-node", "2")):
    done = subprocess.run(
        [sys.executable, "-m", "devlint", "run", "--virtual-cuda", "2", *before, str(script), *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=ROOT,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def two_ranks(tmp_path, wrap, move="target = target.cuda()"):
    script = tmp_path / "train.py"
    script.write_text(RANKS.replace("WRAP", wrap).replace("MOVE", move))
    return devlint_run(script)


WAITS = """
import sys, torch, torch.multiprocessing as mp

def wait(rank):
    for _ in range(3 + rank):
        torch.ones(1, device=rank).item()

if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        mp.spawn(wait, nprocs=2)
    elif sys.argv[1] == "rank":
        wait(int(__import__("os").environ["RANK"]))
"""


@pytest.mark.parametrize("way", ["spawn", "torchrun"])
def test_counts_of_children_are_in_the_summary(tmp_path, way):
    script, written = tmp_path / "train.py", tmp_path / "report.json"
    script.write_text(WAITS)
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    before = ("--report", str(written), *(torchrun if way == "torchrun" else ()))
    code, _, err = devlint_run(script, "spawn" if way == "spawn" else "rank", before=before)
    assert code == 0, err
    assert "of this process and 2 that it started" in err
    waits = [event for event in json.loads(written.read_text())["events"] if event["kind"] == "sync"]
    assert [(event["operation"], event["line"], event["count"]) for event in waits] == [("item", 6, 7)]
    assert not list(Path(tempfile.gettempdir()).glob("devlint-*/*.part"))


@pytest.mark.parametrize("wrap", [DDP, FSDP], ids=["ddp", "fsdp"])
def test_torchrun(tmp_path, wrap):
    code, out, err = two_ranks(tmp_path, wrap)
    assert code == 0, err
    assert sorted(out.split("\n"))[-2:] == [f"rank {rank} cuda:{rank} 1.0 [0, 1] True" for rank in range(2)]


ACCELERATE = """
import torch
from torch import nn
from accelerate import Accelerator

accelerator = Accelerator()
model = nn.Linear(3, 2)
data = torch.utils.data.TensorDataset(torch.randn(16, 3), torch.randn(16, 2))
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), 0.1), torch.utils.data.DataLoader(data, batch_size=4)
)
for x, y in loader:
    accelerator.backward((model(x) - y).square().mean())
    optimizer.step()
print(f"rank {accelerator.process_index} {accelerator.device}\\n", end="", flush=True)
accelerator.end_training()
"""
LIGHTNING = """
import torch
import lightning
from torch import nn

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def training_step(self, batch, index):
        x, y = batch
        return (self.layer(x) - y).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

if __name__ == "__main__":
    data = torch.utils.data.TensorDataset(torch.randn(16, 3), torch.randn(16, 2))
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer = lightning.Trainer(accelerator="gpu", devices=2, strategy="ddp", max_epochs=1, **quiet)
    trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=4))
    print(f"rank {trainer.global_rank} {trainer.strategy.root_device}\\n", end="", flush=True)
"""
LAUNCHERS = {
    "accelerate": (ACCELERATE, ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")),
    "lightning": (LIGHTNING, ()),
}


@pytest.mark.parametrize("name", LAUNCHERS)
def test_launchers(tmp_path, name):
    pytest.importorskip(name)
    program, before = LAUNCHERS[name]
    script = tmp_path / "train.py"
    script.write_text(program)
    code, out, err = devlint_run(script, before=before)
    assert code == 0, err
    assert {f"rank {rank} cuda:{rank}" for rank in range(2)} <= set(out.splitlines())


def test_a_dropped_move_in_a_child_is_explained(tmp_path):
    code, _, err = two_ranks(tmp_path, DDP, "target.cuda()")
    assert code != 0
    assert "Expected all tensors to be on the same device" in err
    assert "created on cpu by randn at" in err
    assert "train.py:17 in main" in err  # where it was made


@pytest.mark.skipif(
    not hasattr(torch.distributed.fsdp, "fully_shard"),
    reason="this release of PyTorch has no FSDP2 in torch.distributed.fsdp",
)
def test_fsdp2_is_refused_in_words(tmp_path):
    code, _, err = two_ranks(tmp_path, FSDP2)
    assert code != 0
    assert "devlint: virtual CUDA does not support" in err
    assert "virtual CUDA does not support torch.distributed.fsdp._fully_shard._fully_shard.fully_shard here" in err
