"""One call with its evaluated arguments, and what can be said of any call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from devlint.placement.devices import place_of_device
from devlint.placement.expressions import combined
from devlint.placement.scope import Scope
from devlint.placement.values import (
    GATHERED,
    HOST,
    NOWHERE,
    UNKNOWN,
    Happening,
    Place,
    Sort,
    Step,
    Value,
    either,
    leaves,
    replace,
    sequence,
)
from devlint.source.kinds import Kind
from devlint.source.paths import unparsed


@dataclass
class Call:
    """One call with its evaluated arguments."""

    frame: Scope
    node: ast.Call
    positional: list[Value]
    keywords: dict[str, Value]
    # What `*args` and `**kwargs` hand on.
    spread: list[Value]

    @property
    def open_ended(self) -> bool:
        """More may be given than is seen."""
        return bool(self.spread)

    def argument(self, index: int, name: str = "") -> Value | None:
        """An argument by position or by keyword."""
        if name and name in self.keywords:
            return self.keywords[name]
        return self.positional[index] if 0 <= index < len(self.positional) else None

    def argument_node(self, index: int, name: str = "") -> ast.expr | None:
        for keyword in self.node.keywords:
            if keyword.arg == name and name:
                return keyword.value
        return self.node.args[index] if 0 <= index < len(self.node.args) else None

    @property
    def everything(self) -> list[Value]:
        return [*self.positional, *self.keywords.values()]

    def step(self, message: str) -> Step:
        return Step(message, self.frame.source.path, self.node.lineno, self.node.col_offset)

    def happened(self, what: Literal["saved", "called"], to: Value, message: str) -> None:
        """Notes what this call does to an object."""
        self.frame.happenings[Happening(what, to.site, to.place, self.step(message))] = None

    @cached_property
    def text(self) -> str:
        """The call as written, shortened."""
        text = unparsed(self.node.func)
        return f"{text}(...)" if self.node.args or self.node.keywords else f"{text}()"

    def device(self, index: int, name: str = "device") -> tuple[Place, bool] | None:
        """The place that an argument names, where it names one."""
        value = self.argument(index, name)
        if value is None:
            return None
        value = self.frame.analysis.resolve(value, self.frame.source)
        return place_of_device(value, self.argument_node(index, name))

    def computed(self, kind: Kind, *, likely: bool = False) -> Value:
        """A value computed from the arguments, where they are."""
        place, trail, unsure = combined(self.everything)
        return Value(kind, place, likely=likely or unsure, trail=trail)


def unknown_call(request: Call) -> Value:
    """Something that isn't known computes from tensors: what it gives is likely where they are.

    A module that it is given it may have moved.
    """
    for given in request.everything:
        for site in unmoved_sites(given):
            request.frame.env.move_site(site, NOWHERE, None, likely=True)
    place, trail, _ = combined([leaf for v in [*request.everything, *request.spread] for leaf in leaves(v)])
    if place.sort in (Sort.UNKNOWN, Sort.HOST):
        return UNKNOWN
    return replace(UNKNOWN, place=place, likely=True, trail=trail)


def unmoved_sites(value: Value) -> Iterator[str]:
    """The identities of the modules in a value that stand where they were made."""
    for leaf in leaves(value):
        if leaf.is_module and leaf.place == HOST and leaf.site:
            yield leaf.site


def site_of(request: Call) -> str:
    """The identity of what a call makes: the place of the call."""
    return site_at(request.frame.source.path, request.node)


def site_at(path: str, node: ast.Call) -> str:
    return f"{path}:{node.lineno}:{node.col_offset}"


def is_super(node: ast.Call) -> bool:
    """Whether a call is that of a method of `super()`."""
    func = node.func
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Call)
        and isinstance(func.value.func, ast.Name)
        and func.value.func.id == "super"
    )


def forward(request: Call, module: Value) -> Value:
    """`model(x)`: through the project's own `forward` where there is one."""
    result = _forward(request, module)
    if module.name == "torch.nn.DataParallel" and module.cls is None and not _has_one_device(module):
        return either((g, _gathered(v)) for g, v in result.alternatives())
    return result


def _has_one_device(wrapper: Value) -> bool:
    """`device_ids=[0]`: there is one replica, and nothing to gather."""
    ids = wrapper.elements[0] if wrapper.elements else UNKNOWN
    return ids.elements is not None and len(ids.elements) == 1


def _gathered(value: Value) -> Value:
    """A replica's result as DataParallel hands it on, each part marked as one that several replicas gave."""
    if value.kind in (Kind.TENSOR, Kind.BATCH):
        return replace(value, name=GATHERED)
    if value.elements is not None:
        return replace(value, elements=tuple(_gathered(e) for e in value.elements))
    return value


def _forward(request: Call, module: Value) -> Value:
    inner = module
    while inner.kind is Kind.WRAPPER and inner.inner is not None and not (inner.cls and inner.cls.method("forward")):
        inner = inner.inner
    forward = inner.cls.method("forward") if inner.cls is not None else None
    place, trail, likely = combined([*request.everything, *request.spread])
    # A loss is where the model's output is: what led there says more than how the criterion was made.
    says_no_more = inner.name.endswith("Loss") and module.place == place
    if (
        module.place.sort is not Sort.UNKNOWN
        and not (module.place == HOST and place.sort is not Sort.HOST)
        and not says_no_more
    ):
        place, trail, likely = module.place, module.trail, module.likely
    if place.off_host:
        trail = (*trail, request.step(f"computed there by `{request.text}`"))
    outside = Value(Kind.BATCH, place, likely=True, trail=trail)
    if forward is not None:
        result = request.frame.analysis.functions.call_function(request, forward, inner)
        return either((g, _placed(v, place, trail, outside)) for g, v in result.alternatives())
    if inner.name.startswith("torch.nn.") and inner.name not in MANY_OUTPUTS:
        return Value(Kind.TENSOR, place, likely=likely, trail=trail)
    return outside


# Modules of torch.nn that return more than a tensor.
MANY_OUTPUTS = frozenset(
    {
        "torch.nn.LSTM",
        "torch.nn.GRU",
        "torch.nn.RNN",
        "torch.nn.LSTMCell",
        "torch.nn.MultiheadAttention",
        "torch.nn.Module",
    }
)


def _placed(value: Value, place: Place, trail: tuple[Step, ...], outside: Value) -> Value:
    """A forward's result, with the place of the module where its own isn't known."""
    if value.kind is Kind.UNKNOWN:
        return outside
    if value.kind is Kind.SEQUENCE and value.elements is not None:
        return sequence(_placed(e, place, trail, outside) for e in value.elements)
    if value.kind in (Kind.TENSOR, Kind.BATCH) and value.place.sort in (Sort.UNKNOWN, Sort.SAME):
        return replace(value, place=place, trail=trail)
    return value
