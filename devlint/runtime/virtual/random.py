"""Random numbers: generators of a virtual device, and the CUDA halves of seeding.

All virtual devices draw from the host's default generator, so that a program seeded alike gives the same numbers
under virtual CUDA as on the CPU. (Real CUDA has a stream of its own for each device.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from devlint.runtime.places import HOST, accelerator, virtual_place
from devlint.runtime.virtual.patching import Patches
from devlint.runtime.virtual.state import machine

_HostGenerator: Any = torch._C.Generator


class _GeneratorMeta(type(_HostGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), _HostGenerator)


class Generator(_HostGenerator, metaclass=_GeneratorMeta):  # type: ignore[misc]
    """`torch.Generator` that may belong to a virtual device."""

    _place: torch.device = HOST

    def __new__(cls, device: Any = "cpu") -> Any:
        place = machine.place(device)
        if place is None:
            return _HostGenerator(device)
        generator = super().__new__(cls, "cpu")
        generator._place = place
        return generator

    @property
    def device(self) -> torch.device:
        """Where its numbers are drawn."""
        return self._place

    def clone_state(self) -> Generator:
        """A copy with the same state."""
        copy: Generator = Generator(self._place)
        copy.set_state(self.get_state())
        return copy

    def __reduce__(self) -> Any:
        return _rebuild, (str(self._place), self.get_state())


def _rebuild(device: str, state: torch.Tensor) -> Any:
    generator = torch.Generator(device)
    generator.set_state(state)
    return generator


def _get_state(device: Any = None) -> torch.Tensor:
    machine.index(device)
    return torch.default_generator.get_state()


def _set_state(new_state: torch.Tensor, device: Any = None) -> None:
    machine.index(device)
    torch.default_generator.set_state(new_state)


def _set_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        _set_state(state, index)


def _manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(int(seed))


def _seed() -> None:
    torch.default_generator.seed()


class DefaultGenerator(Generator):
    """A device's default generator: the host's, which C functions are given in its place."""


def _of_the_host(name: str) -> Any:
    return lambda generator, *args: getattr(torch.default_generator, name)(*args)


for _name in ("get_state", "set_state", "manual_seed", "seed", "initial_seed"):
    setattr(DefaultGenerator, _name, _of_the_host(_name))


class _DefaultGenerators(Sequence[Any]):
    """`torch.cuda.default_generators`: one for each device."""

    def __len__(self) -> int:
        return machine.visible()

    def __getitem__(self, index: Any) -> Any:
        found = range(len(self))[index]
        return [self[i] for i in found] if isinstance(index, slice) else DefaultGenerator(virtual_place(found))


def install(patches: Patches) -> None:
    """Puts these in place of torch's."""
    patches.set(torch, "Generator", Generator)
    module: Any = getattr(torch, accelerator.kind)
    functions: dict[str, Any] = {
        "get_rng_state": _get_state,
        "get_rng_state_all": lambda: [_get_state(i) for i in range(machine.visible())],
        "set_rng_state": _set_state,
        "set_rng_state_all": _set_all,
        "manual_seed": _manual_seed,
        "manual_seed_all": _manual_seed,
        "seed": _seed,
        "seed_all": _seed,
        "initial_seed": lambda: torch.default_generator.initial_seed(),
    }
    homes = [module, getattr(module, "random", module)]
    for name, function in functions.items():
        for home in homes:
            if hasattr(home, name):
                patches.set(home, name, function)
    patches.set(module, "default_generators", _DefaultGenerators())
