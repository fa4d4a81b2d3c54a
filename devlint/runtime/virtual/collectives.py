"""Process groups: `nccl` runs on gloo, over the host data of virtual tensors, and refuses what NCCL refuses.

A group keeps the name of the backend that it was asked for. One of `nccl` alone takes no host tensors, none of another
device than the one that it was bound to, and no two of its processes on one device of a machine.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import inspect
import socket
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from devlint.runtime.places import HOST, place_of, tensors_in
from devlint.runtime.virtual import engine
from devlint.runtime.virtual.patching import Patches

# Functions of torch.distributed that hand tensors to a group. All ranks take part in the first ones.
_TOGETHER = """
    all_reduce all_reduce_coalesced broadcast reduce all_gather all_gather_into_tensor all_gather_coalesced
    all_gather_single gather scatter reduce_scatter reduce_scatter_tensor reduce_scatter_single all_to_all
    all_to_all_single
""".split()  # noqa: SIM905 - names
_PAIRS = ("send", "recv", "isend", "irecv")


@dataclass
class _Group:
    """What is kept of a group that stands for NCCL's."""

    store: Any
    rank: int
    size: int
    bound: torch.device | None
    met: bool = False  # whether its processes have compared their devices


_groups: weakref.WeakKeyDictionary[Any, _Group] = weakref.WeakKeyDictionary()


# Gloo's threads may still need Python to let go of a last piece of work when the group that waits for them is destroyed
# by somebody who holds the interpreter: neither goes on. So groups outlive their destruction a little, and the exit.
_made: weakref.WeakSet[Any] = weakref.WeakSet()
_closing: list[tuple[float, list[Any]]] = []


def _keep_a_while(groups: list[Any]) -> None:
    now = time.monotonic()
    _closing[:] = [entry for entry in _closing if entry[0] > now - 2]
    _closing.append((now, groups))


@atexit.register
def _never_destroy() -> None:
    for group in list(_made):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


@contextmanager
def _on_the_host() -> Iterator[None]:
    """Inside, C++ that looks for this machine's accelerator finds none."""
    patches = Patches()
    patches.set(torch._C, "_get_accelerator", lambda: torch.device("cpu"))
    try:
        yield
    finally:
        patches.undo()


def _distributed_error(text: str) -> RuntimeError:
    kind: Any = getattr(torch.distributed, "DistBackendError", RuntimeError)
    error: RuntimeError = kind(text)
    return error


def _check(group: _Group, tensors: list[torch.Tensor], *, together: bool) -> None:
    """Raises what NCCL's process group raises for tensors that it doesn't take."""
    __tracebackhide__ = True
    for tensor in tensors:
        place = place_of(tensor)
        if place.type != "cuda":
            raise RuntimeError(f"No backend type associated with device type {place.type}")
        if group.bound is not None and place != group.bound:
            raise _distributed_error(
                "Attempt to perform collective on tensor not on device passed to init_process_group "
                f"(tensor found on device {place} but backend constrained to {group.bound})"
            )
    if together and tensors and not group.met:
        group.met = True
        _meet(group, place_of(tensors[0]))


def _meet(group: _Group, place: torch.device) -> None:
    """NCCL's first collective makes communicators, for which no two processes may have one device."""
    __tracebackhide__ = True
    group.store.set(f"devlint/{group.rank}", f"{socket.gethostname()}:{place.index}")
    seen: dict[bytes, int] = {}
    for rank in range(group.size):
        other = seen.setdefault(group.store.get(f"devlint/{rank}"), rank)
        if other != rank:
            raise _distributed_error(
                "NCCL error in: virtual NCCL, invalid usage (run with NCCL_DEBUG=WARN for details)\nncclInvalidUsage: This usually "
                f"reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank {rank} and rank "
                f"{other} both on CUDA device {place.index}"
            )


def _checked(function: Callable[..., Any], default: Callable[[], Any], *, together: bool) -> Callable[..., Any]:
    signature = inspect.signature(function)
    flat = _FLAT.get(function.__name__, ())

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # says it itself
        group = _groups.get(given.get("group") or default())
        if group is None:
            return function(*args, **kwargs)
        _check(group, list(tensors_in(list(given.values()))), together=together)
        return function(**given | {name: given[name].view(-1) for name in flat})

    return wrapper


# To NCCL only the number of elements counts between a tensor and the parts of another; gloo looks at shapes.
_FLAT = dict.fromkeys(
    ("all_gather_into_tensor", "all_gather_single"), ("output_tensor", "input_tensor")
) | dict.fromkeys(("reduce_scatter_tensor", "reduce_scatter_single"), ("output", "input"))


def _in_place(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a bucket of gradients gives a communication hook: C++ has made it, for the parameters that it names."""

    def wrapper(bucket: Any) -> Any:
        return engine.tag(method(bucket), bucket.parameters()[0]._devlint_place)

    return wrapper


def install(patches: Patches) -> None:
    """Puts these in place of torch's."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    c10d_any: Any = c10d
    # Where objects of `broadcast_object_list` and its like go; 2.4 has it by another name.
    asks = "_get_object_coll_device" if hasattr(c10d, "_get_object_coll_device") else "_get_pg_default_device"
    cuda = "cuda" if asks == "_get_object_coll_device" else torch.device("cuda")
    new_group, get_device = c10d_any._new_process_group_helper, getattr(c10d, asks)
    parameters = list(inspect.signature(new_group).parameters)

    def new_process_group(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(parameters, args, strict=False)) | kwargs
        wanted = str(given["backend"]).lower()
        default = wanted in ("none", "undefined", "")
        if not (default or "nccl" in wanted):
            return new_group(**given)
        bound = given.pop("device_id", None)
        for name in ("pg_options", "backend_options"):
            if name in given:
                given[name] = None
        made = new_group(**{**given, "backend": c10d.Backend("gloo")})
        group = made[0] if isinstance(made, tuple) else made
        if not isinstance(group, dist.ProcessGroup):
            return made
        _made.add(group)
        world = c10d_any._world
        world.pg_map[group] = (c10d.Backend("undefined" if default else wanted), world.pg_map[group][1])
        if wanted == "nccl":
            store = c10d_any.PrefixStore("devlint", world.pg_map[group][1])
            store = c10d_any.PrefixStore(str(world.pg_names[group]), store)
            _groups[group] = _Group(store, group.rank(), group.size(), bound)
        return made

    def object_device(group: Any = None) -> Any:
        if torch._C._get_accelerator() == HOST:
            return HOST  # a barrier, for which 2.4 asks here as well
        return cuda if (group or c10d_any._get_default_group()) in _groups else get_device(group)

    destroy = c10d.destroy_process_group

    def destroy_process_group(group: Any = None) -> None:
        _keep_a_while([made for made in _made if made in c10d_any._world.pg_map])
        destroy(group)

    barrier = c10d.barrier

    def host_barrier(*args: Any, **kwargs: Any) -> Any:
        """Gloo's barrier, which would allocate on the device that NCCL's is told to use."""
        given = inspect.signature(barrier).bind(*args, **kwargs).arguments
        given.pop("device_ids", None)
        with _on_the_host():
            return barrier(**given)

    patches.set(c10d, "default_pg_nccl_timeout", c10d_any.default_pg_timeout)
    patches.set(c10d, "_new_process_group_helper", new_process_group)
    patches.set(c10d, asks, object_device)
    for module in (dist, c10d):
        patches.set(module, "is_nccl_available", lambda: True)
        patches.set(module, "destroy_process_group", destroy_process_group)
        patches.set(module, "barrier", host_barrier)
    for name in (*_TOGETHER, *_PAIRS):
        function = getattr(c10d, name, None)
        if function is not None:
            wrapped = _checked(function, lambda: c10d_any.GroupMember.WORLD, together=name in _TOGETHER)
            for module in (dist, c10d):
                if hasattr(module, name):
                    patches.set(module, name, wrapped)
    bucket: Any = dist.GradBucket  # type: ignore[attr-defined]
    for name in ("buffer", "gradients"):
        patches.set(bucket, name, _in_place(getattr(bucket, name)))
    verify = dist._verify_params_across_processes  # type: ignore[attr-defined]

    def verify_params(group: Any, tensors: Any, *rest: Any) -> Any:
        """DistributedDataParallel's first word to the other processes."""
        if group in _groups:
            _check(_groups[group], list(tensors), together=True)
        return verify(group, tensors, *rest)

    patches.set(dist, "_verify_params_across_processes", verify_params)
