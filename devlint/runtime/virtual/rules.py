"""Operands at different places: which operators accept them, and where the result is.

The call runs on host data under a dispatch mode, so that each ATen operator inside it is judged by its own schema:

- an operator without a kernel of its own (CompositeExplicitAutograd) is judged by the operators that it calls;
- an operator tagged `pointwise` goes through TensorIterator, which takes 0-dim host tensors as numbers (the
  exceptions are in `device_checks.py`: kernels that check, arguments that are bound, iterators that take one or none);
- an argument of type `Tensor?[]` is a list of indices, which may be on the host;
- `copy_` and its like move data, and write where they write;
- arguments in `HOST_ARGUMENTS` are read by the host in CUDA's kernels, so they may be (or must be) there;
- everything else checks that all its operands are on one device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from devlint.runtime.places import HOST, is_accelerated, place_of, tensors_in
from devlint.runtime.virtual import engine, kernels, subclasses
from devlint.runtime.virtual.device_checks import (
    BOUND_ARGUMENTS,
    CHECKED_ITERATORS,
    NO_NUMBERS,
    ONE_NUMBER,
    REFUSED_NUMBERS,
    UNTAGGED_ITERATORS,
)
from devlint.runtime.virtual.errors import (
    argument_elsewhere,
    device_type_elsewhere,
    mask_elsewhere,
    number_refused,
    too_many_numbers,
    two_devices,
)
from devlint.runtime.virtual.state import machine

# Operators that move data between devices. The first argument is written, or names the result's place.
_COPIES = frozenset({"aten::copy_", "aten::copy", "aten::_foreach_copy_", "aten::_foreach_copy", "aten::_copy_from"})
# (operator, argument): a 0-dim host tensor is moved to the device.
NUMBER_ARGUMENTS = frozenset({("_index_put_impl_", "values")})
# Indices that are moved to the indexed tensor's device, wherever they are.
_MOVED_INDICES = frozenset({"_index_put_impl_", "index_put_", "index_put", "_unsafe_index_put"})
# (operator, argument): its value is read, wherever it is.
_READ_ARGUMENTS = frozenset({("index_fill_", "value")})
# Written in terms of others, but with a check of its own.
_OWN_CHECK = frozenset({"_sparse_compressed_tensor_unsafe", "block_diag", "convolution", "convolution_overrideable"})
# (operator, argument): host data of any shape; CUDA's kernels read it on the host.
HOST_ARGUMENTS = frozenset(
    {
        ("_pack_padded_sequence", "lengths"),
        ("_pad_packed_sequence", "batch_sizes"),
        ("tensor_split", "tensor_indices_or_sections"),
        ("_ctc_loss", "input_lengths"),
        ("_ctc_loss", "target_lengths"),
        ("_fused_adam_", "state_steps"),
        ("_fused_adamw_", "state_steps"),
    }
)


def _operands(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, torch.Tensor]]:
    schema = func._schema
    for argument, value in zip(schema.arguments, args, strict=False):
        for tensor in tensors_in(value):
            yield argument, tensor
    for argument in schema.arguments[len(args) :]:
        for tensor in tensors_in(kwargs.get(argument.name)):
            yield argument, tensor


def _is_index_list(argument: Any) -> bool:
    return str(argument.type) == "List[Optional[Tensor]]"


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def result_place(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """The virtual place of an ATen operator's results, None for the host.

    Raises RuntimeError, as CUDA does, where the operator does not take operands at these places.
    """
    __tracebackhide__ = True
    operands = list(_operands(func, args, kwargs))
    places = {place_of(tensor) for _, tensor in operands}
    if len(places) < 2:
        return operands[0][1]._devlint_place if operands else None  # type: ignore[attr-defined]
    name = func._schema.name
    if name in _COPIES:
        return operands[0][1]._devlint_place  # type: ignore[attr-defined,no-any-return]
    base = name.removeprefix("aten::")
    pointwise = base in UNTAGGED_ITERATORS or base.startswith("_foreach_")
    pointwise |= torch.Tag.pointwise in func.tags and base not in CHECKED_ITERATORS
    takes_numbers = pointwise and base not in NO_NUMBERS
    bound: list[tuple[Any, torch.Tensor, torch.device]] = []
    numbers: list[str] = []
    for argument, tensor in operands:
        place = place_of(tensor)
        if base in _MOVED_INDICES and _is_index_list(argument):
            continue
        if (base, argument.name) in _READ_ARGUMENTS:
            continue
        if (base, argument.name) in NUMBER_ARGUMENTS and tensor.dim() == 0:
            continue
        if place == HOST and not _is_written(argument):
            if _is_index_list(argument) or (base, argument.name) in HOST_ARGUMENTS:
                continue
            if tensor.dim() == 0 and takes_numbers and (base, argument.name) not in BOUND_ARGUMENTS:
                numbers.append(argument.name)
                continue
        bound.append((argument, tensor, place))
    if not bound:
        return None
    _check_index(base, bound)
    common = bound[0][2]
    for argument, _, place in bound[1:]:
        if place != common:
            raise _mismatch(func, pointwise, argument.name, place, common, bound)
    if len(numbers) > 1 and base in ONE_NUMBER and common != HOST:
        raise too_many_numbers()
    for number in numbers:  # by the kernel, after the iterator
        if (base.rstrip("_"), number) in REFUSED_NUMBERS and common != HOST:
            raise number_refused(base.rstrip("_"), number)
    return bound[0][1]._devlint_place  # type: ignore[attr-defined,no-any-return]


def _check_index(base: str, bound: list[tuple[Any, torch.Tensor, torch.device]]) -> None:
    __tracebackhide__ = True
    if base not in ("index", "_unsafe_index"):
        return
    indexed = bound[0][2]
    for argument, _, place in bound[1:]:
        if _is_index_list(argument) and place != indexed:
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({indexed})"
            )


def _type_name(tensor: torch.Tensor) -> str:
    text = str(tensor.type())
    return text if place_of(tensor) == HOST else text.replace("torch.", f"torch.{place_of(tensor).type}.", 1)


def _mismatch(
    func: Any,
    pointwise: bool,
    argument: str,
    place: torch.device,
    common: torch.device,
    bound: list[tuple[Any, torch.Tensor, torch.device]],
) -> Exception:
    base = func._schema.name.removeprefix("aten::")
    if "convolution" in base and place.type != common.type and argument in ("weight", "bias"):
        other = next(tensor for found, tensor, _ in bound if found.name == argument)
        return _convolution_elsewhere(argument, place, common, bound[0][1], other)
    if base == "masked_fill_" and argument == "mask":
        return mask_elsewhere(place, common)
    if pointwise:
        found = sorted({common, place}, key=lambda device: not is_accelerated(device))
        return two_devices(found[0], found[1])
    return argument_elsewhere(argument, place, common, kernels.wrapper_of(func))


def _convolution_elsewhere(
    argument: str, place: torch.device, common: torch.device, given: torch.Tensor, other: torch.Tensor
) -> Exception:
    """What a convolution says: for host input it depends on the library that it would use (`use_mkldnn` in Convolution.cpp)."""
    text = f"Input type ({_type_name(given)}) and {argument} type ({_type_name(other)}) should be the same"
    if common != HOST:
        return RuntimeError(text)
    if given.shape[0] > 1 or given.numel() > 20480:
        return RuntimeError(f"{text} or input should be a MKLDNN tensor and {argument} is a dense tensor")
    return argument_elsewhere(argument, place, common, "__slow_conv2d_forward")


def storage_address(tensor: torch.Tensor) -> int:
    """Where a tensor's memory is; what functorch has wrapped is unwrapped. 0 where it has none, or one of many."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    if tensor.layout is not torch.strided or subclasses.is_wrapper(tensor):
        return 0
    return tensor.untyped_storage().data_ptr()


# The last is met in inference mode alone: elsewhere autograd has taken such operators apart.
_COMPOSITE = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
_composite_key: dict[Any, Any] = {}


def composite_key(func: Any) -> Any:
    """The dispatch key under which an operator is written in terms of others; None where it has kernels of its own."""
    if func not in _composite_key:
        has, name = torch._C._dispatch_has_kernel_for_dispatch_key, func.name()
        own = has(name, "CPU") or func._schema.name.removeprefix("aten::") in _OWN_CHECK
        keys = [key for key in _COMPOSITE if not own and has(name, key)]
        _composite_key[func] = getattr(torch._C.DispatchKey, keys[0]) if keys else None
    return _composite_key[func]


class _DeviceRules(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Applies `result_place` to every operator, and remembers which storage is where."""

    def __init__(self, first: torch.device | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_storage: dict[int, torch.device | None] = {}
        self.kept: list[torch.Tensor] = []  # so that no address is used twice
        # Where an operator that is written in terms of others makes new tensors: `self.options()`, nearly always.
        self.first = first

    def remember(self, value: Any) -> None:
        for tensor in tensors_in(value):
            address = storage_address(tensor)
            if address:
                self.kept.append(tensor)
                self.by_storage[address] = tensor._devlint_place  # type: ignore[attr-defined]

    def _place_strangers(self, operands: list[torch.Tensor]) -> None:
        """Tensors that C++ made out of our sight (`at::tensor(lengths, options)`) are where it makes its others."""
        for tensor in operands:
            if place_of(tensor) == HOST and (address := storage_address(tensor)):
                tensor._devlint_place = self.by_storage.get(address, self.first)  # type: ignore[attr-defined]

    def _decompose(self, func: Any, key: Any, args: Any, kwargs: Any, operands: list[torch.Tensor]) -> Any:
        __tracebackhide__ = True
        before, self.first = self.first, operands[0]._devlint_place  # type: ignore[attr-defined]
        try:
            with self:
                return func._op_dk(key, *args, **kwargs)
        finally:
            self.first = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        __tracebackhide__ = True
        kwargs = dict(kwargs or {})
        operands = [tensor for _, tensor in _operands(func, args, kwargs)]
        self._place_strangers(operands)
        if len({place_of(tensor) for tensor in operands}) > 1:
            key = composite_key(func)
            if key is not None:
                return self._decompose(func, key, args, kwargs, operands)
        place = result_place(func, args, kwargs)
        device = kwargs.get("device")
        if device is not None:
            place = machine.place(device)
            if place is not None:
                kwargs["device"] = HOST
            elif not operands and torch.device(device).type == "cpu":
                place = self.first
        self.remember((args, kwargs))
        result = engine.tag(func(*args, **kwargs), place)
        self.remember(result)
        return result


def _check_recurrent(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    __tracebackhide__ = True
    given = place_of(args[0])
    # (input, hidden, params, ...) or, packed, (data, batch_sizes, hidden, params, ...)
    hidden, params = (args[1], args[2]) if not isinstance(args[2], bool) else (args[1], ())
    if (
        isinstance(args[1], torch.Tensor)
        and not isinstance(args[2], bool)
        and len(args) > 3
        and not isinstance(args[3], bool)
    ):
        hidden, params = args[2], args[3]
    for what, tensors in (("parameter", params), ("hidden", hidden)):
        for tensor in tensors_in(tensors):
            if place_of(tensor) != given:
                raise RuntimeError(
                    f"Input and {what} tensors are not at the same device, found input tensor at {given} "
                    f"and {what} tensor at {place_of(tensor)}"
                )


def _check_attention(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    __tracebackhide__ = True
    names = ("query", "key", "value")
    query, key, value = (place_of(args[i] if len(args) > i else kwargs[name]) for i, name in enumerate(names))
    if not query.type == key.type == value.type:
        raise RuntimeError(
            f"Expected query, key, and value to have the same device type, but got query.device: {query} key.device: {key} "
            f"and value.device: {value} instead."
        )


def _check_meshgrid(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    __tracebackhide__ = True
    if len({place_of(tensor) for tensor in tensors_in(args)}) > 1:
        raise RuntimeError("meshgrid expects all tensors to have the same device")


def _check_types(function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    __tracebackhide__ = True
    types = [place_of(tensor).type for tensor in tensors_in((args, kwargs))]
    for found in types[1:]:
        if found != types[0]:
            raise device_type_elsewhere(types[0], found, function)


# Functions that look at where their operands are before any operator does.
_CHECKS: dict[Any, Callable[[tuple[Any, ...], dict[str, Any]], None]] = {
    **dict.fromkeys((torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu), _check_recurrent),
    **dict.fromkeys((torch.meshgrid, vars(torch._C)["_VariableFunctions"].meshgrid), _check_meshgrid),
    vars(torch._C)["_nn"].scaled_dot_product_attention: _check_attention,
    # At their types alone (at::checkDeviceType).
    **dict.fromkeys((torch.inner, torch.Tensor.inner), partial(_check_types, "inner()")),
    **dict.fromkeys((torch.take_along_dim, torch.Tensor.take_along_dim), partial(_check_types, "torch.take_along_dim():")),
}  # fmt: skip


def _with_tensor_value(tensor: Any, index: Any, value: Any) -> tuple[Any, Any, Any]:
    """The arguments of `tensor[index] = value`, a number made a tensor.

    Releases after 2.13 fill numbers in by `index_fill_` and `masked_fill_`, which take no index of another device: for
    such an index the number goes into a tensor, as it always did.
    """
    if not isinstance(value, int | float | complex):
        return tensor, index, value
    with torch._C.DisableTorchFunction():
        number = torch.full((), value, dtype=tensor.dtype)
    return tensor, index, engine.tag(number, tensor._devlint_place)


def _run_with_meta(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """PyTorch's kernels for `meta` take the call, whatever device the others are on: it does as with host tensors."""
    __tracebackhide__ = True
    place = next(place for tensor in tensors_in((args, kwargs)) if is_accelerated(place := place_of(tensor)))
    try:
        result = func(*args, **kwargs)
    except RuntimeError as error:
        raise type(error)(re.sub(r"\bcpu\b", str(place), str(error))) from None
    for tensor in tensors_in(result):
        tensor._devlint_place = None if tensor.is_meta else place  # type: ignore[attr-defined]
    return result


def run_mixed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a call whose operands are at different places; raises what CUDA raises where it can't."""
    __tracebackhide__ = True
    if any(tensor.is_meta for tensor in tensors_in((args, kwargs))):
        return _run_with_meta(func, args, kwargs)
    if (check := _CHECKS.get(func)) is not None:
        check(args, kwargs)
    if func is torch.Tensor.__setitem__:
        args = _with_tensor_value(*args)
    first = next(tensors_in((args, kwargs)))._devlint_place  # type: ignore[attr-defined]
    with _DeviceRules(first) as rules:
        rules.remember((args, kwargs))
        try:
            result = func(*args, **kwargs)
        except RuntimeError as error:
            raise error.with_traceback(None)  # noqa: B904 - the same error, without the way through our mode
    for tensor in tensors_in(result):
        if tensor._devlint_place is None:  # type: ignore[attr-defined]
            tensor._devlint_place = rules.by_storage.get(storage_address(tensor))  # type: ignore[attr-defined]
    return result


engine.run_mixed = run_mixed
