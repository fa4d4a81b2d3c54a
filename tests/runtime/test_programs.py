"""Working programs: they run on CUDA as they do on the CPU, and virtual CUDA gives the very same numbers."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from devlint.runtime import virtual_cuda
from tests.runtime import programs

EXPECTED: dict[object, list[float]] = {}


def on_cpu(program):
    """The program's plain CPU run. Cached: it is the same for each kind of GPU."""
    if program not in EXPECTED:
        EXPECTED[program] = program("cpu")
    return EXPECTED[program]


def check(which, found, expected):
    if which == "virtual":
        assert found == expected
    else:  # other kernels, other sums, another random stream
        assert all(math.isfinite(value) for value in found)
        assert len(found) == len(expected)


PLAIN_HALVES: list[float] = []


@pytest.fixture(scope="module", autouse=True)
def plain_runs():
    """Runs every program on the plain CPU before any device is there."""
    PLAIN_HALVES[:] = data_parallel_losses("cpu", in_halves)
    for program in programs.ONE_DEVICE + programs.TWO_DEVICES:
        on_cpu(program)


@pytest.mark.parametrize("program", programs.ONE_DEVICE, ids=lambda program: program.__name__)
def test_trains_alike_on_one_device(program, gpus):
    check(gpus, program("cuda"), EXPECTED[program])


@pytest.mark.parametrize("program", programs.TWO_DEVICES, ids=lambda program: program.__name__)
def test_trains_alike_on_two_devices(program, two_gpus):
    check(two_gpus, program("cuda:0", "cuda:1"), EXPECTED[program])


def data_parallel_losses(device, wrap):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
    wrapped = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        output = wrapped(torch.randn(6, 4).to(device))
        assert output.device == next(model.parameters()).device
        loss = output.square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_data_parallel_over_two_devices(two_gpus):
    found = data_parallel_losses("cuda:0", nn.DataParallel)
    if two_gpus == "virtual":
        assert found == PLAIN_HALVES
    else:
        assert found == pytest.approx(PLAIN_HALVES, rel=1e-2)


def in_halves(model):
    """What DataParallel computes over two devices, spelt out: the same model for each half of the batch."""
    return lambda batch: torch.cat([model(half) for half in batch.chunk(2)])


def test_data_parallel_replicas_see_their_own_device(two_gpus):
    seen = []

    class Probe(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.register_buffer("shift", torch.ones(2))

        def forward(self, x):
            seen.append((x.device, self.linear.weight.device, self.shift.device, torch.cuda.current_device()))
            return self.linear(x) + self.shift

    out = nn.DataParallel(Probe().cuda())(torch.randn(4, 2).cuda())
    assert out.device == torch.device("cuda:0")
    assert sorted(seen, key=lambda row: row[3]) == [
        (torch.device("cuda", i), torch.device("cuda", i), torch.device("cuda", i), i) for i in range(2)
    ]


def test_data_parallel_scatters_inputs_from_the_host(two_gpus):
    out = nn.DataParallel(nn.Linear(2, 3).cuda())(torch.ones(4, 2))
    assert out.device == torch.device("cuda:0")
    assert out.shape == (4, 3)


def test_machines_of_more_devices_follow_on_smaller_ones():
    for count in (1, 2):
        with virtual_cuda(count):
            assert nn.DataParallel(nn.Linear(2, 3).cuda())(torch.ones(4, 2)).shape == (4, 3)


def test_a_number_alone_names_an_accelerator(two_gpus):
    assert torch.device(1) == torch.device("cuda:1")


def test_optimizer_state_follows_parameters(gpus):
    for make in (torch.optim.Adam, torch.optim.AdamW):
        for options in ({"foreach": True}, {"fused": True}, {"foreach": False}):
            model = nn.Linear(2, 2).cuda()
            optimizer = make(model.parameters(), **options)
            model(torch.ones(1, 2, device="cuda")).sum().backward()
            optimizer.step()
            assert all(state["exp_avg"].is_cuda for state in optimizer.state.values())
            again = make(model.parameters(), **options)
            again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            again.step()


def test_foreach_groups_by_device(two_gpus):
    parameters = [nn.Parameter(torch.ones(2, device=f"cuda:{i}")) for i in range(2)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    torch.optim.Adam(parameters, foreach=True).step()
    assert nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True).item() == pytest.approx(2.0)
    assert [parameter.device.index for parameter in parameters] == [0, 1]


def test_distributed_data_parallel_in_one_process(gpus, tmp_path):
    import torch.distributed as dist

    dist.init_process_group("nccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2).cuda(), device_ids=[0])
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        before = model.module.weight.detach().clone()
        model(torch.ones(4, 3, device="cuda")).sum().backward()
        optimizer.step()
        assert model.module.weight.is_cuda
        assert not torch.equal(before, model.module.weight)
        total = torch.ones(2, device="cuda")
        dist.all_reduce(total)
        assert total.tolist() == [1.0, 1.0]
    finally:
        dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore:devlint")
def test_compile_gives_the_eager_result(gpus):
    if gpus == "real":
        pytest.skip("compiles for real")
    model = nn.Linear(3, 3).cuda()
    compiled = torch.compile(model)
    x = torch.randn(2, 3, device="cuda")
    assert torch.equal(compiled(x), model(x))
    assert set(compiled.state_dict()) == {"_orig_mod.weight", "_orig_mod.bias"}
    assert torch.equal(torch.jit.script(model)(x), model(x))
    assert torch.equal(torch.jit.trace(model, x)(x), model(x))


def test_functions_compiled_earlier_run_eagerly():
    def twice(x):
        return x * 2 if torch.compiler.is_compiling() else x + x + 1

    compiled = torch.compile(twice, backend="eager")
    assert compiled(torch.ones(1)).item() == 2.0
    with virtual_cuda():
        result = compiled(torch.ones(1, device="cuda"))
        assert result.is_cuda
        assert result.item() == 3.0
    assert compiled(torch.ones(1)).item() == 2.0


def test_moves_back_and_forth(gpus):
    model = nn.BatchNorm1d(3)
    kept = model.weight
    assert model.to("cuda") is model
    assert {tensor.device.type for tensor in [*model.parameters(), *model.buffers()]} == {"cuda"}
    assert model.weight is kept
    model.cpu()
    assert {tensor.device.type for tensor in [*model.parameters(), *model.buffers()]} == {"cpu"}
    assert model.to(device="cuda", dtype=torch.float64).weight.is_cuda
    assert not model.to(device="cpu").weight.is_cuda
    assert nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.is_cuda
