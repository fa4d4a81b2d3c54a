"""What docs/runtime.md says of virtual CUDA: each thing that it lists has a test, and nothing is listed that hasn't."""

from __future__ import annotations

import ast
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
from torch import nn

from devlint.runtime import VirtualCudaUnsupportedError, virtual_cuda

HERE = Path(__file__).parent
DOCS = (HERE.parents[1] / "docs/runtime.md").read_text()

# What works, in the words of the page, and where each part of it is tested.
WORKS = {
    "`torch.cuda.*` (availability, counts, names, properties)": ["test_tensors.test_namespace"],
    "current devices": ["test_tensors.test_current_device"],
    "`torch.accelerator.*`": ["test_tensors.test_accelerator"],
    "streams and events": [
        "test_tensors.test_streams_and_events",
        "test_interfaces.test_streams_put_the_device_back",
    ],
    "memory figures, peaks and limits": [
        "test_tensors.test_memory_figures",
        "test_interfaces.test_peaks_count_between_calls",
        "test_interfaces.test_a_limit_of_memory",
    ],
    "random state": ["test_tensors.test_random_numbers"],
    "default generators": ["test_interfaces.test_default_generators"],
    "factories with any kind of `device=`": ["test_tensors.test_factories"],
    "default devices": ["test_tensors.test_default_device", "test_tensors.test_default_device_changes_inside"],
    "`.to .cuda .cpu .type .type_as`, to names, devices and numbers": [
        "test_tensors.test_moves",
        "test_programs.test_a_number_alone_names_an_accelerator",
        "test_interfaces.test_modules_move_to_numbers",
    ],
    "views and in-place operations": ["test_tensors.test_in_place_and_views"],
    "copies of arrays": [
        "test_interfaces.test_what_comes_from_an_array_is_a_copy",
        "test_interfaces.test_a_forced_array_is_a_copy",
    ],
    "pickling, `deepcopy`, `torch.save` and `torch.load` with any `map_location`": [
        "test_tensors.test_pickle_copy_and_checkpoints",
        "test_errors.test_checkpoint_of_a_bigger_machine",
    ],
    "storages": [
        "test_interfaces.test_storages_are_made_on_devices",
        "test_interfaces.test_storages_keep_to_their_device",
    ],
    "pinned and shared memory": [
        "test_tensors.test_pinned_memory",
        "test_interfaces.test_memory_is_shared_and_pinned_by_storage",
    ],
    "`nn.Module` moves": ["test_programs.test_moves_back_and_forth", "test_tensors.test_load_state_dict_keeps_places"],
    "lazy and `meta` modules": ["test_tensors.test_to_empty_meta_and_swap"],
    "optimizers (`foreach` and `fused`)": [
        "test_programs.test_optimizer_state_follows_parameters",
        "test_programs.test_foreach_groups_by_device",
    ],
    "autocast with CUDA's lists": ["test_tensors.test_autocast_dtypes"],
    "`GradScaler`": ["programs.accumulation_with_amp"],
    "attention's backends": [
        "test_interfaces.test_attention_backends",
        "test_interfaces.test_flash_attention_wants_half_precision",
    ],
    "hooks on tensors, modules and nodes": [
        "test_tensors.test_hooks_see_the_device",
        "test_interfaces.test_hooks_on_nodes_see_the_device",
    ],
    "custom autograd functions": ["programs.custom_function"],
    "checkpointing": ["programs.checkpointing"],
    "`torch.func`": ["programs.functional_transforms", "test_interfaces.test_vmap_knows_places"],
    "forward-mode derivatives": ["test_interfaces.test_forward_mode"],
    "custom operators and kernels registered for CUDA": [
        "test_interfaces.test_custom_operators_by_device",
        "test_interfaces.test_kernels_registered_for_cuda_are_chosen",
    ],
    "tensor classes with `__torch_dispatch__` or `__torch_function__`": [
        "test_interfaces.test_wrapper_classes",
        "test_interfaces.test_classes_with_a_torch_function",
    ],
    "the profiler": ["test_interfaces.test_profiles_are_quiet"],
    "`DataLoader` with workers and pinning": ["programs.loader"],
    "spawned workers": ["test_children.test_spawned_data_loaders"],
    "subprocesses, `mp.spawn` and `torchrun`": [
        "test_children.test_subprocesses",
        "test_children.test_multiprocessing",
        "test_children.test_torchrun",
    ],
    "`nn.DataParallel`": ["test_programs.test_data_parallel_over_two_devices"],
    "`DistributedDataParallel` and FSDP1 with `nccl` standing for gloo": [
        "test_programs.test_distributed_data_parallel_in_one_process",
        "test_children.test_torchrun",
    ],
    "threads started inside": ["test_tensors.test_threads_take_part"],
}

# Whose errors are CUDA's, and where that is tested.
ERRORS = {
    "mixed operands": ["test_errors.test_fails_as_on_cuda", "test_errors.test_two_gpus_do_not_mix"],
    "a checkpoint that needs `map_location`": ["test_errors.test_checkpoint_needs_map_location_elsewhere"],
    "an index out of range": ["test_wording.test_errors_speak_as_a_release_does"],
    "CUDA in a forked worker": ["test_errors.test_cuda_in_a_forked_worker"],
    "a generator of the wrong device": ["test_interfaces.test_a_permutation_wants_its_own_device_s_generator"],
    "`.numpy()` on a CUDA tensor": ["test_errors.numpy_function"],
    "gradients of another device": ["test_errors.gradient_from_the_host", "test_errors.assigned_gradient"],
    "events that take no time": ["test_wording.test_errors_speak_as_a_release_does"],
    "a device that is full": ["test_wording.test_errors_speak_as_a_release_does"],
    "collectives of `nccl` on host tensors": ["test_collectives.test_host_tensors_are_refused"],
}

# What is refused, and a call that is.
REFUSED = {
    "CUDA graphs": lambda x: torch.cuda.CUDAGraph(),
    "`torch.jit.load` and `save`": lambda x: torch.jit.load("model.pt"),
    "memory pools": lambda x: torch.cuda.MemPool(),
    "memory snapshots": lambda x: torch.cuda.memory._snapshot(),
    "pluggable allocators": lambda x: torch.cuda.memory.CUDAPluggableAllocator("a.so", "alloc", "free"),
    "`torch.cuda.cudart`": lambda x: torch.cuda.cudart(),
    "collectives of `torch.cuda.nccl`": lambda x: torch.cuda.nccl.all_reduce([x]),
    "cuBLAS handles": lambda x: torch.cuda.current_blas_handle(),
    "jiterator kernels": lambda x: torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T a) { return a; }")(
        x
    ),
    "NVML's temperature, power and clock": lambda x: torch.cuda.temperature(),
    "external streams": lambda x: torch.cuda.ExternalStream(0),
    "sending CUDA tensors to another process": lambda x: ForkingPickler.dumps(x),
    "`set_default_tensor_type` with a CUDA type": lambda x: torch.set_default_tensor_type("torch.cuda.FloatTensor"),
    "`set_sync_debug_mode` (use `watch_devices`)": lambda x: torch.cuda.set_sync_debug_mode("warn"),
    "`torch.export`, FSDP2 and other tracing with `FakeTensorMode`": lambda x: torch.export.export(nn.Identity(), (x,)),
    "nested tensors": lambda x: torch.nested.nested_tensor([x]),
    "`__dlpack__`, `to_dlpack` and `__cuda_array_interface__` of a CUDA tensor": lambda x: torch.from_dlpack(x),
    "devices of another type": lambda x: x.to("mps"),
}


def listed(beginning):
    """The items of the list in the paragraph that begins so."""
    paragraph = " ".join(DOCS.partition(beginning)[2].partition("\n\n")[0].split())
    return paragraph.strip(": ").removesuffix(".").split("; ")


@pytest.mark.parametrize(
    ("beginning", "places"), [("**What works**", WORKS), ("**Errors are CUDA's**, in type and words", ERRORS)]
)
def test_what_works_has_a_test(beginning, places):
    assert listed(beginning) == list(places)
    for place in (place for tests in places.values() for place in tests):
        module, name = place.split(".")
        tree = ast.parse((HERE / f"{module}.py").read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, place


def test_what_is_refused_is_listed():
    assert listed("**Refused**, with `VirtualCudaUnsupportedError`") == list(REFUSED)


has_pools = pytest.mark.skipif(not hasattr(torch.cuda, "MemPool"), reason="this release of PyTorch has no memory pools")


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=has_pools if what == "memory pools" else ()) for what in REFUSED]
)
def test_what_is_listed_is_refused(what):
    with virtual_cuda(), pytest.raises(VirtualCudaUnsupportedError, match="devlint: virtual CUDA does not support"):
        REFUSED[what](torch.ones(2, device="cuda"))


@pytest.mark.parametrize(
    "name", ["CUDAGraph", "graph", pytest.param("MemPool", marks=has_pools), "ExternalStream", "CUDAPluggableAllocator"]
)
def test_refused_classes_are_classes(name):
    """Programs that never make one name it in annotations."""
    home = torch.cuda.memory if name == "CUDAPluggableAllocator" else torch.cuda
    with virtual_cuda():
        kind = getattr(home, name)
        assert (kind | None) == (None | kind)
        assert not isinstance(torch.ones(1), kind)
        with pytest.raises(VirtualCudaUnsupportedError):
            kind()
