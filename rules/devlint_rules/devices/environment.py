"""The environment variables that say which accelerators a process sees, and where a program reads and sets them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from devlint.facts import Facts

# Read by the driver or the runtime when a process first uses it: of CUDA, ROCm, oneAPI, CANN, and other vendors'.
VARIABLES = frozenset(
    {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK",
     "ONEAPI_DEVICE_SELECTOR", "ASCEND_RT_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES",
     "HABANA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}
)  # fmt: skip


class Access(NamedTuple):
    """A place where the process's own environment is read or set under a literal name."""

    key: ast.Constant
    # What it is set to; None where it is read or removed.
    value: ast.expr | None
    # The call or subscript that does it.
    node: ast.expr


def access_by(key: ast.expr, facts: Facts) -> Access | None:
    """The access to `os.environ` that a string is the name in; None for other strings, and for copies of it."""
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return None
    around = list(facts.model.ancestors(key))[:4]
    match around:
        case [ast.Subscript(value=owner, slice=index) as node, statement, *_] if index is key and _is_environ(
            owner, facts
        ):
            assigned = statement.value if isinstance(statement, ast.Assign) and node in statement.targets else None
            return Access(key, assigned, node)
        case [ast.Call(func=func, args=[first, *rest]) as node, *_] if first is key:
            return _called(key, node, func, rest, facts)
        case [ast.Dict(keys=keys, values=values), ast.Call(func=ast.Attribute(value=owner, attr="update")) as node, *_]:
            return Access(key, values[keys.index(key)], node) if key in keys and _is_environ(owner, facts) else None
    return None


def _called(key: ast.Constant, node: ast.Call, func: ast.expr, rest: list[ast.expr], facts: Facts) -> Access | None:
    if isinstance(func, ast.Attribute) and _is_environ(func.value, facts):
        return Access(key, rest[0] if func.attr == "setdefault" and rest else None, node)
    name = facts.model.value(func).name
    if name in ("os.getenv", "os.putenv", "os.unsetenv"):
        return Access(key, rest[0] if name == "os.putenv" and rest else None, node)
    return None


def _is_environ(owner: ast.expr, facts: Facts) -> bool:
    return facts.model.value(owner).name == "os.environ"
