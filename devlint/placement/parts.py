"""What wrappers have of their own, and which layers of torch.nn have parameters: facts that no walk of a program changes."""

from __future__ import annotations

from typing import NamedTuple

from devlint.knowledge import ecosystem, torch_knowledge
from devlint.placement.values import Value


class Missing(NamedTuple):
    """An attribute read from a wrapper that hasn't got it."""

    wrapper: Value
    # It is the wrapper on some paths only.
    sometimes: bool


def wrapper_has(wrapper: Value, name: str) -> bool | None:
    """Whether a wrapper has an attribute of its own; None where its class may find it by other means."""
    if name in torch_knowledge().wrappers.get(wrapper.name, frozenset({name})):
        return True
    cls = wrapper.cls
    if cls is None:
        return False
    if cls.defines(name):
        return True
    others = set(cls.outside_bases) - {wrapper.name, "object", "builtins.object", "typing.Generic"}
    return None if others or cls.defines("__getattr__") or cls.defines("__getattribute__") else False


def has_state(name: str) -> bool:
    """Whether a layer of torch.nn has parameters by itself."""
    knowledge = torch_knowledge()
    return name.startswith("torch.nn.") and name in knowledge.modules - knowledge.stateless - ecosystem.CONTAINERS
