"""Assertions about places, for tests. Each raises AssertionError with what is where; none needs a GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

import torch

from devlint.runtime.places import place_of
from devlint.runtime.virtual.context import is_virtual, virtual_cuda
from devlint.runtime.watch.recorder import trail_steps
from devlint.runtime.watch.sites import Site
from devlint.runtime.watch.watcher import watch_devices

T = TypeVar("T")


def named_tensors(value: Any, name: str = "it", seen: set[int] | None = None) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor reachable from a value, with the expression that reaches it.

    Goes through lists, tuples, sets, dicts, and the attributes of objects (modules, dataclasses, packed sequences),
    but not into modules of code, classes or functions.
    """
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from named_tensors(item, f"{name}[{key!r}]", seen)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for field in value._fields:
            yield from named_tensors(getattr(value, field), f"{name}.{field}", seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for position, item in enumerate(value):
            yield from named_tensors(item, f"{name}[{position}]", seen)
    elif isinstance(value, torch.nn.Module):
        for key, item in vars(value).items():
            if key in ("_parameters", "_buffers", "_modules"):
                for child, owned in item.items():
                    yield from named_tensors(owned, f"{name}.{child}", seen)
            elif not key.endswith("_hooks"):
                yield from named_tensors(item, f"{name}.{key}", seen)
    elif hasattr(value, "__dict__") and not isinstance(value, type | ModuleType) and not callable(value):
        for key, item in vars(value).items():
            yield from named_tensors(item, f"{name}.{key}", seen)


def _matches(place: torch.device, wanted: torch.device) -> bool:
    return place.type == wanted.type and (wanted.index is None or place.index in (None, wanted.index))


def _story(tensor: torch.Tensor) -> str:
    steps = trail_steps(tensor)
    return "".join(
        f"\n    {step.what} on {step.place} by {step.operation} at {Site(step.path, step.line, step.function)}"
        for step in steps
    )


def _counted(number: int) -> str:
    return f"{number} tensor{'' if number == 1 else 's'}"


def _fail(heading: str, rows: list[tuple[str, torch.Tensor]], limit: int = 10) -> None:
    __tracebackhide__ = True
    lines = [f"  {name} {list(tensor.shape)} is on {place_of(tensor)}{_story(tensor)}" for name, tensor in rows[:limit]]
    if len(rows) > limit:
        lines.append(f"  ... and {len(rows) - limit} more")
    raise AssertionError("\n".join([heading, *lines]))


def assert_on(obj: Any, device: torch.device | str) -> None:
    """Every tensor of `obj` (a tensor, module, container, any object) is on `device`.

    `"cuda"` without an index matches every CUDA device. Raises AssertionError naming those elsewhere, and where
    `obj` holds no tensor at all.
    """
    __tracebackhide__ = True
    wanted = torch.device(device)
    tensors = list(named_tensors(obj))
    if not tensors:
        raise AssertionError(f"expected tensors on {wanted}, but found no tensor in a {type(obj).__name__}")
    elsewhere = [(name, tensor) for name, tensor in tensors if not _matches(place_of(tensor), wanted)]
    if elsewhere:
        _fail(
            f"expected everything on {wanted}, but {len(elsewhere)} of {_counted(len(tensors))} {'is' if len(elsewhere) == 1 else 'are'} not:",
            elsewhere,
        )


def assert_same_device(*objs: Any) -> None:
    """All tensors of all objects are on one device. Raises AssertionError naming one of each place."""
    __tracebackhide__ = True
    tensors = [row for i, obj in enumerate(objs) for row in named_tensors(obj, f"argument {i}")]
    by_place: dict[torch.device, tuple[str, torch.Tensor]] = {}
    for name, tensor in tensors:
        by_place.setdefault(place_of(tensor), (name, tensor))
    if len(by_place) > 1:
        _fail(f"expected one device, but found {len(by_place)}:", list(by_place.values()))


def _with_devices(count: int) -> virtual_cuda | None:
    if is_virtual() or torch.cuda.device_count() >= count:
        return None
    return virtual_cuda(count)


def assert_moves_with_module(module: torch.nn.Module) -> None:
    """`module.to(device)` takes along parameters, buffers and every tensor reachable from the module.

    Works on a copy, on the accelerator that there is, else on a virtual one. Raises AssertionError naming the tensors
    that stayed (plain attributes, modules in lists).
    """
    __tracebackhide__ = True
    machine = _with_devices(1)
    if machine is not None:
        with machine:
            return assert_moves_with_module(module)
    moved = copy.deepcopy(module).to("cpu").to("cuda")
    stayed = [(name, t) for name, t in named_tensors(moved, type(module).__name__) if place_of(t).type != "cuda"]
    if stayed:
        _fail(
            f"{_counted(len(stayed))} of {type(module).__name__} {'does' if len(stayed) == 1 else 'do'} not follow .to(); "
            "register as a buffer what is no parameter, and as a submodule what has some:",
            stayed,
        )
    return None


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        moved = value.detach().to(device)
        return moved.requires_grad_(value.requires_grad) if moved.is_floating_point() else moved
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).to(device)
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(item, device) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_moved(item, device) for item in value)
    return value


def assert_device_agnostic(fn: Callable[..., Any], *args: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """`fn(*args)` gives the same result on the CPU and on each accelerator, with its outputs where its inputs are.

    Tensors and modules among the arguments (and `fn`, if it is a module) are copied to each device in turn: the
    accelerators that there are, else two virtual ones. Random numbers are seeded alike before each call. Raises
    AssertionError, or what `fn` raises on a device.
    """
    __tracebackhide__ = True
    machine = _with_devices(1)
    if machine is not None:
        with virtual_cuda(2):
            return assert_device_agnostic(fn, *args, rtol=rtol, atol=atol)
    expected: Any = None
    for device in [torch.device("cpu"), *(torch.device("cuda", i) for i in range(torch.cuda.device_count()))]:
        torch.manual_seed(0)
        call = _moved(fn, device) if isinstance(fn, torch.nn.Module) else fn
        try:
            with watch_devices():
                result = call(*(_moved(arg, device) for arg in args))
        except Exception as error:
            error.add_note(f"devlint: raised with all inputs on {device}")
            raise
        tensors = list(named_tensors(result, "the result"))
        elsewhere = [(name, t) for name, t in tensors if place_of(t) != device]
        if elsewhere:
            _fail(f"inputs were on {device}, but:", elsewhere)
        on_host = _moved(result, torch.device("cpu"))
        if device.type == "cpu":
            expected = on_host
            continue
        try:
            torch.testing.assert_close(on_host, expected, rtol=rtol, atol=atol, equal_nan=True)
        except TypeError:  # values that torch.testing does not compare
            pairs = zip(named_tensors(on_host), named_tensors(expected), strict=True)
            for (_, found), (_, wanted) in pairs:
                torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            raise AssertionError(f"the result on {device} differs from the CPU's: {error}") from None
    return None


def assert_no_sync(fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Calls `fn` and returns its result. Raises AssertionError naming the lines that made the host wait."""
    __tracebackhide__ = True
    with watch_devices() as watch:
        result = fn(*args, **kwargs)
    syncs = watch.report().waits
    if syncs:
        lines = "\n".join(f"  {event.count} x {event.operation} at {event.where}" for event in syncs)
        raise AssertionError(f"expected no sync, but the host waited {sum(e.count for e in syncs)} times:\n{lines}")
    return result
