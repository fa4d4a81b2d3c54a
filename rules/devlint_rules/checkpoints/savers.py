"""Who saves in a project, and whether it has anything on an accelerator: what nobody moves is saved from the host."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from devlint.lazy import regex

if TYPE_CHECKING:
    from devlint.facts import PlacementModel


# Each load of a file asks that.
@lru_cache(maxsize=2)
def comes_from_no_mover(model: PlacementModel) -> bool:
    """Whether no file of a project that saves anything moves anything, nor does one that imports such a file.

    Where nothing saves at all, what is read was published by others, who have mostly moved it to the host; what frameworks save for a project isn't seen.
    """
    if not model.has_files_beside(_A_PROJECT):
        return False
    saving = [*([model] if _SAVES.search(model.source.text) else ()), *model.files_matching(_SAVES.pattern)]
    if not saving:
        return not model.texts_match(rf"{_SAVES.pattern}|{_FRAMEWORKS}")
    return not any(_MOVES.search(user.source.text) for file in saving for user in (file, *_users(file)))


def _users(model: PlacementModel) -> list[PlacementModel]:
    """The files that import a file by its name, or by that of its package."""
    name = model.source.file.stem
    return model.files_naming(model.source.file.parent.name if name == "__init__" else name)


# In so many files of code somebody would save, if anybody did.
_A_PROJECT = 10
_SAVES = regex(r"\b(?:torch|th|pt)\.save\b")
_FRAMEWORKS = r"(?i:lightning|\bignite\b|\bfastai\b|\bskorch\b|save_state\b|save_pretrained|save_checkpoint|\bTrainer\(|accelerat|deepspeed|\bmm(?:cv|engine)\b|detectron2|fairseq)"
# What brings something elsewhere, or leaves that to a framework.
_MOVES = regex(
    r"(?i)\.cuda\(|\.to\([^)\n]{0,80}(?:device|cuda|gpu)|accelerat|lightning|\bignite\b|device_map|DataParallel|deepspeed|\bTrainer\(|set_default_device"
)
