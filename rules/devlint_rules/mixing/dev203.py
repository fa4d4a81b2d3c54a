"""DEV203: a factory without a device whose result meets an input."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import own_nodes
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.mixing.apart import dropped_move, named_here, place_text, text_of
from devlint_rules.mixing.created import device_to_create_on, in_other_branches, keyed_by, root_name

if TYPE_CHECKING:
    from devlint.facts import Facts


class FactoryWithoutDevice(Rule):
    """A tensor created without a device that meets an input, which may be on any device.

    ## What it does
    Flags `torch.zeros`, `torch.arange`, `torch.FloatTensor` and the like without `device=` where the result meets an input
    of the function, a parameter, a buffer, or what a module computed: the function fails for any caller with tensors on
    an accelerator. Left alone are results that are moved first, results without dimensions in element-wise arithmetic, and
    plain host data; also functions that are meant for the host, by their name or class (data sets, collate
    functions, loading, saving, plots, export, tests), or that give NumPy what the result meets, just as it is. Told where it is
    selected by its code: outside of modules, in a file that says nothing of devices, and that no file imports which does.

    ## Why is this bad
    It works as long as everything is on the host, and so it passes tests on CI; on a GPU it raises
    `RuntimeError: Expected all tensors to be on the same device`.

    ## Example
    ```python
    import torch
    from torch import nn


    class Masked(nn.Module):
        def forward(self, x, lengths):
            steps = torch.arange(x.size(1))
            mask = steps < lengths.unsqueeze(1)
            return x.masked_fill(~mask, 0.0)


    Masked()(torch.ones(2, 4, device="cuda"), torch.tensor([1, 3], device="cuda"))
    ```

    ## Use instead
    ```python
    import torch
    from torch import nn


    class Masked(nn.Module):
        def forward(self, x, lengths):
            steps = torch.arange(x.size(1), device=lengths.device)
            mask = steps < lengths.unsqueeze(1)
            return x.masked_fill(~mask, 0.0)


    Masked()(torch.ones(2, 4, device="cuda"), torch.tensor([1, 3], device="cuda"))
    ```

    ## Fix safety
    A suggestion, which `--fix` leaves to you: the tensor is created on the device of the one that it meets. The inputs may be meant to
    be on the host, and the function doesn't say so. All tensors that a function makes in this way are mended, or none. Not offered

    - if the tensor is as long as another input, or it isn't certain that the other operand is a tensor;
    - if the function makes other things on the host that take no `device`, moves the result, or has other tensors on different devices;
    - for a function that is no module's method, isn't called by one and names no device itself;
    - in tests, in methods of a class that is no module, and in files that don't use `torch.nn`: what these are given may never
      leave the host.

    ## References
    - [CUDA semantics: device-agnostic code](https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code)
    - [mozilla/TTS 549](https://github.com/mozilla/TTS/issues/549)
    """

    code = "DEV203"
    name = "factory-without-device"
    trigger = (
        r"\b(?:arange|linspace|logspace|eye|zeros|ones|empty|full|rand|randn|randint|randperm|tensor|tri[lu]_indices|normal"
        r"|\w+_window|from_numpy|\w*Tensor)\("
    )
    event = "unplaced-factory"
    needs = (r"\bdef\s",)
    effect = Effect(raises="RuntimeError", words="Expected all tensors to be on the same device")
    fix = "D"

    def shape(self) -> m.BaseMatcherNode:
        return m.Call()

    def judge(self, node: cst.Call, facts: Facts) -> Iterator[Report]:
        mixing = facts.unplaced(node)
        call = facts.node(node)
        if mixing is None or not isinstance(call, ast.Call) or dropped_move(mixing.host, facts):
            return
        function = facts.model.enclosing_scope(call)
        if isinstance(function, ast.Module) or (function.name in _BEFORE_MOVES and _is_of_a_module(function, facts)):
            return
        other, place = text_of(mixing.other, facts), mixing.other.value.place
        if any("," in key for name in (root_name(mixing.other.node), place.name) for key in keyed_by(name, function)):
            # Parts of a dictionary whose keys are tuples: nobody knows where those are.
            return
        where = "wherever the caller has it" if place.name == other else place_text(place, call, facts)
        around = facts.model.enclosing_scope(mixing.other.node) if not mixing.other.foreign else function
        inside = f" in `{around.name}`" if around is not function and not isinstance(around, ast.Module) else ""
        device = device_to_create_on(function, call, facts)
        if device and _are_of_its_type_beside(call, device, function):
            device = None
        yield Report(
            node,
            f"`{facts.name_of(node.func)}` creates on cpu what meets `{other}`{inside}, which is {where}: "
            "give it a `device`",
            "likely",
            minor=mixing.weak,
            notes=(facts.note(f"`{other}` meets it here", mixing.node),),
            change=_created_there(call, named_here(device, call, facts), facts) if device else None,
        )


def _are_of_its_type_beside(call: ast.Call, device: str, function: ast.AST) -> bool:
    """Whether another factory in the function is told the type beside the same device, and this one isn't: which type is meant, the reader knows."""
    said = {k.arg for k in call.keywords}
    return "dtype" not in said and any(
        isinstance(n, ast.Call)
        and {"device", "dtype"} <= {k.arg for k in n.keywords}
        and any(k.arg == "device" and ast.unparse(k.value) == device for k in n.keywords)
        and any(k.arg == "dtype" and isinstance(k.value, ast.Attribute) and k.value.attr == "dtype" for k in n.keywords)
        for n in own_nodes(function)
    )


# What these create in a module moves with it.
_BEFORE_MOVES = ("__init__", "reset_parameters", "init_weights")


def _is_of_a_module(function: ast.FunctionDef | ast.AsyncFunctionDef, facts: Facts) -> bool:
    cls = facts.model.class_around(function)
    return cls is None or any(facts.model.is_module_base(base) for base in cls.outside_bases)


def _created_there(call: ast.Call, device: str, facts: Facts) -> Change:
    made = (call, *in_other_branches(call, facts))
    edits = tuple(sorted(facts.with_argument(one, f"device={device}") for one in made))
    return Change(f"create it there: `device={device}`", "display", edits=edits)
