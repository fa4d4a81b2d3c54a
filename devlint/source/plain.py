"""Names that say of what they stand for that it is a plain number."""

from __future__ import annotations

# How names begin, end or read that stand for plain numbers, as everybody calls them: sizes, and the like.
_NUMBERS = frozenset({"pad_idx", "padding_idx", "dim", "eps", "epsilon", "dropout"})
_NUMBERS_BEGIN = ("num_", "n_", "max_len", "max_seq_len")
_NUMBERS_END = ("_size", "_dim", "_eps", "_epsilon", "_rate")


def is_number_name(name: str) -> bool:
    """Whether something is called as plain numbers are."""
    return name in _NUMBERS or name.startswith(_NUMBERS_BEGIN) or name.endswith(_NUMBERS_END)
