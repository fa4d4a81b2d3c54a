"""DEV206: a random generator on another device than what it draws for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import HOST, Place, Sort, Value, calls_in, is_device_name
from devlint.lazy import cst, m
from devlint.rule import Effect, Report, Rule
from devlint_rules.mixing.apart import place_text

if TYPE_CHECKING:
    from devlint.facts import Facts, PlacementModel, Unit


class GeneratorDevice(Rule):
    """A random generator on another device than the tensor that it draws for.

    ## What it does
    Flags `torch.randn(..., device=..., generator=g)` and the other random factories where `g` was made for another
    device; and a loader, a sampler or `random_split` that is given a generator on an accelerator, since those draw on the host.

    ## Why is this bad
    `RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'`. The same seed gives other numbers on
    another device, so only you can say which generator is meant. To get the same numbers everywhere, draw on the host
    and move the result.

    ## Example
    ```python
    import torch

    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(3, device="cuda", generator=generator)
    ```

    ## Use instead
    ```python
    import torch

    generator = torch.Generator(device="cuda").manual_seed(0)
    noise = torch.randn(3, device="cuda", generator=generator)
    ```

    ## References
    - [torch.Generator](https://docs.pytorch.org/docs/stable/generated/torch.Generator.html)
    """

    code = "DEV206"
    name = "generator-device"
    trigger = r"\bgenerator\s*="
    effect = Effect(raises="RuntimeError", words="device type for generator but found")

    def may_hold(self, unit: Unit, model: PlacementModel) -> bool:
        model.ensure(unit.scope)
        calls = calls_in(unit.node)
        return any(_may_differ(call, model) for call in calls)

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        given = next((a.value for a in node.args if a.keyword is not None and a.keyword.value == "generator"), None)
        call, handed = facts.node(node), facts.node(given) if given is not None else None
        if given is None or not isinstance(call, ast.Call) or not isinstance(handed, ast.expr):
            return
        wanted, generator = _wanted(call, facts.model), _generator(handed, facts.model)
        if generator is None and _is_moved_at_once(node, given, facts):
            yield Report(
                node,
                f"`{facts.name_of(node.func)}` draws on cpu, and its result is moved: a caller's `{facts.name_of(given)}` can't be "
                "one of the accelerator",
                "likely",
                hint="draw where the generator is: `device=generator.device`",
            )
            return
        if wanted is None or generator is None or not _differ(generator, wanted):
            return
        yield Report(
            node,
            f"`{facts.name_of(given)}` is a generator {_place(generator.place, given, facts)}, and "
            f"`{facts.name_of(node.func)}` draws {_place(wanted.place, given, facts)}",
            "likely" if generator.likely or wanted.likely else "certain",
            notes=facts.notes(generator.trail),
            hint="make the generator for that device: `torch.Generator(device=...)`",
        )


# They draw the order of their samples on the host.
_HOST_SAMPLERS = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch.utils.data.RandomSampler",
        "torch.utils.data.WeightedRandomSampler",
        "torch.utils.data.SubsetRandomSampler",
        "torch.utils.data.random_split",
    }
)
_RANDOM = frozenset({"torch.rand", "torch.randn", "torch.randint", "torch.randperm", "torch.normal"})


def _is_moved_at_once(node: cst.Call, given: cst.BaseExpression, facts: Facts) -> bool:
    """Whether random numbers are made without a device, with a generator of a caller's choice, and moved elsewhere."""
    call, generator, scope = facts.node(node), facts.node(given), facts.scope
    if not isinstance(call, ast.Call) or not isinstance(generator, ast.Name) or scope is None:
        return False
    if facts.qualified(node.func) not in _RANDOM or any(k.arg in ("device", "out", None) for k in call.keywords):
        return False
    if generator.id not in {a.arg for a in scope.parameters} or f"{generator.id}.device" in scope.text:
        return False
    if any(isinstance(n, ast.Name) and n.id == generator.id and isinstance(n.ctx, ast.Store) for n in scope.nodes):
        return False
    move = next((p for p in facts.model.ancestors(call) if isinstance(p, ast.Call)), None)
    if move is None or not isinstance(move.func, ast.Attribute) or move.func.value is not call or len(move.args) > 1:
        return False
    if move.func.attr == "cuda":
        return True
    device = next((a for a in [*move.args, *(k.value for k in move.keywords if k.arg == "device")]), None)
    return move.func.attr == "to" and device is not None and is_device_name(device)


def _place(place: Place, given: cst.BaseExpression, facts: Facts) -> str:
    node = facts.node(given)
    assert isinstance(node, ast.expr)
    return place_text(place, node, facts)


def _may_differ(call: ast.Call, model: PlacementModel) -> bool:
    """Whether there is anything to judge in a call: two places that differ, or a generator that a caller gives."""
    given = next((k.value for k in call.keywords if k.arg == "generator"), None)
    if given is None:
        return False
    generator, wanted = _generator(given, model), _wanted(call, model)
    return isinstance(given, ast.Name) if generator is None else wanted is not None and _differ(generator, wanted)


def _wanted(call: ast.Call, model: PlacementModel) -> Value | None:
    """A value at the place where a call draws its numbers."""
    name = model.qualified(call.func)
    if name in _HOST_SAMPLERS:
        return Value(kind=model.value(call).kind, place=HOST)
    if (
        name not in _RANDOM
        or any(isinstance(a, ast.Starred) for a in call.args)
        or any(k.arg is None for k in call.keywords)
    ):
        return None
    made = model.value(call)
    return made if made.is_tensor else None


def _generator(node: ast.expr, model: PlacementModel) -> Value | None:
    value = model.value(node)
    return value if value.name == "torch.Generator" else None


def _differ(generator: Value, wanted: Value) -> bool:
    """Whether the two are surely on devices of different types; the index may differ."""
    here, there = generator.place, wanted.place
    if (here == HOST) != (there == HOST):
        other = there if here == HOST else here
        return other.off_host
    return here.sort is there.sort is Sort.ACCELERATOR and here.name.split(":")[0] != there.name.split(":")[0]
