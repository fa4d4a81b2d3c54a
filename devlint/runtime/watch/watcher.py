"""`watch_devices`: a function mode that follows tensors, real or virtual, and explains what goes wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from devlint.runtime import allowed, compat, modes, threads, transparency
from devlint.runtime.places import TRAIL, is_accelerated, place_of, tensors_in
from devlint.runtime.virtual import handlers as _handlers  # noqa: F401 - it fills PASS
from devlint.runtime.virtual import storages
from devlint.runtime.virtual.engine import PASS
from devlint.runtime.virtual.patching import Patches
from devlint.runtime.virtual.state import machine
from devlint.runtime.watch import current
from devlint.runtime.watch.indices import is_mask, is_number, numbers_in
from devlint.runtime.watch.recorder import Recorder, Trail, extended, operation_name
from devlint.runtime.watch.report import Report, describe_mismatch
from devlint.runtime.watch.sites import mark
from devlint.runtime.watch.syncs import ALWAYS, SOMETIMES

P = ParamSpec("P")
R = TypeVar("R")
Tensor = torch.Tensor
Base: Any = torch._C.TensorBase
Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def _waits_for_copy(source: torch.device, target: torch.device, asynchronous: bool) -> bool:
    """Whether a copy makes the host wait: a blocking one between host and device. Device to device never does."""
    return not asynchronous and "cpu" in (source.type, target.type) and source != target


def _is_staged(func: Any, tensor: Tensor, source: torch.device, onto: Tensor) -> bool:
    """Whether an asynchronous copy has to go through other memory: from or into memory of the host that isn't pinned.

    What isn't dense, or changes its type, is laid out anew in such memory first (`copy_requires_temporaries` in
    aten/src/ATen/native/cuda/Copy.cu). What `to` makes on the host for an asynchronous copy is pinned.
    """
    if source.type != "cpu":
        return func is Base.copy_ and place_of(onto).type == "cpu" and not (onto.is_pinned() and _is_dense(onto))
    return not (tensor.is_pinned() and tensor.dtype == onto.dtype and _is_dense(tensor))


def _is_dense(tensor: Tensor) -> bool:
    """Whether a tensor's elements fill its memory, in whatever order of its dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def keep_trail(source: Any, result: Any) -> None:
    """Gives `result` the trail of `source`, where it has one."""
    trail = getattr(source, TRAIL, None)
    if trail is not None:
        result._devlint_trail = trail


class _Watcher:
    """What is done about each function, whoever watches."""

    def __init__(self) -> None:
        self.handlers: dict[Any, Callable[[Any, Args, Kwargs], Any]] = {}
        for func in ALWAYS:
            self.handlers[func] = self._sync
        for func in SOMETIMES:
            self.handlers[func] = self._sometimes
        for func in (Base.to, Base.cuda, Base.cpu, Base.type, Base.type_as):
            self.handlers[func] = self._move
        for func in (torch.tensor, torch.as_tensor, torch.asarray):
            self.handlers[func] = self._from_data
        self.handlers[Base.new_tensor] = self._from_own_data
        self.handlers[Base.copy_] = self._copy_
        self.handlers[Base.numpy] = self._numpy
        self.handlers[Base.data.__set__] = self._set_data
        for func in (Base.data.__get__, Base.detach, torch.detach):
            self.handlers[func] = self._alias

    # --- ordinary operations ---

    def run(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """Any other function: its new tensors begin a trail."""
        __tracebackhide__ = True
        try:
            result = func(*args, **kwargs)
        except (RuntimeError, TypeError) as error:
            self.explain(error, func, args, kwargs)
            raise
        if isinstance(result, Tensor):
            if not (args and result is args[0]):
                result._devlint_trail = Trail((func, mark(), None, None))  # type: ignore[attr-defined]
        elif isinstance(result, tuple | list) and result and isinstance(result[0], Tensor):
            marked = mark()
            for item in result:
                if isinstance(item, Tensor) and not any(item is arg for arg in args):
                    item._devlint_trail = Trail((func, marked, None, None))  # type: ignore[attr-defined]
        return result

    def _alias(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """The same data under another name: the trail stays."""
        result = func(*args, **kwargs)
        keep_trail(args[0], result)
        return result

    def explain(self, error: BaseException, func: Any, args: Args, kwargs: Kwargs) -> None:
        """Adds the operands' places and trails to an error that came of mixing devices."""
        tensors = list(tensors_in((args, kwargs)))
        places = {place_of(tensor) for tensor in tensors}
        text = str(error)
        mixed = len(places) > 1 and any(is_accelerated(place) for place in places)
        if not mixed and "device type tensor to numpy" not in text:
            return
        if mixed and not any(word in text for word in ("device", "type", "cpu", "CPU", "cuda")):
            return
        event = current.add_mismatch(func, mark(), tensors, error)
        if event is not None:
            error.add_note(describe_mismatch(event))

    # --- waiting ---

    def _sync(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        result = self.run(func, args, kwargs)
        if any(is_accelerated(place_of(tensor)) for tensor in tensors_in((args, kwargs))):
            current.add("sync", func, mark())
        return result

    def _sometimes(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        if func in (Base.__getitem__, Base.__setitem__):
            self._note_index(func, args)
        result = self.run(func, args, kwargs)
        operands = tensors_in((args, kwargs))
        if any(is_accelerated(place_of(tensor)) for tensor in operands) and SOMETIMES[func](args, kwargs):
            current.add("sync", func, mark())
        return result

    def _note_index(self, func: Any, args: Args) -> None:
        """What an index, and what is put there, make the host read or copy."""
        here, cpu = place_of(args[0]), torch.device("cpu")
        for number in numbers_in(args[1]):
            if is_accelerated(place_of(number)):
                current.add("sync", func, mark())
        for index in tensors_in(args[1]):
            if not is_accelerated(here) or place_of(index).type != "cpu" or is_number(index):
                continue
            if is_mask(index):  # its places are found on the host, and copied from pinned memory
                current.add("transfer", func, mark(), index.numel(), (cpu, here), False)
            else:
                self._note_transfer(func, index, cpu, here)
        # A number is filled in, or copied: see `writing_waits`.
        if (
            func is Base.__setitem__
            and isinstance(args[2], Tensor)
            and (args[2].dim() or is_accelerated(place_of(args[2])))
        ):
            self._note_transfer(func, args[2], place_of(args[2]), here)

    # --- moving ---

    def _note_transfer(
        self, func: Any, tensor: Tensor, source: torch.device, target: torch.device, onto: Tensor | None = None
    ) -> None:
        """Counts a copy; `onto` is what an asynchronous one fills."""
        asynchronous = onto is not None
        if source == target or not (is_accelerated(source) or is_accelerated(target)):
            return
        if "meta" in (source.type, target.type):
            return
        with torch._C.DisableTorchFunctionSubclass():  # a lazy parameter would complain
            size = tensor.numel() * tensor.element_size()
        marked = mark()
        current.add("transfer", func, marked, size, (source, target), not asynchronous)
        if _waits_for_copy(source, target, asynchronous):
            current.add("sync", func, marked)
        elif onto is not None and _is_staged(func, tensor, source, onto):
            current.add("staged", func, marked)
        if is_accelerated(target) and source.type == "cpu" and self._was_on_device(tensor):
            current.add("round_trip", func, marked, size, (source, target))

    @staticmethod
    def _was_on_device(tensor: Tensor) -> bool:
        trail = getattr(tensor, "_devlint_trail", None)
        while trail is not None:
            if trail[2] is not None and is_accelerated(trail[2][0]):
                return True
            trail = trail[3]
        return False

    def _move(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        tensor = args[0]
        before = place_of(tensor)
        trail = getattr(tensor, "_devlint_trail", None)
        result = self.run(func, args, kwargs)
        if not isinstance(result, Tensor) or result is tensor:
            return result
        after = place_of(result)
        if after != before:
            onto = result if _is_asynchronous(func, args, kwargs) else None
            self._note_transfer(func, tensor, before, after, onto)
            result._devlint_trail = extended(trail, func, mark(), (before, after))  # type: ignore[attr-defined]
        return result

    def _copy_(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        result = self.run(func, args, kwargs)
        source = args[1] if len(args) > 1 else kwargs.get("src")
        if isinstance(source, Tensor):
            asynchronous = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
            self._note_transfer(func, source, place_of(source), place_of(args[0]), args[0] if asynchronous else None)
        return result

    def _from_data(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
        result = self.run(func, args, kwargs)
        after = place_of(result)
        if isinstance(data, Tensor):
            self._note_transfer(func, data, place_of(data), after)
        else:
            for item in tensors_in(data):  # each is read by the host
                if is_accelerated(place_of(item)):
                    current.add("sync", func, mark())
            self._note_transfer(func, result, torch.device("cpu"), after)
        return result

    def _from_own_data(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """`x.new_tensor(data)`."""
        __tracebackhide__ = True
        result = self.run(func, args, kwargs)
        data = args[1] if len(args) > 1 else kwargs.get("data")
        before = place_of(data) if isinstance(data, Tensor) else torch.device("cpu")
        self._note_transfer(func, result, before, place_of(result))
        return result

    def _numpy(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        __tracebackhide__ = True
        tensor = args[0]
        result = self.run(func, args, kwargs)
        self._note_transfer(func, tensor, place_of(tensor), torch.device("cpu"))
        return result

    def _set_data(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """`module.to` sets the data of its parameters: their trails go on."""
        tensor = args[0]
        before = place_of(tensor)
        result = func(*args)
        after = place_of(tensor)
        if before != after:
            tensor._devlint_trail = extended(getattr(tensor, TRAIL, None), "to", mark(), (before, after))
        return result


def _is_asynchronous(func: Any, args: Args, kwargs: Kwargs) -> bool:
    if "non_blocking" in kwargs:
        return bool(kwargs["non_blocking"])
    # `to(device, dtype, non_blocking, copy)`, `cuda(device, non_blocking)`: it is the first that is true or false.
    return func is not Base.cpu and next((arg for arg in args[1:] if isinstance(arg, bool)), False)


_watcher = _Watcher()


class _WatchMode(TorchFunctionMode):
    """Hands what torch is asked for to the watcher."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        __tracebackhide__ = True
        if not current.recorders():  # another task's watch
            return func(*args, **(kwargs or {}))
        handler = _watcher.handlers.get(func)
        if handler is not None:
            return handler(func, args, kwargs or {})
        if func in PASS:
            return func(*args, **(kwargs or {}))
        return _watcher.run(func, args, kwargs or {})


_shared = current.SharedMode(_WatchMode)


@contextmanager
def _as_started(counting: tuple[Recorder, ...]) -> Iterator[None]:
    """A thread's life: it counts for the watches of what started it."""
    _shared.enter()
    current.begin(*counting)
    try:
        yield
    finally:
        _shared.leave()


def _for_a_thread() -> AbstractContextManager[None]:
    """What a thread enters that is started here and now."""
    counting = current.recorders()
    return _as_started(counting) if counting else nullcontext()


_patches = Patches()


def _install() -> None:
    transparency.install(_patches)
    modes.install(_patches)
    storages.install_hiding(_patches)
    _watch_python_functions(_patches)
    threads.add(_for_a_thread)


def _uninstall() -> None:
    threads.remove(_for_a_thread)
    _patches.undo()


def _watch_python_functions(patches: Patches) -> None:
    """Functions that no function mode sees: printing (one wait, though CUDA makes several), and flushes."""
    to_text: Any = torch._tensor_str._str

    def text(tensor: Any, **options: Any) -> Any:
        if not is_accelerated(place_of(tensor)):
            return to_text(tensor, **options)
        current.add("sync", "print", mark())
        with current.muted():
            return to_text(tensor, **options)

    patches.set(torch._tensor_str, "_str", text)
    make_subclass = torch.Tensor._make_subclass

    def subclass(cls: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        result = make_subclass(cls, data, *args, **kwargs)
        keep_trail(data, result)
        return result

    patches.set(torch.Tensor, "_make_subclass", staticmethod(subclass))
    for owner in (torch.cuda, torch.cuda.memory, compat.accelerator):
        for name in ("synchronize", "empty_cache"):
            if owner is not None and name in vars(owner):
                patches.set(owner, name, _flush(vars(owner)[name]))


def _flush(function: Any) -> Any:
    @functools.wraps(function)
    def flushed(*args: Any, **kwargs: Any) -> Any:
        current.add("flush", operation_name(function), mark())
        return function(*args, **kwargs)

    return flushed


class watch_devices:  # noqa: N801 - reads as the function it stands for
    """Follows the tensors of this thread and task, and of those started inside: trails, transfers, syncs, mismatches.

    A context manager and a decorator. An operation that mixes devices raises the error that PyTorch raises, with a
    note that names each operand, its place, and the source lines that put it there. `report()` may be called at any
    time, also afterwards. Works with real accelerators and inside or outside `virtual_cuda`.
    """

    def __init__(self) -> None:
        self.recorder = Recorder()

    def __enter__(self) -> watch_devices:
        if not allowed.watching:
            _install()
        allowed.watching += 1
        self.recorder.virtual_devices = max(self.recorder.virtual_devices, machine.count)
        _shared.enter()
        current.begin(self.recorder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        current.end(self.recorder)
        _shared.leave()
        allowed.watching -= 1
        if not allowed.watching:
            _uninstall()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorates a function: each call is watched, and all calls share this report."""

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return wrapper

    def report(self) -> Report:
        """What was seen so far."""
        return self.recorder.report()

    def clear(self) -> None:
        """Forgets what was seen so far."""
        self.recorder.clear()
