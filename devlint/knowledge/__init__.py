"""Facts about torch and its ecosystem, as data.

`torch.json` is generated from an installed torch by tools/generate_knowledge.py; `ecosystem.py` holds by hand what
can't be introspected.
"""

from __future__ import annotations

import json
from functools import cache

from devlint.knowledge import ecosystem
from devlint.knowledge.files import text_of
from devlint.records import record


@record(frozen=True)
class Knowledge:
    """What is known of torch's names.

    Return kinds are `tensor`, `tensors` (a tuple of them), `batch` (tensors in some structure), `scalar`, `ndarray`,
    `device` and `other`.
    """

    torch: str
    functions: dict[str, str]
    factories: frozenset[str]
    tensor_methods: dict[str, str]
    tensor_attributes: dict[str, str]
    modules: frozenset[str]
    # Those of them that have no parameters and buffers as they are made by default.
    stateless: frozenset[str]
    wrappers: dict[str, frozenset[str]]
    optimizers: frozenset[str]
    schedulers: frozenset[str]
    loaders: frozenset[str]


@cache
def torch_knowledge() -> Knowledge:
    """The facts, read once for a process."""
    raw = json.loads(text_of("torch.json"))
    sets = (
        "factories",
        "modules",
        "stateless",
        "optimizers",
        "schedulers",
        "loaders",
    )
    raw |= {key: frozenset(raw[key]) for key in sets}
    raw["wrappers"] = {name: frozenset(attributes) for name, attributes in raw["wrappers"].items()}
    own = raw["wrappers"][ecosystem.DISTRIBUTED]
    raw["wrappers"] |= {name: own | attributes for name, attributes in ecosystem.WRAPPERS.items()}
    raw["modules"] |= ecosystem.MODULE_CLASSES
    raw["loaders"] |= ecosystem.LOADERS
    return Knowledge(**raw)


@cache
def known_names() -> frozenset[str]:
    """The names of all functions, methods and classes that something is known of."""
    known = torch_knowledge()
    methods = (f"torch.Tensor.{name}" for name in known.tensor_methods)
    classes = known.modules | known.wrappers.keys() | known.optimizers | known.schedulers | known.loaders
    functions = known.factories | known.functions.keys() | ecosystem.PASSING_ITERATORS
    return frozenset({*classes, *functions, *methods, *ecosystem.TENSOR_TYPES, "torch.load", "torch.device"})


@cache
def canonical(name: str) -> str:
    """The name under which torch documents something that can be imported from several places.

    `torch.nn.modules.linear.Linear` is `torch.nn.Linear`, `torch.Tensor.cuda` stays.
    """
    if name in ecosystem.ALIASES:
        return ecosystem.ALIASES[name]
    for prefix, public in ecosystem.PRIVATE_PREFIXES:
        if name.startswith(prefix):
            return public + name.rsplit(".", 1)[1]
    return name
