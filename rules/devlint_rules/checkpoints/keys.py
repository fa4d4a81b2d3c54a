"""What the rules about the keys of checkpoints have in common."""

from __future__ import annotations

from devlint.facts import Kind, Value

# Text that only code has that deals with the prefix: "module." as a string, a key that is compared with "module", or asked
# for it by a method, or its seven characters cut off. Whoever asks `hasattr(model, "module")` unwraps a model.
STRIPPING = (
    r"""['"]module\.|\[7\s*:\]|consume_prefix_in_state_dict_if_present|"""
    r"""['"]module['"]\s*(?:in\b|[!=]=)|[!=]=\s*['"]module['"]|\.\w+\(\s*['"]module['"]\s*[,)]"""
)
# A file that wraps models and loads into models.
WRAPS_AND_LOADS = r"(?s)\A(?=.*DataParallel\s{0,3}\()(?=.*load_state_dict)"


def state_of(value: Value) -> tuple[Value, bool] | None:
    """(the wrapper that a state dict is of, whether it is one on some paths only); None where it is of none."""
    options = [v for _, v in value.alternatives()]
    wrappers = [
        v.inner for v in options if v.kind is Kind.STATE_DICT and v.inner is not None and v.inner.kind is Kind.WRAPPER
    ]
    return (wrappers[0], len(wrappers) < len(options)) if wrappers else None
