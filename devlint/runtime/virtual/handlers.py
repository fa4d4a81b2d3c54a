"""Functions that name, read or change a device: one handler each.

A handler takes (function, args, kwargs) as TorchFunctionMode passes them, and runs with the mode off, on host data.
"""

from __future__ import annotations

from typing import Any

import torch

from devlint.runtime.places import HOST, PINNED, accelerator, place_of
from devlint.runtime.virtual import engine, storages, subclasses
from devlint.runtime.virtual.engine import HANDLERS, MIXED, PASS, UNSEEN, common_place, run, tag
from devlint.runtime.virtual.errors import not_numpy, refuse
from devlint.runtime.virtual.random import DefaultGenerator
from devlint.runtime.virtual.state import machine

Tensor = torch.Tensor
Base: Any = torch._C.TensorBase
Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def usable_generator(func: Any, generator: Any, place: torch.device | None) -> Any:
    """The generator that a C function is given. Raises RuntimeError, as CUDA's kernels do, for one of another device."""
    __tracebackhide__ = True
    wanted = "cpu" if place is None else place.type
    if generator.device.type != wanted:
        raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{generator.device.type}'")
    if func is torch.randperm and place is not None and generator.device != place:  # the one kernel that looks
        raise RuntimeError(f"Expected a '{place}' generator device but found '{generator.device}'")
    return torch.default_generator if type(generator) is DefaultGenerator else generator


def pin(tensor: Tensor) -> None:
    """Makes a host tensor's memory, and with it all its views, page-locked."""
    tensor.untyped_storage()._devlint_pinned = True  # type: ignore[attr-defined]


def _pinned(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and hasattr(tensor.untyped_storage(), PINNED)


def _check_dtype(place: torch.device | None, result: Any) -> None:
    """Metal knows no double precision. Raises TypeError, as MPS does."""
    __tracebackhide__ = True
    if place is not None and place.type == "mps" and isinstance(result, Tensor) and result.dtype is torch.float64:
        raise TypeError(
            "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
            "Please use float32 instead."
        )


def run_with_device(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Runs a function that was given `device=`, `generator=` or `pin_memory=`."""
    __tracebackhide__ = True
    kwargs = dict(kwargs)
    pinned = kwargs.pop("pin_memory", None)
    source = common_place(args, kwargs)
    place = source if source is not MIXED and source is not UNSEEN else None
    if kwargs.get("device") is not None:
        place = machine.place(kwargs["device"])
        if place is not None:
            kwargs["device"] = HOST
    elif source is MIXED:
        return engine.run_mixed(func, args, kwargs)
    if kwargs.get("generator") is not None:
        kwargs["generator"] = usable_generator(func, kwargs["generator"], place)
    result = func(*args, **kwargs)
    _check_dtype(place, result)
    if place is None and isinstance(result, Tensor) and result._devlint_place is not None:  # type: ignore[attr-defined]
        return result  # a default device context beneath has placed it
    if pinned:
        if place is not None:
            raise RuntimeError("Only dense CPU tensors can be pinned")
        pin(result)
    return tag(result, place)


engine.run_with_device = run_with_device


def _copy_from_data(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """torch.tensor, as_tensor, asarray: the place is that of `device=`, else of the data where that is a tensor."""
    __tracebackhide__ = True
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    if kwargs.get("copy") is False:
        _check_alias(data, kwargs.get("device"))
    if isinstance(data, Tensor) and func is not torch.tensor:
        moved = move(data, kwargs.get("device"), kwargs.get("dtype"))
        return moved.clone() if kwargs.get("copy") and moved is data else moved
    if isinstance(data, torch.TypedStorage | torch.UntypedStorage):
        place = storages.place_of_storage(data)
        if place.type == accelerator.kind:
            args, kwargs = (storages.on_the_host(data), *args[1:]), {"device": place, **kwargs}
    if kwargs.get("device") is None:
        pinned = kwargs.get("pin_memory")
        result = func(*args, **{key: value for key, value in kwargs.items() if key != "pin_memory"})
        if result._devlint_place is None:
            result._devlint_place = data._devlint_place if isinstance(data, Tensor) else None  # type: ignore[attr-defined]
            if pinned:
                pin(result)
        return result
    result = run_with_device(func, args, kwargs)
    if func is torch.tensor or isinstance(data, list | tuple) or result._devlint_place is None:
        return result
    # The memory is the array's still, and a device has its own.
    copy = result.detach().clone().requires_grad_(result.requires_grad)
    return tag(copy, result._devlint_place)


def _check_alias(data: Any, device: Any) -> None:
    """`asarray(data, copy=False)` shares memory or fails. Raises ValueError where devices differ, as it does."""
    __tracebackhide__ = True
    here = place_of(data) if isinstance(data, Tensor) else HOST
    target = (machine.place(device) or torch.device(device)) if device is not None else here
    if target != here and not isinstance(data, list | tuple | float | int):
        raise ValueError(f"can't alias tensor from device '{here}' to '{device}'.")


def _device(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """`torch.device(1)`, `torch.device(device=1)`: a number alone is the accelerator's."""
    number = args[0] if args else kwargs.get("device")
    if isinstance(number, int) and len(args) + len(kwargs) == 1:
        return func(accelerator.kind, number)
    return func(*args, **kwargs)


def _parse_to(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """The arguments of `module.to`: for a number alone, PyTorch would look for this build's accelerator."""
    if args and type(args[0]) is int:
        args = (torch.device(accelerator.kind, args[0]), *args[1:])
    elif type(kwargs.get("device")) is int:
        kwargs = {**kwargs, "device": torch.device(accelerator.kind, kwargs["device"])}
    return func(*args, **kwargs)


def move(tensor: Tensor, device: Any, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    """`tensor.to(device, dtype)`: itself where nothing changes, else a copy at the new place."""
    here = tensor._devlint_place  # type: ignore[attr-defined]
    if device is None:
        target, real = here, None
    else:
        target = machine.place(device)
        real = HOST if target is not None else torch.device(device)
    if dtype is None:
        dtype = tensor.dtype
    if dtype is torch.float64 and target is not None:
        _check_dtype(target, torch.empty(0, dtype=dtype))
    if real is not None and real.type not in ("cpu", "meta"):
        refuse(f"moving to {real} (only the host and virtual {accelerator.kind} devices exist here)")
    if target is not here and (real is None or real.type == "cpu") and tensor.device.type != "meta":
        options["copy"] = True
    if subclasses.is_wrapper(tensor):
        with subclasses.at(target):
            result = tensor.to(device=real, dtype=dtype, **options)
    else:
        result = tensor.to(device=real, dtype=dtype, **options) if real is not None else tensor.to(dtype, **options)
    if result is not tensor:
        result._devlint_place = target  # type: ignore[attr-defined]
    return result


def _to(func: Any, args: Args, kwargs: Kwargs) -> Any:
    tensor, rest = args[0], list(args[1:])
    kwargs = dict(kwargs)
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    other = kwargs.pop("tensor", None)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], torch.dtype):
        dtype = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], str | torch.device | int)):
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            dtype = rest.pop(0)
    elif rest:
        return run(func, args, kwargs)  # torch's own complaint about the arguments
    if other is not None:
        device, dtype = place_of(other), other.dtype
    names = ("non_blocking", "copy")
    return move(tensor, device, dtype, **dict(zip(names, rest, strict=False)), **kwargs)


def _move_to(kind: str) -> engine.Handler:
    """`tensor.cuda()` and `tensor.xpu()`."""

    def handler(func: Any, args: Args, kwargs: Kwargs) -> Any:
        if accelerator.kind != kind:
            return func(*args, **kwargs)  # torch says what it says on a machine without
        names = ("device", "non_blocking", "memory_format")
        options = {**dict(zip(names, args[1:], strict=False)), **kwargs}
        device = options.pop("device", None)
        if device is None:
            device = kind
        elif not isinstance(device, int) and torch.device(device).type != kind:
            raise RuntimeError(f"Invalid device, must be {kind} device, got {device}")
        return move(args[0], device, **options)

    return handler


def _cpu(func: Any, args: Args, kwargs: Kwargs) -> Any:
    return move(args[0], HOST, **kwargs)


def _type(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """`t.type()` and `t.type("torch.cuda.FloatTensor")`."""
    tensor = args[0]
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    place = tensor._devlint_place
    if wanted is None:
        name = func(tensor)
        return name.replace("torch.", f"torch.{place.type}.", 1) if place is not None else name
    if isinstance(wanted, type):
        wanted = f"{wanted.__module__}.{wanted.__name__}"
    if isinstance(wanted, str):
        prefix = f"torch.{accelerator.kind}."
        dtype = torch.empty(0).type(wanted.replace(prefix, "torch.", 1)).dtype
        return move(tensor, (place or accelerator.kind) if wanted.startswith(prefix) else HOST, dtype)
    return move(tensor, None, wanted)


def _double(func: Any, args: Args, kwargs: Kwargs) -> Any:
    result = run(func, args, kwargs)
    _check_dtype(args[0]._devlint_place, result)
    return result


def _type_as(func: Any, args: Args, kwargs: Kwargs) -> Any:
    other = args[1] if len(args) > 1 else kwargs["other"]
    return move(args[0], place_of(other), other.dtype)


def _numpy(func: Any, args: Args, kwargs: Kwargs) -> Any:
    __tracebackhide__ = True
    tensor = args[0]
    place = tensor._devlint_place
    if place is not None and not kwargs.get("force"):
        if tensor.requires_grad and torch.is_grad_enabled():
            return func(tensor)  # PyTorch looks at requires_grad first, where gradients are on
        raise not_numpy(place)
    if place is not None:
        return func(tensor.detach().clone(), *args[1:], **kwargs)  # a copy on the host
    return func(*args, **kwargs)


def _copy_(func: Any, args: Args, kwargs: Kwargs) -> Any:
    return func(*args, **kwargs)  # between any two places, and the destination stays where it is


def _set_data(func: Any, args: Args, kwargs: Kwargs) -> Any:
    tensor, value = args
    func(tensor, value)
    tensor._devlint_place = value._devlint_place
    return None


def _get_grad(func: Any, args: Args, kwargs: Kwargs) -> Any:
    gradient = func(*args)
    if gradient is not None:
        gradient._devlint_place = args[0]._devlint_place
    return gradient


def _set_grad(func: Any, args: Args, kwargs: Kwargs) -> Any:
    tensor, value = args
    if isinstance(value, Tensor) and place_of(value) != place_of(tensor):
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{place_of(value).type}' to a tensor with device type "
            f"'{place_of(tensor).type}'. Please ensure that the gradient and the tensor are on the same device"
        )
    return func(tensor, value)


def _untyped_storage(func: Any, args: Args, kwargs: Kwargs) -> Any:
    storage = func(*args)
    storage._devlint_place = args[0]._devlint_place
    return storage


def _pin_memory(func: Any, args: Args, kwargs: Kwargs) -> Any:
    tensor = args[0]
    if tensor._devlint_place is not None:
        raise RuntimeError(f"cannot pin '{_type(Base.type, (tensor,), {})}' only dense CPU tensors can be pinned")
    if _pinned(tensor):
        return tensor
    pinned = tensor.clone()
    pin(pinned)
    return pinned


def _is_pinned(func: Any, args: Args, kwargs: Kwargs) -> Any:
    return args[0]._devlint_place is None and _pinned(args[0])


def _get_device(func: Any, args: Args, kwargs: Kwargs) -> Any:
    place = (args[0] if args else kwargs["input"])._devlint_place
    return place.index if place is not None else -1


def _host_callback(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """apply_, map_, map2_: a Python function for each element, on the host only."""
    if args[0]._devlint_place is not None:
        raise TypeError(f"{func.__name__} is only implemented on CPU tensors")
    return func(*args, **kwargs)


def _sequence_lengths(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """_pack_padded_sequence: data follow the input, batch sizes are host data."""
    lengths = args[1]
    if lengths._devlint_place is not None:
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got 1D "
            f"{place_of(lengths)} {str(lengths.dtype).removeprefix('torch.').capitalize()} tensor"
        )
    data, batch_sizes = func(*args, **kwargs)
    data._devlint_place = args[0]._devlint_place
    return data, batch_sizes


def _tensor_split(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Sections or indices given as a tensor are read by the host, and must be there."""
    sections = args[1] if len(args) > 1 else kwargs.get("tensor_indices_or_sections")
    if isinstance(sections, Tensor):
        if sections._devlint_place is not None:  # type: ignore[attr-defined]
            raise RuntimeError(
                f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {place_of(sections)}"
            )
        return tag(func(*args, **kwargs), args[0]._devlint_place)
    return run(func, args, kwargs)


def _from_numbers(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """linspace, logspace: tensors among the arguments are read as numbers; the place is that of `device=`."""
    numbers = [arg.item() if isinstance(arg, Tensor) else arg for arg in args]
    options = {k: v.item() if isinstance(v, Tensor) else v for k, v in kwargs.items() if k != "out"}
    if "out" in kwargs:
        return func(*numbers, **options, out=kwargs["out"])
    return run(func, tuple(numbers), options)


def _allow_host(*positions: int) -> engine.Handler:
    """A handler for functions that take the arguments at `positions` from the host."""

    def handler(func: Any, args: Args, kwargs: Kwargs) -> Any:
        others = tuple(arg for i, arg in enumerate(args) if i not in positions)
        place = common_place(others, kwargs)
        if place is MIXED:
            return engine.run_mixed(func, args, kwargs)
        return tag(func(*args, **kwargs), None if place is UNSEEN else place)

    return handler


def _pass(func: Any, args: Args, kwargs: Kwargs) -> Any:
    return func(*args, **kwargs)


HANDLERS.update(
    {
        torch.tensor: _copy_from_data,
        torch.as_tensor: _copy_from_data,
        torch.asarray: _copy_from_data,
        torch.device: _device,
        torch._C._nn._parse_to: _parse_to,
        Base.to: _to,
        Base.cuda: _move_to("cuda"),
        Base.xpu: _move_to("xpu"),
        Base.cpu: _cpu,
        Base.type: _type,
        Base.type_as: _type_as,
        Base.double: _double,
        Base.numpy: _numpy,
        Base.copy_: _copy_,
        Base.data.__set__: _set_data,
        Base.grad.__get__: _get_grad,
        Base.grad.__set__: _set_grad,
        Base._grad.__get__: _get_grad,
        Base.untyped_storage: _untyped_storage,
        Base.pin_memory: _pin_memory,
        Base.is_pinned: _is_pinned,
        Base.get_device: _get_device,
        torch.get_device: _get_device,
        Base.apply_: _host_callback,
        Base.map_: _host_callback,
        Base.map2_: _host_callback,
        torch._pack_padded_sequence: _sequence_lengths,
        torch.linspace: _from_numbers,
        torch.logspace: _from_numbers,
        torch.tensor_split: _tensor_split,
        Base.tensor_split: _tensor_split,
        torch._pad_packed_sequence: _allow_host(1),
        torch.ctc_loss: _allow_host(1, 2, 3),  # targets and lengths go where they are needed
        torch._shape_as_tensor: _pass,  # a host tensor, whatever it is given
        torch._foreach_copy_: lambda func, args, kwargs: func(*args, **kwargs),
    }
)

_PLAIN_GETTERS = [
    "dtype",
    "layout",
    "shape",
    "ndim",
    "requires_grad",
    "is_leaf",
    "output_nr",
    "_version",
    "names",
    "is_sparse",
    "is_sparse_csr",
    "is_quantized",
    "is_meta",
    "is_mkldnn",
    "is_nested",
    "is_complex",
    "is_vulkan",
    "is_xla",
    "is_xpu",
    "is_mps",
    "is_ipu",
    "is_hpu",
    "is_mtia",
    "is_maia",
    "retains_grad",
    "name",
    "volatile",
    "itemsize",
    "nbytes",
    "_backward_hooks",
    "_post_accumulate_grad_hooks",
    "_is_view",
]
_PLAIN_SETTERS = ["requires_grad", "names", "_backward_hooks", "_post_accumulate_grad_hooks"]
_PLAIN_METHODS = [
    "size",
    "stride",
    "dim",
    "ndimension",
    "numel",
    "nelement",
    "storage_offset",
    "element_size",
    "is_contiguous",
    "is_floating_point",
    "is_complex",
    "is_signed",
    "is_conj",
    "is_neg",
    "is_inference",
    "is_same_size",
    "requires_grad_",
    "retain_grad",
    "__len__",
    "item",
    "tolist",
    "data_ptr",
    "_is_view",
    "_nested_tensor_size",
    "dense_dim",
    "sparse_dim",
    "is_nonzero",
    "__bool__",
    "__float__",
    "__int__",
    "__index__",
    "__complex__",
    "is_coalesced",
    "is_distributed",
    "has_names",
    "const_data_ptr",
    "_has_symbolic_sizes_strides",
]
for _name in _PLAIN_GETTERS:
    _descriptor: Any = getattr(Base, _name, None)
    if hasattr(_descriptor, "__get__") and not callable(_descriptor):
        PASS.add(_descriptor.__get__)
for _name in _PLAIN_SETTERS:
    if hasattr(Base, _name):
        PASS.add(getattr(Base, _name).__set__)
for _name in _PLAIN_METHODS:
    if callable(getattr(Base, _name, None)):
        PASS.add(getattr(Base, _name))
PASS.update({torch.is_floating_point, torch.is_complex, torch.numel, torch.result_type, torch.is_nonzero})
PASS.add(torch._has_compatible_shallow_copy_type)
PASS.add(torch._C._set_grad_enabled)
PASS.update({torch.is_same_size, Base.device.__get__, Base.is_cpu.__get__})
