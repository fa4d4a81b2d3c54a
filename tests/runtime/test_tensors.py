"""What CUDA tensors and torch.cuda answer: the same code on virtual and on real devices."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.cuda import current_stream  # before virtual CUDA is on

CUDA0 = torch.device("cuda", 0)


def test_factories(gpus):
    made = [
        torch.zeros(2, device="cuda"),
        torch.ones(2, device=0),
        torch.full((2,), 3.0, device=torch.device("cuda")),
        torch.arange(3, device="cuda:0"),
        torch.eye(2, device="cuda"),
        torch.linspace(0, 1, 3, device="cuda"),
        torch.rand(2, device="cuda"),
        torch.randint(3, (2,), device="cuda"),
        torch.randperm(3, device="cuda"),
        torch.empty(2, device="cuda"),
        torch.empty_strided((2, 2), (2, 1), device="cuda"),
        torch.tensor([1.0], device="cuda"),
        torch.as_tensor([1.0], device="cuda"),
        torch.asarray([1.0], device="cuda"),
        torch.tril_indices(2, 2, device="cuda"),
        torch.hann_window(3, device="cuda"),
        torch.normal(0.0, 1.0, (2,), device="cuda"),
    ]
    assert {tensor.device for tensor in made} == {CUDA0}
    x = made[0]
    derived = [torch.zeros_like(x), torch.rand_like(x), x.new_zeros(2), x.new_tensor([1]), x.new_full((1,), 2.0)]
    derived += [
        torch.tensor(x.tolist(), device=x.device),
        x.new_empty(3),
        x.clone(),
        x.detach(),
        x.data,
        x[:1],
        x.view(1, 2),
    ]
    derived += [*x.split(1), *torch.meshgrid(x, x, indexing="ij"), x.expand(3, 2), x.t(), x.float(), x.half()]
    assert {tensor.device for tensor in derived} == {CUDA0}
    assert torch.zeros_like(x, device="cpu").device.type == x.new_zeros(1, device="cpu").device.type == "cpu"


def test_moves(gpus):
    host = torch.arange(3.0)
    there = host.to("cuda")
    assert there is not host
    assert there.to("cuda") is there
    assert there.to(CUDA0) is there
    assert there.cuda() is there
    assert host.cpu() is host
    assert there.cpu().tolist() == [0.0, 1.0, 2.0]
    assert there.to(torch.float64).device == CUDA0
    assert host.to(there).device == host.to(tensor=there).device == CUDA0
    assert host.to("cuda", torch.float16, non_blocking=True, copy=True).dtype == torch.float16
    assert host.int().type_as(there).type() == "torch.cuda.FloatTensor"
    assert there.type("torch.LongTensor").device.type == "cpu"
    assert host.type("torch.cuda.DoubleTensor").is_cuda
    there[0] = 9.0
    assert host[0] == 0.0
    moved = host.requires_grad_().cuda()
    assert not moved.is_leaf
    (moved * 2).sum().backward()
    assert host.grad.device.type == "cpu"
    assert host.grad.tolist() == [2.0, 2.0, 2.0]


def test_attributes(gpus):
    x = torch.ones(2, requires_grad=True, device="cuda")
    assert x.is_cuda
    assert not x.is_cpu
    assert x.get_device() == 0
    assert torch.ones(1).get_device() == -1
    assert str(x.device) == "cuda:0"
    assert repr(x.detach()) == "tensor([1., 1.], device='cuda:0')"
    assert x.device != torch.device("cuda")
    assert x.device.type == "cuda"
    assert x.grad is None
    (x * x).sum().backward()
    assert x.grad.device == CUDA0
    assert isinstance(x.detach(), torch.cuda.FloatTensor)
    assert x.detach().__cuda_array_interface__ is not None if gpus == "real" else True


def test_in_place_and_views(gpus):
    base = torch.zeros(2, 3, device="cuda")
    row = base[0]
    row += 1
    assert base.sum().item() == 3.0
    base.copy_(torch.ones(2, 3))
    assert base.device == CUDA0
    host = torch.zeros(2, 3)
    host.copy_(base)
    assert host.device.type == "cpu"
    assert host.sum() == 6.0
    base[0] = torch.arange(3.0)  # a slice takes data from anywhere
    base[:, 1] = 5
    base[0, 0] = torch.tensor(7.0)
    assert base[0].tolist() == [7.0, 5.0, 2.0]
    assert base.set_(torch.ones(4, device="cuda")).shape == (4,)
    base.data = torch.ones(2)
    assert base.device.type == "cpu"


def test_host_numbers_mix_in(gpus):
    x, number = torch.ones(3, device="cuda"), torch.tensor(2.0)
    for mixed in (
        x + number,
        number * x,
        x.mul_(number),
        torch.where(x > 0, x, number),
    ):
        assert mixed.device == CUDA0
    assert (number > x).device == CUDA0
    assert x.masked_fill(x > 0, number).device == CUDA0
    assert torch.maximum(x, number).tolist() == [2.0, 2.0, 2.0]


def test_host_indices_reach_in(gpus):
    x = torch.arange(6.0, device="cuda").view(2, 3)
    index, mask = torch.tensor([1, 0]), torch.tensor([True, False])
    assert x[index].device == x[mask].device == x[:, torch.tensor([2])].device == CUDA0
    x[index] = 1.0
    x[mask] = torch.tensor(4.0)
    assert x.tolist() == [[4.0, 4.0, 4.0], [1.0, 1.0, 1.0]]
    assert [1, 2, 3][torch.tensor(1, device="cuda")] == 2
    assert torch.arange(3)[torch.tensor(1, device="cuda")].item() == 1


def test_pickle_copy_and_checkpoints(gpus):
    x = torch.arange(3.0, device="cuda")
    parameter = nn.Parameter(x)
    for again in (
        pickle.loads(pickle.dumps(x)),
        copy.deepcopy(x),
        copy.copy(x),
        copy.deepcopy(parameter),
        copy.deepcopy(nn.Linear(2, 2).cuda()).weight,
    ):
        assert again.device == CUDA0
    saved = io.BytesIO()
    torch.save({"x": x, "p": parameter, "h": torch.ones(1)}, saved)

    def load(**options):
        saved.seek(0)
        return torch.load(saved, **options)

    assert load()["x"].device == load()["p"].device == CUDA0
    assert load()["h"].device.type == "cpu"
    assert load(map_location="cpu")["x"].device.type == "cpu"
    assert load(map_location="cuda")["h"].device == CUDA0
    assert load(map_location=lambda storage, location: storage)["x"].device.type == "cpu"
    assert load(map_location={"cuda:0": "cpu"})["x"].device.type == "cpu"
    assert load()["x"].tolist() == [0.0, 1.0, 2.0]
    assert "_devlint_place" not in saved.getvalue().decode("latin1")


def test_load_state_dict_keeps_places(gpus):
    there, host = nn.Linear(2, 2).cuda(), nn.Linear(2, 2)
    there.load_state_dict(host.state_dict())
    assert there.weight.device == CUDA0
    assert torch.equal(there.weight.cpu(), host.weight)
    host.load_state_dict(there.state_dict())
    assert host.weight.device.type == "cpu"


def test_default_device(gpus):
    with torch.device("cuda"):
        assert torch.zeros(2).device == nn.Linear(2, 2).weight.device == torch.tensor([1]).device == CUDA0
        assert torch.zeros(2, device="cpu").device.type == "cpu"
    torch.set_default_device("cuda")
    try:
        assert torch.ones(1).device == torch.get_default_device() == CUDA0
        with torch.device("cpu"):
            assert torch.ones(1).device.type == "cpu"
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"


def test_default_device_changes_inside():
    from devlint.runtime import virtual_cuda, watch_devices

    try:
        torch.set_default_device("cpu")
        with virtual_cuda(), watch_devices() as watch:
            torch.set_default_device("cuda")
            assert torch.ones(1).item() == 1.0
            torch.set_default_device(None)
            assert torch.ones(1, device="cuda").device == CUDA0
            torch.set_default_device("cuda")
        assert [sync.operation for sync in watch.report().syncs] == ["item"]
        with virtual_cuda(), watch_devices() as watch:
            assert torch.ones(1).device == CUDA0
            torch.set_default_device(None)
            assert torch.ones(1, device="cuda").item() == 1.0
        assert [sync.operation for sync in watch.report().syncs] == ["item"]
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"
    assert torch._C._len_torch_function_stack() == 0


def test_current_device(two_gpus):
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        assert torch.zeros(1, device="cuda").device.index == 1
        assert torch.zeros(1).cuda().device.index == 1
    torch.cuda.set_device("cuda:1")
    try:
        assert torch.ones(1).to("cuda").device.index == 1
        assert torch.cuda.current_stream().device.index == 1
        with torch.cuda.device_of(torch.ones(1, device="cuda:0")):
            assert torch.cuda.current_device() == 0
    finally:
        torch.cuda.set_device(0)
    assert torch.ones(1, device="cuda:1").to("cuda:0").device.index == 0


def test_namespace(gpus):
    from torch.cuda import device_count, is_available

    assert is_available()
    assert device_count() >= 1
    assert torch.backends.cuda.is_built()
    assert torch.version.cuda
    assert isinstance(torch.cuda.get_device_name(), str)
    assert torch.cuda.get_device_capability() >= (3, 0)
    assert torch.cuda.get_device_properties("cuda").total_memory > 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.is_initialized()
    assert not torch.cuda.is_current_stream_capturing()


@pytest.mark.skipif(not hasattr(torch, "accelerator"), reason="this torch has no torch.accelerator")
def test_accelerator(two_gpus):
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == "cuda"
    with torch.cuda.device(1):
        assert torch.accelerator.current_device_index() == 1
    if hasattr(torch.accelerator, "get_device_capability"):
        assert torch.float16 in torch.accelerator.get_device_capability()["supported_dtypes"]


def test_streams_and_events(gpus):
    assert current_stream() == torch.cuda.default_stream()
    stream = torch.cuda.Stream()
    assert isinstance(stream, torch.cuda.Stream)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        x = torch.ones(2, device="cuda") * 2
    torch.cuda.current_stream().wait_stream(stream)
    x.record_stream(torch.cuda.current_stream())
    assert torch.cuda.current_stream() != stream
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    x.sum()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert end.query()
    with pytest.raises((RuntimeError, ValueError), match=r"enable_timing|invalid resource handle"):
        torch.cuda.Event().elapsed_time(torch.cuda.Event())


def test_memory_figures(gpus):
    gc.collect()
    before = torch.cuda.memory_allocated()
    kept = torch.zeros(1024, device="cuda")
    view = kept[:10]
    assert torch.cuda.memory_allocated() - before == 4096
    assert torch.cuda.max_memory_allocated() >= before + 4096
    assert torch.cuda.memory_reserved() >= 4096
    del kept
    assert torch.cuda.memory_allocated() - before == 4096
    del view
    assert torch.cuda.memory_allocated() == before
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    torch.cuda.reset_peak_memory_stats()
    assert isinstance(torch.cuda.memory_summary(), str)


def test_random_numbers(gpus):
    torch.cuda.manual_seed(3)
    first = torch.rand(3, device="cuda")
    torch.cuda.manual_seed_all(3)
    assert torch.equal(first, torch.rand(3, device="cuda"))
    state = torch.cuda.get_rng_state()
    second = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(second, torch.rand(3, device="cuda"))
    generator = torch.Generator("cuda").manual_seed(5)
    assert generator.device.type == "cuda"
    assert isinstance(generator, torch.Generator)
    one = torch.randn(2, device="cuda", generator=generator)
    assert torch.equal(one, torch.randn(2, device="cuda", generator=torch.Generator("cuda").manual_seed(5)))
    with torch.random.fork_rng():
        torch.rand(1, device="cuda")


def test_pinned_memory(gpus):
    x = torch.ones(2)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned.pin_memory() is pinned
    assert torch.empty(2, pin_memory=True).is_pinned()
    assert not pinned.cuda(non_blocking=True).is_pinned()


def test_autocast_dtypes(gpus):
    x, w = torch.randn(2, 4, device="cuda"), torch.randn(4, 4, device="cuda")
    with torch.autocast("cuda"):
        product = x @ w
        assert product.dtype == torch.float16
        assert nn.functional.linear(x, w).dtype == torch.float16
        assert product.softmax(-1).dtype == torch.float32
        assert (product + x).dtype == torch.float32
        assert torch.cat([product, x]).dtype == torch.float32
        assert product.relu().dtype == torch.float16
        assert product.sum().dtype == torch.float32
        assert (torch.ones(2, 4) @ torch.ones(4, 2)).dtype == torch.float32
        with torch.autocast("cuda", enabled=False):
            assert (x @ w).dtype == torch.float32
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (x @ w).dtype == torch.bfloat16
    assert (x @ w).dtype == torch.float32


def test_hooks_see_the_device(gpus):
    seen = []
    layer = nn.Linear(2, 2).cuda()
    layer.weight.register_hook(lambda grad: seen.append(grad.device))
    layer.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.device))
    layer.register_full_backward_hook(lambda module, given, out: seen.extend(g.device for g in (*given, *out)))
    layer(torch.ones(1, 2, device="cuda", requires_grad=True)).sum().backward()
    assert len(seen) == 4
    assert set(seen) == {CUDA0}


def test_subclasses_keep_their_kind(gpus):
    class Named(torch.Tensor):
        pass

    x = torch.ones(2, device="cuda").as_subclass(Named)
    assert type(x * 2) is Named
    assert (x * 2).device == CUDA0
    with pytest.raises(RuntimeError, match="two devices"):
        x + torch.ones(2)


def test_to_empty_meta_and_swap(gpus):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model.to_empty(device="cuda")
    assert {tensor.device for tensor in model.state_dict().values()} == {CUDA0}
    lazy = nn.LazyLinear(2).cuda()
    assert lazy(torch.ones(1, 5, device="cuda")).device == lazy.weight.device == CUDA0


def test_threads_take_part(gpus):
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(torch.ones(2, device="cuda").sum().device))
    thread.start()
    thread.join()
    assert found == [CUDA0]


def test_everything_is_put_back():
    from devlint.runtime import virtual_cuda, watch_devices

    def snapshot():
        owners = (torch, torch.cuda, torch._C, torch.Tensor, torch.UntypedStorage, torch.autograd.Function)
        owners += (torch._C._functorch, torch.nn.functional, torch.jit, torch.autograd.graph, torch.export)
        owners += (torch._dynamo.eval_frame, *([torch.accelerator] if hasattr(torch, "accelerator") else []))
        return [{name: id(value) for name, value in vars(owner).items()} for owner in owners]

    with virtual_cuda():  # what torch imports on first use
        torch.cuda.memory_allocated()
    before = snapshot()
    with virtual_cuda(), watch_devices(), virtual_cuda(2):
        nn.Linear(2, 2).cuda()
        assert torch.cuda.device_count() == 2
    assert snapshot() == before
    assert not torch.cuda.is_available()


def test_a_torch_that_lacks_something_is_named():
    program = "import torch; del torch.autograd.graph._engine_run_backward; from devlint.runtime import virtual_cuda"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("ImportError: devlint.runtime.virtual_cuda can't be loaded: ")
    assert "has no attribute '_engine_run_backward'" in run.stderr.splitlines()[-1]


def test_decorator_and_nesting():
    from devlint.runtime import virtual_cuda

    @virtual_cuda(3)
    def count():
        return torch.cuda.device_count()

    assert count() == 3
    with virtual_cuda(2):
        assert count() == 3
        assert torch.cuda.device_count() == 2
    with pytest.raises(ValueError, match="count must be at least 1"):
        virtual_cuda(0)


def test_a_view_of_a_parameter_stays_there_without_gradients(gpus):
    with torch.no_grad(), pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        nn.Parameter(torch.ones(2, 2, device="cuda")).t().numpy()
