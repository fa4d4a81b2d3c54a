"""PyTorch's interfaces around devices, beyond operators: numbers as devices, memory, streams, hooks, kernels, backends."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map_only

from devlint.runtime import VirtualCudaUnsupportedError, virtual_cuda, watch_devices
from devlint.runtime.compat import MissingKernelError

CUDA0, CUDA1 = torch.device("cuda", 0), torch.device("cuda", 1)


def ones(*shape, **options):
    return torch.ones(*shape, device="cuda", **options)


# --- a number for a device ------------------------------------------------------------------------------------------


def test_modules_move_to_numbers(two_gpus):
    assert nn.Linear(2, 2).to(0).weight.device == CUDA0
    assert nn.Linear(2, 2).to(device=1).weight.device == CUDA1
    assert nn.Linear(2, 2).to(1, torch.float64).weight.dtype == torch.float64
    assert nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(2, 2)]).to(1).data.device == CUDA1
    assert torch.device(device=1) == CUDA1


# --- memory of one's own --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [torch.as_tensor, torch.asarray], ids=["as_tensor", "asarray"])
def test_what_comes_from_an_array_is_a_copy(make, gpus):
    array = np.zeros(3)
    tensor = make(array, device="cuda")
    with torch.device("cuda"):
        other = make(array)
    array[0] = 5
    assert tensor.tolist() == other.tolist() == [0.0, 0.0, 0.0]


def test_what_must_not_be_copied_is_refused(gpus):
    for data in (np.zeros(3), torch.zeros(3)):
        with pytest.raises(ValueError, match="can't alias tensor from device 'cpu' to 'cuda'"):
            torch.asarray(data, device="cuda", copy=False)
    assert torch.asarray(ones(3), copy=False).is_cuda


def test_a_forced_array_is_a_copy(gpus):
    tensor = torch.zeros(3, device="cuda", requires_grad=True)
    tensor.numpy(force=True)[0] = 5
    assert tensor.tolist() == [0.0, 0.0, 0.0]


def test_memory_is_shared_and_pinned_by_storage(gpus):
    assert ones(2).is_shared()
    pinned = torch.ones(4, 2).pin_memory()
    assert pinned[1:].is_pinned()
    assert pinned.view(-1).is_pinned()
    assert not pinned.clone().is_pinned()


def test_storages_are_made_on_devices(gpus):
    storage = torch.UntypedStorage(8, device="cuda")
    assert storage.device == CUDA0
    assert torch.UntypedStorage(8).device.type == "cpu"
    assert torch.cuda.FloatStorage(3).device == CUDA0
    assert torch.empty(0, device="cuda").set_(storage.cuda(), 0, (1,)).is_cuda


def test_storages_keep_to_their_device(gpus):
    with pytest.raises(RuntimeError, match="set the storage of a tensor on device"):
        torch.empty(0, device="cuda").set_(torch.ones(2))
    with pytest.raises(RuntimeError, match="set the storage of a tensor on device"):
        torch.empty(0).set_(ones(2).untyped_storage())
    assert ones(2).untyped_storage().to(device="cpu", non_blocking=True).is_pinned()
    for move in (torch.UntypedStorage.cuda, torch.UntypedStorage.cpu):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta"):
            move(torch.UntypedStorage(4, device="meta"))
    storage = torch.TypedStorage(wrap_storage=ones(2).untyped_storage(), dtype=torch.float32, _internal=True)
    assert torch.tensor(storage, device="cuda").tolist() == [1.0, 1.0]


@pytest.fixture
def no_garbage():
    """What other tests left in cycles is gone before memory is counted, not in the middle of it."""
    gc.collect()


def test_peaks_count_between_calls(gpus, no_garbage):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    temporary = ones(1000)
    del temporary
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= before + 4096


def test_memory_that_only_the_graph_holds_counts(gpus, no_garbage):
    x = ones(1024, requires_grad=True)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = (x * 2) ** 2
    assert torch.cuda.memory_allocated() - before == 2 * 4096
    del y
    assert torch.cuda.memory_allocated() == before


def test_asking_for_memory_looks_at_live_objects_once(monkeypatch, no_garbage):
    with virtual_cuda():
        # What other tests left behind may still be there, and count.
        before = torch.cuda.memory_allocated()
        monkeypatch.setattr(gc, "get_objects", lambda: pytest.fail("looked again"))
        kept = ones(1000)
        assert torch.cuda.memory_allocated() - before == 4096
        del kept
        assert torch.cuda.memory_allocated() == before


def test_a_limit_of_memory():
    with virtual_cuda(2, memory="1MiB"):
        assert torch.cuda.get_device_properties(0).total_memory == 2**20
        kept = ones(100_000)
        with pytest.raises(torch.cuda.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
            kept + kept + kept
        assert torch.ones(200_000, device="cuda:1").is_cuda
        assert torch.ones(1_000_000).sum() == 1_000_000
        free, total = torch.cuda.mem_get_info()
        assert total - free == torch.cuda.memory_allocated()
        del kept
        torch.cuda.set_per_process_memory_fraction(0.5)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            ones(200_000)
    with virtual_cuda():
        assert ones(300_000).is_cuda


@pytest.mark.parametrize("size", ["a lot", 0, -1, True, "0GB", 1.5])
def test_bad_limits(size):
    with pytest.raises(ValueError, match="memory must be a number of bytes"):
        virtual_cuda(1, memory=size)


def test_what_the_host_can_t_hold_is_out_of_memory(gpus):
    with pytest.raises(torch.cuda.OutOfMemoryError, match="out of memory"):
        torch.empty(2**48, device="cuda")


# --- streams, generators, drivers -----------------------------------------------------------------------------------


def test_streams_put_the_device_back(two_gpus):
    with torch.Stream(device="cuda:1") as stream:
        assert torch.cuda.current_device() == 1
        assert torch.cuda.current_stream(1).stream_id == stream.stream_id
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
    stream = torch.cuda.Stream()
    torch._C._cuda_setStream(stream_id=stream.stream_id, device_index=0, device_type=1)
    assert torch.cuda.current_stream() == stream
    torch.cuda.set_stream(torch.cuda.default_stream())


def test_default_generators(two_gpus):
    torch.cuda.init()
    found = list(torch.cuda.default_generators)
    assert [generator.device for generator in found] == [CUDA0, CUDA1]
    assert isinstance(found[0], torch.Generator)
    found[0].manual_seed(3)
    first = torch.rand(3, device="cuda", generator=found[0])
    found[0].manual_seed(3)
    assert torch.equal(torch.rand(3, device="cuda"), first)


def test_a_permutation_wants_its_own_device_s_generator(two_gpus):
    with pytest.raises(RuntimeError, match="Expected a 'cuda:0' generator device but found 'cuda:1'"):
        torch.randperm(4, device="cuda:0", generator=torch.Generator("cuda:1"))
    assert torch.randperm(4, device="cuda:1", generator=torch.Generator("cuda:1")).device == CUDA1


def test_libraries_are_there(gpus):
    assert torch.backends.cudnn.is_available()
    assert torch.backends.cudnn.version() > 9000
    assert torch.cuda.nccl.version() >= (2, 0)
    assert torch.get_device_module() is torch.cuda
    plans = torch.backends.cuda.cufft_plan_cache
    plans.clear()
    assert plans[0].max_size >= plans.size


def test_profiles_are_quiet(gpus, capfd):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]):
        ones(2) + 1
    with torch.autograd.profiler.profile(use_device="cuda") as seen:
        ones(2) + 1
    with torch.autograd.profiler.emit_nvtx():
        ones(2) + 1
    assert "aten::add" in {event.key for event in seen.key_averages()}
    assert "Failed to record CUDA event" not in capfd.readouterr().err


# --- derivatives ----------------------------------------------------------------------------------------------------


def test_forward_mode(gpus):
    value, tangent = torch.func.jvp(lambda x: x * 3, (ones(2),), (ones(2),))
    assert value.is_cuda
    assert tangent.tolist() == [3.0, 3.0]
    assert torch.func.jacfwd(lambda x: x**2)(ones(2)).device == CUDA0
    assert torch.func.hessian(lambda x: (x**3).sum())(ones(2)).tolist() == [[6.0, 0.0], [0.0, 6.0]]
    with forward_ad.dual_level():
        parts = forward_ad.unpack_dual(forward_ad.make_dual(ones(2), ones(2)) * 2)
        assert parts.primal.is_cuda
        assert parts.tangent.is_cuda


def test_hooks_on_nodes_see_the_device(gpus):
    seen = []
    x = ones(2, requires_grad=True)
    y = (x * 2).exp()
    y.grad_fn.register_hook(lambda given, taken: seen.extend(given + taken))
    y.grad_fn.register_prehook(lambda taken: seen.extend(taken))
    leaf = x.expand_as(x).grad_fn.next_functions[0][0]
    leaf.register_prehook(lambda taken: seen.extend(taken))
    y.sum().backward()
    assert [tensor.device for tensor in seen] == [CUDA0] * 4


def test_vmap_knows_places(gpus):
    assert torch.vmap(lambda x: x + torch.tensor(2.0))(ones(3, 2)).device == CUDA0
    for mixed in (lambda x: x + torch.ones(2), lambda x: x @ torch.ones(2, 2)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.vmap(mixed)(ones(3, 2))


# --- autocast and attention -----------------------------------------------------------------------------------------


def test_the_host_s_autocast_leaves_devices_alone(gpus):
    a = ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.float32
        assert (a.cpu() @ a.cpu()).dtype == torch.bfloat16
        with torch.autocast("cuda", dtype=torch.float16):
            assert (a @ a).dtype == torch.float16


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [
        (SDPBackend.MATH, torch.float32),
        (SDPBackend.FLASH_ATTENTION, torch.float16),
        (SDPBackend.EFFICIENT_ATTENTION, torch.float32),
        (SDPBackend.CUDNN_ATTENTION, torch.bfloat16),
    ],
)
def test_attention_backends(backend, dtype, gpus):
    query = torch.rand(1, 2, 64, 64, device="cuda").to(dtype)
    expected = F.scaled_dot_product_attention(query, query, query)
    with sdpa_kernel(backend):
        found = F.scaled_dot_product_attention(query, query, query)
    assert found.device == CUDA0
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


def test_flash_attention_wants_half_precision(gpus):
    query = torch.rand(1, 2, 64, 64, device="cuda")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No available kernel"):
        F.scaled_dot_product_attention(query, query, query)


# --- kernels --------------------------------------------------------------------------------------------------------


@pytest.fixture
def library():
    found = torch.library.Library("devlint_kernels", "FRAGMENT")
    yield found
    found._destroy()


def test_kernels_registered_for_cuda_are_chosen(gpus, library):
    library.define("place(Tensor x) -> Tensor")
    library.impl("place", lambda x: x + torch.ones(x.shape, device=x.device), "CUDA")
    library.impl("place", lambda x: x + 2, "CPU")
    for operator in (torch.ops.devlint_kernels.place, torch.ops.devlint_kernels.place.default):
        assert operator(torch.zeros(1)).item() == 2
        assert operator(torch.zeros(1, device="cuda")).item() == 1
        assert operator(torch.zeros(1, device="cuda")).device == CUDA0


def test_custom_operators_by_device(gpus):
    @torch.library.custom_op(
        "devlint_test::by_device", mutates_args=(), device_types="cuda", schema="(Tensor x) -> Tensor"
    )
    def operator(x):
        return x * torch.ones(x.shape, device=x.device)

    operator.register_autograd(lambda ctx, gradient: gradient * 3)
    x = ones(2, requires_grad=True)
    result = operator(x)
    result.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert x.grad.is_cuda
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        operator(torch.ones(2))

    @torch.library.custom_op("devlint_test::host", mutates_args=(), device_types="cpu", schema="(Tensor x) -> Tensor")
    def host(x):
        return x + 1

    with pytest.raises(NotImplementedError, match="'CUDA' backend"):
        host(ones(2))
    assert host(torch.ones(2)).tolist() == [2.0, 2.0]


def test_operators_without_a_cuda_kernel(gpus):
    for call in (
        lambda: torch.histogram(ones(3), 3),
        lambda: ones(3).histogram(3),
        lambda: torch.histogramdd(ones(3, 2), [2, 2]),
    ):
        with pytest.raises(NotImplementedError, match="'CUDA' backend"):
            call()


def test_integers_are_not_multiplied_as_matrices(gpus):
    x = torch.ones(2, 2, dtype=torch.int64, device="cuda")
    for call, kernel in (
        (lambda: x @ x, "addmm_cuda"),
        (lambda: torch.mm(x, x), "addmm_cuda"),
        (lambda: F.linear(x, x), "addmm_cuda"),
        (lambda: torch.mv(x, x[0]), "addmv_impl_cuda"),
        (lambda: torch.dot(x[0], x[0]), "dot"),
    ):
        with pytest.raises(MissingKernelError, match=f"\"{kernel}\" not implemented for 'Long'"):
            call()
    assert (x.float() @ x.float()).is_cuda
    assert (x.cpu() @ x.cpu()).tolist() == [[2, 2], [2, 2]]


def test_host_results_and_host_operands(gpus):
    assert torch.onnx.operators.shape_as_tensor(ones(2)).device.type == "cpu"
    logits = torch.rand(5, 2, 4, device="cuda").log_softmax(2)
    targets = torch.ones(2, 3, dtype=torch.long)
    assert nn.CTCLoss()(logits, targets, torch.tensor([5, 5]), torch.tensor([3, 3])).device == CUDA0


def test_half_precision_that_the_host_lacks():
    with virtual_cuda():
        x = ones(1, 4, 4, 4).half()
        for call in (lambda: F.avg_pool3d(x, 2), lambda: torch.polygamma(1, x), lambda: F.rrelu(x)):
            found = call()
            assert found.dtype == torch.float16
            assert found.device == CUDA0


# --- tensor classes -------------------------------------------------------------------------------------------------


class Wrapped(torch.Tensor):
    """Wraps a tensor, and sees each operator."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_wrapper_subclass(cls, data.size(), dtype=data.dtype, device=data.device)

    def __init__(self, data):
        self.inner = data

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map_only(Wrapped, lambda tensor: tensor.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapped, func(*args, **kwargs))


def test_wrapper_classes(gpus):
    wrapped = Wrapped(ones(2))
    assert wrapped.device == CUDA0
    for result, place in (
        (wrapped + 1, CUDA0),
        (wrapped.cpu(), torch.device("cpu")),
        (Wrapped(torch.ones(2)).cuda(), CUDA0),
        (Wrapped(torch.ones(2)).to(CUDA0, torch.float64), CUDA0),
    ):
        assert isinstance(result, Wrapped)
        assert result.device == result.inner.device == place
    with pytest.raises(RuntimeError, match="same device"):
        wrapped + torch.ones(2)


class Logged(torch.Tensor):
    """A subclass that makes tensors of its own in `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func is torch.Tensor.add:
            assert torch.ones(1, device="cuda").is_cuda
        return result


def test_classes_with_a_torch_function(gpus):
    logged = ones(2).as_subclass(Logged)
    result = logged.add(1)
    assert type(result) is Logged
    assert result.device == CUDA0
    assert (result * 2).cpu().device.type == "cpu"


def test_our_attributes_don_t_get_into_constructors(gpus):
    with watch_devices():
        parameter = nn.Linear(2, 2).cuda().weight
        again = type(parameter)(parameter.data, **parameter.__dict__)
    assert again.device == CUDA0


# --- what goes wrong inside -----------------------------------------------------------------------------------------


def test_unexpected_errors_of_the_backend_are_told_as_such():
    with virtual_cuda(), pytest.raises(VirtualCudaUnsupportedError, match=r"torch\.histc .*PyTorch says.*Long.*tell"):
        torch.histc(torch.ones(3, dtype=torch.int64, device="cuda"), 3)


def test_parts_that_nobody_made_up_for_are_named():
    with virtual_cuda():
        assert not hasattr(torch._C, "_cuda_noSuchThing")
        with pytest.raises(VirtualCudaUnsupportedError, match=r"what stands on torch\._C\._cuda_noSuchThing"):
            torch._C._cuda_noSuchThing()
        with pytest.raises(AttributeError, match="has no attribute 'noSuchThing'"):
            torch._C.noSuchThing()


def test_meta_tensors_among_operands(gpus):
    assert (ones(5, 10) @ torch.randn(10, 1, device="meta")).device == CUDA0  # and its values are anybody's guess
    with pytest.raises(RuntimeError, match="Tensor on device meta is not on the expected device cuda:0"):
        ones(2) + torch.ones(2, device="meta")


def test_sparse_types_of_another_age():
    with virtual_cuda():
        kind = torch.cuda.sparse.FloatTensor
        indices, values = torch.tensor([[0, 1], [1, 0]], device="cuda"), torch.ones(2, device="cuda")
        made = kind(indices, values, torch.Size([2, 2]))
        assert made.is_cuda
        assert made.is_sparse
        assert made.type() == "torch.cuda.sparse.FloatTensor"
        assert isinstance(made, kind)
        assert not isinstance(made, torch.cuda.sparse.DoubleTensor)
        assert not isinstance(made.to_dense(), kind)
        assert (made @ torch.eye(2, device="cuda")).device.type == "cuda"
        assert kind(2, 2).is_cuda
