"""DEV605: a device's name without quotes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devlint.facts import MOVES, is_device_name
from devlint.lazy import cst, m
from devlint.rule import Change, Effect, Report, Rule
from devlint_rules.devices.dev610 import diagnosed

if TYPE_CHECKING:
    from devlint.facts import Facts

_NAME = r"(?:cpu|cuda|gpu|mps|xpu|hpu|npu|meta)\d*"
_ENDS = r"\s*(?:[),\n]|\bif\b|\belse\b|$)"


class UnquotedDevice(Rule):
    """A device's name without quotes, such as `.to(cuda)`.

    ## What it does
    Flags `torch.device(cuda)`, `x.to(cpu)`, `device=cuda` and `device = cuda if ... else cpu` where nothing binds the
    name: no assignment, argument, import or `global` in sight, no star import that may bring it, and no code that
    binds names at run time.

    ## Why is this bad
    Devices are named by strings. A name without quotes is a variable, and there is none: `NameError: name 'cuda' is not
    defined`, at the latest where a GPU is there.

    ## Example
    ```python
    import torch

    x = torch.ones(3)
    x = x.to(cuda)
    ```

    ## Use instead
    ```python
    import torch

    x = torch.ones(3)
    x = x.to("cuda")
    ```

    ## Fix safety
    Safe: the name is quoted, and spelt as torch does (`gpu` is `"cuda"`, `cuda0` is `"cuda:0"`).

    ## References
    - [torch.device](https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device)
    """

    code = "DEV605"
    name = "unquoted-device"
    # Each beginning by itself: what begins with characters that are written down is looked for several times as fast.
    trigger = rf"[(=]\s*{_NAME}{_ENDS}|\belse\s\s*{_NAME}{_ENDS}|,\s*{_NAME}\s*\)"
    effect = Effect(raises="NameError", words="name 'cuda' is not defined")
    fix = "S"

    def shape(self) -> m.BaseMatcherNode:
        return m.Name(m.MatchRegex(_NAME))

    def judge(self, node: cst.Name, facts: Facts) -> Iterator[Report]:
        found = facts.node(node)
        if not isinstance(found, ast.Name) or not _is_meant_for_device(found, facts):
            return
        if not facts.model.is_unbound(found):
            return
        yield Report(
            node,
            f"`{node.value}` is no variable here: NameError when it is reached; devices are named by strings",
            change=Change("quote it", "safe", ((node, cst.SimpleString(f'"{_spelt(node.value)}"')),)),
        )


def _is_meant_for_device(found: ast.Name, facts: Facts) -> bool:
    """Whether the name stands where a device is meant, or is one side of a choice there."""
    child: ast.AST = found
    for parent in facts.model.ancestors(found):
        match parent:
            case ast.IfExp(test=test) if child is not test:
                child = parent
            case ast.keyword(arg=name):
                return name in ("device", "map_location", "device_type")
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args):
                return child in args[:1] and (name in MOVES or name in ("device", "set_device", "set_default_device"))
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                return is_device_name(target)
            case _:
                return False
    return False


def _spelt(name: str) -> str:
    """What torch calls the device."""
    fault = diagnosed(name)
    if fault is None or fault.type is None:
        return re.sub(r"(?<!\d)(\d+)$", r":\1", name)
    return f"{fault.type}:{fault.index}" if fault.index else fault.type
