"""Process groups of NCCL: what they refuse, and in whose words."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from devlint.runtime import virtual_cuda


@pytest.fixture
def alone(tmp_path):
    """Starts a process group of one."""

    def start(backend, **options):
        dist.init_process_group(backend, init_method=f"file://{tmp_path}/store", rank=0, world_size=1, **options)

    with virtual_cuda(2):
        yield start
        dist.destroy_process_group()


CALLS = {
    "all_reduce": lambda x: dist.all_reduce(x),
    "broadcast": lambda x: dist.broadcast(tensor=x, src=0),
    "all_gather": lambda x: dist.all_gather([x.clone()], x),
    "all_gather_into_tensor": lambda x: dist.all_gather_into_tensor(x.clone(), x),
    "reduce_scatter": lambda x: dist.reduce_scatter_tensor(x.clone(), x),
    "isend": lambda x: dist.isend(x, 0),
}


@pytest.mark.parametrize("name", CALLS)
def test_host_tensors_are_refused(alone, name):
    alone("nccl")
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        CALLS[name](torch.ones(2))
    if name != "isend":
        CALLS[name](torch.ones(2, device="cuda"))


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo,cuda:nccl", None])
def test_groups_for_both_take_both(alone, backend):
    alone(backend)
    for device in ("cpu", "cuda"):
        tensor = torch.ones(2, device=device)
        dist.all_reduce(tensor)
        assert tensor.device.type == device


def test_barriers(alone):
    alone("nccl")
    dist.barrier()
    dist.barrier(device_ids=[1])
    assert torch._C._get_accelerator().type == "cuda"  # as before


def test_backends_keep_their_names(alone):
    alone("nccl")
    assert dist.get_backend() == "nccl"
    assert dist.get_backend(dist.new_group([0])) == "nccl"
    assert dist.get_backend(dist.new_group([0], backend="gloo")) == "gloo"


def test_a_bound_group_takes_its_own_device_only(alone):
    alone("nccl", device_id=torch.device("cuda:1"))
    dist.all_reduce(torch.ones(2, device="cuda:1"))
    with pytest.raises(dist.DistBackendError, match="tensor not on device passed to init_process_group"):
        dist.all_reduce(torch.ones(2, device="cuda:0"))


def test_only_the_number_of_elements_counts(alone):
    alone("nccl")
    x = torch.arange(4.0, device="cuda").reshape(1, 4)
    for gather in (dist.all_gather_into_tensor, dist.reduce_scatter_tensor):
        result = torch.zeros(4, device="cuda")
        gather(result, x)
        assert result.tolist() == [0, 1, 2, 3]
        gather(result.view(2, 2), x)


def test_hooks_of_gradients_see_the_device(alone):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    alone("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to(1), device_ids=[1])
    seen = []

    def hook(state, bucket):
        seen.extend([bucket.buffer().device, *(gradient.device for gradient in bucket.gradients())])
        return default_hooks.fp16_compress_hook(None, bucket)

    model.register_comm_hook(None, hook)
    model(torch.ones(1, 2, device=1)).sum().backward()
    assert set(seen) == {torch.device("cuda:1")}
    assert model.module.weight.grad.device == torch.device("cuda:1")


def forgets_its_device(rank, folder):
    dist.init_process_group("nccl", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    try:
        dist.all_reduce(torch.ones(2, device="cuda"))
    except dist.DistBackendError as error:
        (folder / str(rank)).write_text(str(error))
    model = torch.nn.Linear(2, 2).to(rank)
    torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    torch.save(normalized(torch.nn.SyncBatchNorm(3).to(rank), half=rank), folder / f"{rank}.pt")
    dist.destroy_process_group()


def normalized(layer, half=None):
    """What a layer makes of a batch, or of half of it, its input's gradient, and the layer's state."""
    torch.manual_seed(0)
    batch = torch.randn(8, 3, 5)
    x = (batch if half is None else batch.chunk(2)[half]).to(layer.weight.device).requires_grad_()
    result = layer(x)
    (result**3).sum().backward()
    state = {name: value.cpu() for name, value in layer.state_dict().items()}
    return {"result": result.detach().cpu(), "gradient": x.grad.cpu(), "state": state}


@pytest.mark.slow
def test_two_processes(tmp_path):
    with virtual_cuda(2):
        mp.spawn(forgets_its_device, (tmp_path,), nprocs=2)
    parts, whole = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)], normalized(torch.nn.BatchNorm1d(3))
    for name in ("result", "gradient"):
        torch.testing.assert_close(torch.cat([part[name] for part in parts]), whole[name], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parts[0]["state"], whole["state"])
    for rank in range(2):
        assert "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 0" in (tmp_path / str(rank)).read_text()
