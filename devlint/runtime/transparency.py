"""Makes PyTorch's Python functions transparent to function modes.

`F.gelu` and its like hand the whole call to an active mode, which then sees nothing of what happens inside. With
these checks in place only C functions reach a mode: each operator, factory and sync by itself, whatever Python
stands between. Tensor subclasses still get the whole call.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from devlint.runtime import compat
from devlint.runtime.virtual.patching import Patches

_PLAIN = compat.PLAIN_TENSORS | {int, float, bool, str, type(None)}
_NAMES = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_disabled: Any = torch._C._disabled_torch_function_impl


def _overrides(value: Any) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return False
    own = getattr(kind, "__torch_function__", None)
    return own is not None and own is not _disabled


def _has(values: Any) -> bool:
    return any(_overrides(value) for value in values)


def _has_unary(value: Any) -> bool:
    return type(value) not in _PLAIN and _overrides(value)


def _has_variadic(*values: Any) -> bool:
    return any(type(value) not in _PLAIN and _overrides(value) for value in values)


_REPLACEMENTS = dict(zip(_NAMES, (_has, _has_unary, _has_variadic), strict=True))


def install(patches: Patches) -> None:
    """Replaces the checks in every torch module that imported them."""
    for module_name, module in list(sys.modules.items()):
        if module is None or not module_name.startswith("torch") or module_name.startswith("torch._dynamo"):
            continue
        names = vars(module) if hasattr(module, "__dict__") else {}
        for name in _NAMES:
            original = names.get(name)
            if original is not None and type(original).__name__ == "builtin_function_or_method":
                patches.set(module, name, _REPLACEMENTS[name])
